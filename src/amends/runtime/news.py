"""Word that something of a run has changed, for whoever waits for that."""

from __future__ import annotations

import asyncio


class News:
    """An event that is made when somebody first waits: most runs never do, and each would take 800 bytes."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None

    def tell(self) -> None:
        """Whoever waits looks again."""
        if self._event is not None:
            self._event.set()

    def next(self) -> asyncio.Event:
        """Set by the first `tell` after this call."""
        if self._event is None:
            self._event = asyncio.Event()
        self._event.clear()
        return self._event
