"""Questions to people, and what their answers allow. Pure.

An approval binds everything that a person was shown: the topic, the arguments, the contract and the tool behind it, the
compensation or the reason why there is none, the policy and the rule, the saga, the step, and who asks. All of that is
one JSON value on record, `shown`, and its digest is what people agree to. Before the intent is written, the value is
made again from what would run now. If the digest differs, the approval is void and the gate is asked again. It is used
once: `ApprovalUsed` and the intent are one append.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from amends.core import commands as c, events as e
from amends.core.decide.require import fitting, later, on_record
from amends.core.events import resuming
from amends.core.state.deciders import normal, require_decider
from amends.core.state.saga import Saga, Step
from amends.core.state.step import Approval
from amends.core.transitions import ApprovalStatus, StepStatus
from amends.core.words.contracts import Contract, described
from amends.core.words.globs import glob
from amends.core.words.values import Json, StepId, canonical
from amends.core.words.verdict import Decision, Need, Verdict
from amends.errors import RefusedError

AHEAD: Final = "asked-ahead"
_TRIED: Final = frozenset({StepStatus.QUEUED, StepStatus.RUNNING, StepStatus.FAILED, StepStatus.UNKNOWN})


# -- asking -----------------------------------------------------------------------------------------------------------


def record_verdict(saga: Saga, command: c.RecordVerdict, moment: c.Moment) -> tuple[e.Event, ...]:
    """The verdict as a fact; where people have to be asked, what they are asked."""
    step, verdict = on_record(saga, command.step), command.verdict
    if verdict.decision is Decision.DENY:
        denied = e.ActionDenied(
            step=step.id, rule=verdict.rule, policy=verdict.policy, why=verdict.why, told=verdict.told
        )
        if step.id in saga.asked:
            return (fitting(saga, e.ApprovalVoided(step=step.id, why=f"denied by {verdict.rule}")), denied)
        return (fitting(saga, denied),)
    if verdict.decision is Decision.REQUIRE_HUMAN or command.ahead:
        if saga.rollback is not None or step.rewind is not None:
            raise RefusedError(f"step {step.id} of saga {saga.id} goes back: nobody is asked about it any more")
        return (fitting(saga, _requested(saga, step, verdict, command, moment)),)
    allowed = e.ActionAllowed(step=step.id, rule=verdict.rule, policy=verdict.policy, told=verdict.told)
    return (fitting(saga, allowed),)


def _requested(
    saga: Saga, step: Step, verdict: Verdict, command: c.RecordVerdict, moment: c.Moment
) -> e.ApprovalRequested:
    asked = verdict.decision is Decision.REQUIRE_HUMAN
    needs = verdict.needs or (Need(rule=verdict.rule if asked else AHEAD),)
    approval = Approval(
        number=1 if step.approval is None else step.approval.number + 1,
        digest="",
        shown=None,
        rule=verdict.rule if asked else AHEAD,
        policy=verdict.policy,
        needs=needs,
        expires_at=later(moment.now, verdict.expires_s),
    )
    shown = shown_of(saga, step, approval, command.contract or step.contract)
    return e.ApprovalRequested(
        step=step.id,
        digest=digest_of(shown),
        shown=shown,
        rule=approval.rule,
        policy=approval.policy,
        needs=needs,
        expires_at=approval.expires_at,
        why=verdict.why,
        told=verdict.told,
    )


def shown_of(saga: Saga, step: Step, approval: Approval, contract: Contract, policy: str | None = None) -> Json:
    """Everything that a person is asked to agree to, as it is now."""
    begun = saga.begun
    return {
        "topic": contract.topic,
        "version": contract.version,
        "args": step.args,
        "contract": described(contract),
        "saga": saga.id,
        "step": step.id,
        "definition": "" if begun is None else begun.definition,
        "requester": "" if begun is None else begun.actor,
        "env": "" if begun is None else begun.env,
        "policy": approval.policy if policy is None else policy,
        "rule": approval.rule,
        "needs": [_spelled(need) for need in approval.needs],
        "expires_at": approval.expires_at,
        "request": approval.number,
        **({} if begun is None or not begun.taken_for else {"taken_for": begun.taken_for}),
    }


def _spelled(need: Need) -> Json:
    """A need as people are shown it; its proof only where one is asked, so that other approvals keep their digest."""
    proof: dict[str, Json] = {"proof": need.proof} if need.proof else {}
    return {"rule": need.rule, "approvals": need.approvals, "approvers": list(need.approvers), **proof}


def asks_proof(needs: Iterable[Need]) -> bool:
    """Whether whoever answers has to prove their name."""
    return any(need.proof for need in needs)


def digest_of(shown: Json) -> str:
    return hashlib.sha256(canonical(shown).encode()).hexdigest()


# -- answering --------------------------------------------------------------------------------------------------------


def answer(saga: Saga, command: c.AnswerApproval, moment: c.Moment) -> tuple[e.Event, ...]:
    """The facts that a person's answer leads to; too late, it has expired, whatever they say."""
    step = on_record(saga, command.step)
    approval = step.approval
    if approval is None or step.status is not StepStatus.AWAITING:
        raise RefusedError(f"step {step.id} of saga {saga.id} does not wait for an approval: it {_stands(saga, step)}")
    if command.policy is not None and is_outlived(step, command.policy):
        return (_outlived(step, command.policy),)
    if moment.now >= approval.expires_at:
        return (e.ApprovalExpired(step=step.id),)
    if command.digest is not None and command.digest != approval.digest:
        raise RefusedError(
            f"what you were shown of step {step.id} of saga {saga.id} is not what is asked now; look at it again"
        )
    if asks_proof(approval.needs) and not command.proved:
        raise RefusedError(
            f"step {step.id} of saga {saga.id} takes a signed answer: rule {approval.rule} asks whoever answers to "
            "prove their name; sign with a key that is enrolled: amends approval grant --ssh-key FILE, "
            "or coordinator.grant(…, proof=…)"
        )
    to = f"{'grant' if command.granted else 'refuse'} step {step.id} of saga {saga.id}"
    own = require_decider(saga.begun, command.by, to, may=_may_answer(approval))
    if not command.granted:
        return (e.ApprovalRefused(step=step.id, by=command.by, why=command.why, own=own),)
    _require_fit(saga, step, approval, command.by)
    by, digest, why = command.by, approval.digest, command.why
    if is_met(approval.needs, (*approval.signers, by)):
        return (e.ApprovalGranted(step=step.id, by=by, digest=digest, why=why, own=own),)
    return (e.ApprovalSigned(step=step.id, by=by, digest=digest, why=why, own=own),)


