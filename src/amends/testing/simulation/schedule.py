"""One schedule: a saga, two or three processes, what goes wrong, and whether the ledger agrees at the end.

Everything follows from the seed. Each process has one fault at most: it dies at some turn of its loop, or stands still
for a while, which may be past its lease; its clock is set; its journal stops for good, and then it dies too. In some
schedules the journal's write lock is slow for everybody. When all that is over the rest run on for a while, and a last
process recovers what is left. Then the journal is held against the world.

One thing is left out, since nobody can promise it: a process that was replaced, calls the world all the same, and dies
before it can tell. Who freezes does not die.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final

from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import AmendsError
from amends.journal.port.journal import IncidentRow
from amends.runtime.declare.registry import Registry
from amends.testing.crash.loop import LoopClock
from amends.testing.simulation import people
from amends.testing.simulation.agents import work_in_session
from amends.testing.simulation.judging import complaints, simulated, waiting_for_people
from amends.testing.simulation.language import DEFINITIONS, EVERY_ACTION, MARK, SESSION, WORK, Program
from amends.testing.simulation.loop import Dice, SimLoop
from amends.testing.simulation.outcomes import left_behind
from amends.testing.simulation.outside import Flaws, Providers
from amends.testing.simulation.process import LEASE_S, Ground, Process
from amends.testing.simulation.programs import any_program, at_the_desk, has, plain, says

SAGA: Final = SagaId("simulated")
OTHER: Final = SagaId("simulated-2")
"""The saga that wants the same thing as SAGA, where that wants one."""
_ENDS: Final = frozenset({status for status in SagaStatus if status.ended} | {SagaStatus.INCIDENT})
_GLANCE_S: Final = 40.0
_AFTERLIFE_S: Final = 100.0
"""How long processes live on when nothing goes wrong any more: who slept finds out what it missed, and tells."""
_TURNS: Final = (40, 90, 90, 200)
"""Among how many of its first turns a process's fault is."""
_FINAL_TRIES: Final = 100
"""With the naps between them enough for what waits by a clock that was set an hour too far."""
_SLOW: Final = 1 << 40
_SLOW_IN_100: Final = 15
_SLOWEST_S: Final = 12.0
"""How long a write lock may take, at most: each append, claim and renewal waits for so long."""
_PERSON_S: Final = 20.0
"""How long a person waits before asking again."""


@dataclass(slots=True)
class Played:
    """The result of a schedule; `complaints` should be empty."""

    seed: int
    complaints: list[str]
    status: str
    faults: list[str]
    turns: int
    hours: float
    story: list[str] = field(default_factory=list[str])


def simulate(
    seed: int,
    flaws: Flaws = Flaws(),  # noqa: B008 - it never changes
    *,
    steps: int | None = None,
    listens: bool = False,
    workers: int | None = None,
    is_slow: bool = False,
) -> Played:
    """Play one schedule. The same seed gives the same, turn by turn.

    steps: the saga's length, which is otherwise left to chance. listens: keep the story, for somebody who reads it.
    workers: how many processes there are, otherwise two or three. is_slow: the way to the journal takes seconds, which
    otherwise it does in some schedules.
    """
    dice = Dice(seed)
    loop = SimLoop(dice)
    loop.set_exception_handler(_unheard)
    ground = Ground(
        loop=loop,
        dice=dice,
        providers=Providers(dice, lambda after_s, call: loop.call_later(after_s, call, context=Context()), flaws),
        registry=_registry(),
        listens=listens,
        slow_s=_slow_s(Dice(seed + _SLOW), always=is_slow),
    )
    ground.providers.tell = ground.tell
    chosen = any_program(seed, dice, SAGA) if steps is None else (WORK.name, plain(dice, steps))
    schedule = Schedule(ground, LoopClock(loop, 99), seed, *chosen, workers=workers)
    asyncio.set_event_loop(None)
    try:
        loop.run_until_complete(schedule.play())
    except Exception as exc:  # noqa: BLE001 - whatever it was, somebody wants to see it again, by its seed
        schedule.complaints.append("".join(traceback.format_exception(exc)[-2:]))
    finally:
        loop.bury()
        loop.close()
    return Played(
        seed=seed,
        complaints=schedule.complaints,
        status=schedule.status,
        faults=[*schedule.faults, *(f"call {fate.name.lower()}" for fate in ground.providers.fates)],
        turns=loop.turns,
        hours=(loop.time() - 1_000) / 3600,
        story=ground.story,
    )


def _slow_s(dice: Dice, *, always: bool) -> float:
    """Thrown apart from everything else, so that the other schedules are what they would be without it."""
    return dice.between(1, _SLOWEST_S) if always or dice.chance(_SLOW_IN_100) else 0.0


