"""Appends of many sagas as a few statements: the fence, the entries, and the lists, in the writer's transaction.

The fence is a condition on each saga's own row, and changing that row locks it: of two transactions that append to one
saga the second waits for the first, finds another newest entry, and is refused. Appends to different sagas meet
nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, assert_never

from amends.core import events as e
from amends.core.transitions import ApprovalStatus, IncidentStatus, SagaStatus
from amends.core.words.parts import named_by
from amends.core.words.values import SagaId, canonical
from amends.errors import AmendsError, InputError, JournalConflictError
from amends.journal import projection
from amends.journal.port import refusals
from amends.journal.port.entries import PARENT, ROOT, Entry, Summary
from amends.journal.port.leases import Lease
from amends.journal.postgres import locks
from amends.journal.postgres.database import PostgresDatabase, Value, hexes, integers, plain, texts, truths
from amends.journal.postgres.writer import COUNT, PostgresBatch, Several
from amends.journal.projection import ApprovalChanged, Change, IncidentClosed, TopicSeen

BLOBS: Final = 0x616D6E62
"""The advisory lock of who removes parts; whoever adds some shares it."""


class PostgresAppend(NamedTuple):
    """Everything that the writer needs, worked out before it is asked. `place` is the saga's row, or its start."""

    saga: SagaId
    place: int | e.SagaStarted
    after: int
    entries: tuple[Entry, ...]
    blobs: Mapping[str, str]
    changes: tuple[Change, ...]
    summary: Summary
    lease: Lease | None
    at: int
    head: int
    hash: bytes


class Appended(Several):
    """An append, as a question to the writer: its answer is the saga's row."""

    __slots__ = ("append", "is_plain", "saga")

    def __init__(self, append: PostgresAppend) -> None:
        self.append = append
        self.saga = append.saga
        summary = append.summary
        is_middle = isinstance(append.place, int) and summary.status is SagaStatus.RUNNING and summary.wakes is None
        self.is_plain = is_middle and append.lease is not None and not append.changes and not append.blobs

    def answer(self, batch: PostgresBatch, all_of_them: Sequence[Appended]) -> Sequence[int | AmendsError]:
        return write(batch, [one.append for one in all_of_them])

    def begin(
        self, batch: PostgresBatch, handle: str, count: int, all_of_them: Sequence[Appended]
    ) -> Callable[[], Collection[int]]:
        appends = sorted((one.append for one in all_of_them), key=_place)
        for one in appends:
            row = _place(one)
            batch.entries.extend([(row, each.number, each.at, each.name, each.body, each.hash) for each in one.entries])
        values = (handle, count, *_extending(appends), *batch.columns(), batch.now())
        answered = batch.database.begin(_EXTEND_AT_ONCE, values)

        def changed() -> Collection[int]:
            batch.entries = []
            found = {int(row) for (row,) in answered()}
            batch.has_entries = bool(found)
            return found

        return changed

    @property
    def place(self) -> int:
        return _place(self.append)

    def is_written(self, database: PostgresDatabase) -> bool:
        newest = self.append.entries[-1]
        return database.first(_WRITTEN, (self.place, newest.number, newest.hash)) is not None

    def refusal(self, database: PostgresDatabase) -> AmendsError:
        return _refused(database, self.append)


def checked(begun: e.SagaStarted) -> e.SagaStarted:
    """Raises InputError for a start with a NUL where lists have it as text."""
    told = (begun.definition, begun.env, begun.actor, *begun.labels, *begun.labels.values())
    if any("\0" in text for text in told):
        raise InputError("a saga's definition, environment, actor and labels cannot have a NUL character in them")
    return begun


def check(batch: PostgresBatch, saga: SagaId, after: int, lease: Lease | None, wake_at: int | None = None) -> None:
    """Refuse what `write` would refuse, and write no more than when it wakes."""
    epoch = None if lease is None else lease.epoch
    if wake_at is None:
        found = batch.database.first(_CHECK, (saga, after, epoch))
    else:
        found = batch.database.first(_SLEEP, (wake_at, saga, after, epoch))
    if found is None:
        raise refusal(batch.database, saga, after, lease)


