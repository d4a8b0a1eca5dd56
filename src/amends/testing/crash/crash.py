"""Die at every point, recover, and hold the journal against the world: every crash of a scenario, and every crash
after it.

def test_my_saga_survives() -> None: tried = Tried() every_death(Scenario(name="…", begin=…, ends=…), Ground, tried)
assert tried.complaints == []

A history is a list of lives on one ground: a first one that runs the scenario and ends at some point, one that
recovers and may end at some point of its own, and one that recovers undisturbed. Then the ledger is checked (see
world.py). The points of a life are counted as it passes them, so the enumeration needs no list of them: it goes on
until a life comes to its own end.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import field
from typing import Final, Self

from amends.clock import Clock
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.dataclass import dataclass
from amends.drill.mortal import Author
from amends.drill.world import Account, World, begun_after_return, check, went_with_its_step
from amends.errors import JournalError
from amends.journal.memory import Memory, MemoryJournal
from amends.journal.port.journal import Entry, Journal
from amends.runtime.coordinator.coordinator import Coordinator
from amends.runtime.settings import Settings
from amends.testing.crash.life import Blow, CrashLife, Script, here
from amends.testing.crash.loop import PatientLoop

__all__ = [
    "CrashGround",
    "Scenario",
    "SlowGround",
    "Tried",
    "every_death",
    "every_freeze",
    "every_refusal",
    "every_rival",
    "here",
]

SETTINGS: Final = Settings(lease_s=120.0, poll_s=3600.0)
LOCK_S: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Script of a process (`begin`), how its sagas may stand after a recovery, and what a person then does (`then`).

    `unharmed` is how they stand when nobody dies; `at_last`, where it differs from `ends`, after `then`. A person may
    die in the middle too, so what they do has to be something that can be done again.
    """

    name: str
    begin: Script
    unharmed: SagaStatus
    ends: frozenset[SagaStatus]
    then: Script | None = None
    at_last: frozenset[SagaStatus] | None = None
    env: str = "development"
    settings: Settings = SETTINGS
    people: Script | None = None
    """What people do whenever sagas wait for them; it comes before each recovery, which then goes on with the rest."""

    async def recover(self, coordinator: Coordinator) -> None:
        await coordinator.resume()
        if self.people is not None:
            await self.people(coordinator)
            await coordinator.resume()

    async def recover_and_then(self, coordinator: Coordinator) -> None:
        await self.recover(coordinator)
        if self.then is not None:
            await self.then(coordinator)


@dataclass(slots=True)
class Tried:
    """Counts of what was tried, and what was found wrong."""

    points: int = 0
    """Places that the scenario's first process died at."""
    deaths: int = 0
    """All that died, in a recovery too."""
    histories: int = 0
    """Recoveries that found something new, and were checked."""
    complaints: list[str] = field(default_factory=list[str])

    def add(self, other: Tried) -> None:
        """Count what was tried elsewhere, too."""
        self.points += other.points
        self.deaths += other.deaths
        self.histories += other.histories
        self.complaints += other.complaints


