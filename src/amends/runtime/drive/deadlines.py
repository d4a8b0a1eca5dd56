"""Time limits of calls, on few timers."""

from __future__ import annotations

import asyncio
from typing import Any

from amends.dataclass import dataclass


@dataclass(slots=True, eq=False)
class Deadline:
    """The time that one call has, in the task that waits for it. It ends as `asyncio.timeout` does, by the same rules:
    a task that somebody else has cancelled meanwhile stays cancelled.
    """

    _task: asyncio.Task[Any]
    _cancels: int
    """How often the task had been cancelled before."""
    at: float
    is_over: bool = False

    def run_out(self) -> None:
        self.is_over = True
        self._task.cancel()

    def take_back(self) -> bool:
        """Take its own cancellation back; whether nobody else wants the task cancelled."""
        return self._task.uncancel() <= self._cancels


class Deadlines:
    """The deadlines of calls under way, on one timer for each length: most calls end long before, and of all that have
    the same length the oldest is due first.
    """

    def __init__(self) -> None:
        self._running: dict[float, dict[Deadline, None]] = {}
        self._timers: dict[float, asyncio.TimerHandle] = {}

    def begin(self, seconds: float, task: asyncio.Task[Any]) -> Deadline:
        """A deadline that cancels the calling task after so long; `end` has to follow."""
        loop = task.get_loop()
        deadline = Deadline(task, task.cancelling(), loop.time() + seconds)
        if seconds not in self._running:
            self._running[seconds] = {}
        self._running[seconds][deadline] = None
        if seconds not in self._timers:
            self._timers[seconds] = loop.call_at(deadline.at, self._look, seconds)
        return deadline

    def end(self, seconds: float, deadline: Deadline) -> None:
        """The call has ended. Its timer stays for the next one, and finds nothing to do or the oldest of those."""
        self._running[seconds].pop(deadline, None)

    def _look(self, seconds: float) -> None:
        """End what is over; then wait for the next one."""
        loop, running = asyncio.get_running_loop(), self._running[seconds]
        now = loop.time()
        for deadline in tuple(running):
            if deadline.at > now:
                break
            del running[deadline]
            deadline.run_out()
        del self._timers[seconds]
        if running:
            self._timers[seconds] = loop.call_at(next(iter(running)).at, self._look, seconds)
