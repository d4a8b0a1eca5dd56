"""One connection to the file, with the few words that the journal needs; the only place that runs statements.

What a query returns is taken for what the schema says it is, since every table is STRICT.

SQLite's errors become the journal's words here: whose turn it is to act, on which file, and how.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, cast

import apsw

from amends.errors import (
    JournalAccessError,
    JournalBusyError,
    JournalDamagedError,
    JournalError,
    JournalFullError,
    JournalMovedError,
    JournalStoppedError,
)
from amends.journal.port.transfer import CopyMark

Value = str | int | float | bytes | None
Values = Sequence[Value] | Mapping[str, Value]
Row = tuple[Any, ...]


def one_line(sql: str) -> str:
    """A statement without its indentation: each time that it runs, SQLite's binding looks for it by all its letters."""
    return " ".join(sql.split())


class Database:
    """Used by one thread at a time. Raises apsw's errors."""

    def __init__(self, path: Path, *, busy_timeout_s: float, vfs: str | None) -> None:
        """Through a VFS of its own the file is held alone: apsw's have no shared memory."""
        flags = apsw.SQLITE_OPEN_READWRITE | (0 if vfs is None else apsw.SQLITE_OPEN_CREATE)
        self._raw = raw = apsw.Connection(str(path), flags=flags, vfs=vfs)
        # The stubs of apsw name a type that Python has from 3.12 on, so these are of unknown type before.
        self._execute = cast(Callable[..., Any], raw.execute)  # pyright: ignore[reportUnknownMemberType] - see above
        # Of statements that give no rows: one cursor for all, where `execute` makes one each time, at half its price.
        self._run = cast(Callable[..., Any], raw.cursor().execute)  # pyright: ignore[reportUnknownMemberType] - see above
        self._many = cast(Callable[..., Any], raw.executemany)  # pyright: ignore[reportUnknownMemberType] - see above
        self._changes = raw.changes
        if vfs is not None:
            self.pragma("locking_mode", "exclusive")
        raw.set_busy_handler(_patience(busy_timeout_s))
        raw.wal_autocheckpoint(0)
        self.pragma("trusted_schema", 0)
        self.pragma("cell_size_check", 1)

    def run(self, sql: str, values: Values = ()) -> int:
        """How many rows it changed, where it is a statement that changes rows; none that gives rows."""
        self._run(sql, values)
        return self._changes()

    def run_many(self, sql: str, values: Iterable[Sequence[Value]]) -> None:
        self._many(sql, values)

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        return cast(list[Row], self._execute(sql, values).fetchall())

    def first(self, sql: str, values: Values = ()) -> Row | None:
        return next(iter(self.rows(sql, values)), None)

    @contextmanager
    def each(self, sql: str, values: Values = ()) -> Generator[Iterator[Row]]:
        """Rows one by one; leaving early ends the statement, and with it its hold on the log."""
        with closing(self._execute(sql, values)) as cursor:
            yield cursor

    @contextmanager
    def transaction(self) -> Generator[None]:
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        finally:
            self.roll_back()

    @contextmanager
    def moment(self) -> Generator[None]:
        """Everything read meanwhile is of one moment, whatever others write. After an error, close."""
        self.run("SAVEPOINT moment")
        yield
        self.run("RELEASE moment")

    def roll_back(self) -> None:
        """Nothing, where no transaction is open."""
        if self._raw.in_transaction:
            self.run("ROLLBACK")

    def pragma(self, name: str, value: str | int | None = None) -> object:
        """Its value, set first where one is given."""
        found = self.first(f"PRAGMA {name}" if value is None else f"PRAGMA {name} = {value}")
        return None if found is None else found[0]

    @property
    def is_read_only(self) -> bool:
        """SQLite opens what it may not write for reading, and does not say so before the first write."""
        return self._raw.readonly("main")

    @property
    def last_row(self) -> int:
        return self._raw.last_insert_rowid()

    def watch_log(self, told: Callable[[int], None]) -> None:
        """After each commit, say how many pages the write-ahead log has."""

        def hook(_connection: apsw.Connection, _name: str, pages: int) -> int:
            told(pages)
            return apsw.SQLITE_OK

        self._raw.set_wal_hook(hook)

    def checkpoint(self, *, cut: bool = False) -> tuple[int, int]:
        """Pages in the log, and how many of them are now in their place; waits for nobody, unless the log is cut."""
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if cut else apsw.SQLITE_CHECKPOINT_PASSIVE
        return self._raw.wal_checkpoint(mode=mode)

    @contextmanager
    def stopped_by(self, stop: Callable[[], bool] | None, steps: int) -> Generator[None]:
        """Ask now and then whether to give up; what is given up raises InterruptError."""
        self._raw.set_progress_handler(stop, steps)
        try:
            yield
        finally:
            self._raw.set_progress_handler(None)

    def copy_into(self, other: Database) -> None:
        """Put all of it, as it is at this moment, in the place of what the other one holds."""
        with other._raw.backup("main", self._raw, "main") as copying:
            copying.step()

    def close(self) -> None:
        self._raw.close()


