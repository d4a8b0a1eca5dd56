"""One handle on a journal in memory: appending, reading, leases, lists.

Entries are encoded, chained and decoded as in any other store, so what cannot be stored fails here too. Several handles
on one `Memory` behave like several processes on one file. Nothing here waits, so a seeded simulation repeats itself;
where a simulation wants the write lock to be slow, it says how a handle waits for it (`wait`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, assert_never

from amends.core import events as e
from amends.core.transitions import ApprovalStatus, IncidentStatus, SagaStatus
from amends.core.words.values import OPEN, SagaId
from amends.errors import AmendsError
from amends.journal.codec import encode
from amends.journal.memory import documents, lists, locks
from amends.journal.memory.attest import MemoryLog
from amends.journal.memory.state import KeptSaga
from amends.journal.port import lists as cursors, refusals
from amends.journal.port.documents import Document, DocumentPage, DocumentWrite
from amends.journal.port.entries import Entry, Summary
from amends.journal.port.leases import (
    NOBODY_KNOWN,
    Lease,
    LeaseHolder,
    Reading,
    Waking,
    WorkerLife,
    WorkerRow,
    began_at,
    reading,
)
from amends.journal.port.lists import ApprovalPage, IncidentPage, PersonQuery, SagaPage, SagaQuery, SagaRow
from amends.journal.port.locks import LockAnswer, LockAsk, LockPage, LockQuery
from amends.journal.projection import ApprovalChanged, Change, IncidentClosed, TopicSeen, changes

_CLAIMABLE: Final = frozenset({SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.ROLLING_BACK})


class MemoryJournal(MemoryLog):
    """One handle on a Memory; on a new one where none is given. Without a notary nothing is signed."""

    def append(
        self,
        saga: SagaId,
        events: Sequence[e.Event],
        *,
        after: int,
        summary: Summary,
        lease: Lease | None = None,
    ) -> asyncio.Future[tuple[Entry, ...]]:
        if self._wait is not None:
            return asyncio.ensure_future(self._append_in_turn(saga, events, after, summary, lease))
        answer: asyncio.Future[tuple[Entry, ...]] = asyncio.get_running_loop().create_future()
        try:
            answer.set_result(self._append(saga, events, after, summary, lease))
        except AmendsError as exc:
            answer.set_exception(exc)
        return answer

    async def _append_in_turn(
        self, saga: SagaId, events: Sequence[e.Event], after: int, summary: Summary, lease: Lease | None
    ) -> tuple[Entry, ...]:
        await self._have_lock()
        return self._append(saga, events, after, summary, lease)

    async def _have_lock(self) -> None:
        """Wait as long as another program keeps the write lock; then what follows at once is one transaction."""
        if self._wait is not None:
            await self._wait()

    def _append(
        self, saga: SagaId, events: Sequence[e.Event], after: int, summary: Summary, lease: Lease | None
    ) -> tuple[Entry, ...]:
        self._require_open()
        if lease is not None and lease.saga != saga:
            raise refusals.wrong_lease(saga, lease)
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
                if summary.wake_at is not None and lease is not None and not record.nudged:
                    record.summary = record.summary._replace(wake_at=summary.wake_at)
                return ()
            self.memory.sagas[saga] = record
            both = zip(events, wires, strict=True)
            entries = tuple(self.memory.add(record, event, wire, at) for event, wire in both)
            record.summary = summary._replace(wakes=None)
            record.updated_at, record.nudged, record.removed = at, lease is None, False
            if not summary.is_due:
                record.worker = ""
            woken = None if summary.wakes is None else self.memory.sagas.get(summary.wakes)
            if woken is not None and woken.summary.status is SagaStatus.WAITING:
                woken.nudged, woken.summary = True, woken.summary._replace(wake_at=None)
            if summary.status.ended:
                locks.release(self.memory, saga)
            elif not summary.status.goes_forward:
                locks.give_up_waiting(self.memory, saga)
            for change in changes(events):
                self._apply(record, change, at)
            self._sign(is_end=summary.status.ended or summary.status is SagaStatus.INCIDENT)
        return entries

    def _new_record(
        self,
        saga: SagaId,
        events: Sequence[e.Event],
        after: int,
        summary: Summary,
        lease: Lease | None,
        at: int,
    ) -> KeptSaga:
        return KeptSaga(
            id=saga,
            place=len(self.memory.sagas) + 1,
            begun=refusals.begun(saga, events, after, lease),
            started_at=at,
            updated_at=at,
            summary=summary,
            worker="" if lease is None else lease.worker,
            epoch=0 if lease is None else lease.epoch,
        )

    def _apply(self, record: KeptSaga, change: Change, at: int) -> None:
        memory = self.memory
        match change:
            case TopicSeen(topic=topic):
                record.topics.add(topic)
            case e.IncidentOpened():
                memory.line += 1
                opened = lists.opened(record, change, at)
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
                requested = lists.requested(record, change, at)
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
            number += 1
            yield self.memory.verified(saga, number)
            self._require_open()

    # -- leases -------------------------------------------------------------------------------------------------------

    async def enlist(self, worker: str, ttl_s: float) -> None:
        elapsed = reading(self._clock)
        await self._have_lock()
        self._renew(worker, ttl_s, elapsed)

    def renew(self, worker: str, ttl_s: float) -> None:
        self._renew(worker, ttl_s, reading(self._clock))

    def _renew(self, worker: str, ttl_s: float, elapsed: Reading) -> None:
        self._require_open()
        with self.memory.lock:
            self.memory.workers[worker] = WorkerLife(NOBODY_KNOWN, elapsed() + ttl_s, ttl_s)

    def nudged(self, worker: str) -> tuple[SagaId, ...]:
        self._require_open()
        with self.memory.lock:
            held = [one for one in self.memory.sagas.values() if one.worker == worker]
            return tuple(one.id for one in held if one.nudged or _has_slept(one, self._clock.now()))

    def watch(self, told: Callable[[], object]) -> bool:
        self._require_open()
        return False

    async def workers(self) -> tuple[WorkerRow, ...]:
        self._require_open()
        with self.memory.lock:
            told, seen = self._clock.now(), reading(self._clock)()
            held = Counter(one.worker for one in self.memory.sagas.values() if one.summary.status in _CLAIMABLE)
            return tuple(
                WorkerRow(
                    name=name,
                    host="",
                    pid=0,
                    since_at=began_at(name),
                    until_at=told + round((life.until - seen) * 1000),
                    is_gone=life.is_over(NOBODY_KNOWN, seen),
                    sagas=held[name],
                )
                for name, life in sorted(self.memory.workers.items())
            )

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
        elapsed = reading(self._clock)
        await self._have_lock()
        with self.memory.lock:
            free = [
                record
                for record in self.memory.sagas.values()
                if (saga is None or record.id == saga)
                and record.summary.status in _CLAIMABLE
                and (definitions is None or _is_among(record, definitions))
                and (due_by is None or record.summary.wake_at is None or record.summary.wake_at <= due_by)
                and self._is_free(record, worker, elapsed, is_named=saga is not None)
            ]
            return tuple(self._take(record, worker) for record in free[:limit])

    def _is_free(self, record: KeptSaga, worker: str, elapsed: Reading, *, is_named: bool) -> bool:
        """Whether a worker may claim it. The worker is there, whatever its row says: its own it gets again only by
        name.
        """
        if record.worker == worker:
            return is_named
        return self._living(record, elapsed) is None

    def _take(self, record: KeptSaga, worker: str) -> Lease:
        record.worker, record.epoch, record.nudged = worker, record.epoch + 1, False
        return Lease(saga=record.id, worker=worker, epoch=record.epoch)

    def _living(self, record: KeptSaga, elapsed: Reading) -> str | None:
        """The worker that holds a saga, if it is alive."""
        life = self.memory.workers.get(record.worker)
        return None if life is None or life.is_over(NOBODY_KNOWN, elapsed()) else record.worker

    async def release(self, lease: Lease) -> None:
        self._require_open()
        await self._have_lock()
        with self.memory.lock:
            record = self.memory.sagas.get(lease.saga)
            if record is not None and (record.worker, record.epoch) == (lease.worker, lease.epoch):
                record.worker = ""

    async def holder(self, saga: SagaId) -> str | None:
        self._require_open()
        with self.memory.lock:
            record = self.memory.sagas.get(saga)
            return None if record is None else self._living(record, reading(self._clock))

    async def waking(
        self, *, saga: SagaId | None = None, due_by: int | None = None, after: SagaId | None = None, limit: int = 500
    ) -> tuple[Waking, ...]:
        self._require_open()
        with self.memory.lock:
            elapsed, kept = reading(self._clock), list(self.memory.sagas.values())
            begun = next((place + 1 for place, record in enumerate(kept) if record.id == after), 0)
            return tuple(
                Waking(record.id, record.summary.wake_at, self._living(record, elapsed) or "")
                for record in kept[begun:]
                if record.summary.status in _CLAIMABLE
                and (saga is None or record.id == saga)
                and (due_by is None or record.summary.wake_at is None or record.summary.wake_at <= due_by)
            )[:limit]

    async def drivers(self, sagas: Collection[SagaId]) -> dict[SagaId, LeaseHolder]:
        self._require_open()
        found: dict[SagaId, LeaseHolder] = {}
        with self.memory.lock:
            told, seen = self._clock.now(), reading(self._clock)()
            for saga in sagas:
                record = self.memory.sagas.get(saga)
                if record is None or not record.worker:
                    continue
                life = self.memory.workers.get(record.worker)
                if life is None or life.is_over(NOBODY_KNOWN, seen):
                    found[saga] = LeaseHolder(record.worker)
                else:
                    found[saga] = LeaseHolder(record.worker, told + round((life.until - seen) * 1000), is_gone=False)
        return found

    # -- locks --------------------------------------------------------------------------------------------------------

    async def lock(self, ask: LockAsk, lease: Lease) -> LockAnswer:
        self._require_open()
        await self._have_lock()
        with self.memory.lock:
            return locks.lock(self.memory, ask, lease, self._clock.now())

    async def locks(self, query: LockQuery) -> LockPage:
        self._require_open()
        return locks.locks(self.memory, query)

    async def awake(self, worker: str) -> tuple[SagaId, ...]:
        return self.nudged(worker)

    # -- documents ----------------------------------------------------------------------------------------------------

    async def write(self, write: DocumentWrite) -> Document:
        self._require_open()
        await self._have_lock()
        with self.memory.lock:
            return documents.write(self.memory, write, self._clock.now())

    async def written(self, key: str) -> Document | None:
        self._require_open()
        return documents.written(self.memory, key)

    async def document(self, name: str, *, reader: SagaId | None = None, version: int | None = None) -> Document | None:
        self._require_open()
        return documents.document(self.memory, name, reader, version)

    async def documents(self, prefix: str, *, after: str | None = None, limit: int = 100) -> DocumentPage:
        self._require_open()
        return documents.documents(self.memory, prefix, after, limit)

    async def versions(self, name: str, *, after: str | None = None, limit: int = 100) -> DocumentPage:
        self._require_open()
        return documents.versions(self.memory, name, after, limit)

    # -- lists --------------------------------------------------------------------------------------------------------

    async def saga(self, saga: SagaId) -> SagaRow | None:
        self._require_open()
        record = self.memory.sagas.get(saga)
        return None if record is None else lists.row(self.memory, record)

    async def sagas(self, query: SagaQuery) -> SagaPage:
        self._require_open()
        found = [record for record in self.memory.sagas.values() if lists.matches(record, query)]
        cursor = None
        if query.starts_with:
            before = None if query.before is None else cursors.read_id(query.before, query.starts_with)
            found = [record for record in found if before is None or record.id < before]
            found.sort(key=lambda record: record.id, reverse=True)
        else:
            since = None if query.before is None else cursors.read(query.before, 2)
            found = [record for record in found if since is None or lists.age(record) < since]
            found.sort(key=lists.age, reverse=True)
        page = found[: query.limit]
        if len(found) > len(page):
            cursor = page[-1].id if query.starts_with else cursors.spell(*lists.age(page[-1]))
        return SagaPage(rows=tuple(lists.row(self.memory, record) for record in page), cursor=cursor)

    async def note_keys(self) -> bool:
        self._require_open()
        return True

    async def incidents(self, query: PersonQuery) -> IncidentPage:
        self._require_open()
        rows, cursor = lists.page(self.memory.incidents, query, lambda row: row.status == IncidentStatus.OPEN)
        return IncidentPage(rows=rows, cursor=cursor)

    async def approvals(self, query: PersonQuery) -> ApprovalPage:
        self._require_open()
        rows, cursor = lists.page(self.memory.approvals, query, lambda row: row.status == ApprovalStatus.REQUESTED)
        return ApprovalPage(rows=rows, cursor=cursor)


def _is_among(record: KeptSaga, definitions: Collection[str]) -> bool:
    version = record.begun.version
    return f"{record.begun.definition}/{version}" in definitions or (version == 0 and OPEN in definitions)


def _has_slept(record: KeptSaga, now: int) -> bool:
    summary = record.summary
    return summary.status is SagaStatus.WAITING and summary.wake_at is not None and summary.wake_at <= now
