"""Requirements that several requests make of a saga's state before they are accepted, and the refusals that follow."""

from __future__ import annotations

from typing import Final, TypeVar

from amends.core import events as e
from amends.core.commands import Moment
from amends.core.plan import has_turn, in_flight, next_back, next_of
from amends.core.state.rewinds import Rewind, taken_back
from amends.core.state.saga import Saga, Step
from amends.core.transitions import STEP, SagaStatus, StepStatus
from amends.core.words.values import StepId
from amends.errors import RefusedError

_Fact = TypeVar("_Fact", bound=e.StepEvent | e.ApprovalEvent)
_LONGEST_S: Final = 10 * 365 * 24 * 3600.0


def later(now: int, seconds: float) -> int:
    """That much later; for ever is ten years."""
    return now + round(min(seconds, _LONGEST_S) * 1000)


def window_end(saga: Saga, moment: Moment) -> int:
    """When the window of a rollback closes: the saga's own, else that of whoever asks."""
    own = None if saga.begun is None else saga.begun.rollback_s
    return later(moment.now, moment.window_s if own is None else own)


def require_work(saga: Saga) -> None:
    """The definition still runs."""
    if saga.begun is None:
        raise RefusedError(f"saga {saga.id} has not been started")
    if not saga.works:
        running = saga.phase is SagaStatus.RUNNING
        what = saga.phase if not running else "finished with its work" if saga.finished else "going back"
        raise RefusedError(f"saga {saga.id} is {what}")


def may_go_back_alone(saga: Saga, *, partly: bool) -> bool:
    """Whether a saga may be taken back from outside though another one counts on how it ends.

    In part as long as its work is not finished: the other has heard nothing yet, and hears how it ends after that.
    All of it only where it has stopped at an incident before that: taking it back is one of the ways out, and the
    other hears of it.
    """
    return not saga.finished and (partly or saga.phase is SagaStatus.INCIDENT)


def require_new(saga: Saga, step: StepId) -> None:
    if step in saga.steps:
        raise RefusedError(f"saga {saga.id} has a step {step} already")


def require_free(saga: Saga, place: StepId) -> None:
    """The definition has nothing at this place yet."""
    waited = saga.waits is not None and place in saga.waits.places
    done = saga.placed is not None and place in saga.placed
    if place in saga.steps or place in saga.checkpoints or place in saga.rewinds or waited or done:
        raise RefusedError(f"saga {saga.id} has something at place {place} already")


def require_turn(saga: Saga, step: Step) -> None:
    """It is this step's turn to be taken back: nothing is left that has to go first, and nothing else is in flight.

    While the definition acts, that is said of a rewind's own steps.
    """
    if saga.works and step.rewind is not None and step.rewind in saga.rewinding:
        rewind = saga.rewinds[step.rewind]
        is_its_turn = next_of(saga, rewind) is step and not in_flight(saga, rewind)
    else:
        is_its_turn = has_turn(saga, step) or (next_back(saga) is step and not saga.live)
    if not is_its_turn:
        raise RefusedError(f"saga {saga.id} is {saga.phase}: it is not the turn of step {step.id} to be taken back")


def require_release(saga: Saga, step: Step) -> None:
    """A held step starts after the work, when nothing else is left, and it is its turn."""
    started = step.status in {StepStatus.FAILED, StepStatus.UNKNOWN}
    releases = saga.phase is SagaStatus.RUNNING and saga.finished and not saga.live and saga.awaited is None
    if not releases or (next_back(saga) is not step and not started):
        raise RefusedError(f"step {step.id} of saga {saga.id} is held until everything that could fail has passed")


def end_of(saga: Saga, rewind: Rewind) -> tuple[e.Event, ...]:
    """A rewind is over when nothing of it is owed, or in flight."""
    if next_of(saga, rewind) is not None or in_flight(saga, rewind) or saga.phase is not SagaStatus.RUNNING:
        raise RefusedError(f"saga {saga.id} is {saga.phase}, and its rewind at {rewind.key} is not at its end")
    ended = e.RewindEnded(place=rewind.begun.place, taken_back=taken_back(saga, rewind))
    paused = saga.still_paused if rewind.from_outside else None
    return (ended,) if paused is None else (ended, e.SagaPaused(by=paused.by, why=paused.why))


def on_record(saga: Saga, step: StepId) -> Step:
    found = saga.steps.get(step)
    if found is None:
        raise RefusedError(f"saga {saga.id} has no step {step}")
    return found


def fitting(saga: Saga, fact: _Fact, step: Step | None = None) -> _Fact:
    """The fact, if the table has it at this place; `step`: whose it is, where that is known."""
    status = (step or on_record(saga, fact.step)).status
    if type(fact) not in STEP[status]:
        raise RefusedError(f"step {fact.step} of saga {saga.id} is {status}: it is too late for {type(fact).__name__}")
    return fact
