"""The sequencer: it gives committed entries their positions in the log, grows the tree over them, and signs.

An append commits with its saga's chain, fenced by its saga alone: if each one took the end of the log as well, all
workers would queue for each other's commits. So positions are given afterwards, to whole batches, by one of them.

Invariants:
- an entry's position comes after those of all that its author can have known: a batch takes its own number when it has
  locked every row that it changes, batches are numbered in that order, and each round numbers all or the oldest of
  those that one statement sees;
- one statement gives the positions, moves the tree and keeps the signature, and only if the tree is still as it was
  when it was read. So no gap and no fork can come of two that number at once, of one that sleeps, or of one that dies:
  whoever comes second finds another tree, and begins anew;
- a position is visible when it is durable, and not before.

Who numbers is elected by a lease on the tree's row, by the database's clock, so that not everybody tries: any worker
may be it, and a dead one is replaced within about a second. Whoever reads the log and finds entries without a position
gives them one itself: what was acknowledged before the question is in the answer. Whoever numbers and has no key leaves
a note that a signature is owed, and any other one who has the key signs, within about a second: its lease goes on, so
nobody could wait for that to end.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import psycopg

from amends.clock import Clock
from amends.errors import AmendsError, EvidenceError, JournalDamagedError
from amends.journal.port import refusals
from amends.journal.port.evidence import Notary, Pace, TreeHead, origin_of
from amends.journal.postgres.address import PostgresAddress
from amends.journal.postgres.database import OpenDatabase, PostgresDatabase, hexes, integers
from amends.journal.postgres.writer import PostgresBatch
from amends.journal.tree import HASH_BYTES, Tree
from amends.logs import logger

POLL_S: Final = 0.2
LEASE_S: Final = 1.0
MOST: Final = 1_000
"""So many batches are numbered by one statement."""

_log = logger("amends.journal")


class _Stand(NamedTuple):
    """The tree's row."""

    size: int
    kept: bytes
    signed: int
    since: int
    owed: bool


class _Round(NamedTuple):
    """A number of batches with their positions, and what comes of it."""

    ids: list[int]
    firsts: list[int]
    subtrees: list[tuple[int, int, bytes]]
    tree: Tree
    due: Tree | None
    """The tree at the last place where a checkpoint was due."""