class CrashGround:
    """Everything that lives leave behind: a journal in memory, the world, and the time."""

    told_within_ms = 1_000
    """How long after a saga has begun to go back its children may not know of it yet."""

    def __init__(self) -> None:
        self.world = World()
        self.authors: list[Author] = []
        self.now_s = 1_000.0
        self.lives = 0
        self._memory = Memory()

    async def open(self, clock: Clock) -> Journal:
        return MemoryJournal(clock, self._memory)

    def found(self) -> Hashable:
        """The state that a process that starts now would find; the same for two crashes that make no difference."""
        sagas = tuple(
            (name, one.summary, tuple((stored.wire.name, stored.wire.body) for stored in one.entries))
            for name, one in self._memory.sagas.items()
        )
        documents = tuple((key, one.name, one.version) for key, one in self._memory.documents.items())
        lines = tuple((ticket.resource, ticket.saga, ticket.step) for ticket in self._memory.tickets)
        return (sagas, documents, lines, tuple((line.what, line.topic, line.key) for line in self.world.everything))

    def copy(self) -> Self:
        twin = type(self)()
        twin.world = World(lines=self.world.everything)
        twin.authors = list(self.authors)
        twin.now_s, twin.lives = self.now_s, self.lives
        twin._memory = self._memory.copy()
        return twin

    def damage(self, saga: str) -> None:
        """Change what a disk holds of a saga's second entry."""
        self._memory.sagas[SagaId(saga)].entries[1].hash = bytes(32)

    def bury_workers(self) -> None:
        """Let it be known at once that nobody is alive, as on one machine it is."""
        self._memory.workers.clear()

    def next_life(self, *, ends_at: int | None, blow: Blow) -> CrashLife:
        self.lives += 1
        return CrashLife(number=self.lives, since_s=self.now_s, world=self.world, ends_at=ends_at, blow=blow)

    def live(self, scenario: Scenario, script: Script, ends_at: int | None = None) -> CrashLife:
        """One life, to its own end or to the point that it dies at."""
        life = self.next_life(ends_at=ends_at, blow=Blow.DIE)
        life.begin(self, script, scenario.settings, scenario.env)
        if life.dead:
            died_s = life.loop.time()
            life.bury()
            self.leave(scenario, len(life.passed), died_s)
        else:
            self.now_s = life.loop.time()
        return life

    def leave(self, scenario: Scenario, point: int, died_s: float) -> None:
        """Let time go by after a death: at each other point until the lease has ended, else nobody waits for that."""
        self.now_s = died_s
        if point % 2:
            self.bury_workers()
        else:
            self.now_s += scenario.settings.lease_s + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A life's end at a point, and what it left; two that left the same have the same `found`."""

    point: int
    where: str
    found: Hashable
    ground: CrashGround


class SlowGround(CrashGround):
    """One whose write lock is slow: each append, claim and renewal waits for it, for LOCK_S.

    `keeps_alive`: whoever is known to live renews while somebody waits, as its heartbeat would.
    """

    told_within_ms = round(10 * LOCK_S * 1000)

    def __init__(self) -> None:
        super().__init__()
        self.keeps_alive = False

    def epochs(self, *, held: bool = False) -> dict[SagaId, int]:
        """How often each saga has changed hands; only of those that somebody has, where that is asked."""
        return {name: one.epoch for name, one in self._memory.sagas.items() if one.worker or not held}

    async def open(self, clock: Clock) -> Journal:
        async def wait() -> None:
            loop = asyncio.get_running_loop()
            with loop.idle() if isinstance(loop, PatientLoop) else contextlib.nullcontext():
                await clock.sleep(LOCK_S)
            workers = self._memory.workers
            for name, life in workers.items() if self.keeps_alive else ():
                workers[name] = dataclasses.replace(life, until=clock.elapsed() + life.ttl)

        return MemoryJournal(clock, self._memory, wait=wait)


def every_death(
    scenario: Scenario,
    make: Callable[[], CrashGround],
    tried: Tried,
    *,
    once: bool = True,
    twice: bool = True,
    stride: int = 1,
    until_broken: bool = False,
) -> None:
    """Die at each point of the scenario (once), and (twice) again at each point of the recovery, or each so manieth.

    What a recovery does depends on what it finds, and on nothing else: what has been recovered from once is not again,
    not even where the first of both was left to somebody else. With `until_broken` the first complaint is enough.
    """
    found: set[Hashable] = set()
    remains: list[Death] = []
    for death in _first_deaths(scenario, make, tried) if once else _deaths(scenario, make(), scenario.begin):
        if death.found in found:
            continue
        found.add(death.found)
        if twice:
            remains.append(dataclasses.replace(death, ground=death.ground.copy()) if once else death)
        if once:
            _settle(scenario, death.ground, f"died at {death.where}", tried)
        if until_broken and tried.complaints:
            return
    for death in remains:
        for again in _deaths(scenario, death.ground, scenario.recover_and_then, 1 + (death.point - 1) % stride, stride):
            tried.deaths += 1
            if again.found not in found:
                found.add(again.found)
                _settle(scenario, again.ground, f"died at {death.where}, and then at {again.where}", tried)


def _first_deaths(scenario: Scenario, make: Callable[[], CrashGround], tried: Tried) -> Iterator[Death]:
    """Die at each point of the scenario, and come to its end at last."""
    for point in itertools.count(1):
        ground = make()
        life = ground.live(scenario, scenario.begin, ends_at=point)
        if not life.dead:
            tried.complaints += _complaints(scenario, ground, life, frozenset({scenario.unharmed}), "nobody died")
            return
        tried.points += 1
        tried.deaths += 1
        yield Death(point=point, where=_where(life), found=ground.found(), ground=ground)


