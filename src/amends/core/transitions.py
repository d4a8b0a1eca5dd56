"""Is this legal? Five tables, and nothing else, answer that.

A row is a status, a cell the status after an event. What is not in a table cannot happen: `evolve` raises, so
neither a bug nor a damaged journal can move a saga sideways. The diagrams in docs/understand/lifecycle.md and the
generators of the property tests are made from these tables.

Invariants that the tables carry:
- a call is made only after an intent: only `…Started` and `ActionDispatched` lead to RUNNING and COMPENSATING;
- nobody knows (UNKNOWN) is left only by a probe, a repeat, a compensation, a late success, or a person;
- that a later attempt certainly failed does not settle an earlier one that was lost: the step stays UNKNOWN;
- nothing leaves SUCCEEDED but a compensation, a mitigation, or a person who vouches for it (an irreversible step
  stays: no saga is rolled back over one, and one that a person takes back with mitigation ends as mitigated);
- a step whose compensation has succeeded is in doubt again only when its own attempt reports late: whether the effect
  came before or after the compensation, nobody knows, so it is probed or shown to a person, never compensated twice.

| status        | what may stand in the world | what the runtime owes                       |
|---------------|-----------------------------|---------------------------------------------|
| PROPOSED, AWAITING, READY, QUEUED, DENIED | nothing | nothing                             |
| RUNNING       | maybe                       | an outcome; after a crash: lost             |
| SUCCEEDED     | the effect                  | a compensation, once the saga rolls back    |
| FAILED        | nothing                     | another try, or nothing                     |
| UNKNOWN       | maybe                       | a probe, a repeat, or a compensation        |
| COMPENSATING, RECOMPENSATING | maybe        | an outcome; after a crash: lost             |
| UNCOMPENSATED | maybe                       | another try, or an incident                 |
| COMPENSATED   | nothing                     | nothing                                     |
| MITIGATING    | the effect                  | an outcome; after a crash: lost             |
| UNMITIGATED   | the effect                  | another try, or an incident                 |
| MITIGATED     | the effect, and what was done about it | nothing                          |
| DROPPED       | nothing                     | nothing                                     |
| SETTLED       | what a person vouches for   | nothing                                     |
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from amends.core import events as e


class SagaStatus(StrEnum):
    """Where a saga stands, as people see it."""

    RUNNING = "running"
    WAITING = "waiting"
    ROLLING_BACK = "rolling_back"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled_back"
    MITIGATED = "mitigated"
    INCIDENT = "incident"
    PAUSED = "paused"

    @property
    def ended(self) -> bool:
        return self in _ENDED

    @property
    def has_gone_back(self) -> bool:
        """Whether nothing of it is owed any more: all was taken back or, of what cannot be, mitigated."""
        return self is SagaStatus.ROLLED_BACK or self is SagaStatus.MITIGATED

    @property
    def goes_forward(self) -> bool:
        """Whether its work goes on, now or when what it waits for comes."""
        return self in {SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.PAUSED}


_ENDED: Final = frozenset({SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK, SagaStatus.MITIGATED})


class StepStatus(StrEnum):
    """Where a step stands; the module's table says what each owes."""

    PROPOSED = "proposed"
    AWAITING = "awaiting"
    READY = "ready"
    QUEUED = "queued"
    DENIED = "denied"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    COMPENSATING = "compensating"
    RECOMPENSATING = "recompensating"
    UNCOMPENSATED = "uncompensated"
    COMPENSATED = "compensated"
    MITIGATING = "mitigating"
    UNMITIGATED = "unmitigated"
    MITIGATED = "mitigated"
    SETTLED = "settled"
    DROPPED = "dropped"


class ApprovalStatus(StrEnum):
    REQUESTED = "requested"
    GRANTED = "granted"
    USED = "used"
    REFUSED = "refused"
    EXPIRED = "expired"
    VOID = "void"


class WaitStatus(StrEnum):
    OPEN = "open"
    ENDED = "ended"


class IncidentStatus(StrEnum):
    OPEN = "open"
    RETRIED = "retried"
    RESOLVED = "resolved"


_G, _S = SagaStatus, StepStatus