def write(batch: PostgresBatch, appends: Sequence[PostgresAppend]) -> list[int | AmendsError]:
    """Each does all of it, or is refused and does nothing. All of them are of different sagas."""
    rows = _begin(batch.database, [one for one in appends if isinstance(one.place, e.SagaStarted)])
    rows |= _extend(batch.database, [one for one in appends if not isinstance(one.place, e.SagaStarted)])
    done = [one for one in appends if one.saga in rows]
    for one in done:
        row = rows[one.saga]
        batch.entries.extend([(row, each.number, each.at, each.name, each.body, each.hash) for each in one.entries])
    _keep(batch.database, [(rows[one.saga], one.blobs) for one in done if one.blobs])
    _project(batch, rows, done)
    _wake(batch, done)
    _leave_lines(batch, rows, done)
    return [rows[one.saga] if one.saga in rows else _refused(batch.database, one) for one in appends]


def _refused(database: PostgresDatabase, append: PostgresAppend) -> AmendsError:
    return refusal(database, append.saga, append.after, append.lease)


def refusal(database: PostgresDatabase, saga: SagaId, after: int, lease: Lease | None) -> JournalConflictError:
    """Why an append was refused: an ended lease is the better answer, where both are true."""
    found = database.first("SELECT head, epoch, worker FROM saga WHERE name = %s", (saga,))
    head, epoch, worker = found or (0, 0, "")
    if lease is not None and lease.epoch != epoch:
        return refusals.lease_lost(lease, epoch, worker)
    return refusals.conflict(saga, after, head)


def _begin(database: PostgresDatabase, appends: Sequence[PostgresAppend]) -> dict[SagaId, int]:
    if not appends:
        return {}
    starts = [(one, one.place) for one in appends if isinstance(one.place, e.SagaStarted)]
    values = (
        texts([one.saga for one, _ in starts]),
        integers([one.head for one, _ in starts]),
        hexes([one.hash for one, _ in starts]),
        integers([0 if one.lease is None else one.lease.epoch for one, _ in starts]),
        texts(["" if one.lease is None or not one.summary.is_due else one.lease.worker for one, _ in starts]),
        texts([one.summary.status.value for one, _ in starts]),
        integers([one.summary.wake_at for one, _ in starts]),
        texts([begun.definition for _, begun in starts]),
        integers([begun.version for _, begun in starts]),
        texts([begun.env for _, begun in starts]),
        texts([begun.actor for _, begun in starts]),
        texts([canonical(begun.labels) for _, begun in starts]),
        texts([begun.labels.get(PARENT, "") for _, begun in starts]),
        texts([begun.labels.get(ROOT, "") for _, begun in starts]),
        integers([one.at for one, _ in starts]),
        integers([one.at if one.summary.status.ended else None for one, _ in starts]),
    )
    rows = {SagaId(name): int(row) for row, name in database.rows(_BEGIN, values)}
    labels = [
        (name, value, one.at, rows[one.saga])
        for one, begun in starts
        if one.saga in rows
        for name, value in begun.labels.items()
    ]
    if labels:
        database.run_many("INSERT INTO saga_label (name, value, started_at, saga) VALUES (%s, %s, %s, %s)", labels)
    return rows


def _extend(database: PostgresDatabase, appends: Sequence[PostgresAppend]) -> dict[SagaId, int]:
    if not appends:
        return {}
    ordered = sorted(appends, key=_place)  # so that two who want the same rows want them in the same order
    changed = {int(row) for (row,) in database.rows(_EXTEND, _extending(ordered))}
    return {one.saga: _place(one) for one in ordered if _place(one) in changed}


def _extending(ordered: Sequence[PostgresAppend]) -> tuple[Value, ...]:
    return (
        integers(map(_place, ordered)),
        integers([one.after for one in ordered]),
        integers([None if one.lease is None else one.lease.epoch for one in ordered]),
        integers([one.head for one in ordered]),
        hexes([one.hash for one in ordered]),
        integers([one.at for one in ordered]),
        texts([one.summary.status.value for one in ordered]),
        integers([one.summary.wake_at for one in ordered]),
        integers([one.at if one.summary.status.ended else None for one in ordered]),
        truths([one.lease is None for one in ordered]),
        truths([one.summary.is_due for one in ordered]),
    )


def _place(append: PostgresAppend) -> int:
    assert isinstance(append.place, int), "it has a row"  # noqa: S101 - for the checkers
    return append.place


