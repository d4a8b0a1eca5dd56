"""What a request leads to: `decide(saga, command) -> events`, or a refusal. Pure."""

from __future__ import annotations

from typing import assert_never

from amends.core import commands as c
from amends.core import events as e
from amends.core.contracts import Contract, OnIncident, Retries, key_of
from amends.core.outcomes import Failed, Found, FoundNothing, Lost, NoAnswer, Succeeded
from amends.core.plan import PROBE_TRIES
from amends.core.saga import Incident, Saga, Step
from amends.core.transitions import IncidentStatus, SagaStatus, StepStatus
from amends.core.values import StepId
from amends.core.verdict import Decision
from amends.errors import PastPivotError, RefusedError, UnknownIncidentError

_CRASHED = "the process ended before the outcome was recorded"
_S = StepStatus


def decide(saga: Saga, command: c.Command) -> tuple[e.Event, ...]:
    """The facts that follow from a request. Raises RefusedError where the saga's state does not allow it."""
    match command:
        case c.DispatchStep():
            return (_dispatch(saga, command),)
        case c.RecordOutcome():
            return (_outcome(saga, command),)
        case c.ProposeStep():
            return _propose(saga, command)
        case c.RecordVerdict(step=step, verdict=verdict):
            if verdict.decision is Decision.ALLOW:
                return (e.ActionAllowed(step=step, rule=verdict.rule, policy=verdict.policy),)
            return (e.ActionDenied(step=step, rule=verdict.rule, policy=verdict.policy, why=verdict.why),)
        case c.KeepBefore(step=step, before=before):
            return (e.BeforeCaptured(step=step, before=before),)
        case c.StartAttempt(step=step):
            return _start_attempt(saga, saga.steps[step])
        case c.RecordAnswer():
            return (_answer(saga, command),)
        case c.EnrolLateSuccess():
            return _enrol_late(saga, command)
        case c.StartCompensation():
            return _start_compensation(saga, command)
        case c.RecordCompensation():
            return (_compensation(saga.steps[command.step], command),)
        case c.Recover():
            return tuple(_lost(saga, step, command) for step in saga.live)
        case _:
            return _decide_saga(saga, command)


def _decide_saga(
    saga: Saga,
    command: c.StartSaga
    | c.FinishWork
    | c.FailWork
    | c.CancelSaga
    | c.OpenIncident
    | c.RetryIncident
    | c.ResolveIncident
    | c.EndSaga,
) -> tuple[e.Event, ...]:
    match command:
        case c.StartSaga():
            if saga.begun is not None:
                raise RefusedError(f"saga {saga.id} has been started already")
            return (
                e.SagaStarted(
                    definition=command.definition,
                    version=command.version,
                    input=command.input,
                    actor=command.actor,
                    env=command.env,
                    labels=command.labels,
                ),
            )
        case c.FinishWork(result=result):
            _require(saga, SagaStatus.RUNNING)
            settled = not saga.live and not saga.doubts
            return (e.SagaCompleted(result=result) if settled else e.WorkFinished(result=result),)
        case c.FailWork():
            return _fail(saga, command)
        case c.CancelSaga():
            return _cancel(saga, command)
        case c.OpenIncident():
            return _open_incident(saga, command)
        case c.RetryIncident():
            return _retry_incident(saga, command)
        case c.ResolveIncident():
            return _resolve_incident(saga, command)
        case c.EndSaga():
            return (_end(saga),)
        case _:
            assert_never(command)


def _require(saga: Saga, phase: SagaStatus) -> None:
    if saga.phase is not phase:
        raise RefusedError(f"saga {saga.id} is {saga.phase}, not {phase}")


def _end(saga: Saga) -> e.Event:
    if saga.open_incidents:
        return e.SagaHalted()
    return e.SagaRolledBack() if saga.phase is SagaStatus.ROLLING_BACK else e.SagaCompleted(result=saga.result)


# -- forward ----------------------------------------------------------------------------------------------------------


def _propose(saga: Saga, command: c.ProposeStep) -> tuple[e.Event, ...]:
    _require(saga, SagaStatus.RUNNING)
    contract = command.contract
    return (
        e.StepProposed(
            step=command.step,
            topic=contract.topic,
            version=contract.version,
            args=command.args,
            digest=command.digest,
            contract=_unless_known(saga, contract),
        ),
    )


