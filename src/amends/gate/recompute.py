"""What a gate was asked, and what it answered, from a saga's events alone: to judge it again by another policy, or to
check that the record is what its policy says.

The journal does not hold everything that a verdict may have depended on: how long ago an action was drilled is read as
unknown, and whether an approval was there is told by the approvals on record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from amends.core import events as e
from amends.core.saga import Saga, evolve, unstarted
from amends.core.values import SagaId, StepId
from amends.core.verdict import Decision
from amends.gate.facts import facts_of
from amends.gate.protocol import Facts

_Allowed: TypeAlias = e.ActionDispatched | e.ActionAllowed | e.CompensationStarted
_Denied: TypeAlias = e.ActionDenied | e.CompensationDenied
_Judged: TypeAlias = _Allowed | _Denied | e.ApprovalRequested
_Back: TypeAlias = e.CompensationStarted | e.CompensationDenied


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
    approved: set[StepId] = set()
    for event in events:
        state = evolve(state, event)
        if isinstance(event, e.ApprovalGranted):
            approved.add(event.step)
        elif isinstance(event, e.ApprovalVoided | e.ApprovalExpired):
            approved.discard(event.step)
        elif isinstance(event, _Judged):
            yield _recorded(state, event, approved=event.step in approved and not isinstance(event, _Back))


def _recorded(state: Saga, event: _Judged, *, approved: bool) -> Recorded:
    step = state.steps[event.step]
    back = isinstance(event, _Back)
    return Recorded(
        entry=state.head,
        step=step.id,
        facts=facts_of(state, step.id, step.contract, step.args, back=back, approval_present=approved),
        decision=_decision(event),
        rule=event.rule,
        policy=event.policy,
        approved=approved,
    )


def _decision(event: _Judged) -> Decision:
    if isinstance(event, e.ApprovalRequested):
        return Decision.REQUIRE_HUMAN
    return Decision.ALLOW if isinstance(event, _Allowed) else Decision.DENY
