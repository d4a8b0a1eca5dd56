"""Opening a file: only ours, only for its owner, only of a version that we know, and never one that does not verify."""

import asyncio
import os
import random
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
import pytest

from amends.core.events import Event
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import (
    JournalAccessError,
    JournalBusyError,
    JournalDamagedError,
    JournalError,
    JournalVersionError,
)
from amends.journal.codec import chain
from amends.journal.port.journal import Entry, PersonQuery, SagaQuery, Summary
from amends.journal.sqlite import SqliteJournal, database as troubles, file, reader
from amends.journal.sqlite.database import Database, Row, Value, Values
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.samples import opened, requested, resumed, started, succeeded, walked
from amends.testing.journal_suite.whole import history

RUNNING = Summary(status=SagaStatus.RUNNING)
SAGA = SagaId("s")
NOBODY = 65534


async def write(path: Path, turns: int = 1) -> None:
    """A saga of one start and some steps, of which the first has a large result."""
    journal = await SqliteJournal.open(path, ManualClock())
    await journal.append(SAGA, [started()], after=0, summary=RUNNING)
    for turn in range(turns):
        await journal.append(SAGA, walked(f"a.{turn}", is_first=turn == 0), after=1 + 4 * turn, summary=RUNNING)
    last: list[Event] = [succeeded(history(0, 200)), opened(), requested()]
    await journal.append(SAGA, last, after=1 + 4 * turns, summary=RUNNING)
    await journal.close()


async def read(path: Path) -> list[Entry]:
    journal = await SqliteJournal.open(path, ManualClock())
    try:
        return [entry async for entry in journal.read(SAGA)]
    finally:
        await journal.close()


def change(path: Path, sql: str, values: tuple[Value, ...] = ()) -> None:
    """What somebody with a database tool does to it."""
    database = Database(path, busy_timeout_s=0, vfs=None)
    database.run(sql, values)
    database.close()


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


# -- whose it is --------------------------------------------------------------------------------------------------


def test_the_file_and_its_companions_are_for_the_owner_alone(path: Path) -> None:
    async def live() -> dict[str, int]:
        journal = await SqliteJournal.open(path, ManualClock())
        await journal.append(SAGA, [started()], after=0, summary=RUNNING)
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in sorted(path.parent.iterdir())}
        await journal.close()
        return modes

    before = os.umask(0)
    try:
        assert asyncio.run(live()) == dict.fromkeys(["journal.db", "journal.db-shm", "journal.db-wal"], 0o600)
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o620, 0o640, 0o666])
def test_a_file_that_is_open_to_others_is_refused(path: Path, mode: int) -> None:
    asyncio.run(write(path))
    path.chmod(mode)
    with pytest.raises(JournalAccessError, match=rf"open to other users \(mode {mode:o}\).*chmod 600"):
        asyncio.run(read(path))


@contextmanager
def as_nobody() -> Generator[Path]:
    """A directory of somebody who has no special rights, and being that somebody."""
    with tempfile.TemporaryDirectory() as name:
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(name, NOBODY, NOBODY)
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            Path(name).chmod(0o700)
            if is_root:
                os.seteuid(0)
                os.setegid(0)


def test_a_directory_that_cannot_be_written_is_refused() -> None:
    with as_nobody() as place:
        place.chmod(0o500)
        with pytest.raises(JournalAccessError, match="cannot be made or opened: Permission denied"):
            asyncio.run(read(place / "journal.db"))


def test_a_directory_that_became_read_only_is_refused() -> None:
    with as_nobody() as place:
        asyncio.run(write(place / "journal.db"))
        place.chmod(0o500)
        with pytest.raises(JournalAccessError, match="cannot be read or written"):
            asyncio.run(read(place / "journal.db"))


@pytest.mark.parametrize("mode", [0o400, 0o000])
def test_a_file_that_cannot_be_written_is_refused(mode: int) -> None:
    with as_nobody() as place:
        asyncio.run(write(place / "journal.db"))
        (place / "journal.db").chmod(mode)
        with pytest.raises(JournalAccessError, match=r"cannot be (read or )?written"):
            asyncio.run(read(place / "journal.db"))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalAccessError, match="No such file or directory"):
        asyncio.run(read(tmp_path / "missing" / "journal.db"))
    (tmp_path / "directory").mkdir(0o700)
    with pytest.raises(JournalAccessError, match="not a regular file"):
        asyncio.run(read(tmp_path / "directory"))


