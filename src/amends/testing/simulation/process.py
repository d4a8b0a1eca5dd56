"""A simulated process: a coordinator of its own on the journal that all share, and a scanner that resumes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from typing import Final

from amends.core.events import Event
from amends.core.words.outcomes import Failed, Lost, Outcome
from amends.core.words.values import SagaId
from amends.drill.mortal import Author
from amends.errors import AmendsError
from amends.gate.facts import Gate
from amends.gate.load import BuiltinGate
from amends.journal.memory import Memory
from amends.runtime.coordinator.coordinator import Coordinator
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.executor import Call, Executor
from amends.runtime.settings import Settings
from amends.testing.crash.loop import LoopClock
from amends.testing.simulation.loop import OWNER, Dice, Owner, SimLoop
from amends.testing.simulation.outside import Providers
from amends.testing.simulation.store import Register, Unreliable, Watched

LEASE_S: Final = 120.0
SETTINGS: Final = Settings(lease_s=LEASE_S, poll_s=30.0, settle_s=30.0, drain_s=10.0, park_s=1.0)


@functools.cache
def _gate() -> Gate:
    return BuiltinGate()


@dataclass(slots=True)
class Ground:
    """Everything that all processes share. `story` is told only where somebody `listens`."""

    loop: SimLoop
    dice: Dice
    providers: Providers
    registry: Registry
    listens: bool = False
    slow_s: float = 0.0
    """How long the write lock may take to be had; 0: it is free."""
    memory: Memory = field(default_factory=Memory)
    authors: list[Author] = field(default_factory=list[Author])
    story: list[str] = field(default_factory=list[str])
    register: Register = field(default_factory=Register)
    broken: list[str] = field(default_factory=list[str])
    """Promises that were broken before the end."""

    def holder(self, resource: str) -> str:
        """Whose it is at this moment."""
        return next((ticket.owner for ticket in self.memory.tickets if ticket.resource == resource), "")

    def tell(self, what: str) -> None:
        if self.listens:
            self.story.append(f"{self.loop.time() - 1_000:9.3f}  {what}")


class SkewedClock(LoopClock):
    """A machine's clock: everybody's seconds are as long, but somebody may set what it says."""

    def __init__(self, loop: SimLoop, number: int) -> None:
        super().__init__(loop, number)
        self.skew_ms = 0

    def now(self) -> int:
        return super().now() + self.skew_ms


class Process(Owner):
    """One process with one worker."""

    def __init__(self, ground: Ground, number: int) -> None:
        super().__init__(f"process {number}")
        self.ground = ground
        self.clock = SkewedClock(ground.loop, number)
        self._lock: asyncio.Future[None] | None = None
        wait = self._have_lock if ground.slow_s else None
        inner = Watched(self.clock, ground.memory, self, ground.register, wait)
        self.store = Unreliable(inner, self, ground.authors, self._tell)
        self.coordinator = Coordinator(
            journal=self.store,
            gate=_gate(),
            clock=self.clock,
            registry=ground.registry,
            settings=SETTINGS,
            executor=VirtualExecutor(SETTINGS.threads),
            heart=functools.partial(VirtualHeart, ground.loop, self._lock_s),
        )
        ground.loop.owners.append(self)

    def start(self, main: Callable[[], object]) -> None:
        """Have it do this, as a process of its own: everything that follows from it belongs to it."""
        context = Context()
        context.run(OWNER.set, self)
        self.ground.loop.call_soon(main, context=context)

    def die(self) -> None:
        self.ground.loop.end(self)

    async def scan(self) -> None:
        """Resume, again and again, whatever is free."""
        while True:
            await self.nap(20, 300)
            with contextlib.suppress(AmendsError):
                await self.coordinator.resume()

    # -- what its journal has to know ---------------------------------------------------------------------------------

    @property
    def dice(self) -> Dice:
        return self.ground.dice

    @property
    def is_well(self) -> bool:
        return self.ground.providers.is_well

    def drives(self, saga: SagaId) -> bool:
        return self.coordinator._engine.running(saga) is not None  # pyright: ignore[reportPrivateUsage] - it tells nobody else

    def _lock_s(self) -> float:
        """For how long the write lock is not to be had from now on."""
        ground = self.ground
        return ground.dice.between(0, ground.slow_s) if ground.slow_s and not self.is_well else 0.0

    async def _have_lock(self) -> None:
        """Whatever this process asks for while it waits is written in one go, in the order of asking."""
        if self._lock is None or self._lock.done():
            self._lock = asyncio.ensure_future(self.clock.sleep(self._lock_s()))
        await asyncio.shield(self._lock)

    async def nap(self, low_s: float, high_s: float) -> None:
        await self.clock.sleep(self.ground.dice.between(low_s, high_s))

    def _tell(self, what: str, events: Sequence[Event]) -> None:
        if self.ground.listens:
            named = (f"{type(event).__name__} {getattr(event, 'step', '')}".rstrip() for event in events)
            self.ground.tell(f"{self.name} {what} {', '.join(named)}".rstrip())


class VirtualHeart:
    """Beats in the process's own time: who is frozen does not renew. A slow write lock makes it late."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        late_s: Callable[[], float],
        *,
        renew: Callable[[], None],
        nudged: Callable[[], tuple[SagaId, ...]],
        tell: Callable[[tuple[SagaId, ...]], object],
        poll_s: float,
    ) -> None:
        self._loop = loop
        self._late_s = late_s
        self._renew, self._nudged, self._tell = renew, nudged, tell
        self._poll_s = poll_s
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._next = self._loop.call_later(self._poll_s + self._late_s(), self._beat)

    def _beat(self) -> None:
        with contextlib.suppress(AmendsError):
            self._renew()
            sagas = self._nudged()
            if sagas:
                self._tell(sagas)
        self.start()

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()


class VirtualExecutor(Executor):
    """Threads are played too: who gives one up gets a lost outcome, and the thread goes on and reports late."""

    async def perform(self, call: Call) -> Outcome:
        if call.is_async:
            return await super().perform(call)
        thread = asyncio.ensure_future(super().perform(replace(call, is_async=True, timeout_s=None)))
        error = f"no answer in {call.timeout_s} s"
        try:
            await asyncio.wait({thread}, timeout=call.timeout_s)
        except asyncio.CancelledError:
            error = "it was cancelled while it ran"
        if thread.done():
            return thread.result()
        call.running = True
        thread.add_done_callback(functools.partial(_report, call))
        return Lost(error=error, timed_out=True)


def _report(call: Call, thread: asyncio.Future[Outcome]) -> None:
    call.running = False
    if call.late is not None:
        call.late(Failed(error="its process ended") if thread.cancelled() else thread.result())


def here() -> Process:
    """The process that the calling action belongs to."""
    owner = OWNER.get()
    if not isinstance(owner, Process):
        raise TypeError(f"{owner.name} runs no actions")
    return owner
