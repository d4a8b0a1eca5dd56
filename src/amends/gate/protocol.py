"""What a gate is asked, and what it looks like to the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, Protocol

from amends.core.contracts import Contract
from amends.core.values import Json, SagaId, StepId
from amends.core.verdict import Verdict
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a verdict may depend on. The arguments are those on record, secrets already masked.

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
