"""One life of a process, played inside this one: it passes points, and at one of them it ends.

A point is a place where a kill makes a difference: before and after each append and each claim, before and after
each effect. Nothing that a process does between two of them can be seen from outside.

A life can end in these ways:
- DIE: from then on nothing of it reaches the journal or the world, although its code is still there. What is left of
  it is buried: cancelled, with a journal that answers nothing.
- FREEZE: it stands still, as under SIGSTOP, until somebody thaws it, and then goes on as if nothing had been.
- KILL: SIGKILL, for real; only for a life in a process of its own.
- REFUSE: it does not end, but the append that it is about to make fails, once: there is no room on the disk.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from enum import Enum, auto
from typing import Any, Final, Protocol

from amends.clock import Clock
from amends.core.words.verdict import Rate, Verdict
from amends.drill.mortal import Author, Mortal
from amends.drill.world import World
from amends.errors import AmendsError, JournalStoppedError
from amends.gate.facts import Facts
from amends.gate.load import BuiltinGate
from amends.journal.port.journal import Entry, Journal, SagaQuery
from amends.runtime.coordinator.coordinator import Coordinator
from amends.runtime.declare.action import Asked, Done, key
from amends.runtime.settings import Settings
from amends.testing.crash.loop import PARKED, LoopClock, PatientLoop

Script = Callable[[Coordinator], Awaitable[object]]
_AFTERLIFE_S: Final = 600.0
PREFIX: Final = "crash"
"""How the id of every saga begins: the threads of its plain actions carry it in their names."""


class Blow(Enum):
    DIE = auto()
    FREEZE = auto()
    KILL = auto()
    REFUSE = auto()


class Store(Protocol):
    """The store that outlives a life, beside the world."""

    @property
    def authors(self) -> list[Author]: ...

    async def open(self, clock: Clock) -> Journal: ...


_here: ContextVar[CrashLife] = ContextVar("amends_crash_life")


def here() -> CrashLife:
    """The life that the calling action belongs to."""
    return _here.get()


class PacedGate(BuiltinGate):
    """The built-in gate, but for actions whose topic ends with `.slowly`: those go out once a minute."""

    def judge(self, facts: Facts) -> Verdict:
        verdict = super().judge(facts)
        rate = Rate(rule="slowly", key="slowly", most=1, per_s=60.0)
        return replace(verdict, rates=(rate,)) if facts.contract.topic.endswith(".slowly") else verdict


class CrashLife:
    """`passed` names the points in order; the one with the number `ends_at` is the last."""

    def __init__(
        self, *, number: int, since_s: float, world: World, ends_at: int | None = None, blow: Blow = Blow.DIE
    ) -> None:
        self.loop = PatientLoop(since_s, f"amends {PREFIX}")
        self.clock = LoopClock(self.loop, number)
        self.passed: list[str] = []
        self.stopped = False
        self.trouble: AmendsError | None = None
        self.entries: list[tuple[Entry, ...]] = []
        self.last_words: Callable[[], None] = _nothing
        """Called just before a KILL, so that somebody knows when it was."""
        self.noted: Callable[[], None] = _nothing
        """Called at each point that is come to on the loop, before anything more is done."""
        self.has_threads = False
        """Whether a point was come to in a thread, beside which others go on."""
        self._world = world
        self._ends_at = ends_at
        self._blow = blow
        self._main: asyncio.Task[None]
        self._coordinator: Coordinator | None = None
        self.signal = asyncio.Event()
        """For a script that waits until one of its actions has come somewhere."""
        self._thaw = asyncio.Event()
        self._thread_thaw = threading.Event()
        self._waiting: set[threading.Thread] = set()
        self._lock = threading.Lock()

    # -- living -------------------------------------------------------------------------------------------------------

    def begin(self, store: Store, script: Script, settings: Settings, env: str) -> None:
        """Run the script to its end, or to this life's."""
        self._main = self.loop.create_task(self._whole(store, script, settings, env))
        self._main.add_done_callback(self._stop)
        self.loop.run_forever()
        if not self.stopped:
            self._close(self._main)

    async def _whole(self, store: Store, script: Script, settings: Settings, env: str) -> None:
        _here.set(self)
        with self.loop.busy():
            inner = await store.open(self.clock)
        journal = Mortal(inner, self, store.authors)
        self._coordinator = await self._opened(journal, settings, env)
        await self._coordinator.__aenter__()
        try:
            await script(self._coordinator)
            page = await journal.sagas(SagaQuery(limit=1000))
            for row in page.rows:
                self.entries.append(tuple([entry async for entry in journal.read(row.id)]))
        except AmendsError as exc:
            self.trouble = exc
        finally:
            if self._thaw.is_set():  # who was frozen has missed things, and lives long enough to find out
                await self.clock.sleep(_AFTERLIFE_S)
            await self._coordinator.close()

    async def _opened(self, journal: Journal, settings: Settings, env: str) -> Coordinator:
        return Coordinator(journal=journal, gate=PacedGate(), clock=self.clock, settings=settings, env=env)

    def _stop(self, _ended: object) -> None:
        self.loop.stop()

    def thaw(self, now_s: float, on_waking: Callable[[Coordinator], None] | None = None) -> None:
        """Go on after a freeze, at a later time."""
        self.loop.pass_time(max(0.0, now_s - self.loop.time()))
        self.stopped = False
        if on_waking is not None and self._coordinator is not None:
            on_waking(self._coordinator)
        self._let_go()
        if not self._main.done():
            self.loop.run_forever()
        self._close(self._main)

    def _let_go(self) -> None:
        """Let whoever stands at a point go on. Time waits for it from now on, though its thread still has to wake."""
        PARKED.difference_update(self._waiting)
        self._waiting.clear()
        self._thaw.set()
        self._thread_thaw.set()

    def bury(self) -> None:
        """Take the remains of a dead life away."""
        self._main.remove_done_callback(self._stop)
        self.loop.set_exception_handler(_unheard)
        self._let_go()
        if self._coordinator is not None:
            self.loop.run_until_complete(self._coordinator.close())
        self._main.cancel()
        self._close(self._main)

    def _close(self, main: asyncio.Task[None]) -> None:
        """The process ends: what still runs is cancelled, and reaches nobody any more."""
        survived = not self.stopped
        self.stopped, self._blow = True, Blow.DIE
        self._let_go()
        left = self.loop.unfinished | {main}
        for one in left - {main}:
            one.cancel()
        self.loop.run_until_complete(asyncio.wait(left))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.stopped = not survived
        if survived:
            main.result()

    # -- points -------------------------------------------------------------------------------------------------------

    @property
    def dead(self) -> bool:
        return self.stopped and self._blow is not Blow.FREEZE

    @property
    def is_refused(self) -> bool:
        """Whether the append that has just come to its point is the one to fail."""
        return self._blow is Blow.REFUSE and len(self.passed) == self._ends_at

    def busy(self) -> AbstractContextManager[None]:
        return self.loop.busy()

    async def reach(self, point: str) -> None:
        is_last = self._is_last(point)
        self.noted()
        if is_last:
            self.loop.stop()
            await self._thaw.wait()
        await self.stay_dead()

    async def stay_dead(self) -> None:
        if self.dead:
            await self._thaw.wait()
            raise JournalStoppedError("this process is dead")

    def reach_in_thread(self, point: str) -> None:
        self.has_threads = True
        is_last = self._is_last(point)
        if is_last:
            self.loop.call_soon_threadsafe(self.loop.stop)
        if is_last or self.dead:
            self._waiting.add(threading.current_thread())
            PARKED.add(threading.current_thread())
            self._thread_thaw.wait()
        if self.dead:
            raise JournalStoppedError("this process is dead")

    def _is_last(self, point: str) -> bool:
        with self._lock:
            if self.stopped:
                return False
            self.passed.append(point)
            if len(self.passed) != self._ends_at or self._blow is Blow.REFUSE:
                return False
            if self._blow is Blow.KILL:
                self.last_words()
                os.kill(os.getpid(), signal.SIGKILL)
            self.stopped = True
            return True

    # -- what actions do here -----------------------------------------------------------------------------------------

    async def effect(self, topic: str, *, honours_keys: bool = True) -> None:
        await self.reach(f"{topic}: before its effect")
        self._world.effect(topic, key=key(), honours_keys=honours_keys)
        await self.reach(f"{topic}: after its effect")

    async def undo(self, topic: str, done: Done, *, honours_keys: bool = True) -> None:
        await self.reach(f"{topic}: before its compensation")
        self._world.undo(topic, key=done.key, of=done.action_key, saga=done.saga, honours_keys=honours_keys)
        await self.reach(f"{topic}: after its compensation")

    def effect_in_thread(self, topic: str) -> None:
        self.reach_in_thread(f"{topic}: before its effect")
        self._world.effect(topic, key=key())
        self.reach_in_thread(f"{topic}: after its effect")

    def undo_in_thread(self, topic: str, done: Done) -> None:
        self.reach_in_thread(f"{topic}: before its compensation")
        self._world.undo(topic, key=done.key, of=done.action_key, saga=done.saga)
        self.reach_in_thread(f"{topic}: after its compensation")

    def sleep_in_thread(self, seconds: float) -> None:
        thread = threading.current_thread()

        async def nap() -> None:
            PARKED.add(thread)
            await self.clock.sleep(seconds)
            PARKED.discard(thread)  # here, and not when the thread comes to itself: until then time must not pass

        asyncio.run_coroutine_threadsafe(nap(), self.loop).result()

    async def stands(self, topic: str, asked: Asked) -> bool:
        """Whether a probe sees the effect."""
        await self.reach(f"{topic}: asked")
        return self._world.stands(asked.key) > 0

    async def tally(self, name: str) -> int:
        """How often this has been asked, in this life and those before, now included."""
        await self.stay_dead()
        return self._world.tally(name)


def _unheard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore what the remains of a dead process complain about."""


def _nothing() -> None:
    """Say nothing before dying, as most do."""
