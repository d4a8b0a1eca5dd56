"""Leases in PostgreSQL: workers, their lifetimes by the database's clock, and the claiming of sagas that nobody holds.

A worker is gone when the database's clock says that its time is up, or at once where whoever asks can see that its
process does not run any more: on the same boot of the same machine, in the same space of process ids. The sagas of such
a worker are free without a write to any of them. A claim raises the epoch, and that alone keeps an old holder from
writing; all else here only decides how soon somebody else may try.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Mapping
from typing import Final

from amends.core.words.values import SagaId
from amends.dataclass import dataclass
from amends.journal.port.leases import Identity, Lease, LeaseHolder, Waking, WorkerRow
from amends.journal.postgres.database import PostgresDatabase, Row
from amends.journal.postgres.writer import PostgresBatch

Told = Callable[[], float | None]
"""The time that lives are held against: None for the database's own, which is the rule."""

_NOW: Final = "coalesce(%(now)s::float8, extract(epoch FROM clock_timestamp())::float8)"


def renew(batch: PostgresBatch, worker: str, us: Identity, ttl_s: float, told: Told) -> None:
    """Keep a worker alive for so long from when this is written, and not from when it was asked for."""
    batch.database.run(
        _RENEW,
        {
            "name": worker,
            "now": told(),
            "ttl": ttl_s,
            "host": host(),
            "boot": us.boot,
            "space": us.space,
            "pid": us.pid,
            "started": us.started,
        },
    )


def host() -> str:
    return os.environ.get("AMENDS_HOST") or socket.gethostname()


def retire(batch: PostgresBatch, worker: str) -> None:
    batch.database.run("DELETE FROM worker WHERE name = %s", (worker,))
    batch.has_news = True


def release(batch: PostgresBatch, lease: Lease) -> None:
    sql = "UPDATE saga SET worker = '' WHERE name = %s AND worker = %s AND epoch = %s"
    if batch.database.changed(sql, tuple(lease)):
        batch.has_news = True


def nudged(database: PostgresDatabase, worker: str, now: Callable[[], int]) -> tuple[SagaId, ...]:
    found = database.rows(_NUDGED, (worker, worker, now()))
    return tuple([SagaId(name) for (name,) in found])


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresClaim:
    """A worker's claim on sagas; None means any."""

    worker: str
    definitions: tuple[str, ...] | None
    saga: SagaId | None
    due_by: int | None
    limit: int


def claim(batch: PostgresBatch, wanted: PostgresClaim, us: Identity, told: Told) -> tuple[Lease, ...]:
    database = batch.database
    living = _bury(database, wanted.worker, us, told())
    is_named = wanted.saga is not None
    found = database.rows(_NAMED, _bindings(wanted)) if is_named else _oldest(database, wanted, living)
    leases: list[Lease] = []
    for row, holder in found[: wanted.limit]:
        if holder not in living or (wanted.saga is not None and holder == wanted.worker):
            ((name, epoch),) = database.rows(_TAKE, (wanted.worker, row))
            leases.append(Lease(saga=SagaId(name), worker=wanted.worker, epoch=epoch))
    return tuple(leases)


def _bury(database: PostgresDatabase, asker: str, us: Identity, now: float | None) -> set[str]:
    """Remove the workers that are gone; say which are left. Who asks is there, whatever its row says."""
    living, gone = {asker}, list[str]()
    for name, is_over, boot, space, pid, started in database.rows(_LIVES, {"now": now}):
        if name == asker:
            continue
        if is_over or _is_seen_to_be_gone(us, Identity(boot, space, pid, started)):
            gone.append(name)
        else:
            living.add(name)
    if gone:
        database.run(_BURY, {"gone": sorted(gone), "now": now, "boot": us.boot, "space": us.space})
    return living


def _is_seen_to_be_gone(us: Identity, them: Identity) -> bool:
    """Whether it ran on this boot of this machine, and does not run any more. Of other machines only time tells."""
    return bool(us.boot) and us.boot == them.boot and them.has_ended(us)


def _oldest(database: PostgresDatabase, wanted: PostgresClaim, living: set[str]) -> list[Row]:
    """Oldest first, over every holder that is gone: one seek for each name, however many sagas a living one holds.

    What another worker is claiming at the same time is left to it.
    """
    found: list[Row] = []
    for (holder,) in database.rows(_HOLDERS):
        if holder not in living:
            found += database.rows(_HELD, {"holder": holder, **_bindings(wanted)})
    return sorted(found)


def _bindings(wanted: PostgresClaim) -> dict[str, str | int | list[str] | None]:
    return {
        "saga": wanted.saga,
        "definitions": None if wanted.definitions is None else list(wanted.definitions),
        "due_by": wanted.due_by,
        "limit": wanted.limit,
    }


def holder(database: PostgresDatabase, saga: SagaId, us: Identity, told: Told) -> str | None:
    found = database.first(_HOLDER, {"saga": saga, "now": told()})
    if found is None:
        return None
    name, is_over, boot, space, pid, started = found
    return None if is_over or _is_seen_to_be_gone(us, Identity(boot, space, pid, started)) else str(name)


def drivers(
    database: PostgresDatabase, sagas: Collection[SagaId], us: Identity, told: Told, now: Callable[[], int]
) -> dict[SagaId, LeaseHolder]:
    rows = database.rows(_DRIVERS, {"sagas": list(sagas), "now": told()})
    seen = now()
    found: dict[SagaId, LeaseHolder] = {}
    for name, worker, left, boot, space, pid, started in rows:
        if left is None or left <= 0 or _is_seen_to_be_gone(us, Identity(boot, space, pid, started)):
            found[SagaId(name)] = LeaseHolder(worker)
        else:
            there = pid if boot == us.boot and space == us.space else 0
            found[SagaId(name)] = LeaseHolder(worker, seen + round(left * 1000), is_gone=False, pid=there)
    return found