def _deaths(
    scenario: Scenario, before: CrashGround, script: Script, since: int = 1, stride: int = 1
) -> Iterable[Death]:
    """Deaths at each so manieth point of a life, with the ground that each would leave.

    It is the ground as it is when the point is come to, so one life that goes on to its end shows all of them: a copy
    at each point is as good as a life of its own that ends there. Only where a thread may be at work meanwhile, each
    of them is lived.
    """
    ground = before.copy()
    life = ground.next_life(ends_at=None, blow=Blow.DIE)
    deaths: list[Death] = []

    def note() -> None:
        point = len(life.passed)
        if point >= since and (point - since) % stride == 0:
            left = ground.copy()
            left.leave(scenario, point, life.loop.time())
            deaths.append(Death(point=point, where=_where(life), found=left.found(), ground=left))

    life.noted = note
    life.begin(ground, script, scenario.settings, scenario.env)
    return _deaths_one_by_one(scenario, before, script, since, stride) if life.has_threads else deaths


def _deaths_one_by_one(
    scenario: Scenario, before: CrashGround, script: Script, since: int, stride: int
) -> Iterator[Death]:
    for point in itertools.count(since, stride):
        ground = before.copy()
        life = ground.live(scenario, script, ends_at=point)
        if not life.dead:
            return
        yield Death(point=point, where=_where(life), found=ground.found(), ground=ground)


def _settle(scenario: Scenario, ground: CrashGround, story: str, tried: Tried) -> None:
    """Recover undisturbed, check; let the person do what they do, check again."""
    tried.histories += 1
    last = ground.live(scenario, scenario.recover)
    tried.complaints += _complaints(scenario, ground, last, scenario.ends, story)
    if scenario.then is not None:
        after = ground.live(scenario, scenario.then)
        ends = scenario.ends if scenario.at_last is None else scenario.at_last
        tried.complaints += _complaints(scenario, ground, after, ends, f"{story}; then the person acted")


def every_freeze(
    scenario: Scenario,
    make: Callable[[], CrashGround],
    tried: Tried,
    *,
    since: int = 1,
    stride: int = 1,
    on_waking: Callable[[Coordinator], None] | None = None,
) -> None:
    """Freeze at each point, past the lease; another takes over; then the first wakes and goes on, none the wiser.

    With a `stride`, at each so manieth from `since` on. `on_waking` is called before anything else then.
    """
    incident = frozenset({SagaStatus.INCIDENT})
    with_incidents = dataclasses.replace(
        scenario, ends=scenario.ends | incident, at_last=(scenario.at_last or scenario.ends) | incident
    )
    for point in itertools.count(since, stride):
        ground = make()
        first = ground.next_life(ends_at=point, blow=Blow.FREEZE)
        first.begin(ground, scenario.begin, scenario.settings, scenario.env)
        if not first.stopped:
            return
        story = f"slept at {_where(first)}"
        ground.now_s = first.loop.time() + scenario.settings.lease_s + 1
        second = ground.live(scenario, scenario.recover)
        tried.complaints += _complaints(scenario, ground, second, scenario.ends, f"{story}; was taken over")
        first.thaw(ground.now_s, on_waking)
        ground.now_s = first.loop.time()
        ground.bury_workers()
        tried.points += 1
        tried.complaints += [f"{scenario.name}: {story}: {what}" for what in _dispatched_asleep(first, second, point)]
        _settle(with_incidents, ground, story, tried)


def every_rival(scenario: Scenario, tried: Tried, *, since: int = 1, stride: int = 1) -> None:
    """At each point another worker looks for what is free, and waits for the lock while the first one renews.

    It takes nothing from the first, which goes on as if nobody had been there. With a `stride`, at each so manieth
    point from `since` on.
    """
    ends = scenario.ends | {scenario.unharmed}
    for point in itertools.count(since, stride):
        ground = SlowGround()
        ground.keeps_alive = True
        first = ground.next_life(ends_at=point, blow=Blow.FREEZE)
        first.begin(ground, scenario.begin, scenario.settings, scenario.env)
        if not first.stopped:
            return
        story = f"another looked at {_where(first)}"
        ground.now_s = first.loop.time()
        held = ground.epochs(held=True)
        ground.live(scenario, Coordinator.resume)
        tried.points += 1
        for saga in sorted(saga for saga, epoch in ground.epochs().items() if held.get(saga, epoch) != epoch):
            tried.complaints.append(f"{scenario.name}: {story}: and took saga {saga} from a worker that lives")
        first.thaw(ground.now_s)
        ground.now_s = first.loop.time()
        tried.complaints += _complaints(scenario, ground, first, ends, story)


