"""Being on duty: whatever becomes due is driven, whoever made it so, until the duty ends.

A saga that waits for people is a row, and nobody's memory. If its worker is gone when they answer, it is free, and due:
so the journal is asked for such sagas each `poll_s`. What this worker holds itself comes by its heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from amends.clock import Clock
from amends.core.words.values import SagaId
from amends.errors import AmendsError, JournalConflictError, JournalError, JournalStoppedError
from amends.logs import logger
from amends.runtime.engine.handle import Ended
from amends.runtime.engine.local import LocalEngine
from amends.runtime.engine.resume import Driven, Seats
from amends.runtime.settings import Settings

_log = logger("amends.engine")
_DROPPED_EVERY = 10  # polls; a journal that failed is given a while


class WorkerLoop:
    def __init__(self, engine: LocalEngine, clock: Clock, settings: Settings) -> None:
        self._engine = engine
        self._clock = clock
        self._settings = settings
        self._watches: set[asyncio.Task[None]] = set()
        self._ended = False

    async def work(self) -> None:
        """Drive what is due, and what becomes due, until this is cancelled or the duty ends."""
        if self._ended:
            return
        watch = asyncio.ensure_future(self._keep_driving())
        self._watches.add(watch)
        try:
            await watch
        except asyncio.CancelledError:
            here = asyncio.current_task()
            if watch in self._watches or (here is not None and here.cancelling()):
                raise
        finally:
            self._watches.discard(watch)

    async def end(self) -> None:
        """Take nothing up any more. What is being driven is the engine's to drain."""
        self._ended = True
        watches, self._watches = self._watches, set()
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    async def _keep_driving(self) -> None:
        seats = Seats(self._engine, self._settings, self._clock)
        beat = 0
        try:
            while True:
                free = seats.free
                taken = await _to_its_end(self._take_up(free, with_dropped=beat % _DROPPED_EVERY == 0))
                seats.seat(taken)
                if len(taken) >= free and not seats.are_empty:  # there may be more; go on as soon as there is room
                    beat += await seats.wait()
                else:
                    await self._engine.rest(self._settings.poll_s)
                    beat += 1
                for one in seats.leave():
                    _note_end(one)
        finally:
            seats.cancel()

    async def _take_up(self, most: int, *, with_dropped: bool) -> Driven:
        try:
            dropped: Driven = self._engine.take_up_dropped() if with_dropped else {}
            if with_dropped:
                await self._engine.release()
                await self._engine.void_outlived()
            return dropped | await self._engine.take_up_due(most - len(dropped), _trouble)
        except JournalStoppedError:
            raise
        except JournalError as exc:
            _log.warning("could not look for what is due: %s", exc)
            return {}


async def _to_its_end(taking: Coroutine[Any, Any, Driven]) -> Driven:
    """A claim that nobody waits for any more is made all the same: what it got is taken up, and not left lying."""
    taken = asyncio.ensure_future(taking)
    try:
        return await asyncio.shield(taken)
    except asyncio.CancelledError:
        for one in await taken:
            one.cancel()
        raise


def _trouble(saga: SagaId, error: AmendsError) -> None:
    _log.error("saga %s cannot be taken up: %s", saga, error)


def _note_end(driven: asyncio.Future[Ended | None]) -> None:
    error = None if driven.cancelled() else driven.exception()
    if isinstance(error, JournalConflictError):
        _log.info("a saga is driven elsewhere: %s", error)
    elif error is not None:
        _log.error("a saga could not be driven", exc_info=error)
