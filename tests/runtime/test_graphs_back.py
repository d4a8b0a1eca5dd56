"""The way back through a graph: by reverse dependency, and side by side only where steps are declared independent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings, strategies as st

import amends
import amends.types
from amends import Done, Ended, Fatal, Happened, NotDone, Retries, SagaDefinition, Settings, Step, Work, register, saga
from amends.changeset import Files
from amends.core import events as e
from amends.journal.memory import Memory
from tests.runtime.support import QuickClock, World, coordinator


@dataclass
class Backs:
    """Compensations that say when they begin and end, and meet each other where a barrier is given."""

    log: list[str] = field(default_factory=list[str])
    open: set[str] = field(default_factory=set[str])
    most: int = 0
    meeting: asyncio.Barrier | None = None
    meets: frozenset[str] = frozenset()
    outcomes: dict[str, list[BaseException | None]] = field(default_factory=dict[str, list[BaseException | None]])
    lingers: Mapping[str, int] = field(default_factory=dict[str, int])

    def action(self, name: str, *fails: BaseException | None, **contract: Any) -> amends.Action[..., Any]:
        pending = list(fails)

        async def act() -> str:
            failure = pending.pop(0) if pending else None
            if failure is not None:
                raise failure
            return name

        async def undo(done: Done) -> None:
            self.log.append(f"{name} begins")
            self.open.add(name)
            self.most = max(self.most, len(self.open))
            try:
                if self.meeting is not None and name in self.meets:
                    async with asyncio.timeout(5):
                        await self.meeting.wait()
                for _ in range(self.lingers.get(name, 1)):
                    await asyncio.sleep(0)
                left = self.outcomes.get(name)
                failure = left.pop(0) if left else None
                if failure is not None:
                    raise failure
                self.log.append(f"{name} ended")
            finally:
                self.open.discard(name)

        return register(f"test.{name}", act, compensation=undo, **contract)


def steps_of(backs: Backs, after: Mapping[str, list[str]], fatal: str, **contract: Any) -> list[Step]:
    """These steps, of which one fails, and certainly did nothing."""
    return [
        Step(
            backs.action(name, *[Fatal("no", happened=False)] if name == fatal else [], **contract),
            name=name,
            after=needs,
        )
        for name, needs in after.items()
    ]


DIAMOND = {"root": [], "left": ["root"], "right": ["root"], "join": ["left", "right"]}
QUICK = Retries(attempts=3, first_s=1)


async def run(definition: SagaDefinition, memory: Memory | None = None, **kwargs: Any) -> Ended:
    async with coordinator(memory, **kwargs) as opened:
        return await opened.run(definition, id="s")


# -- side by side, or not --------------------------------------------------------------------------------------------


def test_independent_steps_are_taken_back_side_by_side_and_what_they_need_after_both() -> None:
    backs = Backs(meets=frozenset({"left", "right"}))

    async def whole() -> Ended:
        backs.meeting = asyncio.Barrier(2)
        return await run(SagaDefinition("test.diamond", steps_of(backs, DIAMOND, "join")))

    assert asyncio.run(whole()).status == "rolled_back"
    assert sorted(backs.log[:2]) == ["left begins", "right begins"]
    assert sorted(backs.log[2:4]) == ["left ended", "right ended"]
    assert backs.log[4:] == ["root begins", "root ended"]


def test_lists_and_functions_are_never_taken_back_side_by_side() -> None:
    backs = Backs()
    left, right = backs.action("left"), backs.action("right")
    last = backs.action("last", *[Fatal("no", happened=False)] * 2)

    @saga("test.gathers")
    async def gathers(s: Work) -> None:
        await asyncio.gather(s.do(left), s.do(right))
        await s.do(last)

    listed = SagaDefinition(
        "test.listed", [Step(left, name="left"), Step(right, name="right"), Step(last, name="last")]
    )
    for definition in (gathers, listed):
        backs.log.clear()
        assert asyncio.run(run(definition)).status == "rolled_back"
        assert backs.log == ["right begins", "right ended", "left begins", "left ended"]
    assert backs.most == 1


def test_a_step_that_came_to_nothing_still_links_those_on_either_side_of_it() -> None:
    """`b` was denied, `b.2` done in its place: what came after it goes back before what came before it."""
    backs = Backs(lingers={"c": 5})
    definition = SagaDefinition(
        "test.linked",
        [
            Step(backs.action("a"), name="a"),
            Step(backs.action("b", Fatal("busy", happened=False)), name="b", after=["a"], retry=1),
            Step(backs.action("c"), name="c", after=["b"]),
            Step(backs.action("d", Fatal("no", happened=False)), name="d", after=["c"]),
        ],
    )
    assert asyncio.run(run(definition)).status == "rolled_back"
    assert [line for line in backs.log if "begins" in line] == ["c begins", "b begins", "a begins"]
    assert backs.most == 1


# -- one branch in trouble -------------------------------------------------------------------------------------------

TWO_BRANCHES = {"a": [], "b": ["a"], "c": ["a"], "d": [], "f": ["d"], "end": ["b", "c", "f"]}


def stands_at(memory: Memory) -> list[tuple[str, tuple[str, ...]]]:
    async def whole() -> list[tuple[str, tuple[str, ...]]]:
        async with coordinator(memory) as opened:
            events = [entry.event for entry in (await opened.show("s")).entries]
        return [(str(event.step), event.left) for event in events if isinstance(event, e.IncidentOpened)]

    return asyncio.run(whole())


def test_a_compensation_that_fails_for_good_stops_what_waits_for_it_and_nothing_else() -> None:
    backs, memory = Backs(outcomes={"c": [Fatal("it is gone")]}, lingers={"b": 9, "f": 9}), Memory()
    definition = SagaDefinition("test.branches", steps_of(backs, TWO_BRANCHES, "end"))

    async def whole() -> Ended:
        async with coordinator(memory) as opened:
            ended = await opened.run(definition, id="s")
            assert (ended.status, ended.incidents) == ("incident", ("s/1",))
            assert {line.split()[0] for line in backs.log if "ended" in line} == {"b", "f", "d"}
            return await opened.resolve_incident("s/1", by="person:ann", reason="done by hand")

    assert asyncio.run(whole()).status == "rolled_back"
    assert stands_at(memory) == [("c", ("c", "a"))]
    assert backs.log[-1] == "a ended"


def test_two_branches_in_trouble_are_two_incidents_and_each_is_mended_on_its_own() -> None:
    backs, memory = Backs(outcomes={"c": [Fatal("gone")], "f": [Fatal("gone too")]}), Memory()
    definition = SagaDefinition("test.branches", steps_of(backs, TWO_BRANCHES, "end"))

    async def whole() -> None:
        async with coordinator(memory) as opened:
            ended = await opened.run(definition, id="s")
            assert (ended.status, ended.incidents) == ("incident", ("s/1", "s/2"))
            of = {str(one.step): one.id async for one in opened.incidents()}
            assert (await opened.retry_incident(of["f"], by="person:ann")).status == "incident"
            assert backs.log[-1] == "d ended"
            assert "a begins" not in backs.log
            assert (await opened.retry_incident(of["c"], by="person:ann")).status == "rolled_back"

    asyncio.run(whole())
    left = dict(stands_at(memory))
    assert {*left["c"], *left["f"]} == {"a", "c", "d", "f"}
    assert "a" in left["c"]
    assert "d" in left["f"]


def test_a_branch_that_waits_to_be_tried_again_does_not_hold_up_the_other() -> None:
    backs = Backs(outcomes={"c": [NotDone("busy"), NotDone("busy")]})
    definition = SagaDefinition(
        "test.branches", steps_of(backs, TWO_BRANCHES, "end", compensation_retries=Retries(first_s=60))
    )
    assert asyncio.run(run(definition)).status == "rolled_back"
    assert backs.log.index("d ended") < backs.log.index("c ended") < backs.log.index("a begins")


def test_a_lost_step_is_asked_about_beside_the_others() -> None:
    world = World()
    definition = SagaDefinition(
        "test.lost",
        [
            Step(world.action("a"), name="a"),
            Step(world.action("b"), name="b", after=["a"]),
            Step(world.action("c", Fatal("cut"), probe=[OSError("busy"), Happened(None)]), name="c", after=["a"]),
        ],
    )
    assert asyncio.run(run(definition)).status == "rolled_back"
    assert world.seen.index("unb") < world.seen.index("unc") < world.seen.index("una")
    assert world.seen.count("ask c") == 2


def test_a_denied_compensation_stops_its_own_branch(tmp_path: Any) -> None:
    backs = Backs()
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: v1\ndefault: allow\nrules:\n"
        "  - {id: not-c, when: {topic: test.c, phase: compensation}, decision: deny}\n"
    )
    definition = SagaDefinition("test.branches", steps_of(backs, TWO_BRANCHES, "end"))

    async def whole() -> tuple[Ended, Ended]:
        async with amends.Coordinator.open(str(tmp_path / "amends.db"), policy=str(policy)) as opened:
            stopped = await opened.run(definition, id="s", actor="agent:a")
            return stopped, await opened.retry_incident("s/1", by="person:ann", let_run=True)

    stopped, ended = asyncio.run(whole())
    assert (stopped.status, ended.status) == ("incident", "rolled_back")
    assert backs.log.index("d ended") < backs.log.index("c begins") < backs.log.index("a begins")


def test_when_the_window_has_passed_one_incident_names_all_that_is_left() -> None:
    backs, memory = Backs(outcomes={"c": [NotDone("busy")] * 9, "f": [NotDone("busy")] * 9}), Memory()
    retries = Retries(attempts=99, first_s=600, cap_s=600)
    definition = SagaDefinition("test.window", steps_of(backs, TWO_BRANCHES, "end", compensation_retries=retries))
    made = Settings(lease_s=1_000_000, settle_s=1, rollback_s=900)
    ended = asyncio.run(run(definition, memory, settings=made))
    assert (ended.status, ended.incidents) == ("incident", ("s/1",))
    assert stands_at(memory) == [("f", ("f", "c", "d", "a"))] or stands_at(memory) == [("f", ("f", "d", "c", "a"))]


def test_a_pause_lets_what_runs_come_to_its_end_and_the_rest_goes_on_afterwards() -> None:
    backs, memory = Backs(meets=frozenset({"left", "right"})), Memory()

    async def whole() -> tuple[list[str], Ended]:
        backs.meeting = asyncio.Barrier(3)
        definition = SagaDefinition("test.diamond", steps_of(backs, DIAMOND, "join"))
        async with coordinator(memory) as opened:
            handle = await opened.start(definition, id="s")
            while len(backs.open) < 2:
                await asyncio.sleep(0)
            await opened.pause(by="person:ann", why="a look", rollbacks="stop")
            async with asyncio.timeout(5):
                await backs.meeting.wait()
            while (await opened.show("s")).status != "paused":
                await asyncio.sleep(0)
            paused = list(backs.log)
            await opened.unpause(everything=True, by="person:ann")
            return paused, await handle

    paused, ended = asyncio.run(whole())
    assert ended.status == "rolled_back"
    assert sorted(paused[2:]) == ["left ended", "right ended"]
    assert backs.log[-2:] == ["root begins", "root ended"]


# -- files ------------------------------------------------------------------------------------------------------------


def test_layers_of_files_go_newest_first_whatever_is_declared(tmp_path: Any) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()

    def write(name: str) -> amends.Action[..., Any]:
        async def put(files: Files) -> None:
            files.write_text(name, name)

        return register(f"test.write_{name}", put)

    fatal = World().action("last", Fatal("no", happened=False))
    names = ["one", "two", "three"]
    definition = SagaDefinition(
        "test.layers",
        [*(Step(write(name), name=name) for name in names), Step(fatal, name="last", after=names)],
        files=[str(tree)],
    )

    async def whole() -> tuple[Ended, list[str]]:
        async with amends.Coordinator.open(str(tmp_path / "amends.db")) as opened:
            ended = await opened.run(definition, id="s")
            events = [entry.event for entry in (await opened.show("s")).entries]
        intents = [event.step for event in events if isinstance(event, (e.ActionDispatched, e.AttemptStarted))]
        undone = [event.step for event in events if isinstance(event, e.CompensationSucceeded)]
        return ended, [*intents[:3][::-1], "|", *undone]

    ended, order = asyncio.run(whole())
    assert ended.status == "rolled_back"
    assert order[:3] == order[4:]


# -- any graph --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A graph, which of its steps fail, and how its compensations end."""

    after: dict[str, list[str]]
    lost: frozenset[str]
    undo: dict[str, str]
    lingers: dict[str, int]

    @property
    def broken(self) -> set[str]:
        return {name for name, how in self.undo.items() if how == "fatal"}

    def before(self, name: str) -> set[str]:
        """All that it is after."""
        direct = self.after[name]
        return set(direct).union(*(self.before(one) for one in direct))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = [f"s{n}" for n in range(draw(st.integers(2, 6)))]
    after = {
        name: draw(st.lists(st.sampled_from(names[:at]), unique=True)) if at else [] for at, name in enumerate(names)
    }
    ends = st.sampled_from(["well", "well", "again", "fatal", "lost"])
    return Case(
        after={**after, "end": names},
        lost=draw(st.frozensets(st.sampled_from(names), max_size=2)),
        undo={name: draw(ends) for name in names},
        lingers={name: draw(st.integers(0, 6)) for name in names},
    )


