"""Whether the server lives, and whether it can take work now: for whoever starts it and for what stands before it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from amends.core.words.values import CONTROL, SagaId
from amends.errors import AmendsError
from amends.http.app import served_by
from amends.http.problems import problem


async def live(_: Request) -> Response:
    """Answers as long as the process does; asks nobody."""
    return JSONResponse({"status": "live"})


async def ready(request: Request) -> Response:
    """Answers 200 where the journal can be read and the server takes new requests."""
    served = served_by(request)
    if served.stopping.is_set():
        return problem(503, "the server is stopping; ask another one, or again once it has started")
    try:
        await served.coordinator.journal.saga(SagaId(CONTROL))
    except AmendsError as exc:
        return problem(503, f"the journal cannot be read: {exc}")
    return JSONResponse({"status": "ready"})


def routes() -> list[BaseRoute]:
    return [Route("/health/live", live), Route("/health/ready", ready)]
