"""Power cuts under the SQLite journal: every image that a disk may be found with, and whether anything is missing.

    python -m tests.journal.power --images 100000

A story is told once on a watched disk. For each operation of it the power is cut there, and the disk rebuilt: what was
synced is there, and of the rest all, nothing, some sectors, or some writes in another order. Each image is opened as a
journal: all that was acknowledged before the cut is there, nothing else is, and the evidence covers it.
"""

import argparse
import asyncio
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from amends.core.events import Event
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import AmendsError, JournalError, JournalStoppedError, UnknownSagaError
from amends.journal.port.evidence import Pace
from amends.journal.port.journal import Journal, SagaQuery, Summary
from amends.journal.sqlite import SqliteJournal, writer
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.evidence import root
from amends.testing.journal_suite.fixture import PlainNotary
from amends.testing.journal_suite.samples import opened, resumed, started, walked
from amends.testing.journal_suite.whole import history
from tests.journal.disk import Damage, Disk, Operation, after_power_cut, watched

RUNNING = Summary(status=SagaStatus.RUNNING)
SEEDED: Sequence[Damage] = ("torn", "reordered")


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
            given = history(0, 7 + turn)  # in parts: what the second turn adds, and what both sagas have
            await line(journal, disk, told, SagaId(name), walked(f"a.{turn}", args=given, is_first=turn == 0))
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


@contextmanager
def frequent_checkpoints() -> Generator[None]:
    """A short story has some, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "CHECKPOINT_PAGES", 40)
        yield


# -- images -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Story:
    """What was written to the disk, in order, and when (in operations) how many entries were acknowledged."""

    log: list[Operation]
    moments: list[tuple[int, SagaId, int]]
    sure: dict[SagaId, list[Event]]

    def known(self, cut: int, saga: SagaId) -> int:
        return max((count for at, name, count in self.moments if at <= cut and name == saga), default=0)


def told_once(place: Path) -> Story:
    with watched() as disk:
        told = Told()
        run(disk, place / "journal.db", told)
    log = [operation for operation in disk.log if operation.kind != "read"]
    moments = [(sum(one.kind != "read" for one in disk.log[:at]), saga, count) for at, saga, count in told.moments]
    return Story(log, moments, told.sure)


def variants(seeds: int) -> Iterator[tuple[Damage, int]]:
    yield "kept", 0
    yield "lost", 0
    for seed in range(seeds):
        for damage in SEEDED:
            yield damage, seed


def images_of(story: Story, place: Path, cuts: range, seeds: int) -> int:
    """Open every image of these cuts, and hold it against the story. How many there were."""
    return asyncio.run(_images(story, place, cuts, seeds))


async def _images(story: Story, place: Path, cuts: range, seeds: int) -> int:
    count = 0
    for cut in cuts:
        for damage, seed in variants(seeds):
            at = place / f"{cut}-{damage}-{seed}"
            at.mkdir()
            for file, content in after_power_cut(story.log[:cut], damage, seed=cut * 1_000_003 + seed).items():
                (at / file).touch(0o600)
                (at / file).write_bytes(content)
            found = await stored(at / "journal.db")
            for saga, events in story.sure.items():
                here = found.get(saga, [])
                assert len(here) >= story.known(cut, saga), f"cut {cut}, {damage} {seed}: {saga} lost entries"
                assert here == events[: len(here)], f"cut {cut}, {damage} {seed}: {saga} is not what was written"
            shutil.rmtree(at)
            count += 1
    return count


# -- on demand ----------------------------------------------------------------------------------------------------


def _part(asked: tuple[int, int, int]) -> int:
    first, step, seeds = asked
    ram = Path("/dev/shm")
    with frequent_checkpoints(), tempfile.TemporaryDirectory(dir=ram if ram.is_dir() else None) as folder:
        story = told_once(Path(folder))
        return images_of(story, Path(folder), range(first, len(story.log) + 1, step), seeds)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--images", type=int, default=100_000)
    asked.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked.add_argument("--slice", type=int, default=0, help="which slice of all images to open")
    asked.add_argument("--slices", type=int, default=1, help="of how many")
    words = asked.parse_args()
    with frequent_checkpoints(), tempfile.TemporaryDirectory() as folder:
        cuts = len(told_once(Path(folder)).log) + 1
    seeds = max(1, -(-(words.images - 2 * cuts) // (2 * cuts)))
    parts = 4 * words.processes * words.slices
    since = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(words.processes) as pool:
        images = sum(
            pool.imap_unordered(_part, [(first, parts, seeds) for first in range(words.slice, parts, words.slices)])
        )
    spent_s = time.monotonic() - since
    sys.stdout.write(f"{cuts:,} cuts, {images:,} images, nothing that was acknowledged is missing ({spent_s:.0f} s)\n")


if __name__ == "__main__":
    main()
