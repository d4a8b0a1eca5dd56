"""Open sagas as an engine has them: which are open here, and how a lease is given back that nobody needs meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from amends.clock import Clock
from amends.core.state.saga import Saga
from amends.core.words.values import SagaId
from amends.errors import AmendsError
from amends.journal.port.journal import ROOT, Journal
from amends.logs import logger
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.logbook import Logbook
from amends.runtime.engine.handle import Handle
from amends.runtime.saga.open import OpenDefinition, timer_of, unattended, unknown_actions

_log = logger("amends.engine")
_LOOK_S: Final = 0.05
_LONGEST_LOOK_S: Final = 1.0
_FOR_EVER_MS: Final = 366 * 86_400_000


class OpenSagas:
    """`drive` has one looked at when its timer has run out, though this worker does not look for what is due."""

    def __init__(self, journal: Journal, clock: Clock, drive: Callable[[SagaId], Coroutine[Any, Any, object]]) -> None:
        self._journal = journal
        self._clock = clock
        self._drive = drive
        self._alarms: dict[SagaId, asyncio.Task[None]] = {}
        self.here: dict[SagaId, OpenDefinition] = {}
        """Those that somebody has open in this process."""
        self.lends = False
        """Whether a saga that waits, open or not, is nobody's: an engine says which worker goes on with it."""

    def definition_of(self, saga: Saga) -> OpenDefinition | None:
        """The definition to drive it by; None for a saga that is not open."""
        if saga.begun is None or saga.begun.session is None:
            return None
        return self.here.get(saga.id) or unattended(saga)

    async def may_drive(self, book: Logbook, registry: Registry) -> bool:
        """Whether this process knows all that it would need; else it is left to others for a while."""
        saga = book.saga
        root = "" if saga.begun is None else saga.begun.labels.get(ROOT, "")
        is_here = saga.id in self.here or root in self.here  # whoever has the root open makes its children's calls too
        unknown = () if is_here else unknown_actions(saga, registry)
        if unknown:
            _log.info("session %s is left to others: this process does not know %s", saga.id, ", ".join(unknown))
            await book.rest(self._clock.now() + round(registry.left_alone_s * 1000))
            await self._release(book)
        return not unknown

    async def let_go(self, book: Logbook, *, is_parked: bool) -> None:
        """Nobody has it open any more: any process may, and whichever worker finds its timer out does what is due."""
        begun = book.saga.begun
        is_left = is_parked and book.saga.id not in self.here
        is_open = begun is not None and begun.session is not None
        if is_left and (self.lends or is_open):
            await self._release(book)
            if (
                not self.lends
                and (timer := timer_of(book.saga)) is not None
                and timer.until - self._clock.now() < _FOR_EVER_MS
            ):
                self._set_alarm(book.saga.id, timer.until)

    async def has_halted(self, handle: Handle, saga: Saga) -> bool:
        """Wait until one that is open here has gone back as far as it is to; false where its agent may go on then."""
        halt, look_s = asyncio.ensure_future(handle.halt()), _LOOK_S
        try:
            while not halt.done() and not saga.works:
                await asyncio.wait({halt}, timeout=look_s)
                look_s = min(2 * look_s, _LONGEST_LOOK_S)  # a retry may be far off
            return halt.done()
        finally:
            halt.cancel()

    async def _release(self, book: Logbook) -> None:
        if book.lease is not None:
            await self._journal.release(book.lease)

    def _set_alarm(self, saga: SagaId, at: int) -> None:
        self.stop_alarm(saga)
        self._alarms[saga] = asyncio.ensure_future(self._wake(saga, at))

    async def _wake(self, saga: SagaId, at: int) -> None:
        while (left_ms := at - self._clock.now()) > 0:
            await self._clock.sleep(left_ms / 1000)
        self._alarms.pop(saga, None)
        try:
            await self._drive(saga)
        except AmendsError as exc:
            _log.warning("session %s could not be looked at when its time was up: %s", saga, exc)

    def stop_alarm(self, saga: SagaId) -> None:
        alarm = self._alarms.pop(saga, None)
        if alarm is not None:
            alarm.cancel()

    def close(self) -> None:
        for saga in tuple(self._alarms):
            self.stop_alarm(saga)