def test_a_relative_path_stays_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def live() -> int:
        journal = await SqliteJournal.open("journal.db", ManualClock())
        await journal.append(SAGA, [started()], after=0, summary=RUNNING)
        monkeypatch.chdir(tmp_path.parent)
        count = len([entry async for entry in journal.read(SAGA)])
        await journal.close()
        return count

    monkeypatch.chdir(tmp_path)
    assert asyncio.run(live()) == 1


@pytest.mark.parametrize(
    "sql", ["CREATE TABLE theirs (x)", "PRAGMA application_id = 7", "PRAGMA user_version = 7"], ids=str
)
def test_another_programs_database_is_refused_and_not_touched(path: Path, sql: str) -> None:
    path.touch(0o600)
    change(path, sql)
    before = path.read_bytes()
    with pytest.raises(JournalAccessError, match="another program"):
        asyncio.run(read(path))
    assert path.read_bytes() == before


def test_a_file_without_a_log_beside_it_cannot_be_made_durable() -> None:
    database = Database(Path(":memory:"), busy_timeout_s=0, vfs=None)
    with pytest.raises(JournalAccessError, match=r"journal mode memory.*put the journal on a local disk"):
        file._make_durable(Path("x"), database)
    database.close()


# -- versions -----------------------------------------------------------------------------------------------------


def test_a_file_of_a_newer_version_is_refused(path: Path) -> None:
    asyncio.run(write(path))
    change(path, "PRAGMA user_version = 99")
    with pytest.raises(JournalVersionError, match=r"written by a newer version.*format 99.*upgrade"):
        asyncio.run(read(path))


def test_an_entry_of_a_newer_version_is_refused_by_name(path: Path) -> None:
    asyncio.run(write(path))
    entry = asyncio.run(read(path))[-1]
    before = asyncio.run(read(path))[-2].hash
    hashed = chain(before, SAGA, entry.number, entry.at, "saga.praised/1", entry.body)
    change(path, "UPDATE entry SET name = 'saga.praised/1', hash = ? WHERE number = ?", (hashed, entry.number))
    change(path, "UPDATE saga SET hash = ?", (hashed,))
    with pytest.raises(JournalVersionError, match=r"saga s, entry 8 \(saga\.praised/1\):.*newer version"):
        asyncio.run(read(path))


def test_several_can_make_the_same_file_at_once(path: Path) -> None:
    async def live() -> None:
        journals = await asyncio.gather(*(SqliteJournal.open(path, ManualClock()) for _ in range(6)))
        for number, journal in enumerate(journals):
            await journal.append(SagaId(f"s{number}"), [started()], after=0, summary=RUNNING)
        assert len((await journals[0].sagas(SagaQuery())).rows) == 6
        for journal in journals:
            await journal.close()

    asyncio.run(live())


def foreign(path: Path, sql: str) -> Database:
    """Another program's connection, in the middle of something."""
    path.touch(0o600)
    other = Database(path, busy_timeout_s=0, vfs=None)
    other.run("CREATE TABLE something (x)")
    other.run(sql)
    return other


def test_who_makes_the_file_waits_for_the_one_who_makes_it_too(path: Path) -> None:
    other = foreign(path, "BEGIN IMMEDIATE")

    class Patient(Database):
        def run(self, sql: str, values: Values = ()) -> int:
            if sql == "BEGIN IMMEDIATE":
                other.roll_back()
            return super().run(sql, values)

    database = Patient(path, busy_timeout_s=0, vfs=None)
    assert file._turn_to_wal(database) == "wal"
    database.close()
    other.close()


def test_who_never_gets_its_turn_is_told_in_the_end(path: Path) -> None:
    path.touch(0o600)

    class Unlucky(Database):
        def pragma(self, name: str, value: str | int | None = None) -> object:
            if value == "wal":
                raise apsw.BusyError("database is locked")
            return super().pragma(name, value)

    database = Unlucky(path, busy_timeout_s=0, vfs=None)
    with pytest.raises(apsw.BusyError):
        file._turn_to_wal(database)
    database.close()


