"""`make bench-server`: a step through a server's socket beside the same step on a journal at hand, in one run.

Sessions of many steps, one step after the other, with an action that does nothing: what is measured is the way. Rounds
of both take turns, each on a journal of its own on the same disk, so that a busy machine is busy for both.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from amends import Coordinator, Done, action
from tests.server.serving import serving

ROUNDS = 7
STEPS = 60


@action("bench.nothing")
async def nothing(number: int) -> int:
    return number


@nothing.compensation
async def nothing_back(done: Done[int]) -> None: ...


async def per_step_ms(coordinator: Any, id: str) -> float:
    """Milliseconds of one step of a session, of many."""
    async with coordinator.session("bench.session", id=id) as s:
        await s.do(nothing, 0)
        since = time.perf_counter()
        for number in range(STEPS):
            await s.do(nothing, number)
        return (time.perf_counter() - since) * 1000 / STEPS


async def measured(folder: Path) -> tuple[list[float], list[float]]:
    """Each round of the two ways."""
    with serving(folder / "server", tcp=False) as server:
        async with contextlib.AsyncExitStack() as open_ones:
            here = await open_ones.enter_async_context(Coordinator.open(str(folder / "here.db"), signals=False))
            through = await open_ones.enter_async_context(Coordinator.connect(server.socket))
            at_hand: list[float] = []
            served: list[float] = []
            for turn in range(ROUNDS):
                at_hand.append(await per_step_ms(here, f"here-{turn}"))
                served.append(await per_step_ms(through, f"served-{turn}"))
            return at_hand, served


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        at_hand, served = asyncio.run(measured(Path(folder)))
    console = Console()
    here, there = statistics.median(at_hand), statistics.median(served)
    added = statistics.median(b - a for a, b in zip(at_hand, served, strict=True))
    console.print(f"a step on a journal at hand        {here:7.2f} ms   ({min(at_hand):.2f} to {max(at_hand):.2f})")
    console.print(f"the same through a server's socket {there:7.2f} ms   ({min(served):.2f} to {max(served):.2f})")
    console.print(f"added by the way                   {added:7.2f} ms   {there / here:.2f} x")


if __name__ == "__main__":
    main()
