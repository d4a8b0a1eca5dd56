"""Planning: pure answers to "what now?", for one step going forward and for a whole saga going back."""

from __future__ import annotations

from typing import Final

from amends.core.effects import (
    Await,
    CallPerson,
    Compensate,
    Effect,
    End,
    Expire,
    GiveUp,
    Judge,
    Mitigate,
    Perform,
    Probe,
    Queue,
    Release,
    Settle,
    TurnBack,
    Wait,
)
from amends.core.events import IncidentKind
from amends.core.state.rewinds import Rewind
from amends.core.state.saga import Saga, Step
from amends.core.state.step import LIVE
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.contracts import Reversibility
from amends.core.words.values import StepId

PROBE_TRIES: Final = 3
_RUNNING: Final = SagaStatus.RUNNING
_ROLLING_BACK: Final = SagaStatus.ROLLING_BACK
_STOPPED: Final = frozenset({SagaStatus.INCIDENT, SagaStatus.PAUSED})


def forward(step: Step, now: int) -> Effect | None:
    """The effect that is due for a step on its way. None: it has succeeded, or an attempt is on its way."""
    if step.told is not None or step.rewind is not None:
        return _told_again(step)
    match step.status:
        case StepStatus.PROPOSED:
            return Judge(step.id)
        case StepStatus.READY:
            return Perform(step.id)
        case StepStatus.AWAITING:
            until = step.wake_at
            return Expire(step.id) if until is None or until <= now else Await(step.id, until)
        case StepStatus.QUEUED:
            return Queue(step.id, step.queued_until)
        case StepStatus.FAILED | StepStatus.UNKNOWN if step.retry_at is None or step.given_up:
            return GiveUp(step.id)
        case StepStatus.FAILED:
            return _at(step.retry_at, now, Perform(step.id))
        case StepStatus.UNKNOWN:
            return _at(step.retry_at, now, Probe(step.id) if _askable(step) else Perform(step.id))
        case StepStatus.DENIED | StepStatus.COMPENSATED | StepStatus.MITIGATED | StepStatus.SETTLED:
            return GiveUp(step.id)
        case StepStatus.SUCCEEDED if step.given_up:
            return GiveUp(step.id)  # it took effect after the definition had been told that it is over
        case _:
            return None


def _told_again(step: Step) -> Effect | None:
    """A step that was set aside is not tried again; the definition is told what it was told."""
    told = step.status if step.told is None else step.told.status
    return None if told in {StepStatus.SUCCEEDED, StepStatus.RUNNING} else GiveUp(step.id)


def plan(saga: Saga, now: int) -> tuple[Effect, ...]:
    """Effects due for a saga that goes back, or whose definition does not act; none where nothing is due.

    One effect and not several, but for a rollback through a graph: else a compensation begins only when the one before
    has ended, newest first.
    """
    if saga.phase is _ROLLING_BACK:
        return _rolling_back(saga, now)
    finishing = saga.phase is _RUNNING and not saga.works
    if finishing and saga.awaited is not None:
        return (_turning(saga, now),)
    if saga.live:
        return (Settle(in_flight(saga)),) if finishing or saga.phase in _STOPPED else ()
    if not finishing:
        return ()
    if saga.rewinding:
        return (rewinding(saga, next_rewind(saga), now),)
    step = next_back(saga)
    if step is None and saga.rests:
        return ()
    if step is None or step.named:  # an incident is open at this place: no further before a person acts
        return (End(),)
    if step.lends:
        return (Release(step.id),)
    return (_releasing(step, now) if step.held else backward(step, now),)


def _rolling_back(saga: Saga, now: int) -> tuple[Effect, ...]:
    """Effects due for the steps whose turn it is. Where an incident is open at one, the others go on without it."""
    if strays(saga):
        return (Settle(in_flight(saga)),)
    due = [step for step in turns(saga) if not step.named and step.status not in LIVE]
    if due and now >= saga.deadline_at:
        mitigates = bool(saga.mitigated_by)
        if saga.live:
            return (Settle(in_flight(saga)),)
        return (_too_late(due[0], stops=len(due) > 1, mitigates=mitigates),)
    if due:
        return tuple([_in_time(step, now, saga.deadline_at, mitigates=bool(saga.mitigated_by)) for step in due])
    return (Settle(in_flight(saga)),) if saga.live else (End(),)


