"""One pair: a feature, a way to end, and the people that both need. Played in lives of its own, one of them killed.

Whatever a person does is done again by the next life where this one ended too early, so all of it can be done twice.
"""

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amends import SagaDefinition, SagaStatus, Settings, Work
from amends.clock import Clock
from amends.core.state.saga import Saga, open_waits
from amends.core.words.values import POLICIES as ADOPTED, SagaId, StepId
from amends.drill.mortal import Author
from amends.drill.world import ON_RECORD, RULES, Account, World, check, standing
from amends.errors import RefusedError, StepError, UnknownCheckpointError
from amends.evidence.sign.keys import key_source
from amends.evidence.sign.notary import KeyNotary
from amends.evidence.verify.examine import Conclusion
from amends.evidence.verify.verify import verify_journal
from amends.gate.load import load_policy
from amends.gate.policy import Policy
from amends.journal.port.journal import PARENT, Entry, Journal, SagaQuery
from amends.journal.sqlite import SqliteJournal
from amends.runtime.coordinator.coordinator import Coordinator
from amends.runtime.declare.registry import PROCESS
from amends.runtime.drive.family import PARENT_STEP
from amends.runtime.drive.policies import Policies
from amends.testing.crash.life import CrashLife
from amends.testing.families import Families
from amends.testing.simulation.loop import Dice
from amends.testing.simulation.process import VirtualHeart
from tests.pairs.endings import ANN, ID, POLICIES, Ending
from tests.pairs.features import CHILDREN, DOCUMENT, Feature, act

SETTINGS = Settings(lease_s=1e9, rollback_s=200.0, settle_s=5.0, drain_s=1.0, park_s=0.5, poll_s=1.0, lock_wait_s=20.0)
BOUND_S = 400.0
"""How long a verb may take, by the clock of these lives: twice the window of a rollback."""
ROUNDS = 30
COMPLETED, ROLLED_BACK, INCIDENT = SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK, SagaStatus.INCIDENT
ENDS = frozenset({COMPLETED, ROLLED_BACK, INCIDENT})
UNASKED = frozenset({"never", "go"})
"""Signals that nobody sends before they have done what they are here for."""
first = act("keyed.first")


class StuckError(Exception):
    """A promise about the verbs was broken: the story cannot go on."""


@dataclass(frozen=True, slots=True)
class Pair:
    """`without` names a mechanism that is switched off, to see that it shows."""

    feature: Feature
    ending: Ending
    without: str = ""

    @property
    def name(self) -> str:
        return f"{self.feature.name} x {self.ending.name}"

    @property
    def seed(self) -> int:
        return sum(place * ord(letter) for place, letter in enumerate(self.name, 1))

    def definition(self) -> SagaDefinition:
        async def work(s: Work) -> str:
            await s.do(first)
            told = await s.checkpoint("cp")
            await self.ending.around(s, self.feature.body, told)
            return "done"

        return SagaDefinition("pairs.pair", function=work, **self.ending.options)

    def stands(self) -> Counter[str]:
        return Counter({"keyed.first": 1}) + Counter(self.feature.stands) + Counter(self.ending.stands)

    def ends(self) -> frozenset[SagaStatus]:
        """Where something is out for good, whoever comes too late is refused, or a person is told."""
        after = {"completed": {COMPLETED}, "begun": {self.ending.ends, COMPLETED, INCIDENT}}
        late = after.get(self.ending.when) if self.feature.final else None
        return frozenset(late or {self.ending.ends, self.ending.or_ends or self.ending.ends})


@functools.cache
def notary() -> KeyNotary:
    return KeyNotary(key_source(None, None, {}))


@functools.cache
def first_policy() -> Policy:
    return load_policy(POLICIES / "asks.yaml")


class Folder:
    """What outlives a life: a journal, a world and a tree of files."""

    def __init__(self, path: Path) -> None:
        self.authors: list[Author] = []
        self.path = path
        self.world = World(path / "world")
        (path / "tree").mkdir(parents=True, exist_ok=True)

    async def open(self, clock: Clock) -> Journal:
        return await SqliteJournal.open(self.path / "journal.db", clock, notary=notary())


class PairLife(CrashLife):
    """A life whose coordinator goes by a policy, and whose heart beats in its own time."""

    def __init__(self, folder: Folder, pair: Pair, **life: Any) -> None:
        super().__init__(world=folder.world, **life)
        self.tree = folder.path / "tree"
        self._pair = pair

    async def _opened(self, journal: Journal, settings: Settings, env: str) -> Coordinator:
        gate = Policies(journal, self.clock, settings.poll_s)
        await gate.refresh()
        if await journal.saga(SagaId(ADOPTED)) is None:
            await gate.adopt(first_policy(), by="person:pairs", why="the first one")
        for definition in (*CHILDREN, self._pair.definition()):
            PROCESS.add_definition(definition)
        return Coordinator(
            journal=journal,
            gate=gate,
            clock=self.clock,
            settings=settings,
            env=env,
            registry=PROCESS,
            heart=functools.partial(VirtualHeart, self.loop, lambda: 0.0),
        )


