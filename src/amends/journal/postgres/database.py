"""One connection to PostgreSQL, with the few words that the journal needs; the only place that runs statements.

Each session is told how to behave before anything else: durable commits, the plain isolation level whatever the
database's default is, and an end of its own for a transaction that nobody goes on with, so that a worker that was
stopped or cut off in the middle of one holds nobody up.

PostgreSQL's errors become the journal's words here. None of them has the connection string in it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import errors

from amends.errors import (
    JournalAccessError,
    JournalBusyError,
    JournalDamagedError,
    JournalError,
    JournalFullError,
    JournalMovedError,
    JournalVersionError,
)
from amends.journal.port.transfer import CopyMark, require_whole
from amends.journal.postgres.address import PostgresAddress

Value = str | int | float | bytes | bool | None | Sequence[str] | Sequence[int]
Values = Sequence[Value] | Mapping[str, Value]
Row = tuple[Any, ...]

MIGRATE: Final = "amends journal migrate"
MOVED: Final = "AM001"
"""The state that a moved journal refuses writes with; see transfer.py."""
IDLE_S: Final = 10
"""A transaction that nobody goes on with is ended by the server after so long."""
LOST: Final = (psycopg.OperationalError, psycopg.InterfaceError)
"""The connection is gone, or could not be made."""
UNREACHABLE: Final = (psycopg.OperationalError, psycopg.InterfaceError, JournalAccessError)
AGAIN: Final = (errors.SerializationFailure, errors.DeadlockDetected)
"""Others came between: the whole transaction is to be tried again."""


class PostgresDatabase:
    """Used by one thread at a time. Raises psycopg's errors."""

    def __init__(self, address: PostgresAddress) -> None:
        self._raw = psycopg.connect(address.conninfo, autocommit=True)
        self._pipeline: psycopg.Pipeline | None = None
        try:
            self.run(_SETTINGS)
            found = self.first(_SELF)
        except BaseException:  # whatever it was, it flies on; the connection must not stay open
            self._raw.close()
            raise
        self.backend: tuple[int, str] = (0, "") if found is None else (found[0], found[1])

    @property
    def raw(self) -> psycopg.Connection[Row]:
        return self._raw

    @property
    def is_lost(self) -> bool:
        return self._raw.closed or self._raw.broken

    def run(self, sql: str, values: Values = ()) -> None:
        """Run it; when it is together with others, what goes wrong is told with the next answer."""
        self._raw.execute(sql.encode(), values or None)

    def begin(self, sql: str, values: Values = ()) -> Callable[[], list[Row]]:
        """Run it together with others; its rows are there at their end."""
        return self._raw.execute(sql.encode(), values or None).fetchall

    def changed(self, sql: str, values: Values = ()) -> int:
        """Run it; how many rows it changed."""
        cursor = self._raw.execute(sql.encode(), values or None)
        if self._pipeline is not None:
            self._pipeline.sync()
        return cursor.rowcount

    @contextmanager
    def together(self) -> Generator[None]:
        """Statements go one after another and wait for no answer that nobody asks for; the last ones are in at the end.

        After one that fails the others do nothing, and the trouble is that one's.
        """
        with self._raw.pipeline() as pipeline:
            self._pipeline = pipeline
            try:
                yield
            finally:
                self._pipeline = None

    def run_many(self, sql: str, values: Iterable[Sequence[Value]]) -> None:
        with self._raw.cursor() as cursor:
            cursor.executemany(sql.encode(), values)

    def commit(self) -> None:
        self._raw.execute(b"COMMIT", prepare=False)

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        return self._raw.execute(sql.encode(), values or None).fetchall()

    def first(self, sql: str, values: Values = ()) -> Row | None:
        return self._raw.execute(sql.encode(), values or None).fetchone()

    @contextmanager
    def moment(self) -> Generator[None]:
        """Everything read meanwhile is of one moment, whatever others write."""
        self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            self.roll_back()

    def roll_back(self) -> None:
        """Nothing, where no transaction is open."""
        if not self.is_lost and self._raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                self._raw.rollback()

    def end_backend(self, backend: tuple[int, str]) -> None:
        """End another session of ours: one whose connection was lost may still be in the middle of something."""
        with suppress(psycopg.Error):
            self.run(_END, backend)

    def close(self) -> None:
        self._raw.close()