def _dispatched_asleep(first: CrashLife, second: CrashLife, point: int) -> list[str]:
    """Dispatches by a life that slept just before one, was taken over, and has not claimed the saga anew."""
    slept_at = first.passed[point - 1]
    is_intent = any(
        intent in slept_at for intent in ("Dispatched", "AttemptStarted", "CompensationStarted", "MitigationStarted")
    )
    if "claim: after" not in second.passed or not (is_intent and slept_at.endswith(": after")):
        return []
    woken = itertools.takewhile(lambda name: name != "claim: after", first.passed[point:])
    return [f"and then did {name.partition(': before')[0]}" for name in woken if ": before its" in name]


def every_refusal(
    scenario: Scenario, make: Callable[[], CrashGround], tried: Tried, *, since: int = 1, stride: int = 1
) -> None:
    """Let each append fail once, as on a full disk; the process lives on, and resumes what it had to drop.

    With a `stride`, each so manieth append from the `since`-th on. Up to its point a life is as one that nobody harms,
    so that one says where the appends are.
    """

    async def go_on_all_the_same(coordinator: Coordinator) -> None:
        with contextlib.suppress(JournalError):
            await scenario.begin(coordinator)
        while await coordinator.list(status=("running", "waiting", "rolling_back", "paused")):
            await here().clock.sleep(60)
            await scenario.recover(coordinator)

    def lived(ground: CrashGround, point: int | None) -> CrashLife:
        life = ground.next_life(ends_at=point, blow=Blow.REFUSE)
        life.begin(ground, go_on_all_the_same, scenario.settings, scenario.env)
        return life

    unharmed = lived(make(), None).passed
    appends = [point for point, at in enumerate(unharmed, 1) if at.startswith("append") and at.endswith(": before")]
    for point in appends[since - 1 :: stride]:
        ground = make()
        life = lived(ground, point)
        tried.points += 1
        tried.histories += 1
        story = f"refused at point {point} ({life.passed[point - 1]})"
        tried.complaints += _complaints(scenario, ground, life, scenario.ends | {SagaStatus.INCIDENT}, story)


def _where(life: CrashLife) -> str:
    return f"point {len(life.passed)} ({life.passed[-1]})"


def _complaints(
    scenario: Scenario, ground: CrashGround, life: CrashLife, ends: frozenset[SagaStatus], story: str
) -> list[str]:
    found = [] if life.trouble is None else [f"it raised {type(life.trouble).__name__}: {life.trouble}"]
    if life.trouble is None:
        found += check(ground.world, life.entries)
        found += begun_after_return(life.entries, ground.told_within_ms)
        found += statuses_besides(life.entries, ends)
    found += stale(ground.authors)
    return [f"{scenario.name}: {story}: {what}" for what in found]


def statuses_besides(histories: list[tuple[Entry, ...]], ends: frozenset[SagaStatus]) -> list[str]:
    """Which sagas stand otherwise than this. A child that went back with the step that called it stands rightly."""
    found = {saga.id: saga for saga in (Account(entries).saga for entries in histories)}
    return [
        f"saga {saga.id} is {saga.phase}, not {' or '.join(sorted(ends))}"
        for saga in found.values()
        if saga.phase not in ends and not went_with_its_step(saga, found)
    ]


def stale(authors: list[Author]) -> list[str]:
    """Nobody writes under a lease that another has taken since."""
    newest: dict[str, Author] = {}
    found: list[str] = []
    for author in sorted((one for one in authors if one.epoch), key=lambda one: (one.saga, one.number)):
        before = newest.get(author.saga)
        if before is not None and (
            author.epoch < before.epoch or (author.epoch == before.epoch and author.worker != before.worker)
        ):
            found.append(f"saga {author.saga}: entry {author.number} is a stale worker's")
        newest[author.saga] = author
    return found
