"""What it costs to wake parked sagas: few at once, and many."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

from amends import Coordinator, Work, saga
from amends.core.words.values import SagaId
from bench import ours


@saga("bench.signalled")
async def signalled(s: Work, n: int) -> object:
    return await s.wait_for("go")


async def parked(opened: Coordinator, count: int, name: str) -> list[str]:
    """So many sagas that wait for a signal, and are nobody's memory."""
    sagas = [f"{name}-{n}" for n in range(count)]
    for first in range(0, count, 500):
        for one in sagas[first : first + 500]:
            await opened.start(signalled, 0, id=one)
    while any(opened._engine.driven(SagaId(one)) for one in sagas):
        await asyncio.sleep(0.1)
    return sagas


async def signal_all(opened: Coordinator, sagas: list[str]) -> tuple[float, float]:
    """CPU seconds and commits for each of them, from the first signal to the last end."""
    gc.collect()
    cpu, commits = time.process_time(), ours.commits(opened)
    await asyncio.gather(*(opened.signal(one, "go") for one in sagas))
    while any(opened._engine.driven(SagaId(one)) for one in sagas):
        await asyncio.sleep(0.05)
    spent = time.process_time() - cpu
    for one in (sagas[0], sagas[-1]):
        if (row := await opened.journal.saga(SagaId(one))) is None or row.status != "completed":
            raise AssertionError(row)
    return spent / len(sagas), (ours.commits(opened) - commits) / len(sagas)


async def costs(path: Path, few: int, many: int) -> tuple[float, float]:
    """CPU of one wake-up among many against one among few, and the commits of one among many."""
    async with ours.coordinator(path, park_s=0.1) as opened:
        await signal_all(opened, await parked(opened, few, "warm"))
        of_few = min([(await signal_all(opened, await parked(opened, few, f"few-{n}")))[0] for n in range(3)])
        of_many, commits = await signal_all(opened, await parked(opened, many, "many"))
    print(f"a wake-up takes {of_few * 1e6:.0f} us CPU among {few}, {of_many * 1e6:.0f} among {many}")
    return of_many / of_few, commits
