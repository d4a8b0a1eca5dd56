"""Facts about time: what a saga waits for, what reaches it from outside, and when dispatch is held back."""

from __future__ import annotations

from typing import TypeAlias

from amends.core.words.values import Json, StepId
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStarted:
    """The definition waits at this place: for a signal of this name or, where it has none, only for the time."""

    place: StepId
    name: str
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEnded:
    """`signal` is the number of the one that ended it; None where the time was up."""

    place: StepId
    signal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalReceived:
    number: int
    name: str
    payload: Json
    by: str
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepThrottled:
    """A rule's rate lets no more of its kind pass before then: the gate judges again when the time has come.

    The step is what it was: on its way forward, or on its way back.
    """

    step: StepId
    rule: str
    policy: str
    most: int
    per_s: float
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaPaused:
    """Nothing is dispatched for it until it is let go on. `pause` is the wide one that it came to; 0: its own."""

    by: str
    why: str
    pause: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchPaused:
    """Dispatch of what these clauses describe, "" being any, is held back. All of them stand in one saga of their own.

    Its number is that of its entry.
    """

    topic: str
    definition: str
    tenant: str
    rollbacks: bool
    """Whether rollbacks stop too."""
    by: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchUnpaused:
    pause: int
    by: str
    why: str
    signed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPlaced:
    """The content of this saga is kept, however old it is."""

    saga: str
    by: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldLifted:
    saga: str
    by: str
    why: str
    own: bool = False
    signed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillMissed:
    """A saga that was drilled before has not been within the time that the policy declares; once for each such time.

    `target` is where the saga is found, `last_at` when it was drilled last.
    """

    saga: str
    target: str
    last_at: int
    every_s: float
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMade:
    """From here on whoever shows the secret of this digest is `name` to a server, until it expires."""

    name: str
    digest: str
    scopes: tuple[str, ...]
    definitions: tuple[str, ...]
    expires_at: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRevoked:
    """From here on the token of this digest names nobody."""

    digest: str
    by: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRemoved:
    """The content of this saga's entries, up to this number, was removed for good; each has left its digest.

    Written with the removal itself, and never removed. `own`: who removed it had asked for the saga. `was_gone`: it was
    gone already, and this person vouches for it. `signed`: the proof of a decision about all sagas that ended before
    `before`; empty where the name was believed.
    """

    entries: int
    by: str
    why: str
    own: bool = False
    was_gone: bool = False
    before: int = 0
    signed: str = ""


WaitEvent: TypeAlias = WaitStarted | WaitEnded | SignalReceived
TokenEvent: TypeAlias = TokenMade | TokenRevoked
ControlEvent: TypeAlias = DispatchPaused | DispatchUnpaused | HoldPlaced | HoldLifted | DrillMissed | TokenEvent
