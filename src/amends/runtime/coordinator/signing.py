"""Decisions with their proof: what a person asks for, as it goes on record once their signature is verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from amends.core import commands as c
from amends.core.decide import decide
from amends.core.decide.approvals import asks_proof
from amends.core.decide.people import decision_in
from amends.core.events import DecisionEvent
from amends.core.state.saga import Saga
from amends.core.words.values import SagaId
from amends.errors import RefusedError
from amends.runtime.drive.roster import Proof, UnsignedDecision, asked_in, signed_at
from amends.runtime.engine.local import LocalEngine
from amends.text import counted

Provable: TypeAlias = c.AnswerApproval | c.RetryIncident | c.ResolveIncident | c.UnpauseSaga | c.RaiseLimits


async def proved(engine: LocalEngine, saga: SagaId, command: Provable, proof: Proof | None) -> c.Command:
    """A person's command with their signature, where one is given. Raises ProofError where it lacks."""
    policies = engine.policies
    if policies is None:
        if proof is not None:
            raise RefusedError("this coordinator has a gate of its own, and verifies no signatures")
        return command
    state = await engine.state(saga)
    if isinstance(command, c.RetryIncident) and (command.mitigate or state.mitigated_by):
        await _require_answered_below(engine, state, command.by)
    sure = replace(command, proved=True) if isinstance(command, c.AnswerApproval) else command
    moment = engine.moment()
    at = moment.now if proof is None else signed_at(proof, moment.now)
    if not isinstance(command, c.AnswerApproval):  # as much time again is from when it was signed
        moment = replace(moment, now=min(moment.now, at))
    decisions = [each for each in decide(state, sure, moment) if isinstance(each, DecisionEvent)]
    if not decisions:
        return command  # it has expired, or is void: whoever decides says so
    fact = decisions[0] if proof is None else decision_in(tuple(decisions))
    approval = state.steps[command.step].approval if isinstance(command, c.AnswerApproval) else None
    asks = approval is not None and asks_proof(approval.needs)
    signed = await policies.proved(saga, fact, proof, asked_in(state, fact), asks=asks, at=at)
    if not signed:
        return command
    going = c.Sign(sure, fact, signed)
    return going if approval is not None else await _proved_whole(engine, state, going, moment)


async def _proved_whole(engine: LocalEngine, state: Saga, going: c.Sign, moment: c.Moment) -> c.Sign:
    """The signed command, where all that goes on record by it would count. Raises RefusedError where it answers for
    several incidents: what nobody has signed would have the saga stand still for good.
    """
    policies = engine.policies
    if policies is not None and await policies.why_unsigned(state, decide(state, going, moment)):
        names = ", ".join(f"{state.id}/{one.number}" for one in state.open_incidents)
        raise RefusedError(
            f"saga {state.id} has the incidents {names}, and a signature answers for one; resolve or retry the others, "
            "each signed, then ask again"
        )
    return going


async def proved_back(
    engine: LocalEngine, saga: SagaId, command: c.CancelSaga | c.RollBackTo, proof: Proof | None
) -> c.Command:
    """A person's wish that a saga goes back. It takes no signature, but where that answers for an incident.

    Raises ProofError where that is so, and nobody gives one.
    """
    policies = engine.policies
    if policies is None:
        return command
    state, moment = await engine.state(saga), engine.moment()
    events = decide(state, command, moment)
    if isinstance(command, c.CancelSaga) and command.mitigate:
        await _require_answered_below(engine, state, command.by)
    decisions = [event for event in events if isinstance(event, DecisionEvent)]
    if not decisions or (proof is None and not await policies.why_unsigned(state, events)):
        return command
    fact = decision_in(events)
    at = moment.now if proof is None else signed_at(proof, moment.now)
    going = c.Sign(command, fact, await policies.proved(saga, fact, proof, at=at))
    return await _proved_whole(engine, state, going, moment)


async def _require_answered_below(engine: LocalEngine, state: Saga, by: str) -> None:
    """Raises RefusedError where a child's incident would be closed with its parent's, in somebody's name and unsigned:
    the child would then stand still for good.
    """
    unsigned = await engine.unsigned_below(state, by)
    if unsigned:
        raise RefusedError(
            f"saga {state.id} would have its children go back from {counted(len(unsigned), 'incident')} "
            f"({', '.join(unsigned)}), and a signature answers for one; resolve or retry these first, each signed, "
            "then ask again"
        )


async def proved_together(
    engine: LocalEngine, answers: Sequence[tuple[SagaId, c.AnswerApproval]], proof: Proof | None
) -> tuple[c.Command, ...]:
    """Several answers of one person, with the one signature that covers them all. Raises ProofError where it lacks.

    Raises RefusedError where one of them can not be given any more: then none is.
    """
    if len(answers) == 1:
        return tuple([await proved(engine, saga, command, proof) for saga, command in answers])
    sure = [replace(command, proved=True) for _, command in answers]
    wanted: list[UnsignedDecision] = []
    for (saga, _), command in zip(answers, sure, strict=True):
        state = await engine.state(saga)
        try:
            fact = decision_in(decide(state, command, engine.moment()))
        except RefusedError as exc:
            raise RefusedError(f"{saga}/{command.step}: {exc}; nothing is decided about the others either") from None
        wanted.append(UnsignedDecision(saga, fact, asked_in(state, fact)))
    policies = engine.policies
    if policies is None or proof is None:
        return tuple([await proved(engine, saga, command, proof) for saga, command in answers])
    signed = await policies.proved_together(wanted, proof)
    return tuple(c.Sign(command, each.fact, signed) for command, each in zip(sure, wanted, strict=True))
