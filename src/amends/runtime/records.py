"""A saga as the journal has it: read whole, and written to by whoever does not drive it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from amends.core import commands as c, events as e
from amends.core.decide import decide
from amends.core.saga import Saga, evolve, unstarted
from amends.core.transitions import SagaStatus
from amends.core.values import Json, SagaId
from amends.errors import JournalConflictError, UnknownSagaError
from amends.journal.protocol import Journal, SagaQuery, SagaRow, Summary
from amends.runtime.logbook import wakes_at, woken_by
from amends.runtime.observe import Observers

_STIRRING = (e.WaitEnded, e.ApprovalGranted, e.ApprovalRefused, e.ApprovalExpired, e.ApprovalVoided, e.WorkResumed)
"""After these a saga has something to do at once, though it may wait for something else as well."""


async def load(journal: Journal, saga: SagaId) -> Saga:
    """The fold of all its entries. Raises UnknownSagaError."""
    state = unstarted(saga)
    async for entry in journal.read(saga):
        state = evolve(state, entry.event)
    if state.head == 0:
        raise UnknownSagaError(f"no saga has the id {saga}")
    return state


async def rows(journal: Journal, statuses: tuple[SagaStatus, ...]) -> AsyncIterator[SagaRow]:
    """All sagas that stand so, newest first."""
    query = SagaQuery(statuses=statuses)
    while True:
        page = await journal.sagas(query)
        for row in page.rows:
            yield row
        if page.cursor is None:
            return
        query = SagaQuery(statuses=statuses, before=page.cursor)


async def requested(journal: Journal, observers: Observers, saga: SagaId, command: c.Command) -> Saga:
    """Have a command recorded without driving the saga, however often others write meanwhile. Raises RefusedError."""
    while True:
        state = before = await load(journal, saga)
        events = decide(state, command)
        for event in events:
            state = evolve(state, event)
        if not events:
            return state
        wake_at = None if any(isinstance(event, _STIRRING) for event in events) else wakes_at(state)
        try:
            entries = await journal.append(
                saga, events, after=before.head, summary=Summary(state.status, wake_at, woken_by(state)), lease=None
            )
        except JournalConflictError:
            continue
        observers.tell(entries, state)
        return state


async def evidence(journal: Journal, saga: SagaId) -> dict[str, Json]:
    from amends.evidence.account import record_of
    from amends.runtime.drills import last_drills

    return await record_of(journal, saga, last_drills)
