"""The ways in which a saga can go wrong, one row of the matrix each; and what the drill does to bring them about.

A fault is brought about where users' functions are called, never inside of them: a call is not made, or is made and its
answer withheld. What the runtime is told is an outcome, as it would be by the world.

What somebody else would change between an action and its compensation is declared for drills, one for each topic:

@somebody_else(set_role)
def promoted(asked): roles[asked.args["user"]] = "admin"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from amends.core.events import IncidentKind
from amends.core.state.saga import Saga
from amends.core.words.outcomes import Failed, Lost, Outcome
from amends.core.words.values import StepId
from amends.dataclass import dataclass
from amends.runtime.drive.executor import Part


class Fault(StrEnum):
    """Its value is its name on the command line and in reports."""

    NOTHING = "as-it-is"
    TAKEN_BACK = "taken-back"
    MITIGATED = "mitigated"
    FATAL = "fatal"
    LOST_DONE = "lost-done"
    LOST_NOT_DONE = "lost-not-done"
    UNKNOWN_DONE = "unknown-done"
    UNKNOWN_NOT_DONE = "unknown-not-done"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    EXPIRED = "expired"
    CRASH = "crash"
    UNDO_FAILS_ONCE = "undo-fails-once"
    UNDO_REPEATED = "undo-repeated"
    UNDO_FAILS = "undo-fails"
    UNDO_TIMES_OUT = "undo-times-out"
    UNDO_DENIED = "undo-denied"
    UNDO_CRASH = "undo-crash"
    CHANGED_SINCE = "changed-since"


TITLES: Final[Mapping[Fault, str]] = {
    Fault.NOTHING: "nothing goes wrong",
    Fault.TAKEN_BACK: "all of it is taken back",
    Fault.MITIGATED: "taken back with mitigation",
    Fault.FATAL: "fails for good",
    Fault.LOST_DONE: "answer lost, it had happened",
    Fault.LOST_NOT_DONE: "answer lost, it had not",
    Fault.UNKNOWN_DONE: "nobody can tell, it had happened",
    Fault.UNKNOWN_NOT_DONE: "nobody can tell, it had not",
    Fault.CANCELLED: "cancelled while it runs",
    Fault.REFUSED: "approval refused",
    Fault.EXPIRED: "approval not given in time",
    Fault.CRASH: "crash after each write and effect",
    Fault.UNDO_FAILS_ONCE: "fails once",
    Fault.UNDO_REPEATED: "works, answer lost, repeated",
    Fault.UNDO_FAILS: "fails for good",
    Fault.UNDO_TIMES_OUT: "times out",
    Fault.UNDO_DENIED: "denied by the gate",
    Fault.UNDO_CRASH: "crash after each write and effect",
    Fault.CHANGED_SINCE: "somebody changed it since",
}
"""What people read. Those of a compensation, or a mitigation, stand under a heading that says so."""

OF_SAGA: Final = (Fault.NOTHING, Fault.TAKEN_BACK, Fault.MITIGATED)
FORWARD: Final = (
    Fault.FATAL,
    Fault.LOST_DONE,
    Fault.LOST_NOT_DONE,
    Fault.UNKNOWN_DONE,
    Fault.UNKNOWN_NOT_DONE,
    Fault.CANCELLED,
    Fault.REFUSED,
    Fault.EXPIRED,
    Fault.CRASH,
)
BACK: Final = (
    Fault.UNDO_FAILS_ONCE,
    Fault.UNDO_REPEATED,
    Fault.UNDO_FAILS,
    Fault.UNDO_TIMES_OUT,
    Fault.UNDO_DENIED,
    Fault.UNDO_CRASH,
    Fault.CHANGED_SINCE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The fate of a call. `landed`: it is made, and then the answer is withheld; `always`: on every attempt."""

    part: Part
    outcome: Outcome
    landed: bool = False
    always: bool = False


