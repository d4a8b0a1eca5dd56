"""Decisions: `decide(saga, command, moment) -> events`, or a refusal. Pure."""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

from amends.core import commands as c, events as e
from amends.core.decide.approvals import answer, drop, expire, record_verdict, use, void_all, void_outlived
from amends.core.decide.incidents import (
    assign_incident,
    cancel,
    comment_incident,
    end,
    enrol_late,
    fail,
    open_incident,
    resolve_incident,
    retry_incident,
)
from amends.core.decide.limits import decide_limits
from amends.core.decide.people import change_roster, with_signature
from amends.core.decide.require import (
    fitting,
    later,
    on_record,
    require_free,
    require_new,
    require_release,
    require_turn,
    require_work,
)
from amends.core.decide.rewinds import decide_rewind
from amends.core.decide.sessions import decide_session
from amends.core.decide.waits import control, end_wait, pause, receive, start_wait, unpause
from amends.core.plan import PROBE_TRIES, in_flight
from amends.core.state.deciders import require_person
from amends.core.state.saga import Saga, Step
from amends.core.transitions import ApprovalStatus, StepStatus
from amends.core.words.contracts import Contract, Retries, Reversibility, key_of
from amends.core.words.outcomes import Failed, Found, FoundNothing, Lost, NoAnswer, Outcome, Succeeded
from amends.core.words.values import CALL, MITIGATED, POLICIES, StepId
from amends.core.words.verdict import Decision, Verdict
from amends.errors import RefusedError

_CRASHED = "the process ended before the outcome was recorded"
_S = StepStatus
_PASSING: Final = frozenset({Decision.ALLOW, Decision.THROTTLE})


def decide(saga: Saga, command: c.Command, moment: c.Moment) -> tuple[e.Event, ...]:
    """The facts that follow from a request. Raises RefusedError where the saga's state does not allow it.

    What it gives always folds: a request that comes too late, or twice, is refused and never damages a journal.
    """
    match command:  # asks one after the other: what most sagas need comes first
        case c.DispatchStep():
            return (_dispatch(saga, command),)
        case c.RecordOutcome():
            step = saga.steps.get(command.step) or on_record(saga, command.step)
            return (fitting(saga, _outcome(saga, step, command.outcome, moment), step),)
        case c.StartCompensation():
            step = on_record(saga, command.step)
            return (fitting(saga, _start_compensation(saga, step, command), step),)
        case c.RecordCompensation():
            step = on_record(saga, command.step)
            return (fitting(saga, _compensation(saga, step, command, moment), step),)
        case c.StartSaga():
            return (_start(saga, command),)
        case c.FinishWork():
            return _finish(saga, command)
        case c.EndSaga():
            return end(saga)
        case c.ProposeStep():
            return _propose(saga, command)
        case c.PlaceStep():
            return (_place(saga, command),)
        case c.RecordVerdict():
            return record_verdict(saga, command, moment)
        case c.ThrottleStep():
            return _throttle(saga, command)
        case c.AnswerApproval():
            return answer(saga, command, moment)
        case c.ExpireApproval():
            return expire(saga, command, moment)
        case c.VoidApproval(step=step, why=why):
            return (fitting(saga, e.ApprovalVoided(step=step, why=why)),)
        case c.VoidOutlived(policy=policy):
            return void_outlived(saga, policy)
        case c.KeepBefore(step=step, before=before):
            return (fitting(saga, e.BeforeCaptured(step=step, before=before)),)
        case c.KeepAfter(step=step, after=after):
            return (fitting(saga, e.AfterCaptured(step=step, after=after)),)
        case c.AwaitLock() | c.TakeLock() | c.RefuseLock():
            return _locked(saga, command)
        case c.StartAttempt():
            return _start_attempt(saga, command, moment)
        case c.RecordAnswer():
            return (fitting(saga, _answer(saga, command, moment)),)
        case c.EnrolLate():
            return enrol_late(saga, command, moment)
        case c.SettleFamily() | c.DropHeld() | c.StartRelease() | c.EndRelease():
            return _release(saga, command)
        case c.Recover():
            return tuple(_lost(saga, step, moment) for step in in_flight(saga))
        case c.Spend() | c.CountChild() | c.KeepLimits() | c.RaiseLimits():
            return decide_limits(saga, command, moment)
        case c.Sign():
            return with_signature(saga, decide(saga, command.command, moment), command)
        case c.ChangeRoster():
            return change_roster(saga, command)
        case _:
            return _decide_saga(saga, command, moment)


