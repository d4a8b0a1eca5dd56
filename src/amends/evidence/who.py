"""Who stands behind a fact: `agent:`, `person:` or `system:`. Pure.

People sign what they do. What the saga's function asked for is done in the name of the saga's actor. All else the
runtime saw, judged or decided itself.
"""

from __future__ import annotations

from typing import Final

from amends.core import events as e

RUNTIME: Final = "system:runtime"
GATE: Final = "system:gate"
OWN_DECISION: Final = "own decision"
"""How it is said that whoever decided had asked for the saga themselves, as they may in development."""
_JUDGED: Final = (
    e.ActionAllowed,
    e.ActionDenied,
    e.StepThrottled,
    e.CompensationDenied,
    e.MitigationDenied,
    e.ApprovalRequested,
)
_ASKED_FOR: Final = (
    e.StepProposed,
    e.StepPlaced,
    e.ActionDispatched,
    e.AttemptStarted,
    e.WorkFinished,
    e.SagaCompleted,
    e.CheckpointMade,
    e.ApprovalUsed,
    e.WaitStarted,
    e.BudgetSpent,
)


def who(event: e.Event, actor: str) -> str:
    """The actor of one fact of a saga that `actor` started."""
    if isinstance(event, e.SagaStarted):
        return event.actor
    by: str = getattr(event, "by", "") or getattr(event, "let_run_by", "")
    if by:
        return by
    if isinstance(event, _JUDGED):
        return GATE
    return actor if isinstance(event, _ASKED_FOR) else RUNTIME