def _keep(database: PostgresDatabase, kept: Sequence[tuple[int, Mapping[str, str]]]) -> None:
    """Store the parts that a saga does not have yet. Where it has one, it has all that are below it."""
    if kept:
        database.run("SELECT pg_advisory_xact_lock_shared(%s)", (BLOBS,))
    for row, blobs in kept:
        below: set[str] = set()
        for digest, text in blobs.items():
            if digest not in below:
                database.run("INSERT INTO blob (digest, data) VALUES (%s, %s) ON CONFLICT DO NOTHING", (digest, text))
                if database.changed(_USE, (row, digest)):
                    continue
            below.update(named_by(text))


def _wake(batch: PostgresBatch, appends: Sequence[PostgresAppend]) -> None:
    woken = sorted({one.summary.wakes for one in appends if one.summary.wakes is not None})
    if woken and batch.database.changed(_WAKE, (woken,)):
        batch.has_news = True
    if any(one.lease is None for one in appends):
        batch.has_news = True  # whoever holds it, or looks for work, has not heard of it
    if any(one.summary.status.ended or not one.summary.is_due for one in appends):
        batch.is_end = batch.is_end or any(_is_end(one.summary) for one in appends)


def _is_end(summary: Summary) -> bool:
    return summary.status.ended or summary.status == "incident"


def _leave_lines(batch: PostgresBatch, rows: Mapping[SagaId, int], appends: Sequence[PostgresAppend]) -> None:
    """Give up the locks of those that ended, and the places in line of those that do not go forward any more."""
    ended = [rows[one.saga] for one in appends if one.summary.status.ended]
    stopped = [
        rows[one.saga] for one in appends if not one.summary.status.ended and not one.summary.status.goes_forward
    ]
    if not ended and not stopped:
        return
    found = batch.database.rows(
        "SELECT DISTINCT owner, saga FROM ticket WHERE owner = ANY(%s) OR saga = ANY(%s)", (ended, stopped)
    )
    if found:
        locks.alone(batch.database)
        for row in ended:
            locks.release(batch, row)
        for row in stopped:
            locks.give_up_waiting(batch.database, row)


# -- lists ------------------------------------------------------------------------------------------------------------


def _project(batch: PostgresBatch, rows: Mapping[SagaId, int], appends: Sequence[PostgresAppend]) -> None:
    seen = sorted(
        {
            (rows[one.saga], str(change.topic))
            for one in appends
            for change in one.changes
            if isinstance(change, TopicSeen)
        }
    )
    if seen:
        values = (integers([row for row, _ in seen]), texts([plain(topic) for _, topic in seen]))
        batch.database.run(_TOPICS, values)
    for one in appends:
        changes = [change for change in one.changes if not isinstance(change, TopicSeen)]
        for change in changes:
            _apply(batch.database, rows[one.saga], change, one.at)
        if changes:
            batch.database.run(_COUNT, (*3 * (rows[one.saga],),))


def _apply(database: PostgresDatabase, row: int, change: Change, at: int) -> None:
    match change:
        case TopicSeen():
            pass
        case e.IncidentOpened():
            _open_incident(database, row, change, at)
        case IncidentClosed(incident=number, status=status):
            database.run(
                "UPDATE incident SET status = %s, closed_at = %s WHERE saga = %s AND number = %s",
                (status.value, at, row, number),
            )
        case e.IncidentAssigned(incident=number, owner=owner):
            database.run("UPDATE incident SET owner = %s WHERE saga = %s AND number = %s", (plain(owner), row, number))
        case e.ApprovalRequested():
            _request_approval(database, row, change, at)
        case ApprovalChanged(step=step, status=status):
            database.run("UPDATE approval SET status = %s WHERE saga = %s AND step = %s", (status.value, row, step))
        case _:
            assert_never(change)


def _open_incident(database: PostgresDatabase, row: int, opened: e.IncidentOpened, at: int) -> None:
    database.run("DELETE FROM incident WHERE saga = %s AND number = %s", (row, opened.incident))
    database.run(
        """
        INSERT INTO incident (saga, number, kind, step, why, remaining, owner, status, opened_at)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
        """,
        (
            row,
            opened.incident,
            opened.kind.value,
            opened.step,
            plain(opened.why),
            canonical(list(opened.left)),
            plain(opened.owner),
            IncidentStatus.OPEN.value,
            at,
        ),
    )