def _decide_saga(
    saga: Saga,
    command: c.FailWork
    | c.CancelSaga
    | c.MakeCheckpoint
    | c.Rewind
    | c.RollBackTo
    | c.TurnBack
    | c.EndRewind
    | c.OpenIncident
    | c.RetryIncident
    | c.ResolveIncident
    | c.AssignIncident
    | c.CommentIncident
    | c.AdoptPolicy
    | c.StartWait
    | c.EndWait
    | c.SendSignal
    | c.PauseSaga
    | c.UnpauseSaga
    | c.KeepControl
    | c.LeaveWaits
    | c.ReportIdle
    | c.EndIdle,
    moment: c.Moment,
) -> tuple[e.Event, ...]:
    match command:
        case c.FailWork():
            return fail(saga, command, moment)
        case c.LeaveWaits() | c.ReportIdle() | c.EndIdle():
            return decide_session(saga, command)
        case c.CancelSaga():
            return cancel(saga, command, moment)
        case c.MakeCheckpoint() | c.Rewind() | c.RollBackTo() | c.TurnBack() | c.EndRewind():
            return decide_rewind(saga, command, moment)
        case c.OpenIncident():
            return open_incident(saga, command)
        case c.RetryIncident():
            return retry_incident(saga, command, moment)
        case c.ResolveIncident():
            return resolve_incident(saga, command, moment)
        case c.AssignIncident():
            return assign_incident(saga, command)
        case c.CommentIncident():
            return comment_incident(saga, command)
        case c.AdoptPolicy():
            return adopt(saga, command)
        case _:
            return _decide_timing(saga, command, moment)


def _start(saga: Saga, command: c.StartSaga) -> e.Event:
    if saga.begun is not None:
        raise RefusedError(f"saga {saga.id} has been started already")
    return e.SagaStarted(
        definition=command.definition,
        version=command.version,
        input=command.input,
        actor=command.actor,
        env=command.env,
        labels=command.labels,
        limits=command.limits,
        files=command.files,
        rollback_s=command.rollback_s,
        attempts=command.attempts,
        compensation_attempts=command.compensation_attempts,
        taken_for=command.taken_for,
        own=command.own,
        because=command.because,
        module=command.module,
        session=command.session,
    )


def _finish(saga: Saga, command: c.FinishWork) -> tuple[e.Event, ...]:
    require_work(saga)
    clear = not saga.live and not saga.doubts and not saga.open_incidents
    settled = clear and not saga.rewinding and not saga.held and not saga.lent
    kind = e.SagaCompleted if settled else e.WorkFinished
    finished = kind(result=command.result, early=command.early)
    return (*void_all(saga, "the work has finished without it", but_held=True), finished)


def _release(saga: Saga, command: c.SettleFamily | c.DropHeld | c.StartRelease | c.EndRelease) -> tuple[e.Event, ...]:
    """Release what children hold when it is their turn; from the first one on there is no way but forward."""
    if isinstance(command, c.SettleFamily):
        if saga.family_settled:
            return ()
        if not saga.rests:
            raise RefusedError(f"saga {saga.id} is {saga.status}, and holds nothing for its family")
        return (e.FamilySettled(by=command.by),)
    if isinstance(command, c.DropHeld):
        if not saga.rests:
            raise RefusedError(f"saga {saga.id} is {saga.status}, and holds nothing for its family")
        below = tuple(e.ReleaseEnded(step=step.id) for step in saga.lent)
        return (*void_all(saga, command.why), *drop(saga, saga.held, command.why), *below)
    step = on_record(saga, command.step)
    require_turn(saga, step)
    if isinstance(command, c.EndRelease):
        return (fitting(saga, e.ReleaseEnded(step=step.id)),)
    return () if step.releasing else (fitting(saga, e.ReleaseStarted(step=step.id)),)


