"""Handle: wait for a saga that was started or resumed. Ended: how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import field
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, cast

from amends.core.state.saga import Saga, Step, open_waits
from amends.core.state.step import Throttle
from amends.core.transitions import SagaStatus
from amends.core.words.values import Json, SagaId, StepId
from amends.dataclass import dataclass
from amends.errors import RefusedError
from amends.journal.port.journal import PARENT
from amends.logs import logger
from amends.runtime.drive.worker_context import is_in_line
from amends.runtime.values.signature import R_co

T = TypeVar("T")
Source: TypeAlias = Callable[[SagaId], Awaitable[dict[str, Json]]]
_log = logger("amends.engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Generic[R_co]):
    """Where a saga stands when nothing more is due: ended, or waiting for a person."""

    id: SagaId
    status: SagaStatus
    result: R_co = cast("R_co", None)
    """What its function returned, where this process knows its definition; else as it is on record. Only what has
    completed has one.
    """
    why: str = ""
    cause: str = ""
    step: StepId | None = None
    incidents: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    """The signals that it waits for, oldest wait first."""
    due_at: int | None = None
    """When it may go on, where a rule's rate makes it wait: milliseconds of UTC."""
    wake_at: int | None = None
    """When to drive it again, in milliseconds of UTC: of `drive` alone. None: it is over, or waits for people only."""
    held_by: str = ""
    """The living worker that drives it, where that is another one: of `drive` alone."""
    recorded: Json = field(default=None, repr=False, compare=False)
    """The result as it is on record: JSON."""
    source: Source | None = field(default=None, repr=False, compare=False)
    in_line: bool = field(default=False, repr=False, compare=False)
    """It waits for what other sagas hold, and goes on by itself before long."""
    parent: SagaId | None = field(default=None, repr=False, compare=False)
    """The saga that called it, where it is a child."""

    def __repr__(self) -> str:
        """Text for a notebook: only what there is to say, and what a person would ask first."""
        shown = {
            "result": self.result if self.status is SagaStatus.COMPLETED else None,
            "why": self.why,
            "step": self.step,
            "incidents": self.incidents,
            "waits_for": self.waits_for,
        }
        said = "".join(f", {name}={value!r}" for name, value in shown.items() if value not in (None, "", ()))
        return f"Ended({self.id!r}, {str(self.status)!r}{said})"

    async def evidence(self) -> dict[str, Json]:
        """Its record, with every fact of its timeline: await it while the coordinator is open."""
        if self.source is None:
            raise RefusedError(f"saga {self.id} was not run here; `amends evidence record {self.id}` prints its record")
        return await self.source(self.id)


def parent_of(saga: Saga) -> SagaId | None:
    parent = None if saga.begun is None else saga.begun.labels.get(PARENT)
    return None if parent is None else SagaId(parent)


def ended(saga: Saga, source: Source | None = None, restored: object = None) -> Ended:
    """`restored`: the result as what it is declared to be, where that is more than what is on record."""
    result = saga.result if saga.phase is SagaStatus.COMPLETED else None
    rollback, incidents = saga.rollback, saga.open_incidents
    if saga.phase is SagaStatus.COMPLETED and not incidents:  # as most end: nothing is left to look for
        return Ended(
            id=saga.id,
            status=saga.status,
            result=cast("Any", result if restored is None else restored),
            recorded=result,
            source=source,
            parent=parent_of(saga),
        )
    stopped = saga.paused if saga.phase is SagaStatus.PAUSED else rollback
    why = "; ".join(incident.why for incident in incidents) or (stopped.why if stopped else "")
    throttled = throttled_steps(saga)
    return Ended(
        id=saga.id,
        status=saga.status,
        result=cast("Any", result if restored is None else restored),
        recorded=result,
        why=why or "; ".join(f"{step.topic} waits for {throttle.words}" for step, throttle in throttled),
        due_at=min((throttle.until for _, throttle in throttled), default=None),
        cause=str(rollback.cause) if rollback else "",
        step=rollback.step if rollback else None,
        incidents=tuple(f"{saga.id}/{incident.number}" for incident in incidents),
        waits_for=tuple(dict.fromkeys(wait.name for wait in open_waits(saga) if wait.name)),
        source=source,
        in_line=is_in_line(saga),
        parent=parent_of(saga),
    )


def throttled_steps(saga: Saga) -> tuple[tuple[Step, Throttle], ...]:
    """The steps that rates make wait while nothing else of their saga is under way, each with what it waits for."""
    if saga.status is not SagaStatus.WAITING:
        return ()
    steps = (saga.steps[name] for name in saga.waiting)
    return tuple((step, step.throttle) for step in steps if step.throttle is not None and step.is_throttled)


_NOT_OVER = frozenset({SagaStatus.WAITING, SagaStatus.PAUSED, SagaStatus.RUNNING, SagaStatus.ROLLING_BACK})


class Handle(Awaitable[Ended[R_co]]):
    """A saga that is being driven. Awaiting it waits for its end; giving up the wait does not stop the saga.

    While it waits for people the saga is not in memory; whoever awaits the handle waits on.
    """

    def __init__(self, saga: SagaId, task: asyncio.Task[Ended[R_co]], watch: Watch) -> None:
        self.id = saga
        self._task = task
        self._watch = watch

    def __await__(self) -> Generator[Any, None, Ended[R_co]]:
        return self._end().__await__()

    async def _end(self) -> Ended[R_co]:
        task = self._task
        while (end := await outcome_of(task)).status in _NOT_OVER:
            task = await self._watch(self.id)
        return end

    async def halt(self) -> Ended[R_co]:
        """Wait only until nothing more is due: it has ended, or people are waited for."""
        return await outcome_of(self._task)


async def outcome_of(task: asyncio.Task[T]) -> T:
    """Wait for a task, which goes on where the wait is given up. As `asyncio.shield` does, with fewer calls."""
    if not task.done():
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.add_done_callback(partial(_tell, ended))
        await ended
    return task.result()


def _tell(ended: asyncio.Future[None], task: asyncio.Task[Any]) -> None:
    if not ended.done():
        ended.set_result(None)
    elif not task.cancelled():
        task.exception()  # nobody waits any more: it is not to be said that nobody asked for it


async def at_its_end(end: Ended) -> Ended:
    """An end to wait for where a saga has ended already."""
    return end


async def halted(handle: Handle) -> Ended | None:
    return await handle.halt()


Watch: TypeAlias = Callable[[SagaId], Awaitable[asyncio.Task[Ended]]]
