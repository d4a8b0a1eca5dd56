"""One saga's record, read from a journal."""

from __future__ import annotations

from amends.core.saga import evolve, unstarted
from amends.core.values import Json, SagaId
from amends.errors import UnknownSagaError
from amends.evidence.record import record
from amends.journal.attested import Checkpoint
from amends.journal.protocol import Entry, Journal


async def record_of(journal: Journal, saga: SagaId) -> dict[str, Json]:
    """Raises UnknownSagaError, or PayloadRemovedError where its entries were removed."""
    row = await journal.saga(saga)
    if row is None:
        raise UnknownSagaError(f"no saga has the id {saga}; `amends saga list` shows those that there are")
    state, entries = unstarted(row.id), list[Entry]()
    async for entry in journal.read(row.id):
        state = evolve(state, entry.event)
        entries.append(entry)
    return record(row, state, entries, await _covering(journal, row.id))


async def _covering(journal: Journal, saga: SagaId) -> Checkpoint | None:
    """The newest checkpoint, if nothing of the saga came after it."""
    newest = await journal.checkpoint()
    if newest is not None:
        async for stored in journal.stored(after=newest.size):
            if stored.saga == saga:
                return None
    return newest