def _decide_timing(
    saga: Saga,
    command: c.StartWait | c.EndWait | c.SendSignal | c.PauseSaga | c.UnpauseSaga | c.KeepControl,
    moment: c.Moment,
) -> tuple[e.Event, ...]:
    match command:
        case c.StartWait():
            require_work(saga)
            return start_wait(saga, command)
        case c.EndWait():
            require_work(saga)
            return end_wait(saga, command, moment)
        case c.SendSignal():
            return receive(saga, command)
        case c.PauseSaga():
            return pause(saga, command)
        case c.UnpauseSaga():
            return unpause(saga, command, moment)
        case c.KeepControl():
            return control(saga, command)
        case _:
            assert_never(command)


def adopt(saga: Saga, command: c.AdoptPolicy) -> tuple[e.Event, ...]:
    """The policies stand in a saga of their own, which has ended as soon as it began. Only people adopt one."""
    require_person(command.by, "adopt a policy")
    begun: tuple[e.Event, ...] = ()
    if saga.begun is None:
        start = e.SagaStarted(definition=POLICIES, version=1, input=None, actor=command.by, env="", labels={})
        begun = (start, e.SagaCompleted(result=None))
    elif saga.begun.definition != POLICIES:
        raise RefusedError(f"saga {saga.id} is {saga.begun.definition}, and keeps no policies")
    return (*begun, e.PolicyAdopted(digest=command.digest, text=command.text, by=command.by, why=command.why))


# -- forward ----------------------------------------------------------------------------------------------------------


def _propose(saga: Saga, command: c.ProposeStep) -> tuple[e.Event, ...]:
    require_work(saga)
    require_new(saga, command.step)
    contract = command.contract
    return (
        e.StepProposed(
            step=command.step,
            topic=contract.topic,
            version=contract.version,
            args=command.args,
            digest=command.digest,
            contract=_unless_known(saga, contract),
            after=command.after,
            ahead=command.ahead,
            call=command.call,
        ),
    )


def _place(saga: Saga, command: c.PlaceStep) -> e.Event:
    require_work(saga)
    require_free(saga, command.place)
    step = on_record(saga, command.step)
    if step.wanted or step.rewind is not None:
        raise RefusedError(f"step {step.id} of saga {saga.id} was not asked ahead, or is done or taken back already")
    return fitting(saga, e.StepPlaced(step=step.id, place=command.place, call=command.call))


def _dispatch(saga: Saga, command: c.DispatchStep) -> e.Event:
    if saga.begun is None or not saga.works or command.step in saga.steps:
        require_work(saga)
        require_new(saga, command.step)
    contract, verdict = command.contract, command.verdict
    if contract.hold:
        raise RefusedError(f"step {command.step} is held until everything that could fail has passed; propose it")
    if verdict.decision not in _PASSING:
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
        after=command.after,
        told=verdict.told,
        call=command.call,
    )


def _locked(saga: Saga, command: c.AwaitLock | c.TakeLock | c.RefuseLock) -> tuple[e.Event, ...]:
    """Facts of a step that stands in line. Who approved one that does not get its turn approved nothing more."""
    require_work(saga)
    match command:
        case c.AwaitLock(step=step, resources=resources, holder=holder, until=until):
            return (fitting(saga, e.LockAwaited(step=step, resources=resources, holder=holder, until=until)),)
        case c.TakeLock(step=step):
            return (fitting(saga, e.LockTaken(step=step)),)
        case c.RefuseLock(step=step, error=error, deadlock=deadlock):
            refused = fitting(saga, e.LockRefused(step=step, error=error, deadlock=deadlock))
            void = e.ApprovalVoided(step=step, why="its step did not get what it needs for itself")
            return (refused, void) if step in saga.asked else (refused,)
        case _:
            assert_never(command)


