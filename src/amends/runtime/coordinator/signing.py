"""Decisions with their proof: what a person asks for, as it goes on record once their signature is verified."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from amends.core import commands as c
from amends.core.decide import decide
from amends.core.decide.approvals import asks_proof
from amends.core.decide.people import decision_in
from amends.core.events import DecisionEvent
from amends.core.words.values import SagaId
from amends.errors import RefusedError
from amends.runtime.drive.roster import Proof, asked_in
from amends.runtime.engine.local import LocalEngine

Provable: TypeAlias = c.AnswerApproval | c.RetryIncident | c.ResolveIncident | c.UnpauseSaga | c.RaiseLimits


async def proved(engine: LocalEngine, saga: SagaId, command: Provable, proof: Proof | None) -> c.Command:
    """A person's command with their signature, where one is given. Raises ProofError where it lacks."""
    policies = engine.policies
    if policies is None:
        if proof is not None:
            raise RefusedError("this coordinator has a gate of its own, and verifies no signatures")
        return command
    state = await engine.state(saga)
    sure = replace(command, proved=True) if isinstance(command, c.AnswerApproval) else command
    decisions = [each for each in decide(state, sure, engine.moment()) if isinstance(each, DecisionEvent)]
    if not decisions:
        return command  # it has expired, or is void: whoever decides says so
    fact = decisions[0] if proof is None else decision_in(tuple(decisions))
    approval = state.steps[command.step].approval if isinstance(command, c.AnswerApproval) else None
    asks = approval is not None and asks_proof(approval.needs)
    signed = await policies.proved(saga, fact, proof, asked_in(state, fact), asks=asks)
    return c.Sign(sure, fact, signed) if signed else command
