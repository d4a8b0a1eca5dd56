"""What an append changes in the lists, as far as its events say it: pure, and the same for every store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from amends.core import events as e
from amends.core.contracts import Topic
from amends.core.transitions import APPROVAL, INCIDENT, ApprovalStatus, IncidentStatus
from amends.core.values import StepId


@dataclass(frozen=True, slots=True)
class TopicSeen:
    topic: Topic


@dataclass(frozen=True, slots=True)
class IncidentClosed:
    incident: int
    status: IncidentStatus


@dataclass(frozen=True, slots=True)
class ApprovalChanged:
    step: StepId
    status: ApprovalStatus


Change: TypeAlias = TopicSeen | e.IncidentOpened | IncidentClosed | e.ApprovalRequested | ApprovalChanged

_CLOSED: Final = INCIDENT[IncidentStatus.OPEN]
_ANSWERED: Final = APPROVAL[ApprovalStatus.REQUESTED]
_BEGINNINGS: Final = (e.StepProposed, e.ActionDispatched, e.IncidentOpened, e.ApprovalRequested)
_SHOWN: Final[frozenset[type[e.Event]]] = frozenset({*_BEGINNINGS, *_CLOSED, *_ANSWERED})


def changes(events: Sequence[e.Event]) -> tuple[Change, ...]:
    """What an append changes in the lists; nothing, for most."""
    return tuple([change for event in events if type(event) in _SHOWN and (change := _change(event)) is not None])


def _change(event: e.Event) -> Change | None:
    match event:
        case e.StepProposed(contract=contract, topic=topic) | e.ActionDispatched(contract=contract, topic=topic):
            # The contract comes with the first step of its topic, so the topic is noted then and not again.
            return None if contract is None else TopicSeen(topic)
        case e.IncidentOpened() | e.ApprovalRequested():
            return event
        case e.IncidentRetried() | e.IncidentResolved():
            return IncidentClosed(event.incident, _CLOSED[type(event)])
        case e.ApprovalGranted() | e.ApprovalRefused() | e.ApprovalExpired() | e.ApprovalVoided():
            return ApprovalChanged(event.step, _ANSWERED[type(event)])
        case _:
            return None