def test_a_file_that_another_makes_meanwhile_is_not_taken_for_a_strangers(path: Path) -> None:
    path.touch(0o600)

    class Interrupted(Database):
        def first(self, sql: str, values: Values = ()) -> Row | None:
            if "sqlite_schema" in sql:
                with suppress(JournalBusyError):
                    file.open_to_write(path, busy_timeout_s=0, vfs=None).close()
            return super().first(sql, values)

    database = Interrupted(path, busy_timeout_s=0, vfs=None)
    assert file._version(path, database) == 0
    database.close()


def test_who_cannot_get_the_file_for_itself_does_not_wait_for_ever(path: Path) -> None:
    other = foreign(path, "BEGIN; SELECT * FROM something")
    other.rows("SELECT * FROM something")
    database = Database(path, busy_timeout_s=0, vfs=None)
    with pytest.raises(apsw.BusyError):
        file._turn_to_wal(database)
    database.close()
    other.close()


def test_a_migration_that_another_process_made_meanwhile_is_left_alone(path: Path) -> None:
    asyncio.run(write(path))
    database = file.open_to_write(path, busy_timeout_s=0, vfs=None)
    file._migrate(path, database, 0)
    database.close()
    assert len(asyncio.run(read(path))) == 8


def test_a_migration_that_fails_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "_migrations", lambda: ["CREATE TABLE half (x); CREATE TABLE half (x)"])
    with pytest.raises(JournalError, match="half already exists"):
        asyncio.run(read(path))
    monkeypatch.undo()
    assert asyncio.run(read(path)) == []


# -- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"not a database", b"x" * 100_000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_what_is_no_database_is_damaged_or_not_ours(path: Path, content: bytes) -> None:
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(JournalDamagedError, match="the file is damaged; keep a copy"):
        asyncio.run(read(path))
    assert path.read_bytes() == content


def test_a_truncated_file_is_noticed_at_every_length(ram_path: Path) -> None:
    path = ram_path / "whole.db"
    asyncio.run(write(path))
    whole, entries = path.read_bytes(), asyncio.run(read(path))
    for number, length in enumerate(range(0, len(whole), 4096 + 512)):
        cut = ram_path / f"{number}.db"
        cut.touch(0o600)
        cut.write_bytes(whole[:length])
        try:
            found = asyncio.run(read(cut))
        except JournalError as exc:
            assert type(exc) in {JournalDamagedError, JournalAccessError}  # noqa: PT017 - or it is all there
        else:
            assert found in ([], entries)
            assert length == 0 or found


def test_a_flipped_byte_is_noticed_or_does_not_matter(ram_path: Path) -> None:
    """Wherever it is: what is read is what was written, or an error of ours says that it is not."""
    path = ram_path / "whole.db"
    asyncio.run(write(path))
    whole, entries = path.read_bytes(), asyncio.run(read(path))
    chance = random.Random(7)
    places = [*range(100), *(chance.randrange(len(whole)) for _ in range(400))]
    noticed = 0
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        try:
            found = asyncio.run(read_all(path))
        except JournalError:
            noticed += 1
        else:
            assert found in ([], entries)
    assert noticed > 100


async def read_all(path: Path) -> list[Entry]:
    journal = await SqliteJournal.open(path, ManualClock())
    try:
        await journal.sagas(SagaQuery())
        await journal.incidents(PersonQuery())
        await journal.approvals(PersonQuery())
        return [entry async for entry in journal.read(SAGA)]
    finally:
        await journal.close()