def _turning(saga: Saga, now: int) -> Effect:
    """The effect due before it goes back: whatever may be the pivot comes to its end, or is asked about."""
    pivots = may_be_pivots(saga)
    if live := tuple(step.id for step in pivots if step.status is StepStatus.RUNNING):
        return Settle(live)
    if pivots:
        return backward(pivots[0], now)
    if saga.finished and saga.live:  # nobody counts on it any more: an incident names it only if it ends in doubt
        return Settle(in_flight(saga))
    return TurnBack()


def may_be_pivots(saga: Saga) -> tuple[Step, ...]:
    """The irreversible steps of which it will soon be known whether they took effect, oldest first.

    One that nobody can be asked about is not among them: a rollback shows it to a person.
    """
    steps = (saga.steps[name] for name in {*saga.live, *saga.doubts})
    return tuple(sorted(filter(_may_be_pivot, steps), key=lambda step: step.number))


def _may_be_pivot(step: Step) -> bool:
    if step.contract.reversibility is not Reversibility.IRREVERSIBLE:
        return False
    return step.status is StepStatus.RUNNING or (step.status is StepStatus.UNKNOWN and _askable(step))


def is_pivot(step: Step) -> bool:
    """Whether it took effect, and cannot be taken back."""
    is_final = step.contract.reversibility is Reversibility.IRREVERSIBLE or step.releasing
    return is_final and step.status is StepStatus.SUCCEEDED


def unmitigated(saga: Saga) -> tuple[Step, ...]:
    """The steps that took effect, cannot be taken back, and declare nothing that is done about it; newest first."""
    steps = (saga.steps[saga.order[number]] for number in range(len(saga.order), 0, -1))
    return tuple(step for step in steps if is_pivot(step) and not step.contract.compensation_declared)


def pivot_says(step: Step) -> str:
    if step.releasing:
        return f"what the child of step {step.id} held goes out by now, so it goes forward only"
    took = f"step {step.id} ({step.topic}) took effect and is irreversible ({step.contract.no_rollback})"
    return f"{took}, so it goes forward only"


def _releasing(step: Step, now: int) -> Effect:
    """The effect due for a held step now that nothing else can fail; where it fails for good, a person."""
    effect = forward(step, now)
    if effect is not None and not isinstance(effect, GiveUp):
        return effect
    if step.status is StepStatus.UNKNOWN:
        return backward(step, now)
    return CallPerson(IncidentKind.RELEASE_FAILED, step.id, step.why)


def rewinding(saga: Saga, rewind: Rewind, now: int) -> Effect:
    """The one thing that is due for a rewind. Its own steps alone concern it: others may be on their way meanwhile."""
    if live := in_flight(saga, rewind):
        return Settle(live)
    step = next_of(saga, rewind)
    if step is None or step.named:
        return End()
    return _in_time(step, now, rewind.deadline_at)


def _in_time(step: Step, now: int, deadline_at: int, *, mitigates: bool = False) -> Effect:
    if now >= deadline_at:
        return _too_late(step)
    effect = backward(step, now, mitigates=mitigates)
    return Wait(min(effect.until, deadline_at)) if isinstance(effect, Wait) else effect


def _too_late(step: Step, *, stops: bool = False, mitigates: bool = False) -> CallPerson:
    rate = "" if step.throttle is None else f"; step {step.id} ({step.topic}) still waits for {step.throttle.words}"
    why = f"the rollback's window has passed with work left{rate}"
    of_mitigation = mitigates and step.contract.mitigation
    kind = IncidentKind.MITIGATION_TIMED_OUT if of_mitigation else IncidentKind.COMPENSATION_TIMED_OUT
    return CallPerson(kind, step.id, why, stops=stops)


def turns(saga: Saga) -> tuple[Step, ...]:
    """The steps whose turn it is in a rollback, newest first: one, or several that a graph declares independent."""
    if saga.phase is not _ROLLING_BACK or not saga.top:
        return ()
    if saga.frontier is None:
        return (saga.steps[saga.order[saga.top]],)
    return tuple(sorted(map(saga.steps.__getitem__, saga.frontier.turns), key=lambda step: -step.number))


