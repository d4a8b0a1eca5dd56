"""Notices: who outside is told of what, how far each has come, and what could not be delivered."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.http.console.visit import Visit, shown
from amends.notify.progress import target_statuses


async def _list(visit: Visit) -> Response:
    return await visit.show(
        "notices.html", targets=await target_statuses(visit.journal), size=(await visit.journal.tree()).size
    )


def routes() -> list[BaseRoute]:
    return [shown("/notices", _list)]