SAGA: Final[Mapping[SagaStatus, Mapping[type[e.SagaEvent], SagaStatus]]] = {
    _G.RUNNING: {
        e.CheckpointMade: _G.RUNNING,
        e.RewindStarted: _G.RUNNING,
        e.RewindEnded: _G.RUNNING,
        e.BudgetSpent: _G.RUNNING,
        e.ChildSpent: _G.RUNNING,
        e.LimitReached: _G.RUNNING,
        e.LimitRaised: _G.RUNNING,
        e.WorkFinished: _G.RUNNING,
        e.FamilySettled: _G.RUNNING,
        e.SagaCompleted: _G.COMPLETED,
        e.RollbackAwaited: _G.RUNNING,
        e.RollbackStarted: _G.ROLLING_BACK,
        e.SagaHalted: _G.INCIDENT,
        e.SagaPaused: _G.PAUSED,
    },
    _G.ROLLING_BACK: {
        e.ChildSpent: _G.ROLLING_BACK,
        e.SagaRolledBack: _G.ROLLED_BACK,
        e.SagaMitigated: _G.MITIGATED,
        e.SagaHalted: _G.INCIDENT,
        e.SagaPaused: _G.PAUSED,
    },
    _G.PAUSED: {
        e.SagaPaused: _G.PAUSED,
        e.ChildSpent: _G.PAUSED,
        e.LimitRaised: _G.PAUSED,
        e.WorkResumed: _G.RUNNING,
        e.RewindStarted: _G.RUNNING,
        e.RollbackAwaited: _G.RUNNING,
        e.RollbackStarted: _G.ROLLING_BACK,
        e.RollbackResumed: _G.ROLLING_BACK,
    },
    _G.INCIDENT: {
        e.ChildSpent: _G.INCIDENT,
        e.LimitRaised: _G.INCIDENT,
        e.WorkResumed: _G.RUNNING,
        e.RewindStarted: _G.RUNNING,
        e.RollbackAwaited: _G.RUNNING,
        e.RollbackStarted: _G.ROLLING_BACK,
        e.RollbackResumed: _G.ROLLING_BACK,
        e.SagaCompleted: _G.COMPLETED,
    },
    _G.COMPLETED: {
        e.RewindStarted: _G.RUNNING,
        e.RollbackStarted: _G.ROLLING_BACK,
        e.SagaHalted: _G.INCIDENT,
        e.PolicyAdopted: _G.COMPLETED,
        e.PersonEnrolled: _G.COMPLETED,
        e.PersonRevoked: _G.COMPLETED,
        e.DispatchPaused: _G.COMPLETED,
        e.DispatchUnpaused: _G.COMPLETED,
        e.HoldPlaced: _G.COMPLETED,
        e.HoldLifted: _G.COMPLETED,
        e.DrillMissed: _G.COMPLETED,
        e.TokenMade: _G.COMPLETED,
        e.TokenRevoked: _G.COMPLETED,
        e.ContentRemoved: _G.COMPLETED,
    },
    _G.ROLLED_BACK: {
        e.RollbackResumed: _G.ROLLING_BACK,
        e.ContentRemoved: _G.ROLLED_BACK,
    },
    _G.MITIGATED: {
        e.RollbackResumed: _G.ROLLING_BACK,
        e.SagaHalted: _G.INCIDENT,
        e.ContentRemoved: _G.MITIGATED,
    },
}

NEW_STEP: Final[Mapping[type[e.StepProposed | e.ActionDispatched], StepStatus]] = {
    e.StepProposed: _S.PROPOSED,
    e.ActionDispatched: _S.RUNNING,
}

