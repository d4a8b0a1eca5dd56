"""Runs a definition's steps: one after another in a list, side by side where a graph allows it.

A step of a graph is known by its label, so which of several came first makes no difference when the definition is
called again. When one has ended badly no other is begun; those on their way come to their end, as the rollback waits
for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from functools import partial
from graphlib import TopologicalSorter
from typing import Any, Protocol

from amends.core.words.values import StepId
from amends.errors import CallPerson, Complete, StepError
from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import Arguments
from amends.runtime.declare.graph import Graph
from amends.runtime.declare.steps import Step
from amends.runtime.drive.positions import Spot
from amends.runtime.values.bounded import small_or_off_loop


class DoesSteps(Protocol):
    """The saga, as far as its graph needs it."""

    def do_named(
        self, action: Action[..., Any], named: Mapping[str, object], *, at: Spot | None = None
    ) -> Coroutine[Any, Any, Any]: ...

    def in_flight(self, step: str) -> bool: ...

    def settle(self, error: StepError) -> Coroutine[Any, Any, None]: ...


class GraphRun:
    """One run of one definition's steps. `arguments` gives those of a step, by name, from the results so far."""

    def __init__(self, s: DoesSteps, graph: Graph, arguments: Arguments) -> None:
        self._s = s
        self._graph = graph
        self._arguments = arguments
        self._results: dict[str, Any] = {}
        self._begun: dict[str, str] = {}
        """By each label whose step has begun: the step that it was last known as. A recovery is its last."""

    async def run(self) -> dict[str, Any]:
        """The results by label. Raises what the first step raised that ended badly, or Complete."""
        if self._graph.is_list:
            for step in self._graph.steps.values():
                await self._bring(step)
        else:
            await self._side_by_side()
        return self._results

    # -- a graph ------------------------------------------------------------------------------------------------------

    async def _side_by_side(self) -> None:
        place = {label: number for number, label in enumerate(self._graph.steps)}
        order = TopologicalSorter(self._graph.needs)
        order.prepare()
        running: dict[asyncio.Task[None], str] = {}
        ended: asyncio.Queue[asyncio.Task[None]] = asyncio.Queue()
        try:
            while order.is_active():
                for label in sorted(order.get_ready(), key=place.__getitem__):
                    task = asyncio.ensure_future(self._bring(self._graph.steps[label]))
                    task.add_done_callback(ended.put_nowait)
                    running[task] = label
                done = [await ended.get(), *(ended.get_nowait() for _ in range(ended.qsize()))]
                for task in sorted(done, key=lambda task: place[running[task]]):
                    label = running.pop(task)
                    task.result()
                    order.done(label)
        except asyncio.CancelledError:
            await _cancelled(running)
            raise
        except Exception:  # of whatever kind: it goes on to the driver, once nobody idle is left behind
            idle = {task for task, label in running.items() if not self._s.in_flight(self._begun.get(label, label))}
            for task in running.keys() - idle:
                task.add_done_callback(_heard)
            await _cancelled(idle)
            raise

    # -- one step -----------------------------------------------------------------------------------------------------

    async def _bring(self, step: Step) -> None:
        """Do a step, again where it may be, or what it is recovered by; keep the result."""
        result = await self._do_or_recover(step, step.label)
        self._results[step.label] = result

    async def _do_or_recover(self, step: Step, label: str) -> Any:  # noqa: ANN401 - the action's own type
        turn = 0
        while True:
            try:
                result = await self._do(step, label, turn)
            except StepError as exc:
                if exc.happened is not False or turn == step.retry:
                    return await self._recovered(step, label, exc)
                turn += 1
            else:
                stored, typed = result, step.action.parts.typed  # what others take of it they have their own word for
                if typed.result.stores:
                    stored = await small_or_off_loop(partial(typed.store_result, result))
                self._complete_if(step, result, stored)
                return stored

    async def _do(self, step: Step, label: str, turn: int) -> Any:  # noqa: ANN401 - the action's own type
        named = self._arguments(step, self._results)
        if self._graph.is_list:
            return await self._s.do_named(step.action, named)
        needs = self._graph.needs[label]
        after = [self._begun[label]] if label in self._begun else [self._begun[need] for need in needs]
        known_as = step.label if turn == 0 else f"{step.label}.{turn + 1}"
        self._begun[label] = known_as
        return await self._s.do_named(
            step.action, named, at=Spot(StepId(known_as), tuple(StepId(one) for one in after))
        )

    async def _recovered(self, step: Step, label: str, error: StepError) -> Any:  # noqa: ANN401 - the action's own type
        if isinstance(step.on_failure, Step):
            if error.happened is not False:
                await self._s.settle(error)
            result = await self._do_or_recover(step.on_failure, label)
            self._results[step.on_failure.label] = result
            return result
        if step.on_failure == "call":
            raise CallPerson(str(error), step=error.step) from error
        raise error

    def _complete_if(self, step: Step, result: object, stored: object) -> None:
        if step.complete_if is not None and step.complete_if(result):
            results = {**self._results, step.label: stored}
            left = [label for label in self._graph.steps if label not in results and label not in self._begun]
            not_run = f"; not run: {', '.join(left)}" if left else ""
            raise Complete(results, why=f"step {step.label} was all that was needed{not_run}")


def _heard(task: asyncio.Task[None]) -> None:
    """Its end is on record; nobody is left to be told of it here."""
    if not task.cancelled():
        task.exception()


async def _cancelled(tasks: Mapping[asyncio.Task[None], object] | set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
