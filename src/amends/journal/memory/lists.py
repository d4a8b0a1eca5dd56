"""The lists of a journal in memory: what they show, and in which order. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TypeVar

from amends.core import events as e
from amends.core.transitions import ApprovalStatus, IncidentStatus
from amends.journal.memory.state import KeptSaga, Memory
from amends.journal.port import lists as cursors
from amends.journal.port.entries import PARENT
from amends.journal.port.keys import KEYED
from amends.journal.port.lists import ApprovalRow, IncidentRow, PersonQuery, SagaQuery, SagaRow
from amends.journal.projection import topic_of

_Row = TypeVar("_Row", IncidentRow, ApprovalRow)


def row(memory: Memory, record: KeptSaga) -> SagaRow:
    incidents, approvals = memory.incidents.values(), memory.approvals.values()
    status = record.summary.status
    return SagaRow(
        id=record.id,
        definition=record.begun.definition,
        version=record.begun.version,
        env=record.begun.env,
        actor=record.begun.actor,
        status=status,
        labels=dict(record.begun.labels),
        started_at=record.started_at,
        updated_at=record.updated_at,
        ended_at=record.updated_at if status.ended else None,
        entries=len(record.entries),
        open_incidents=sum(row.saga == record.id and row.status == "open" for _, row in incidents),
        open_approvals=sum(row.saga == record.id and row.status == "requested" for _, row in approvals),
        pruned=record.removed,
    )


def age(record: KeptSaga) -> tuple[int, int]:
    return (record.started_at, record.place)


def matches(record: KeptSaga, query: SagaQuery) -> bool:
    return (
        (query.statuses is None or record.summary.status in query.statuses)
        and (query.definition is None or record.begun.definition == query.definition)
        and (query.topic is None or query.topic in record.topics)
        and (query.env is None or record.begun.env == query.env)
        and (query.parent is None or record.begun.labels.get(PARENT) == query.parent)
        and (query.started_from is None or record.started_at >= query.started_from)
        and (query.started_until is None or record.started_at < query.started_until)
        and _ended_within(record, query)
        and all(record.begun.labels.get(name) == value for name, value in query.labels)
        and record.id.startswith(query.starts_with)
        and (query.key is None or _has_key(record, query.key))
        and record.begun.definition not in query.without
    )


def _has_key(record: KeptSaga, key: str) -> bool:
    """Whether a call of it has this key; of one whose entries were emptied, none."""
    bodies = (kept.wire.body for kept in record.entries if kept.wire.name in KEYED)
    return any(body.startswith("{") and json.loads(body)["key"] == key for body in bodies)


def _ended_within(record: KeptSaga, query: SagaQuery) -> bool:
    if query.ended_from is None and query.ended_until is None:
        return True
    at = record.updated_at
    since, until = query.ended_from, query.ended_until
    return record.summary.status.ended and (since is None or at >= since) and (until is None or at < until)


def page(
    rows: Mapping[str, tuple[int, _Row]], query: PersonQuery, is_open: Callable[[_Row], bool]
) -> tuple[tuple[_Row, ...], str | None]:
    after = 0 if query.after is None else cursors.read(query.after, 1)[0]
    found = [
        (place, row)
        for place, row in sorted(rows.values(), key=lambda one: one[0])
        if place > after and (query.saga is None or row.saga == query.saga) and (not query.open_only or is_open(row))
    ]
    shown = found[: query.limit]
    cursor = cursors.spell(shown[-1][0]) if len(found) > len(shown) else None
    return tuple(row for _, row in shown), cursor


def opened(record: KeptSaga, event: e.IncidentOpened, at: int) -> IncidentRow:
    return IncidentRow(
        id=f"{record.id}/{event.incident}",
        saga=record.id,
        number=event.incident,
        definition=record.begun.definition,
        kind=event.kind,
        step=event.step,
        why=event.why,
        left=event.left,
        owner=event.owner,
        status=IncidentStatus.OPEN,
        opened_at=at,
        closed_at=None,
    )


def requested(record: KeptSaga, event: e.ApprovalRequested, at: int) -> ApprovalRow:
    return ApprovalRow(
        id=f"{record.id}/{event.step}",
        saga=record.id,
        step=event.step,
        definition=record.begun.definition,
        topic=topic_of(event),
        rule=event.rule,
        status=ApprovalStatus.REQUESTED,
        requested_at=at,
        expires_at=event.expires_at,
    )
