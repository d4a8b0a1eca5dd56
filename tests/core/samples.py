"""One event of each kind, and the shortest legal history that leads to each status: found by walking the tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, get_args

from amends.core import events as e
from amends.core.transitions import SAGA, STEP, IncidentStatus, SagaStatus, StepStatus
from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.core.words.values import Json, StepId

STEP_ID = StepId("1")
CONTRACT = Contract(topic=Topic("act"), reversibility=Reversibility.COMPENSATABLE)

LIMITS: Json = {"usd": {"most": 1}}
STARTED = e.SagaStarted(definition="d", version=1, input={}, actor="a", env="test", labels={}, limits=LIMITS)
PROPOSED = e.StepProposed(step=STEP_ID, topic=CONTRACT.topic, version=1, args={}, digest="", contract=CONTRACT)
OPENED = e.IncidentOpened(incident=1, kind=e.IncidentKind.OUTCOME_UNKNOWN, step=STEP_ID, why="?", left=(STEP_ID,))

EVENTS: list[e.Event] = [
    STARTED,
    e.WorkFinished(result=None),
    e.SagaCompleted(result=None),
    e.RollbackAwaited(cause=e.Cause.ERROR, why="", step=None, by="person:a"),
    e.RollbackStarted(cause=e.Cause.ERROR, why="", step=None, by="person:a", deadline_at=0),
    e.RollbackResumed(by="person:a", deadline_at=0),
    e.WorkResumed(by="person:a"),
    e.SagaRolledBack(),
    e.SagaMitigated(),
    e.SagaHalted(),
    e.CheckpointMade(place=StepId("c"), name="here"),
    e.RewindStarted(place=StepId("r"), steps=(), why="", by="person:a", deadline_at=0),
    e.RewindEnded(place=StepId("r"), taken_back=()),
    PROPOSED,
    e.ActionDispatched(
        step=STEP_ID,
        topic=CONTRACT.topic,
        version=1,
        args={},
        digest="",
        rule="r",
        policy="p",
        key="k",
        contract=CONTRACT,
    ),
    e.ActionAllowed(step=STEP_ID, rule="r", policy="p"),
    e.ActionDenied(step=STEP_ID, rule="r", policy="p", why=""),
    e.StepThrottled(step=STEP_ID, rule="r", policy="p", most=1, per_s=60.0, until=0),
    e.StepPlaced(step=STEP_ID, place=StepId("at")),
    e.StepDropped(step=STEP_ID, why=""),
    e.FamilySettled(by="person:a"),
    e.ReleaseStarted(step=STEP_ID),
    e.ReleaseEnded(step=STEP_ID),
    e.BeforeCaptured(step=STEP_ID, before=None),
    e.LockAwaited(step=STEP_ID, resources=("r",), holder="s", until=0),
    e.LockTaken(step=STEP_ID),
    e.LockRefused(step=STEP_ID, error=""),
    e.AttemptStarted(step=STEP_ID, attempt=1, key="k"),
    e.AttemptSucceeded(step=STEP_ID, attempt=1, result=None),
    e.AfterCaptured(step=STEP_ID, after=None),
    e.AttemptFailed(step=STEP_ID, attempt=1, error="", fatal=False, retry_at=None),
    e.AttemptLost(step=STEP_ID, attempt=1, error="", fatal=False, retry_at=None),
    e.ProbeFound(step=STEP_ID, result=None),
    e.ProbeFoundNothing(step=STEP_ID, retry_at=None),
    e.ProbeUnanswered(step=STEP_ID, error="", retry_at=None),
    e.LateSuccessEnrolled(step=STEP_ID, attempt=1, result=None),
    e.LateLossEnrolled(step=STEP_ID, attempt=1, error="no answer"),
    e.CompensationStarted(step=STEP_ID, attempt=1, key="k", certain=True, rule="r", policy="p"),
    e.CompensationSucceeded(step=STEP_ID, attempt=1),
    e.CompensationFailed(step=STEP_ID, attempt=1, error="", changed_since=False, retry_at=None),
    e.CompensationLost(step=STEP_ID, attempt=1, error="", timed_out=False, retry_at=None),
    e.CompensationDenied(step=STEP_ID, rule="r", policy="p", why=""),
    e.MitigationStarted(step=STEP_ID, attempt=1, key="k", rule="r", policy="p"),
    e.MitigationSucceeded(step=STEP_ID, attempt=1),
    e.MitigationFailed(step=STEP_ID, attempt=1, error="", changed_since=False, retry_at=None),
    e.MitigationLost(step=STEP_ID, attempt=1, error="", timed_out=False, retry_at=None),
    e.MitigationDenied(step=STEP_ID, rule="r", policy="p", why=""),
    e.ApprovalRequested(step=STEP_ID, digest="", shown={}, rule="r", policy="p", needs=(), expires_at=0),
    e.ApprovalGranted(step=STEP_ID, by="person:a", digest=""),
    e.ApprovalSigned(step=STEP_ID, by="person:a", digest=""),
    e.ApprovalUsed(step=STEP_ID, digest=""),
    e.ApprovalRefused(step=STEP_ID, by="person:a", why=""),
    e.ApprovalExpired(step=STEP_ID),
    e.ApprovalVoided(step=STEP_ID, why=""),
    OPENED,
    e.IncidentAssigned(incident=1, owner="a", by="person:a"),
    e.IncidentCommented(incident=1, by="person:a", text="t"),
    e.PolicyAdopted(digest="d", text="t", by="person:a", why="w"),
    e.PersonEnrolled(person="person:a", key="k", by="person:a"),
    e.PersonRevoked(person="person:a", key="k", by="person:a", why="w"),
    e.WaitStarted(place=StepId("9"), name="n", until=1),
    e.SignalReceived(number=1, name="n", payload=None, by="person:a"),
    e.WaitEnded(place=StepId("9"), signal=None),
    e.SagaPaused(by="person:a", why="w"),
    e.DispatchPaused(topic="", definition="", tenant="", rollbacks=False, by="person:a", why="w"),
    e.DispatchUnpaused(pause=3, by="person:a", why="w"),
    e.HoldPlaced(saga="s", by="person:a", why="w"),
    e.HoldLifted(saga="s", by="person:a", why="w"),
    e.ContentRemoved(entries=3, by="person:a", why="w"),
    e.DrillMissed(saga="d", target="m:d", last_at=1, every_s=2.0, by="person:a"),
    e.TokenMade(name="agent:a", digest="d", scopes=("run",), definitions=("d",), expires_at=1, by="person:a"),
    e.TokenRevoked(digest="d", by="person:a", why="w"),
    e.BudgetSpent(place=StepId("2"), usd_micros=2),
    e.ChildSpent(step=StepId("2"), usd_micros=2, steps=1),
    e.LimitReached(limit="usd", most=1, used=2, then="call", why="w"),
    e.LimitRaised(limit="usd", most=3, by="person:a"),
    e.IncidentRetried(incident=1, by="person:a"),
    e.IncidentResolved(incident=1, by="person:a", reason="r", settled=(STEP_ID,)),
]
EVENT: Mapping[type[e.Event], e.Event] = {type(event): event for event in EVENTS}

STEP_EVENTS: list[type[e.Event]] = [*get_args(e.StepEvent), *get_args(e.ApprovalEvent), e.IncidentResolved]
SAGA_EVENTS: list[type[e.Event]] = [kind for kind in get_args(e.SagaEvent) if kind is not e.SagaStarted]


def _shortest(table: Mapping[Any, Mapping[Any, StrEnum]], first: StrEnum) -> dict[StrEnum, tuple[type[e.Event], ...]]:
    """From the first status to each other one, breadth first."""
    paths: dict[StrEnum, tuple[type[e.Event], ...]] = {first: ()}
    waiting = [first]
    for status in waiting:
        for kind, after in table[status].items():
            if after not in paths:
                paths[after] = (*paths[status], kind)
                waiting.append(after)
    return paths


_STEP_PATHS = _shortest(STEP, StepStatus.PROPOSED)
_STEP_PATHS[StepStatus.READY] = (e.ApprovalRequested, e.ApprovalGranted)  # so that what may become of it can come
_STEP_PATHS[StepStatus.QUEUED] = (*_STEP_PATHS[StepStatus.READY], e.LockAwaited)
_STEP_PATHS[StepStatus.FAILED] = (*_STEP_PATHS[StepStatus.READY], e.LockRefused)
_SAGA_PATHS = _shortest(SAGA, SagaStatus.RUNNING)


def to_step(status: StepStatus) -> list[e.Event]:
    """The shortest history after which the step has this status. An incident is open, so that it can be resolved."""
    path = [EVENT[kind] for kind in _STEP_PATHS[status]]
    settles = [event for event in path if isinstance(event, e.IncidentResolved)]
    return [STARTED, PROPOSED, *path[: len(path) - len(settles)], OPENED, *settles]


def to_saga(status: SagaStatus) -> list[e.Event]:
    return [STARTED, *(EVENT[kind] for kind in _SAGA_PATHS[status])]


def to_incident(status: IncidentStatus) -> list[e.Event]:
    closing: dict[IncidentStatus, list[e.Event]] = {
        IncidentStatus.OPEN: [],
        IncidentStatus.RETRIED: [EVENT[e.IncidentRetried]],
        IncidentStatus.RESOLVED: [e.IncidentResolved(incident=1, by="person:a", reason="r", settled=())],
    }
    return [STARTED, PROPOSED, OPENED, *closing[status]]