def _request_approval(database: PostgresDatabase, row: int, asked: e.ApprovalRequested, at: int) -> None:
    """Asked again, a step goes to the end of the line."""
    database.run("DELETE FROM approval WHERE saga = %s AND step = %s", (row, asked.step))
    topic, requested = plain(projection.topic_of(asked)), ApprovalStatus.REQUESTED.value
    database.run(
        """
        INSERT INTO approval (saga, step, topic, rule, status, requested_at, expires_at)
        VALUES (%s, %s, %s, %s, %s, %s, %s)
        """,
        (row, asked.step, topic, plain(asked.rule), requested, at, asked.expires_at),
    )


_WRITTEN: Final = "SELECT 1 FROM entry WHERE saga = %s AND number = %s AND hash = %s"
_CHECK: Final = "SELECT 1 FROM saga WHERE name = %s AND head = %s AND epoch = coalesce(%s::bigint, epoch)"
_SLEEP: Final = """
    UPDATE saga SET wake_at = CASE WHEN nudged THEN NULL ELSE %s::bigint END
     WHERE name = %s AND head = %s AND epoch = coalesce(%s::bigint, epoch) RETURNING 1
"""
_BEGIN: Final = """
    INSERT INTO saga (name, head, hash, epoch, worker, nudged, status, wake_at, definition, version, env, actor, labels,
                      parent, root, started_at, updated_at, ended_at)
    SELECT name, head, hash, epoch, worker, false, status, wake_at, definition, version, env, actor, labels,
           nullif(parent, ''), nullif(root, ''), at, at, ended_at
      FROM unnest(%s::text[], %s::bigint[], %s::bytea[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::text[],
                  %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
           WITH ORDINALITY AS one (name, head, hash, epoch, worker, status, wake_at, definition, version, env, actor,
                                   labels, parent, root, at, ended_at, place)
     ORDER BY place ON CONFLICT (name) DO NOTHING RETURNING id, name
"""
_EXTEND: Final = """
    UPDATE saga SET head = one.head, hash = one.hash, updated_at = one.at, status = one.status, wake_at = one.wake_at,
                    ended_at = one.ended_at, nudged = one.is_others, removed = false,
                    worker = CASE WHEN one.is_due THEN saga.worker ELSE '' END
      FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[], %s::bigint[], %s::text[],
                  %s::bigint[], %s::bigint[], %s::boolean[], %s::boolean[])
           AS one (id, after, epoch, head, hash, at, status, wake_at, ended_at, is_others, is_due)
     WHERE saga.id = one.id AND saga.head = one.after AND saga.epoch = coalesce(one.epoch, saga.epoch)
    RETURNING saga.id
"""
_EXTEND_AT_ONCE: Final = f"""
    WITH counted AS ({COUNT}),
         extended AS ({_EXTEND}),
         given AS (
             SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::bytea[])
                      WITH ORDINALITY AS one (saga, number, at, name, body, hash, place)),
         taken AS (
             SELECT given.*, row_number() OVER (ORDER BY given.place) - 1 AS nth
               FROM given JOIN extended ON extended.id = given.saga),
         made AS (
             INSERT INTO batch (count, is_end, at)
             SELECT count(*), false, %s::bigint FROM taken HAVING count(*) > 0 RETURNING id),
         put AS (
             INSERT INTO entry (saga, number, at, name, body, hash, batch, place)
             SELECT taken.saga, taken.number, taken.at, taken.name, taken.body, taken.hash, made.id, taken.nth
               FROM taken CROSS JOIN made)
    SELECT id FROM extended
"""  # noqa: S608 - of statements that stand here
"""What `_EXTEND` and the batch's end do, in one statement. The batch has its number once every row is locked."""
_USE: Final = "INSERT INTO blob_use (saga, digest) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_WAKE: Final = "UPDATE saga SET nudged = true, wake_at = NULL WHERE name = ANY(%s::text[]) AND status = 'waiting'"
_TOPICS: Final = """
    INSERT INTO saga_topic (topic, started_at, saga)
    SELECT one.topic, saga.started_at, saga.id
      FROM unnest(%s::bigint[], %s::text[]) AS one (saga, topic) JOIN saga ON saga.id = one.saga
        ON CONFLICT DO NOTHING
"""
_COUNT: Final = """
    UPDATE saga
       SET open_incidents = (SELECT count(*) FROM incident WHERE saga = %s AND status = 'open'),
           open_approvals = (SELECT count(*) FROM approval WHERE saga = %s AND status = 'requested')
     WHERE id = %s
"""
