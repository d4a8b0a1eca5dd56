"""Incidents over HTTP: what needs a person."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from amends.core.words.values import SagaId
from amends.http.api.operations import At, Operation, get
from amends.http.api.sagas import checked_limit
from amends.http.api.shapes import SOME_OBJECT, TEXT, many, maybe, page, shape
from amends.journal.port.journal import IncidentRow, PersonQuery
from amends.operate.fields import comments, incident_fields
from amends.operate.reading import history
from amends.runtime.coordinator.report import find_incident

_CLOSED: Final = {"resolver": maybe(TEXT), "reason": maybe(TEXT), "proof": maybe(TEXT)}
INCIDENT: Final = shape(IncidentRow, **_CLOSED)


async def list_incidents(
    at: At, *, every: bool = False, saga: str | None = None, limit: int = 50, page: str | None = None
) -> object:
    """List what needs a person, oldest first.

    `every`: those too that are closed; who closed one is told where it is shown alone.
    """
    of = None if saga is None else SagaId(saga)
    found = await at.journal.incidents(
        PersonQuery(open_only=not every, saga=of, after=page, limit=checked_limit(limit))
    )
    return {"items": [incident_fields(row) for row in found.rows], "next": found.cursor}


async def show_incident(at: At, saga: str, number: str) -> object:
    """Show one incident, how it was closed, and what people said about it."""
    return await told(at, f"{saga}/{number}")


async def told(at: At, incident: str) -> dict[str, object]:
    row = await find_incident(at.journal, incident)
    _, entries = await history(at.journal, row.saga)
    said = [{**asdict(event), "at": when} for when, event in comments(row, entries)]
    return {**incident_fields(row, entries), "comments": said}


async def report_incident(at: At, saga: str, number: str) -> object:
    """Report one incident, to hand on: what happened, what stands, who decided, and what attests it."""
    return await at.coordinator.incident_report(f"{saga}/{number}")


def operations() -> tuple[Operation, ...]:
    shown = shape(IncidentRow, **_CLOSED, comments=many(SOME_OBJECT))
    return (
        get("/incidents", list_incidents, page(INCIDENT)),
        get("/incidents/{saga}/{number}", show_incident, shown),
        get("/incidents/{saga}/{number}/report", report_incident, SOME_OBJECT),
    )
