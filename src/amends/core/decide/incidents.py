"""Stops of a saga, and what a person may make of them: failing, cancelling, late effects, incidents. Pure.

An incident names, newest first, every step of which something may stand and which has no incident of its own; one that
comes up in a graph while independent steps are still taken back names those that wait for its step. While a saga is
halted, each such step is named by an open incident: where one comes up that none names (an attempt lands late), the
incident that stops the saga is opened anew.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from amends.core import commands as c, events as e
from amends.core.decide.approvals import drop, void_all
from amends.core.decide.require import (
    end_of,
    fitting,
    may_go_back_alone,
    on_record,
    require_turn,
    require_work,
    window_end,
)
from amends.core.effects import End, Perform
from amends.core.plan import (
    forward,
    is_pivot,
    may_be_pivots,
    next_back,
    next_rewind,
    pivot_says,
    plan,
    turns,
    unmitigated,
)
from amends.core.state.deciders import owner_of, require_decider
from amends.core.state.frontier import held_back_by
from amends.core.state.limits import one_more
from amends.core.state.saga import Incident, Saga, Step, evolve
from amends.core.state.step import LIVE
from amends.core.transitions import IncidentStatus, SagaStatus, StepStatus
from amends.core.words.outcomes import Lost, Succeeded
from amends.core.words.values import CONTROL, PEOPLE, POLICIES, RUNTIME, StepId
from amends.errors import PastPivotError, RefusedError, UnknownIncidentError

_G, _S = SagaStatus, StepStatus
_OVER: Final = "the saga is rolled back"
_MITIGATE: Final = "amends saga cancel {} --mitigate"
_FORWARD: Final = frozenset({e.IncidentKind.VERIFICATION_FAILED, e.IncidentKind.LIMIT_REACHED})
"""Opened while the work goes forward; a person who resolves one has it go on from there."""
_DOUBLED: Final = e.IncidentKind.EFFECT_DOUBLED
_CERTAIN: Final = frozenset({_S.SUCCEEDED, _S.MITIGATING, _S.UNMITIGATED, _S.MITIGATED})
"""The effect stands for certain; that an attempt reports late is no news of it, unless it doubles it."""
_MAY_DOUBLE: Final = frozenset({*LIVE, *_CERTAIN, _S.UNKNOWN, _S.UNCOMPENSATED})
_SETTLEABLE: Final = frozenset({_S.SUCCEEDED, _S.UNKNOWN, _S.UNCOMPENSATED, _S.UNMITIGATED})
_LET_RUN: Final = frozenset({e.IncidentKind.COMPENSATION_DENIED, e.IncidentKind.MITIGATION_DENIED})


def end(saga: Saga) -> tuple[e.Event, ...]:
    """Nothing is due any more."""
    if plan(saga, 0) != (End(),):
        raise RefusedError(f"saga {saga.id} is {saga.phase}, and not at its end")
    if saga.rewinding and next_back(saga) is None:
        return end_of(saga, next_rewind(saga))
    if not saga.open_incidents:
        if saga.phase is not _G.ROLLING_BACK:
            return (e.SagaCompleted(result=saga.result, early=saga.early),)
        return (e.SagaMitigated() if _stands_mitigated(saga) else e.SagaRolledBack(),)
    stopped_at = next_back(saga)
    if stopped_at is None:
        return (e.SagaHalted(),)
    stopping = next(one for one in saga.open_incidents if one.step == stopped_at.id)
    left = _left(saga, stopping)
    if set(left) <= _named_as_left(saga):
        return (e.SagaHalted(),)
    return (*_opened_anew(saga, stopping, left), e.SagaHalted())


def _stands_mitigated(saga: Saga) -> bool:
    """Whether something stands that could not be taken back, here or in a child: no rollback may claim it did."""
    if saga.mitigated_by and saga.pivot is not None:
        return True
    return any(step.status is _S.MITIGATED for step in saga.steps.values())


# -- failing, cancelling, landing late --------------------------------------------------------------------------------


def fail(saga: Saga, command: c.FailWork, moment: c.Moment) -> tuple[e.Event, ...]:
    require_work(saga)
    if saga.pivot is None and not command.calls:
        asked = e.RollbackAwaited(cause=command.cause, why=command.why, step=command.step, by=RUNTIME)
        return _gone_back(saga, asked, window_end(saga, moment))
    if saga.pivot is not None:
        return past_pivot(saga, command.step, command.why, saga.steps[saga.pivot])
    return (_opened(saga, e.IncidentKind.CALLED, _known(saga, command.step), command.why, _left(saga)), e.SagaHalted())


def _gone_back(saga: Saga, asked: e.RollbackAwaited, deadline_at: int) -> tuple[e.Event, ...]:
    """All of it goes back; where a step may be the pivot, not before that is known."""
    return (asked,) if may_be_pivots(saga) else begun_back(saga, asked, deadline_at)


def begun_back(saga: Saga, asked: e.RollbackAwaited, deadline_at: int) -> tuple[e.Event, ...]:
    return (
        *void_all(saga, _OVER),
        *drop(saga, saga.held, _OVER),
        e.RollbackStarted(
            cause=asked.cause,
            why=asked.why,
            step=asked.step,
            by=asked.by,
            deadline_at=deadline_at,
            mitigate=asked.mitigate,
            own=asked.own,
        ),
    )


def past_pivot(
    saga: Saga, step: StepId | None, why: str, pivot: Step, kind: e.IncidentKind = e.IncidentKind.PAST_PIVOT
) -> tuple[e.Event, ...]:
    """It cannot go back, as it was to: a person decides how it goes on."""
    return (_opened(saga, kind, _known(saga, step), f"{why}; {pivot_says(pivot)}", _left(saga)), e.SagaHalted())


def _known(saga: Saga, step: StepId | None) -> StepId | None:
    return step if step in saga.steps else None  # what was raised may speak of another saga's step


def cancel(saga: Saga, command: c.CancelSaga, moment: c.Moment) -> tuple[e.Event, ...]:
    own = command.mitigate and not command.follows and _own_mitigation(saga, command.by)
    if command.mitigate:
        require_mitigable(saga, command.unmitigated)
    if saga.phase is _G.ROLLING_BACK:
        if command.mitigate and not saga.mitigated_by:
            raise RefusedError(f"saga {saga.id} is rolling back: ask again if it stops at what cannot be taken back")
        return ()
    if command.mitigate and saga.rollback is not None and saga.phase is _G.INCIDENT:
        return _mitigated_from_here(saga, command.by, moment, own=own)
    require_whole(saga)
    if command.counted_on and not may_go_back_alone(saga, partly=False):
        raise RefusedError(command.counted_on)
    if saga.pivot is not None and not command.mitigate:
        raise PastPivotError(f"saga {saga.id} cannot be cancelled: {pivot_says(saga.steps[saga.pivot])}{_or(saga)}")
    if saga.awaited is not None and saga.awaited.above is None and (saga.awaited.mitigate or not command.mitigate):
        return ()
    over = closed(saga, command.by, "the saga was cancelled", own=own, mitigate=command.mitigate)
    asked = e.RollbackAwaited(
        cause=e.Cause.CANCELLED, why=command.why, step=None, by=command.by, mitigate=command.mitigate, own=own
    )
    return (*over, *_gone_back(reduce(evolve, over, saga.copy()), asked, window_end(saga, moment)))


def _or(saga: Saga) -> str:
    """The way out that a person has, where something is declared for every such step."""
    return "" if unmitigated(saga) else f"; a person may take it back with mitigation: {_MITIGATE.format(saga.id)}"


def _own_mitigation(saga: Saga, by: str) -> bool:
    """Past its pivot nothing goes back by itself: a person decides."""
    return require_decider(saga.begun, by, f"take saga {saga.id} back with mitigation")


def require_mitigable(saga: Saga, below: tuple[str, ...] = ()) -> None:
    """Each step that stands and cannot be taken back declares a mitigation. Raises RefusedError."""
    goes_out = next((step for step in saga.lent if step.releasing), None)
    if goes_out is not None:
        raise RefusedError(f"saga {saga.id}: {pivot_says(goes_out)}; wait until that is out, then ask again")
    own = (f"step {step.id} ({step.topic}: {step.contract.no_rollback})" for step in unmitigated(saga))
    if missing := ", ".join((*own, *below)):
        raise PastPivotError(
            f"saga {saga.id} cannot be taken back with mitigation: {missing} took effect, and declares none; give the "
            "action a .mitigation for the sagas to come, and see to this one by hand"
        )


def _mitigated_from_here(saga: Saga, by: str, moment: c.Moment, *, own: bool) -> tuple[e.Event, ...]:
    """A rollback that came to what it could not take back goes on, with what is declared to be done about that."""
    over = closed(saga, by, "the saga goes back with mitigation", own=own, mitigate=True)
    return (*over, e.RollbackResumed(by=by, deadline_at=window_end(saga, moment), mitigate=True, own=own))


def require_whole(saga: Saga) -> None:
    """It has begun, and has not begun to roll back."""
    if saga.begun is not None and saga.begun.definition in {POLICIES, CONTROL, PEOPLE}:
        raise RefusedError(
            "the policies, pauses and holds stay on record; adopt another policy, unpause, or lift the hold"
        )
    if saga.begun is None or saga.rollback is not None:
        what = "has not been started" if saga.begun is None else f"is {saga.phase}: its rollback has begun already"
        raise RefusedError(f"saga {saga.id} {what}")


def closed(
    saga: Saga, by: str, reason: str, *, own: bool = False, mitigate: bool = False
) -> tuple[e.IncidentResolved | e.IncidentRetried, ...]:
    """Somebody has the saga go back: the incidents that kept it are over, but those that only tell something.

    What could not be taken back before is due again, with a full measure of attempts.
    """
    return tuple(
        e.IncidentRetried(incident=incident.number, by=by, own=own, mitigate=mitigate)
        if is_tried_again(saga, incident)
        else e.IncidentResolved(incident=incident.number, by=by, reason=reason, settled=(), own=own, mitigate=mitigate)
        for incident in saga.open_incidents
        if not _only_tells(incident)
    )


def is_tried_again(saga: Saga, incident: Incident) -> bool:
    """Whether an incident stopped at a step of which something may stand that was to be taken back."""
    step = None if incident.step is None else saga.steps[incident.step]
    if step is None:
        return False
    failed = step.status in {_S.UNCOMPENSATED, _S.UNMITIGATED}
    return failed or (step.status is _S.UNKNOWN and step.rewind is not None)


def enrol_late(saga: Saga, command: c.EnrolLate, moment: c.Moment) -> tuple[e.Event, ...]:
    """An attempt that had been given up has ended, and may have taken effect. Nothing where that is no news."""
    step, outcome = on_record(saga, command.step), command.outcome
    if not step.contract.side_effect:
        return ()
    if step.status is _S.RUNNING and command.attempt == step.attempts:
        return ()  # it is in flight: whoever drives it finds it lost, and asks or takes it back after this
    doubled = _doubled(saga, step, command.attempt)
    doubted = step.status is _S.UNKNOWN and (step.late or isinstance(outcome, Lost))
    if doubted and step.contract.probe:  # somebody may have asked before it landed, and be about to record the answer
        unsure = outcome if isinstance(outcome, Lost) else Lost(error="it took effect, and nobody knows when")
        return (*doubled, _late(step.id, command.attempt, unsure))
    if step.status in _CERTAIN or step.status is _S.RECOMPENSATING or doubted:
        halts = doubled and saga.phase in {_G.COMPLETED, _G.MITIGATED}
        return (*doubled, e.SagaHalted()) if halts else doubled
    late = fitting(saga, _late(step.id, command.attempt, outcome))
    return (*doubled, *_owed_again(reduce(evolve, doubled, saga.copy()), step, late, moment))


def _owed_again(
    saga: Saga, step: Step, late: e.LateSuccessEnrolled | e.LateLossEnrolled, moment: c.Moment
) -> tuple[e.Event, ...]:
    resumed = e.RollbackResumed(by=RUNTIME, deadline_at=window_end(saga, moment))
    match saga.phase:
        case SagaStatus.ROLLED_BACK | SagaStatus.MITIGATED:
            return (late, resumed)
        case SagaStatus.COMPLETED:
            why = "it took effect after the saga had gone on without it and completed"
            opened = _opened(saga, e.IncidentKind.OUTCOME_UNKNOWN, step.id, why, (step.id,))
            return (late, opened, e.SagaHalted())
        case SagaStatus.INCIDENT if step.id not in _named_as_left(saga):
            if saga.rollback is not None:
                return (late, resumed)
            if saga.finished and not evolve(saga.copy(), late).steps[step.id].unsettled:
                return (late,)  # it was held until all else had passed: that it took effect is what was wanted
            stopping = min(saga.open_incidents, key=_only_tells)
            left = sorted((*_left(saga, stopping), step.id), key=lambda name: -saga.steps[name].number)
            return (late, *_opened_anew(saga, stopping, tuple(left)))
        case _:
            return (late,)


def _doubled(saga: Saga, step: Step, attempt: int) -> tuple[e.IncidentOpened, ...]:
    """A later attempt took effect too, or may have: a probe had found nothing before this one landed.

    It keeps nothing from going on; the saga is not at its end before a person has seen to it.
    """
    if step.contract.repeatable or attempt >= step.attempts or step.status not in _MAY_DOUBLE:
        return ()
    why = f"attempt {attempt} ended late, after attempt {step.attempts} had begun: the effect may stand twice"
    told = any(one.kind is _DOUBLED and one.why == why and one.left == (step.id,) for one in saga.incidents)
    return () if told else (_opened(saga, _DOUBLED, None, why, (step.id,)),)


def _only_tells(incident: Incident) -> bool:
    return incident.kind is _DOUBLED


def _late(step: StepId, attempt: int, outcome: Succeeded | Lost) -> e.LateSuccessEnrolled | e.LateLossEnrolled:
    if isinstance(outcome, Lost):
        return e.LateLossEnrolled(step=step, attempt=attempt, error=outcome.error, where=outcome.where)
    return e.LateSuccessEnrolled(step=step, attempt=attempt, result=outcome.result, opaque=outcome.opaque)


# -- incidents --------------------------------------------------------------------------------------------------------


def open_incident(saga: Saga, command: c.OpenIncident) -> tuple[e.Event, ...]:
    if command.step is None or command.kind in _FORWARD:
        require_work(saga)
        return (_opened(saga, command.kind, command.step, command.why, _left(saga)), e.SagaHalted())
    step = on_record(saga, command.step)
    require_turn(saga, step)
    if step.contract.goes_on and saga.phase is _G.ROLLING_BACK:
        return (_opened(saga, command.kind, step.id, command.why, (step.id,)),)
    others = any(one is not step and not one.named for one in turns(saga))
    held_back = {one.id for one in held_back_by(saga, step)}
    if others and (saga.live or not command.stops):  # what waits for this step stops here; the others go on
        left = tuple(name for name in _left(saga) if name in held_back)
        return (_opened(saga, command.kind, step.id, command.why, left),)
    # What waits for another's step is named there, and goes back when that has been seen to.
    elsewhere = set[StepId]() if command.stops else _named_as_left(saga) - held_back
    left = tuple(name for name in _left(saga) if name not in elsewhere)
    return (_opened(saga, command.kind, step.id, command.why, left), e.SagaHalted())


def opened_idle(saga: Saga, why: str) -> e.IncidentOpened:
    """An incident that only tells a person: it stops nothing."""
    return _opened(saga, e.IncidentKind.IDLE, None, why, _left(saga))


def _opened(
    saga: Saga, kind: e.IncidentKind, step: StepId | None, why: str, left: tuple[StepId, ...], owner: str = ""
) -> e.IncidentOpened:
    """`owner`: who sees to it already; else whoever owns the saga does."""
    number = len(saga.incidents) + 1
    return e.IncidentOpened(
        incident=number, kind=kind, step=step, why=why, left=left, owner=owner or owner_of(saga.begun)
    )


def _opened_anew(saga: Saga, stopping: Incident, left: tuple[StepId, ...]) -> tuple[e.Event, ...]:
    number = len(saga.incidents) + 1
    reason = f"incident {number} takes its place: an attempt landed late, so more is left"
    closed = e.IncidentResolved(incident=stopping.number, by=RUNTIME, reason=reason, settled=())
    return (closed, _opened(saga, stopping.kind, stopping.step, stopping.why, left, stopping.owner))


def _left(saga: Saga, stopping: Incident | None = None) -> tuple[StepId, ...]:
    """Every step of which something may stand or, after the work, may stand unwished; newest first.

    Those that have an open incident of their own are left to it.
    """
    settling = saga.finished and saga.rollback is None
    steps = (saga.steps[saga.order[number]] for number in range(len(saga.order), 0, -1))
    may_stand = [step for step in steps if (step.unsettled if settling else step.standing)]
    return tuple(step.id for step in may_stand if not step.named or (stopping and stopping.step == step.id))


def _named_as_left(saga: Saga) -> set[StepId]:
    return {step for incident in saga.open_incidents for step in incident.left}


def _open(saga: Saga, number: int) -> Incident:
    incident = next((one for one in saga.incidents if one.number == number), None)
    if incident is None:
        raise UnknownIncidentError(f"saga {saga.id} has no incident {number}")
    if incident.status is not IncidentStatus.OPEN:
        raise RefusedError(f"incident {saga.id}/{number} is not open: it is {incident.status}")
    return incident


def retry_incident(saga: Saga, command: c.RetryIncident, moment: c.Moment) -> tuple[e.Event, ...]:
    incident = _open(saga, command.incident)
    if command.mitigate:
        return _mitigate_incident(saga, incident, command, moment)
    if _only_tells(incident) or _at_pivot(saga, incident):
        name = f"incident {saga.id}/{command.incident}"
        what = "look at the effect, then resolve it"
        if not _only_tells(incident) and not unmitigated(saga):
            what += f", or have it mitigated: amends incident retry {saga.id}/{command.incident} --mitigate"
        raise RefusedError(f"{name} has nothing to try again: {what}")
    if command.let_run:
        _require_let_run(saga, incident)
    to = "let run what the gate refused" if command.let_run else f"retry incident {saga.id}/{command.incident}"
    own = require_decider(saga.begun, command.by, to)
    doubled = may_be_doubled(saga, incident)
    if doubled is not None and not command.repeat:
        raise RefusedError(_may_double(saga, incident, doubled))
    repeat = doubled is not None
    retried = e.IncidentRetried(
        incident=command.incident, by=command.by, let_run=command.let_run, own=own, repeat=repeat
    )
    if incident.kind is e.IncidentKind.LIMIT_REACHED and saga.phase is _G.INCIDENT:
        more = one_more(saga.budget, command.by, "", moment.now, own=own)
        return (retried, *more, _work_resumed(saga, command.by, moment))
    if saga.phase in {_G.ROLLING_BACK, _G.RUNNING, _G.PAUSED}:
        return (retried,)
    if saga.rollback is None:
        return (retried, _work_resumed(saga, command.by, moment))
    return (retried, e.RollbackResumed(by=command.by, deadline_at=window_end(saga, moment)))


def may_be_doubled(saga: Saga, incident: Incident) -> Step | None:
    """The step that would be done once more if an incident were tried again, although an attempt of it was lost, it
    does not say that it may be repeated, and nobody can be asked first.
    """
    step = None if incident.step is None else saga.steps[incident.step]
    if step is None or saga.rollback is not None or step.contract.repeatable or (saga.finished and not step.held):
        return None
    if step.status is not _S.UNKNOWN and not step.unsure:
        return None
    again = evolve(saga.copy(), e.IncidentRetried(incident=incident.number, by="", repeat=True))
    return step if isinstance(forward(again.steps[step.id], 0), Perform) else None


def _may_double(saga: Saga, incident: Incident, step: Step) -> str:
    return (
        f"incident {saga.id}/{incident.number}: an attempt of step {step.id} ({step.topic}) was lost, and the action "
        "is not idempotent and has no probe, so trying again may do it twice. Look first: if it took effect, resolve "
        "the incident, with where that can be seen (resolve_incident(…, proof=…), amends incident resolve --proof); if "
        "it is to be done once more, say so (retry_incident(…, repeat=True), amends incident retry --repeat)"
    )


def _mitigate_incident(
    saga: Saga, incident: Incident, command: c.RetryIncident, moment: c.Moment
) -> tuple[e.Event, ...]:
    """A person has the saga go back past its pivot, from the incident at which it stopped."""
    if saga.phase is not _G.INCIDENT or _only_tells(incident):
        name = f"incident {saga.id}/{incident.number}"
        raise RefusedError(
            f"{name} is no place to go back from: its saga is {saga.status}; {_MITIGATE.format(saga.id)}"
        )
    own = _own_mitigation(saga, command.by)
    require_mitigable(saga, command.unmitigated)
    if saga.rollback is not None:
        return _mitigated_from_here(saga, command.by, moment, own=own)
    require_whole(saga)
    step = None if incident.step is None else saga.steps[incident.step]
    cause = e.Cause.FATAL if step is not None and step.fatal else e.Cause.CANCELLED
    over = closed(saga, command.by, "the saga goes back with mitigation", own=own, mitigate=True)
    asked = e.RollbackAwaited(cause=cause, why=incident.why, step=incident.step, by=command.by, mitigate=True, own=own)
    return (*over, *_gone_back(reduce(evolve, over, saga.copy()), asked, window_end(saga, moment)))


def _work_resumed(saga: Saga, by: str, moment: c.Moment) -> e.WorkResumed:
    return e.WorkResumed(by=by, deadline_at=window_end(saga, moment) if saga.rewinding else 0)


def _require_let_run(saga: Saga, incident: Incident) -> None:
    name = f"incident {saga.id}/{incident.number}"
    if incident.kind not in _LET_RUN:
        raise RefusedError(f"{name} is {incident.kind}: the gate has not refused anything that could be let run")


def assign_incident(saga: Saga, command: c.AssignIncident) -> tuple[e.Event, ...]:
    incident = _open(saga, command.incident)
    if incident.owner == command.owner:
        return ()
    return (e.IncidentAssigned(incident=incident.number, owner=command.owner, by=command.by),)


def comment_incident(saga: Saga, command: c.CommentIncident) -> tuple[e.Event, ...]:
    incident = _open(saga, command.incident)
    if not command.text.strip():
        raise RefusedError(f"a comment on incident {saga.id}/{incident.number} needs a text")
    return (e.IncidentCommented(incident=incident.number, by=command.by, text=command.text),)


def _settleable(step: Step) -> bool:
    """Whether a person may vouch for it: something of it may stand, or should and does not."""
    return step.status in _SETTLEABLE or (step.status is _S.FAILED and step.held)


def resolve_incident(saga: Saga, command: c.ResolveIncident, moment: c.Moment) -> tuple[e.Event, ...]:
    """A person vouches for the step at which it stopped; where there is no way on, for all that is in doubt."""
    incident = _open(saga, command.incident)
    if not command.reason.strip():
        raise RefusedError(f"incident {saga.id}/{incident.number} needs a reason: say what was done by hand")
    own = require_decider(saga.begun, command.by, f"resolve incident {saga.id}/{incident.number}")
    if _at_pivot(saga, incident):
        return _ended_at_pivot(saga, incident, command, own=own)
    rewinds = incident.step is not None and saga.steps[incident.step].rewind in saga.rewinding
    stuck = saga.rollback is None and not saga.finished and not rewinds
    seen_to = incident.left if stuck else () if incident.step is None else (incident.step,)
    seen_to = () if incident.kind in _FORWARD else seen_to  # it goes on, and they vouch for none of the steps
    settled = tuple(
        step for step in seen_to if _settleable(saga.steps[step]) and (saga.steps[step].unsettled or not stuck)
    )
    resolved = e.IncidentResolved(
        incident=incident.number, by=command.by, reason=command.reason, settled=settled, proof=command.proof, own=own
    )
    tells = _only_tells(incident) and len(saga.open_incidents) > 1
    if tells or saga.phase in {_G.ROLLING_BACK, _G.RUNNING, _G.PAUSED}:
        return (resolved,)
    if saga.rollback is not None:
        return (resolved, e.RollbackResumed(by=command.by, deadline_at=window_end(saga, moment)))
    if incident.kind is e.IncidentKind.LIMIT_REACHED:
        more = one_more(saga.budget, command.by, command.reason, moment.now, own=own)
        return (resolved, *more, _work_resumed(saga, command.by, moment))
    unsettled = [step for step in saga.held if step not in settled]
    by_hand = drop(saga, [step for step in unsettled if step == incident.step], command.reason)
    if saga.finished or rewinds or incident.kind in _FORWARD:
        return (resolved, *by_hand, _work_resumed(saga, command.by, moment))
    if saga.live:
        return (resolved, _work_resumed(saga, command.by, moment), e.WorkFinished(result=saga.result, early=saga.early))
    never = drop(saga, unsettled, "its saga was brought to an end by hand")
    return (resolved, *void_all(saga, _OVER), *never, *_brought_to_its_end(saga, command))


def _brought_to_its_end(saga: Saga, command: c.ResolveIncident) -> tuple[e.Event, ...]:
    """At once or, where children have done their work and hold something, when that is out."""
    if not saga.lent:
        return (e.SagaCompleted(result=saga.result, early=saga.early),)
    return (e.WorkResumed(by=command.by), e.WorkFinished(result=saga.result, early=saga.early))


def _at_pivot(saga: Saga, incident: Incident) -> bool:
    """Whether a rollback stopped there because a step took effect that cannot be taken back."""
    return saga.rollback is not None and incident.step is not None and is_pivot(saga.steps[incident.step])


def _ended_at_pivot(saga: Saga, incident: Incident, command: c.ResolveIncident, *, own: bool) -> tuple[e.Event, ...]:
    """The effect stands, so the saga is not rolled back: it ends as it is, on a person's word for all that is left."""
    name = f"incident {saga.id}/{incident.number}"
    others = [f"{saga.id}/{one.number}" for one in saga.open_incidents if one is not incident]
    if others or saga.live or saga.phase is not _G.INCIDENT:
        first = f"see to {', '.join(others)}" if others else "wait until what is being taken back has come to its end"
        raise RefusedError(f"{name} is about a step that cannot be taken back, and ends the saga: {first} first")
    settled = tuple(step for step in _left(saga, incident) if saga.steps[step].unsettled)
    resolved = e.IncidentResolved(
        incident=incident.number, by=command.by, reason=command.reason, settled=settled, proof=command.proof, own=own
    )
    return (resolved, *_brought_to_its_end(saga, command))
