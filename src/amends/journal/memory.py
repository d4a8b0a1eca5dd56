"""The reference journal: plain dicts, for tests and simulation. It says what the port means, and keeps nothing.

Entries are encoded, chained and decoded as in any other store, so what cannot be stored fails here too. Several handles
on one `Memory` behave like several processes on one file. Nothing here waits, so a seeded simulation repeats itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar, assert_never

from amends.clock import Clock
from amends.core import events as e
from amends.core.transitions import ApprovalStatus, IncidentStatus, SagaStatus
from amends.core.values import SagaId
from amends.errors import AmendsError, JournalDamagedError
from amends.journal import cursors, refusals
from amends.journal.codec import FIRST, Wire, chain, decode, encode
from amends.journal.projection import ApprovalChanged, Change, IncidentClosed, TopicSeen, changes, topic_of
from amends.journal.protocol import (
    ApprovalPage,
    ApprovalRow,
    Entry,
    IncidentPage,
    IncidentRow,
    Lease,
    PersonQuery,
    SagaPage,
    SagaQuery,
    SagaRow,
    Summary,
)

_CLAIMABLE: Final = frozenset({SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.ROLLING_BACK})
_Row = TypeVar("_Row", IncidentRow, ApprovalRow)


@dataclass(slots=True)
class Stored:
    """An entry as it is kept: what a file would hold of it."""

    at: int
    wire: Wire
    hash: bytes


@dataclass(slots=True)
class Record:
    """One saga: its entries, who holds it, and what lists show of it."""

    id: SagaId
    place: int
    begun: e.SagaStarted
    started_at: int
    updated_at: int
    summary: Summary
    worker: str
    epoch: int
    nudged: bool = False
    entries: list[Stored] = field(default_factory=list[Stored])
    topics: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Memory:
    """What the handles of one journal share, as processes share a file. Rows for people have a place in line."""

    sagas: dict[SagaId, Record] = field(default_factory=dict[SagaId, Record])
    workers: dict[str, float] = field(default_factory=dict[str, float])
    incidents: dict[str, tuple[int, IncidentRow]] = field(default_factory=dict[str, tuple[int, IncidentRow]])
    approvals: dict[str, tuple[int, ApprovalRow]] = field(default_factory=dict[str, tuple[int, ApprovalRow]])
    line: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class MemoryJournal:
    """One handle on a Memory; on a new one where none is given."""

    def __init__(self, clock: Clock, memory: Memory | None = None) -> None:
        self.memory = Memory() if memory is None else memory
        self._clock = clock
        self._closed = False

    def append(
        self,
        saga: SagaId,
        events: Sequence[e.Event],
        *,
        after: int,
        summary: Summary,
        lease: Lease | None = None,
    ) -> asyncio.Future[tuple[Entry, ...]]:
        answer: asyncio.Future[tuple[Entry, ...]] = asyncio.get_running_loop().create_future()
        try:
            answer.set_result(self._append(saga, events, after, summary, lease))
        except AmendsError as exc:
            answer.set_exception(exc)
        return answer

    def _append(
        self, saga: SagaId, events: Sequence[e.Event], after: int, summary: Summary, lease: Lease | None
    ) -> tuple[Entry, ...]:
        self._require_open()
        refusals.check_lease(saga, lease)
        wires = [encode(event) for event in events]
        at = self._clock.now()
        with self.memory.lock:
            record = self.memory.sagas.get(saga)
            if record is None:
                record = self._new_record(saga, events, after, summary, lease, at)
            elif lease is not None and lease.epoch != record.epoch:
                raise refusals.lease_lost(lease, record.epoch, record.worker)
            if after != len(record.entries):
                raise refusals.conflict(saga, after, len(record.entries))
            if not events:
                return ()
            self.memory.sagas[saga] = record
            entries = tuple(_added(record, event, wire, at) for event, wire in zip(events, wires, strict=True))
            record.summary, record.updated_at, record.nudged = summary, at, lease is None
            if not summary.is_due:
                record.worker = ""
            for change in changes(events):
                self._apply(record, change, at)
        return entries

    def _new_record(
        self,
        saga: SagaId,
        events: Sequence[e.Event],
        after: int,
        summary: Summary,
        lease: Lease | None,
        at: int,
    ) -> Record:
        return Record(
            id=saga,
            place=len(self.memory.sagas) + 1,
            begun=refusals.begun(saga, events, after, lease),
            started_at=at,
            updated_at=at,
            summary=summary,
            worker="" if lease is None else lease.worker,
            epoch=0 if lease is None else lease.epoch,
        )

    def _apply(self, record: Record, change: Change, at: int) -> None:
        memory = self.memory
        match change:
            case TopicSeen(topic=topic):
                record.topics.add(topic)
            case e.IncidentOpened():
                memory.line += 1
                opened = _opened(record, change, at)
                memory.incidents[opened.id] = (memory.line, opened)
            case IncidentClosed(incident=number, status=status):
                place, incident = memory.incidents.get(f"{record.id}/{number}", (0, None))
                if incident is not None:
                    memory.incidents[incident.id] = (place, replace(incident, status=status, closed_at=at))
            case e.IncidentAssigned(incident=number, owner=owner):
                place, incident = memory.incidents.get(f"{record.id}/{number}", (0, None))
                if incident is not None:
                    memory.incidents[incident.id] = (place, replace(incident, owner=owner))
            case e.ApprovalRequested():
                memory.line += 1
                requested = _requested(record, change, at)
                memory.approvals[requested.id] = (memory.line, requested)
            case ApprovalChanged(step=step, status=status):
                place, approval = memory.approvals.get(f"{record.id}/{step}", (0, None))
                if approval is not None:
                    memory.approvals[approval.id] = (place, replace(approval, status=status))
            case _:
                assert_never(change)

    async def read(self, saga: SagaId, *, after: int = 0) -> AsyncIterator[Entry]:
        self._require_open()
        record = self.memory.sagas.get(saga)
        number = after
        while record is not None and number < len(record.entries):
            stored = record.entries[number]
            previous = record.entries[number - 1].hash if number else FIRST
            number += 1
            yield _verified(saga, number, stored, previous)
            self._require_open()

    # -- leases -------------------------------------------------------------------------------------------------------

    async def enlist(self, worker: str, ttl_s: float) -> None:
        self.renew(worker, ttl_s)

    def renew(self, worker: str, ttl_s: float) -> None:
        self._require_open()
        with self.memory.lock:
            self.memory.workers[worker] = self._clock.elapsed() + ttl_s

    def nudged(self, worker: str) -> tuple[SagaId, ...]:
        self._require_open()
        with self.memory.lock:
            held = [one for one in self.memory.sagas.values() if one.worker == worker]
            return tuple(one.id for one in held if one.nudged or _has_slept(one, self._clock.now()))

    async def retire(self, worker: str) -> None:
        self._require_open()
        with self.memory.lock:
            self.memory.workers.pop(worker, None)

    async def claim(
        self,
        worker: str,
        *,
        definitions: Collection[str] | None = None,
        saga: SagaId | None = None,
        due_by: int | None = None,
        limit: int = 500,
    ) -> tuple[Lease, ...]:
        self._require_open()
        elapsed = self._clock.elapsed()
        leases: list[Lease] = []
        with self.memory.lock:
            for record in self.memory.sagas.values():
                wake_at = record.summary.wake_at
                wanted = (
                    (saga is None or record.id == saga)
                    and (definitions is None or f"{record.begun.definition}/{record.begun.version}" in definitions)
                    and (due_by is None or wake_at is None or wake_at <= due_by)
                )
                is_free = self.memory.workers.get(record.worker, elapsed) <= elapsed
                is_own = saga is not None and record.worker == worker
                if len(leases) < limit and wanted and (is_free or is_own) and record.summary.status in _CLAIMABLE:
                    record.worker, record.epoch, record.nudged = worker, record.epoch + 1, False
                    leases.append(Lease(saga=record.id, worker=worker, epoch=record.epoch))
        return tuple(leases)

    # -- lists --------------------------------------------------------------------------------------------------------

    async def saga(self, saga: SagaId) -> SagaRow | None:
        self._require_open()
        record = self.memory.sagas.get(saga)
        return None if record is None else self._row(record)

    async def sagas(self, query: SagaQuery) -> SagaPage:
        self._require_open()
        before = None if query.before is None else cursors.read(query.before, 2)
        found = [
            record
            for record in self.memory.sagas.values()
            if _matches(record, query) and (before is None or _age(record) < before)
        ]
        found.sort(key=_age, reverse=True)
        page = found[: query.limit]
        cursor = cursors.spell(*_age(page[-1])) if len(found) > len(page) else None
        return SagaPage(rows=tuple(map(self._row, page)), cursor=cursor)

    async def incidents(self, query: PersonQuery) -> IncidentPage:
        self._require_open()
        rows, cursor = _page(self.memory.incidents, query, lambda row: row.status == IncidentStatus.OPEN)
        return IncidentPage(rows=rows, cursor=cursor)

    async def approvals(self, query: PersonQuery) -> ApprovalPage:
        self._require_open()
        rows, cursor = _page(self.memory.approvals, query, lambda row: row.status == ApprovalStatus.REQUESTED)
        return ApprovalPage(rows=rows, cursor=cursor)

    async def close(self) -> None:
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise refusals.closed()

    def _row(self, record: Record) -> SagaRow:
        incidents, approvals = self.memory.incidents.values(), self.memory.approvals.values()
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
        )


def _added(record: Record, event: e.Event, wire: Wire, at: int) -> Entry:
    previous = record.entries[-1].hash if record.entries else FIRST
    number = len(record.entries) + 1
    hashed = chain(previous, record.id, number, at, wire.name, wire.body)
    record.entries.append(Stored(at, wire, hashed))
    return Entry(saga=record.id, number=number, at=at, name=wire.name, body=wire.body, hash=hashed, event=event)


def _verified(saga: SagaId, number: int, stored: Stored, previous: bytes) -> Entry:
    at, wire, hashed = stored.at, stored.wire, stored.hash
    if chain(previous, saga, number, at, wire.name, wire.body) != hashed:
        raise JournalDamagedError(f"saga {saga}, entry {number}: it does not match its hash")
    event = decode(wire.name, wire.body, wire.blobs)
    return Entry(saga=saga, number=number, at=at, name=wire.name, body=wire.body, hash=hashed, event=event)


def _age(record: Record) -> tuple[int, int]:
    return (record.started_at, record.place)


def _matches(record: Record, query: SagaQuery) -> bool:
    return (
        (query.statuses is None or record.summary.status in query.statuses)
        and (query.definition is None or record.begun.definition == query.definition)
        and (query.topic is None or query.topic in record.topics)
        and (query.env is None or record.begun.env == query.env)
        and (query.started_from is None or record.started_at >= query.started_from)
        and (query.started_until is None or record.started_at < query.started_until)
    )


def _page(
    rows: Mapping[str, tuple[int, _Row]], query: PersonQuery, is_open: Callable[[_Row], bool]
) -> tuple[tuple[_Row, ...], str | None]:
    after = 0 if query.after is None else cursors.read(query.after, 1)[0]
    found = [
        (place, row)
        for place, row in sorted(rows.values(), key=lambda one: one[0])
        if place > after and (query.saga is None or row.saga == query.saga) and (not query.open_only or is_open(row))
    ]
    page = found[: query.limit]
    cursor = cursors.spell(page[-1][0]) if len(found) > len(page) else None
    return tuple(row for _, row in page), cursor


def _has_slept(record: Record, now: int) -> bool:
    summary = record.summary
    return summary.status is SagaStatus.WAITING and summary.wake_at is not None and summary.wake_at <= now


def _opened(record: Record, event: e.IncidentOpened, at: int) -> IncidentRow:
    return IncidentRow(
        id=f"{record.id}/{event.incident}",
        saga=record.id,
        number=event.incident,
        definition=record.begun.definition,
        kind=event.kind,
        step=event.step,
        why=event.why,
        left=event.left,
        owner="",
        status=IncidentStatus.OPEN,
        opened_at=at,
        closed_at=None,
    )


def _requested(record: Record, event: e.ApprovalRequested, at: int) -> ApprovalRow:
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
