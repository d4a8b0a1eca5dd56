"""What `amends resume` did not take up, and why: people are asked, another process drives it, nobody here knows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Final

from amends.bootstrap import Coordinator
from amends.cli.hints import modules_for, read_begun
from amends.cli.options import command
from amends.cli.output import Output, hint
from amends.core.declared import declared_in
from amends.core.transitions import SagaStatus
from amends.evidence.timeline import visible
from amends.journal.protocol import Journal, SagaQuery, SagaRow
from amends.runtime.handle import Ended

_GOING: Final = (SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.ROLLING_BACK)
_NAMED: Final = 20


async def tell_left(coordinator: Coordinator, resumed: Iterable[Ended], journal: str, out: Output) -> int:
    """Name what was not taken up; how many of them are not known here, and would be due as far as can be seen."""
    known, told = coordinator.registry.resumable_names(), {ended.id for ended in resumed}
    unknown, more = 0, 0
    async for row, is_driven in _going(coordinator.journal):
        if row.id in told:
            continue
        is_unknown = not is_driven and not row.open_approvals and f"{row.definition}/{row.version}" not in known
        unknown += is_unknown
        told.add(row.id)
        if len(told) > _NAMED:
            more += 1
        elif is_unknown:
            await _tell_unknown(coordinator.journal, row, journal, out)
        else:
            await _tell_waiting(coordinator, row, journal)
    if more:
        hint(f"and {more} more: {visible(command(journal, 'saga', 'list', '--all'))}")
    return unknown


async def _going(journal: Journal) -> AsyncIterator[tuple[SagaRow, bool]]:
    query = SagaQuery(statuses=_GOING, limit=200)
    while True:
        page = await journal.sagas(query)
        drivers = await journal.drivers([row.id for row in page.rows])
        for row in page.rows:
            driver = drivers.get(row.id)
            yield row, driver is not None and not driver.is_gone
        if page.cursor is None:
            return
        query = replace(query, before=page.cursor)


async def _tell_unknown(journal: Journal, row: SagaRow, address: str, out: Output) -> None:
    begun = await read_begun(journal, row.id)
    module = declared_in(begun)
    out.record("left", {"saga": row.id, "definition": row.definition, "status": row.status, "module": module or None})
    again = command(address, "resume", *(modules_for(begun) or ((module,) if module else ())))
    hint(f"{_name(row)} is left {row.status}: no module named here declares it; go on with: {visible(again)}")


async def _tell_waiting(coordinator: Coordinator, row: SagaRow, address: str) -> None:
    if row.status is not SagaStatus.WAITING:
        hint(f"{_name(row)} is left {row.status}: another process drives it")
    elif not row.open_approvals:
        hint(f"{_name(row)} waits: {visible(command(address, 'saga', 'show', row.id))}")
    for approval in await coordinator.approvals(saga=row.id) if row.open_approvals else ():
        hint(f"{_name(row)} waits for people: {visible(command(address, 'approval', 'show', approval.id))}")


def _name(row: SagaRow) -> str:
    return f"saga {visible(row.id)} ({visible(row.definition)})"