def _patience(timeout_s: float) -> Callable[[int], bool]:
    """Wait for another program's turn to end, for so long in all: short waits, of which no two programs have the same.
    SQLite's own get fifty times as long, so that who has waited longest looks least often.
    """
    waited_s = 0.0
    nothing = threading.Event()

    def waits(tries: int) -> bool:
        nonlocal waited_s
        if tries == 0:
            waited_s = 0.0
        if waited_s >= timeout_s:
            return False
        wait_s = _SHORTEST_S + (tries * _GOLDEN + os.getpid() / _PRIME) % 1 * (_LONGEST_S - _SHORTEST_S)
        nothing.wait(wait_s)
        waited_s += wait_s
        return True

    return waits


MARK: Final = "amends.moved"
"""The name of the cursor that says how far a copy of the file, or into it, is."""
MOVED: Final = "amends has moved: "
"""How the words of a frozen file's triggers begin; see transfer.py."""
_SHORTEST_S: Final = 0.0002
_LONGEST_S: Final = 0.002
_GOLDEN: Final = 0.618034
_PRIME: Final = 997
_TROUBLES: Final[tuple[tuple[tuple[type[apsw.Error], ...], type[JournalError], str], ...]] = (
    ((apsw.FullError,), JournalFullError, "there is no room on the disk; nothing was written; make room and try again"),
    ((apsw.BusyError, apsw.LockedError), JournalBusyError, "another program holds it; nothing was written; try again"),
    (
        (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.ConstraintError),
        JournalDamagedError,
        "the file is damaged; keep a copy of it and restore a backup",
    ),
    (
        (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError, apsw.IOError),
        JournalAccessError,
        "the file cannot be read or written; check its directory, its owner and its disk",
    ),
)


def mark_of(database: Database) -> CopyMark | None:
    found = database.first("SELECT note FROM cursor WHERE name = ?", (MARK,))
    if found is None:
        return None
    how, _, place = str(found[0]).partition(" ")
    return CopyMark(how, place)


def said(path: Path, trouble: apsw.Error) -> JournalError:
    """Our error for one of SQLite's."""
    if isinstance(trouble, apsw.ConstraintError) and MOVED in str(trouble):
        return JournalMovedError(f"{path}: {str(trouble).partition(MOVED)[2]}")
    for kinds, ours, advice in _TROUBLES:
        if isinstance(trouble, kinds):
            return ours(f"{path}: {advice} ({trouble})")
    return JournalError(f"{path}: {trouble}")


def stopped(path: Path, trouble: apsw.Error) -> JournalStoppedError:
    """After a write that may or may not have reached the disk, only a fresh start knows which."""
    return JournalStoppedError(
        f"{path}: the writer stopped for good after an I/O error ({trouble}); what was not acknowledged may or may not "
        "be on disk; check the disk, then restart the process"
    )
