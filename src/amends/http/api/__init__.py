"""Routes that programs use: `/v1`, one module a resource; the document of it is made from the code."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from itertools import chain
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from amends.http.api import (
    approvals,
    caller,
    events,
    evidence,
    health,
    incidents,
    lists,
    metrics,
    pauses,
    policies,
    sagas,
    sessions,
    tasks,
    tokens,
)
from amends.http.api.openapi import described
from amends.http.api.operations import PREFIX, Operation
from amends.http.problems import problem
from amends.runtime.values.schema import Schema

_ROOMS: Final = (
    caller,
    sagas,
    sessions,
    tasks,
    approvals,
    incidents,
    pauses,
    policies,
    evidence,
    lists,
    events,
    health,
    metrics,
    tokens,
)


def operations() -> tuple[Operation, ...]:
    return tuple(chain.from_iterable(room.operations() for room in _ROOMS))


@cache
def document() -> Schema:
    """The whole API in OpenAPI 3.1."""
    return described(operations())


async def show_document(_: Request) -> Response:
    """Everybody may read what there is to ask; what it says of this journal is nothing."""
    return JSONResponse(document())


def routes() -> list[BaseRoute]:
    """All routes of this room."""
    known = operations()
    methods: dict[str, set[str]] = {f"{PREFIX}/openapi.json": {"GET"}}
    for one in known:
        methods.setdefault(one.path, set()).add(one.method)
    others = [Route(path, OtherMethods(names)) for path, names in methods.items()]
    return [*(one.route() for one in known), Route(f"{PREFIX}/openapi.json", show_document), *others]


class OtherMethods:
    """Answers what is asked of a path by a method that it does not have."""

    def __init__(self, methods: Collection[str]) -> None:
        self._allowed = ", ".join(sorted({*methods, *({"HEAD"} if "GET" in methods else ())}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"{scope['method']} is nothing that can be done here; it takes {self._allowed}"
        await problem(405, detail, headers={"Allow": self._allowed})(scope, receive, send)
