"""Pages that people see, on everything that the server can do, which work without JavaScript."""

from __future__ import annotations

from starlette.routing import BaseRoute


def routes() -> list[BaseRoute]:
    """All routes of this room."""
    return []