ENDS: dict[str, list[BaseException | None]] = {
    "well": [],
    "again": [NotDone("busy")],
    "lost": [ConnectionError("cut")],
    "fatal": [Fatal("never")],
}


@settings(max_examples=40, deadline=None)
@given(case=cases())
def test_every_order_respects_reverse_dependency(case: Case) -> None:
    backs = Backs(outcomes={name: list(ENDS[how]) for name, how in case.undo.items()}, lingers=case.lingers)
    steps = [
        Step(
            backs.action(
                name, *_fails(name, case), idempotent=True, retries=Retries(first_s=1), compensation_retries=QUICK
            ),
            name=name,
            after=needs,
        )
        for name, needs in case.after.items()
    ]
    memory = Memory()
    ended = asyncio.run(run(SagaDefinition("test.any", steps), memory, clock=QuickClock()))
    stuck = {name for name in case.after if name in case.broken or any(name in case.before(one) for one in case.broken)}
    undone = {line.removesuffix(" ended") for line in backs.log if line.endswith(" ended")}
    for at, line in enumerate(backs.log):
        if line.endswith(" begins"):
            name = line.removesuffix(" begins")
            later = {one for one in case.after if one != "end" and name in case.before(one)}
            assert later <= {done.removesuffix(" ended") for done in backs.log[:at] if done.endswith(" ended")}
    assert undone == set(case.after) - {"end"} - stuck
    assert ended.status == ("incident" if stuck else "rolled_back")
    assert {one for _, left in stands_at(memory) for one in left} == stuck


