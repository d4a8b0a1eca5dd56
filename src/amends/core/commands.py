"""Requests, in the imperative: each may be refused, and what it leads to is decided, not done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from amends.core.contracts import Contract
from amends.core.events import Cause, IncidentKind
from amends.core.outcomes import Answer, Outcome
from amends.core.values import Json, StepId
from amends.core.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSaga:
    definition: str
    version: int
    input: Json
    actor: str
    env: str
    labels: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeStep:
    step: StepId
    contract: Contract
    args: Json
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchStep:
    """Propose a step that is allowed already, and start its first attempt at once."""

    step: StepId
    contract: Contract
    args: Json
    digest: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordVerdict:
    step: StepId
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepBefore:
    step: StepId
    before: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAttempt:
    step: StepId


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOutcome:
    """`jitter`, between 0 and 1, comes from outside: the core has no dice."""

    step: StepId
    outcome: Outcome
    now: int
    jitter: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAnswer:
    step: StepId
    answer: Answer
    now: int
    jitter: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolLateSuccess:
    step: StepId
    attempt: int
    result: Json
    now: int
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishWork:
    result: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class FailWork:
    cause: Cause
    why: str
    step: StepId | None
    now: int
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSaga:
    by: str
    why: str
    now: int
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCompensation:
    step: StepId
    certain: bool
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCompensation:
    step: StepId
    outcome: Outcome
    now: int
    jitter: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIncident:
    kind: IncidentKind
    step: StepId | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryIncident:
    incident: int
    by: str
    now: int
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveIncident:
    incident: int
    by: str
    reason: str
    now: int
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSaga:
    """Nothing is due any more: record how it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Another driver takes over: what was in flight under the last one is lost."""

    now: int
    jitter: float


Command: TypeAlias = (
    DispatchStep
    | RecordOutcome
    | ProposeStep
    | RecordVerdict
    | StartAttempt
    | KeepBefore
    | StartSaga
    | FinishWork
    | RecordAnswer
    | EnrolLateSuccess
    | FailWork
    | CancelSaga
    | StartCompensation
    | RecordCompensation
    | OpenIncident
    | RetryIncident
    | ResolveIncident
    | EndSaga
    | Recover
)
