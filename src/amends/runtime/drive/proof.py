"""Approvals, looked at once more before a step is done; where names are proved, the signatures too."""

from __future__ import annotations

from typing import Any

from amends.core import commands as c
from amends.core.decide.approvals import asks_proof, is_met
from amends.core.state.step import Step
from amends.core.transitions import ApprovalStatus
from amends.core.words.values import StepId
from amends.core.words.verdict import Decision, Need, Verdict
from amends.errors import DivergedError
from amends.runtime.declare.action import Action
from amends.runtime.drive.judging import judge
from amends.runtime.drive.run import Run


async def still_approved(run: Run, step: StepId, action: Action[..., Any]) -> Verdict | str | None:
    """The verdict under which an approved step starts; "" for one that needed no approval, None: not now."""
    state = run.state(step)
    if takes_proof(run, state):
        proved = await still_proved(run, step, action)
        return proved if proved is None or is_granted(run.state(step)) else ""
    if state.approval is None or not is_granted(state):
        return ""
    verdict = await judge(run, step, action.contract, state.args, approval_present=True)
    if verdict.decision is Decision.DENY:
        run.book.tell(c.RecordVerdict(step=step, verdict=verdict))
        return None
    if not is_met(verdict.needs, state.approval.signers):
        run.book.tell(c.VoidApproval(step=step, why=f"rule {verdict.rule} asks for more people now"))
        return None
    if asks_proof(verdict.needs):
        run.book.tell(c.VoidApproval(step=step, why=f"rule {verdict.rule} asks for people who prove their names now"))
        return None
    return verdict


def takes_proof(run: Run, step: Step) -> bool:
    """Whether nothing that the journal says of people's answers about a step is believed without a signature."""
    policies = run.around.policies
    if policies is None:
        return False
    return policies.proof_since is not None or (step.approval is not None and asks_proof(step.approval.needs))


def is_granted(step: Step) -> bool:
    """Whether people have approved it, and it has not begun."""
    return step.approval is not None and step.approval.status is ApprovalStatus.GRANTED


async def still_proved(run: Run, step: StepId, action: Action[..., Any]) -> Verdict | None:
    """The verdict under which a step may be done, on record or proved to be approved; None: not now.

    A step that has begun was approved by the needs of then. One that takes people, and stands as allowed or begun
    without their signatures, was let through by somebody who wrote to the journal. Raises DivergedError.
    """
    await run.book.commit()
    policies, state = run.around.policies, run.state(step)
    assert policies is not None  # noqa: S101 - for type checkers: `takes_proof` was asked
    approval = state.approval
    verdict = await judge(run, step, action.contract, state.args, approval_present=approval is not None)
    if verdict.decision is Decision.DENY:
        if is_granted(state):
            run.book.tell(c.RecordVerdict(step=step, verdict=verdict))
            return None
        return verdict if state.attempts else _refuse(run, step, f"rule {verdict.rule} denies it")
    needs = _needs(state, verdict)
    if not needs:
        return verdict
    digest, names = await policies.proofs.approvers(run.book.saga.id, step)
    if approval is not None and digest == approval.digest and _is_shown(state) and is_met(needs, names):
        return verdict
    why = f"rule {verdict.rule} asks for people who prove their names, and of these {len(names)} have agreed to it"
    if is_granted(state):
        run.book.tell(c.VoidApproval(step=step, why=why))
        return None
    return _refuse(run, step, why)


def _needs(step: Step, verdict: Verdict) -> tuple[Need, ...]:
    if step.approval is None or is_granted(step) or verdict.decision is not Decision.REQUIRE_HUMAN:
        return verdict.needs
    return step.approval.needs or verdict.needs


def _is_shown(step: Step) -> bool:
    """Whether what people were shown is what the step is."""
    shown = None if step.approval is None else step.approval.shown
    return isinstance(shown, dict) and shown.get("topic") == step.topic and shown.get("args") == step.args


def _refuse(run: Run, step: StepId, why: str) -> Verdict:
    raise DivergedError(
        f"step {step} of saga {run.book.saga.id} stands as allowed, and {why}: somebody has written to the journal "
        "past amends, or it was decided before names were proved here; see amends evidence verify --root"
    )
