"""The tree over all entries and its signed checkpoints, as rows that the writer changes with the entries they cover.

An entry gets its place in the journal here, at the end of its transaction: the tree's size, plus one. Where several
programs write, each has the file to itself while it does, so one look at the tree's size says whether another came
between; only then is the row read anew. A checkpoint costs a signature and one more row, never a commit of its own:

| a checkpoint is due             | why then                                                                     |
|---------------------------------|------------------------------------------------------------------------------|
| a saga ended, or needs a person | that is when somebody will ask for evidence                                  |
| so many entries, or so long     | what is not signed yet stays little; any transaction will do, a lease's too  |
| the journal is closed           | nothing of what this handle wrote is left unsigned (this one is a commit)    |

A journal has one key at a time. Whoever holds another one, because the key was changed meanwhile, does not sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from amends.errors import EvidenceError, JournalDamagedError
from amends.journal.port import refusals
from amends.journal.port.evidence import Notary, Pace, TreeHead, origin_of
from amends.journal.sqlite.database import Database
from amends.journal.tree import Tree

EntryRow = tuple[int, int, int, str, str, bytes]


@dataclass(slots=True)
class Stand:
    """Where the tree stands; how much of it is signed, and since when."""

    tree: Tree
    signed: int
    since: int

    def copy(self) -> Stand:
        return Stand(self.tree.copy(), self.signed, self.since)


class Attestation:
    """Of one writer. What it remembers is what was committed last; a transaction works on a copy."""

    def __init__(self, notary: Notary | None, pace: Pace, *, now: Callable[[], int], new_id: Callable[[], str]) -> None:
        self._notary = notary
        self._heir: Notary | None = None
        self._pace = pace
        self._now = now
        self._new_id = new_id
        self._kept: Stand | None = None
        self._changed: Stand | None = None

    # -- within a transaction -----------------------------------------------------------------------------------------

    def stand(self, database: Database) -> Stand:
        """Where it stands inside this transaction."""
        if self._changed is None:
            size, kept = tree_row(database)
            if self._kept is None or self._kept.tree.size != size:  # the first time, or another program came between
                self._kept = Stand(Tree.read(size, kept), *_signed(database))
            self._changed = self._kept.copy()
        return self._changed

    def grow(self, database: Database, entries: Sequence[EntryRow]) -> None:
        """Put the entries into the journal, and into the tree.

        Where the tree stands is remembered, and looked at only where its row says that another program came between.
        """
        if self._changed is None and self._kept is not None:
            supposed = self._kept.copy()
            if _is_grown(database, supposed.tree, entries):
                self._changed = supposed
                return
        if not _is_grown(database, self.stand(database).tree, entries):
            raise JournalDamagedError("the tree over the entries changed in the middle of a transaction")

    def sign(self, database: Database, *, is_end: bool) -> None:
        """Sign what has come since the last checkpoint, if it is time. Where the notary cannot, the next one tries."""
        stand = self._changed or self._kept
        if self._notary is None or stand is None or stand.tree.size == stand.signed:
            return
        at = self._now()
        if not is_end and not self._pace.is_due(stand.tree.size - stand.signed, at - stand.since):
            return
        stand = self.stand(database)
        key = newest_key(database)
        if stand.tree.size == stand.signed or key is None:
            return
        try:
            if self._notary.holds(key):
                note = self._notary.sign(key, stand.tree.size, stand.tree.root, at)
                self._keep(database, stand, at, note)
        except EvidenceError:
            return

    def adopt(self, database: Database) -> None:
        """Take the notary's key for the journal's, where it has none; else check it, and what was signed last."""
        if self._notary is None:
            return
        key = newest_key(database)
        if key is None:
            self._begin(database, self._notary)
        elif not self._notary.holds(key):
            raise refusals.not_held(key)
        else:
            self._check_newest(database, self._notary, key)

    def hand_over(self, database: Database, heir: Notary) -> TreeHead:
        """Let another notary sign from here on."""
        stand = self.stand(database)
        at = self._now()
        key = newest_key(database)
        if key is None:
            note = heir.sign(self._begin(database, heir), stand.tree.size, stand.tree.root, at)
        elif self._notary is not None and not self._notary.holds(key):
            raise refusals.not_held(key)
        else:
            note, record = heir.succeed(self._notary, key, stand.tree.size, stand.tree.root, at)
            self._add_signer(database, heir.public(origin_of(key)), at, record)
        self._keep(database, stand, at, note)
        self._heir = heir
        return TreeHead(stand.tree.size, at, note)

    # -- around it ----------------------------------------------------------------------------------------------------

    def committed(self) -> None:
        self._kept, self._changed = self._changed or self._kept, None
        self._notary, self._heir = self._heir or self._notary, None

    def rolled_back(self) -> None:
        self._changed = self._heir = None

    @property
    def is_unsigned(self) -> bool:
        """Whether this writer left something that nobody has signed."""
        return self._notary is not None and self._kept is not None and self._kept.tree.size > self._kept.signed

    # -- its own ------------------------------------------------------------------------------------------------------

    def _begin(self, database: Database, notary: Notary) -> str:
        key = notary.public(f"amends/{self._new_id()}")
        self._add_signer(database, key, self._now(), "")
        return key

    def _add_signer(self, database: Database, key: str, at: int, note: str) -> None:
        database.run("INSERT INTO signer (key, at, note) VALUES (?, ?, ?)", (key, at, note))

    def _keep(self, database: Database, stand: Stand, at: int, note: str) -> None:
        size = stand.tree.size
        database.run("INSERT OR REPLACE INTO checkpoint (size, at, note) VALUES (?, ?, ?)", (size, at, note))
        stand.signed, stand.since = size, at

    def _check_newest(self, database: Database, notary: Notary, key: str) -> None:
        found = database.first("SELECT size, note FROM checkpoint ORDER BY size DESC LIMIT 1")
        if found is None:
            return
        size, note = found
        try:
            said, root = notary.read(key, note)
        except EvidenceError as exc:
            raise JournalDamagedError(f"the newest checkpoint, of {size} entries, does not verify: {exc}") from None
        tree = Tree.read(*tree_row(database))
        if said != size or size > tree.size or (size == tree.size and root != tree.root):
            raise JournalDamagedError(
                f"{said} entries were signed, and the {tree.size} that are there are not those; "
                "keep a copy of the file, and see which: amends evidence verify"
            )


def _is_grown(database: Database, tree: Tree, entries: Sequence[EntryRow]) -> bool:
    """Whether the entries are in, and in the tree; if the journal's is of another size than this one, nothing is."""
    size = tree.size
    rows = [(place, *entry) for place, entry in enumerate(entries, size + 1)]
    full = tree.extend([entry[5] for entry in entries])
    if not database.run("UPDATE tree SET size = ?, kept = ? WHERE size = ?", (tree.size, tree.spelled(), size)):
        return False
    if full:
        database.run_many(_KEEP, full)
    database.run_many(_INSERT, rows)
    return True


