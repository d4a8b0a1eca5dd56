"""The one thread of a handle that writes, what it promises, and what it does when an answer is lost.

Everything that waits goes into one transaction, and nobody is told before PostgreSQL has said that it is durable: under
load one commit serves many sagas. Other workers commit at the same time; what keeps them apart is the fence of each
saga, which is a condition on its row, and nothing that all of them would have to queue for.

Each transaction counts itself in the row of its handle. If the connection is lost after COMMIT was sent, nobody knows
whether it took effect; then, before anything else, a new connection waits until the old one's transaction is over and
reads the count.

| trouble                             | the transaction                        | what follows                          |
|-------------------------------------|----------------------------------------|---------------------------------------|
| refused by number or epoch          | the one gets its error, others commit  | goes on                               |
| deadlock, serialisation failure     | rolled back, and tried again           | goes on                               |
| connection lost before COMMIT       | gone with its session; tried again     | reconnects, for as long as `patience` |
| connection lost after COMMIT        | asked about; tried again if not there  | the same                              |
| not reachable for longer than that  | JournalAccessError; asked about later  | the next question tries again         |
| no room, damage, no right           | rolled back, told in our words         | goes on                               |
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import psycopg

from amends.clock import Clock, SystemClock
from amends.errors import AmendsError
from amends.journal.postgres import database as troubles
from amends.journal.postgres.address import PostgresAddress
from amends.journal.postgres.database import OpenDatabase, PostgresDatabase, Value, hexes, integers, texts
from amends.journal.thread import Ask, Inline, Lane, LaneQuestion, Reply, fail

T = TypeVar("T")
R = TypeVar("R")
EntryRow = tuple[int, int, int, str, str, bytes]

LARGEST_BATCH: Final = 1024
TRIES: Final = 20
PATIENCE_S: Final = 60.0
_LAST_PATIENCE_S: Final = 2.0


@dataclass(slots=True)
class PostgresBatch:
    """One transaction, and the entries that go in together at its end.

    `is_end`: a saga came to its end in it, so it is signed. `has_news`: workers elsewhere may have something to do.
    """

    database: PostgresDatabase
    now: Callable[[], int]
    entries: list[EntryRow] = field(default_factory=list[EntryRow])
    is_end: bool = False
    has_news: bool = False
    has_entries: bool = False

    def flush(self) -> None:
        """Let the entries in now. Their place among all is taken when every row is locked that was to be changed."""
        if not self.entries:
            return
        self.database.run(_INSERT, (len(self.entries), self.is_end, self.now(), *self.columns()))
        self.entries = []
        self.has_entries = True

    def columns(self) -> tuple[Value, ...]:
        rows, numbers, ats, names, bodies, hashes = zip(*self.entries, strict=True)
        return integers(rows), integers(numbers), integers(ats), texts(names), texts(bodies), hexes(hashes)


class Several:
    """Questions of one kind that are answered together: each has an answer or a refusal of its own."""

    saga: str
    is_plain = False
    """Nothing but its entries: such are written in one statement, and wait for one answer."""

    def answer(self, batch: PostgresBatch, all_of_them: Sequence[Any]) -> Sequence[int | AmendsError]:
        raise NotImplementedError

    def begin(
        self, batch: PostgresBatch, handle: str, count: int, all_of_them: Sequence[Any]
    ) -> Callable[[], Collection[int]]:
        """Write all of them, which are plain, and count the transaction; then ask for the rows that it changed."""
        raise NotImplementedError

    @property
    def place(self) -> int:
        raise NotImplementedError

    def is_written(self, database: PostgresDatabase) -> bool:
        """Whether it is there, where the answer to a plain one was lost."""
        raise NotImplementedError

    def refusal(self, database: PostgresDatabase) -> AmendsError:
        raise NotImplementedError

    def __call__(self, batch: PostgresBatch) -> int:
        (answer,) = self.answer(batch, [self])
        if isinstance(answer, AmendsError):
            raise answer
        return answer


class PostgresWriter:
    """`commits` counts transactions. `told` hears of each that wrote entries; if any did, `last` is done at the end."""

    def __init__(
        self,
        address: PostgresAddress,
        open_database: OpenDatabase,
        clock: Clock,
        handle: str,
        told: Callable[[], object],
        *,
        last: Callable[[PostgresDatabase], object] = lambda _: None,
        inline: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.commits = 0
        self._address = address
        self._open = open_database
        self._clock = clock
        self._handle = handle
        self._told = told
        self._last = last
        self._wrote = False
        self._patience_s = patience_s
        self._database: PostgresDatabase | None = None
        self._lost: tuple[int, str] | None = None
        self._was_connected = False
        self._count = 0
        self._doubted: int | None = None
        self._pausing = threading.Event()
        self._lane: Lane[PostgresBatch] | Inline[PostgresBatch] = (
            Inline[PostgresBatch](serve=self._serve, rest=lambda: None, leave=self._leave)
            if inline
            else Lane[PostgresBatch](
                "amends-writer", most=LARGEST_BATCH, serve=self._serve, rest=lambda: None, leave=self._leave
            )
        )

    async def ask(self, work: Callable[[PostgresBatch], T]) -> T:
        return await self._lane.ask(work)

    def submit(self, work: Callable[[PostgresBatch], T], finish: Callable[[T], R], answer: Reply[R]) -> None:
        self._lane.submit(Ask(work, answer, finish=finish))

    def hand_over(self) -> None:
        """Have what this turn of the loop submitted written now."""
        self._lane.hand_over()

    def ask_blocking(self, work: Callable[[PostgresBatch], T]) -> T:
        return self._lane.ask_blocking(work)

    def close(self) -> None:
        self._patience_s = min(self._patience_s, _LAST_PATIENCE_S)
        self._pausing.set()
        self._lane.close()

    # -- in its thread ------------------------------------------------------------------------------------------------

    def _serve(self, asks: Sequence[LaneQuestion[PostgresBatch]]) -> None:
        try:
            self._commit(cast("Sequence[Ask[PostgresBatch, Any]]", asks))  # there are no others
        except psycopg.Error as exc:
            fail(asks, troubles.said(self._address, exc))
            self._roll_back()
        except Exception as exc:  # noqa: BLE001 - no connection, or a bug: nobody may be left waiting
            fail(asks, exc)
            self._roll_back()

    def _commit(self, asks: Sequence[Ask[PostgresBatch, Any]]) -> None:
        """In one transaction, tried again as long as that can help."""
        is_old = self._doubted is not None  # of a transaction that nobody waits for any more
        clock, since, tries = SystemClock(), 0.0, 0
        while True:
            try:
                database = self._connected()
                if self._doubted is not None:
                    is_there = self._is_there(database, self._doubted)
                    if is_there and not is_old:
                        self._tell(database, asks, {one.place for one in _plain(asks) if one.is_written(database)})
                    self._doubted = None
                    if is_there and not is_old:
                        return
                    is_old = False
                self._try(database, asks)
                return
            except troubles.AGAIN:
                tries += 1
                self._roll_back()
                if tries > TRIES:
                    raise
                self._pausing.wait(self._clock.jitter() * 0.01 * tries)
            except (psycopg.Error, AmendsError) as exc:
                if not self._is_cut_off(exc):
                    raise
                since = since or clock.elapsed()
                if clock.elapsed() - since > self._patience_s:
                    raise
                tries += 1
                self._pausing.wait(min(0.02 * 2**tries, 0.5))

    def _try(self, database: PostgresDatabase, asks: Sequence[Ask[PostgresBatch, Any]]) -> None:
        for ask in asks:
            ask.result = ask.trouble = None
        count = self._count + 1
        batch, plain = PostgresBatch(database, self._clock.now), _plain(asks)
        changed: Callable[[], Collection[int]] | None = None
        try:
            with database.together():
                database.run("BEGIN")
                if plain:
                    changed = plain[0].begin(batch, self._handle, count, plain)
                else:
                    database.run(COUNT, (self._handle, count))
                    _answer(batch, asks)
                    batch.flush()
                self._doubted = count
                database.commit()
            found = () if changed is None else changed()
        except psycopg.Error:
            if not database.is_lost:
                self._doubted = None  # it was answered: with no
            raise
        self._doubted, self._count = None, count
        self._tell(database, asks, found)
        self.commits += 1
        if batch.has_entries:
            self._wrote = True
            self._told()
        if batch.has_news:
            with suppress(psycopg.Error):  # who does not hear of it looks for it, a little later
                database.run(_NOTIFY)

    def _tell(
        self, database: PostgresDatabase, asks: Sequence[Ask[PostgresBatch, Any]], changed: Collection[int]
    ) -> None:
        """Answer what was plain, by the rows that were changed; all else has its answer."""
        for ask, work in zip(asks, _plain(asks), strict=False):
            if work.place in changed:
                ask.result = work.place
                continue
            try:
                ask.trouble = work.refusal(database)
            except psycopg.Error as exc:  # it is refused all the same; why, nobody knows
                ask.trouble = troubles.said(self._address, exc)

    def _connected(self) -> PostgresDatabase:
        if self._database is None:
            database = self._open()
            if self._lost is not None:
                database.end_backend(self._lost)
                self._lost = None
            self._database, self._was_connected = database, True
        return self._database

    def _is_cut_off(self, trouble: Exception) -> bool:
        """Whether the connection is gone, or goes to a server that may not write any more; then a new one is needed."""
        database = self._database
        if isinstance(trouble, psycopg.errors.ReadOnlySqlTransaction) or (database is not None and database.is_lost):
            if database is not None:
                self._lost = database.backend
                database.close()
                self._database = None
            return True
        return database is None and isinstance(trouble, troubles.UNREACHABLE) and self._was_connected

    def _is_there(self, database: PostgresDatabase, count: int) -> bool:
        """Whether a transaction of ours was committed. It waits until that is certain."""
        found = database.first(_COUNTED, (self._handle,))
        is_there = found is not None and int(found[0]) >= count
        if is_there:
            self._count = count
            self.commits += 1
            self._wrote = True
            self._told()
        return is_there

    def _roll_back(self) -> None:
        if self._database is not None:
            self._database.roll_back()

    def _leave(self) -> None:
        database = self._database
        if database is None:
            return
        with suppress(psycopg.Error, AmendsError):  # what was acknowledged is safe, and others number and sign it
            if self._wrote:
                self._last(database)
            if self._count:
                database.run("DELETE FROM writer WHERE id = %s", (self._handle,))
        database.close()


def _plain(asks: Sequence[Ask[PostgresBatch, Any]]) -> list[Several]:
    """All that is asked, where it is plain and each of another saga; else nothing."""
    works = [ask.work for ask in asks if isinstance(ask.work, Several) and ask.work.is_plain]
    return works if len(works) == len(asks) == len({work.saga for work in works}) else []


def _answer(batch: PostgresBatch, asks: Sequence[Ask[PostgresBatch, Any]]) -> None:
    """Answer in the order of asking; neighbours of the kind that goes together are answered together."""
    group: list[Ask[PostgresBatch, Any]] = []
    sagas: set[str] = set()
    for ask in asks:
        work = ask.work
        if isinstance(work, Several) and work.saga not in sagas:
            group.append(ask)
            sagas.add(work.saga)
            continue
        _answer_group(batch, group)
        group, sagas = [], set()
        if isinstance(work, Several):
            group, sagas = [ask], {work.saga}
        else:
            ask.answer(batch)
    _answer_group(batch, group)


def _answer_group(batch: PostgresBatch, group: Sequence[Ask[PostgresBatch, Any]]) -> None:
    if not group:
        return
    works: list[Any] = [ask.work for ask in group]
    for ask, answer in zip(group, works[0].answer(batch, works), strict=True):
        if isinstance(answer, AmendsError):
            ask.trouble = answer
        else:
            ask.result = answer


COUNT: Final = """
    INSERT INTO writer (id, commits, at) VALUES (%s, %s, clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET commits = excluded.commits, at = excluded.at
"""
_COUNTED: Final = """
    INSERT INTO writer (id, commits, at) VALUES (%s, 0, clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET at = excluded.at RETURNING commits
"""
_INSERT: Final = """
    WITH made AS (INSERT INTO batch (count, is_end, at) VALUES (%s, %s, %s) RETURNING id)
    INSERT INTO entry (saga, number, at, name, body, hash, batch, place)
    SELECT one.saga, one.number, one.at, one.name, one.body, one.hash, made.id, one.place - 1
      FROM made CROSS JOIN unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::bytea[])
           WITH ORDINALITY AS one (saga, number, at, name, body, hash, place)
"""
_NOTIFY: Final = "SELECT pg_notify('amends', '')"
