"""Routes that programs use: `/v1`, one module a resource; the document of it is made from the code."""

from __future__ import annotations

from starlette.routing import BaseRoute


def routes() -> list[BaseRoute]:
    """All routes of this room."""
    return []
