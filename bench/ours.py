"""The same work through amends: the sagas that the figures are taken with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from amends import Coordinator, Done, Fatal, Settings, Work, action, saga
from amends.journal.sqlite import SqliteJournal
from bench.baselines import STEPS


@action("bench.step", idempotent=True)
async def step(n: int) -> int:
    return n


@step.compensation
async def unstep(done: Done) -> None:
    """Nothing to take back: the cost of the runtime is what is measured."""


@saga("bench.five")
async def five(s: Work, first: int) -> int:
    for n in range(STEPS):
        await s.do(step, first + n)
    return first


@action("bench.last", idempotent=True)
async def last(n: int) -> int:
    raise Fatal("the last one")


@last.compensation
async def unlast(done: Done) -> None:
    """Nothing was done."""


@saga("bench.four_back")
async def four_back(s: Work, first: int) -> int:
    """The last of five steps fails for good; the four before it are compensated."""
    for n in range(STEPS - 1):
        await s.do(step, first + n)
    return await s.do(last, first)


@saga("bench.five_back")
async def five_back(s: Work, first: int) -> int:
    """Five steps succeed, then all of them are compensated; `MARKS` has where the way back begins."""
    for n in range(STEPS):
        await s.do(step, first + n)
    MARKS.append(_cpu())
    raise Fatal("the end")


@saga("bench.long")
async def long(s: Work, steps: int, marks: list[int], *, fail: bool) -> int:
    for n in range(steps):
        if n in marks:
            MARKS.append(_cpu())
        await s.do(step, n)
    MARKS.append(_cpu())
    if fail:
        raise Fatal("the end")
    return steps


@saga("bench.one")
async def one(s: Work, n: int) -> int:
    return await s.do(step, n)


@saga("bench.family")
async def family(s: Work, children: int) -> None:
    for n in range(children):
        await s.call(one, n)
    MARKS.append(_cpu())
    raise Fatal("the end")


@action("bench.wait")
async def wait(n: int) -> int:
    await RELEASE[0].wait()
    return n


@wait.compensation
async def unwait(done: Done) -> None:
    """Nothing to take back."""


@saga("bench.waiting")
async def waiting(s: Work, n: int) -> int:
    await s.do(step, n)
    return await s.do(wait, n)


MARKS: list[float] = []
RELEASE: list[asyncio.Event] = []


def _cpu() -> float:
    return time.process_time()


@asynccontextmanager
async def coordinator(path: Path, **settings: float) -> AsyncIterator[Coordinator]:
    made = Settings(**settings) if settings else None  # type: ignore[arg-type]  # ints and floats by name
    async with Coordinator.open(str(path), settings=made, signals=False) as opened:
        yield opened


async def run_lanes(opened: Coordinator, sagas: int, in_flight: int) -> None:
    """`sagas` five-step sagas, `in_flight` at a time."""

    async def lane(count: int) -> None:
        for n in range(count):
            ended = await opened.run(five, n)
            if ended.status != "completed":
                raise AssertionError(ended)

    await asyncio.gather(*(lane(sagas // in_flight) for _ in range(in_flight)))


async def run_back(opened: Coordinator, sagas: int) -> None:
    """`sagas` sagas of four steps and one that fails, one after another."""
    for n in range(sagas):
        ended = await opened.run(four_back, n)
        if ended.status != "rolled_back":
            raise AssertionError(ended)


async def forward_and_back_s(opened: Coordinator, sagas: int) -> tuple[float, float]:
    """CPU of the way forward of so many five-step sagas, one after another, and of their way back."""
    forward = back = 0.0
    for n in range(sagas):
        MARKS.clear()
        since = _cpu()
        ended = await opened.run(five_back, n)
        forward += MARKS[0] - since
        back += _cpu() - MARKS[0]
        if ended.status != "rolled_back":
            raise AssertionError(ended)
    MARKS.clear()
    return forward, back


def commits(opened: Coordinator) -> int:
    journal = opened.journal
    if not isinstance(journal, SqliteJournal):
        raise TypeError(journal)
    return journal.commits
