"""Wiring of the server: routes, who is let in, and how errors look. Nothing here knows what a route does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope as AsgiScope, Send

from amends.dataclass import dataclass
from amends.errors import AmendsError
from amends.http import problems
from amends.http.bearer import BearerTokens
from amends.http.callers import Caller, UnknownCallerError
from amends.http.feed import Feed
from amends.http.keys import Keys
from amends.http.sessions import OpenSessions
from amends.http.tasks import Tasks

if TYPE_CHECKING:
    from amends.bootstrap import Coordinator

Recognise = Callable[[HTTPConnection], Awaitable[Caller | None]]
"""The caller that a connection is from; None where nobody known. Raises UnknownCallerError for a bad token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The things that routes work on: `request.app.state.served`."""

    coordinator: Coordinator
    journal: str
    """The journal's address, without what is secret in it."""
    url: str
    """Where people reach this server, for links."""
    environments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Other words for environments, beside the policy's: as the coordinator has them."""
    tokens: BearerTokens
    keys: Keys
    """The requests that were sent before, and what became of them."""
    feed: Feed
    """The entries of the journal as they come, of whoever writes them."""
    tasks: Tasks
    """The calls that others make for the sagas of this server."""
    sessions: OpenSessions
    """The sessions that are open through this server."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the server is told to stop: whoever streams ends the stream."""


def make_app(served: Served, routes: Sequence[BaseRoute], *, recognise: Sequence[Recognise]) -> Starlette:
    app = Starlette(
        routes=list(routes),
        middleware=[Middleware(Door, recognise=recognise)],
        exception_handlers={
            AmendsError: problems.of_ours,
            HTTPException: problems.of_http,
            Exception: problems.of_bug,
        },
    )
    app.state.served = served
    return app


def served_by(request: Request) -> Served:
    found: Served = request.app.state.served
    return found


class Door:
    """Asks each way to know a caller in turn, and puts the first answer where `caller_of` finds it."""

    def __init__(self, app: ASGIApp, recognise: Sequence[Recognise]) -> None:
        self._app = app
        self._recognise = recognise

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for recognise in self._recognise:
                try:
                    caller = await recognise(HTTPConnection(scope))
                except UnknownCallerError as exc:
                    await (await problems.of_ours(Request(scope), exc))(scope, receive, send)
                    return
                if caller is not None:
                    scope["amends.caller"] = caller
                    break
        await self._app(scope, receive, send)
