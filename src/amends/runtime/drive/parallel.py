"""Several steps taken back side by side, where the plan names several. It decides nothing of its own.

Each step is in the hands of at most one task here. What the plan says of others, and of the whole, waits until it says
so with nothing under way. When one ends, or somebody else has written to the saga, it is planned again.

| what happens                           | what becomes of the others                                                |
|----------------------------------------|---------------------------------------------------------------------------|
| a compensation fails, or is denied     | they go on: only what waits for that step stays where it is               |
| the saga is paused                     | what runs comes to its end, nothing else begins                           |
| the coordinator closes                 | the same                                                                  |
| the drive is cancelled, the pen breaks | they are cancelled, and what they were about counts as lost               |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from amends.core.effects import CallPerson, Compensate, Effect, Probe, Wait
from amends.core.plan import plan
from amends.core.words.values import StepId
from amends.errors import RefusedError
from amends.runtime.drive.run import Run


class Parallel:
    """Of one walk back."""

    def __init__(self, run: Run, do: Callable[[Effect], Coroutine[Any, Any, None]]) -> None:
        self._run = run
        self._do = do
        self._news = run.news.next()
        self._under_way: dict[StepId, tuple[asyncio.Task[None], int]] = {}
        """By step: its task, and the newest entry when it began."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._under_way:
            tasks = [task for task, _ in self._under_way.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def is_busy(self) -> bool:
        return bool(self._under_way)

    def planned(self) -> tuple[Effect, ...]:
        """Effects that are due now; what changes from here on is noticed by `go`."""
        self._news = self._run.news.next()
        return plan(self._run.book.saga, self._run.around.clock.now())

    async def go(self, effects: tuple[Effect, ...]) -> None:
        """Begin what is not under way, and come back when there is something to plan."""
        until: int | None = None
        for effect in effects:
            match effect:
                case Probe(step=step) | Compensate(step=step) if step not in self._under_way:
                    self._under_way[step] = asyncio.create_task(self._do(effect)), self._run.book.saga.head
                case CallPerson(step=step, stops=False) if step not in self._under_way:
                    await self._do(effect)
                    return
                case Wait(until=due):
                    until = due if until is None else min(until, due)
                case _:
                    pass
        await self._wait(until)

    async def _wait(self, until: int | None) -> None:
        run, clock = self._run, self._run.around.clock
        run.book.commit_soon()
        news: list[asyncio.Task[Any]] = [asyncio.create_task(self._news.wait())]
        if until is not None:
            news.append(asyncio.ensure_future(clock.sleep(max(0.0, (until - clock.now()) / 1000))))
        try:
            tasks: list[asyncio.Task[Any]] = [task for task, _ in self._under_way.values()]
            await asyncio.wait([*tasks, *news], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in news:
                one.cancel()
        if run.book.broken is not None:
            raise run.book.broken
        await self._take_note()

    async def _take_note(self) -> None:
        """Of those that have ended. Where one was stopped, the others come to their end, and nothing new begins."""
        stopped = False
        for step, (task, begun_at) in tuple(self._under_way.items()):
            if not task.done():
                continue
            del self._under_way[step]
            error = None if task.cancelled() else task.exception()
            stopped = stopped or task.cancelled()
            if error is not None and not (isinstance(error, RefusedError) and self._run.book.saga.head != begun_at):
                raise error
        if stopped:
            if self._under_way:
                await asyncio.wait([task for task, _ in self._under_way.values()])
            raise asyncio.CancelledError
