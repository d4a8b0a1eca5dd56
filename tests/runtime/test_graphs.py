"""Graphs, early success and recovery: what runs when, what is left out, and what becomes of what failed."""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

import pytest

import amends
from amends import (
    CallPerson,
    Complete,
    Done,
    Ended,
    Fatal,
    Happened,
    NotDone,
    NotHappened,
    Retries,
    SagaDefinition,
    Step,
    StepLostError,
    Work,
    given,
    register,
    result_of,
    saga,
)
from amends.core import events as e
from amends.errors import DeclarationError, InputError
from amends.journal.memory import Memory
from tests.core.test_cost import calls_in
from tests.runtime.support import QuickClock, World, coordinator


def run(definition: SagaDefinition, *args: Any, memory: Memory | None = None, **kwargs: Any) -> Ended:
    async def whole() -> Ended:
        async with coordinator(memory) as opened:
            return await opened.run(definition, *args, id="s", **kwargs)

    return asyncio.run(whole())


def facts(memory: Memory) -> list[e.Event]:
    async def whole() -> list[e.Event]:
        async with coordinator(memory) as opened:
            return [entry.event for entry in (await opened.show("s")).entries]

    return asyncio.run(whole())


class Meeting:
    """Actions that go on only when all of them have begun: they pass if they run side by side."""

    def __init__(self, world: World, many: int) -> None:
        self._world = world
        self._barrier = asyncio.Barrier(many)

    def action(self, name: str) -> amends.Action[..., Any]:
        async def meet() -> str:
            self._world.note(name)
            async with asyncio.timeout(5):
                await self._barrier.wait()
            return name

        def part(done: Done) -> None:
            self._world.note(f"un{name}")

        return register(f"test.{name}", meet, compensation=part)


# -- order -----------------------------------------------------------------------------------------------------------


def test_steps_whose_predecessors_are_done_run_side_by_side() -> None:
    world = World()

    async def whole() -> Ended:
        meeting = Meeting(world, 2)
        definition = SagaDefinition(
            "test.diamond",
            [
                Step(world.action("join"), name="join", after=["left", "right"]),
                Step(meeting.action("left"), name="left", after=["root"]),
                Step(meeting.action("right"), name="right", after=["root"]),
                Step(world.action("root"), name="root"),
            ],
        )
        async with coordinator() as opened:
            return await opened.run(definition)

    ended = asyncio.run(whole())
    assert ended.status == "completed"
    assert world.seen == ["root", "left", "right", "join"]
    assert set(ended.result) == {"root", "left", "right", "join"}


def test_wanting_a_result_is_being_after_it() -> None:
    world = World()
    first = world.action("first", result={"n": 7})
    second = world.action("second")
    third = world.action("third")
    memory = Memory()
    ended = run(
        SagaDefinition(
            "test.results",
            [
                Step(second, {"n": result_of("first", "n")}, name="second"),
                Step(first, name="first"),
                Step(third, {"n": given("n")}, name="third", after=[Step(second, name="second")]),
            ],
        ),
        memory=memory,
        n=3,
    )
    assert ended.status == "completed"
    assert world.seen == ["first(3)", "second(7)", "third(3)"]
    begun = [event for event in facts(memory) if isinstance(event, e.ActionDispatched)]
    assert [(event.step, event.after) for event in begun] == [
        ("first", ()),
        ("second", ("first",)),
        ("third", ("second",)),
    ]


def test_a_failure_begins_no_other_step_and_everything_is_taken_back_newest_first() -> None:
    world = World()
    definition = SagaDefinition(
        "test.fails",
        [
            Step(world.action("a"), name="a"),
            Step(world.action("b"), name="b", after=["a"]),
            Step(world.action("c", Fatal("no", happened=False)), name="c", after=["a"]),
            Step(world.action("d"), name="d", after=["b", "c"]),
        ],
    )
    ended = run(definition)
    assert (ended.status, ended.step) == ("rolled_back", "c")
    assert world.seen == ["a", "b", "c", "unb", "una"]


def test_a_step_that_waits_to_be_tried_again_does_not_hold_up_the_rollback() -> None:
    world = World()
    never = world.action("never", *[NotDone("later")] * 99, retries=Retries(attempts=99, first_s=3600, cap_s=3600))
    fatal = world.action("fatal", *[NotDone("once")], Fatal("no", happened=False), retries=Retries(first_s=60))
    ended = run(SagaDefinition("test.idle", [Step(never, name="a"), Step(fatal, name="b"), Step(fatal, after=["a"])]))
    assert (ended.status, ended.step) == ("rolled_back", "b")


