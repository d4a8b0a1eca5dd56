"""How a walk's definition may stop its saga without a rollback, and what it and people may ask for by what is over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from amends.core import commands as c
from amends.core.events import Cause, IncidentKind
from amends.core.saga import Saga, Step
from amends.core.transitions import StepStatus
from amends.core.values import StepId

if TYPE_CHECKING:
    from amends.testing.histories import Walk


def stops(walk: Walk) -> list[Callable[[], object]]:
    return [partial(_diverge, walk), partial(_call, walk)]


def _diverge(walk: Walk) -> None:
    walk.tell(c.OpenIncident(kind=IncidentKind.DIVERGED, step=None, why="the code has changed"))


def _call(walk: Walk) -> None:
    """About a step that it was told is over, or about none."""
    over = sorted(step for step in walk.told_over if step in walk.saga.steps)
    step = walk.tape.pick(over) if over else None
    walk.tell(c.FailWork(Cause.ERROR, "what now?", step, now=walk.now, window_s=900, calls=True))


def some_that_are_over(walk: Walk) -> tuple[StepId, ...]:
    """What a step may be declared to be after: the others have no result to go by."""
    told = walk.told_over
    over = [step for step in walk.saga.steps.values() if step.id in told or step.status is StepStatus.SUCCEEDED]
    known = [step for step in over if step.number or step.status is StepStatus.DENIED]
    return tuple(step.id for step in known if walk.tape.once_in(2))


def would_repeat_blindly(saga: Saga, step: Step) -> bool:
    """Whether a step that goes forward would be done again, and nobody could ask first."""
    forwards = saga.rollback is None and (not saga.finished or step.held)
    return forwards and not step.contract.repeatable and not step.contract.probe
