"""A clock that makes nobody wait: what the runtime would sleep through is skipped, and time goes on from there.

It stands on the machine's own clock, in any event loop, and leaves users' code alone: their timers and timeouts are
real, and while one of their functions is under way nothing is skipped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Final

from amends.clock import SystemClock

_TURNS: Final = 8
"""How often the loop goes round before it counts as having nothing else to do."""
_GLANCE_S: Final = 0.002


class HurriedClock:
    def __init__(self) -> None:
        self._system = SystemClock()
        self._skipped_s = 0.0
        self._under_way = 0
        self._asleep: list[float] = []

    def now(self) -> int:
        return self._system.now() + round(self._skipped_s * 1000)

    def elapsed(self) -> float:
        return self._system.elapsed() + self._skipped_s

    def jitter(self) -> float:
        return 0.0

    def new_id(self) -> str:
        return self._system.new_id()

    def skip(self, seconds: float) -> None:
        self._skipped_s += max(0.0, seconds)

    @contextlib.contextmanager
    def real_time(self) -> Generator[None]:
        """While a user's function is under way."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def sleep(self, seconds: float) -> None:
        due = self.elapsed() + max(0.0, seconds)
        self._asleep.append(due)
        try:
            await self._system.sleep(0)
            while (left_s := due - self.elapsed()) > 0:
                if self._under_way:
                    await self._system.sleep(min(left_s, _GLANCE_S))
                elif await self._is_quiet() and due == min(self._asleep):
                    self.skip(due - self.elapsed())
        finally:
            self._asleep.remove(due)

    async def _is_quiet(self) -> bool:
        """Whether nobody's function is called while the loop goes round a few times."""
        for _ in range(_TURNS):
            await self._system.sleep(0)
            if self._under_way:
                return False
        return True