def _throttle(saga: Saga, command: c.ThrottleStep) -> tuple[e.Event, ...]:
    """That a rate makes a step wait, forward or back; nothing, where that is on record already."""
    step = on_record(saga, command.step)
    if step.throttle is not None and not step.throttle.is_news(command.rule, command.per_s, command.until):
        return ()
    if step.status not in {_S.PROPOSED, _S.READY}:
        require_turn(saga, step)
    elif step.held and saga.finished:
        require_release(saga, step)
    else:
        require_work(saga)
    throttled = e.StepThrottled(
        step=command.step,
        rule=command.rule,
        policy=command.policy,
        most=command.most,
        per_s=command.per_s,
        until=command.until,
    )
    return (fitting(saga, throttled),)


def _unless_known(saga: Saga, contract: Contract) -> Contract | None:
    return None if (contract.topic, contract.version) in saga.contracts else contract


def _start_attempt(saga: Saga, command: c.StartAttempt, moment: c.Moment) -> tuple[e.Event, ...]:
    """The intent; where people approved the step, what became of that first. Void or expired, there is no intent."""
    step = on_record(saga, command.step)
    if step.contract.hold:
        require_release(saga, step)
    else:
        require_work(saga)
    if not step.wanted:
        raise RefusedError(f"step {step.id} of saga {saga.id} was asked ahead, and is not done before it has a place")
    if step.rewind is not None:
        raise RefusedError(f"step {step.id} of saga {saga.id} was taken back, with the part of the work it belongs to")
    if step.status is _S.UNKNOWN and not step.contract.repeatable and not step.repeats:
        raise RefusedError(f"step {step.id} of saga {saga.id} is not repeatable, and nobody knows its outcome")
    used = use(saga, step, command, moment)
    if used and not isinstance(used[-1], e.ApprovalUsed):
        return used
    key = key_of(saga.id, step.id, step.topic, "do")
    return (*used, fitting(saga, e.AttemptStarted(step=step.id, attempt=step.attempts + 1, key=key)))


def _outcome(
    saga: Saga, step: Step, outcome: Outcome, moment: c.Moment
) -> e.AttemptSucceeded | e.AttemptFailed | e.AttemptLost:
    if isinstance(outcome, Succeeded):
        return e.AttemptSucceeded(
            step=step.id,
            attempt=step.attempts,
            result=outcome.result,
            opaque=outcome.opaque,
            layer=outcome.layer,
            confinement=outcome.confinement,
        )
    match outcome:  # a `match` that takes out fields is dear: not for the usual one
        case Failed(error=error, after_s=after_s) if step.unsure and may_stand(step):
            why = f"{error}; an earlier attempt was lost, and may have taken effect"
            return _lost_attempt(step, outcome, _settle_at(saga, step, moment, after_s), why)
        case Lost(error=error) if may_stand(step):
            return _lost_attempt(step, outcome, _settle_at(saga, step, moment), error)
        case Failed(error=error, fatal=fatal, final=final, after_s=after_s):
            retry_at = None if fatal or final else _retry_at(saga, step, moment, after_s)
            return _failed_attempt(step, outcome, retry_at, error)
        case Lost(error=error, fatal=fatal, final=final):
            retry_at = None if fatal or final else _retry_at(saga, step, moment)
            return _failed_attempt(step, outcome, retry_at, error)
        case _:
            assert_never(outcome)


