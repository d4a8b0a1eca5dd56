"""Moves of a walk that only time and people's patience make: waits, signals, pauses.

And how a walk's definition may stop its saga without a rollback, and what it and people may ask for by what is over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from amends.core import commands as c
from amends.core.events import Cause, IncidentKind
from amends.core.state.saga import Saga, Step, open_waits
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.values import StepId

if TYPE_CHECKING:
    from amends.testing.walk.walk import Walk

_NAMES: Final = ("", "paid", "seen")
_HOUR_MS: Final = 3_600_000


def wait_moves(walk: Walk) -> list[Callable[[], object]]:
    """Moves that may be asked for and have nothing to do with an action."""
    saga = walk.saga
    if saga.phase is SagaStatus.PAUSED:
        return [*[partial(unpause, walk)] * 3, partial(pause, walk)]
    if saga.phase is SagaStatus.ROLLING_BACK:
        return [partial(pause, walk)]
    if saga.phase is not SagaStatus.RUNNING:
        return []
    ending = [partial(_end, walk, wait.place) for wait in open_waits(saga)]
    return [partial(pause, walk), partial(_wait, walk), partial(_signal, walk), *ending]


def pause(walk: Walk) -> bool:
    stops, wide = walk.tape.once_in(2), walk.tape.pick((0, 0, 3))
    return walk.tell(c.PauseSaga(by="ann", why="let me look", rollbacks=stops, pause=wide))


def unpause(walk: Walk) -> bool:
    return walk.tell(c.UnpauseSaga(by="person:ann"))


def _wait(walk: Walk) -> None:
    known = 0 if walk.saga.waits is None else len(walk.saga.waits.places)
    place = StepId(f"w{known + 1}")
    walk.tell(c.StartWait(place=place, name=walk.tape.pick(_NAMES), until=walk.now + _HOUR_MS))


def _signal(walk: Walk) -> None:
    known = 0 if walk.saga.waits is None else len(walk.saga.waits.signals)
    early = walk.tape.once_in(2)
    walk.tell(c.SendSignal(name=walk.tape.pick(_NAMES[1:]), payload=known + 1, by="ann", early=early))


def _end(walk: Walk, place: StepId) -> None:
    if walk.tape.once_in(2) and walk.saga.waits is not None:
        walk.now = max(walk.now, walk.saga.waits.places[place].until)
    walk.tell(c.EndWait(place=place))


def stops(walk: Walk) -> list[Callable[[], object]]:
    return [partial(_diverge, walk), partial(_call, walk)]


def _diverge(walk: Walk) -> None:
    walk.tell(c.OpenIncident(kind=IncidentKind.DIVERGED, step=None, why="the code has changed"))


def _call(walk: Walk) -> None:
    """About a step that it was told is over, or about none."""
    over = sorted(step for step in walk.told_over if step in walk.saga.steps)
    step = walk.tape.pick(over) if over else None
    walk.tell(c.FailWork(Cause.ERROR, "what now?", step, calls=True))


def some_ended(walk: Walk) -> tuple[StepId, ...]:
    """Steps that a step may be declared to be after: the others have no result to go by."""
    told = walk.told_over
    over = [step for step in walk.saga.steps.values() if step.id in told or step.status is StepStatus.SUCCEEDED]
    known = [step for step in over if step.number or step.status is StepStatus.DENIED]
    return tuple(step.id for step in known if walk.tape.once_in(2))


def would_repeat_blindly(saga: Saga, step: Step) -> bool:
    """Whether a step that goes forward would be done again, and nobody could ask first."""
    forwards = saga.rollback is None and (not saga.finished or step.held)
    return forwards and not step.contract.repeatable and not step.contract.probe
