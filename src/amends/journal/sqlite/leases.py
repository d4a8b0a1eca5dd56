"""Who drives what: workers, their lifetimes, and the claiming of sagas that nobody holds.

A worker is gone when it has no row, when its row is of another boot of this machine, when its time is up, or,
where that can be told (same boot, same space of process ids), when its process no longer runs. Its sagas are then
free without a write to any of them: they name a worker that is not there. A claim raises the epoch, and that alone
keeps an old holder from writing; all else here only decides how soon somebody else may try.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from amends.core.values import SagaId, canonical
from amends.dataclass import dataclass
from amends.journal.protocol import Lease
from amends.journal.sqlite.database import Database, Row
from amends.journal.sqlite.writer import Batch

PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process this is, as another one on the machine can check it. Empty where the system does not say."""

    boot: str
    space: str
    pid: int
    started: str


def own_identity(proc: Path = PROC) -> Identity:
    pid = os.getpid()
    boot = _text(proc / "sys/kernel/random/boot_id")
    return Identity(boot=boot, space=_link(proc / "self/ns/pid"), pid=pid, started=_started(pid, proc))


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _started(pid: int, proc: Path = PROC) -> str:
    """The tick at which a running process began: with the pid, it tells it from a later one of the same number."""
    _, _, fields = _text(proc / f"{pid}/stat").rpartition(")")
    state, *rest = fields.split() or ["Z"]
    return "" if state in {"Z", "X"} else rest[18]


@dataclass(frozen=True, slots=True)
class Life:
    """A worker's row: who it is, and until when, by the machine's clock, it said that it would be there."""

    identity: Identity
    until: float
    ttl: float

    def is_over(self, us: Identity, elapsed: float) -> bool:
        them = self.identity
        if them.boot != us.boot or not elapsed < self.until <= elapsed + self.ttl:
            return True  # a time too far ahead was read off another boot's clock
        is_seen = bool(them.started) and them.space == us.space
        return is_seen and _started(them.pid) != them.started


def renew(batch: Batch, worker: str, life: Life) -> None:
    us = life.identity
    batch.database.run(
        "INSERT OR REPLACE INTO worker (name, until, ttl, boot, space, pid, started) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (worker, life.until, life.ttl, us.boot, us.space, us.pid, us.started),
    )


def retire(batch: Batch, worker: str) -> None:
    batch.database.run("DELETE FROM worker WHERE name = ?", (worker,))


def nudged(database: Database, worker: str, now: int) -> tuple[SagaId, ...]:
    found = database.rows(_NUDGED, (worker, now))
    return tuple([SagaId(name) for (name,) in found])


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a worker wants; None means any."""

    worker: str
    definitions: tuple[str, ...] | None
    saga: SagaId | None
    due_by: int | None
    limit: int


def claim(batch: Batch, wanted: Claim, us: Identity, elapsed: float) -> tuple[Lease, ...]:
    database = batch.database
    living = _bury(database, us, elapsed)
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


def _bury(database: Database, us: Identity, elapsed: float) -> set[str]:
    """Remove the workers that are gone; say which are left."""
    living: set[str] = set()
    lives = database.rows("SELECT name, until, ttl, boot, space, pid, started FROM worker")
    for name, until, ttl, boot, space, pid, started in lives:
        if Life(Identity(boot, space, pid, started), until, ttl).is_over(us, elapsed):
            database.run("DELETE FROM worker WHERE name = ?", (name,))
        else:
            living.add(name)
    return living


def holder(database: Database, saga: SagaId, us: Identity, elapsed: float) -> str | None:
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
    return None if Life(Identity(boot, space, pid, started), until, ttl).is_over(us, elapsed) else str(name)


_NUDGED: Final = """
    SELECT name FROM saga INDEXED BY saga_nudged WHERE worker = ?1 AND nudged = 1
    UNION
    SELECT name FROM saga INDEXED BY saga_asleep WHERE worker = ?1 AND status = 'waiting' AND wake_at <= ?2
"""
_CLAIMABLE: Final = "status IN ('running', 'waiting', 'rolling_back')"
_WANTED: Final = f"""{_CLAIMABLE}
    AND (:definitions IS NULL OR definition || '/' || version IN (SELECT value FROM json_each(:definitions)))
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
