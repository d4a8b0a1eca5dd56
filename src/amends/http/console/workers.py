"""Workers, which drive sagas, and the pauses that hold all of them back."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.errors import AmendsError, InputError
from amends.http.callers import Scope
from amends.http.console.signing import proved
from amends.http.console.visit import Visit, decided, shown
from amends.http.problems import status_of
from amends.runtime.coordinator.control import Rollbacks


async def _page(visit: Visit) -> Response:
    return await _show(visit)


async def _show(visit: Visit, status: int = 200, trouble: str = "") -> Response:
    rows = await visit.journal.workers()
    return await visit.show(
        "workers.html", status, rows=rows, pauses=await visit.coordinator.paused(), trouble=trouble, form=visit.form
    )


async def _pause(visit: Visit) -> Response:
    form = visit.form
    try:
        if not form["why"].strip():
            raise InputError("say why: whoever finds it paused wants to know")
        rollbacks: Rollbacks = "stop" if form["rollbacks"] == "stop" else "go_on"
        await visit.coordinator.pause(
            topic=form["topic"].strip(),
            definition=form["definition"].strip(),
            tenant=form["tenant"].strip(),
            why=form["why"].strip(),
            by=visit.who,
            rollbacks=rollbacks,
        )
    except AmendsError as exc:
        return await _show(visit, status_of(exc), trouble=str(exc))
    visit.tell("Paused: nothing of this is dispatched any more, in any process. What is in flight ends.")
    return visit.go("/workers")


async def _unpause(visit: Visit) -> Response:
    form = visit.form
    try:
        answered = await proved(
            visit,
            lambda proof: visit.coordinator.unpause(
                topic=form["topic"],
                definition=form["definition"],
                tenant=form["tenant"],
                why=form["why"].strip(),
                by=visit.who,
                proof=proof,
            ),
        )
    except AmendsError as exc:
        return await _show(visit, status_of(exc), trouble=str(exc))
    if isinstance(answered, Response):
        return answered
    visit.tell("The pause is over: sagas that it held go on.")
    return visit.go("/workers")


def routes() -> list[BaseRoute]:
    return [
        shown("/workers", _page),
        decided("/workers/pause", _pause, Scope.ADMIN),
        decided("/workers/unpause", _unpause, Scope.ADMIN),
    ]