def _may_answer(approval: Approval) -> str:
    named = sorted({who for need in approval.needs for who in need.approvers})
    return f"any other of {', '.join(named)}" if named else "any other person"


def _stands(saga: Saga, step: Step) -> str:
    if step.approval is None:
        return f"is {step.status}"
    if step.approval.status is ApprovalStatus.VOID and step.status is StepStatus.PROPOSED:
        return (
            "is proposed, and its approval void: what was asked no longer counts, and the gate judges again where a "
            f"process drives the saga. Where none does: {resuming(saga.begun)}; then look at what is asked"
        )
    return f"is {step.status}, and its approval {step.approval.status}"


def _require_fit(saga: Saga, step: Step, approval: Approval, by: str) -> None:
    """Nobody counts twice, and only those count whom a rule asks."""
    if normal(by) in map(normal, approval.signers):
        raise RefusedError(f"{by} has approved step {step.id} of saga {saga.id} already; another person is needed")
    if not any(_names(need, by) for need in approval.needs):
        named = ", ".join(sorted({who for need in approval.needs for who in need.approvers}))
        raise RefusedError(f"{by} is not among those who may approve step {step.id} of saga {saga.id}: {named}")


def _names(need: Need, by: str) -> bool:
    return not need.approvers or any(glob(normal(pattern))(normal(by)) for pattern in need.approvers)