BAD: list[tuple[list[tuple[str, Any]], str]] = [
    ([("a", ["c"]), ("b", ["a"]), ("c", ["b"])], "a cycle, a -> b -> c -> a"),
    ([("x", []), ("a", ["b", "x"]), ("b", ["a"])], "a cycle, a -> b -> a"),
    ([("a", ["a"])], "step a is after itself"),
    ([("a", []), ("b", ["aa"])], "step b is after aa, which is no step of it; there are a, b"),
    ([("a", []), ("a", ["a"])], "two steps called a; give one of them a name="),
    ([("a", []), ("1", ["a"])], "'1' is none; give it a name="),
    ([("a", []), ("b", "a")], "after= takes a list"),
]


@pytest.mark.parametrize(("steps", "says"), BAD)
def test_a_graph_that_could_never_run_is_refused_where_it_is_declared(steps: list[Any], says: str) -> None:
    act = World().action("act")
    with pytest.raises(DeclarationError, match=re.escape(says)):
        SagaDefinition("test.bad", [Step(act, name=name, after=after) for name, after in steps])


def test_a_long_chain_is_no_cycle_and_no_recursion() -> None:
    act = World().action("act")
    steps = [Step(act, name=f"s{n}", after=[f"s{n - 1}"] if n else []) for n in range(3000)]
    assert len(SagaDefinition("test.long", steps).steps) == 3000


def test_what_the_input_lacks_is_said_for_recoveries_too() -> None:
    act, other = World().action("act"), World().action("other")
    definition = SagaDefinition("test.lacks", [Step(act, on_failure=Step(other, {"n": given("m")}, name="other"))])
    with pytest.raises(InputError, match="step other needs m in the input"):
        run(definition)


def test_a_graph_is_resumed_by_its_labels_whichever_came_first() -> None:
    memory, world, clock = Memory(), World(), QuickClock()
    order = ["left", "right"]
    turns = {"left": 0, "right": 1}

    async def slow(name: str) -> str:
        await asyncio.sleep(0.001 * turns[name])
        world.note(name)
        return name

    actions = {name: register(f"test.{name}", slow, idempotent=True, compensation=print) for name in order}
    gate = asyncio.Event()

    async def last(first: str, second: str) -> str:
        world.note(f"last {first} {second}")
        await gate.wait()
        return "end"

    ending = register("test.last", last, idempotent=True, compensation=print)
    definition = SagaDefinition(
        "test.resumed",
        [
            Step(ending, {"first": result_of("left"), "second": result_of("right")}, name="last"),
            *(Step(actions[name], {"name": name}, name=name) for name in order),
            Step(actions["left"], {"name": "left"}, name="again", after=["left"]),
        ],
    )

    async def begin() -> None:
        async with coordinator(memory, clock=clock, settings=amends.Settings(drain_s=0)) as opened:
            _ = await opened.start(definition, id="s")
            while "last left right" not in world.seen:
                await asyncio.sleep(0.001)

    async def end() -> Ended:
        gate.set()
        async with coordinator(memory, clock=clock) as opened:
            opened.registry.add_definition(definition)
            return (await opened.resume())[0]

    async def whole() -> Ended:
        await begin()
        turns.update(left=1, right=0)
        return await end()

    ended = asyncio.run(whole())
    assert (ended.status, ended.result["last"]) == ("completed", "end")
    assert sorted(world.seen[:3]) == ["left", "left", "right"]
    assert set(world.seen[3:]) == {"last left right"}


# -- early success ---------------------------------------------------------------------------------------------------


def test_a_step_that_is_all_that_was_needed_ends_the_work_and_the_record_says_so() -> None:
    world, memory = World(), Memory()
    definition = SagaDefinition(
        "test.early",
        [
            Step(world.action("look", result={"found": True}), name="look", complete_if=lambda seen: seen["found"]),
            Step(world.action("buy"), name="buy"),
        ],
    )
    ended = run(definition, memory=memory)
    assert (ended.status, ended.result) == ("completed", {"look": {"found": True}})
    assert world.seen == ["look"]
    completed = facts(memory)[-1]
    assert isinstance(completed, e.SagaCompleted)
    assert completed.early == "step look was all that was needed; not run: buy"


def test_early_success_in_a_graph_lets_what_runs_come_to_its_end() -> None:
    world, memory = World(), Memory()

    async def whole() -> Ended:
        meeting = Meeting(world, 2)
        definition = SagaDefinition(
            "test.early_graph",
            [
                Step(meeting.action("a"), name="a", complete_if=bool),
                Step(meeting.action("b"), name="b"),
                Step(world.action("c"), name="c", after=["a", "b"]),
            ],
        )
        async with coordinator(memory) as opened:
            return await opened.run(definition, id="s")

    assert asyncio.run(whole()).status == "completed"
    assert world.seen == ["a", "b"]
    ended = [event.step for event in facts(memory) if isinstance(event, e.AttemptSucceeded)]
    assert sorted(ended) == ["a", "b"]


