"""An event loop for several processes at once, played in one: dice say whose turn it is, and time is only a number.

Each process (an Owner) keeps its own order, as in a loop of its own; between processes any order can happen. Time
passes when nobody has anything left to do. A process may be frozen, and then its callbacks wait, or dead, and then they
are dropped, wherever it stood.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from itertools import count
from typing import Any, Final, TypeVarTuple

_MULTIPLIER: Final = 6_364_136_223_846_793_005
_INCREMENT: Final = 1_442_695_040_888_963_407
_MASK: Final = 2**64 - 1
_MOST_TURNS: Final = 20_000
_Given = TypeVarTuple("_Given")
_Turn = tuple[asyncio.Handle, Context, Callable[..., object], tuple[Any, ...]]
"""What to call, and in which context; its handle only says whether it was cancelled since."""


class Dice:
    """Throws that repeat themselves for the same seed, on every machine and in every version."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * _MULTIPLIER + _INCREMENT) & _MASK
        for _ in range(4):
            self.below(2)

    def below(self, sides: int) -> int:
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return (self._state >> 33) % sides

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.below(1_000_000) / 1_000_000

    def chance(self, percent: float) -> bool:
        return self.below(100_000) < percent * 1000


class Owner:
    """A process, as the loop sees it. `fault_at` counts its turns; `on_fault` is called before that one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.todo: deque[_Turn] = deque()
        self.turns = 0
        self.fault_at = 0
        self.on_fault: Callable[[], None] | None = None


OWNER: ContextVar[Owner] = ContextVar("amends_simulated_process")


class SimLoop(asyncio.BaseEventLoop):
    """`outside` owns what belongs to no process: the providers, the network, the people."""

    def __init__(self, dice: Dice, since_s: float = 1_000.0) -> None:
        super().__init__()
        self._dice = dice
        self._now_s = since_s
        self._timers: list[tuple[float, int, _Turn, Owner]] = []
        self._numbers = count()
        self.outside = Owner("outside")
        self.owners: list[Owner] = [self.outside]
        self.turns = 0
        self._stopping = False
        self._begun: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._noted)

    def _noted(
        self,
        _loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **more: Any,  # noqa: ANN401 - asyncio's own
    ) -> asyncio.Task[Any]:
        made: asyncio.Task[Any] = asyncio.Task(work, loop=self, **more)
        self._begun.append(made)
        return made

    def end(self, owner: Owner) -> None:
        """It dies where it stands: whatever it was about to do is not done."""
        owner.is_dead = True
        owner.todo.clear()
        if owner in self.owners:
            self.owners.remove(owner)

    def bury(self) -> None:
        """Take away what the dead have left: nothing of it runs, and nobody hears of it."""
        for owner in tuple(self.owners):
            self.end(owner)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what the dead would begin at their end is never awaited
            for one in self._begun:
                left: object = None if one.done() else one.get_coro()
                if isinstance(left, Coroutine):
                    with contextlib.suppress(Exception):  # whatever it says at its end, nobody would have heard of it
                        left.close()
        self._begun.clear()

    def time(self) -> float:
        return self._now_s

    def call_soon(
        self,
        callback: Callable[[*_Given], object],
        *args: *_Given,
        context: Context | None = None,
    ) -> asyncio.Handle:
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        owner = context.get(OWNER, self.outside)
        if not owner.is_dead:
            owner.todo.append((handle, context, callback, args))
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*_Given], object],
        *args: *_Given,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """There are no threads here."""
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Given], object],
        *args: *_Given,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        turn = (timer, context, callback, args)
        heapq.heappush(self._timers, (when, next(self._numbers), turn, context.get(OWNER, self.outside)))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Given], object],
        *args: *_Given,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def get_debug(self) -> bool:
        return False

    def _run_once(self) -> None:
        """Turns of processes that have something to do, one after the other; or time passes."""
        below = self._dice.below
        while not self._stopping:
            able = [owner for owner in self.owners if owner.todo and not owner.is_frozen]
            if not able:
                self._pass_time()
                continue
            owner = able[below(len(able))] if len(able) > 1 else able[0]
            owner.turns += 1
            if owner.turns == owner.fault_at and owner.on_fault is not None:
                owner.on_fault()
                continue
            self.turns += 1
            if self.turns > _MOST_TURNS:
                raise AssertionError("it goes on and on")
            handle, context, callback, args = owner.todo.popleft()
            if handle._cancelled:
                continue
            try:
                context.run(callback, *args)
            except Exception as exc:  # noqa: BLE001 - as any event loop does
                self.call_exception_handler({"message": f"in {callback}", "exception": exc, "handle": handle})

    def _pass_time(self) -> None:
        timers = self._timers
        while timers and timers[0][2][0].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise AssertionError("everybody waits for something that nobody does")
        self._now_s = max(self._now_s, timers[0][0])
        while timers and timers[0][0] <= self._now_s:
            _, _, turn, owner = heapq.heappop(timers)
            if not turn[0].cancelled() and not owner.is_dead:
                owner.todo.append(turn)
