"""Changes that an append makes in the lists, as far as its events say it: pure, and the same for every store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from amends.core import events as e
from amends.core.transitions import APPROVAL, INCIDENT, ApprovalStatus, IncidentStatus
from amends.core.words.contracts import Topic
from amends.core.words.values import StepId
from amends.dataclass import dataclass


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


Change: TypeAlias = (
    TopicSeen | e.IncidentOpened | e.IncidentAssigned | IncidentClosed | e.ApprovalRequested | ApprovalChanged
)

_CLOSED: Final = {kind: new for kind, new in INCIDENT[IncidentStatus.OPEN].items() if new is not IncidentStatus.OPEN}
_ANSWERED: Final = {**APPROVAL[ApprovalStatus.REQUESTED], **APPROVAL[ApprovalStatus.GRANTED]}


def changes(events: Sequence[e.Event]) -> tuple[Change, ...]:
    """Changes that an append makes in the lists; nothing, for most."""
    found: list[Change] = []
    for event in events:
        kind = type(event)
        if kind in _CHANGES:
            found += _CHANGES[kind](event)
    return tuple(found)


def topic_of(asked: e.ApprovalRequested) -> str:
    """The topic that lists show for what people are asked about."""
    return str(asked.shown.get("topic", "")) if isinstance(asked.shown, dict) else ""


def _topic(event: e.StepProposed | e.ActionDispatched) -> tuple[Change, ...]:
    """The contract comes with the first step of its topic, so the topic is noted then and not again."""
    return () if event.contract is None else (TopicSeen(event.topic),)


def _asked(event: e.IncidentOpened | e.IncidentAssigned | e.ApprovalRequested) -> tuple[Change, ...]:
    return (event,)


def _closed(event: e.IncidentRetried | e.IncidentResolved) -> tuple[Change, ...]:
    return (IncidentClosed(event.incident, _CLOSED[type(event)]),)


def _answered(
    event: e.ApprovalSigned
    | e.ApprovalGranted
    | e.ApprovalRefused
    | e.ApprovalExpired
    | e.ApprovalVoided
    | e.ApprovalUsed,
) -> tuple[Change, ...]:
    return (ApprovalChanged(event.step, _ANSWERED[type(event)]),)


_CHANGES: Final[Mapping[type[e.Event], Callable[[Any], tuple[Change, ...]]]] = {
    e.StepProposed: _topic,
    e.ActionDispatched: _topic,
    e.IncidentOpened: _asked,
    e.IncidentAssigned: _asked,
    e.ApprovalRequested: _asked,
    **dict.fromkeys(_CLOSED, _closed),
    **dict.fromkeys(_ANSWERED, _answered),
}