class Sequencer:
    """Of one handle. `number` is for any thread with a connection of its own."""

    def __init__(self, notary: Notary | None, pace: Pace, clock: Clock, handle: str) -> None:
        self.notary = notary
        self._pace = pace
        self._clock = clock
        self._handle = handle
        self._gate = threading.Lock()
        self._looks_at = 0.0

    def number(self, database: PostgresDatabase) -> None:
        """Give positions to everything that is committed."""
        with self._gate:
            while self._number_some(database):
                pass

    def seal(self, database: PostgresDatabase) -> None:
        """Number everything, and sign where that stands, if it is not signed yet."""
        with self._gate:
            while self._number_some(database) or self._sign(database):
                pass

    def sign_owed(self, database: PostgresDatabase) -> None:
        """Sign in the place of one that numbers and has no key, where that is owed; looked at once in a second."""
        now = self._clock.elapsed()
        if self.notary is None or now < self._looks_at:
            return
        self._looks_at = now + LEASE_S
        with self._gate:
            if stand_of(database).owed:
                self._sign(database)

    def _number_some(self, database: PostgresDatabase) -> bool:
        """Number some, or sign what is owed; whether there may be more."""
        stand = stand_of(database)
        waiting = database.rows(_WAITING, (MOST,))
        if not waiting:
            return stand.owed and self._sign(database)
        made = self._round(stand, waiting)
        note, at = None, self._clock.now()
        owed = stand.owed
        if made.due is not None:
            note = self._note(database, made.due, at)
            owed = note is None and not self._has_key(database)
        head = None if note is None or made.due is None else TreeHead(made.due.size, at, note)
        _moved(database, stand, made.tree, head, owed=owed, made=made)
        return True

    def _round(self, stand: _Stand, waiting: Sequence[tuple[int, int, bool, bytes | None]]) -> _Round:
        tree, due = Tree.read(stand.size, stand.kept), None
        signed, since, now = stand.signed, stand.since, self._clock.now()
        ids, firsts, subtrees = list[int](), list[int](), list[tuple[int, int, bytes]]()
        for batch, count, is_end, hashes in waiting:
            spelled = bytes(hashes or b"")
            if len(spelled) != count * HASH_BYTES:
                raise JournalDamagedError(
                    f"batch {batch} has {count} entries, and {len(spelled) // HASH_BYTES} are there; keep a copy and "
                    "restore a backup"
                )
            ids.append(batch)
            firsts.append(tree.size + 1)
            subtrees += tree.extend(spelled[place : place + HASH_BYTES] for place in range(0, len(spelled), HASH_BYTES))
            if is_end or self._pace.is_due(tree.size - signed, now - since):
                due, signed, since = tree.copy(), tree.size, now
        return _Round(ids, firsts, subtrees, tree, due)

    def _sign(self, database: PostgresDatabase) -> bool:
        """Sign where the tree stands, if something came since; whether it was."""
        stand = stand_of(database)
        if stand.size == stand.signed:
            return False
        tree, at = Tree.read(stand.size, stand.kept), self._clock.now()
        note = self._note(database, tree, at)
        if note is None:
            return False
        return _moved(database, stand, tree, TreeHead(tree.size, at, note), owed=False)

    def _note(self, database: PostgresDatabase, tree: Tree, at: int) -> str | None:
        """A signature; None where there is no key here, or it cannot be used: then the next one tries."""
        key = newest_key(database)
        if self.notary is None or key is None:
            return None
        try:
            return self.notary.sign(key, tree.size, tree.root, at) if self.notary.holds(key) else None
        except EvidenceError:
            return None

    def _has_key(self, database: PostgresDatabase) -> bool:
        key = newest_key(database)
        try:
            return self.notary is not None and key is not None and self.notary.holds(key)
        except EvidenceError:
            return False

    # -- keys ---------------------------------------------------------------------------------------------------------

    def adopt(self, batch: PostgresBatch, origin: str, *, may_differ: bool) -> None:
        """Take the notary's key for the journal's, where it has none; else check it, and what was signed last.

        `may_differ`: the key was not chosen by anybody; where it is another one, this handle does not sign.
        """
        database, notary = batch.database, self.notary
        if notary is None:
            return
        database.rows("SELECT 1 FROM tree FOR UPDATE")  # of those who open it first at once one gives it its key
        key = newest_key(database)
        if key is None:
            at = self._clock.now()
            _add_signer(database, notary.public(origin), at, "")
            database.run("UPDATE tree SET since = %s", (at,))
            return
        if _holds(notary, key, may_differ=may_differ):
            _check_newest(database, notary, key)
        elif may_differ:
            self.notary = None
        else:
            raise refusals.not_held(key)

    def hand_over(self, batch: PostgresBatch, heir: Notary, origin: str) -> TreeHead:
        """Let another notary sign from here on."""
        database, at = batch.database, self._clock.now()
        database.rows("SELECT 1 FROM tree FOR UPDATE")
        stand, key = stand_of(database), newest_key(database)
        tree = Tree.read(stand.size, stand.kept)
        if key is None:
            key = heir.public(origin)
            _add_signer(database, key, at, "")
            note = heir.sign(key, tree.size, tree.root, at)
        elif self.notary is not None and not self.notary.holds(key):
            raise refusals.not_held(key)
        else:
            note, record = heir.succeed(self.notary, key, tree.size, tree.root, at)
            _add_signer(database, heir.public(origin_of(key)), at, record)
        head = TreeHead(tree.size, at, note)
        _moved(database, stand, tree, head, owed=False)
        return head