LATE = 80  # turns, so that the first entries are not among those that are checked when the file is opened


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (
            "UPDATE entry SET body = replace(body, 'trip', 'trap') WHERE number = 1",
            "entry 1: it does not match its hash",
        ),
        ("UPDATE entry SET at = at + 1 WHERE number = 3", "entry 3: it does not match its hash"),
        ("UPDATE entry SET name = 'work.finished/1' WHERE number = 5", "entry 5: it does not match its hash"),
        ("UPDATE entry SET hash = zeroblob(32) WHERE number = 2", "entry 2: it does not match its hash"),
        ("UPDATE entry SET body = CAST(x'7bff7d' AS TEXT) WHERE number = 2", "entry 2: it is not text"),
        ("DELETE FROM entry WHERE number = 1", "entry 1: it is missing"),
        ("DELETE FROM entry WHERE number = 7", "entry 7: it is missing"),
        ("DELETE FROM entry WHERE number > 300", "its tree counts 324 entries"),
        ("DELETE FROM entry", "its tree counts 324 entries"),
        ("UPDATE saga SET hash = zeroblob(32)", "entry 324: it is not the one that the saga was left with"),
        ("UPDATE saga SET head = 3", "entry 3: it is not the one that the saga was left with"),
        ("UPDATE saga SET head = 1000", "entry 325: it is missing"),
        ("UPDATE saga SET status = 'lost'", "what is stored cannot be read: 'lost' is not a valid SagaStatus"),
        ("DELETE FROM blob", r"entry 322 \(attempt.succeeded/1\): its part \w+… is missing \(its result\)"),
        ("UPDATE blob SET data = 'x'", "entry 322 .*: its part \\w+… does not match its digest"),
        ("DROP TABLE entry", "no such table: main.entry"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_change_by_hand_is_noticed_and_named(ram_path: Path, sql: str, says: str) -> None:
    path = ram_path / "journal.db"
    asyncio.run(write(path, LATE))
    change(path, sql)
    with pytest.raises(JournalError, match=says):
        asyncio.run(read(path))


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (
            "UPDATE entry SET body = replace(body, 'x', 'y') WHERE number = 8",
            "saga s, entry 8: it does not match its hash",
        ),
        ("UPDATE entry SET body = CAST(x'7bff7d' AS TEXT) WHERE number = 8", "an entry is not text"),
        ("DELETE FROM entry WHERE number = 4", "saga s, entry 5: it does not match its hash"),
        ("DELETE FROM saga", "saga None, entry 8: it does not match its hash"),
    ],
)
def test_the_newest_entries_are_verified_when_the_file_is_opened(path: Path, sql: str, says: str) -> None:
    asyncio.run(write(path))
    change(path, sql)
    with pytest.raises(JournalDamagedError, match=says):
        asyncio.run(SqliteJournal.open(path, ManualClock()))


def test_entries_that_went_missing_since_the_file_was_opened_are_named(path: Path) -> None:
    async def live(sql: str, says: str) -> None:
        journal = await SqliteJournal.open(path, ManualClock())
        change(path, sql)
        with pytest.raises(JournalDamagedError, match=says):
            _ = [entry async for entry in journal.read(SAGA)]
        await journal.close()

    asyncio.run(write(path))
    asyncio.run(live("DELETE FROM entry WHERE number > 5", "entry 6: it is missing"))


def test_reading_on_past_a_missing_entry_is_noticed(path: Path) -> None:
    async def live() -> None:
        journal = await SqliteJournal.open(path, ManualClock())
        change(path, "DELETE FROM entry WHERE number = 3")
        with pytest.raises(JournalDamagedError, match="entry 3: it is missing"):
            _ = [entry async for entry in journal.read(SAGA, after=3)]
        await journal.close()

    asyncio.run(write(path))
    asyncio.run(live())


def test_a_saga_whose_row_is_gone_takes_no_more_entries(path: Path) -> None:
    async def live() -> None:
        journal = await SqliteJournal.open(path, ManualClock())
        await journal.append(SAGA, [started()], after=0, summary=RUNNING)
        change(path, "DELETE FROM saga")
        with pytest.raises(JournalError, match="the newest is 0"):
            await journal.append(SAGA, [resumed()], after=1, summary=RUNNING)
        await journal.close()

    asyncio.run(live())


def test_large_entries_are_read_in_several_chunks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "CHUNK_CHARACTERS", 1000)
    asyncio.run(write(path, 5))
    assert [entry.number for entry in asyncio.run(read(path))] == list(range(1, 25))


# -- words --------------------------------------------------------------------------------------------------------


def test_an_error_of_sqlite_that_nobody_expects_is_still_one_of_ours() -> None:
    error = troubles.said(Path("j.db"), apsw.NoMemError("out of memory"))
    assert type(error) is JournalError
    assert str(error) == "j.db: out of memory"
