"""The only way in for time, randomness and new ids. Everything else is handed a Clock.

Wall time is data, and is never used to measure how long something took: durations and leases go by a clock that no
one sets.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, Protocol

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = [one + other for one in _ALPHABET for other in _ALPHABET]
_OF_NOISE: Final = (70, 60, 50, 40, 30, 20, 10, 0)
_SET_FORTH_MS: Final = 1_000
"""The two clocks drift apart by less; by more, somebody has set the wall clock forth."""
_TRUSTED_MS: Final = 100


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds of UTC."""
        ...

    def elapsed(self) -> float:
        """Seconds on a clock that only goes forward, shared by all processes of this machine since it booted."""
        ...

    def jitter(self) -> float:
        """A random number from 0 to 1."""
        ...

    def new_id(self) -> str:
        """26 characters that sort by time."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own."""

    def __init__(self) -> None:
        source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        self.elapsed: Callable[[], float] = partial(time.clock_gettime, source)

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def jitter(self) -> float:
        return random.random()  # noqa: S311 - spreads retries; guards nothing

    def new_id(self) -> str:
        return spell_id(self.now(), os.urandom(10))

    async def sleep(self, seconds: float) -> None:
        import asyncio  # who sleeps has it; who only looks at a journal does not need it

        await asyncio.sleep(seconds)


class SteadyClock:
    """A clock whose wall time never goes back: the time of a journal, by which deadlines are judged.

    It is the machine's, unless that was set back: then time goes on from where it was, by the clock that no one sets.
    So nothing that is over begins anew, and nothing that waits stands still.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.now
        self.elapsed: Callable[[], float] = clock.elapsed
        self.jitter: Callable[[], float] = clock.jitter
        self._from = (clock.now(), clock.elapsed())
        """A moment, by both clocks; one value, since threads ask too."""
        self._least = self._trusted_to = 0

    def now(self) -> int:
        now = self._wall()
        if self._least <= now < self._trusted_to:  # both clocks were compared just now, and every step asks
            self._least = now
            return now
        return self._compared(now)

    def _compared(self, now: int) -> int:
        elapsed = self._clock.elapsed()
        at, since = self._from
        least = max(self._least, at + int((elapsed - since) * 1000))
        if now > least + _SET_FORTH_MS:
            self._from = (now, elapsed)
        self._least = max(now, least)
        self._trusted_to = now + _TRUSTED_MS if now >= least else 0
        return self._least

    def go_by(self, at: int, elapsed: float, *, anew: bool = False) -> None:
        """Go by another clock on the wall from now on, which said `at` when the one that no one sets said `elapsed`.

        `anew`: nothing was told by the one before, so that this one may be behind it.
        """
        if anew:
            self._from, self._least = (at, elapsed), 0
        self._wall = lambda: at + int((self.elapsed() - elapsed) * 1000)
        self._trusted_to = 0

    def not_before(self, at: int) -> None:
        """It has been that late already."""
        if at > self.now():
            self._from, self._least, self._trusted_to = (at, self._clock.elapsed()), at, 0

    def new_id(self) -> str:
        return self._clock.new_id()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


def new_secret(size: int) -> bytes:
    """Bytes that nobody can guess."""
    return os.urandom(size)


def spell_id(now: int, noise: bytes) -> str:
    """A ULID: 48 bits of milliseconds, then 80 of noise, in Crockford's base 32."""
    number = int.from_bytes(noise[:10])
    return _spelled_time(now & (2**48 - 1)) + "".join([_PAIRS[number >> shift & 1023] for shift in _OF_NOISE])


@lru_cache(maxsize=16)
def _spelled_time(now: int) -> str:
    """Many ids are made in one millisecond."""
    return "".join([_PAIRS[now >> shift & 1023] for shift in (40, 30, 20, 10, 0)])
