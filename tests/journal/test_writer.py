"""The thread that writes: everything that waits in one commit, each with its own answer, and nobody left waiting."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import (
    JournalBusyError,
    JournalConflictError,
    JournalError,
    JournalStoppedError,
    LeaseLostError,
)
from amends.journal.port.journal import Journal, Lease, Summary
from amends.journal.sqlite import SqliteJournal, journal, writer
from amends.journal.sqlite.database import Database
from amends.journal.sqlite.writer import Batch
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.samples import resumed, started, walked

RUNNING = Summary(status=SagaStatus.RUNNING)


@asynccontextmanager
async def opened(path: Path, *, busy_timeout_s: float = 10.0) -> AsyncGenerator[SqliteJournal]:
    journal = await SqliteJournal.open(path, ManualClock(), busy_timeout_s=busy_timeout_s)
    try:
        yield journal
    finally:
        await journal.close()


@asynccontextmanager
async def held_up(journal: SqliteJournal) -> AsyncGenerator[None]:
    """While this lasts the writer is busy with one question, and whatever is asked waits in the queue."""
    begun, gate = threading.Event(), threading.Event()

    def wait(_batch: Batch) -> None:
        begun.set()
        gate.wait(60)

    busy = asyncio.ensure_future(journal._writer.ask(wait))
    await asyncio.to_thread(begun.wait, 60)
    try:
        yield
    finally:
        for _ in range(3):  # what was asked in a turn is handed over at its end
            await asyncio.sleep(0)
        gate.set()
        await busy


async def count(journal: Journal, saga: str) -> int:
    return len([entry async for entry in journal.read(SagaId(saga))])


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_everything_that_waits_goes_into_one_commit(path: Path) -> None:
    async def live() -> int:
        async with opened(path) as journal:
            async with held_up(journal):
                before = journal.commits
                asked = [
                    journal.append(SagaId(f"s{number}"), [started()], after=0, summary=RUNNING) for number in range(100)
                ]
            await asyncio.gather(*asked)
            return journal.commits - before

    assert asyncio.run(live()) == 2  # the one that held it up, and one for all hundred


def test_alone_an_append_is_one_commit(path: Path) -> None:
    async def live() -> int:
        async with opened(path) as journal:
            await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
            before = journal.commits
            for turn in range(10):
                await journal.append(SagaId("s"), walked(f"a.{turn}"), after=1 + 4 * turn, summary=RUNNING)
            return journal.commits - before

    assert asyncio.run(live()) == 10


def test_one_that_is_refused_does_not_touch_the_others_of_its_batch(path: Path) -> None:
    async def live() -> None:
        async with opened(path) as journal:
            await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
            async with held_up(journal):
                before = journal.commits
                asked = [
                    journal.append(SagaId("s"), [resumed("one")], after=1, summary=RUNNING),
                    journal.append(SagaId("s"), [resumed("two")], after=1, summary=RUNNING),
                    journal.append(SagaId("s"), [started()], after=0, summary=RUNNING),
                    journal.append(SagaId("t"), [started()], after=0, summary=RUNNING),
                    journal.append(
                        SagaId("s"), [], after=1, summary=RUNNING, lease=Lease(saga=SagaId("s"), worker="w", epoch=9)
                    ),
                ]
            one, two, again, other, stale = await asyncio.gather(*asked, return_exceptions=True)
            assert journal.commits - before == 2
            assert isinstance(one, tuple)
            assert isinstance(other, tuple)
            assert [type(each) for each in (two, again, stale)] == [
                JournalConflictError, JournalConflictError, LeaseLostError
            ]  # fmt: skip
            assert (await count(journal, "s"), await count(journal, "t")) == (2, 1)

    asyncio.run(live())


def test_a_bug_in_one_question_is_told_to_its_batch_and_rolled_back(path: Path) -> None:
    def bug(batch: Batch) -> None:
        batch.database.run("DELETE FROM saga")
        raise ZeroDivisionError

    async def live() -> None:
        async with opened(path) as journal:
            await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
            async with held_up(journal):
                innocent = journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING)
                guilty = asyncio.ensure_future(journal._writer.ask(bug))
                await asyncio.sleep(0)
            one, two = await asyncio.gather(innocent, guilty, return_exceptions=True)
            assert (type(one), type(two)) == (ZeroDivisionError, ZeroDivisionError)
            assert one is not two
            await journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING)
            assert await count(journal, "s") == 2

    asyncio.run(live())


def test_a_connection_that_cannot_even_roll_back_stops_the_writer(path: Path) -> None:
    async def live() -> None:
        async with opened(path) as journal:
            with pytest.raises(JournalError):
                await journal._writer.ask(lambda batch: batch.database.close())
            with pytest.raises(JournalStoppedError, match="stopped for good"):
                await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)

    asyncio.run(live())


def test_a_bug_in_one_reading_is_told_to_whoever_asked(path: Path) -> None:
    def bug(_database: Database) -> None:
        raise ZeroDivisionError

    async def live() -> None:
        async with opened(path) as journal:
            with pytest.raises(ZeroDivisionError):
                await journal._reader.ask(bug)
            assert await count(journal, "s") == 0

    asyncio.run(live())


def test_a_file_that_another_program_holds_for_too_long_is_busy(path: Path) -> None:
    async def live() -> None:
        async with opened(path, busy_timeout_s=0.01) as journal:
            await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
            other = Database(path, busy_timeout_s=0, vfs=None)
            other.run("BEGIN IMMEDIATE")
            with pytest.raises(JournalBusyError, match="another program holds it; nothing was written"):
                await journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING)
            assert await count(journal, "s") == 1
            other.run("ROLLBACK")
            await journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING)
            other.close()

    asyncio.run(live())


def test_a_loop_that_ended_does_not_stop_the_writer(path: Path) -> None:
    begun, gate = threading.Event(), threading.Event()

    def wait(_batch: Batch) -> None:
        begun.set()
        gate.wait(60)

    async def first() -> SqliteJournal:
        journal = await SqliteJournal.open(path, ManualClock())
        waiting = asyncio.ensure_future(journal._writer.ask(wait))
        await asyncio.to_thread(begun.wait, 60)
        waiting.cancel()
        _unawaited = journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
        return journal

    async def second(journal: SqliteJournal) -> None:
        await journal.retire("nobody")  # answered after what was asked before
        await journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING)
        assert await count(journal, "s") == 2
        await journal.close()

    journal = asyncio.run(first())
    gate.set()
    asyncio.run(second(journal))


def test_what_was_asked_before_the_close_is_answered_even_when_it_waits(path: Path) -> None:
    async def live() -> None:
        async with opened(path) as journal:
            async with held_up(journal):
                asked = journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
                closing = asyncio.ensure_future(journal.close())
                await asyncio.to_thread(lambda: None)
            await closing
            assert len(await asked) == 1
            with pytest.raises(JournalStoppedError, match="closed; open it again"):
                await journal.append(SagaId("t"), [started()], after=0, summary=RUNNING)

    asyncio.run(live())


def test_a_handle_remembers_only_so_many_sagas(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "REMEMBERED", 3)

    async def live() -> None:
        async with opened(path) as handle:
            for turn in range(3):
                for number in range(8):
                    events = [resumed()] if turn else [started()]
                    await handle.append(SagaId(f"s{number}"), events, after=turn, summary=RUNNING)
            assert len(handle._heads) == 3
            await handle.append(SagaId("s7"), [resumed()], after=3, summary=Summary(status=SagaStatus.COMPLETED))
            assert len(handle._heads) == 2

    asyncio.run(live())


# -- the log ------------------------------------------------------------------------------------------------------


def test_the_log_is_cut_back_while_the_journal_grows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 50)

    async def live() -> list[int]:
        sizes: list[int] = []
        async with opened(path) as journal:
            await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
            for turn in range(200):
                await journal.append(SagaId("s"), walked(f"a.{turn}"), after=1 + 4 * turn, summary=RUNNING)
                sizes.append(path.with_name("journal.db-wal").stat().st_size)
        return sizes

    made, *grown = asyncio.run(live())  # the tables are in it from the start
    assert max(grown) < made + 80 * 4200


def test_a_reader_that_stays_does_not_stop_the_writer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 10)

    async def live() -> None:
        async with opened(path) as journal:
            await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
            other = Database(path, busy_timeout_s=0, vfs=None)
            other.run("BEGIN")
            assert other.rows("SELECT head FROM saga") == [(1,)]
            for turn in range(1, 60):
                await journal.append(SagaId("s"), [resumed()], after=turn, summary=RUNNING)
            assert other.rows("SELECT head FROM saga") == [(1,)]
            other.run("ROLLBACK")
            for turn in range(60, 90):
                await journal.append(SagaId("s"), [resumed()], after=turn, summary=RUNNING)
            other.close()
            assert await count(journal, "s") == 90

    asyncio.run(live())
