"""Errands: small pieces of work that an engine has under way beside its sagas, and that end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from amends.runtime.logs import logger

_log = logger("amends.engine")
_Made = TypeVar("_Made")


class Errands:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def run(self, work: Coroutine[Any, Any, object]) -> None:
        _ = self.begin(work)

    def begin(self, work: Coroutine[Any, Any, _Made]) -> asyncio.Task[_Made]:
        """Run it, for whoever wants to know how it ended."""
        errand = asyncio.ensure_future(work)
        self._running.add(errand)
        errand.add_done_callback(self._done)
        return errand

    def _done(self, errand: asyncio.Task[Any]) -> None:
        self._running.discard(errand)
        if not errand.cancelled() and errand.exception() is not None:
            _log.error("an errand of the engine failed", exc_info=errand.exception())

    async def wait(self, most_s: float) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=most_s)

    async def cancel(self) -> None:
        await cancelled(tuple(self._running))


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these, and wait until they have ended."""
    tasks = tuple(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
