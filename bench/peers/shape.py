"""The shape of the work that every peer does: five steps a saga, so many sagas, so many in flight."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

STEPS = 5
IN_FLIGHT = 256


async def run(one: Callable[[int], Awaitable[object]], sagas: int) -> None:
    """Print sagas a second and milliseconds of CPU a saga, after a few that are not counted."""

    async def lane(first: int, count: int) -> None:
        for n in range(count):
            await one(first * count + n)

    lanes = min(IN_FLIGHT, sagas)
    await asyncio.gather(*(lane(-1 - n, 1) for n in range(8)))
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(lane(n, sagas // lanes) for n in range(lanes)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    done = sagas // lanes * lanes
    print(json.dumps({"sagas_a_second": done / wall, "cpu_ms": cpu / done * 1000}))


def given() -> tuple[Path, int]:
    """The folder to work in, and how many sagas."""
    return Path(sys.argv[1]), int(sys.argv[2])
