"""Requests, in the imperative: each may be refused, and what it leads to is decided, not done."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from amends.core.contracts import Contract
from amends.core.events import Cause, IncidentKind
from amends.core.outcomes import Answer, Lost, Outcome, Succeeded
from amends.core.values import Json, StepId
from amends.core.verdict import Verdict


class StartSaga(NamedTuple):
    definition: str
    version: int
    input: Json
    actor: str
    env: str
    labels: dict[str, str]


class ProposeStep(NamedTuple):
    step: StepId
    contract: Contract
    args: Json
    digest: str


class DispatchStep(NamedTuple):
    """Propose a step that is allowed already, and start its first attempt at once."""

    step: StepId
    contract: Contract
    args: Json
    digest: str
    verdict: Verdict


class RecordVerdict(NamedTuple):
    step: StepId
    verdict: Verdict


class KeepBefore(NamedTuple):
    step: StepId
    before: Json


class StartAttempt(NamedTuple):
    step: StepId


class RecordOutcome(NamedTuple):
    """`jitter`, between 0 and 1, comes from outside: the core has no dice."""

    step: StepId
    outcome: Outcome
    now: int
    jitter: float


class RecordAnswer(NamedTuple):
    step: StepId
    answer: Answer
    now: int
    jitter: float


class EnrolLate(NamedTuple):
    """An attempt that had been given up for lost has ended after all."""

    step: StepId
    attempt: int
    outcome: Succeeded | Lost
    now: int
    window_s: float


class FinishWork(NamedTuple):
    result: Json


class FailWork(NamedTuple):
    cause: Cause
    why: str
    step: StepId | None
    now: int
    window_s: float


class CancelSaga(NamedTuple):
    by: str
    why: str
    now: int
    window_s: float


class StartCompensation(NamedTuple):
    step: StepId
    certain: bool
    verdict: Verdict


class RecordCompensation(NamedTuple):
    step: StepId
    outcome: Outcome
    now: int
    jitter: float


class OpenIncident(NamedTuple):
    kind: IncidentKind
    step: StepId | None
    why: str


class RetryIncident(NamedTuple):
    incident: int
    by: str
    now: int
    window_s: float


class ResolveIncident(NamedTuple):
    incident: int
    by: str
    reason: str
    now: int
    window_s: float


class EndSaga(NamedTuple):
    """Nothing is due any more: record how it ended."""


class Recover(NamedTuple):
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
    | EnrolLate
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
