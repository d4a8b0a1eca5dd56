"""The lines of tickets of a journal in memory. The rules are in port.locks."""

from __future__ import annotations

from collections.abc import Iterable

from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId, StepId
from amends.errors import unknown_saga
from amends.journal.memory.state import LockTicket, Memory
from amends.journal.port import lists as cursors, locks as locking, refusals
from amends.journal.port.leases import Lease
from amends.journal.port.locks import LockAnswer, LockAsk, LockPage, LockQuery, LockRow, LockWait


def lock(memory: Memory, ask: LockAsk, lease: Lease, now: int) -> LockAnswer:
    for name in (ask.saga, ask.owner):
        record = memory.sagas.get(name)
        if record is None:
            raise unknown_saga(name)
        if name == ask.saga and record.epoch != lease.epoch:
            raise refusals.lease_lost(lease, record.epoch, record.worker)
        status = record.summary.status
        if status.ended or (name == ask.saga and not status.goes_forward):
            raise locking.ended(name)
    return locking.answered(_Lines(memory, now), ask, now)


def release(memory: Memory, owner: SagaId) -> None:
    """The owner has ended: all of its tickets go, and what it held is the next one's."""
    _drop(memory, [ticket for ticket in memory.tickets if ticket.owner == owner])


def give_up_waiting(memory: Memory, saga: SagaId) -> None:
    """The saga does not go forward any more: what it holds stays its own, and it waits for nothing."""
    _drop(memory, [one for one in memory.tickets if one.saga == saga and holder_of(memory, one.resource) != one.owner])


def locks(memory: Memory, query: LockQuery) -> LockPage:
    after = 0 if query.after is None else cursors.read(query.after, 1)[0]
    found = [
        ticket
        for ticket in memory.tickets
        if ticket.number > after
        and (query.resource is None or ticket.resource == query.resource)
        and (query.saga is None or ticket.saga == query.saga)
    ]
    shown = found[: query.limit]
    cursor = cursors.spell(shown[-1].number) if len(found) > len(shown) else None
    return LockPage(tuple(_row(memory, ticket) for ticket in shown), cursor)


def _row(memory: Memory, ticket: LockTicket) -> LockRow:
    return LockRow(
        resource=ticket.resource,
        saga=ticket.saga,
        owner=ticket.owner,
        step=ticket.step,
        place=sum(other.owner != ticket.owner for other in _ahead(memory, ticket)),
        asked_at=ticket.asked_at,
        until=ticket.until,
    )


class _Lines:
    def __init__(self, memory: Memory, now: int) -> None:
        self._memory = memory
        self._now = now

    def holder(self, resource: str) -> SagaId | None:
        return holder_of(self._memory, resource)

    def standing(self, saga: SagaId, step: StepId) -> frozenset[str]:
        return frozenset(one.resource for one in self._memory.tickets if (one.saga, one.step) == (saga, step))

    def add(self, ask: LockAsk, resource: str) -> None:
        memory = self._memory
        memory.line += 1
        memory.tickets.append(LockTicket(memory.line, resource, ask.saga, ask.owner, ask.step, self._now, ask.until))

    def drop(self, saga: SagaId, step: StepId) -> None:
        _drop(self._memory, [one for one in self._memory.tickets if (one.saga, one.step) == (saga, step)])

    def length(self, resource: str) -> int:
        return sum(one.resource == resource for one in self._memory.tickets)

    def tickets(self, owner: SagaId) -> int:
        return sum(one.owner == owner for one in self._memory.tickets)

    def ahead_of(self, owner: SagaId) -> Iterable[LockWait]:
        for mine in [one for one in self._memory.tickets if one.owner == owner]:
            others = [one.owner for one in _ahead(self._memory, mine) if one.owner != owner]
            if others and self.holder(mine.resource) != owner:
                yield LockWait(owner, mine.resource, others[-1])


def holder_of(memory: Memory, resource: str) -> SagaId | None:
    return next((ticket.owner for ticket in memory.tickets if ticket.resource == resource), None)


def _ahead(memory: Memory, ticket: LockTicket) -> list[LockTicket]:
    return [one for one in memory.tickets if one.resource == ticket.resource and one.number < ticket.number]


def _drop(memory: Memory, gone: list[LockTicket]) -> None:
    """Remove tickets, and nudge those whose turn it is now, and who have all that they asked for."""
    if not gone:
        return
    held = {one.resource for one in gone if holder_of(memory, one.resource) == one.owner and not _ahead(memory, one)}
    memory.tickets = [one for one in memory.tickets if one not in gone]
    for resource in held:
        holder = holder_of(memory, resource)
        for next_up in [one for one in memory.tickets if one.resource == resource and one.owner == holder]:
            _wake(memory, next_up)


def _wake(memory: Memory, ticket: LockTicket) -> None:
    asked = [one for one in memory.tickets if (one.saga, one.step) == (ticket.saga, ticket.step)]
    record = memory.sagas[ticket.saga]
    has_all = all(holder_of(memory, one.resource) == one.owner for one in asked)
    if has_all and record.summary.status is SagaStatus.WAITING:
        record.nudged, record.summary = True, record.summary._replace(wake_at=None)
