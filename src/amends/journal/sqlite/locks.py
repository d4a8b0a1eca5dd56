"""The lines of tickets, as SQL, in the writer's transaction. The rules are in port.locks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId, StepId
from amends.errors import unknown_saga
from amends.journal.port import lists as cursors, locks as locking, refusals
from amends.journal.port.leases import Lease
from amends.journal.port.locks import LockAnswer, LockAsk, LockPage, LockQuery, LockRow, LockWait
from amends.journal.sqlite.database import Database
from amends.journal.sqlite.writer import Batch

_FORWARD: Final = frozenset({"running", "waiting", "paused"})
_ENDED: Final = frozenset(status.value for status in SagaStatus if status.ended)


def lock(batch: Batch, ask: LockAsk, lease: Lease, now: int) -> LockAnswer:
    database = batch.database
    for name in (ask.saga, ask.owner):
        found = database.first("SELECT epoch, worker, status FROM saga WHERE name = ?", (name,))
        if found is None:
            raise unknown_saga(name)
        epoch, worker, status = found
        if name == ask.saga and epoch != lease.epoch:
            raise refusals.lease_lost(lease, epoch, worker)
        if status in _ENDED or (name == ask.saga and status not in _FORWARD):
            raise locking.ended(name)
    return locking.answered(_Lines(database, now), ask, now)


def release(database: Database, owner: int) -> None:
    """The owner has ended: all of its tickets go, and what it held is the next one's."""
    if database.first("SELECT 1 FROM ticket WHERE owner = ? LIMIT 1", (owner,)) is None:  # as most, and asked at once
        return
    held = [str(resource) for resource, is_held in database.rows(_OWNED, (owner,)) if is_held]
    database.run("DELETE FROM ticket WHERE owner = ?", (owner,))
    _wake(database, held)


def holder_of(database: Database, resource: str) -> SagaId | None:
    found = database.first(_HOLDER, (resource,))
    return None if found is None else SagaId(found[0])


def give_up_waiting(database: Database, saga: int) -> None:
    """The saga does not go forward any more: what it holds stays its own, and it waits for nothing."""
    database.run(_GIVE_UP, (saga,))


class _Lines:
    def __init__(self, database: Database, now: int) -> None:
        self._database = database
        self._now = now

    def holder(self, resource: str) -> SagaId | None:
        return holder_of(self._database, resource)

    def standing(self, saga: SagaId, step: StepId) -> frozenset[str]:
        sql = "SELECT resource FROM ticket WHERE saga = (SELECT id FROM saga WHERE name = ?) AND step = ?"
        return frozenset(str(resource) for (resource,) in self._database.rows(sql, (saga, step)))

    def add(self, ask: LockAsk, resource: str) -> None:
        self._database.run(_ADD, (resource, ask.saga, ask.owner, ask.step, self._now, ask.until))

    def drop(self, saga: SagaId, step: StepId) -> None:
        mine = "saga = (SELECT id FROM saga WHERE name = ?) AND step = ?"
        rows = self._database.rows(f"SELECT id, resource FROM ticket WHERE {mine}", (saga, step))  # noqa: S608 - all of it is constant
        first = "SELECT min(id) FROM ticket WHERE resource = ?"
        freed = [str(name) for ticket, name in rows if self._database.first(first, (name,)) == (ticket,)]
        self._database.run(f"DELETE FROM ticket WHERE {mine}", (saga, step))  # noqa: S608 - all of it is constant
        _wake(self._database, freed)

    def length(self, resource: str) -> int:
        return _count(self._database, "resource = ?", resource)

    def tickets(self, owner: SagaId) -> int:
        return _count(self._database, "owner = (SELECT id FROM saga WHERE name = ?)", owner)

    def ahead_of(self, owner: SagaId) -> Iterable[LockWait]:
        for resource, ahead in self._database.rows(_AHEAD, (owner,)):
            if ahead is not None:
                yield LockWait(owner, resource, SagaId(ahead))


