"""`make bench-adapters`: the CPU that an adapter adds to a tool call of its framework, beside that of `s.do` alone.

`python -m bench.adapters of_langchain` in that framework's environment. The module has `run(coordinator, calls)`: an
agent that makes so many tool calls one after another, with the adapter, or, given None, without.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from amends import Coordinator
from bench.adapters.tool import tool
from bench.figures import ROUNDS, Figures, fresh, timed

CALLS = 60
BOUND = 2.0


async def alone(coordinator: Coordinator) -> None:
    async with coordinator.session("bench") as s:
        for n in range(CALLS):
            await s.do(tool, n, call=f"c{n}")


async def measured(name: str, folder: Path, figures: Figures) -> None:
    module = importlib.import_module(f"bench.adapters.{name}")
    own = await compared(f"{name}: a tool call", module.run, folder, figures, BOUND)
    if hasattr(module, "with_an_answer_each"):
        await compared(f"{name}: a call with its model's answer", module.with_an_answer_each, folder, figures, None)
    figures.shown("s.do alone", own * 1e6, "us CPU")


async def compared(
    what: str,
    run: Callable[[Any, int], Awaitable[None]],
    folder: Path,
    figures: Figures,
    bound: float | None,
) -> float:
    """Measure one way to use it; what `s.do` alone takes."""
    ours, bare, with_adapter = list[float](), list[float](), list[float]()
    for _ in range(ROUNDS + 3):
        async with Coordinator.open(str(fresh(folder)), env="development") as coordinator:
            await alone(coordinator)
            await run(coordinator, 3)
            ours.append((await timed(lambda: alone(coordinator)))[0])
            with_adapter.append((await timed(lambda: run(coordinator, CALLS)))[0])
            bare.append((await timed(lambda: run(None, CALLS)))[0])
    added, own = (min(with_adapter) - min(bare)) / CALLS, min(ours) / CALLS
    figures.shown(f"{what}, of the framework alone", min(bare) / CALLS * 1e6, "us CPU")
    if bound is None:
        figures.shown(f"{what}: added by the adapter / s.do alone", added / own, "x")
    else:
        figures.at_most(f"{what}: added by the adapter / s.do alone", added / own, bound)
    return own


def main(name: str) -> int:
    figures = Figures()
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(measured(name, Path(place), figures))
    Console(width=120).print(figures.table)
    return 1 if figures.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