_SETTINGS: Final = f"""
    SELECT set_config('search_path', 'amends', false),
           set_config('default_transaction_isolation', 'read committed', false),
           set_config('idle_in_transaction_session_timeout', '{IDLE_S}s', false),
           set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false),
           set_config('client_encoding', 'UTF8', false), set_config('plan_cache_mode', 'auto', false),
           set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
                      WHEN 'local' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
           set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
           set_config('tcp_keepalives_count', '3', false)
"""
_SELF: Final = "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END: Final = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE pid = %s AND backend_start = %s::timestamptz AND pid <> pg_backend_pid()
"""


def connected(address: PostgresAddress, *, is_target: bool = False) -> PostgresDatabase:
    """A connection to a journal of this version. Raises JournalAccessError, JournalVersionError; and JournalMovedError
    where a copy into it is not complete, unless it is the copy that asks (`is_target`).
    """
    try:
        database = PostgresDatabase(address)
    except psycopg.Error as exc:
        raise said(address, exc) from None
    try:
        require_version(address, database)
        if not is_target:
            require_whole(address, mark_of(database))
    except psycopg.Error as exc:
        database.close()
        raise said(address, exc) from None
    except BaseException:  # whatever it was, it flies on; the connection must not stay open
        database.close()
        raise
    return database


def mark_of(database: PostgresDatabase) -> CopyMark | None:
    found = database.first("SELECT how, note FROM moved")
    return None if found is None else CopyMark(*found)


# -- the schema -------------------------------------------------------------------------------------------------------


def scripts() -> list[str]:
    """The migrations in order; number n brings a schema from version n-1 to n."""
    found = sorted(Path(__file__).with_name("sql").glob("[0-9]*.sql"), key=lambda script: script.name)
    return [script.read_text(encoding="utf-8") for script in found]


def newest() -> int:
    return sum(1 for _ in Path(__file__).with_name("sql").glob("[0-9]*.sql"))


def version_of(database: PostgresDatabase) -> int:
    """The version of the schema; 0 where there is none."""
    try:
        found = database.first("SELECT version FROM amends.format")
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return 0
    return 0 if found is None else int(found[0])


def require_version(address: PostgresAddress, database: PostgresDatabase) -> None:
    version = version_of(database)
    if version == 0:
        raise JournalVersionError(
            f"there is no journal in {address} yet; make it, as its owner: {MIGRATE} --journal ADDRESS"
        )
    if version > newest():
        raise JournalVersionError(
            f"{address} was written by a newer version of amends (format {version}; this one knows up to {newest()}); "
            "upgrade amends"
        )
    if version < newest():
        raise JournalVersionError(
            f"{address} has format {version}, and this version of amends needs {newest()}; bring it forward, as its "
            f"owner: {MIGRATE} --journal ADDRESS (workers of the older version will have to be upgraded, too)"
        )


def migrate(address: PostgresAddress) -> tuple[int, int]:
    """Make the schema, or bring it forward: from which version to which. Each step is a transaction."""
    try:
        database = PostgresDatabase(address)
    except psycopg.Error as exc:
        raise said(address, exc) from None
    try:
        before = version_of(database)
        if before > newest():
            require_version(address, database)
        for number, script in enumerate(scripts(), start=1):
            with database.raw.transaction():
                database.run("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
                database.run("CREATE SCHEMA IF NOT EXISTS amends")
                if _version_inside(database) < number:
                    database.raw.execute(script.encode())
                    database.run(
                        "INSERT INTO format VALUES (1, %s) ON CONFLICT (id) DO UPDATE SET version = %s", 2 * (number,)
                    )
        return before, newest()
    except psycopg.Error as exc:
        raise said(address, exc) from None
    finally:
        database.close()


def _version_inside(database: PostgresDatabase) -> int:
    found = database.first("SELECT to_regclass('amends.format') IS NOT NULL")
    return version_of(database) if found is not None and found[0] else 0


_MIGRATING: Final = 0x616D6E64  # "amnd"


# -- values -----------------------------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """A text of a list as PostgreSQL can hold it: it has no NUL. Entries are JSON, and have none either."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}") if "\0" in text else text


def integers(values: Iterable[int | None]) -> str:
    """An array, as PostgreSQL reads it: quicker than one value after the other."""
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def truths(values: Iterable[bool]) -> str:
    return "{" + ",".join(["t" if value else "f" for value in values]) + "}"


def texts(values: Iterable[str]) -> str:
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    return '{"' + '","'.join(quoted) + '"}' if quoted else "{}"


def hexes(values: Iterable[bytes]) -> str:
    quoted = [value.hex() for value in values]
    return '{"\\\\x' + '","\\\\x'.join(quoted) + '"}' if quoted else "{}"


# -- troubles ---------------------------------------------------------------------------------------------------------

_TROUBLES: Final[tuple[tuple[tuple[type[psycopg.Error], ...], type[JournalError], str], ...]] = (
    (
        (errors.DiskFull, errors.OutOfMemory),
        JournalFullError,
        "there is no room on the server; nothing was written; make room and try again",
    ),
    (
        (errors.LockNotAvailable, errors.QueryCanceled, errors.SerializationFailure, errors.DeadlockDetected),
        JournalBusyError,
        "others hold it; nothing was written; try again",
    ),
    (
        (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName),
        JournalVersionError,
        f"its tables are not those of this version; bring it forward: {MIGRATE}",
    ),
    (
        (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction),
        JournalAccessError,
        "this user may not do that; see docs/do/postgres.md for the rights of a worker",
    ),
    (
        (errors.DataCorrupted, errors.IndexCorrupted, errors.IntegrityError),
        JournalDamagedError,
        "what is stored is damaged; keep a copy of it and restore a backup",
    ),
    (LOST, JournalAccessError, "the database cannot be reached"),
)


def said(address: PostgresAddress, trouble: psycopg.Error) -> JournalError:
    """Our error for one of PostgreSQL's."""
    if trouble.sqlstate == MOVED:
        return JournalMovedError(f"{address}: {_first_line(trouble)}")
    for kinds, ours, advice in _TROUBLES:
        if isinstance(trouble, kinds):
            return ours(f"{address}: {advice} ({_first_line(trouble)})")
    return JournalError(f"{address}: {_first_line(trouble)}")


def _first_line(trouble: psycopg.Error) -> str:
    return (trouble.diag.message_primary or str(trouble).partition("\n")[0]).strip()


OpenDatabase = Callable[[], PostgresDatabase]