def is_met(needs: Iterable[Need], signers: tuple[str, ...]) -> bool:
    """Whether these people are enough for every rule that asked."""
    return all(signed(need, signers) >= need.approvals for need in needs)


def signed(need: Need, signers: tuple[str, ...]) -> int:
    """How many of those whom a rule asks have agreed."""
    return len({normal(by) for by in signers if _names(need, by)})


def expire(saga: Saga, command: c.ExpireApproval, moment: c.Moment) -> tuple[e.Event, ...]:
    step = on_record(saga, command.step)
    if step.approval is None or not step.approval.unsettled or moment.now < step.approval.expires_at:
        return ()
    return (fitting(saga, e.ApprovalExpired(step=step.id)),)


def void_all(saga: Saga, why: str, *, but_held: bool = False) -> tuple[e.ApprovalVoided, ...]:
    """Nothing that people were asked will happen any more; but what is held, where the work has finished."""
    asked = (step for step in sorted(saga.asked) if not (but_held and step in saga.held))
    return tuple(e.ApprovalVoided(step=step, why=why) for step in asked)


def drop(saga: Saga, steps: Iterable[StepId], why: str) -> tuple[e.StepDropped, ...]:
    """Drop held steps, so that they are never dispatched; what was tried already is left to whoever settles it."""
    held = sorted(step for step in steps if step in saga.held and saga.steps[step].status not in _TRIED)
    return tuple(e.StepDropped(step=step, why=why) for step in held)


def is_outlived(step: Step, policy: str) -> bool:
    """Whether people are still asked about it under another policy than this one, which judges now."""
    return step.status is StepStatus.AWAITING and step.approval is not None and step.approval.policy != policy


def void_outlived(saga: Saga, policy: str) -> tuple[e.ApprovalVoided, ...]:
    """Nothing that people are asked under another policy counts any more: the gate judges it again, by this one."""
    asked = (saga.steps[step] for step in sorted(saga.asked))
    return tuple(fitting(saga, _outlived(step, policy)) for step in asked if is_outlived(step, policy))


def _outlived(step: Step, policy: str) -> e.ApprovalVoided:
    return e.ApprovalVoided(step=step.id, why=f"policy {policy[:12]} was adopted since it was asked")


def void(saga: Saga, steps: Iterable[StepId], why: str) -> tuple[e.ApprovalVoided, ...]:
    """Void the approvals that these steps wait for."""
    return tuple(e.ApprovalVoided(step=step, why=why) for step in sorted(steps) if step in saga.asked)


# -- using ------------------------------------------------------------------------------------------------------------


def use(saga: Saga, step: Step, command: c.StartAttempt, moment: c.Moment) -> tuple[e.ApprovalEvent, ...]:
    """Facts that have to be on record before the intent; the intent may follow nothing, or an `ApprovalUsed`."""
    approval = step.approval
    if approval is None or approval.status is ApprovalStatus.USED or step.status is not StepStatus.READY:
        return ()
    if approval.status is not ApprovalStatus.GRANTED:
        return ()  # it was allowed by the gate after its approval became void
    now = shown_of(saga, step, approval, command.contract or step.contract, command.policy)
    if digest_of(now) != approval.digest:  # asked first: what does not count any more cannot expire
        return (e.ApprovalVoided(step=step.id, why=f"changed since it was approved: {_drift(approval.shown, now)}"),)
    if moment.now >= approval.expires_at:
        if step.held:
            return (e.ApprovalVoided(step=step.id, why="it expired while the step was held"),)
        return (e.ApprovalExpired(step=step.id),)
    return (e.ApprovalUsed(step=step.id, digest=approval.digest),)


def _drift(then: Json, now: Json) -> str:
    if not isinstance(then, dict) or not isinstance(now, dict):
        return "all of it"
    return ", ".join(name for name in now if then.get(name) != now[name])
