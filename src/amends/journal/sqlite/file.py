"""Opening the file: who may read it, whose it is, which version it has, and whether it can be trusted.

The order matters. What is not ours is refused before SQLite opens it: it would replay a log that somebody else put
beside it. What is another program's is refused before anything in it is changed. `synchronous=EXTRA` comes before WAL:
the other way round, a power cut during the very first transaction can take the file back to empty. Both are read back,
because a file system without shared memory keeps its old journal mode without a word.

This process must never open and close a file that SQLite has open here: POSIX would drop SQLite's locks with it. So an
existing file is looked at by its path alone, and a new one is made before anybody here can have opened it.

SQLite's own check of the file: every page, every row, and that every index has exactly the rows of its table.

`quick_check` leaves the indexes out, and an index that lacks a row hides a saga from everybody who asks for it by name.
So it is the whole `integrity_check`. It reads all of the file in one transaction: others go on writing meanwhile, and
only the log is not cut until it has ended.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import apsw

from amends.errors import JournalAccessError, JournalDamagedError, JournalVersionError
from amends.journal.codec import FIRST, chain
from amends.journal.port.evidence import Inspection
from amends.journal.port.transfer import require_whole
from amends.journal.sqlite import database as troubles
from amends.journal.sqlite.attest import keep_subtrees, tree_row
from amends.journal.sqlite.database import Database, mark_of
from amends.journal.tree import Tree
from amends.ownership import require_own_journal

APPLICATION: Final = 0x616D6E64  # "amnd"
VERIFIED_AT_OPEN: Final = 64
TURNS: Final = 20
LARGEST_IDLE_LOG: Final = 64 * 1024 * 1024

_EXTRA: Final = 3
_OWN: Final = 0o600
_SUBTREES: Final = 6
_SHARED: Final = 0o660
_making: Final = threading.Lock()


def open_to_write(
    path: Path,
    *,
    busy_timeout_s: float,
    vfs: str | None,
    checked: bool = True,
    group: int | None = None,
    is_target: bool = False,
) -> Database:
    """The writer's connection: ours, durable, of this version, its newest entries verified.

    Where a copy into it is not complete, nobody opens it but that copy (`is_target`).
    Whoever wants to see what is wrong with a file opens it unchecked. `group`: the one that shares it, on purpose.
    """
    try:
        if vfs is None:
            _make(path, group)
        database = Database(path, busy_timeout_s=busy_timeout_s, vfs=vfs)
    except apsw.Error as exc:
        raise troubles.said(path, exc) from None
    try:
        if database.is_read_only:
            raise JournalAccessError(f"{path} cannot be written; check its owner and its mode")
        version = _version(path, database)
        if version == 0:
            database.pragma("auto_vacuum", "incremental")  # only before its first page is written
        _make_durable(path, database)
        _migrate(path, database, version)
        database.pragma("secure_delete", 1)
        if not is_target:
            require_whole(path, mark_of(database))
        if checked:
            _verify_newest(path, database)
    except apsw.Error as exc:
        database.close()
        raise troubles.said(path, exc) from None
    except BaseException:  # whatever it was, it flies on; the connection must not stay open
        database.close()
        raise
    return database


def open_to_read(path: Path, *, busy_timeout_s: float, vfs: str | None) -> Database:
    database = Database(path, busy_timeout_s=busy_timeout_s, vfs=vfs)
    database.pragma("query_only", 1)
    return database


def _make(path: Path, group: int | None) -> None:
    """Check that what is there is ours alone; make the file so where there is none."""
    require_own_journal(path, error=JournalAccessError, group=group)
    try:
        with _making:
            if not path.exists():
                _made(path, group)
    except OSError as exc:
        raise JournalAccessError(f"{path} cannot be made or opened: {exc.strerror}") from None


def _made(path: Path, group: int | None) -> None:
    with suppress(FileExistsError):  # another process was faster
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWN)
        try:
            if group is not None:
                os.fchown(file, -1, group)
                os.fchmod(file, _SHARED)
        finally:
            os.close(file)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)  # the name has to survive a power cut too
    finally:
        os.close(directory)


def _version(path: Path, database: Database) -> int:
    """The file's version; 0 for one that holds nothing yet."""
    with database.moment():  # another process may be making it just now
        application, version = database.pragma("application_id"), cast(int, database.pragma("user_version"))
        holds_something = database.first("SELECT 1 FROM sqlite_schema LIMIT 1")
    if application != APPLICATION:
        if application or version or holds_something:
            raise JournalAccessError(f"{path} is an SQLite database of another program; give the journal another path")
        return 0
    newest = len(_migrations())
    if version > newest:
        raise JournalVersionError(
            f"{path} was written by a newer version of amends (format {version}; this one knows up to {newest}); "
            "upgrade amends"
        )
    return version


