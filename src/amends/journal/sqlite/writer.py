"""The one thread that writes, and what it promises.

Everything that waits goes into one transaction, and nobody is told before it is on disk: under load one fsync serves
many sagas, and alone an append costs exactly one.

Invariants:
- `BEGIN IMMEDIATE`, so that a transaction never finds out half-way that it may not write;
- a request that is refused (another entry came first, the lease has ended) has changed nothing yet when it is
  refused, so the others of its batch are not touched;
- an answer is given after COMMIT has returned, never before;
- the tree over all entries, and what is signed of it, change with the entries (see attest.py).

| trouble                        | the batch                                | what follows                            |
|--------------------------------|------------------------------------------|-----------------------------------------|
| refused by number or epoch     | the one gets its error, the rest commits | goes on                                 |
| no room (SQLITE_FULL)          | rolled back, JournalFullError            | goes on; works again once there is room |
| held by another program        | JournalBusyError                         | goes on                                 |
| I/O error, a failed fsync      | JournalStoppedError: may be on disk      | refuses everything until a restart      |
| damage                         | rolled back, JournalDamagedError         | goes on                                 |
| a bug of ours                  | rolled back, told as it is               | goes on                                 |

After a failed fsync the kernel may drop the pages and report success the next time, so trying again would lie.
Checkpoints are made here too, after the batch has been told, and an I/O error in one stops the writer as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import apsw

from amends.errors import JournalStoppedError
from amends.journal.sqlite import database as troubles
from amends.journal.sqlite.attest import Attestation, EntryRow
from amends.journal.sqlite.database import Database
from amends.journal.thread import NOBODY, Ask, Inline, Lane, LaneQuestion, fail

T = TypeVar("T")
R = TypeVar("R")

LARGEST_BATCH: Final = 1024
CHECKPOINT_PAGES: Final = 1000


@dataclass(slots=True)
class Batch:
    """One transaction, and the entries that go in together at its end.

    `is_end`: a saga came to its end in it, so it is signed. `cuts_log`: what the log still holds of it has to go.
    """

    database: Database
    attestation: Attestation
    entries: list[EntryRow] = field(default_factory=list[EntryRow])
    is_end: bool = False
    cuts_log: bool = False

    def flush(self) -> None:
        """Let the entries in now, for a question that needs them in their place."""
        if self.entries:
            self.attestation.grow(self.database, self.entries)
            self.entries = []


class Writer:
    """`commits` counts transactions; `stopped` says why there will be no more."""

    def __init__(
        self, path: Path, open_file: Callable[[], Database], attestation: Attestation, *, inline: bool = False
    ) -> None:
        self.commits = 0
        self.stopped: JournalStoppedError | None = None
        self._path = path
        self._open_file = open_file
        self._attestation = attestation
        self._database: Database | None = None
        self._log_pages = 0
        self._cuts_log = False
        self._checkpoint_at = CHECKPOINT_PAGES
        self._lane: Lane[Batch] | Inline[Batch] = (
            Inline[Batch](serve=self._serve, rest=self._checkpoint, leave=self._leave)
            if inline
            else Lane[Batch](
                "amends-writer", most=LARGEST_BATCH, serve=self._serve, rest=self._checkpoint, leave=self._leave
            )
        )

        self.submit = self._lane.submit

    async def ask(self, work: Callable[[Batch], T]) -> T:
        return await self._lane.ask(work)

    def hand_over(self) -> None:
        """Have what this turn of the loop submitted written now."""
        self._lane.hand_over()

    def ask_blocking(self, work: Callable[[Batch], T]) -> T:
        return self._lane.ask_blocking(work)

    def close(self) -> None:
        self._lane.close()

    def _serve(self, asks: Sequence[LaneQuestion[Batch]]) -> None:
        trouble: Exception | None = self.stopped
        if trouble is None:
            try:
                self._commit(asks)
            except apsw.IOError as exc:
                trouble = self._stop(exc)
            except apsw.Error as exc:
                trouble = troubles.said(self._path, exc)
            except Exception as exc:  # noqa: BLE001 - the file would not open, or a bug: nobody may be left waiting
                trouble = exc
        if trouble is not None:
            fail(asks, trouble)
            self._roll_back()

    def _commit(self, asks: Sequence[LaneQuestion[Batch]]) -> None:
        database = self._database or self._opened()
        database.run("BEGIN IMMEDIATE")
        batch = Batch(database, self._attestation)
        for ask in asks:
            ask.answer(batch)
        batch.flush()
        self._attestation.sign(database, is_end=batch.is_end)
        database.run("COMMIT")
        self._attestation.committed()
        self.commits += 1
        self._cuts_log = self._cuts_log or batch.cuts_log

    def _opened(self) -> Database:
        database = self._database = self._open_file()
        database.watch_log(self._note_log)
        return database

    def _note_log(self, pages: int) -> None:
        if pages < self._log_pages:  # it was begun anew
            self._checkpoint_at = CHECKPOINT_PAGES
        self._log_pages = pages

    def _roll_back(self) -> None:
        self._attestation.rolled_back()
        if self._database is not None:
            try:
                self._database.roll_back()
            except apsw.Error as exc:
                self._stop(exc)

    def _stop(self, trouble: apsw.Error) -> JournalStoppedError:
        self.stopped = troubles.stopped(self._path, trouble)
        return self.stopped

    def _checkpoint(self) -> None:
        """Move what is in the write-ahead log to its place, now that nobody waits for it."""
        due = self._cuts_log or self._log_pages >= self._checkpoint_at
        if self._database is None or self.stopped or not due:
            return
        self._checkpoint_at = self._log_pages + CHECKPOINT_PAGES
        try:
            self._database.checkpoint(cut=self._cuts_log)
            self._cuts_log = False
        except apsw.IOError as exc:
            self._stop(exc)
        except apsw.Error:
            pass  # busy, or no room: all of it is safe in the log, and the next one will try

    def _leave(self) -> None:
        if self._attestation.is_unsigned and self.stopped is None:
            self._serve([Ask(_end, NOBODY)])
        if self._database is not None:
            with suppress(apsw.Error):  # what was acknowledged is in the log, and whoever opens next finds it there
                self._database.close()


def _end(batch: Batch) -> None:
    """The last question of all: have what is left signed."""
    batch.is_end = True
