"""Effects that are due now, as data: the planner names it, the runtime does it."""

from __future__ import annotations

from typing import TypeAlias

from amends.core.events import IncidentKind
from amends.core.words.values import StepId
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Judge:
    step: StepId


@dataclass(frozen=True, slots=True)
class Perform:
    step: StepId


@dataclass(frozen=True, slots=True)
class Probe:
    step: StepId


@dataclass(frozen=True, slots=True)
class Compensate:
    step: StepId
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Mitigate:
    """Do what is declared about an irreversible step that took effect; a person has asked for it."""

    step: StepId


@dataclass(frozen=True, slots=True)
class Wait:
    until: int


@dataclass(frozen=True, slots=True)
class Await:
    """People have been asked; nothing is due before they answer, or until then."""

    step: StepId
    until: int


@dataclass(frozen=True, slots=True)
class Queue:
    """It stands in line for what another saga holds; nothing is due before its turn comes, or until then."""

    step: StepId
    until: int


@dataclass(frozen=True, slots=True)
class Expire:
    """People were asked, and the time is up."""

    step: StepId


@dataclass(frozen=True, slots=True)
class Settle:
    """Wait for these attempts to end, or cancel them: nothing is taken back while they run."""

    steps: tuple[StepId, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Nothing can fail any more: have the child of this step release what it holds."""

    step: StepId


@dataclass(frozen=True, slots=True)
class TurnBack:
    """Begin to go back, or call a person: what may have been the pivot is settled."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The step is over, and badly; tell the definition."""

    step: StepId


@dataclass(frozen=True, slots=True)
class CallPerson:
    """`stops`: the whole rollback stops there, and not only what depends on the step."""

    kind: IncidentKind
    step: StepId | None
    why: str
    stops: bool = False


@dataclass(frozen=True, slots=True)
class End:
    pass


Effect: TypeAlias = (
    Judge
    | Perform
    | Probe
    | Compensate
    | Mitigate
    | Wait
    | Await
    | Queue
    | Expire
    | Settle
    | Release
    | TurnBack
    | GiveUp
    | CallPerson
    | End
)