class SequencerThread:
    """Takes the lease where it is free, numbers while it has it, and hears what other workers say. A daemon: whoever
    forgets to close it is replaced like any that died.
    """

    def __init__(
        self, address: PostgresAddress, open_database: OpenDatabase, sequencer: Sequencer, handle: str
    ) -> None:
        self.is_elected = False
        self.news: Callable[[], object] | None = None
        self._address = address
        self._open = open_database
        self._sequencer = sequencer
        self._handle = handle
        self._stopping = threading.Event()
        self._bell, self._ring = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="amends-sequencer", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something was committed here."""
        if self.is_elected:
            self._strike()

    def _strike(self) -> None:
        with suppress(OSError):  # full: it is being woken anyhow
            os.write(self._ring, b".")

    def stop(self) -> None:
        if not self._stopping.is_set():
            self._stopping.set()
            self._strike()
            self._thread.join()
            os.close(self._bell)
            os.close(self._ring)

    def _run(self) -> None:
        while not self._stopping.is_set():
            database: PostgresDatabase | None = None
            try:
                database = self._open()
                database.run("LISTEN amends")
                self._work(database)
            except (psycopg.Error, AmendsError, OSError) as exc:
                if not self._stopping.is_set():
                    _log.info("the log of %s could not be numbered just now: %s", self._address, _told(exc))
            finally:
                self.is_elected = False
                if database is not None:
                    self._resign(database)
            self._stopping.wait(POLL_S)

    def _work(self, database: PostgresDatabase) -> None:
        while not self._stopping.is_set():
            self.is_elected = self._elected(database)
            if self.is_elected:
                self._sequencer.number(database)
            else:
                self._sequencer.sign_owed(database)
            self._stopping.wait(_REST_S)
            select.select([database.raw.fileno(), self._bell], [], [], POLL_S)
            with suppress(BlockingIOError):
                os.read(self._bell, 65_536)
            heard = list(database.raw.notifies(timeout=0))
            if heard and self.news is not None:
                self.news()

    def _elected(self, database: PostgresDatabase) -> bool:
        (is_mine, left) = database.first(_WHOSE, (self._handle,)) or (False, 0.0)
        if is_mine and left > LEASE_S / 2:
            return True
        if not is_mine and left > 0:
            return False
        with database.raw.transaction():
            database.run("SET LOCAL synchronous_commit = off")  # a lease that a crash forgets is only taken again
            return database.changed(_TAKE, (self._handle, LEASE_S, self._handle)) > 0

    def _resign(self, database: PostgresDatabase) -> None:
        with suppress(psycopg.Error):
            database.run("UPDATE tree SET sequencer = '', until = 0 WHERE sequencer = %s", (self._handle,))
        database.close()


def _told(trouble: Exception) -> str:
    return str(trouble).partition("\n")[0]


def stand_of(database: PostgresDatabase) -> _Stand:
    found = database.first("SELECT size, kept, signed, since, owed FROM tree")
    if found is None:
        raise JournalDamagedError("the tree over the entries is gone; keep a copy and restore a backup")
    size, kept, signed, since, owed = found
    return _Stand(size, bytes(kept), signed, since, owed)


def newest_key(database: PostgresDatabase) -> str | None:
    found = database.first("SELECT key FROM signer ORDER BY id DESC LIMIT 1")
    return None if found is None else str(found[0])


def _add_signer(database: PostgresDatabase, key: str, at: int, note: str) -> None:
    database.run("INSERT INTO signer (key, at, note) VALUES (%s, %s, %s)", (key, at, note))


def _holds(notary: Notary, key: str, *, may_differ: bool) -> bool:
    try:
        return notary.holds(key)
    except EvidenceError:
        if may_differ:
            return False
        raise


def _check_newest(database: PostgresDatabase, notary: Notary, key: str) -> None:
    found = database.first("SELECT size, note FROM checkpoint ORDER BY size DESC LIMIT 1")
    if found is None:
        return
    size, note = found
    try:
        said, root = notary.read(key, note)
    except EvidenceError as exc:
        raise JournalDamagedError(f"the newest checkpoint, of {size} entries, does not verify: {exc}") from None
    stand = stand_of(database)
    tree = Tree.read(stand.size, stand.kept)
    if said != size or size > tree.size or (size == tree.size and root != tree.root):
        raise JournalDamagedError(
            f"{said} entries were signed, and the {tree.size} that are there are not those; "
            "keep a copy, and see which: amends evidence verify"
        )


def _moved(
    database: PostgresDatabase,
    stand: _Stand,
    tree: Tree,
    head: TreeHead | None,
    *,
    owed: bool,
    made: _Round | None = None,
) -> bool:
    """Move the tree, with everything that belongs to it, unless somebody else has; whether it was moved."""
    subtrees = [] if made is None else made.subtrees
    found = database.first(
        _MOVE,
        {
            "old_size": stand.size,
            "old_signed": stand.signed,
            "old_owed": stand.owed,
            "size": tree.size,
            "kept": tree.spelled(),
            "signed": stand.signed if head is None else head.size,
            "since": stand.since if head is None else head.at,
            "owed": owed,
            "ids": integers([] if made is None else made.ids),
            "firsts": integers([] if made is None else made.firsts),
            "heights": integers([height for height, _, _ in subtrees]),
            "places": integers([place for _, place, _ in subtrees]),
            "hashes": hexes([hashed for _, _, hashed in subtrees]),
            "head_size": None if head is None else head.size,
            "head_at": None if head is None else head.at,
            "head_note": None if head is None else head.note,
        },
    )
    return found is not None and bool(found[0])


_REST_S: Final = 0.1
"""Between two rounds. Each is a commit, for which whoever writes just then waits; a round is at once after a pause."""
_WAITING: Final = """
    SELECT batch.id, batch.count, batch.is_end,
           (SELECT string_agg(hash, ''::bytea ORDER BY place) FROM entry WHERE entry.batch = batch.id)
      FROM batch WHERE first IS NULL ORDER BY batch.id LIMIT %s
