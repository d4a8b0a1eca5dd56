"""Judging: what the gate says of a step of one drive, and the rates that its verdict asks to keep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from amends.core import commands as c
from amends.core.state.provenance import unsourced
from amends.core.words.contracts import Contract
from amends.core.words.values import Json, StepId
from amends.core.words.verdict import Decision, Verdict
from amends.gate.facts import Gate, facts_of, with_told
from amends.gate.policy import Policy, PolicyGate
from amends.journal.port.journal import PARENT
from amends.logs import logger
from amends.runtime.declare.action import Action
from amends.runtime.drive.drills import OF_DRILLS, told_facts
from amends.runtime.drive.run import Run
from amends.runtime.drive.worker_context import WorkerContext

_log = logger("amends.gate")
_MADE_UP: Final = "amends-sourced"
"""The rule by which an argument is denied that `sourced=` names, and that has no source on record."""


def judge_at_sight(run: Run, contract: Contract, elapsed: float, *, back: bool = False) -> Verdict | None:
    """The verdict on a step that nobody was asked about, where the policy in force says the same of every step of its
    action; else None.

    `elapsed`: the time now, by the clock that no one sets.
    """
    around = run.around
    gate, policies = around.gate, around.policies
    if policies is not None:
        if elapsed >= policies.stale_at or policies.unsigned_adoption:
            return None
        gate = policies.gate or gate
    begun = run.book.saga.begun
    return gate.kept(contract, begun, back=back) if isinstance(gate, PolicyGate) and begun is not None else None


async def judge(
    run: Run,
    step: StepId,
    contract: Contract,
    args: Json,
    *,
    back: bool = False,
    approval_present: bool = False,
    newest: bool = False,
) -> Verdict:
    """The gate's verdict, by the policy of now; a gate that cannot answer says no.

    newest: a policy may be in force that is not known here yet, and it is looked for first.
    """
    around = run.around
    facts = facts_of(run.book.saga, step, contract, args, back=back, approval_present=approval_present)
    try:
        gate, policies = around.gate, around.policies
        if policies is not None:
            if newest or around.clock.elapsed() >= policies.stale_at:
                await policies.refresh()
            policies.require_one()
            gate = policies.gate or gate
        asked = _told_to(around, gate)
        if not asked:
            verdict = gate.judge(facts)
            if isinstance(gate, PolicyGate):
                gate.keep(facts, run.begun, verdict)
            return verdict
        told = await around.drills.told(asked, facts.contract)
        return replace(gate.judge(with_told(facts, told)), told=told or None)
    except Exception as exc:  # noqa: BLE001 - whatever a gate raises, the action has not been allowed
        _log.exception("the gate could not judge step %s of saga %s", step, facts.saga)
        why = run.kept_words(f"the gate could not answer: {exc!r}")
        return Verdict(decision=Decision.DENY, rule="error", policy="", why=why)


def _told_to(around: WorkerContext, gate: Gate) -> tuple[str, ...]:
    """Names of the facts beside a step's own that the gate's policy speaks of; a gate of somebody's own: of drills."""
    policy = getattr(gate, "policy", None)
    if not isinstance(policy, Policy):
        return OF_DRILLS
    known = around.spoken_of.get(policy.digest)
    if known is None:
        known = around.spoken_of[policy.digest] = told_facts(policy)
    return known


async def void_outlived(run: Run) -> bool:
    """Whether what people are asked about this saga was asked under a policy that judges no more: it is void then.

    The question is durable before the look: whoever adopts a policy later finds it asked.
    """
    policies = run.around.policies
    if policies is None:
        return False
    await run.book.commit()
    newest = await policies.newest()
    return newest is not None and bool(run.book.tell(c.VoidOutlived(policy=newest)))


async def keep_rates(run: Run, step: StepId, verdict: Verdict) -> int:
    """Count one more where every rate of a verdict lets it pass: then 0.

    Else nothing is counted; that the step waits, and for which rule, goes on record, and this says until when.
    """
    if not verdict.rates:
        return 0
    waits = await run.around.admit(*verdict.rates)
    wait_ms, rate = max(zip(waits, verdict.rates, strict=True), key=lambda one: one[0])
    if not wait_ms:
        return 0
    until = run.around.clock.now() + wait_ms
    run.book.tell(
        c.ThrottleStep(step=step, rule=rate.rule, policy=verdict.policy, most=rate.most, per_s=rate.per_s, until=until)
    )
    return until


async def unless_made_up(run: Run, action: Action[..., Any], args: Json, verdict: Verdict) -> Verdict:
    """The gate's verdict, or a denial: a person who is asked should not have to notice that a value is made up."""
    saga = run.book.saga
    why = unsourced(saga, args, action.parts.sourced)
    named = {name: topics for name, topics in action.parts.sourced.items() if topics}
    if why and named and PARENT in run.begun.labels:
        free = {name: topics for name, topics in action.parts.sourced.items() if not topics}
        why = unsourced(saga, args, free) or unsourced(saga, args, named, await run.book.above())
    return replace(verdict, decision=Decision.DENY, rule=_MADE_UP, why=why) if why else verdict