class Schedule:
    def __init__(
        self,
        ground: Ground,
        clock: LoopClock,
        seed: int,
        definition: str,
        program: Program,
        *,
        workers: int | None = None,
    ) -> None:
        self._ground = ground
        self._workers = workers
        self._clock = clock
        self._seed = seed
        self._sagas = {SAGA: (definition, program)}
        if has(program, "lock") and ground.dice.chance(60):
            self._sagas[OTHER] = (WORK.name, at_the_desk(ground.dice, OTHER))
        self._processes: list[Process] = []
        self._errands: list[asyncio.Future[None]] = []
        self._agents: list[asyncio.Future[None]] = []
        self.complaints: list[str] = []
        self.faults: list[str] = ["slow lock"] if ground.slow_s else []

    @property
    def status(self) -> str:
        record = self._ground.memory.sagas.get(SAGA)
        return "never begun" if record is None else str(record.summary.status)

    async def play(self) -> None:
        dice = self._ground.dice
        for saga, (definition, program) in self._sagas.items():
            self._ground.tell(f"saga {saga}: {definition} {program}")
        few = 2 + dice.chance(30)
        for number in range(self._workers or few):
            self._begin(number)
        if dice.chance(25):
            self._outside(self._cancel(dice.between(0, 60)))
        self._with_people()
        until = self._clock.elapsed() + dice.between(300, 900)
        while self._clock.elapsed() < until and not self._is_over:
            await self._clock.sleep(_GLANCE_S)
        self._ground.providers.is_well = True
        for process in self._processes:
            process.fault_at = 0
        while not self._is_settled:
            await self._clock.sleep(_GLANCE_S)
        await self._clock.sleep(_AFTERLIFE_S)
        await self._recover()

    @property
    def _is_over(self) -> bool:
        return SAGA in self._ground.memory.sagas and self._has_ended and self._is_settled

    @property
    def _has_ended(self) -> bool:
        """All have ended, or wait for a person."""
        sagas = simulated(self._ground.memory)
        return all(one.summary.status in _ENDS for one in sagas if one.id not in waiting_for_people(sagas))

    @property
    def _is_settled(self) -> bool:
        """Whether nobody stands still any more, and nothing is on its way."""
        return self._ground.providers.is_quiet and not any(process.is_frozen for process in self._processes)

    def _outside(self, work: Coroutine[Any, Any, None]) -> None:
        self._errands.append(asyncio.ensure_future(work))

    # -- processes ----------------------------------------------------------------------------------------------------

    def _begin(self, number: int) -> Process:
        process = Process(self._ground, number)
        self._doom(process)
        self._processes.append(process)
        process.start(lambda: asyncio.ensure_future(self._life(process, begins=number == 0)))
        return process

    async def _life(self, process: Process, *, begins: bool) -> None:
        coordinator = process.coordinator
        with suppress(AmendsError):
            await coordinator.__aenter__()
        name, program = self._sagas[SAGA]
        if name == SESSION:
            agent = asyncio.ensure_future(work_in_session(process, SAGA, program))
            self._agents.append(agent)
        elif begins:
            for saga, (name, program) in self._sagas.items():
                definition = DEFINITIONS[name]
                bound = {"given" if definition.steps else "program": program}
                with suppress(AmendsError):
                    _ = await coordinator.start_bound(definition, bound, id=saga)
        await process.scan()

    def _doom(self, process: Process) -> None:
        """Choose what is to go wrong with it, and when."""
        dice, ground = self._ground.dice, self._ground
        process.fault_at = dice.below(_TURNS[dice.below(len(_TURNS))]) + 1
        kind = dice.below(10)
        lasts_s = dice.between(1, LEASE_S * 3)

        def die() -> None:
            self.faults.append("death")
            self._die(process)

        def freeze() -> None:
            self.faults.append("freeze")
            ground.tell(f"{process.name} freezes for {lasts_s:.0f} s at turn {process.turns}")
            process.is_frozen = True
            ground.loop.call_later(lasts_s, thaw, context=Context())

        def thaw() -> None:
            ground.tell(f"{process.name} goes on")
            process.is_frozen = False

        def set_clock() -> None:
            self.faults.append("clock set")
            process.clock.skew_ms = dice.below(2 * 3_600_000) - 3_600_000
            ground.tell(f"{process.name}: its clock is set by {process.clock.skew_ms / 1000:.0f} s")

        def stop_journal() -> None:
            self.faults.append("journal stopped")
            ground.tell(f"{process.name}: its journal stops at its next write")
            process.store.stops_next = True
            ground.loop.call_later(lasts_s / LEASE_S * 20, lambda: self._die(process), context=Context())

        faults = (die, die, die, freeze, freeze, freeze, freeze, set_clock, stop_journal, None)
        process.on_fault = faults[kind]

    def _die(self, process: Process) -> None:
        dice, ground = self._ground.dice, self._ground
        if process.is_dead:
            return
        ground.tell(f"{process.name} dies at turn {process.turns}")
        process.die()
        if dice.chance(50):  # it is seen at once, as on one machine
            ground.memory.workers.pop(process.store.worker, None)
        self._begin(len(self._processes) + 1)

    # -- people -------------------------------------------------------------------------------------------------------

    def _with_people(self) -> None:
        """Somebody sends what is waited for, or nobody does; somebody stops everything for a while."""
        dice, program = self._ground.dice, self._sagas[SAGA][1]
        if has(program, "wait") and dice.chance(75):
            self._outside(self._ask(people.send(SAGA), dice.between(0, 60), tries=5))
        if "groups" not in program and dice.chance(15):
            self.faults.append("paused")
            since_s = dice.between(0, 10)
            self._outside(self._ask(people.pause(dice, SAGA), since_s))
            self._outside(self._ask(people.unpause(SAGA), since_s + dice.between(1, 200), tries=5))
        if "kind" in program:
            self._with_people_for_a_kind(program)

    def _with_people_for_a_kind(self, program: Program) -> None:
        """They answer what is asked anywhere in the family, interfere with parts of it, and see to what is stuck."""
        dice = self._ground.dice
        if says(program, "wait", "ask") and dice.chance(80):
            self._outside(self._ask(self._answer(), dice.between(0, 60), tries=4, again=True))
        if has(program, "mark") and dice.chance(60):
            self.faults.append("taken back to a mark")
            self._outside(self._ask(people.go_back(SAGA, to=MARK), dice.between(0, 100), tries=3))
        elif dice.chance(15):
            self.faults.append("taken back by a step")
            self._outside(self._ask(people.go_back(SAGA, last=1), dice.between(0, 60), tries=2))
        if dice.chance(15):
            self._outside(self._cancel_a_child(dice.between(0, 60)))
        if dice.chance(40):
            self._outside(self._ask(people.look_after(self._stuck), dice.between(60, 300), tries=3, again=True))

    def _answer(self) -> people.Errand:
        sagas = partial(simulated, self._ground.memory)
        return people.answer(lambda: [one.id for one in sagas() if one.summary.status is SagaStatus.WAITING])

    def _stuck(self) -> list[IncidentRow]:
        return [row for _, row in self._ground.memory.incidents.values() if row.closed_at is None]

    async def _cancel_a_child(self, after_s: float) -> None:
        """A person cancels what is a part of something else."""
        await self._clock.sleep(after_s)
        children = [one.id for one in simulated(self._ground.memory) if one.id not in self._sagas]
        if children:
            chosen = children[self._ground.dice.below(len(children))]
            await self._ask(people.cancel(chosen), 0, fault="child cancelled")

    async def _cancel(self, after_s: float) -> None:
        """A person cancels, even what has completed."""
        await self._ask(people.cancel(SAGA), after_s, fault="cancelled")

    async def _ask(
        self, errand: people.Errand, after_s: float, *, tries: int = 1, fault: str = "", again: bool = False
    ) -> None:
        """A person asks for something, by whichever process answers, until it is done; or, `again`, all the same."""
        await self._clock.sleep(after_s)
        answered = asyncio.Event()
        for number in range(tries):
            alive = [process for process in self._processes if not process.is_dead and not process.is_frozen]
            if alive and (again or not answered.is_set()):
                if fault:
                    self.faults.append(fault)
                chosen = alive[self._ground.dice.below(len(alive))]
                self._ground.tell(f"a person {errand.what} by {chosen.name}")
                chosen.start(partial(errand.begin, chosen.coordinator, answered))
            if number + 1 < tries:
                await self._clock.sleep(_PERSON_S)

    # -- the end ------------------------------------------------------------------------------------------------------

    async def _recover(self) -> None:
        """All processes end, and a last one takes up what is left, until nothing is."""
        ground = self._ground
        for process in self._processes:
            process.die()
        ground.memory.workers.clear()
        last = Process(ground, 90)
        over = asyncio.get_running_loop().create_future()
        last.start(lambda: asyncio.ensure_future(self._resumed(last, over)))
        await over
        self.complaints += ground.broken + ground.register.broken
        self.complaints += await complaints(
            ground.providers.world,
            ground.memory,
            ground.authors,
            self._clock,
            seed=self._seed,
            sagas=self._sagas,
        )

    async def _resumed(self, last: Process, over: asyncio.Future[None]) -> None:
        try:
            await last.coordinator.__aenter__()
            answers = self._answer() if "kind" in self._sagas[SAGA][1] else None
            for _ in range(_FINAL_TRIES):
                if "paused" in self.faults:  # again: one that was taken back while it was paused is so once more then
                    await people.unpause(SAGA).run(last.coordinator, asyncio.Event())
                under_way = [saga for saga in self._ground.memory.sagas if last.drives(saga)]
                await last.coordinator.resume()
                if self._has_ended:
                    break
                if "clock set" not in self.faults:  # what is due by such a clock may be due in an hour
                    self.complaints += left_behind(self._ground.memory, under_way)
                if answers is not None:
                    await answers.run(last.coordinator, asyncio.Event())
                await last.nap(50, 100)
        except AmendsError as exc:
            self.complaints.append(f"the last process raised {type(exc).__name__}: {exc}")
        finally:
            over.set_result(None)


@cache
def _registry() -> Registry:
    registry = Registry()
    for definition in DEFINITIONS.values():
        registry.add_definition(definition)
    for action in EVERY_ACTION:
        registry.add_action(action)
    return registry


def _unheard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore what the remains of dead processes complain about."""