def keep_subtrees(database: Database) -> None:
    """Keep of the tree what its proofs are made from, in a file from before that was kept. Where an entry is missing,
    that is for others to say, and nothing is kept from there on.
    """
    tree = Tree()
    with database.each("SELECT seq, hash FROM entry ORDER BY seq") as entries:
        for position, hashed in entries:
            if position != tree.size + 1:
                return
            if full := tree.extend([hashed]):
                database.run_many(_KEEP, full)


def tree_row(database: Database) -> tuple[int, bytes]:
    found = database.first("SELECT size, kept FROM tree")
    if found is None:
        raise JournalDamagedError("the tree over the entries is gone; keep a copy of the file and restore a backup")
    size, kept = found
    return size, kept


def newest_key(database: Database) -> str | None:
    found = database.first("SELECT key FROM signer ORDER BY id DESC LIMIT 1")
    return None if found is None else str(found[0])


def _signed(database: Database) -> tuple[int, int]:
    """How much is signed, and since when; nothing, since there is a key."""
    found = database.first(
        """
        SELECT size, at FROM checkpoint UNION ALL SELECT 0, at FROM (SELECT at FROM signer ORDER BY id LIMIT 1)
         ORDER BY size DESC LIMIT 1
        """
    )
    return (0, 0) if found is None else (found[0], found[1])


_KEEP: Final = "INSERT OR REPLACE INTO subtree (height, place, hash) VALUES (?, ?, ?)"
_INSERT: Final = "INSERT INTO entry (seq, saga, number, at, name, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"
