"""Whether the server lives, and whether it can take work now: for whoever starts it and for what stands before it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from amends.core.words.values import CONTROL, SagaId
from amends.errors import AmendsError
from amends.http.app import Served, served_by
from amends.http.problems import problem


async def live(_: Request) -> Response:
    """Answers as long as the process does; asks nobody."""
    return JSONResponse({"status": "live"})


async def ready(request: Request) -> Response:
    """Answers 200 where the journal can be read and the server takes new requests."""
    why_not = await what_is_wrong(served_by(request))
    return problem(503, why_not) if why_not else JSONResponse({"status": "ready"})


async def what_is_wrong(served: Served) -> str:
    """Why no work is to be sent here now; '' where it is."""
    if served.stopping.is_set():
        return "the server is stopping; ask another one, or again once it has started"
    try:
        await served.coordinator.journal.saga(SagaId(CONTROL))
    except AmendsError as exc:
        return f"the journal cannot be read: {exc}"
    return ""


def routes() -> list[BaseRoute]:
    return [Route("/health/live", live), Route("/health/ready", ready)]