_LOST: Final = Lost(error="drill: the connection broke")
_FATAL: Final = Lost(error="drill: it failed for good", fatal=True)
TROUBLES: Final[Mapping[Fault, Trouble]] = {
    Fault.FATAL: Trouble(part="action", outcome=_FATAL),
    Fault.LOST_DONE: Trouble(part="action", outcome=_LOST, landed=True),
    Fault.LOST_NOT_DONE: Trouble(part="action", outcome=_LOST),
    Fault.UNKNOWN_DONE: Trouble(part="action", outcome=_FATAL, landed=True),
    Fault.UNKNOWN_NOT_DONE: Trouble(part="action", outcome=_FATAL),
    Fault.UNDO_FAILS_ONCE: Trouble(part="compensation", outcome=_LOST),
    Fault.UNDO_REPEATED: Trouble(part="compensation", outcome=_LOST, landed=True),
    Fault.UNDO_FAILS: Trouble(
        part="compensation", outcome=Failed(error="drill: it failed for good", fatal=True), always=True
    ),
    Fault.UNDO_TIMES_OUT: Trouble(
        part="compensation", outcome=Lost(error="drill: no answer in time", timed_out=True), always=True
    ),
}
MUTE: Final = frozenset({Fault.UNKNOWN_DONE, Fault.UNKNOWN_NOT_DONE})
"""The step's probe does not answer the runtime: the compensation has to do without."""

CALLS_PERSON: Final[Mapping[Fault, IncidentKind]] = {
    Fault.UNDO_FAILS: IncidentKind.COMPENSATION_FAILED,
    Fault.UNDO_TIMES_OUT: IncidentKind.COMPENSATION_TIMED_OUT,
    Fault.UNDO_DENIED: IncidentKind.COMPENSATION_DENIED,
}
"""Faults that no runtime can mend by itself, and the incident that each has to end in."""
_OF_MITIGATION: Final[Mapping[Fault, IncidentKind]] = {
    Fault.UNDO_FAILS: IncidentKind.MITIGATION_FAILED,
    Fault.UNDO_TIMES_OUT: IncidentKind.MITIGATION_TIMED_OUT,
    Fault.UNDO_DENIED: IncidentKind.MITIGATION_DENIED,
}
RELEASE_FAILS: Final = frozenset({Fault.FATAL, Fault.UNKNOWN_DONE, Fault.UNKNOWN_NOT_DONE})
"""Faults that a held step cannot be taken back for: its work stands, and a person has it tried again."""
TAKES_BACK: Final[frozenset[Part]] = frozenset({"compensation", "mitigation"})
"""What a fault of a compensation concerns: of an irreversible step, its mitigation."""


WHOLE: Final = StepId("")
"""In place of a step: the saga as a whole."""


STOPS: Final = "drill: it stops here"
"""Why a run stops that is to be taken back before its pivot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where a run is stopped that could not be taken back once it has completed: at its pivot, which certainly fails.

    Without a step, where the work ends: what it holds, or a child of it, has not gone out yet, and is dropped.
    """

    step: StepId | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where something goes wrong, and what. Of the whole saga there is no step."""

    fault: Fault
    step: StepId = WHOLE

    def __str__(self) -> str:
        return f"{self.step}:{self.fault}" if self.step else str(self.fault)


def called_for(saga: Saga, place: Place) -> IncidentKind | None:
    """The incident that what goes wrong at a place has to end in; None where no person need be called."""
    step = saga.steps.get(place.step)
    if step is not None and step.contract.hold and place.fault in RELEASE_FAILS:
        return IncidentKind.RELEASE_FAILED
    if step is not None and step.contract.mitigation:
        return _OF_MITIGATION.get(place.fault)
    return CALLS_PERSON.get(place.fault)


if TYPE_CHECKING:
    from amends.runtime.declare.action import Action, Asked

    Change = Callable[[Asked], object]
else:
    Change = Callable[..., object]

C = TypeVar("C", bound=Callable[..., object])

OTHERS: Final[dict[str, Change]] = {}


def somebody_else(action: Action[..., Any]) -> Callable[[C], C]:
    """Declare a change that somebody else may make to what this action has changed. It gets an Asked."""

    def declare(change: C) -> C:
        OTHERS[action.topic] = change
        return change

    return declare