def _make_durable(path: Path, database: Database) -> None:
    database.pragma("journal_size_limit", LARGEST_IDLE_LOG)
    database.pragma("synchronous", "extra")
    mode = _turn_to_wal(database)
    if mode != "wal" or database.pragma("synchronous") != _EXTRA:
        raise JournalAccessError(
            f"{path} cannot be made durable (journal mode {mode}): its file system may be a network one, or have no "
            "shared memory; put the journal on a local disk"
        )


def _turn_to_wal(database: Database) -> object:
    """Where several make the file at once, SQLite turns some away here without waiting, but not at a transaction."""
    for _ in range(TURNS):
        try:
            return database.pragma("journal_mode", "wal")
        except apsw.BusyError:
            with database.transaction():
                pass
    return database.pragma("journal_mode", "wal")


def _migrations() -> list[str]:
    """The scripts in order; number n brings a file from version n-1 to n."""
    scripts = sorted(Path(__file__).with_name("sql").iterdir(), key=lambda script: script.name)
    return [script.read_text(encoding="utf-8") for script in scripts]


def _migrate(path: Path, database: Database, version: int) -> None:
    for number, script in enumerate(_migrations()[version:], start=version + 1):
        with database.transaction():
            if _version(path, database) < number:  # another process may have been faster
                database.run(script)
                if number == _SUBTREES:
                    keep_subtrees(database)
                database.pragma("application_id", APPLICATION)
                database.pragma("user_version", number)


def _verify_newest(path: Path, database: Database) -> None:
    """Check what was written last: where a crash or a bad disk shows first, at a price that does not grow."""
    sql = """
        SELECT entry.seq, saga.name, entry.number, entry.at, entry.name, entry.body, entry.hash,
               (SELECT hash FROM recorded AS before WHERE before.saga = entry.saga AND before.number = entry.number - 1)
          FROM recorded AS entry LEFT JOIN saga ON saga.id = entry.saga
         ORDER BY entry.seq DESC LIMIT ?
    """
    try:
        with database.moment():  # another process may be writing just now
            size = Tree.read(*tree_row(database)).size
            newest = database.rows(sql, (VERIFIED_AT_OPEN,))
    except UnicodeDecodeError as exc:
        raise JournalDamagedError(f"{path}: an entry is not text ({exc.reason})") from None
    for _, saga, number, at, name, body, hashed, before in newest:
        if chain(before or FIRST, saga, number, at, name, body) != hashed:
            raise JournalDamagedError(f"{path}: saga {saga}, entry {number}: it does not match its hash")
    if [row[0] for row in newest] != list(range(size, max(0, size - VERIFIED_AT_OPEN), -1)):
        raise JournalDamagedError(
            f"{path}: its tree counts {size} entries, and those that are there are not these; "
            "keep a copy, and see which: amends evidence verify"
        )


MOST: Final = 20
"""So many troubles are told."""
STEPS: Final = 10_000
"""So many steps of SQLite's machine lie between two looks at the time: a millisecond or so."""


def check(database: Database, elapsed: Callable[[], float], within_s: float | None) -> Inspection:
    ends = None if within_s is None else elapsed() + within_s
    stop = None if ends is None else lambda: elapsed() > ends
    try:
        with database.stopped_by(stop, STEPS):
            found = [str(row[0]) for row in database.rows(f"PRAGMA integrity_check({MOST})")]
    except apsw.InterruptError:
        return Inspection((), is_whole=False)
    return Inspection(() if found == ["ok"] else tuple(found))