class Story:
    """What people do in one life, until the saga is where it should be."""

    def __init__(self, pair: Pair, life: PairLife, folder: Folder, coordinator: Coordinator) -> None:
        self._pair = pair
        self._ending = pair.ending
        self._life = life
        self._world = folder.world
        self._c = coordinator
        self._moment = 2 + Dice(pair.seed).below(max(1, sum(pair.stands().values())))
        """At which call of the world a person interferes who does so in the middle."""
        self.complaints: list[str] = []

    async def tell(self) -> None:
        await self._within("start", self._start())
        for number in range(ROUNDS):
            under_way = {saga.id for saga in await self._sagas() if self._c._engine.running(saga.id) is not None}
            await self._while_driven(self._c.resume())
            left = await self._left_behind(under_way)
            if left:
                self.complaints.append(f"after resume(), {left}")
            if await self._is_over():
                return
            await self._interfere()
            await self._answer()
            await self._life.clock.sleep(min(2.0**number, 600.0))

    async def _start(self) -> None:
        if await self._c.journal.saga(SagaId(ID)) is None:
            if self._ending.before is not None:
                await self._ending.before(self._c)
            handle = await self._c.start(self._pair.definition(), id=ID)
            await self._while_driven(handle.halt())

    async def _within(self, what: str, verb: Coroutine[Any, Any, Any]) -> Any:
        try:
            async with asyncio.timeout(BOUND_S):
                return await verb
        except TimeoutError:
            raise StuckError(f"{what} did not return in {BOUND_S:g} s") from None

    async def _while_driven(self, verb: Coroutine[Any, Any, Any]) -> None:
        """The verb, and beside it a person who may interfere in the middle."""
        name = getattr(verb, "__name__", str(verb))
        driven = asyncio.ensure_future(self._within(f"{name}()", verb))
        while not driven.done():
            if self._ending.when == "begun":
                await self._interfere()
            await asyncio.wait({driven}, timeout=0.03 if self._ending.when == "begun" else BOUND_S)
        await driven

    # -- the person of the ending -------------------------------------------------------------------------------------

    async def _interfere(self) -> None:
        act, saga = self._ending.act, await self._saga()
        if act is None or saga is None or self._has_acted or not await self._is_due(saga):
            return
        try:
            await self._within(self._ending.name, _whole(act(self._c)))
        except UnknownCheckpointError:
            return
        except (RefusedError, StepError) as exc:
            self._world.tally(f"refused: {exc}")
        self._world.tally("acted")

    @property
    def _has_acted(self) -> bool:
        return any(line.what == "note" and line.topic == "acted" for line in self._world.everything)

    async def _is_due(self, saga: Saga) -> bool:
        when = self._ending.when
        if when == "begun":
            return saga.phase.ended or saga.status is SagaStatus.WAITING or len(self._world.lines) >= self._moment
        if when == "asked":
            return any(row.topic.startswith("adopted.") for row in await self._c.approvals())
        if when in {"never", "go"}:
            return when in {wait.name for wait in open_waits(saga)}
        if when == "paused":
            return any(one.status is SagaStatus.PAUSED for one in await self._sagas())
        return saga.status == when

    # -- the people of the feature ------------------------------------------------------------------------------------

    async def _answer(self) -> None:
        for approval in await self._c.approvals():
            if not approval.topic.startswith("adopted."):
                await self._within("grant()", self._c.grant(approval.id, by=ANN))
        for saga in await self._sagas():
            for wait in open_waits(saga):
                if wait.name and (wait.name not in UNASKED or (wait.name == "go" and self._has_acted)):
                    await self._within("signal()", self._c.signal(saga.id, wait.name, 7, by=ANN))
        root = await self._saga()
        if root is not None and root.status is SagaStatus.PAUSED and self._ending.when == "begun" and self._has_acted:
            await self._within("unpause()", self._c.unpause(saga=ID, by=ANN))

    # -- how it stands ------------------------------------------------------------------------------------------------

    async def _saga(self) -> Saga | None:
        return next((saga for saga in await self._sagas() if saga.id == ID), None)

    async def _sagas(self) -> list[Saga]:
        page = await self._c.journal.sagas(SagaQuery(limit=1000))
        names = [row.id for row in page.rows if not row.id.startswith("amends.")]
        return [(await self._c.show(name)).saga for name in names]

    async def _is_over(self) -> bool:
        sagas = await self._sagas()
        root = next((saga for saga in sagas if saga.id == ID), None)
        if root is None or any(saga.status not in ENDS for saga in sagas):
            return False
        return self._ending.act is None or self._has_acted or not await self._is_due(root)

    async def _left_behind(self, under_way: Collection[SagaId]) -> str:
        """A parent that waits for nothing but a child that has ended, and that nobody drove before."""
        sagas = {saga.id: saga for saga in await self._sagas()}
        for saga in sagas.values():
            labels = {} if saga.begun is None else saga.begun.labels
            parent = sagas.get(SagaId(labels.get(PARENT, "")))
            if parent is None or parent.status is not SagaStatus.WAITING or open_waits(parent) or parent.asked:
                continue
            if parent.id in under_way:
                continue
            step = parent.steps.get(StepId(labels.get(PARENT_STEP, "")))
            others = [one for one in parent.doubts if step is None or one != step.id]
            if step is not None and step.doubtful and not others and saga.phase in {COMPLETED, ROLLED_BACK}:
                return f"{parent.id} waits for {saga.id}, which is {saga.phase}"
        return ""


