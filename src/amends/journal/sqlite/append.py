"""One append, as SQL: the fence, the entries, and the lists, in the writer's transaction.

The usual append changes neither status nor wake time and comes from the holder of the lease: one UPDATE is then the
fence and the projection at once, and touches no index. Anything else looks first, inside the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, assert_never

from amends.core import events as e
from amends.core.transitions import ApprovalStatus, IncidentStatus, SagaStatus
from amends.core.words.parts import named_by
from amends.core.words.values import SagaId, canonical
from amends.dataclass import dataclass
from amends.errors import AmendsError, JournalConflictError
from amends.journal import projection
from amends.journal.port import refusals
from amends.journal.port.entries import Appending, Entry, Summary
from amends.journal.port.leases import Lease
from amends.journal.projection import ApprovalChanged, Change, IncidentClosed, TopicSeen
from amends.journal.sqlite import locks
from amends.journal.sqlite.database import Database, one_line
from amends.journal.sqlite.log import keep_clocks
from amends.journal.sqlite.writer import Batch

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_RUNNING: Final = SagaStatus.RUNNING

# Those that run for every saga, or for every append.
_FENCE: Final = one_line("""
    UPDATE saga SET head = ?, hash = ?, updated_at = ? WHERE id = ? AND head = ? AND epoch = ? AND nudged = 0
""")
_CHANGE: Final = one_line("""
    UPDATE saga SET head = ?, hash = ?, updated_at = ?, status = ?, wake_at = ?, ended_at = ?, nudged = ?,
                    removed = 0, worker = iif(?, worker, '')
     WHERE id = ? AND head = ? AND epoch = ifnull(?, epoch)
""")
_BEGIN: Final = one_line("""
    INSERT INTO saga (name, head, hash, epoch, worker, nudged, status, wake_at, definition, version, env, actor,
                      labels, started_at, updated_at, ended_at, open_incidents, open_approvals)
    VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0) ON CONFLICT (name) DO NOTHING
""")
_NOTE_TOPIC: Final = one_line("""
    INSERT INTO saga_topic (topic, started_at, saga)
    SELECT ?, started_at, id FROM saga WHERE id = ? ON CONFLICT DO NOTHING
""")


@dataclass(slots=True, eq=False, kw_only=True)
class Append:
    """A question to the writer, with all that it needs to answer. `place` is the saga's row, or its start."""

    saga: SagaId
    place: int | e.SagaStarted
    after: int
    entries: tuple[Entry, ...]
    blobs: Mapping[str, str]
    changes: tuple[Change, ...]
    summary: Summary
    same_summary: bool
    lease: Lease | None
    at: int
    head: int
    hash: bytes
    elapsed: float | None
    """The time by the clock that no one sets, where both clocks are to be noted first."""
    written: Callable[[Append], object]
    """Told once it is, before `reply` is."""
    reply: Appending
    row: int = 0
    """The saga's row, once it is written."""
    loop: AbstractEventLoop | None = None
    trouble: Exception | None = None

    def answer(self, batch: Batch, /) -> None:
        try:
            if self.elapsed is not None:
                keep_clocks(batch, self.at, self.elapsed)
            self.row = write(batch, self)
        except AmendsError as exc:
            self.trouble = exc

    def settle(self) -> Callable[[], object] | None:
        if self.trouble is not None:
            return self.reply.set_exception(self.trouble)
        self.written(self)
        return self.reply.set_result(self.entries)


def check(batch: Batch, saga: SagaId, after: int, lease: Lease | None, wake_at: int | None = None) -> None:
    """Refuse what `write` would refuse, and write no more than when it wakes: one that only asks costs no fsync."""
    epoch = None if lease is None else lease.epoch
    sql = "SELECT 1 FROM saga WHERE name = ? AND head = ? AND epoch = ifnull(?, epoch)"
    if batch.database.first(sql, (saga, after, epoch)) is None:
        raise refusal(batch.database, saga, after, lease)
    if wake_at is not None:
        batch.database.run("UPDATE saga SET wake_at = iif(nudged, NULL, ?) WHERE name = ?", (wake_at, saga))


def write(batch: Batch, append: Append) -> int:
    """Do all of it, or raise JournalConflictError or LeaseLostError and nothing. Returns the saga's row."""
    database = batch.database
    if isinstance(append.place, e.SagaStarted):
        row = _begin(database, append, append.place)
    else:
        row = append.place
        if not _extend_quickly(database, row, append):
            _extend(database, row, append)
    if append.blobs:
        _keep(database, row, append.blobs)
    batch.entries += [(row, *entry[1:6]) for entry in append.entries]
    if append.changes:
        _project(database, row, append)
    status, _, wakes = append.summary
    if status is _RUNNING and wakes is None:  # as it mostly is: nothing is released
        return row
    if status.ended or status is SagaStatus.INCIDENT:
        batch.is_end = True
    if wakes is not None:
        wake = "UPDATE saga SET nudged = 1, wake_at = NULL WHERE name = ? AND status = 'waiting'"
        database.run(wake, (wakes,))
    if status.ended:
        locks.release(database, row)
    elif not append.same_summary and not status.goes_forward:
        locks.give_up_waiting(database, row)
    return row


