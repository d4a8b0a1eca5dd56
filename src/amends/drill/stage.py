"""The stage of a run: a journal in memory, a gate that may deny, and lives that may end in the middle.

All lives share one event loop, the caller's, because what users' functions hold on to (sessions, pools) belongs to it.
A life that ends reaches neither the journal nor a user's function any more; what is left of it is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import field, replace
from typing import Any

from amends.core.state.saga import Saga
from amends.core.words.values import SagaId
from amends.core.words.verdict import Decision, Verdict
from amends.dataclass import dataclass
from amends.drill.clock import HurriedClock
from amends.drill.covering import Covers
from amends.drill.executor import Rehearsed
from amends.drill.family import DrilledFamily
from amends.drill.faults import STOPS, Fault, Place, Stop
from amends.drill.mortal import Author, Mortal
from amends.drill.world import Account
from amends.errors import Abort, Complete, JournalStoppedError
from amends.evidence.drills import PASSED
from amends.evidence.sign.keys import key_source
from amends.evidence.sign.notary import KeyNotary
from amends.evidence.verify.examine import Conclusion
from amends.evidence.verify.verify import verify_journal
from amends.gate.environments import Declared
from amends.gate.facts import Facts, Gate
from amends.journal.memory import Memory, MemoryJournal
from amends.journal.port.journal import Entry, SagaQuery
from amends.runtime.coordinator.coordinator import Coordinator
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.executor import Part
from amends.runtime.saga.documents import Office
from amends.runtime.settings import Settings

Hook = Callable[[], object]
Script = Callable[[Coordinator], Awaitable[object]]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that all runs of a drill share. `hung` and `covers` grow.

    What has given no answer once is not waited for again; what a later step takes away is not asked for.
    """

    definition: SagaDefinition
    document: object
    """The input as it was given, and by name."""
    named: dict[str, object]
    gate: Gate
    env: str
    environments: Declared
    actor: str
    labels: dict[str, str]
    patience_s: float
    fresh: Hook | None = None
    world: Hook | None = None
    clock: HurriedClock = field(default_factory=HurriedClock)
    hung: set[tuple[str, Part]] = field(default_factory=set[tuple[str, Part]])
    covers: Covers = field(default_factory=Covers)
    notary: KeyNotary = field(default_factory=lambda: KeyNotary(key_source(None, None, {})))

    @property
    def settings(self) -> Settings:
        wait_s = self.patience_s
        return Settings(lease_s=1e9, poll_s=3600.0, settle_s=wait_s, drain_s=wait_s, replay_s=wait_s)


