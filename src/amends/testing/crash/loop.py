"""An event loop in which waiting costs nothing: time passes only when there is nothing else left to do.

Timeouts, backoffs and windows go by `loop.time()`, and so does its clock; where the loop would sleep until the next
of them, its time jumps there instead. What real threads are busy with is waited for in real time: as long as one
is, nothing jumps.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
from collections.abc import Coroutine, Generator
from itertools import count
from typing import Any, Final

from amends.clock import spell_id

_PATIENCE_S: Final = 10.0
_LONGEST_S: Final = 7 * 86_400.0
_MOST_WAITS: Final = 50_000
_START: Final = 1_700_000_000_000
_GOLDEN: Final = 0.618_033_988_749_894_9

PARKED: Final[set[threading.Thread]] = set()
"""Threads that wait until a test lets them go: time passes without them."""


class PatientLoop(asyncio.SelectorEventLoop):
    """`watched` begins the names of the threads that it waits for."""

    def __init__(self, since_s: float, watched: str) -> None:
        self._since_s = self._elapsed_s = since_s
        self._watched = watched
        self._busy = 0
        self._waits = 0
        self.unfinished: set[asyncio.Task[Any]] = set()
        super().__init__(_Selector(self))
        self.set_task_factory(self._noted)

    def _noted(
        self,
        _loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **more: Any,  # noqa: ANN401 - asyncio's own
    ) -> asyncio.Task[Any]:
        """Keep a list of our own: the one that asyncio keeps is of all loops, and is slow to ask."""
        made: asyncio.Task[Any] = asyncio.Task(work, loop=self, **more)
        self.unfinished.add(made)
        made.add_done_callback(self.unfinished.discard)
        return made

    def time(self) -> float:
        return self._elapsed_s

    @contextlib.contextmanager
    def busy(self) -> Generator[None]:
        """While a thread of somebody else's works for this loop."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1

    @contextlib.contextmanager
    def idle(self) -> Generator[None]:
        """While that thread itself waits for something that comes with the time."""
        self._busy -= 1
        try:
            yield
        finally:
            self._busy += 1

    def is_quiet(self) -> bool:
        threads = threading.enumerate()
        return not self._busy and not any(
            thread.name.startswith(self._watched) and thread not in PARKED for thread in threads
        )

    def pass_time(self, seconds: float) -> None:
        self._elapsed_s += seconds
        self._waits += 1
        if self._elapsed_s - self._since_s > _LONGEST_S:
            raise AssertionError("a week has passed, and it goes on")
        if self._waits > _MOST_WAITS:  # a week of short ones would take minutes
            raise AssertionError(f"it has waited {_MOST_WAITS:,} times, and goes on")


class _Selector(selectors.PollSelector):
    def __init__(self, loop: PatientLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        waited_s = 0.0
        while waited_s < _PATIENCE_S:
            quiet = self._loop.is_quiet()  # asked first: a thread that ends after this has told us before
            if ready := super().select(0):
                return ready
            if quiet and timeout is not None:
                self._loop.pass_time(timeout)
                return []
            if ready := super().select(0.05):
                return ready
            waited_s += 0.05
        raise AssertionError("everybody waits for something that nobody does")


class LoopClock:
    """A loop's time as a Clock. Chance and ids repeat themselves; `number` keeps the ids of several clocks apart."""

    def __init__(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        self._loop = loop
        self._number = number
        self._ids = count(1)
        self._jitters = count(1)

    def now(self) -> int:
        return _START + round(self._loop.time() * 1000)

    def elapsed(self) -> float:
        return self._loop.time()

    def jitter(self) -> float:
        return next(self._jitters) * _GOLDEN % 1

    def new_id(self) -> str:
        return spell_id(self.now(), (self._number << 32 | next(self._ids)).to_bytes(10))

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_later(max(0.0, seconds), _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