def _dispatch(saga: Saga, command: c.DispatchStep) -> e.Event:
    _require(saga, SagaStatus.RUNNING)
    contract, verdict = command.contract, command.verdict
    if verdict.decision is not Decision.ALLOW:
        raise RefusedError(f"step {command.step} is not allowed by {verdict.rule}; propose it instead")
    return e.ActionDispatched(
        step=command.step,
        topic=contract.topic,
        version=contract.version,
        args=command.args,
        digest=command.digest,
        rule=verdict.rule,
        policy=verdict.policy,
        key=key_of(saga.id, command.step, contract.topic, "do"),
        contract=_unless_known(saga, contract),
    )


def _unless_known(saga: Saga, contract: Contract) -> Contract | None:
    return None if (contract.topic, contract.version) in saga.contracts else contract


def _start_attempt(saga: Saga, step: Step) -> tuple[e.Event, ...]:
    _require(saga, SagaStatus.RUNNING)
    return (e.AttemptStarted(step=step.id, attempt=step.attempts + 1, key=key_of(saga.id, step.id, step.topic, "do")),)


def _outcome(saga: Saga, command: c.RecordOutcome) -> e.Event:
    step, outcome = saga.steps[command.step], command.outcome
    match outcome:
        case Succeeded(result=result, opaque=opaque):
            return e.AttemptSucceeded(step=step.id, attempt=step.attempts, result=result, opaque=opaque)
        case Failed(error=error, fatal=fatal, final=final, after_s=after_s):
            retry_at = None if fatal or final else _retry_at(saga, step, command, after_s)
            return e.AttemptFailed(step=step.id, attempt=step.attempts, error=error, fatal=fatal, retry_at=retry_at)
        case Lost(error=error, fatal=fatal):
            again = not fatal and (step.contract.probe or step.contract.repeatable)
            retry_at = _retry_at(saga, step, command) if again else None
            return e.AttemptLost(step=step.id, attempt=step.attempts, error=error, fatal=fatal, retry_at=retry_at)
        case _:
            assert_never(outcome)


def _retry_at(
    saga: Saga, step: Step, command: c.RecordOutcome | c.RecordAnswer, after_s: float | None = None
) -> int | None:
    """When a step that goes forward is tried again; None when it is not."""
    tried = step.attempts - step.renewed_at
    if saga.phase is not SagaStatus.RUNNING or tried >= step.contract.retries.attempts:
        return None
    return _due(step.contract.retries, tried, command.now, command.jitter, after_s)


def _due(retries: Retries, tried: int, now: int, jitter: float, after_s: float | None = None) -> int:
    delay_s = retries.delay_s(tried, jitter) if after_s is None else after_s
    return now + round(delay_s * 1000)


def _answer(saga: Saga, command: c.RecordAnswer) -> e.Event:
    step, answer = saga.steps[command.step], command.answer
    match answer:
        case Found(result=result):
            return e.ProbeFound(step=step.id, result=result)
        case FoundNothing():
            again = _retry_at(saga, step, command) is not None and not step.given_up
            return e.ProbeFoundNothing(step=step.id, retry_at=command.now if again else None)
        case NoAnswer(error=error):
            return e.ProbeUnanswered(step=step.id, error=error, retry_at=_ask_again_at(saga, step, command))
        case _:
            assert_never(answer)


def _ask_again_at(saga: Saga, step: Step, command: c.RecordAnswer) -> int | None:
    asked = step.probes + 1
    if asked < PROBE_TRIES:
        return _due(step.contract.retries, asked, command.now, command.jitter)
    return _retry_at(saga, step, command) if step.contract.repeatable and not step.given_up else None


