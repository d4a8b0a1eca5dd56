"""`make bench-adapters`: the CPU that an adapter adds to a tool call of its framework, beside that of `s.do` alone.

`python -m bench.adapters of_langchain` in that framework's environment. The module has `run(coordinator, calls)`: an
agent that makes so many tool calls one after another, with the adapter, or, given None, without. Where the adapter puts
the model's answers on record too, `with_an_answer_each` has it do so: each call is two steps then, and what the
framework itself does for it counts as added. Only a tool call has a bound.
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


async def alone(coordinator: Coordinator, steps: int) -> None:
    async with coordinator.session("bench") as s:
        for n in range(steps):
            await s.do(tool, n, call=f"c{n}")


async def measured(name: str, folder: Path, figures: Figures) -> None:
    module = importlib.import_module(f"bench.adapters.{name}")
    await compared(f"{name}: a tool call", "s.do alone", module.run, folder, figures)
    if hasattr(module, "with_an_answer_each"):
        what = f"{name}: a call and its model's answer"
        await compared(what, "two s.do alone", module.with_an_answer_each, folder, figures, steps=2)


async def compared(
    what: str,
    beside: str,
    run: Callable[[Any, int], Awaitable[None]],
    folder: Path,
    figures: Figures,
    *,
    steps: int = 1,
) -> None:
    """Measure one way to use it, beside as many steps by `s.do` alone."""
    ours, bare, with_adapter = list[float](), list[float](), list[float]()
    for _ in range(ROUNDS + 3):
        async with Coordinator.open(str(fresh(folder)), env="development") as coordinator:
            await alone(coordinator, CALLS * steps)
            await run(coordinator, 3)
            ours.append((await timed(lambda: alone(coordinator, CALLS * steps)))[0])
            with_adapter.append((await timed(lambda: run(coordinator, CALLS)))[0])
            bare.append((await timed(lambda: run(None, CALLS)))[0])
    added, own = (min(with_adapter) - min(bare)) / CALLS, min(ours) / CALLS
    figures.shown(f"{what}, of the framework alone", min(bare) / CALLS * 1e6, "us CPU")
    if steps == 1:
        figures.at_most(f"{what}: added by the adapter / {beside}", added / own, BOUND)
    else:
        figures.shown(f"{what}: added by the adapter / {beside}", added / own, "x")
    figures.shown(beside, own * 1e6, "us CPU")


def main(name: str) -> int:
    figures = Figures()
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(measured(name, Path(place), figures))
    Console(width=120).print(figures.table)
    return 1 if figures.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