def test_a_function_may_be_complete_deep_inside() -> None:
    world = World()
    act = world.action("act")

    async def deep(s: Work) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(deeper(s))

    async def deeper(s: Work) -> None:
        await s.do(act)
        raise Complete({"done": True}, why="nothing was left to do")

    @saga("test.deep")
    async def definition(s: Work) -> None:
        await deep(s)
        await s.do(act)

    memory = Memory()
    ended = run(definition, memory=memory)
    assert (ended.status, ended.result, world.seen) == ("completed", {"done": True}, ["act"])
    completed = facts(memory)[-1]
    assert isinstance(completed, e.SagaCompleted)
    assert completed.early == "nothing was left to do"


def test_a_result_that_cannot_be_kept_is_no_early_success() -> None:
    act = World().action("act")

    @saga("test.unkept")
    async def definition(s: Work) -> None:
        await s.do(act)
        raise Complete(object())

    ended = run(definition)
    assert (ended.status, "NotJsonError" in ended.why) == ("rolled_back", True)


# -- recovery --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [(), ("a",)], ids=["list", "graph"])
def test_a_recovery_step_takes_the_place_of_one_that_failed(after: tuple[str, ...]) -> None:
    world = World()
    failing, backup = world.action("primary", Fatal("down", happened=False)), world.action("backup", result=2)
    definition = SagaDefinition(
        "test.recovered",
        [
            Step(world.action("a", result=1), name="a"),
            Step(failing, name="primary", after=after, on_failure=Step(backup, name="backup")),
            Step(world.action("c"), {"n": result_of("primary")}, name="c"),
        ],
    )
    ended = run(definition)
    assert ended.status == "completed"
    assert world.seen == ["a", "primary", "backup", "c(2)"]
    assert ended.result == {"a": 1, "primary": 2, "backup": 2, "c": None}


SETTLED: list[tuple[dict[str, Any], list[str]]] = [
    ({"probe": [Happened(None)]}, ["ask primary", "unprimary"]),
    ({"probe": [NotHappened()]}, ["ask primary"]),
    ({}, ["unprimary?"]),
]


@pytest.mark.parametrize("after", [(), ("a",)], ids=["list", "graph"])
@pytest.mark.parametrize(("contract", "settling"), SETTLED, ids=["it happened", "it did not", "nobody knows"])
def test_a_recovery_begins_once_it_is_settled_whether_the_lost_step_stands(
    contract: dict[str, Any], settling: list[str], after: tuple[str, ...]
) -> None:
    world = World()
    lost = world.action("primary", Fatal("cut"), **{name: list(answers) for name, answers in contract.items()})
    recovered = Step(
        lost, name="primary", after=after, on_failure=Step(world.action("backup", result=2), name="backup")
    )
    ended = run(SagaDefinition("test.settled", [Step(world.action("a"), name="a"), recovered]))
    assert (ended.status, ended.result["primary"]) == ("completed", 2)
    assert world.seen == ["a", "primary", *settling, "backup"]


@pytest.mark.parametrize("after", [(), ("a",)], ids=["list", "graph"])
def test_a_recovery_waits_for_a_person_where_nobody_else_can_say(after: tuple[str, ...]) -> None:
    world, memory = World(), Memory()
    lost = world.action("primary", ConnectionError("cut"), undeclared=True)
    recovered = Step(lost, name="primary", after=after, on_failure=Step(world.action("backup"), name="backup"))
    definition = SagaDefinition("test.named", [Step(world.action("a"), name="a"), recovered])

    async def whole() -> tuple[Ended, Ended]:
        async with coordinator(memory) as opened:
            stopped = await opened.run(definition, id="s")
            assert world.seen == ["a", "primary"]
            return stopped, await opened.resolve_incident("s/1", by="person:ann", reason="it is not there")

    stopped, ended = asyncio.run(whole())
    assert (stopped.status, ended.status) == ("incident", "completed")
    opened = next(event for event in facts(memory) if isinstance(event, e.IncidentOpened))
    assert (opened.kind, opened.step) == ("outcome_unknown", "primary" if after else "2")
    assert world.seen == ["a", "primary", "backup"]


def test_a_step_that_certainly_did_nothing_is_done_again_as_a_new_one() -> None:
    world = World()
    flaky = world.action("flaky", *[Fatal("busy", happened=False)] * 2, result="ok")
    definition = SagaDefinition("test.again", [Step(world.action("a"), name="a"), Step(flaky, after=["a"], retry=2)])
    memory = Memory()
    assert run(definition, memory=memory).status == "completed"
    begun = [event for event in facts(memory) if isinstance(event, e.ActionDispatched)]
    assert [(event.step, event.after) for event in begun][1:] == [
        ("act", ("a",)),
        ("act.2", ("act",)),
        ("act.3", ("act.2",)),
    ]
    assert len({event.key for event in begun}) == 4