def _failed_attempt(step: Step, outcome: Failed | Lost, retry_at: int | None, error: str) -> e.AttemptFailed:
    return e.AttemptFailed(
        step=step.id,
        attempt=step.attempts,
        error=error,
        fatal=outcome.fatal,
        retry_at=retry_at,
        confinement=outcome.confinement,
        where=outcome.where,
    )


def _lost_attempt(step: Step, outcome: Failed | Lost, settle_at: int | None, error: str) -> e.AttemptLost:
    """Nobody knows. One that is not to be repeated is asked about all the same; after a Fatal, on the way back."""
    is_over = outcome.fatal or (outcome.final and not step.contract.probe)
    return e.AttemptLost(
        step=step.id,
        attempt=step.attempts,
        error=error,
        fatal=outcome.fatal,
        retry_at=None if is_over else settle_at,
        confinement=outcome.confinement,
        where=outcome.where,
        final=outcome.final,
    )


def may_stand(step: Step) -> bool:
    """Whether an attempt that nobody heard of again leaves a doubt: what changes nothing has certainly left nothing."""
    return step.contract.side_effect


def _retry_at(saga: Saga, step: Step, moment: c.Moment, after_s: float | None = None) -> int | None:
    """When a step that goes forward is tried again; None when it is not."""
    tried = step.attempts - step.renewed_at
    if not _goes_on(saga, step) or tried >= saga.most_attempts(step):
        return None
    return _due(step.contract.retries, tried, moment, after_s)


def _goes_on(saga: Saga, step: Step) -> bool:
    """Whether somebody still wants it: the definition, or whoever releases what is held."""
    return (saga.goes_forward or (step.held and saga.rollback is None)) and step.rewind is None


def _settle_at(saga: Saga, step: Step, moment: c.Moment, after_s: float | None = None) -> int | None:
    """When a lost attempt is asked about or repeated. Asking is no attempt: it is done even when those are used up."""
    if step.contract.probe and _goes_on(saga, step):
        return _due(step.contract.retries, step.attempts - step.renewed_at, moment, after_s)
    return _retry_at(saga, step, moment, after_s) if step.contract.repeatable else None


def _due(retries: Retries, tried: int, moment: c.Moment, after_s: float | None = None) -> int:
    return later(moment.now, retries.delay_s(tried, moment.jitter) if after_s is None else after_s)


def _answer(
    saga: Saga, command: c.RecordAnswer, moment: c.Moment
) -> e.ProbeFound | e.ProbeFoundNothing | e.ProbeUnanswered:
    step, answer = on_record(saga, command.step), command.answer
    match answer:
        case Found(result=result, opaque=opaque):
            return e.ProbeFound(step=step.id, result=result, opaque=opaque)
        case FoundNothing() if step.reports > command.reports:
            why = "an attempt reported late, after the question was put"
            return e.ProbeUnanswered(step=step.id, error=why, retry_at=_ask_again_at(saga, step, moment))
        case FoundNothing():
            again = _retry_at(saga, step, moment) is not None and not (step.given_up or step.final)
            return e.ProbeFoundNothing(step=step.id, retry_at=moment.now if again else None)
        case NoAnswer(error=error, where=where):
            return e.ProbeUnanswered(step=step.id, error=error, retry_at=_ask_again_at(saga, step, moment), where=where)
        case _:
            assert_never(answer)


def _ask_again_at(saga: Saga, step: Step, moment: c.Moment) -> int | None:
    asked = step.probes + 1
    if asked < PROBE_TRIES:
        return _due(step.contract.retries, asked, moment)
    may_repeat = step.contract.repeatable and not (step.given_up or step.final)
    return _retry_at(saga, step, moment) if may_repeat else None


# -- back -------------------------------------------------------------------------------------------------------------


