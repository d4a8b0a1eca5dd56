"""Sagas, incidents and what people are asked, as fields for a program: of the command line as of the server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Final

from amends.core.events import IncidentCommented, IncidentResolved, IncidentRetried
from amends.core.transitions import SagaStatus
from amends.journal.codec import shown_fields
from amends.journal.port.journal import ApprovalRow, Entry, IncidentRow, Journal, LeaseHolder, SagaRow
from amends.journal.port.locks import LockRow

if TYPE_CHECKING:
    from amends.runtime.coordinator.people import Approval
    from amends.runtime.engine.handle import Ended

DRIVEN: Final = frozenset({SagaStatus.RUNNING, SagaStatus.ROLLING_BACK})
MAY_BE_DRIVEN: Final = DRIVEN | {SagaStatus.WAITING, SagaStatus.PAUSED}


def is_left(row: SagaRow, driver: LeaseHolder | None) -> bool:
    """Whether a saga should be going and nobody drives it."""
    return row.status in DRIVEN and (driver is None or driver.is_gone)


async def driven(journal: Journal, rows: Iterable[SagaRow]) -> list[tuple[SagaRow, LeaseHolder | None]]:
    """Rows with who drives each. One that seems to be left is looked at once more: it may have ended meanwhile."""
    asked = list(rows)
    found = await journal.drivers([row.id for row in asked])
    return [await _settled(journal, row, found.get(row.id)) for row in asked]


async def _settled(journal: Journal, row: SagaRow, driver: LeaseHolder | None) -> tuple[SagaRow, LeaseHolder | None]:
    while is_left(row, driver):
        newest = await journal.saga(row.id)
        if newest is None or newest == row:
            break
        row, driver = newest, (await journal.drivers((row.id,))).get(row.id)
    return row, driver


def saga_fields(row: SagaRow, driver: LeaseHolder | None = None) -> dict[str, object]:
    """`status` is the journal's word; `driver` says whether anybody is at it."""
    return {**asdict(row), "driver": driver_fields(row, driver)}


def driver_fields(row: SagaRow, driver: LeaseHolder | None) -> dict[str, object] | None:
    """None where nothing is to be driven."""
    if row.status not in MAY_BE_DRIVEN:
        return None
    if driver is None:
        return {"state": "none", "worker": None, "pid": None, "until_at": None}
    state = "gone" if driver.is_gone else "drives"
    return {"state": state, "worker": driver.worker, "pid": driver.pid or None, "until_at": driver.until_at}


def approval_fields(row: ApprovalRow) -> dict[str, object]:
    return asdict(row)


def incident_fields(row: IncidentRow, entries: Iterable[Entry] = ()) -> dict[str, object]:
    """With who closed it, why, and what proves it, where the entries say so; null while it is open."""
    closed: dict[str, object] = {"resolver": None, "reason": None, "proof": None}
    for entry in entries:
        event = None if entry.is_removed else entry.event
        if isinstance(event, (IncidentResolved, IncidentRetried)) and event.incident == row.number:
            reason, proof = getattr(event, "reason", None), getattr(event, "proof", None)
            closed = {"resolver": event.by, "reason": reason, "proof": proof or None}
    return {**asdict(row), **closed}


def lock_fields(row: LockRow) -> dict[str, object]:
    return asdict(row)


def ended_fields(ended: Ended) -> dict[str, object]:
    shown: dict[str, object] = {field.name: getattr(ended, field.name) for field in fields(ended) if field.repr}
    return {**shown, "result": ended.recorded}


def entry_fields(entry: Entry) -> dict[str, object]:
    return {
        "saga": entry.saga,
        "number": entry.number,
        "at": entry.at,
        "name": entry.name,
        "body": None if entry.is_removed else shown_fields(entry.body, entry.event),
        "hash": entry.hash.hex(),
    }


def asking_fields(asked: Approval) -> dict[str, object]:
    from amends.runtime.coordinator.people import lacking

    return {**asdict(asked), "compensation": asked.compensation, "lacking": lacking(asked)}


def comments(row: IncidentRow, entries: Iterable[Entry]) -> Iterator[tuple[int, IncidentCommented]]:
    """Remarks of people on it, and when, oldest first."""
    for entry in entries:
        event = entry.event
        if isinstance(event, IncidentCommented) and event.incident == row.number:
            yield entry.at, event