def _count(database: Database, where: str, value: str) -> int:
    ((count,),) = database.rows(f"SELECT count(*) FROM ticket WHERE {where}", (value,))  # noqa: S608 - all of it is constant
    return int(count)


def _wake(database: Database, freed: Iterable[str]) -> None:
    """Nudge those who have all that they asked for now: their worker hears of it, or whoever looks for what is due."""
    for resource in freed:
        for saga, step in database.rows(_NEXT, (resource,)):
            if database.first(_LACKS, (saga, step)) is None:
                database.run("UPDATE saga SET nudged = 1, wake_at = NULL WHERE id = ? AND status = 'waiting'", (saga,))


def locks(database: Database, query: LockQuery) -> LockPage:
    after = 0 if query.after is None else cursors.read(query.after, 1)[0]
    wanted = {"after": after, "resource": query.resource, "saga": query.saga, "limit": query.limit + 1}
    rows = database.rows(_LIST, wanted)
    shown = rows[: query.limit]
    found = [
        LockRow(
            resource=resource,
            saga=SagaId(saga),
            owner=SagaId(owner),
            step=StepId(step),
            place=place,
            asked_at=asked_at,
            until=until,
        )
        for _, resource, saga, owner, step, place, asked_at, until in shown
    ]
    return LockPage(tuple(found), cursors.spell(shown[-1][0]) if len(rows) > len(shown) else None)


_HOLDER: Final = """
    SELECT saga.name FROM ticket JOIN saga ON saga.id = ticket.owner
     WHERE ticket.resource = ? ORDER BY ticket.id LIMIT 1
"""
_ADD: Final = """
    INSERT INTO ticket (resource, saga, owner, step, asked_at, until)
    VALUES (?, (SELECT id FROM saga WHERE name = ?), (SELECT id FROM saga WHERE name = ?), ?, ?, ?)
"""
_FIRST: Final = "(SELECT first.owner FROM ticket AS first WHERE first.resource = ticket.resource ORDER BY id LIMIT 1)"
_OWNED: Final = f"SELECT DISTINCT resource, owner = {_FIRST} FROM ticket WHERE owner = ?"  # noqa: S608 - all of it is constant
_GIVE_UP: Final = f"DELETE FROM ticket WHERE saga = ? AND owner <> {_FIRST}"  # noqa: S608 - all of it is constant
_NEXT: Final = """
    SELECT DISTINCT saga, step FROM ticket
     WHERE resource = ?1 AND owner = (SELECT owner FROM ticket WHERE resource = ?1 ORDER BY id LIMIT 1)
"""
_LACKS: Final = f"SELECT 1 FROM ticket WHERE saga = ? AND step = ? AND owner <> {_FIRST} LIMIT 1"  # noqa: S608 - all of it is constant
_AHEAD: Final = f"""
    SELECT resource, (SELECT saga.name FROM ticket AS other JOIN saga ON saga.id = other.owner
                       WHERE other.resource = ticket.resource AND other.id < ticket.id AND other.owner <> ticket.owner
                       ORDER BY other.id DESC LIMIT 1)
      FROM ticket WHERE owner = (SELECT id FROM saga WHERE name = ?) AND owner <> {_FIRST} ORDER BY id
"""  # noqa: S608 - all of it is constant
_LIST: Final = """
    SELECT ticket.id, ticket.resource, saga.name, owner.name, ticket.step,
           (SELECT count(*) FROM ticket AS other WHERE other.resource = ticket.resource AND other.id < ticket.id
               AND other.owner <> ticket.owner), ticket.asked_at, ticket.until
      FROM ticket JOIN saga ON saga.id = ticket.saga JOIN saga AS owner ON owner.id = ticket.owner
     WHERE ticket.id > :after AND (:resource IS NULL OR ticket.resource = :resource)
       AND (:saga IS NULL OR saga.name = :saga)
     ORDER BY ticket.id LIMIT :limit
"""