STEP: Final[Mapping[StepStatus, Mapping[type[e.StepEvent | e.ApprovalEvent | e.IncidentResolved], StepStatus]]] = {
    _S.PROPOSED: {
        e.ActionAllowed: _S.READY,
        e.ActionDenied: _S.DENIED,
        e.ApprovalRequested: _S.AWAITING,
        e.BeforeCaptured: _S.PROPOSED,
        e.StepThrottled: _S.PROPOSED,
        e.StepPlaced: _S.PROPOSED,
        e.StepDropped: _S.DROPPED,
    },
    _S.AWAITING: {
        e.ApprovalSigned: _S.AWAITING,
        e.ApprovalGranted: _S.READY,
        e.ApprovalRefused: _S.DENIED,
        e.ApprovalExpired: _S.DENIED,
        e.ApprovalVoided: _S.PROPOSED,
    },
    _S.READY: {
        e.StepThrottled: _S.READY,
        e.StepPlaced: _S.READY,
        e.BeforeCaptured: _S.READY,
        e.ApprovalUsed: _S.READY,
        e.StepDropped: _S.DROPPED,
        e.AttemptStarted: _S.RUNNING,
        e.ApprovalVoided: _S.PROPOSED,
        e.ApprovalExpired: _S.DENIED,
        e.LockAwaited: _S.QUEUED,
        e.LockRefused: _S.FAILED,
    },
    _S.QUEUED: {
        e.LockTaken: _S.READY,
        e.LockRefused: _S.FAILED,
        e.ApprovalVoided: _S.PROPOSED,
    },
    _S.RUNNING: {
        e.AttemptSucceeded: _S.SUCCEEDED,
        e.AttemptFailed: _S.FAILED,
        e.AttemptLost: _S.UNKNOWN,
        e.LateSuccessEnrolled: _S.RUNNING,
        e.LateLossEnrolled: _S.RUNNING,
    },
    _S.SUCCEEDED: {
        e.AfterCaptured: _S.SUCCEEDED,
        e.StepThrottled: _S.SUCCEEDED,
        e.ReleaseStarted: _S.SUCCEEDED,
        e.ReleaseEnded: _S.SUCCEEDED,
        e.CompensationStarted: _S.COMPENSATING,
        e.CompensationDenied: _S.UNCOMPENSATED,
        e.MitigationStarted: _S.MITIGATING,
        e.MitigationDenied: _S.UNMITIGATED,
        e.IncidentResolved: _S.SETTLED,
    },
    _S.FAILED: {
        e.IncidentResolved: _S.SETTLED,
        e.ApprovalVoided: _S.FAILED,
        e.AttemptStarted: _S.RUNNING,
        e.LateSuccessEnrolled: _S.SUCCEEDED,
        e.LateLossEnrolled: _S.UNKNOWN,
    },
    _S.UNKNOWN: {
        e.ProbeFound: _S.SUCCEEDED,
        e.ProbeFoundNothing: _S.FAILED,
        e.ProbeUnanswered: _S.UNKNOWN,
        e.StepThrottled: _S.UNKNOWN,
        e.AttemptStarted: _S.RUNNING,
        e.LateSuccessEnrolled: _S.SUCCEEDED,
        e.LateLossEnrolled: _S.UNKNOWN,
        e.CompensationStarted: _S.COMPENSATING,
        e.CompensationDenied: _S.UNCOMPENSATED,
        e.IncidentResolved: _S.SETTLED,
    },
    _S.COMPENSATING: {
        e.CompensationSucceeded: _S.COMPENSATED,
        e.MitigationSucceeded: _S.MITIGATED,
        e.CompensationFailed: _S.UNCOMPENSATED,
        e.CompensationLost: _S.UNCOMPENSATED,
        e.LateSuccessEnrolled: _S.RECOMPENSATING,
        e.LateLossEnrolled: _S.RECOMPENSATING,
    },
    _S.RECOMPENSATING: {
        e.CompensationSucceeded: _S.UNKNOWN,
        e.MitigationSucceeded: _S.MITIGATED,
        e.CompensationFailed: _S.UNCOMPENSATED,
        e.CompensationLost: _S.UNCOMPENSATED,
    },
    _S.UNCOMPENSATED: {
        e.CompensationStarted: _S.COMPENSATING,
        e.CompensationDenied: _S.UNCOMPENSATED,
        e.StepThrottled: _S.UNCOMPENSATED,
        e.LateSuccessEnrolled: _S.UNCOMPENSATED,
        e.LateLossEnrolled: _S.UNCOMPENSATED,
        e.IncidentResolved: _S.SETTLED,
    },
    _S.COMPENSATED: {
        e.LateSuccessEnrolled: _S.UNKNOWN,
        e.LateLossEnrolled: _S.UNKNOWN,
    },
    _S.MITIGATING: {
        e.MitigationSucceeded: _S.MITIGATED,
        e.MitigationFailed: _S.UNMITIGATED,
        e.MitigationLost: _S.UNMITIGATED,
    },
    _S.UNMITIGATED: {
        e.MitigationStarted: _S.MITIGATING,
        e.MitigationDenied: _S.UNMITIGATED,
        e.StepThrottled: _S.UNMITIGATED,
        e.IncidentResolved: _S.SETTLED,
    },
    _S.MITIGATED: {},
    _S.SETTLED: {
        e.LateSuccessEnrolled: _S.UNKNOWN,
        e.LateLossEnrolled: _S.UNKNOWN,
    },
    _S.DENIED: {e.StepDropped: _S.DROPPED},
    _S.DROPPED: {},
}

APPROVAL: Final[Mapping[ApprovalStatus, Mapping[type[e.ApprovalEvent], ApprovalStatus]]] = {
    ApprovalStatus.REQUESTED: {
        e.ApprovalSigned: ApprovalStatus.REQUESTED,
        e.ApprovalGranted: ApprovalStatus.GRANTED,
        e.ApprovalRefused: ApprovalStatus.REFUSED,
        e.ApprovalExpired: ApprovalStatus.EXPIRED,
        e.ApprovalVoided: ApprovalStatus.VOID,
    },
    ApprovalStatus.GRANTED: {
        e.ApprovalUsed: ApprovalStatus.USED,
        e.ApprovalExpired: ApprovalStatus.EXPIRED,
        e.ApprovalVoided: ApprovalStatus.VOID,
    },
    ApprovalStatus.USED: {},
    ApprovalStatus.REFUSED: {},
    ApprovalStatus.EXPIRED: {},
    ApprovalStatus.VOID: {e.ApprovalRequested: ApprovalStatus.REQUESTED},
}

INCIDENT: Final[Mapping[IncidentStatus, Mapping[type[e.IncidentEvent], IncidentStatus]]] = {
    IncidentStatus.OPEN: {
        e.IncidentAssigned: IncidentStatus.OPEN,
        e.IncidentCommented: IncidentStatus.OPEN,
        e.IncidentRetried: IncidentStatus.RETRIED,
        e.IncidentResolved: IncidentStatus.RESOLVED,
    },
    IncidentStatus.RETRIED: {},
    IncidentStatus.RESOLVED: {},
}

WAIT: Final[Mapping[WaitStatus, Mapping[type[e.WaitEvent], WaitStatus]]] = {
    WaitStatus.OPEN: {e.WaitEnded: WaitStatus.ENDED},
    WaitStatus.ENDED: {},
}
