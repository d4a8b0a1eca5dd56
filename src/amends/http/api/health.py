"""Health over HTTP, for callers: whether this server takes work, and which version it is."""

from __future__ import annotations

from amends import __version__
from amends.http.api.operations import At, Operation, get
from amends.http.api.shapes import TEXT, WHOLE, record
from amends.http.health import what_is_wrong
from amends.http.problems import problem


async def show_health(at: At) -> object:
    """Say whether the server takes work now: 503 where it is stopping, or cannot read its journal.

    `/health/live` and `/health/ready` say it without a token.
    """
    if why_not := await what_is_wrong(at.served):
        return problem(503, why_not)
    return {"status": "ready", "version": __version__, "position": at.served.feed.position}


def operations() -> tuple[Operation, ...]:
    return (get("/health", show_health, record(status=TEXT, version=TEXT, position=WHOLE), scope=None),)
