"""Loops, woken from a thread with what the thread has for them; for less than `call_soon_threadsafe`.

That one sends a byte through a pair of sockets, has the loop read until nothing is left there, and only in its next
turn call what it was woken for: one saga after another, that is a fourteenth of the CPU of a step. A counter of the
kernel (eventfd) is one write and one read, and the loop calls at once. Where there is none, or the loop watches no
files, it is done the usual way.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
_NONE: Final = -1


class Wakeup(Generic[T]):
    """Of one loop. Made in that loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[T], object]) -> None:
        """`tell` is called in the loop, with none of the context variables of whoever makes this."""
        self._loop = loop
        self._tell = tell
        self._waiting = deque[T]()
        self._gate = threading.Lock()
        self._counter = _NONE
        if hasattr(os, "eventfd"):
            counter = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            try:
                Context().run(loop.add_reader, counter, self._woken)
            except NotImplementedError:
                os.close(counter)
            else:
                self._counter = counter

    def wake(self, told: T) -> None:
        """Have the loop tell this, from another thread. Where the loop is closed, nobody waits any more."""
        with self._gate:  # so that the counter is not closed meanwhile: its number may be another file's by then
            if self._counter != _NONE:
                self._waiting.append(told)
                os.eventfd_write(self._counter, 1)
                return
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, told)

    def _woken(self) -> None:
        os.eventfd_read(self._counter)
        try:
            while self._waiting:
                self._tell(self._waiting.popleft())
        finally:
            if self._waiting:  # what it told raised: the others are told all the same
                os.eventfd_write(self._counter, 1)

    def end(self) -> None:
        """Let go of the loop, from any thread, once it was told all that it was woken for."""
        try:
            self._loop.call_soon_threadsafe(self._close)
        except RuntimeError:  # it is closed, and nobody waits any more
            self._waiting.clear()
            self._close()

    def _close(self) -> None:
        with self._gate:
            counter, self._counter = self._counter, _NONE
        if counter != _NONE:
            self._loop.remove_reader(counter)
            os.close(counter)
        while self._waiting:
            self._tell(self._waiting.popleft())