async def _whole(acting: Awaitable[object]) -> object:
    return await acting


# -- one life ---------------------------------------------------------------------------------------------------------


def lived(
    pair: Pair, folder: Folder, *, number: int, since_s: float, life: dict[str, Any], told: Callable[[PairLife], None]
) -> list[str]:
    """One life, to its own end or to the point that it is killed at; what is wrong then."""
    one = PairLife(folder, pair, number=number, since_s=since_s, **life)
    one.last_words = lambda: told(one)
    complaints: list[str] = []

    async def script(coordinator: Coordinator) -> None:
        story = Story(pair, one, folder, coordinator)
        try:
            await story.tell()
        except StuckError as exc:
            story.complaints.append(str(exc))
        complaints.extend(story.complaints)
        complaints.extend(await judged(pair, folder, coordinator))

    one.begin(folder, script, SETTINGS, "development")
    if one.trouble is not None:
        complaints.append(f"it raised {type(one.trouble).__name__}: {one.trouble}")
    told(one)
    return complaints


# -- judging ----------------------------------------------------------------------------------------------------------


async def judged(pair: Pair, folder: Folder, coordinator: Coordinator) -> list[str]:
    """The journal, held against the world, and both against what the pair should come to."""
    journal, found = coordinator.journal, list[str]()
    histories: dict[SagaId, list[Entry]] = {}
    order: list[tuple[SagaId, int]] = []
    async for logged in journal.log():
        entry = logged.entry
        if not entry.saga.startswith("amends."):
            histories.setdefault(entry.saga, []).append(entry)
            order.append((entry.saga, entry.number))
    accounts = {name: Account(tuple(entries)) for name, entries in histories.items()}
    lines = folder.world.lines
    on_files = pair.feature.file is not None  # which are no provider's: what stands of them is seen in the tree
    found += check(folder.world, histories.values(), ON_RECORD if on_files else RULES)
    found += Families(accounts, order, lines).complaints()
    root = accounts[SagaId(ID)].saga
    wanted = pair.ends()
    if root.phase not in wanted:
        rollback = "" if root.rollback is None else f": {root.rollback.why}"
        incidents = "".join(f"; {one.kind}: {one.why}" for one in root.open_incidents)
        found.append(f"it is {root.status}, not {' or '.join(sorted(wanted))}{rollback}{incidents}")
    else:
        found += await _standing(pair, folder, coordinator, accounts)
    async for row in coordinator.locks():
        found.append(f"{row.resource} is still {row.saga}'s")
    if root.phase.ended and (asked := await coordinator.approvals()):
        found.append(f"it is {root.phase}, and people are still asked about {asked[0].topic}")
    await journal.seal()
    report = await verify_journal(journal)
    if report.conclusion is not Conclusion.COVERED:
        found += [*report.findings, *report.troubles] or [f"the evidence is {report.conclusion}, not covered"]
    return found


async def _standing(pair: Pair, folder: Folder, coordinator: Coordinator, accounts: dict[SagaId, Account]) -> list[str]:
    """What stands, in the world, in the document and in the tree."""
    root, found = accounts[SagaId(ID)].saga, list[str]()
    nets = Counter[str]()
    topics = {line.of: line.topic for line in folder.world.lines}
    for key, net in standing(folder.world.lines).items():
        nets[topics[key]] += net
    kept = await coordinator.journal.document(DOCUMENT)
    document = None if kept is None or kept.deleted else kept.body
    note = folder.path / "tree" / "note"
    file = note.read_text() if note.exists() else None
    if root.phase is COMPLETED and not pair.ending.cut:
        actual: tuple[object, ...] = (dict(+nets), document, file)
        wanted: tuple[object, ...] = (dict(pair.stands()), pair.feature.document, pair.feature.file)
        if actual != wanted:
            found.append(f"it completed, and {actual} stands, not {wanted}")
    elif root.phase is ROLLED_BACK and (+nets or document is not None or file is not None):
        found.append(f"it was rolled back, and {dict(+nets)}, {document!r}, {file!r} stands")
    return found