def _enrol_late(saga: Saga, command: c.EnrolLateSuccess) -> tuple[e.Event, ...]:
    """A success of an attempt that had been given up for lost. Nothing where the step counts as done anyway."""
    step = saga.steps[command.step]
    if step.status in {_S.SUCCEEDED, _S.RUNNING, _S.RECOMPENSATING} or not step.contract.side_effect:
        return ()
    late = e.LateSuccessEnrolled(step=step.id, attempt=command.attempt, result=command.result)
    match saga.phase:
        case SagaStatus.ROLLED_BACK:
            return (late, e.RollbackResumed(by="system:runtime", deadline_at=_deadline(command)))
        case SagaStatus.COMPLETED:
            opened = e.IncidentOpened(
                incident=len(saga.incidents) + 1,
                kind=e.IncidentKind.OUTCOME_UNKNOWN,
                step=step.id,
                why="it took effect after the saga had gone on without it and completed",
                left=(step.id,),
            )
            return (late, opened, e.SagaHalted())
        case _:
            return (late,)


# -- failing, cancelling ----------------------------------------------------------------------------------------------


def _deadline(command: c.FailWork | c.CancelSaga | c.RetryIncident | c.ResolveIncident | c.EnrolLateSuccess) -> int:
    return command.now + round(command.window_s * 1000)


def _fail(saga: Saga, command: c.FailWork) -> tuple[e.Event, ...]:
    _require(saga, SagaStatus.RUNNING)
    if saga.pivot is None:
        return (
            e.RollbackStarted(
                cause=command.cause,
                why=command.why,
                step=command.step,
                by="system:runtime",
                deadline_at=_deadline(command),
            ),
        )
    standing = tuple(step.id for step in saga.steps.values() if step.owed)
    opened = e.IncidentOpened(
        incident=len(saga.incidents) + 1,
        kind=e.IncidentKind.PAST_PIVOT,
        step=command.step,
        why=f"{command.why}; {_pivot_says(saga, saga.pivot)}",
        left=standing if command.step is None or command.step in standing else (*standing, command.step),
    )
    return (opened, e.SagaHalted())


def _pivot_says(saga: Saga, pivot: StepId) -> str:
    contract = saga.steps[pivot].contract
    took = f"step {pivot} ({contract.topic}) took effect and is irreversible ({contract.no_rollback})"
    return f"{took}, so it goes forward only"


def _cancel(saga: Saga, command: c.CancelSaga) -> tuple[e.Event, ...]:
    if saga.phase is SagaStatus.ROLLING_BACK:
        return ()
    if saga.phase is SagaStatus.ROLLED_BACK or saga.rollback is not None:
        raise RefusedError(f"saga {saga.id} is {saga.phase}: it has been rolled back already")
    if saga.pivot is not None:
        raise PastPivotError(f"saga {saga.id} cannot be cancelled: {_pivot_says(saga, saga.pivot)}")
    closed = tuple(
        e.IncidentResolved(incident=incident.number, by=command.by, reason="the saga was cancelled", settled=())
        for incident in saga.open_incidents
    )
    return (
        *closed,
        e.RollbackStarted(
            cause=e.Cause.CANCELLED, why=command.why, step=None, by=command.by, deadline_at=_deadline(command)
        ),
    )


# -- back -------------------------------------------------------------------------------------------------------------


def _start_compensation(saga: Saga, command: c.StartCompensation) -> tuple[e.Event, ...]:
    step, verdict = saga.steps[command.step], command.verdict
    if verdict.decision is not Decision.ALLOW:
        return (e.CompensationDenied(step=step.id, rule=verdict.rule, policy=verdict.policy, why=verdict.why),)
    return (
        e.CompensationStarted(
            step=step.id,
            attempt=step.undo_attempts + 1,
            key=key_of(saga.id, step.id, step.topic, "undo", step.turn),
            certain=command.certain,
            rule=verdict.rule,
            policy=verdict.policy,
        ),
    )