def test_a_lost_step_is_not_done_again_as_a_new_one() -> None:
    world = World()
    lost = world.action("lost", ConnectionError("cut"))
    ended = run(SagaDefinition("test.lost", [Step(lost, retry=5)]))
    assert (ended.status, world.seen) == ("rolled_back", ["lost", "unlost?"])


@pytest.mark.parametrize("after", [(), ("a",)], ids=["list", "graph"])
def test_a_person_is_called_instead_of_a_rollback_and_has_it_go_on(after: tuple[str, ...]) -> None:
    world, memory = World(), Memory()
    failing = world.action("b", Fatal("no funds", happened=False))
    definition = SagaDefinition(
        "test.called",
        [
            Step(world.action("a"), name="a"),
            Step(failing, name="b", after=after, on_failure="call"),
            Step(world.action("c"), name="c", after=["b"] if after else []),
        ],
    )

    async def whole() -> tuple[Ended, Ended]:
        async with coordinator(memory) as opened:
            stopped = await opened.run(definition, id="s")
            return stopped, await opened.retry_incident("s/1", by="person:ann")

    stopped, ended = asyncio.run(whole())
    assert (stopped.status, stopped.incidents) == ("incident", ("s/1",))
    opened = next(event for event in facts(memory) if isinstance(event, e.IncidentOpened))
    assert (opened.kind, opened.left) == ("called", ("a" if after else "1",))
    assert ended.status == "completed"
    assert world.seen == ["a", "b", "b", "c"]


def test_a_function_may_call_a_person_who_has_everything_taken_back() -> None:
    world = World()
    first, lost = world.action("a"), world.action("lost", ConnectionError("cut"))

    @saga("test.calls")
    async def definition(s: Work) -> None:
        await s.do(first)
        try:
            await s.do(lost)
        except StepLostError as exc:
            raise CallPerson("is it there?", step=exc.step) from exc

    async def whole() -> tuple[Ended, Ended]:
        async with coordinator() as opened:
            stopped = await opened.run(definition, id="s")
            return stopped, await opened.cancel("s", by="person:ann")

    stopped, ended = asyncio.run(whole())
    assert (stopped.status, stopped.why) == ("incident", "is it there?")
    assert ended.status == "rolled_back"
    assert world.seen == ["a", "lost", "unlost?", "una"]


def test_what_on_failure_does_not_know_is_refused() -> None:
    act = World().action("act")
    with pytest.raises(DeclarationError, match="on_failure='ignore' is none of"):
        SagaDefinition("test.bad", [Step(act, on_failure=cast(Any, "ignore"))])
    with pytest.raises(DeclarationError, match="retry=-1 is not 0 to 1000"):
        SagaDefinition("test.bad", [Step(act, retry=-1)])
    with pytest.raises(DeclarationError, match="cannot be after= something else"):
        SagaDefinition(
            "test.bad", [Step(act, name="a"), Step(act, name="b", on_failure=Step(act, name="c", after=["a"]))]
        )


def test_a_plain_list_is_named_as_ever() -> None:
    memory, world = Memory(), World()
    run(
        SagaDefinition("test.list", [Step(world.action("a"), name="x"), Step(world.action("b"), name="y")]),
        memory=memory,
    )
    begun = [event for event in facts(memory) if isinstance(event, e.ActionDispatched)]
    assert [(event.step, event.after) for event in begun] == [("1", None), ("2", None)]


def test_an_early_success_is_verified_like_any_other() -> None:
    world = World()

    def two(result: dict[str, int]) -> bool:
        return result == {"a": 2}

    definition = SagaDefinition(
        "test.verified",
        [Step(world.action("a", result=1), name="a", complete_if=bool), Step(world.action("b"), after=["a"])],
        verify=[two],
    )
    ended = run(definition)
    assert (ended.status, world.seen) == ("rolled_back", ["a", "una"])


# -- many ------------------------------------------------------------------------------------------------------------


def calls_a_step(steps: int) -> float:
    """How many functions are called for each of so many steps that run, and go back, side by side."""
    world = World()
    side_by_side = [Step(world.action(f"a{n}"), name=f"a{n}", after=["root"]) for n in range(steps)]
    root = Step(world.action("root"), name="root")
    end = Step(world.action("end", Fatal("no")), name="end", after=[step.label for step in side_by_side])
    definition = SagaDefinition("test.wide", [root, *side_by_side, end])
    ended: list[Ended] = []
    calls = calls_in(lambda: ended.append(run(definition)))
    assert ended[0].status == "rolled_back"
    return calls / steps


def test_a_step_costs_the_same_beside_thirty_others_and_beside_three_hundred() -> None:
    calls_a_step(2)  # what is done once in a process
    assert calls_a_step(300) < calls_a_step(30)
