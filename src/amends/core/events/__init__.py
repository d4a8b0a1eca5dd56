"""Facts, in the past tense: the only thing that is ever stored. Times are milliseconds of UTC."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from amends.core.events.limits import (
    BudgetSpent as BudgetSpent,
    ChildSpent as ChildSpent,
    LimitEvent as LimitEvent,
    LimitRaised as LimitRaised,
    LimitReached as LimitReached,
)
from amends.core.events.locks import (
    AfterCaptured as AfterCaptured,
    LockAwaited as LockAwaited,
    LockRefused as LockRefused,
    LockTaken as LockTaken,
)
from amends.core.events.people import (
    ApprovalEvent as ApprovalEvent,
    ApprovalExpired as ApprovalExpired,
    ApprovalGranted as ApprovalGranted,
    ApprovalRefused as ApprovalRefused,
    ApprovalRequested as ApprovalRequested,
    ApprovalSigned as ApprovalSigned,
    ApprovalUsed as ApprovalUsed,
    ApprovalVoided as ApprovalVoided,
    IncidentAssigned as IncidentAssigned,
    IncidentCommented as IncidentCommented,
    IncidentEvent as IncidentEvent,
    IncidentKind as IncidentKind,
    IncidentOpened as IncidentOpened,
    IncidentResolved as IncidentResolved,
    IncidentRetried as IncidentRetried,
    PersonEnrolled as PersonEnrolled,
    PersonEvent as PersonEvent,
    PersonRevoked as PersonRevoked,
)
from amends.core.events.rewinds import (
    CheckpointMade as CheckpointMade,
    FamilySettled as FamilySettled,
    ReleaseEnded as ReleaseEnded,
    ReleaseStarted as ReleaseStarted,
    RewindEnded as RewindEnded,
    RewindStarted as RewindStarted,
    StepDropped as StepDropped,
    StepPlaced as StepPlaced,
)
from amends.core.events.waits import (
    ContentRemoved as ContentRemoved,
    ControlEvent as ControlEvent,
    DispatchPaused as DispatchPaused,
    DispatchUnpaused as DispatchUnpaused,
    DrillMissed as DrillMissed,
    HoldLifted as HoldLifted,
    HoldPlaced as HoldPlaced,
    SagaPaused as SagaPaused,
    SignalReceived as SignalReceived,
    StepThrottled as StepThrottled,
    TokenEvent as TokenEvent,
    TokenMade as TokenMade,
    TokenRevoked as TokenRevoked,
    WaitEnded as WaitEnded,
    WaitEvent as WaitEvent,
    WaitStarted as WaitStarted,
)
from amends.core.words.contracts import Contract, Topic
from amends.core.words.values import Json, StepId
from amends.dataclass import dataclass


class Cause(StrEnum):
    """Why a saga's work stopped."""

    FATAL = "fatal"
    FAILED = "failed"
    LOST = "lost"
    DENIED = "denied"
    ERROR = "error"
    CANCELLED = "cancelled"
    UNVERIFIED = "unverified"
    LIMIT = "limit"
    ABORTED = "aborted"


