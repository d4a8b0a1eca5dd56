"""Locks: who holds which resource, and who stands in line for it."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.http.console.visit import Visit, shown
from amends.journal.port.locks import LockQuery

_PAGE: Final = 100


async def _list(visit: Visit) -> Response:
    resource = visit.asked["resource"].strip()
    query = LockQuery(resource=resource or None, after=visit.asked["after"] or None, limit=_PAGE)
    found = await visit.journal.locks(query)
    return await visit.show("locks.html", rows=found.rows, cursor=found.cursor, resource=resource)


def routes() -> list[BaseRoute]:
    return [shown("/locks", _list)]