def _start_compensation(
    saga: Saga, step: Step, command: c.StartCompensation
) -> e.CompensationStarted | e.CompensationDenied | e.MitigationStarted | e.MitigationDenied:
    verdict = command.verdict
    require_turn(saga, step)
    mitigates = step.contract.reversibility is Reversibility.IRREVERSIBLE
    if mitigates and not (saga.mitigated_by and step.contract.mitigation):
        raise RefusedError(
            f"step {step.id} ({step.topic}) of saga {saga.id} is irreversible, and nobody asked for its mitigation"
        )
    if not step.let_run_by and not _may_run_back(step, verdict):
        why = verdict.why or f"rule {verdict.rule} asks for a person"
        denied = e.MitigationDenied if mitigates else e.CompensationDenied
        return fitting(saga, denied(step=step.id, rule=verdict.rule, policy=verdict.policy, why=why, told=verdict.told))
    if mitigates:
        return fitting(saga, _mitigation(saga, step, verdict))
    return e.CompensationStarted(
        step=step.id,
        attempt=step.undo_attempts + 1,
        key=key_of(saga.id, step.id, step.topic, "undo", step.turn),
        certain=command.certain,
        rule=verdict.rule,
        policy=verdict.policy,
        let_run_by=step.let_run_by,
        told=verdict.told,
    )


def _mitigation(saga: Saga, step: Step, verdict: Verdict) -> e.MitigationStarted:
    return e.MitigationStarted(
        step=step.id,
        attempt=step.undo_attempts + 1,
        key=key_of(saga.id, step.id, step.topic, "mitigate", step.turn),
        rule=verdict.rule,
        policy=verdict.policy,
        let_run_by=step.let_run_by,
        told=verdict.told,
    )


def _may_run_back(step: Step, verdict: Verdict) -> bool:
    """Whether a step may be taken back: who approved it was shown how, too, and approved both."""
    if verdict.decision is Decision.REQUIRE_HUMAN:
        return step.approval is not None and step.approval.status is ApprovalStatus.USED
    return verdict.decision is not Decision.DENY


_EndedBack: TypeAlias = (
    e.CompensationSucceeded
    | e.CompensationFailed
    | e.CompensationLost
    | e.MitigationSucceeded
    | e.MitigationFailed
    | e.MitigationLost
)


def _compensation(saga: Saga, step: Step, command: c.RecordCompensation, moment: c.Moment) -> _EndedBack:
    attempt, outcome = step.undo_attempts, command.outcome
    mitigates = step.status is _S.MITIGATING
    if isinstance(outcome, Succeeded):
        result = outcome.result
        below = step.topic == CALL and isinstance(result, dict) and result.get(MITIGATED) is True
        ended = e.MitigationSucceeded if mitigates or below else e.CompensationSucceeded
        return ended(step=step.id, attempt=attempt)
    retries, tried = step.contract.undo_retries, attempt - step.undo_renewed_at
    most = saga.most_attempts(step, back=True)
    again = _due(retries, tried, moment) if tried < most else None
    match outcome:
        case Failed(error=error, where=where, changed_since=changed, after_s=after_s):
            if again is not None and after_s is not None:
                again = _due(retries, tried, moment, after_s)
            retry_at = None if outcome.fatal or outcome.final or changed else again
            failed = e.MitigationFailed if mitigates else e.CompensationFailed
            return failed(
                step=step.id, attempt=attempt, error=error, changed_since=changed, retry_at=retry_at, where=where
            )
        case Lost(error=error, where=where, timed_out=timed_out):
            retry_at = None if outcome.fatal or outcome.final else again
            lost = e.MitigationLost if mitigates else e.CompensationLost
            return lost(step=step.id, attempt=attempt, error=error, timed_out=timed_out, retry_at=retry_at, where=where)
        case _:
            assert_never(outcome)


def _lost(saga: Saga, step: StepId, moment: c.Moment) -> e.Event:
    lost = Lost(error=_CRASHED)
    if saga.steps[step].status is _S.RUNNING:
        return _outcome(saga, on_record(saga, step), lost, moment)
    return _compensation(saga, saga.steps[step], c.RecordCompensation(step=step, outcome=lost), moment)
