"""Incidents over HTTP: what needs a person, and what people do about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from starlette.responses import Response

from amends.core import events as e
from amends.core.words.values import SagaId
from amends.http.api.operations import At, Leaves, Operation, get, post
from amends.http.api.sagas import checked_limit
from amends.http.api.shapes import SOME_OBJECT, TEXT, many, maybe, page, shape
from amends.http.api.signing import decided, of_incident
from amends.http.callers import Scope
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


async def resolve_incident(at: At, saga: str, number: str, *, reason: str, proof: str = "", signed: str = "") -> object:
    """Vouch for what an incident stopped at: it was seen to by hand. The saga then goes on without it.

    `proof`: where others can see that it was. `signed`: as `proof` of a grant.
    """
    name, by = f"{saga}/{number}", at.caller.name
    answered = await decided(
        lambda given: at.coordinator.resolve_incident(
            name, reason=reason, by=by, proof=proof, signed=given, wait=False
        ),
        signed,
    )
    return answered if isinstance(answered, Response) else await told(at, name)


async def retry_incident(
    at: At,
    saga: str,
    number: str,
    *,
    let_run: bool = False,
    mitigate: bool = False,
    repeat: bool = False,
    proof: str = "",
) -> object:
    """Try again what an incident stopped at.

    `let_run`: the compensation too that the gate refused, which a person takes on themselves; `mitigate`: past the
    pivot; `repeat`: once more a step of which an attempt was lost, which may then take effect twice.
    """
    name, by = f"{saga}/{number}", at.caller.name
    answered = await decided(
        lambda given: at.coordinator.retry_incident(
            name, by=by, let_run=let_run, mitigate=mitigate, repeat=repeat, proof=given, wait=False
        ),
        proof,
    )
    return answered if isinstance(answered, Response) else await told(at, name)


async def comment_incident(at: At, saga: str, number: str, *, text: str) -> object:
    """Put a remark on record, for whoever looks next."""
    name = f"{saga}/{number}"
    await at.coordinator.comment_incident(name, text=text, by=at.caller.name)
    return await told(at, name)


async def assign_incident(at: At, saga: str, number: str, *, owner: str) -> object:
    """Say who sees to it."""
    name = f"{saga}/{number}"
    await at.coordinator.assign_incident(name, owner=owner, by=at.caller.name)
    return await told(at, name)


async def _shown(at: At, saga: str, number: str, **_: object) -> object:
    return await told(at, f"{saga}/{number}")


def _leaves(event: type[object]) -> Leaves:
    return Leaves(events=(event,), shows=_shown, fits=of_incident)


def operations() -> tuple[Operation, ...]:
    one = "/incidents/{saga}/{number}"
    shown = shape(IncidentRow, **_CLOSED, comments=many(SOME_OBJECT))
    return (
        get("/incidents", list_incidents, page(INCIDENT)),
        get(one, show_incident, shown),
        get(f"{one}/report", report_incident, SOME_OBJECT),
        post(f"{one}/resolve", resolve_incident, shown, scope=Scope.DECIDE, leaves=_leaves(e.IncidentResolved)),
        post(f"{one}/retry", retry_incident, shown, scope=Scope.DECIDE, leaves=_leaves(e.IncidentRetried)),
        post(f"{one}/comment", comment_incident, shown, scope=Scope.DECIDE, leaves=_leaves(e.IncidentCommented)),
        post(f"{one}/assign", assign_incident, shown, scope=Scope.DECIDE, leaves=_leaves(e.IncidentAssigned)),
    )
