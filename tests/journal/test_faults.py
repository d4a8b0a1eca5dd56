"""The disk fails, fills up, loses power: nothing that was acknowledged is lost, and nothing goes wrong in silence."""

import asyncio
from collections.abc import Callable, Collection, Generator
from contextlib import suppress
from pathlib import Path
from typing import cast, get_args

import apsw
import pytest

from amends.core.events import Event
from amends.core.words.values import SagaId
from amends.errors import JournalFullError, JournalStoppedError
from amends.journal.sqlite import SqliteJournal
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.samples import resumed, started, succeeded
from tests.journal.disk import Disk, Fault, Kind, Operation, nothing, watched
from tests.journal.power import RUNNING, Told, frequent_checkpoints, images_of, run, stored, told_once
from tests.parts import sampled

KINDS: Collection[Kind] = get_args(Kind)
PARTS = 8
SEEDS = 8
Record = Callable[[str, object], None]


@pytest.fixture(name="path")
def _path(ram_path: Path) -> Path:
    path = ram_path / "journal.db"
    path.touch(0o600)
    return path


def check(told: Told, found: dict[SagaId, list[Event]]) -> None:
    for saga in {*told.sure, *found}:
        sure, doubtful = told.sure.get(saga, []), told.doubtful.get(saga, [])
        assert found.get(saga, []) in (sure, sure + doubtful)


@pytest.fixture(autouse=True)
def _frequent_checkpoints() -> Generator[None]:
    with frequent_checkpoints():
        yield


def operations(path: Path) -> list[Operation]:
    """Those of a story in which nothing goes wrong."""
    with watched() as disk:
        told = Told()
        run(disk, path, told)
    assert told.errors == []
    assert {operation.kind for operation in disk.log} == set(KINDS)
    check(told, asyncio.run(stored(path)))
    return disk.log


def failing(error: type[apsw.Error], kinds: Collection[Kind], first: int, last: int) -> Fault:
    """An error at each operation of these kinds from the first number to the last."""
    return lambda at, operation: error("injected") if first <= at <= last and operation.kind in kinds else None


@pytest.mark.parametrize(
    ("error", "kinds", "lasting"),
    sampled(
        [
            (apsw.FullError, {"write"}, 0),
            (apsw.IOError, KINDS, 0),
            (apsw.IOError, KINDS, 1_000_000),
            (apsw.FullError, {"write"}, 1_000_000),
        ],
        each=4,
    ),
    ids=["the disk is full once", "the disk fails once", "the disk fails for ever", "the disk is full for ever"],
)
def test_an_error_at_any_operation_is_told_and_loses_nothing(
    ram_path: Path, error: type[apsw.Error], kinds: Collection[Kind], lasting: int, record_property: Record
) -> None:
    tried = 0
    for number, operation in enumerate(operations(ram_path / "whole.db")):
        if operation.kind not in kinds:
            continue
        path = ram_path / f"{number}.db"
        told = Told()
        with watched() as disk:
            disk.fault = failing(error, kinds, number, number + lasting)
            run(disk, path, told)
        check(told, asyncio.run(stored(path)))
        tried += 1
    record_property("stored", {f"I/O errors {'for ever' if lasting else 'once'}": tried})
    assert tried > 0


@pytest.mark.parametrize("part", sampled(range(PARTS), each=PARTS))
def test_power_lost_at_any_operation_takes_nothing_that_was_acknowledged(
    ram_path: Path, part: int, record_property: Record
) -> None:
    story = told_once(ram_path)
    images = images_of(story, ram_path, range(part, len(story.log) + 1, PARTS), SEEDS)
    record_property("stored", {"power cuts": len(range(part, len(story.log) + 1, PARTS)), "images": images})
    assert images > 5_000 / PARTS


# -- what the writer does about it --------------------------------------------------------------------------------


def test_after_a_failed_fsync_the_writer_stops_for_good(path: Path) -> None:
    async def live(disk: Disk) -> None:
        journal = await SqliteJournal.open(path, ManualClock(), vfs=disk.name)
        await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
        disk.fault = failing(apsw.IOError, {"sync"}, len(disk.log), len(disk.log) + 100)
        with pytest.raises(JournalStoppedError, match=r"may or may not be on disk.*restart the process"):
            await journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING)
        disk.fault = nothing
        for _ in range(2):  # although the disk works again
            with pytest.raises(JournalStoppedError, match="stopped for good"):
                await journal.append(SagaId("t"), [started()], after=0, summary=RUNNING)
        with pytest.raises(JournalStoppedError, match="stopped for good"):
            journal.renew("w", 30)
        await journal.close()

    with watched() as disk:
        asyncio.run(live(disk))


def test_a_full_disk_refuses_and_works_again_once_there_is_room(path: Path) -> None:
    async def live(disk: Disk) -> None:
        journal = await SqliteJournal.open(path, ManualClock(), vfs=disk.name)
        await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
        disk.fault = failing(apsw.FullError, {"write"}, 0, 1_000_000)
        for _ in range(2):
            with pytest.raises(JournalFullError, match="no room on the disk; nothing was written"):
                await journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING)
        disk.fault = nothing
        await journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING)
        await journal.close()

    with watched() as disk:
        asyncio.run(live(disk))
    assert asyncio.run(stored(path)) == {"s": [started(), resumed()]}


def test_a_real_limit_on_the_files_size_is_a_full_disk_too(path: Path) -> None:
    async def live() -> None:
        journal = await SqliteJournal.open(path, ManualClock())
        await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
        pages = await journal._writer.ask(lambda batch: batch.database.pragma("page_count"))
        await journal._writer.ask(lambda batch: batch.database.pragma("max_page_count", cast(int, pages)))
        with pytest.raises(JournalFullError):
            await journal.append(SagaId("s"), [succeeded("x" * 300_000)], after=1, summary=RUNNING)
        await journal._writer.ask(lambda batch: batch.database.pragma("max_page_count", 1_000_000))
        await journal.append(SagaId("s"), [succeeded("x" * 300_000)], after=1, summary=RUNNING)
        await journal.close()

    asyncio.run(live())
    assert len(asyncio.run(stored(path))[SagaId("s")]) == 2


@pytest.mark.parametrize(
    ("error", "kind", "stops"), [(apsw.IOError, "sync", True), (apsw.FullError, "write", False)], ids=["fails", "full"]
)
def test_what_goes_wrong_in_a_checkpoint_comes_after_the_answer(
    path: Path, error: type[apsw.Error], kind: Kind, stops: bool
) -> None:
    """A checkpoint writes to the file itself, a commit only to the log beside it."""

    def in_checkpoint(_at: int, operation: Operation) -> apsw.Error | None:
        return error("injected") if operation.kind == kind and operation.file == "journal.db" else None

    async def live(disk: Disk) -> int:
        journal = await SqliteJournal.open(path, ManualClock(), vfs=disk.name)
        await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
        disk.fault = in_checkpoint
        written = 1
        with suppress(JournalStoppedError):
            while written < 40:
                await journal.append(SagaId("s"), [resumed()], after=written, summary=RUNNING)
                written += 1
        assert (journal._writer.stopped is not None) == stops == (written < 40)
        disk.fault = nothing
        await journal.close()
        return written

    with watched() as disk:
        written = asyncio.run(live(disk))
    assert len(asyncio.run(stored(path))[SagaId("s")]) == written