def waking(
    database: PostgresDatabase, asked: Mapping[str, str | int | None], us: Identity, told: Told
) -> tuple[Waking, ...]:
    found: list[Waking] = []
    for name, wake_at, worker, is_over, boot, space, pid, started in database.rows(_WAKING, {**asked, "now": told()}):
        is_gone = is_over is None or is_over or _is_seen_to_be_gone(us, Identity(boot, space, pid, started))
        found.append(Waking(SagaId(name), wake_at, "" if is_gone else worker))
    return tuple(found)


def workers(database: PostgresDatabase, us: Identity, told: Told, now: Callable[[], int]) -> tuple[WorkerRow, ...]:
    """Every worker that has a row, living or not, with how many sagas it holds."""
    seen = now()
    return tuple(
        WorkerRow(
            name=name,
            host=where,
            pid=pid,
            since_at=seen - round(age * 1000),
            until_at=seen + round(left * 1000),
            is_gone=left <= 0 or _is_seen_to_be_gone(us, Identity(boot, space, pid, started)),
            sagas=sagas,
        )
        for name, where, pid, age, left, boot, space, started, sagas in database.rows(_WORKERS, {"now": told()})
    )


_RENEW: Final = f"""
    INSERT INTO worker (name, since, until, ttl, host, boot, space, pid, started)
    VALUES (%(name)s, {_NOW}, {_NOW} + %(ttl)s::float8, %(ttl)s, %(host)s, %(boot)s, %(space)s, %(pid)s, %(started)s)
    ON CONFLICT (name) DO UPDATE SET until = excluded.until, ttl = excluded.ttl, host = excluded.host,
        boot = excluded.boot, space = excluded.space, pid = excluded.pid, started = excluded.started
"""  # noqa: S608 - all of it is constant
_LIVES: Final = f"SELECT name, until <= {_NOW}, boot, space, pid, started FROM worker"  # noqa: S608 - all of it is constant
_BURY: Final = f"""
    DELETE FROM worker WHERE name = ANY(%(gone)s::text[])
       AND (until <= {_NOW} OR (boot = %(boot)s AND space = %(space)s))
"""  # noqa: S608 - all of it is constant
_HOLDER: Final = f"""
    SELECT worker.name, until <= {_NOW}, boot, space, pid, started
      FROM saga JOIN worker ON worker.name = saga.worker WHERE saga.name = %(saga)s
"""  # noqa: S608 - all of it is constant
_DRIVERS: Final = f"""
    SELECT saga.name, saga.worker, until - {_NOW}, boot, space, pid, started
      FROM saga LEFT JOIN worker ON worker.name = saga.worker
     WHERE saga.name = ANY(%(sagas)s::text[]) AND saga.worker <> ''
"""  # noqa: S608 - all of it is constant
_WORKERS: Final = f"""
    SELECT name, host, pid, {_NOW} - since, until - {_NOW}, boot, space, started,
           (SELECT count(*) FROM saga
             WHERE saga.worker = worker.name AND status IN ('running', 'waiting', 'rolling_back'))
      FROM worker ORDER BY since, name
"""  # noqa: S608 - all of it is constant
_NUDGED: Final = """
    SELECT name FROM saga WHERE worker = %s AND nudged
    UNION
    SELECT name FROM saga WHERE worker = %s AND status = 'waiting' AND wake_at <= %s
"""
_TAKE: Final = "UPDATE saga SET worker = %s, epoch = epoch + 1, nudged = false WHERE id = %s RETURNING name, epoch"
_CLAIMABLE: Final = "status IN ('running', 'waiting', 'rolling_back')"
_WAKING: Final = f"""
    SELECT saga.name, wake_at, saga.worker, until <= {_NOW}, boot, space, pid, started
      FROM saga LEFT JOIN worker ON worker.name = saga.worker
     WHERE {_CLAIMABLE} AND (%(saga)s::text IS NULL OR saga.name = %(saga)s::text)
       AND (%(due_by)s::bigint IS NULL OR wake_at IS NULL OR wake_at <= %(due_by)s::bigint)
       AND saga.id > (SELECT coalesce(max(id), 0) FROM saga WHERE name = %(after)s::text)
     ORDER BY saga.id LIMIT %(limit)s
"""  # noqa: S608 - all of it is constant
_WANTED: Final = f"""{_CLAIMABLE}
    AND (
        %(definitions)s::text[] IS NULL
        OR definition || '/' || version = ANY(%(definitions)s::text[])
        OR (version = 0 AND '*/0' = ANY(%(definitions)s::text[]))
    )
    AND (%(due_by)s::bigint IS NULL OR wake_at IS NULL OR wake_at <= %(due_by)s::bigint)
"""
_NAMED: Final = f"SELECT id, worker FROM saga WHERE name = %(saga)s AND {_WANTED} FOR UPDATE"  # noqa: S608 - all of it is constant
_HELD: Final = f"""
    SELECT id, worker FROM saga WHERE worker = %(holder)s AND {_WANTED} ORDER BY id LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - all of it is constant
_HOLDERS: Final = f"""
    WITH RECURSIVE holder (name) AS (
        SELECT min(worker) FROM saga WHERE {_CLAIMABLE}
        UNION ALL
        SELECT (SELECT min(worker) FROM saga WHERE worker > holder.name AND {_CLAIMABLE})
          FROM holder WHERE holder.name IS NOT NULL
    )
    SELECT name FROM holder WHERE name IS NOT NULL
"""  # noqa: S608 - all of it is constant
