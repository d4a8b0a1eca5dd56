"""A process's handle on the journal that all share: it takes a while, sometimes refuses, and may stop for good.

When it stops, nobody can say whether the last write is on disk: half of the time it is. From then on every call is
refused, as in a process whose disk has failed, until that process ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from amends.core.events import Event
from amends.core.values import SagaId
from amends.errors import AmendsError, JournalBusyError, JournalFullError, JournalStoppedError
from amends.journal.protocol import Entry, Journal, Lease, Summary
from amends.testing.crash_journal import Author, Mortal
from amends.testing.simulation.loop import Dice

_REFUSALS_IN_100: Final = 1.0


class Store(Protocol):
    """What a handle has to know of the process that it is opened in."""

    @property
    def dice(self) -> Dice: ...

    @property
    def is_well(self) -> bool: ...

    @property
    def is_dead(self) -> bool: ...

    async def nap(self, low_s: float, high_s: float) -> None: ...


class Unreliable(Mortal):
    """`told` hears of each append, by its author's name, and of each that went wrong."""

    def __init__(
        self, inner: Journal, process: Store, authors: list[Author], told: Callable[[str, Sequence[Event]], None]
    ) -> None:
        self._points = _Points(process)
        super().__init__(inner, self._points, authors)
        self._process = process
        self._tell = told
        self.stops_next = False
        self.worker = ""

    async def enlist(self, worker: str, ttl_s: float) -> None:
        self.worker = worker
        await super().enlist(worker, ttl_s)

    async def append(
        self,
        saga: SagaId,
        events: Sequence[Event],
        *,
        after: int,
        summary: Summary,
        lease: Lease | None = None,
    ) -> tuple[Entry, ...]:
        self._refuse("append")
        if self.stops_next:
            await self._stop(saga, events, after, summary, lease)
        entries = await super().append(saga, events, after=after, summary=summary, lease=lease)
        self._tell("writes", events)
        return entries

    async def _stop(
        self, saga: SagaId, events: Sequence[Event], after: int, summary: Summary, lease: Lease | None
    ) -> None:
        if self._process.dice.chance(50):
            with contextlib.suppress(AmendsError):
                await super().append(saga, events, after=after, summary=summary, lease=lease)
                self._tell("writes, and is told that it may not have,", events)
        self._points.has_stopped = True
        raise JournalStoppedError("the disk failed; the last write may or may not be there")

    async def claim(
        self,
        worker: str,
        *,
        definitions: Collection[str] | None = None,
        saga: SagaId | None = None,
        due_by: int | None = None,
        limit: int = 500,
    ) -> tuple[Lease, ...]:
        self._refuse("claim")
        return await super().claim(worker, definitions=definitions, saga=saga, due_by=due_by, limit=limit)

    async def read(self, saga: SagaId, *, after: int = 0) -> AsyncIterator[Entry]:
        self._refuse("read")
        async for entry in super().read(saga, after=after):
            yield entry

    def renew(self, worker: str, ttl_s: float) -> None:
        self._points.require_working()
        super().renew(worker, ttl_s)

    def nudged(self, worker: str) -> tuple[SagaId, ...]:
        self._points.require_working()
        return super().nudged(worker)

    def _refuse(self, what: str) -> None:
        dice = self._process.dice
        if not self._process.is_well and dice.chance(_REFUSALS_IN_100):
            self._tell(f"is refused a {what}", ())
            if what == "append" and dice.chance(50):
                raise JournalFullError("there is no room on the disk")
            raise JournalBusyError("the journal is busy")


class _Points:
    """Where a process stands still for a moment, so that others come in between."""

    def __init__(self, process: Store) -> None:
        self._process = process
        self.has_stopped = False

    @property
    def stopped(self) -> bool:
        return self._process.is_dead

    @property
    def is_refused(self) -> bool:
        return False

    def busy(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def require_working(self) -> None:
        if self.has_stopped:
            raise JournalStoppedError("the journal has stopped for good")

    async def reach(self, point: str) -> None:
        self.require_working()
        if self._process.dice.below(3) == 0:
            await self._process.nap(0.0, 0.05)

    async def stay_dead(self) -> None:
        self.require_working()