class DrilledLife:
    """`passed` names the points in order: each write, each effect. The one with the number `ends_at` is the last."""

    is_refused = False

    def __init__(self, ends_at: int | None) -> None:
        self.passed: list[str] = []
        self.stopped = False
        self.died = asyncio.Event()
        self._ends_at = ends_at
        self._buried = asyncio.Event()

    def busy(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    async def reach(self, point: str) -> None:
        if point.endswith(": after") and not point.startswith("claim") and not self.stopped:
            self.passed.append(point)
            if len(self.passed) == self._ends_at:
                self.stopped = True
                self.died.set()
        await self.stay_dead()

    async def stay_dead(self) -> None:
        if self.stopped:
            await self._buried.wait()
            raise JournalStoppedError("this process is dead")

    def bury(self) -> None:
        self._buried.set()


class RehearsedGate:
    """Asks the gate that counts, which is told that the drill is on; denies what it is told to."""

    def __init__(self, inner: Gate, saga: SagaId) -> None:
        self._inner = inner
        self._saga = saga
        self.denies: Place | None = None
        self.was_hit = False

    def judge(self, facts: Facts) -> Verdict:
        at = None if self.denies is None else self.denies.step
        if facts.phase == "compensation" and (facts.saga, facts.step) == (self._saga, at):
            self.was_hit = True
            return Verdict(decision=Decision.DENY, rule="drill", policy="", why="drill: denied")
        passed = replace(
            facts, drill_age_days=0.0, drill_whole_age_days=0.0, drill_result=PASSED, compensation_failures=0.0
        )
        return self._inner.judge(passed)


class Stage:
    """One run's journal, gate and executor, for as many lives as it takes."""

    def __init__(self, setting: Setting, place: Place, stop: Stop | None = None) -> None:
        self.setting = setting
        self.place = place
        self.definition = setting.definition
        self.ends_work = stop is not None and stop.step is None
        if self.ends_work:
            self.definition = copy(setting.definition)
            self.definition.rehearsal = self._stopping
        self.saga = SagaId(f"drill-{setting.clock.new_id()}")
        self.executor = Rehearsed(self.saga, setting.clock, setting.patience_s, setting.hung)
        self.executor.arm(place, None if stop is None else stop.step)
        self.gate = RehearsedGate(setting.gate, self.saga)
        if place.fault is Fault.UNDO_DENIED:
            self.gate.denies = place
        self.registry = Registry()
        self.registry.add_definition(self.definition)
        self._memory = Memory()
        self._authors: list[Author] = []

    async def _stopping(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - the user's own type
        """Have the work fail at its very end: everything is done, and nothing held has gone out."""
        try:
            result = await work
        except Complete:
            self._stop()
            raise
        self._stop()
        return result

    def _stop(self) -> None:
        if self.ends_work:
            raise Abort(STOPS)

    def disarm(self) -> None:
        """From now on nothing goes wrong."""
        self.executor.disarm()
        self.gate.denies = None
        self.ends_work = False

    async def live(self, script: Script, ends_at: int | None = None) -> DrilledLife:
        """One life, to its own end or to the point that it dies at."""
        life = DrilledLife(ends_at)
        self.executor.life = life
        journal = Mortal(self._open(), life, self._authors)
        coordinator = Coordinator(
            journal=journal,
            gate=self.gate,
            clock=self.setting.clock,
            env=self.setting.env,
            environments=self.setting.environments,
            registry=self.registry,
            settings=self.setting.settings,
            executor=self.executor,
        )
        await coordinator.__aenter__()
        played = asyncio.ensure_future(_whole(script, coordinator))
        dying = asyncio.ensure_future(life.died.wait())
        try:
            await asyncio.wait({played, dying}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            dying.cancel()
            life.bury()
            await asyncio.wait({played}, timeout=self.setting.patience_s)
            played.cancel()
            await coordinator.close()
            await asyncio.wait({played})
            self._memory.workers.clear()
        if life.stopped:
            await self.executor.threads_end()
            _ = played.cancelled() or played.exception()  # whatever the dead had to say, nobody hears it
        else:
            played.result()
        return life

    def _open(self) -> MemoryJournal:
        return MemoryJournal(self.setting.clock, self._memory, notary=self.setting.notary)

    async def entries(self) -> tuple[Entry, ...]:
        return await self._read(self.saga)

    async def family(self) -> DrilledFamily:
        """The saga and its children, as they are on record."""
        journal, found = self._open(), dict[SagaId, Account]()
        query = SagaQuery()
        while True:
            page = await journal.sagas(query)
            for row in page.rows:
                found[row.id] = Account(await self._read(row.id))
            if page.cursor is None:
                return DrilledFamily(self.saga, found)
            query = replace(query, before=page.cursor)

    async def _read(self, saga: SagaId) -> tuple[Entry, ...]:
        return tuple([entry async for entry in self._open().read(saga)])

    @property
    def last_writer(self) -> SagaId:
        """The saga that the newest entry is of."""
        return self._authors[-1].saga if self._authors else self.saga

    def office(self, saga: Saga) -> Office:
        """Where the probes of documents look."""
        settings, begun = self.setting.settings, saga.begun
        return Office(
            journal=self._open(),
            saga=saga.id,
            epoch=None,
            actor="" if begun is None else begun.actor,
            most_bytes=settings.document_bytes,
            keep=settings.document_versions,
        )

    async def evidence(self) -> list[str]:
        """Faults in the evidence of this run; there should be none."""
        report = await verify_journal(self._open())
        if report.conclusion is Conclusion.COVERED:
            return []
        return [*report.findings, *report.troubles] or [f"the evidence is {report.conclusion}, not covered"]


async def _whole(script: Script, coordinator: Coordinator) -> None:
    await script(coordinator)