# -- the saga ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaStarted:
    definition: str
    version: int
    input: Json
    actor: str
    env: str
    labels: dict[str, str]
    limits: Json = None  # what it may use up, as `core.limits` reads it
    files: Json = None  # which files of its parent's a child works on
    rollback_s: float | None = None  # the window of its rollbacks, where it is not that of whoever drives it
    attempts: int | None = None  # how often one step is tried at most, whatever its action says
    compensation_attempts: int | None = None  # the same for the way back
    taken_for: str = ""  # the environment that `env` stands for, where it is another word
    own: bool = False  # it carries out what its actor decided about a saga that they had asked for themselves
    because: tuple[str, ...] = ()  # of a child that is called again: why those before it ended, the newest last
    module: str = ""  # the module that declared its definition, where another process could import it; for people
    session: Json = None  # of an open saga, which has no function: how long it may stand idle, and what then


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFinished:
    """The definition came to its end, but steps whose outcome nobody knows have to be settled first."""

    result: Json
    early: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaCompleted:
    """`early` says why the work ended before the definition's end, where it did."""

    result: Json
    early: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackAwaited:
    """It is to go back, once it is known whether what may be the pivot took effect: nothing goes forward meanwhile.

    `above` and `floor` say how far, as entry and number of intents; without `above`, all of it. `to` is the place of
    the checkpoint that it goes back to. `mitigate`: also past the pivot, as in `RollbackStarted`.
    """

    cause: Cause
    why: str
    step: StepId | None
    by: str
    to: StepId | None = None
    above: int | None = None
    floor: int = 0
    mitigate: bool = False
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackStarted:
    """`mitigate`: a person has it go back past its pivot, with what is declared to be done about each such step."""

    cause: Cause
    why: str
    step: StepId | None
    by: str
    deadline_at: int
    mitigate: bool = False
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResumed:
    """`mitigate`: from here on it goes past the pivot too, as in `RollbackStarted`; one that did goes on so anyway."""

    by: str
    deadline_at: int
    mitigate: bool = False
    own: bool = False
    signed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkResumed:
    """`deadline_at`: until when what was being taken back has to be; 0 where nothing was.

    `raises`: limits that were signed with it.
    """

    by: str
    deadline_at: int = 0
    own: bool = False
    signed: str = ""
    raises: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaRolledBack:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaMitigated:
    """It has gone back, and something stands that cannot be taken back: about that was done what was declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaHalted:
    """Nothing more is done until a person acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAdopted:
    """From here on this policy judges. All of them stand in one saga of their own, newest last."""

    digest: str
    text: str
    by: str
    why: str
    signed: str = ""


# -- a step going forward ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProposed:
    step: StepId
    topic: Topic
    version: int
    args: Json
    digest: str
    contract: Contract | None
    """Only with the first step of this topic and version in the saga; later steps share it."""
    after: tuple[StepId, ...] | None = None
    """The steps that it was declared to be after, where its definition is a graph; None where nothing was declared."""
    ahead: bool = False
    """People are asked about it before it is to be done; where it is done, a `StepPlaced` says."""
    call: str = ""
    """The caller's own id of it, in an open saga."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDispatched:
    """A step in one fact, where nothing came between: proposed, allowed by this rule, its first attempt's intent."""

    step: StepId
    topic: Topic
    version: int
    args: Json
    digest: str
    rule: str
    policy: str
    key: str
    contract: Contract | None = None
    after: tuple[StepId, ...] | None = None
    told: Json = None  # what the gate was told of other sagas, by the names that rules use
    call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAllowed:
    step: StepId
    rule: str
    policy: str
    told: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDenied:
    step: StepId
    rule: str
    policy: str
    why: str
    told: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeCaptured:
    step: StepId
    before: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """The intent: durable before the call."""

    step: StepId
    attempt: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSucceeded:
    step: StepId
    attempt: int
    result: Json
    opaque: str = ""
    layer: str = ""
    confinement: str = ""
    """Of commands that it ran on files: `confined`, or `not confined` and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """Certainly nothing happened. `retry_at` is None when it is not tried again."""

    step: StepId
    attempt: int
    error: str
    fatal: bool
    retry_at: int | None
    confinement: str = ""
    where: str = ""
    """The line of its author's code that raised it. Apart from its words, which are compared, and told to models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLost:
    """Nobody knows. `retry_at` is when it is probed or repeated; None when neither is possible."""

    step: StepId
    attempt: int
    error: str
    fatal: bool
    retry_at: int | None
    confinement: str = ""
    where: str = ""
    final: bool = False
    """It is not repeated, whatever a probe says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFound:
    step: StepId
    result: Json
    opaque: str = ""
    """Why the result could not be kept, where it could not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFoundNothing:
    step: StepId
    retry_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeUnanswered:
    step: StepId
    error: str
    retry_at: int | None
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateSuccessEnrolled:
    """An attempt that had been given up for lost took effect after all; what it did is owed again."""

    step: StepId
    attempt: int
    result: Json
    opaque: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateLossEnrolled:
    """An attempt that had been given up for lost ended after all, and still nobody knows: it may have taken effect."""

    step: StepId
    attempt: int
    error: str
    where: str = ""


