"""Turns at claiming: sagas by name side by side, each for one asker at a time; whatever is due, alone.

Two claims of one saga at once would take it from each other. Of different sagas they go side by side, so that what
wakes together, a thousand signals or as many sleeps that are over, shares its commits; not more than so many, or all of
them would be in memory before the first is done. A claim on whatever is due may find any saga, so nobody else claims
meanwhile: it waits for those who are at it, and who comes later waits for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from amends.core.words.values import SagaId

SIDE_BY_SIDE: Final = 256


class Claims:
    def __init__(self) -> None:
        self._seats = asyncio.Semaphore(SIDE_BY_SIDE)
        self._gate = asyncio.Lock()
        self._turns: dict[SagaId, _Turn] = {}
        self._in_line: Counter[SagaId] = Counter()
        self._quiet = asyncio.Event()
        self._quiet.set()

    @asynccontextmanager
    async def of(self, saga: SagaId) -> AsyncGenerator[None]:
        """This one, whatever happens to others meanwhile. A second asker comes when the first is through."""
        self._in_line[saga] += 1
        try:
            async with self._seats, self._turn(saga):
                yield
        finally:
            self._in_line[saga] -= 1
            if not self._in_line[saga]:
                del self._in_line[saga]

    def is_in_line(self, saga: SagaId) -> bool:
        """Whether somebody is claiming it, or about to."""
        return saga in self._in_line

    @asynccontextmanager
    async def _turn(self, saga: SagaId) -> AsyncGenerator[None]:
        async with self._gate:
            self._quiet.clear()
            turn = self._turns.setdefault(saga, _Turn())
            turn.askers += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.askers -= 1
            if not turn.askers:
                del self._turns[saga]
            if not self._turns:
                self._quiet.set()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Whatever there is: nobody else claims anything until this is over."""
        async with self._gate:
            await self._quiet.wait()
            yield


class _Turn:
    __slots__ = ("askers", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.askers = 0
