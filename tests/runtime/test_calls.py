"""How many functions a step calls: its cost goes with that, and unlike a time it is the same on every machine."""

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import ParamSpec, TypeVar

from amends import Coordinator, Registry, Work, action, saga

P = ParamSpec("P")
T = TypeVar("T")

MOST_CALLS = 230
MOST_FILES = 30


@action("calls.note", read_only=True)
async def note(text: str) -> str:
    return text


@saga("calls.many")
async def many(s: Work, steps: int) -> None:
    for number in range(steps):
        await s.do(note, f"number {number}")


def counted(journal: str, steps: int) -> int:
    """Calls of the thread that drives, with a real journal."""
    calls: Counter[str] = Counter()

    def seen(_: FrameType, event: str, __: object) -> None:
        if event in {"call", "c_call"}:
            calls[event] += 1

    async def scene() -> None:
        async with Coordinator.open(journal, registry=Registry()) as on:
            await on.run(many, 2, id="warm")
            sys.setprofile(seen)
            try:
                await on.run(many, steps, id="counted")
            finally:
                sys.setprofile(None)

    asyncio.run(scene())
    return calls.total()


def warm_files(journal: str) -> set[str]:
    """Files of ours from the second `s.do` of a saga to its answer, on the thread that drives, with a real journal."""
    files: set[str] = set()

    @saga("calls.twice")
    async def twice(s: Work) -> None:
        await s.do(note, "cold")
        sys.setprofile(seen)
        try:
            await s.do(note, "warm")
        finally:
            sys.setprofile(None)

    def seen(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and "/amends/" in file and frame.f_back is not None and frame.f_code.co_name not in OUTER:
            files.add(file.partition("/amends/")[2])

    async def scene() -> None:
        async with Coordinator.open(journal, registry=Registry()) as on:
            await on.run(twice, id="warm")

    asyncio.run(scene())
    return files


def left_to_the_collector(journal: str) -> list[str]:
    """What is left of a saga that has ended, and goes only when the collector comes."""

    async def scene() -> None:
        async with Coordinator.open(journal, registry=Registry()) as on:
            await on.run(many, 2, id="warm")
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            await on.run(many, 5, id="counted")
            gc.collect()

    asyncio.run(scene())
    return [type(each).__qualname__ for each in gc.garbage]


OUTER = frozenset({"_call_and_record", "_result"})
"""Coroutines of the drive that are resumed on the way to the step, and do nothing in it."""


def in_a_fresh_process(count: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What it counts where no test ran before: a secret that is known, or a logger that listens, is a longer way."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(count, *args, **kwargs).result()


def test_a_step_makes_few_calls(tmp_path: Path) -> None:
    few, more = (in_a_fresh_process(counted, str(tmp_path / f"{steps}.db"), steps) for steps in (20, 60))
    assert (more - few) / 40 <= MOST_CALLS


def test_a_warm_step_runs_through_few_files(tmp_path: Path) -> None:
    files = in_a_fresh_process(warm_files, str(tmp_path / "amends.db"))
    assert len(files) <= MOST_FILES, sorted(files)


def test_a_saga_that_has_ended_leaves_nothing_to_the_collector(tmp_path: Path) -> None:
    """With many in flight, collecting took a sixth of a step's time."""
    assert in_a_fresh_process(left_to_the_collector, str(tmp_path / "amends.db")) == []
