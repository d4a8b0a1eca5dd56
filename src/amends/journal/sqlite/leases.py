"""Leases in SQLite: workers, their lifetimes, and the claiming of sagas that nobody holds.

Who is gone is told by the rule in port.leases. The sagas of such a worker are free without a write to any of them:
they name a worker that is not there. A claim raises the epoch, and that alone keeps an old holder from writing; all
else here only decides how soon somebody else may try.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from amends.core.words.values import SagaId, canonical
from amends.dataclass import dataclass
from amends.journal.port.leases import Identity, Lease, LeaseHolder, Reading, Waking, WorkerLife, WorkerRow, began_at
from amends.journal.sqlite.database import Database, Row
from amends.journal.sqlite.writer import Batch


def renew(batch: Batch, worker: str, us: Identity, ttl_s: float, elapsed: Reading) -> None:
    """Keep a worker alive for so long from when this is written, and not from when it was asked for."""
    batch.database.run(
        "INSERT OR REPLACE INTO worker (name, until, ttl, boot, space, pid, started) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (worker, elapsed() + ttl_s, ttl_s, us.boot, us.space, us.pid, us.started),
    )


def retire(batch: Batch, worker: str) -> None:
    batch.database.run("DELETE FROM worker WHERE name = ?", (worker,))


def release(batch: Batch, lease: Lease) -> None:
    batch.database.run("UPDATE saga SET worker = '' WHERE name = ? AND worker = ? AND epoch = ?", tuple(lease))


def nudged(database: Database, worker: str, now: Callable[[], int]) -> tuple[SagaId, ...]:
    found = database.rows(_NUDGED, (worker, now()))
    return tuple([SagaId(name) for (name,) in found])


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker's claim on sagas; None means any."""

    worker: str
    definitions: tuple[str, ...] | None
    saga: SagaId | None
    due_by: int | None
    limit: int


def claim(batch: Batch, wanted: Claim, us: Identity, elapsed: Reading) -> tuple[Lease, ...]:
    database = batch.database
    living = _bury(database, wanted.worker, us, elapsed())
    found = _named(database, wanted) if wanted.saga is not None else _oldest(database, wanted, living)
    leases: list[Lease] = []
    for row, holder in found[: wanted.limit]:
        if holder not in living or (wanted.saga is not None and holder == wanted.worker):
            ((name, epoch),) = database.rows(
                "UPDATE saga SET worker = ?, epoch = epoch + 1, nudged = 0 WHERE id = ? RETURNING name, epoch",
                (wanted.worker, row),
            )
            leases.append(Lease(saga=SagaId(name), worker=wanted.worker, epoch=epoch))
    return tuple(leases)


def _bury(database: Database, asker: str, us: Identity, elapsed: float) -> set[str]:
    """Remove the workers that are gone; say which are left. Who asks is there, whatever its row says."""
    living = {asker}
    lives = database.rows("SELECT name, until, ttl, boot, space, pid, started FROM worker WHERE name != ?", (asker,))
    for name, until, ttl, boot, space, pid, started in lives:
        if WorkerLife(Identity(boot, space, pid, started), until, ttl).is_over(us, elapsed):
            database.run("DELETE FROM worker WHERE name = ?", (name,))
        else:
            living.add(name)
    return living


def holder(database: Database, saga: SagaId, us: Identity, elapsed: Reading) -> str | None:
    found = database.first(
        """
        SELECT worker.name, until, ttl, boot, space, pid, started
          FROM saga JOIN worker ON worker.name = saga.worker WHERE saga.name = ?
        """,
        (saga,),
    )
    if found is None:
        return None
    name, until, ttl, boot, space, pid, started = found
    return None if WorkerLife(Identity(boot, space, pid, started), until, ttl).is_over(us, elapsed()) else str(name)


def drivers(
    database: Database, sagas: Collection[SagaId], us: Identity, elapsed: Reading, now: Callable[[], int]
) -> dict[SagaId, LeaseHolder]:
    rows = database.rows(_DRIVERS, (canonical(list(sagas)),))
    told, seen = now(), elapsed()
    found: dict[SagaId, LeaseHolder] = {}
    for name, worker, until, ttl, boot, space, pid, started in rows:
        life = None if until is None else WorkerLife(Identity(boot, space, pid, started), until, ttl)
        if life is None or life.is_over(us, seen):
            found[SagaId(name)] = LeaseHolder(worker)
        else:
            found[SagaId(name)] = LeaseHolder(worker, told + round((life.until - seen) * 1000), is_gone=False, pid=pid)
    return found


def waking(
    database: Database, asked: Mapping[str, str | int | None], us: Identity, elapsed: Reading
) -> tuple[Waking, ...]:
    rows = database.rows(_WAKING, asked)
    seen = elapsed()
    found: list[Waking] = []
    for name, wake_at, worker, until, ttl, boot, space, pid, started in rows:
        life = None if until is None else WorkerLife(Identity(boot, space, pid, started), until, ttl)
        is_held = life is not None and not life.is_over(us, seen)
        found.append(Waking(SagaId(name), wake_at, worker if is_held else ""))
    return tuple(found)


