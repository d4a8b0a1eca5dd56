"""The facts of one judgement, from a saga's folded state: the same for the runtime and for whoever checks it later.

And the gate as the runtime sees it, which is asked about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final, Literal, Protocol

from amends.core.state.saga import Saga
from amends.core.words.contracts import Contract
from amends.core.words.values import Json, SagaId, StepId
from amends.core.words.verdict import Verdict
from amends.dataclass import dataclass
from amends.errors import JournalDamagedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts that a verdict may depend on. The arguments are those on record, secrets already masked.

    `env` is the environment; `env_given` is the word that it was begun under, where that is another one.
    `steps` counts the saga's steps before this one. A drill's age and result are None where there was none, or nobody
    knows, and so is the share of its compensations that failed.
    """

    env: str
    actor: str
    saga: SagaId
    definition: str
    step: StepId
    contract: Contract
    args: Json
    phase: Literal["forward", "compensation"] = "forward"
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    steps: int = 0
    spent: Mapping[str, float] = field(default_factory=dict[str, float])
    approval_present: bool = False
    drill_age_days: float | None = None
    drill_whole_age_days: float | None = None
    drill_result: str | None = None
    compensation_failures: float | None = None
    env_given: str = ""

    @property
    def tenant(self) -> str | None:
        """Whose work it is: the saga's label `tenant`."""
        return self.labels.get("tenant")


class Gate(Protocol):
    def judge(self, facts: Facts) -> Verdict: ...


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
    """Facts about this step for the gate, whether or not it is on record yet; `back` for its compensation.

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
