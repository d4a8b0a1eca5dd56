"""Questions to a gate, and its answers, from a saga's events alone: to judge them again by another policy, or to check
that the record is what its policy says.

What a verdict depended on outside of its saga (drills, how compensations came out) was recorded with it, where the
policy asked; whether an approval was there is told by the approvals on record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from amends.core import events as e
from amends.core.decide.approvals import AHEAD
from amends.core.state.saga import Saga, Step, evolve, unstarted
from amends.core.transitions import ApprovalStatus
from amends.core.words.values import SagaId, StepId
from amends.core.words.verdict import Decision
from amends.dataclass import dataclass
from amends.gate.facts import Facts, facts_of

_Allowed: TypeAlias = e.ActionDispatched | e.ActionAllowed | e.CompensationStarted | e.MitigationStarted
_Denied: TypeAlias = e.ActionDenied | e.CompensationDenied | e.MitigationDenied
_Judged: TypeAlias = _Allowed | _Denied | e.ApprovalRequested
_Back: TypeAlias = e.CompensationStarted | e.CompensationDenied | e.MitigationStarted | e.MitigationDenied


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One verdict on record. `entry` is its number in the saga; `approved` is true where people had agreed before."""

    entry: int
    step: StepId
    facts: Facts
    decision: Decision
    rule: str
    policy: str
    approved: bool = False


def recorded_verdicts(saga: SagaId, events: Iterable[e.Event]) -> Iterator[Recorded]:
    """Each verdict in a saga's events, which are all of them up to some point, in order.

    Raises JournalDamagedError for events that do not follow each other.
    """
    state = unstarted(saga)
    for event in events:
        state = evolve(state, event)
        if isinstance(event, _Judged):
            yield _recorded(state, event)


def _recorded(state: Saga, event: _Judged) -> Recorded:
    step = state.steps[event.step]
    back = isinstance(event, _Back)
    present = _present(step, event)
    return Recorded(
        entry=state.head,
        step=step.id,
        facts=facts_of(state, step.id, step.contract, step.args, back=back, approval_present=present, told=event.told),
        decision=_decision(event),
        rule=event.rule,
        policy=event.policy,
        approved=present or bool(back and step.let_run_by),
    )


def _present(step: Step, event: _Judged) -> bool:
    """Whether the gate was told that people had agreed: to what is asked ahead it is told so before they do."""
    if isinstance(event, e.ApprovalRequested):
        return event.rule == AHEAD
    return step.approval is not None and step.approval.status in {ApprovalStatus.GRANTED, ApprovalStatus.USED}


def _decision(event: _Judged) -> Decision:
    if isinstance(event, e.ApprovalRequested):
        return Decision.REQUIRE_HUMAN
    return Decision.ALLOW if isinstance(event, _Allowed) else Decision.DENY