def workers(database: Database, us: Identity, elapsed: Reading, now: Callable[[], int]) -> tuple[WorkerRow, ...]:
    """Every worker that has a row, living or not, with how many sagas it holds. All of them are of this machine."""
    from socket import gethostname  # whoever looks at a saga waits for imports

    rows = database.rows(_WORKERS)
    told, seen = now(), elapsed()
    return tuple(
        WorkerRow(
            name=name,
            host=gethostname(),
            pid=pid,
            since_at=began_at(name),
            until_at=told + round((until - seen) * 1000),
            is_gone=WorkerLife(Identity(boot, space, pid, started), until, ttl).is_over(us, seen),
            sagas=sagas,
        )
        for name, until, ttl, boot, space, pid, started, sagas in rows
    )


_CLAIMABLE: Final = "(status = 'running' OR status = 'waiting' OR status = 'rolling_back')"
"""In the words of the condition that `saga_held` has: by no others is that index found."""
_WORKERS: Final = f"""
    SELECT name, until, ttl, boot, space, pid, started,
           (SELECT count(*) FROM saga INDEXED BY saga_held
             WHERE saga.worker = worker.name AND {_CLAIMABLE})
      FROM worker ORDER BY name
"""  # noqa: S608 - all of it is constant
_DRIVERS: Final = """
    SELECT saga.name, saga.worker, until, ttl, boot, space, pid, started
      FROM saga LEFT JOIN worker ON worker.name = saga.worker
     WHERE saga.name IN (SELECT value FROM json_each(?1)) AND saga.worker != ''
"""
_NUDGED: Final = """
    SELECT name FROM saga INDEXED BY saga_nudged WHERE worker = ?1 AND nudged = 1
    UNION
    SELECT name FROM saga INDEXED BY saga_asleep WHERE worker = ?1 AND status = 'waiting' AND wake_at <= ?2
"""
_WAKING: Final = """
    SELECT saga.name, wake_at, saga.worker, until, ttl, boot, space, pid, started
      FROM saga LEFT JOIN worker ON worker.name = saga.worker
     WHERE status IN ('running', 'waiting', 'rolling_back') AND (:saga IS NULL OR saga.name = :saga)
       AND (:due_by IS NULL OR wake_at IS NULL OR wake_at <= :due_by)
       AND saga.id > (SELECT coalesce(max(id), 0) FROM saga WHERE name = :after)
     ORDER BY saga.id LIMIT :limit
"""
_WANTED: Final = f"""{_CLAIMABLE}
    AND (
        :definitions IS NULL
        OR definition || '/' || version IN (SELECT value FROM json_each(:definitions))
        OR (version = 0 AND '*/0' IN (SELECT value FROM json_each(:definitions)))
    )
    AND (:due_by IS NULL OR wake_at IS NULL OR wake_at <= :due_by)
"""  # noqa: S608 - all of it is constant
_NAMED: Final = f"SELECT id, worker FROM saga WHERE name = :saga AND {_WANTED}"  # noqa: S608 - all of it is constant
_HELD: Final = f"""
    SELECT id, worker FROM saga INDEXED BY saga_held WHERE worker = :holder AND {_WANTED} ORDER BY id LIMIT :limit
"""  # noqa: S608 - all of it is constant
_HOLDERS: Final = f"""
    WITH RECURSIVE holder (name) AS (
        SELECT min(worker) FROM saga INDEXED BY saga_held WHERE {_CLAIMABLE}
        UNION ALL
        SELECT (SELECT min(worker) FROM saga INDEXED BY saga_held WHERE worker > holder.name AND {_CLAIMABLE})
          FROM holder WHERE holder.name IS NOT NULL
    )
    SELECT name FROM holder WHERE name IS NOT NULL
"""  # noqa: S608 - all of it is constant


def _named(database: Database, wanted: Claim) -> list[Row]:
    return database.rows(_NAMED, _bindings(wanted))


def _oldest(database: Database, wanted: Claim, living: set[str]) -> list[Row]:
    """Oldest first, over every holder that is gone: one seek for each name, however many sagas a living one holds."""
    found: list[Row] = []
    for (holder,) in database.rows(_HOLDERS):
        if holder not in living:
            found += database.rows(_HELD, {"holder": holder, **_bindings(wanted)})
    return sorted(found)


def _bindings(wanted: Claim) -> dict[str, str | int | None]:
    return {
        "saga": wanted.saga,
        "definitions": None if wanted.definitions is None else canonical(list(wanted.definitions)),
        "due_by": wanted.due_by,
        "limit": wanted.limit,
    }