def _compensation(step: Step, command: c.RecordCompensation) -> e.Event:
    attempt, outcome = step.undo_attempts, command.outcome
    retries, tried = step.contract.undo_retries, attempt - step.undo_renewed_at
    again = _due(retries, tried, command.now, command.jitter) if tried < retries.attempts else None
    match outcome:
        case Succeeded():
            return e.CompensationSucceeded(step=step.id, attempt=attempt)
        case Failed(error=error, fatal=fatal, changed_since=changed, after_s=after_s):
            if again is not None and after_s is not None:
                again = _due(retries, tried, command.now, command.jitter, after_s)
            retry_at = None if fatal or changed else again
            return e.CompensationFailed(
                step=step.id, attempt=attempt, error=error, changed_since=changed, retry_at=retry_at
            )
        case Lost(error=error, fatal=fatal, timed_out=timed_out):
            retry_at = None if fatal else again
            return e.CompensationLost(
                step=step.id, attempt=attempt, error=error, timed_out=timed_out, retry_at=retry_at
            )
        case _:
            assert_never(outcome)


def _lost(saga: Saga, step: StepId, command: c.Recover) -> e.Event:
    lost = Lost(error=_CRASHED)
    if saga.steps[step].status is _S.RUNNING:
        return _outcome(saga, c.RecordOutcome(step=step, outcome=lost, now=command.now, jitter=command.jitter))
    again = c.RecordCompensation(step=step, outcome=lost, now=command.now, jitter=command.jitter)
    return _compensation(saga.steps[step], again)


# -- incidents --------------------------------------------------------------------------------------------------------


def _open_incident(saga: Saga, command: c.OpenIncident) -> tuple[e.Event, ...]:
    step = None if command.step is None else saga.steps[command.step]
    goes_on = step is not None and step.contract.on_incident is OnIncident.GO_ON
    goes_on = goes_on and command.kind is not e.IncidentKind.DIVERGED and saga.phase is SagaStatus.ROLLING_BACK
    left = (step.id,) if goes_on and step is not None else _left(saga)
    opened = e.IncidentOpened(
        incident=len(saga.incidents) + 1, kind=command.kind, step=command.step, why=command.why, left=left
    )
    return (opened,) if goes_on else (opened, e.SagaHalted())


def _left(saga: Saga) -> tuple[StepId, ...]:
    """Every step whose effect may stand, newest first."""
    numbers = range(len(saga.order), 0, -1)
    if saga.finished and saga.rollback is None:
        return tuple(saga.order[number] for number in numbers if saga.order[number] in saga.doubts)
    return tuple(saga.order[number] for number in numbers if saga.steps[saga.order[number]].owed)


def _open(saga: Saga, number: int) -> Incident:
    incident = next((one for one in saga.incidents if one.number == number), None)
    if incident is None:
        raise UnknownIncidentError(f"saga {saga.id} has no incident {number}")
    if incident.status is not IncidentStatus.OPEN:
        raise RefusedError(f"incident {saga.id}/{number} is not open: it is {incident.status}")
    return incident


def _retry_incident(saga: Saga, command: c.RetryIncident) -> tuple[e.Event, ...]:
    _open(saga, command.incident)
    retried = e.IncidentRetried(incident=command.incident, by=command.by)
    if saga.phase is SagaStatus.ROLLING_BACK:
        return (retried,)
    if saga.rollback is None:
        return (retried, e.WorkResumed(by=command.by))
    return (retried, e.RollbackResumed(by=command.by, deadline_at=_deadline(command)))


def _resolve_incident(saga: Saga, command: c.ResolveIncident) -> tuple[e.Event, ...]:
    incident = _open(saga, command.incident)
    if not command.reason.strip():
        raise RefusedError(f"incident {saga.id}/{incident.number} needs a reason: say what was done by hand")
    stuck = incident.kind in {e.IncidentKind.PAST_PIVOT, e.IncidentKind.DIVERGED}
    settled = (
        () if stuck else tuple(s for s in (incident.step,) if s is not None and saga.steps[s].status in _SETTLEABLE)
    )
    resolved = e.IncidentResolved(incident=incident.number, by=command.by, reason=command.reason, settled=settled)
    if len(saga.open_incidents) > 1 or saga.phase is not SagaStatus.INCIDENT:
        return (resolved,)
    if saga.rollback is not None:
        return (resolved, e.RollbackResumed(by=command.by, deadline_at=_deadline(command)))
    return (resolved, e.SagaCompleted(result=saga.result) if stuck else e.WorkResumed(by=command.by))


_SETTLEABLE = frozenset({_S.SUCCEEDED, _S.UNKNOWN, _S.UNCOMPENSATED})
