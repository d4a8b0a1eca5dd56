"""Routes that programs use: `/v1`, one module a resource; the document of it is made from the code."""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from amends.http.api import (
    approvals,
    events,
    evidence,
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
from amends.runtime.values.schema import Schema

_ROOMS: Final = (
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
    return [*(one.route() for one in operations()), Route(f"{PREFIX}/openapi.json", show_document)]
