"""Pages that people see, on everything that the server can do, which work without JavaScript."""

from __future__ import annotations

from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from amends.clock import SystemClock
from amends.http import problems
from amends.http.app import Served
from amends.http.console import (
    actions,
    approvals,
    evidence,
    filters,
    incidents,
    live,
    locks,
    login,
    notices,
    overview,
    people,
    policy,
    saga,
    sagas,
    workers,
)
from amends.http.console.oidc import OidcSettings, Provider
from amends.http.console.pages import STATIC, Guarded, page
from amends.http.console.proxy import TrustedProxy
from amends.http.console.session import Logins
from amends.http.console.visit import Console, title_of_status
from amends.runtime.drive.policies import Policies

__all__ = ["Logins", "routes"]
_ROOMS: Final = (
    *(login, overview, approvals, incidents, sagas, filters, saga, actions, policy),
    *(evidence, workers, locks, notices, people, live),
)


def routes(
    served: Served,
    logins: Logins,
    *,
    is_secure: bool,
    oidc: OidcSettings | None = None,
    proxy: TrustedProxy | None = None,
) -> list[BaseRoute]:
    """All routes of this room: an application of its own below every other one. `is_secure`: it is behind TLS."""
    made = Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=STATIC)),
            *(route for room in _ROOMS for route in room.routes()),
        ],
        exception_handlers={HTTPException: _not_here, Exception: _our_fault},
    )
    made.state.served = served
    journal, clock, root = served.coordinator.journal, SystemClock(), served.coordinator.settings.root
    policies = Policies(journal, clock, 0.0, root=root)
    made.state.console = Console(
        served=served,
        logins=logins,
        policies=policies,
        is_secure=is_secure,
        clock=clock,
        provider=None if oidc is None else Provider(oidc, clock),
        proxy=proxy,
    )
    return [Mount("/", Guarded(made))]  # around all of it, what answers for our faults too


async def _our_fault(_: Request, __: Exception) -> Response:
    """An error that nobody has foreseen; the log has it, and whoever asked learns nothing of it."""
    detail = (
        "The server could not do this, and its log says why. What you asked for may be on record all the same: look "
        "there before you ask for it again."
    )
    return page("trouble.html", 500, title=title_of_status(500), detail=detail, back="/")


async def _not_here(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException) or request.url.path.startswith("/v1/"):
        return await problems.of_http(request, error)
    detail = f"There is no page at {request.url.path}." if error.status_code == 404 else str(error.detail)
    return page("trouble.html", error.status_code, title=title_of_status(error.status_code), detail=detail, back="/")
