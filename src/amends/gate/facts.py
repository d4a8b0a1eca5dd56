"""The facts of one judgement, from a saga's folded state: the same for the runtime and for whoever checks it later."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from amends.core.contracts import Contract
from amends.core.saga import Saga
from amends.core.values import Json, StepId
from amends.errors import JournalDamagedError
from amends.gate.protocol import Facts

DRILL_AGE: Final = "drill.age_days"
WHOLE_DRILL_AGE: Final = "drill.whole_age_days"
DRILL_RESULT: Final = "drill.result"
FAILURES: Final = "compensation_failures"
TOLD: Final = (DRILL_AGE, WHOLE_DRILL_AGE, DRILL_RESULT, FAILURES)
"""What is not in the saga that is judged: it is looked up where a policy asks, and recorded with the verdict."""


def facts_of(
    saga: Saga,
    step: StepId,
    contract: Contract,
    args: Json,
    *,
    back: bool = False,
    approval_present: bool = False,
    told: Json = None,
) -> Facts:
    """What is asked about this step, whether or not it is on record yet; `back` for its compensation.

    `told` is what the gate was told of other sagas, as it stands on record with a verdict.
    """
    begun = saga.begun
    if begun is None:
        raise JournalDamagedError(f"saga {saga.id} has entries, but none that starts it")
    known = saga.steps.get(step)
    facts = Facts(
        env=begun.taken_for or begun.env,
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
        env_given=begun.env if begun.taken_for else "",
    )
    return with_told(facts, told) if told else facts


def with_told(facts: Facts, told: Json) -> Facts:
    """Facts with what is known from other sagas, by the names that rules use."""
    known = told if isinstance(told, dict) else {}
    age, whole, share, result = (known.get(name) for name in (DRILL_AGE, WHOLE_DRILL_AGE, FAILURES, DRILL_RESULT))
    return replace(
        facts,
        drill_age_days=float(age) if isinstance(age, (int, float)) else None,
        drill_whole_age_days=float(whole) if isinstance(whole, (int, float)) else None,
        compensation_failures=float(share) if isinstance(share, (int, float)) else None,
        drill_result=result if isinstance(result, str) else None,
    )
