"""The facts of one judgement, from a saga's folded state: the same for the runtime and for whoever checks it later."""

from __future__ import annotations

from amends.core.contracts import Contract
from amends.core.saga import Saga
from amends.core.values import Json, StepId
from amends.errors import JournalDamagedError
from amends.gate.protocol import Facts


def facts_of(
    saga: Saga,
    step: StepId,
    contract: Contract,
    args: Json,
    *,
    back: bool = False,
    approval_present: bool = False,
    drill_age_days: float | None = None,
) -> Facts:
    """What is asked about this step, whether or not it is on record yet; `back` for its compensation."""
    begun = saga.begun
    if begun is None:
        raise JournalDamagedError(f"saga {saga.id} has entries, but none that starts it")
    known = saga.steps.get(step)
    return Facts(
        env=begun.env,
        actor=begun.actor,
        saga=saga.id,
        definition=begun.definition,
        step=step,
        contract=contract,
        args=args,
        phase="compensation" if back else "forward",
        labels=begun.labels,
        steps=known.number - 1 if known is not None and known.number else len(saga.order),
        approval_present=approval_present,
        drill_age_days=drill_age_days,
    )
