"""The disk fails, fills up, loses power: nothing that was acknowledged is lost, and nothing goes wrong in silence."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

import apsw
import pytest

from amends.core.events import Event
from amends.core.transitions import SagaStatus
from amends.core.values import SagaId
from amends.errors import AmendsError, JournalError, JournalFullError, JournalStoppedError, UnknownSagaError
from amends.journal.attested import Pace
from amends.journal.protocol import Journal, SagaQuery, Summary
from amends.journal.sqlite import SqliteJournal, writer
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.evidence import root
from amends.testing.journal_suite.notary import PlainNotary
from amends.testing.journal_suite.samples import opened, resumed, started, succeeded, walked
from tests.journal.disk import Damage, Disk, Fault, Kind, Operation, after_power_cut, nothing, watched

RUNNING = Summary(status=SagaStatus.RUNNING)
KINDS: Collection[Kind] = get_args(Kind)
DAMAGES: Collection[Damage] = get_args(Damage)


@dataclass
class Told:
    """What a story's teller was told: events that are surely stored, and those that may be."""

    sure: dict[SagaId, list[Event]] = field(default_factory=dict[SagaId, list[Event]])
    doubtful: dict[SagaId, list[Event]] = field(default_factory=dict[SagaId, list[Event]])
    errors: list[AmendsError] = field(default_factory=list[AmendsError])
    moments: list[tuple[int, SagaId, int]] = field(default_factory=list[tuple[int, SagaId, int]])


def run(disk: Disk, path: Path, told: Told) -> None:
    path.touch(0o600)
    asyncio.run(tell(disk, path, told))


@pytest.fixture(name="path")
def _path(ram_path: Path) -> Path:
    path = ram_path / "journal.db"
    path.touch(0o600)
    return path


async def tell(disk: Disk, path: Path, told: Told) -> None:
    """Two sagas take turns; whatever happens, the teller goes on to the next line."""
    try:
        journal = await SqliteJournal.open(
            path, ManualClock(), vfs=disk.name, notary=PlainNotary(), pace=Pace(entries=4)
        )
    except JournalError as exc:
        told.errors.append(exc)
        return
    for name in ("s", "t"):
        await line(journal, disk, told, SagaId(name), [started()])
    for turn in range(2):
        for name in ("s", "t"):
            await line(journal, disk, told, SagaId(name), walked(f"a.{turn}", is_first=turn == 0))
    await line(journal, disk, told, SagaId("s"), [resumed(), opened()])
    await journal.close()


async def line(journal: Journal, disk: Disk, told: Told, saga: SagaId, events: list[Event] | tuple[Event, ...]) -> None:
    sure = told.sure.setdefault(saga, [])
    try:
        await journal.append(saga, events, after=len(sure), summary=RUNNING)
    except JournalStoppedError as exc:
        told.doubtful.setdefault(saga, list(events))
        told.errors.append(exc)
    except (JournalError, UnknownSagaError) as exc:
        told.errors.append(exc)
    else:
        sure.extend(events)
        told.moments.append((len(disk.log), saga, len(sure)))


async def stored(path: Path) -> dict[SagaId, list[Event]]:
    """Opening it holds the newest entries against the tree, and the newest checkpoint; the log is without gaps."""
    journal = await SqliteJournal.open(path, ManualClock(), notary=PlainNotary())
    try:
        tree, hashes = await journal.tree(), [one.entry.hash async for one in journal.log()]
        assert (tree.size, tree.root) == (len(hashes), root(hashes))
        rows = (await journal.sagas(SagaQuery())).rows
        return {row.id: [entry.event async for entry in journal.read(row.id)] for row in rows}
    finally:
        await journal.close()


def check(told: Told, found: dict[SagaId, list[Event]]) -> None:
    for saga in {*told.sure, *found}:
        sure, doubtful = told.sure.get(saga, []), told.doubtful.get(saga, [])
        assert found.get(saga, []) in (sure, sure + doubtful)


@pytest.fixture(autouse=True)
def _frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 40)


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
    ("error", "kinds"),
    [(apsw.IOError, KINDS), (apsw.FullError, {"write"})],
    ids=["the disk fails", "the disk is full"],
)
@pytest.mark.parametrize("lasting", [0, 1_000_000], ids=["once", "for ever"])
def test_an_error_at_any_operation_is_told_and_loses_nothing(
    ram_path: Path, error: type[apsw.Error], kinds: Collection[Kind], lasting: int
) -> None:
    for number, operation in enumerate(operations(ram_path / "whole.db")):
        if operation.kind not in kinds:
            continue
        path = ram_path / f"{number}.db"
        told = Told()
        with watched() as disk:
            disk.fault = failing(error, kinds, number, number + lasting)
            run(disk, path, told)
        check(told, asyncio.run(stored(path)))


def test_power_lost_at_any_operation_takes_nothing_that_was_acknowledged(ram_path: Path) -> None:
    with watched() as disk:
        told = Told()
        run(disk, ram_path / "journal.db", told)
    log = [operation for operation in disk.log if operation.kind != "read"]
    moments = [(sum(one.kind != "read" for one in disk.log[:at]), saga, count) for at, saga, count in told.moments]
    for cut in range(len(log) + 1):
        for number, damage in enumerate(DAMAGES):
            place = ram_path / f"{cut}-{damage}"
            place.mkdir()
            for file, content in after_power_cut(log[:cut], damage, seed=3 * cut + number).items():
                (place / file).touch(0o600)
                (place / file).write_bytes(content)
            found = asyncio.run(stored(place / "journal.db"))
            for saga, events in told.sure.items():
                known = max((count for at, name, count in moments if at <= cut and name == saga), default=0)
                assert len(found.get(saga, [])) >= known
                assert found.get(saga, []) == events[: len(found.get(saga, []))]


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