def _keep(database: Database, row: int, blobs: Mapping[str, str]) -> None:
    """Store the parts that the saga does not have yet. Where it has one, it has all that are below it."""
    below: set[str] = set()
    for digest, text in blobs.items():
        if digest not in below:
            database.run("INSERT INTO blob (digest, data) VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, text))
            if database.run(_USE, (row, digest)):
                continue
        below.update(named_by(text))


def _begin(database: Database, append: Append, begun: e.SagaStarted) -> int:
    lease = append.lease
    added = database.run(
        _BEGIN,
        (
            append.saga,
            append.head,
            append.hash,
            0 if lease is None else lease.epoch,
            "" if lease is None else lease.worker,
            append.summary.status.value,
            append.summary.wake_at,
            begun.definition,
            begun.version,
            begun.env,
            begun.actor,
            canonical(begun.labels),
            append.at,
            append.at,
            append.at if append.summary.status.ended else None,
        ),
    )
    if not added:
        raise refusal(database, append.saga, append.after, append.lease)
    row = database.last_row
    if begun.labels:
        labels = [(name, value, append.at, row) for name, value in begun.labels.items()]
        database.run_many("INSERT INTO saga_label (name, value, started_at, saga) VALUES (?, ?, ?, ?)", labels)
    return row


def _extend_quickly(database: Database, row: int, append: Append) -> bool:
    if append.lease is None or not append.same_summary:
        return False
    return bool(database.run(_FENCE, (append.head, append.hash, append.at, row, append.after, append.lease.epoch)))


def _extend(database: Database, row: int, append: Append) -> None:
    lease, status = append.lease, append.summary.status
    changed = database.run(
        _CHANGE,
        (
            append.head,
            append.hash,
            append.at,
            status.value,
            append.summary.wake_at,
            append.at if status.ended else None,
            int(lease is None),
            append.summary.is_due,
            row,
            append.after,
            None if lease is None else lease.epoch,
        ),
    )
    if not changed:
        raise refusal(database, append.saga, append.after, append.lease)


def refusal(database: Database, saga: SagaId, after: int, lease: Lease | None) -> JournalConflictError:
    """Why an append was refused: an ended lease is the better answer, where both are true."""
    found = database.first("SELECT head, epoch, worker FROM saga WHERE name = ?", (saga,))
    head, epoch, worker = found or (0, 0, "")
    if lease is not None and lease.epoch != epoch:
        return refusals.lease_lost(lease, epoch, worker)
    return refusals.conflict(saga, after, head)


def _project(database: Database, row: int, append: Append) -> None:
    for change in append.changes:
        match change:
            case TopicSeen(topic=topic):
                database.run(_NOTE_TOPIC, (topic, row))
            case e.IncidentOpened():
                _open_incident(database, row, change, append.at)
            case IncidentClosed(incident=number, status=status):
                database.run(
                    "UPDATE incident SET status = ?, closed_at = ? WHERE saga = ? AND number = ?",
                    (status.value, append.at, row, number),
                )
            case e.IncidentAssigned(incident=number, owner=owner):
                database.run("UPDATE incident SET owner = ? WHERE saga = ? AND number = ?", (owner, row, number))
            case e.ApprovalRequested():
                _request_approval(database, row, change, append.at)
            case ApprovalChanged(step=step, status=status):
                database.run("UPDATE approval SET status = ? WHERE saga = ? AND step = ?", (status.value, row, step))
            case _:
                assert_never(change)
    if not all(isinstance(change, TopicSeen) for change in append.changes):
        _count(database, row)


def _open_incident(database: Database, row: int, opened: e.IncidentOpened, at: int) -> None:
    database.run(
        """
        INSERT OR REPLACE INTO incident (saga, number, kind, step, why, remaining, owner, status, opened_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            row,
            opened.incident,
            opened.kind.value,
            opened.step,
            opened.why,
            canonical(list(opened.left)),
            opened.owner,
            IncidentStatus.OPEN.value,
            at,
        ),
    )


def _request_approval(database: Database, row: int, asked: e.ApprovalRequested, at: int) -> None:
    """Asked again, a step goes to the end of the line."""
    database.run(
        """
        INSERT OR REPLACE INTO approval (saga, step, topic, rule, status, requested_at, expires_at)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        """,
        (row, asked.step, projection.topic_of(asked), asked.rule, ApprovalStatus.REQUESTED.value, at, asked.expires_at),
    )


_USE: Final = """
    INSERT INTO blob_use (saga, blob) SELECT ?, id FROM blob WHERE digest = ? ON CONFLICT DO NOTHING
"""


def _count(database: Database, row: int) -> None:
    database.run(
        """
        UPDATE saga
           SET open_incidents = (SELECT count(*) FROM incident WHERE saga = ?1 AND status = 'open'),
               open_approvals = (SELECT count(*) FROM approval WHERE saga = ?1 AND status = 'requested')
         WHERE id = ?1
        """,
        (row,),
    )
