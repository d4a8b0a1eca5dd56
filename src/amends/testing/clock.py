"""A clock that stands still until a test moves it. Chance and ids repeat themselves from run to run."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from typing import Final

from amends.clock import spell_id

_START: Final = 1_700_000_000_000
_GOLDEN: Final = 0.618_033_988_749_894_9  # its multiples, less their whole part, never repeat and spread evenly


class ManualClock:
    """For one event loop. `advance` moves both clocks and wakes who has slept enough; `jump` sets the wall clock."""

    def __init__(self, now: int = _START, elapsed: float = 1_000.0) -> None:
        self._now = now
        self._elapsed = elapsed
        self._jitters = count(1)
        self._ids = count(1)
        self._naps = count(1)
        self._asleep: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> int:
        return self._now

    def elapsed(self) -> float:
        return self._elapsed

    def jitter(self) -> float:
        return next(self._jitters) * _GOLDEN % 1

    def new_id(self) -> str:
        return spell_id(self._now, next(self._ids).to_bytes(10))

    async def sleep(self, seconds: float) -> None:
        """Returns once the clock has been moved that far; at once for nothing."""
        if seconds > 0:
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._asleep, (self._elapsed + seconds, next(self._naps), woken))
            await woken

    def advance(self, seconds: float) -> None:
        self._now += round(seconds * 1000)
        self._elapsed += seconds
        while self._asleep and self._asleep[0][0] <= self._elapsed:
            _, _, woken = heapq.heappop(self._asleep)
            if not woken.done():  # else it was cancelled in its sleep
                woken.set_result(None)

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock, forwards or back; no time passes."""
        self._now += round(seconds * 1000)

    @property
    def sleepers(self) -> int:
        return sum(not woken.done() for _, _, woken in self._asleep)

    @property
    def next_wake_s(self) -> float | None:
        """How far to advance for the next one to wake; None where nobody sleeps."""
        wakes = [at for at, _, woken in self._asleep if not woken.done()]
        return max(0.0, min(wakes) - self._elapsed) if wakes else None