def has_turn(saga: Saga, step: Step) -> bool:
    """Whether it may be taken back now, in a rollback."""
    if saga.phase is not _ROLLING_BACK or step.status in LIVE or strays(saga):
        return False
    return step.number == saga.top if saga.frontier is None else step.id in saga.frontier.turns


def strays(saga: Saga) -> bool:
    """Whether an attempt is on its way that the rollback has not begun itself: it is waited for, before anything."""
    if not saga.live:
        return False
    if StepStatus.RUNNING in saga.live.values():
        return True
    if saga.frontier is None:
        return any(saga.steps[step].number != saga.top for step in saga.live)
    return not saga.live.keys() <= saga.frontier.turns.keys()


def in_flight(saga: Saga, rewind: Rewind | None = None) -> tuple[StepId, ...]:
    """The steps with an attempt on its way, oldest first; all of them, or those of a rewind."""
    live = (step for step in saga.live if rewind is None or saga.steps[step].rewind == rewind.key)
    return tuple(sorted(live, key=lambda step: saga.steps[step].number))


def next_rewind(saga: Saga) -> Rewind:
    """Of those under way, the one that comes first where the definition does not act."""
    return max((saga.rewinds[key] for key in saga.rewinding), key=lambda rewind: rewind.from_outside)


def next_of(saga: Saga, rewind: Rewind) -> Step | None:
    """The step whose turn it is in a rewind."""
    steps = rewind.begun.steps
    return saga.steps[steps[rewind.at]] if rewind.at < len(steps) else None


def next_back(saga: Saga) -> Step | None:
    """The step whose turn it is to be taken back: the newest that is owed or, after the work, in doubt.

    Where nothing is, the oldest that is held, here or by a child: it is its turn to be released.
    """
    if saga.phase is SagaStatus.ROLLING_BACK:
        return next(iter(turns(saga)), None)
    if saga.phase is not SagaStatus.RUNNING or saga.works or saga.awaited is not None:
        return None
    if saga.rewinding:
        return next_of(saga, next_rewind(saga))
    doubted = max((saga.steps[step] for step in saga.doubts), key=lambda step: step.number, default=None)
    if doubted is not None or saga.holds_for_family:
        return doubted
    held = (saga.steps[step] for step in saga.held)
    return min((*held, *saga.lent), key=lambda step: step.entry, default=None)


def backward(step: Step, now: int, *, mitigates: bool = False) -> Effect:
    """The effect that takes one owed step back. `mitigates`: a person has it go back past the pivot, too."""
    declared = step.contract.rollback_supported
    match step.status:
        case StepStatus.SUCCEEDED if declared:
            return Compensate(step.id)
        case StepStatus.SUCCEEDED if mitigates and step.contract.mitigation:
            return Mitigate(step.id)
        case StepStatus.SUCCEEDED if is_pivot(step):
            return CallPerson(IncidentKind.PAST_PIVOT, step.id, pivot_says(step))
        case StepStatus.SUCCEEDED:
            return CallPerson(IncidentKind.COMPENSATION_MISSING, step.id, "no compensation is declared")
        case StepStatus.UNKNOWN if _askable(step):
            return _at(step.retry_at if step.probes else None, now, Probe(step.id))
        case StepStatus.UNKNOWN if declared and not step.late:
            return Compensate(step.id, certain=False)
        case StepStatus.UNKNOWN:
            return CallPerson(IncidentKind.OUTCOME_UNKNOWN, step.id, _unknown(step))
        case StepStatus.UNCOMPENSATED if step.retry_at is not None:
            return _at(step.retry_at, now, Compensate(step.id, certain=step.certain))
        case StepStatus.UNMITIGATED if step.retry_at is not None:
            return _at(step.retry_at, now, Mitigate(step.id))
        case _:
            return CallPerson(step.trouble or IncidentKind.COMPENSATION_FAILED, step.id, step.why)


def _askable(step: Step) -> bool:
    return step.contract.probe and step.probes < PROBE_TRIES


def _at(due: int | None, now: int, effect: Effect) -> Effect:
    return effect if due is None or due <= now else Wait(due)


def _unknown(step: Step) -> str:
    if step.late:
        return "its attempt reported late, after its compensation; whether the effect stands is not known"
    return f"{step.why}; there is no compensation for an outcome that nobody knows"
