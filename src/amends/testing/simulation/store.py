"""A process's handle on the journal that all share: it takes a while, sometimes refuses, and may stop for good.

In some schedules the write lock is slow too: each append, claim and renewal waits for it, for seconds. Somebody who
knows which processes live watches who takes a saga from whom.

When it stops, nobody can say whether the last write is on disk: half of the time it is. From then on every call is
refused, as in a process whose disk has failed, until that process ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from amends.clock import Clock
from amends.core.events import Event
from amends.core.words.values import SagaId
from amends.drill.mortal import Author, Mortal
from amends.errors import AmendsError, JournalBusyError, JournalFullError, JournalStoppedError
from amends.journal.memory import Memory, MemoryJournal
from amends.journal.memory.state import KeptSaga
from amends.journal.port.journal import Entry, Journal, Lease, Summary
from amends.journal.port.leases import Reading
from amends.testing.simulation.loop import Dice

_REFUSALS_IN_100: Final = 1.0


class HostProcess(Protocol):
    """The process that a handle is opened in, as far as the handle has to know it."""

    @property
    def name(self) -> str: ...

    @property
    def dice(self) -> Dice: ...

    @property
    def is_well(self) -> bool: ...

    @property
    def is_dead(self) -> bool: ...

    async def nap(self, low_s: float, high_s: float) -> None: ...

    def drives(self, saga: SagaId) -> bool: ...


class Register:
    """Living workers, as nobody in the simulation can know: by worker, its process, and until when its lease lasts."""

    def __init__(self) -> None:
        self._leases: dict[str, tuple[HostProcess, float]] = {}
        self.broken: list[str] = []

    def renewed(self, worker: str, process: HostProcess, until_s: float) -> None:
        self._leases[worker] = (process, until_s)

    def retired(self, worker: str) -> None:
        self._leases.pop(worker, None)

    def taken(self, saga: SagaId, worker: str, by: HostProcess, before: str, now_s: float) -> None:
        """A saga changes hands. Who lives, and has renewed in time, keeps its own."""
        if worker == before:
            if by.drives(saga):
                self.broken.append(f"{by.name} claims saga {saga}, which it is driving itself")
            return
        process, until_s = self._leases.get(before, (by, 0.0))
        if not process.is_dead and now_s < until_s:
            left = f"{until_s - now_s:.0f} s of its lease left"
            self.broken.append(f"{by.name} takes saga {saga} from {process.name}, which lives, with {left}")


class Watched(MemoryJournal):
    """The journal as one process has it open; the register hears of each renewal, and of each saga that is taken."""

    def __init__(
        self,
        clock: Clock,
        memory: Memory,
        process: HostProcess,
        register: Register,
        wait: Callable[[], Awaitable[None]] | None,
    ) -> None:
        super().__init__(clock, memory, wait=wait)
        self._process = process
        self._register = register

    def _renew(self, worker: str, ttl_s: float, elapsed: Reading) -> None:
        super()._renew(worker, ttl_s, elapsed)
        self._register.renewed(worker, self._process, self._clock.elapsed() + ttl_s)

    async def retire(self, worker: str) -> None:
        await super().retire(worker)
        self._register.retired(worker)

    def _take(self, record: KeptSaga, worker: str) -> Lease:
        self._register.taken(record.id, worker, self._process, record.worker, self._clock.elapsed())
        return super()._take(record, worker)


class Unreliable(Mortal):
    """`told` hears of each append, by its author's name, and of each that went wrong."""

    def __init__(
        self, inner: Journal, process: HostProcess, authors: list[Author], told: Callable[[str, Sequence[Event]], None]
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

    def __init__(self, process: HostProcess) -> None:
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
