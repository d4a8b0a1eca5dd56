"""What a gate is asked, and what it looks like to the runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from amends.core.contracts import Contract
from amends.core.values import Json, SagaId, StepId
from amends.core.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a verdict may depend on. The arguments are those on record, secrets already masked."""

    env: str
    actor: str
    saga: SagaId
    definition: str
    step: StepId
    contract: Contract
    args: Json
    phase: Literal["forward", "compensation"] = "forward"


class Gate(Protocol):
    def judge(self, facts: Facts) -> Verdict: ...
