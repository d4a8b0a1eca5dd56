"""How long a value keeps the loop to itself: the longest time in which nothing else ran, while one was returned."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from amends import Coordinator, Registry, Work, register, saga

REFUSED: dict[str, Callable[[], object]] = {
    "100 MB of text": lambda: "x" * 100_000_000,
    "30 million items": lambda: [0] * 30_000_000,
}
KEPT: dict[str, Callable[[], object]] = {
    "15 MB of text": lambda: "x" * 15_000_000,
    "7 million items": lambda: [7] * 7_000_000,
}


def spelled_s(made: Callable[[], object]) -> float:
    """What whoever keeps a value by hand, on the loop, has others wait for."""
    value = made()
    since = time.perf_counter()
    hashlib.sha256(json.dumps(value).encode()).hexdigest()
    return time.perf_counter() - since


async def longest_s(work: Callable[[], Awaitable[object]]) -> float:
    """The longest time between two turns of somebody who asks for one all the time."""
    longest, over = 0.0, False

    async def tick() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not over:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    gc.collect()
    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(0.05)
    longest = 0.0
    await work()
    over = True
    await ticking
    return longest


async def stalls(path: Path, made: Callable[[], object], *, in_a_thread: bool) -> tuple[float, float]:
    """While a saga's action makes the value and drops it, and while it returns it."""

    def dropping() -> None:
        _ = made()

    async def returning() -> object:
        return await asyncio.to_thread(made)

    async def undone(_: object) -> None: ...

    drops = register("bench.drops", dropping, compensation=undone)
    returns = register("bench.returns", made if in_a_thread else returning, compensation=undone)

    @saga("bench.drop")
    async def drop(s: Work) -> None:
        await s.do(drops)

    @saga("bench.return")
    async def give(s: Work) -> None:
        await s.do(returns)

    async with Coordinator.open(str(path), registry=Registry()) as opened:
        await opened.run(drop)  # what is imported late is imported now
        bare = await longest_s(lambda: opened.run(drop))
        return bare, await longest_s(lambda: opened.run(give))
