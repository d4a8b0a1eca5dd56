"""Incidents: the list, and one of them with what stands, what was tried, and the ways out of it."""

from __future__ import annotations

from typing import Any, Final, cast
from urllib.parse import quote

from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from amends.core.decide.incidents import may_be_doubled
from amends.core.plan import unmitigated
from amends.core.state.saga import Incident, Saga
from amends.errors import AmendsError, InputError
from amends.evidence import pages
from amends.evidence.report import HAPPENED
from amends.evidence.story.timeline import timeline
from amends.http.callers import Scope
from amends.http.console.signing import proved
from amends.http.console.visit import Visit, decided, shown
from amends.http.console.ways import ways_of
from amends.http.problems import status_of
from amends.journal.port.journal import IncidentRow, PersonQuery
from amends.operate.reading import history
from amends.runtime.coordinator.report import find_incident
from amends.runtime.drive.roster import Proof
from amends.runtime.files.topics import RECOVERY

_PAGE: Final = 50
_KINDS_OF_FILE: Final = {
    "html": ("text/html; charset=utf-8", pages.html),
    "markdown": ("text/markdown; charset=utf-8", pages.markdown),
}


def path_of(incident: str) -> str:
    return f"/incidents/{quote(incident, safe='/')}"


async def _list(visit: Visit) -> Response:
    is_all = visit.asked["show"] == "all"
    query = PersonQuery(open_only=not is_all, after=visit.asked["after"] or None, limit=_PAGE)
    found = await visit.journal.incidents(query)
    return await visit.show("incidents.html", rows=found.rows, cursor=found.cursor, is_all=is_all, happened=HAPPENED)


async def _one(visit: Visit) -> Response:
    kind = visit.asked["report"]
    return await _report(visit, kind) if kind else await _show(visit, visit.named("id"))


async def _show(visit: Visit, name: str, status: int = 200, trouble: str = "") -> Response:
    row = await find_incident(visit.journal, name)
    report = cast("dict[str, Any]", await visit.coordinator.incident_report(name))
    of = await visit.journal.saga(row.saga)
    is_gone = of is None or of.pruned
    state, entries = (None, ()) if is_gone else await history(visit.journal, row.saga)
    found = None if state is None else next((one for one in state.incidents if one.number == row.number), None)
    about = [entry for entry in entries if getattr(entry.event, "step", None) in ({row.step} if row.step else row.left)]
    tried = {entry.number for entry in about}
    form = visit.form
    return await visit.show(
        "incident.html",
        status,
        row=row,
        report=report,
        happened=HAPPENED[row.kind],
        ways=() if found is None or state is None or row.status != "open" else _ways(row, state, found),
        doubtful=None if found is None or state is None or row.status != "open" else may_be_doubled(state, found),
        tried=[line for line in timeline(entries) if line.entry in tried][-20:],
        saga_status="" if of is None else str(of.status),
        trouble=trouble,
        reason=form["reason"],
        proof=form["proof"],
        text=form["text"],
        is_mine=row.owner == visit.who,
        is_about_people=row.definition == RECOVERY,
    )


def _ways(row: IncidentRow, state: Saga, found: Incident) -> object:
    is_past = state.pivot is not None and not state.mitigated_by
    return ways_of(
        row.kind,
        row.definition,
        may_double=may_be_doubled(state, found) is not None,
        may_mitigate=is_past and not unmitigated(state),
    )


async def _report(visit: Visit, kind: str) -> Response:
    report = await visit.coordinator.incident_report(visit.named("id"))
    name = visit.named("id").replace("/", "-")
    if kind == "json":
        return JSONResponse(report, headers=_attached(f"incident-{name}.json"))
    if kind not in _KINDS_OF_FILE:
        raise InputError(f"report={kind} is not offered; there are html, markdown and json")
    media_type, page_of = _KINDS_OF_FILE[kind]
    ending = "md" if kind == "markdown" else kind
    return Response(page_of(report), media_type=media_type, headers=_attached(f"incident-{name}.{ending}"))


def _attached(name: str) -> dict[str, str]:
    return {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


# -- deciding ---------------------------------------------------------------------------------------------------------


async def _decide(visit: Visit) -> Response:
    name = visit.named("id")
    try:
        told = await _do(visit, name)
    except AmendsError as exc:
        return await _show(visit, name, status_of(exc), trouble=str(exc))
    if isinstance(told, Response):
        return told
    visit.tell(told)
    return visit.go(path_of(name))


async def _do(visit: Visit, name: str) -> str | Response:
    form, coordinator = visit.form, visit.coordinator
    row = await find_incident(visit.journal, name)
    match form["do"]:
        case "retry" | "let_run" | "mitigate" | "repeat" as how:
            answered = await proved(visit, lambda proof: _retry(visit, name, how, proof))
            return answered if isinstance(answered, Response) else _told(answered)
        case "resolve":
            if not form["reason"].strip():
                raise InputError("say what was done by hand: it goes on record, in your name")
            answered = await proved(visit, lambda proof: _resolve(visit, name, proof))
            return answered if isinstance(answered, Response) else f"You vouched for it. {_told(answered)}"
        case "cancel":
            why = f"incident {name}: taken back"
            ended = await proved(visit, lambda proof: coordinator.cancel(row.saga, why=why, by=visit.who, proof=proof))
            return ended if isinstance(ended, Response) else _told(str(ended.status))
        case "raise":
            answered = await proved(visit, lambda proof: _raise(visit, row, proof))
            return answered if isinstance(answered, Response) else _told(answered)
        case "assign":
            owner = form["owner"].strip() or visit.who
            await coordinator.assign_incident(name, owner=owner, by=visit.who)
            return f"{owner} sees to it."
        case "comment":
            if not form["text"].strip():
                raise InputError("the remark is empty; say what whoever looks next should know")
            await coordinator.comment_incident(name, text=form["text"].strip(), by=visit.who)
            return "The remark is on record."
        case _:
            raise InputError("the form does not say what to do; load the page again")


async def _retry(visit: Visit, name: str, how: str, proof: Proof | None) -> str:
    ended = await visit.coordinator.retry_incident(
        name,
        by=visit.who,
        let_run=how == "let_run",
        mitigate=how == "mitigate",
        repeat=how == "repeat",
        proof=proof,
    )
    return str(ended.status)


async def _resolve(visit: Visit, name: str, proof: Proof | None) -> str:
    form = visit.form
    ended = await visit.coordinator.resolve_incident(
        name, reason=form["reason"].strip(), by=visit.who, proof=form["proof"].strip(), signed=proof
    )
    return str(ended.status)


async def _raise(visit: Visit, row: IncidentRow, proof: Proof | None) -> str:
    ended = await visit.coordinator.raise_limit(row.saga, why=f"incident {row.id}", by=visit.who, proof=proof)
    return str(ended.status)


def _told(status: str) -> str:
    stands = status.replace("_", " ")
    return f"It is on record; the saga is {stands} now, and goes on where a worker knows it."


def routes() -> list[BaseRoute]:
    return [
        shown("/incidents", _list),
        shown("/incidents/{id:path}", _one),
        decided("/incidents/{id:path}", _decide, Scope.DECIDE),
    ]
