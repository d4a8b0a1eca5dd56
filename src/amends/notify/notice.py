"""Notices: one entry of the log each, as far as anybody outside may know it.

A notice says that something is asked or was answered, where, and by which rule. It never holds arguments, results or
states: whoever may see those looks at the saga. Texts are a person's or an author's (`why`), and are cut.

Its id is made of the entry's position and hash. So it is the same on every delivery, by any process; and a journal that
was restored from a backup, and went on differently, does not give an old id to something new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from amends.core import events as e
from amends.core.words.values import Json, SagaId, StepId, canonical
from amends.dataclass import dataclass
from amends.errors import InputError
from amends.evidence.sign.note import HEAD
from amends.journal.port.evidence import TreeHead
from amends.journal.port.journal import Journal, Logged
from amends.journal.projection import topic_of

LONGEST_TEXT: Final = 1000
MOST_LEFT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """`at` is when it happened, in milliseconds; `about` names the approval or the incident, or else the saga."""

    id: str
    type: str
    at: int
    about: str
    data: dict[str, Json]

    @property
    def body(self) -> bytes:
        """The JSON that is sent: the same bytes each time, because signatures and receivers count on it."""
        happened = datetime.fromtimestamp(self.at / 1000, tz=UTC).isoformat(timespec="milliseconds")
        timestamp = happened.replace("+00:00", "Z")
        return canonical({"id": self.id, "type": self.type, "timestamp": timestamp, "data": self.data}).encode()


async def notice_of(journal: Journal, logged: Logged) -> Notice:
    """The notice of an entry. It needs nothing that a later entry could change."""
    position, entry = logged
    row = await journal.saga(entry.saga)
    data: dict[str, Json] = {"saga": entry.saga}
    if row is not None:
        data |= {"definition": row.definition, "env": row.env, "actor": row.actor}
    if entry.is_removed:
        about, more = str(entry.saga), dict[str, Json](removed=True)
    else:
        topics = (
            {} if isinstance(entry.event, e.ApprovalRequested) else await _topics(journal, entry.saga, entry.number)
        )
        about, more = _TOLD[type(entry.event)](entry.event, entry.saga, topics)
    type_ = entry.name.partition("/")[0]
    named = f"amends_{position}_{entry.hash.hex()[:24]}"
    return Notice(id=named, type=type_, at=entry.at, about=about, data={**data, **more})


def head_notice(head: TreeHead) -> Notice:
    """The notice of a tree head: all of it, as it was signed. Nothing of what the entries hold can be read off it."""
    named = f"amends_head_{head.size}_{sha256(head.note.encode()).hexdigest()[:24]}"
    return Notice(
        id=named, type=HEAD, at=head.at, about=f"{head.size} entries", data={"size": head.size, "note": head.note}
    )


async def _topics(journal: Journal, saga: SagaId, until: int) -> dict[StepId, str]:
    """The topic of each step that the saga had by then."""
    topics: dict[StepId, str] = {}
    async for entry in journal.read(saga):
        if entry.number > until:
            break
        if not entry.is_removed and isinstance(entry.event, e.StepProposed | e.ActionDispatched):
            topics[entry.event.step] = entry.event.topic
    return topics


# -- what is said of each ---------------------------------------------------------------------------------------------

_Topics = Mapping[StepId, str]
_Told = tuple[str, dict[str, Json]]


def _requested(event: e.ApprovalRequested, saga: SagaId, _topics: _Topics) -> _Told:
    approval = f"{saga}/{event.step}"
    needs: list[Json] = [{"approvals": need.approvals, "approvers": list(need.approvers)} for need in event.needs]
    return approval, {
        "approval": approval,
        "step": event.step,
        "topic": topic_of(event),
        "rule": event.rule,
        "why": _cut(event.why),
        "needs": needs,
        "expires_at": event.expires_at,
    }


def _answered(
    event: e.ApprovalGranted | e.ApprovalRefused | e.ApprovalVoided | e.ApprovalExpired, saga: SagaId, topics: _Topics
) -> _Told:
    approval = f"{saga}/{event.step}"
    data: dict[str, Json] = {"approval": approval, "step": event.step, "topic": topics.get(event.step, "")}
    if not isinstance(event, e.ApprovalExpired):
        data["why"] = _cut(event.why)
    if isinstance(event, e.ApprovalGranted | e.ApprovalRefused):
        data["by"] = event.by
    return approval, data


def _opened(event: e.IncidentOpened, saga: SagaId, topics: _Topics) -> _Told:
    incident = f"{saga}/{event.incident}"
    left: list[Json] = [{"step": step, "topic": topics.get(step, "")} for step in event.left[:MOST_LEFT]]
    return incident, {
        "incident": incident,
        "kind": str(event.kind),
        "step": event.step,
        "topic": "" if event.step is None else topics.get(event.step, ""),
        "why": _cut(event.why),
        "left": left,
        "left_count": len(event.left),
        **({"owner": event.owner} if event.owner else {}),
    }


def _closed(event: e.IncidentResolved | e.IncidentRetried, saga: SagaId, _topics: _Topics) -> _Told:
    incident = f"{saga}/{event.incident}"
    data: dict[str, Json] = {"incident": incident, "by": event.by}
    if isinstance(event, e.IncidentResolved):
        data["why"] = _cut(event.reason)
    return incident, data


def _missed(event: e.DrillMissed, saga: SagaId, _topics: _Topics) -> _Told:
    del saga  # it stands in amends.control, and is about another
    return event.target, {
        "drilled": event.saga,
        "target": event.target,
        "last_at": event.last_at,
        "every_s": event.every_s,
        "why": f"{event.saga} was not drilled in time: amends drill {event.target} --quick",
    }


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


_TOLD: Final[Mapping[type[e.Event], Callable[[Any, SagaId, _Topics], _Told]]] = {
    e.ApprovalRequested: _requested,
    e.ApprovalGranted: _answered,
    e.ApprovalRefused: _answered,
    e.ApprovalExpired: _answered,
    e.ApprovalVoided: _answered,
    e.IncidentOpened: _opened,
    e.IncidentResolved: _closed,
    e.IncidentRetried: _closed,
    e.DrillMissed: _missed,
}


ASKING: Final = ("approval.requested", "incident.opened", "drill.missed")
"""What a target is told of unless it asks for something else: whatever needs a person."""
TYPES: Final = (
    "approval.requested",
    "approval.granted",
    "approval.refused",
    "approval.expired",
    "approval.voided",
    "incident.opened",
    "incident.retried",
    "incident.resolved",
    "drill.missed",
)
"""What entries of the log are told of as."""
_ALL: Final = (*TYPES, HEAD)


def checked_types(types: Iterable[str]) -> tuple[str, ...]:
    """Raises InputError for what nobody can be told of."""
    import difflib

    wanted = tuple(dict.fromkeys(types))
    for name in wanted:
        if name not in _ALL:
            nearest = difflib.get_close_matches(name, _ALL, n=1)
            meant = f"did you mean {nearest[0]}? " if nearest else ""
            raise InputError(f"{name!r} is no type of notice; {meant}they are {', '.join(_ALL)}")
    if not wanted:
        raise InputError(f"a target that is told of nothing is none; the types are {', '.join(_ALL)}")
    return wanted


def wire_names(types: Iterable[str]) -> frozenset[str]:
    """The names in the log that notices of these types are made from, old spellings among them."""
    from amends.journal.codec import UPCASTS, WIRE

    wanted = frozenset(types)
    return frozenset(name for name in (*WIRE, *UPCASTS) if name.partition("/")[0] in wanted)
