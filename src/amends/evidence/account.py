"""One saga's record, read from a journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from amends.core.saga import Saga, evolve, unstarted
from amends.core.values import Json, SagaId, StepId
from amends.errors import UnknownSagaError
from amends.evidence.record import record
from amends.journal.attested import Checkpoint
from amends.journal.protocol import Entry, Journal

DrillsOf: TypeAlias = Callable[[Journal, Saga, int], Awaitable[Mapping[StepId, Json]]]
"""The last drill of each step's action, up to a moment."""


async def record_of(journal: Journal, saga: SagaId, drills: DrillsOf) -> dict[str, Json]:
    """Raises UnknownSagaError, or PayloadRemovedError where its entries were removed."""
    row = await journal.saga(saga)
    if row is None:
        raise UnknownSagaError(f"no saga has the id {saga}; `amends saga list` shows those that there are")
    state, entries = unstarted(row.id), list[Entry]()
    async for entry in journal.read(row.id):
        state = evolve(state, entry.event)
        entries.append(entry)
    drilled = await drills(journal, state, entries[-1].at if entries else row.started_at)
    return record(row, state, entries, await _covering(journal, row.id), drilled)


async def _covering(journal: Journal, saga: SagaId) -> Checkpoint | None:
    """The newest checkpoint, if nothing of the saga came after it."""
    newest = await journal.checkpoint()
    if newest is not None:
        async for stored in journal.stored(after=newest.size):
            if stored.saga == saga:
                return None
    return newest