def _fails(name: str, case: Case) -> list[BaseException | None]:
    if name == "end":
        return [Fatal("no", happened=False)]
    return [ConnectionError("cut")] if name in case.lost else []


# -- from outside -----------------------------------------------------------------------------------------------------


def test_what_is_done_anew_after_a_rollback_of_the_last_is_after_what_was_done_anew() -> None:
    backs, memory = Backs(), Memory()
    definition = SagaDefinition("test.anew", steps_of(backs, {"a": [], "b": ["a"], "c": ["b"]}, ""))

    async def whole() -> Ended:
        async with coordinator(memory) as opened:
            await opened.run(definition, id="s")
            return await opened.rollback("s", last=2, by="person:ann", why="again")

    assert asyncio.run(whole()).status == "completed"

    async def facts() -> list[tuple[str, tuple[str, ...] | None]]:
        async with coordinator(memory) as opened:
            events = [entry.event for entry in (await opened.show("s")).entries]
        return [(event.step, event.after) for event in events if isinstance(event, e.ActionDispatched)]

    assert asyncio.run(facts())[3:] == [("b~2", ("a",)), ("c~2", ("b~2",))]


def test_a_plan_says_what_would_go_side_by_side() -> None:
    backs = Backs()
    definition = SagaDefinition("test.plan", steps_of(backs, TWO_BRANCHES, ""))

    async def whole() -> amends.types.RollbackPlan:
        async with coordinator() as opened:
            await opened.run(definition, id="s")
            return await opened.rollback("s", plan=True)

    plan = asyncio.run(whole())
    turns = [(step.order, step.step) for step in plan.steps]
    assert sorted(turns) == [(1, "end"), (2, "b"), (2, "c"), (2, "f"), (3, "a"), (3, "d")]
    assert "  3. test.a (step a): " in str(plan)


def test_a_wide_graph_goes_back_at_once() -> None:
    backs, many = Backs(), 60
    wide: dict[str, list[str]] = {f"s{n}": [] for n in range(many)}
    definition = SagaDefinition("test.wide", steps_of(backs, {**wide, "end": list(wide)}, "end"))
    assert asyncio.run(run(definition)).status == "rolled_back"
    assert backs.most > 1
    assert len(backs.log) == 2 * many
