"""Background tasks: small pieces of work that an engine has under way beside its sagas, and that end with it.

One is the heartbeat of a worker: a thread that renews its row, and brings word of what others wrote to its sagas.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar

from amends.core.words.values import SagaId
from amends.errors import AmendsError
from amends.logs import logger

_log = logger("amends.engine")
_Made = TypeVar("_Made")


class BackgroundTasks:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def run(self, work: Coroutine[Any, Any, object]) -> None:
        _ = self.begin(work)

    def begin(self, work: Coroutine[Any, Any, _Made]) -> asyncio.Task[_Made]:
        """Run it, for whoever wants to know how it ended."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    async def outlast(self, work: Coroutine[Any, Any, _Made]) -> _Made:
        """Wait for it. If whoever waits is stopped, it goes on, and how it ends is nobody's to hear."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        _ = task.cancelled() or task.exception()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("an errand of the engine failed", exc_info=task.exception())

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


class Heart(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


class MakeHeart(Protocol):
    """Makes what keeps a worker alive: a thread, or, where time is not real, something else.

    `renew` is called at each beat, and renews where that is due: by the time, not by a count of beats, which take as
    long as a busy journal lets them. One that fails is due again at the next beat.
    """

    def __call__(
        self,
        *,
        renew: Callable[[], None],
        nudged: Callable[[], tuple[SagaId, ...]],
        tell: Callable[[tuple[SagaId, ...]], object],
        poll_s: float,
    ) -> Heart: ...


class Heartbeat(threading.Thread):
    """Renews the worker's row and looks for nudges, whatever the event loop is busy with."""

    def __init__(
        self,
        *,
        renew: Callable[[], None],
        nudged: Callable[[], tuple[SagaId, ...]],
        tell: Callable[[tuple[SagaId, ...]], object],
        poll_s: float,
    ) -> None:
        super().__init__(name="amends heartbeat", daemon=True)
        self._renew, self._nudged, self._tell = renew, nudged, tell
        self._poll_s = poll_s
        self._stopped = False
        self._woken = threading.Event()

    def run(self) -> None:
        while True:
            self._woken.wait(self._poll_s)
            self._woken.clear()
            if self._stopped:
                return
            try:
                self._renew()
                sagas = self._nudged()
                if sagas:
                    self._tell(sagas)
            except AmendsError as exc:
                _log.warning("the worker could not be renewed: %s", exc)
            except RuntimeError:
                return  # the loop has closed under us

    def hurry(self) -> None:
        """Beat now: somebody says that there is news."""
        self._woken.set()

    def stop(self) -> None:
        self._stopped = True
        self._woken.set()
        if self.is_alive():
            self.join()