# -- a step going back ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationStarted:
    """`let_run_by` is the person who had it run against the gate."""

    step: StepId
    attempt: int
    key: str
    certain: bool
    rule: str
    policy: str
    let_run_by: str = ""
    told: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationSucceeded:
    step: StepId
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationFailed:
    step: StepId
    attempt: int
    error: str
    changed_since: bool
    retry_at: int | None
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationLost:
    step: StepId
    attempt: int
    error: str
    timed_out: bool
    retry_at: int | None
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationDenied:
    step: StepId
    rule: str
    policy: str
    why: str
    told: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MitigationStarted:
    """The intent to mitigate an irreversible step. `let_run_by` is the person who had it run against the gate."""

    step: StepId
    attempt: int
    key: str
    rule: str
    policy: str
    let_run_by: str = ""
    told: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MitigationSucceeded:
    """The effect stands, and what was declared was done about it. Of a step that called a child: by the child."""

    step: StepId
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MitigationFailed:
    step: StepId
    attempt: int
    error: str
    changed_since: bool
    retry_at: int | None
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MitigationLost:
    step: StepId
    attempt: int
    error: str
    timed_out: bool
    retry_at: int | None
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MitigationDenied:
    step: StepId
    rule: str
    policy: str
    why: str
    told: Json = None


SagaEvent: TypeAlias = (
    SagaStarted
    | WorkFinished
    | SagaCompleted
    | RollbackAwaited
    | RollbackStarted
    | RollbackResumed
    | WorkResumed
    | SagaRolledBack
    | SagaMitigated
    | SagaHalted
    | SagaPaused
    | PolicyAdopted
    | ControlEvent
    | ContentRemoved
    | PersonEvent
    | CheckpointMade
    | RewindStarted
    | RewindEnded
    | FamilySettled
    | LimitEvent
)
MitigationEvent: TypeAlias = (
    MitigationStarted | MitigationSucceeded | MitigationFailed | MitigationLost | MitigationDenied
)
StepEvent: TypeAlias = (
    ActionAllowed
    | ActionDenied
    | StepThrottled
    | StepPlaced
    | StepDropped
    | BeforeCaptured
    | LockAwaited
    | LockTaken
    | LockRefused
    | AttemptStarted
    | AttemptSucceeded
    | AfterCaptured
    | AttemptFailed
    | AttemptLost
    | ProbeFound
    | ProbeFoundNothing
    | ProbeUnanswered
    | LateSuccessEnrolled
    | LateLossEnrolled
    | CompensationStarted
    | CompensationSucceeded
    | CompensationFailed
    | CompensationLost
    | CompensationDenied
    | MitigationEvent
    | ReleaseStarted
    | ReleaseEnded
)
Event: TypeAlias = SagaEvent | StepProposed | ActionDispatched | StepEvent | ApprovalEvent | IncidentEvent | WaitEvent

RecordEvent: TypeAlias = PolicyAdopted | ContentRemoved | PersonEvent
DecisionEvent: TypeAlias = (
    ApprovalSigned
    | ApprovalGranted
    | ApprovalRefused
    | IncidentRetried
    | IncidentResolved
    | PolicyAdopted
    | DispatchUnpaused
    | HoldLifted
    | WorkResumed
    | RollbackResumed
    | LimitRaised
    | ContentRemoved
    | PersonEvent
)
"""What a person decides, and can sign."""


def declared_in(begun: SagaStarted | None) -> str:
    """'' where the journal does not say, or says what is no module's name."""
    name = "" if begun is None else begun.module
    return name if all(map(str.isidentifier, name.split("."))) else ""


def resuming(begun: SagaStarted | None) -> str:
    """The command that goes on with it."""
    return f"amends resume {declared_in(begun)}".rstrip()