"""
_MOVE: Final = """
    WITH moved AS (
        UPDATE tree SET size = %(size)s, kept = %(kept)s, signed = %(signed)s, since = %(since)s, owed = %(owed)s
         WHERE id = 1 AND size = %(old_size)s AND signed = %(old_signed)s AND owed = %(old_owed)s RETURNING 1
    ), numbered AS (
        UPDATE batch SET first = one.first
          FROM moved, unnest(%(ids)s::bigint[], %(firsts)s::bigint[]) AS one (id, first)
         WHERE batch.id = one.id
    ), grown AS (
        INSERT INTO subtree (height, place, hash)
        SELECT one.height, one.place, one.hash
          FROM moved, unnest(%(heights)s::int[], %(places)s::bigint[], %(hashes)s::bytea[]) AS one (height, place, hash)
            ON CONFLICT (height, place) DO UPDATE SET hash = excluded.hash
    ), signed AS (
        INSERT INTO checkpoint (size, at, note)
        SELECT %(head_size)s::bigint, %(head_at)s::bigint, %(head_note)s::text FROM moved
         WHERE %(head_size)s::bigint IS NOT NULL
            ON CONFLICT (size) DO UPDATE SET at = excluded.at, note = excluded.note
    )
    SELECT count(*) FROM moved
"""
_WHOSE: Final = "SELECT sequencer = %s, until - extract(epoch FROM clock_timestamp())::float8 FROM tree"
_TAKE: Final = """
    UPDATE tree SET sequencer = %s, until = extract(epoch FROM clock_timestamp())::float8 + %s::float8
     WHERE sequencer = %s OR until <= extract(epoch FROM clock_timestamp())::float8
"""
