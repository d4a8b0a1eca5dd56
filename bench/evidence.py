"""What evidence costs: the same sagas with and without it, and a bundle verified offline."""

from __future__ import annotations

import gc
import io
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from amends.addresses import evidence_notary
from amends.clock import SystemClock
from amends.evidence.bundle import export
from amends.evidence.verify.verify import verify_bundle
from amends.gate.load import BuiltinGate
from amends.journal.port.journal import SagaQuery
from amends.journal.sqlite import SqliteJournal
from amends.journal.sqlite.attest import Attestation, EntryRow
from amends.runtime.coordinator.coordinator import Coordinator
from bench import lists, ours
from bench.baselines import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amends.journal.sqlite.database import Database


WARM = 64


@contextmanager
def no_tree() -> Iterator[None]:
    """Entries get their position, and nothing grows over them."""
    inserted = "INSERT INTO entry (saga, number, at, name, body, hash) VALUES (?, ?, ?, ?, ?, ?)"

    def grow(_self: Attestation, database: Database, entries: Sequence[EntryRow]) -> None:
        database.run_many(inserted, entries)

    with mock.patch.object(Attestation, "grow", grow):
        yield


@asynccontextmanager
async def coordinator(path: Path, *, signs: bool) -> AsyncIterator[Coordinator]:
    clock = SystemClock()
    journal = await SqliteJournal.open(path, clock, notary=evidence_notary(path) if signs else None)
    async with Coordinator(journal=journal, gate=BuiltinGate(), clock=clock) as opened:
        yield opened


async def cpu_of_sagas(path: Path, sagas: int, in_flight: int, *, signs: bool) -> float:
    """CPU seconds of so many five-step sagas, this many at a time."""
    async with coordinator(path, signs=signs) as opened:
        await ours.run_lanes(opened, WARM, 16)
        gc.collect()
        since = time.process_time()
        await ours.run_lanes(opened, sagas, in_flight)
        return time.process_time() - since


async def bundle(path: Path, sagas: int) -> tuple[bytes, str]:
    """A journal of so many five-step sagas, exported; and its public key."""
    async with coordinator(path, signs=True) as opened:
        await ours.run_lanes(opened, sagas, 64)
        await opened.journal.seal()
        lines = [line async for line in export(opened.journal)]
        return "".join(lines).encode(), (await opened.journal.signers())[-1].key


def verified_a_second(bundle: bytes, key: str) -> float:
    """Entries that are verified in a second of CPU."""
    gc.collect()
    since = time.process_time()
    report = verify_bundle(io.BytesIO(bundle), key)
    spent = time.process_time() - since
    if report.conclusion != "covered":
        raise AssertionError(report.fields())
    return len(report.covered) / spent


@dataclass(frozen=True)
class Cost:
    """CPU seconds and bytes on disk of a five-step saga's step, with evidence and without."""

    with_it_s: float
    without_s: float
    with_it_bytes: float
    without_bytes: float


async def cost(fresh: Sequence[Path], sagas: int, in_flight: int) -> Cost:
    """CPU is the best of several rounds, taken in turns."""
    with_it, without, bytes_with, bytes_without = [], [], [], []
    for path in fresh:
        signed, plain = path.with_name("signed.db"), path.with_name("plain.db")
        with_it.append(await cpu_of_sagas(signed, sagas, in_flight, signs=True))
        with no_tree():
            without.append(await cpu_of_sagas(plain, sagas, in_flight, signs=False))
        bytes_with.append(size_of(signed))
        bytes_without.append(size_of(plain))
    steps, all_steps = sagas * STEPS, (sagas + WARM) * STEPS
    return Cost(
        with_it_s=min(with_it) / steps,
        without_s=min(without) / steps,
        with_it_bytes=min(bytes_with) / all_steps,
        without_bytes=min(bytes_without) / all_steps,
    )


async def pruned(path: Path, sagas: int) -> float:
    """How much of a file is left, of so many five-step sagas that hold next to nothing, when all are pruned."""
    async with ours.coordinator(path) as opened:
        await ours.run_lanes(opened, sagas, 50)
    before = size_of(path)
    clock = SystemClock()
    journal = await SqliteJournal.open(path, clock)
    await journal.remove_payloads(by="system:bench", why="they are over", ended_before=clock.now())
    await journal.close()
    return size_of(path) / before


def size_of(path: Path) -> int:
    return path.stat().st_size


async def of_one_saga(path: Path, among: int) -> float:
    """CPU seconds of a bundle of one saga among so many, in the middle of them; the best of a few."""
    journal = await lists.filled(path, among, evidence_notary(path))
    page = await journal.sagas(SagaQuery(limit=min(among // 2, 500)))
    saga, best = page.rows[-1].id, 9.9
    for _ in range(5):
        since = time.process_time()
        made = "".join([line async for line in export(journal, [saga])])
        best = min(best, time.process_time() - since)
        verdict = verify_bundle(io.BytesIO(made.encode()), (await journal.signers())[-1].key)
        if verdict.conclusion != "covered":
            raise AssertionError(verdict.fields())
    await journal.close()
    return best
