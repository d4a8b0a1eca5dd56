"""Facts about people: what they are asked, what they answer, and what is left to them.

`own`, here and in other facts, says that whoever decided had asked for the saga themselves, as they may in development.
`signed`, likewise, proves their name: the roster that the decision goes by, the policy, the time, and the signature by
one of their keys over the text that says it (evidence.proof). Empty: the name was believed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from amends.core.words.values import Json, StepId
from amends.core.words.verdict import Need
from amends.dataclass import dataclass


class IncidentKind(StrEnum):
    """Why a person is needed."""

    COMPENSATION_MISSING = "compensation_missing"
    COMPENSATION_DENIED = "compensation_denied"
    COMPENSATION_FAILED = "compensation_failed"
    COMPENSATION_TIMED_OUT = "compensation_timed_out"
    MITIGATION_MISSING = "mitigation_missing"
    MITIGATION_DENIED = "mitigation_denied"
    MITIGATION_FAILED = "mitigation_failed"
    MITIGATION_TIMED_OUT = "mitigation_timed_out"
    OUTCOME_UNKNOWN = "outcome_unknown"
    EFFECT_DOUBLED = "effect_doubled"
    CHANGED_SINCE = "changed_since"
    PAST_PIVOT = "past_pivot"
    RELEASE_FAILED = "release_failed"
    DIVERGED = "diverged"
    CALLED = "called"
    LIMIT_REACHED = "limit_reached"
    VERIFICATION_FAILED = "verification_failed"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """`shown` is everything that people are asked to agree to; `digest` binds their answer to it."""

    step: StepId
    digest: str
    shown: Json
    rule: str
    policy: str
    needs: tuple[Need, ...]
    expires_at: int
    why: str = ""
    told: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSigned:
    """One of several has agreed; more are needed. `own`: they had asked for it themselves, in development."""

    step: StepId
    by: str
    digest: str
    why: str = ""
    own: bool = False
    signed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGranted:
    """The last one that was needed has agreed. `own` as in `ApprovalSigned`."""

    step: StepId
    by: str
    digest: str
    why: str = ""
    own: bool = False
    signed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRefused:
    step: StepId
    by: str
    why: str
    own: bool = False
    signed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalExpired:
    step: StepId


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalVoided:
    """The step that was asked about is not what would run now, or nothing would run any more."""

    step: StepId
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalUsed:
    """Written together with the intent that it allows, and only once."""

    step: StepId
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentOpened:
    """`step` is where it stopped; `left` names every step whose effect may still stand.

    `owner` is the person who sees to it from the start: whom the saga's label `owner` names.
    """

    incident: int
    kind: IncidentKind
    step: StepId | None
    why: str
    left: tuple[StepId, ...]
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRetried:
    """`let_run`: a person takes the compensation, or the mitigation, on themselves that the gate refused.

    `repeat`: an attempt was lost, and a person has the step done once more all the same. `raises`: limits that were
    signed with it. `mitigate`: it is over because the saga goes back, past its pivot too.
    """

    incident: int
    by: str
    let_run: bool = False
    own: bool = False
    repeat: bool = False
    signed: str = ""
    raises: str = ""
    mitigate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentAssigned:
    incident: int
    owner: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentCommented:
    incident: int
    by: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentResolved:
    """A person vouches for these steps; nothing is owed for them any more.

    `proof` says where that can be seen. `raises`: limits that were signed with it. `mitigate`: it is over because the
    saga goes back, past its pivot too, and nobody vouches.
    """

    incident: int
    by: str
    reason: str
    settled: tuple[StepId, ...]
    proof: str = ""
    own: bool = False
    signed: str = ""
    raises: str = ""
    mitigate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonEnrolled:
    """From here on this key proves this name. The first one that is enrolled is the root that a journal is known by.

    `recovery`: the key is kept elsewhere, and proves nothing but further changes of the roster.
    """

    person: str
    key: str
    by: str
    why: str = ""
    recovery: bool = False
    signed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRevoked:
    """From here on the key of this fingerprint proves nothing more; what it proved before stands."""

    person: str
    key: str
    by: str
    why: str
    signed: str = ""


PersonEvent: TypeAlias = PersonEnrolled | PersonRevoked
ApprovalEvent: TypeAlias = (
    ApprovalRequested
    | ApprovalSigned
    | ApprovalGranted
    | ApprovalRefused
    | ApprovalExpired
    | ApprovalVoided
    | ApprovalUsed
)
IncidentEvent: TypeAlias = IncidentOpened | IncidentAssigned | IncidentCommented | IncidentRetried | IncidentResolved
