"""An incident's report, read from a journal: the incident, its saga, its family, and what attests it."""

from __future__ import annotations

from typing import Final

from amends.core.state.saga import evolve, unstarted
from amends.core.words.values import Json, SagaId
from amends.errors import UnknownIncidentError
from amends.journal.port.evidence import TreeHead
from amends.journal.port.journal import Entry, IncidentRow, Journal, PersonQuery, SagaQuery, SagaRow

_MOST_KIN: Final = 200
_MOST: Final = 1000


async def incident_report(journal: Journal, incident: str, *, address: str = "") -> dict[str, Json]:
    """The report as data, as `evidence.incidents` makes it. `address` is named in its commands.

    Raises UnknownIncidentError.
    """
    from amends.evidence.report import ReportMaterial, report

    row = await find_incident(journal, incident)
    of = await journal.saga(row.saga)
    if of is None:
        raise UnknownIncidentError(f"no incident has the id {incident}: its saga is not on record")
    state, entries = unstarted(row.saga), list[Entry]()
    async for entry in journal.read(row.saga):
        state = state if of.pruned or entry.is_removed else evolve(state, entry.event)
        entries.append(entry)
    is_gone = of.pruned or any(entry.is_removed for entry in entries)
    checkpoint, signers = await journal.tree_head(), await journal.signers()
    return report(
        ReportMaterial(
            row=row,
            of=of,
            saga=None if is_gone else state,
            entries=entries,
            family=await _family(journal, of),
            checkpoint=checkpoint,
            covers=checkpoint is not None and await _covers(journal, checkpoint, row),
            signer=signers[-1] if signers else None,
            journal=address,
        )
    )


async def find_incident(journal: Journal, incident: str) -> IncidentRow:
    """Raises UnknownIncidentError, with the nearest that there is."""
    saga = SagaId(incident.rpartition("/")[0] or incident)
    page = await journal.incidents(PersonQuery(open_only=False, saga=saga, limit=_MOST))
    for row in page.rows:
        if row.id == incident:
            return row
    near = f"did you mean {page.rows[-1].id}?" if page.rows else "`amends incident list --all` shows those there are"
    raise UnknownIncidentError(f"no incident has the id {incident}; {near}")


async def _covers(journal: Journal, checkpoint: TreeHead, row: IncidentRow) -> bool:
    async for stored in journal.stored(after=checkpoint.size):
        if stored.saga == row.saga:
            return False
    return True


async def _family(journal: Journal, of: SagaRow) -> list[SagaRow]:
    """Its children and theirs, oldest first at each depth."""
    found, above = list[SagaRow](), [of]
    while above and len(found) < _MOST_KIN:
        query = SagaQuery(parent=above.pop(0).id, limit=_MOST_KIN)
        children = [*reversed((await journal.sagas(query)).rows)]
        found += children
        above += children
    return found[:_MOST_KIN]
