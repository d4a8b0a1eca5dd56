"""Child sagas: what a parent sees of them, and that taking the parent back takes them back, whatever became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from amends import (
    Coordinator,
    Ended,
    Fatal,
    Limits,
    Registry,
    SagaDefinition,
    Settings,
    StepError,
    StepFatalError,
    Work,
    child,
    saga,
)
from amends.core import events as e
from amends.core.words.values import SagaId
from amends.errors import DeclarationError, InputError
from amends.journal.memory import Memory
from tests.runtime.support import QuickClock, World, coordinator
from tests.runtime.test_pivots import play as in_real_time

Script = Callable[[Coordinator], Coroutine[Any, Any, Any]]


def with_one(script: Script, **options: Any) -> Any:
    async def whole() -> Any:
        async with coordinator(**options) as opened:
            return await script(opened)

    return asyncio.run(whole())


def run(definition: SagaDefinition, *args: Any, **options: Any) -> Ended:
    async def script(opened: Coordinator) -> Ended:
        return await opened.run(definition, *args, id="p", actor="agent:bot")

    ended: Ended = with_one(script, **options)
    return ended


def family(world: World, *, fails: bool = False, after: bool = False) -> SagaDefinition:
    """A parent that does one step, calls a child of two, and does another; the child's last or its own may fail."""
    first, last = world.action("first"), world.action("last", *([Fatal("no", happened=False)] if after else []))
    one = world.action("one")
    two = world.action("two", *([Fatal("broken", happened=False)] if fails else []), result="2")

    @saga("test.child")
    async def small(s: Work, n: int) -> dict[str, Any]:
        await s.do(one, n)
        return {"two": await s.do(two)}

    @saga("test.parent")
    async def big(s: Work) -> Any:
        await s.do(first)
        result = await s.call(small, 7)
        await s.do(last)
        return result

    return big


async def statuses(opened: Coordinator) -> dict[str, str]:
    return {row.id: str(row.status) async for row in opened.list()}


def test_a_child_runs_to_its_end_and_gives_its_result() -> None:
    world = World()
    ended = run(family(world))
    assert (ended.status, ended.result) == ("completed", {"two": "2"})
    assert world.seen == ["first", "one(7)", "two", "last"]


def test_a_completed_child_is_rolled_back_with_its_parent_newest_first() -> None:
    world, memory = World(), Memory()
    ended = run(family(world, after=True), memory=memory)
    assert ended.status == "rolled_back"
    assert world.seen == ["first", "one(7)", "two", "last", "untwo", "unone", "unfirst"]
    assert with_one(statuses, memory=memory) == {"p": "rolled_back", "p~2": "rolled_back"}


def test_a_child_that_was_rolled_back_has_certainly_failed() -> None:
    world = World()
    ended = run(family(world, fails=True))
    assert ended.status == "rolled_back"
    assert "child p~2 was rolled back: test.two (step 2): broken" in ended.why
    assert world.seen == ["first", "one(7)", "two", "unone", "unfirst"]


def test_a_parent_may_go_on_without_a_child_that_failed() -> None:
    world = World()
    broken = world.action("broken", Fatal("no", happened=False))

    @saga("test.child")
    async def small(s: Work) -> None:
        await s.do(broken)

    @saga("test.parent")
    async def big(s: Work) -> Any:
        try:
            return await s.call(small)
        except StepFatalError as exc:
            return [exc.happened, exc.topic]

    ended = run(big)
    assert (ended.status, ended.result) == ("completed", [False, "amends.call"])


def test_a_child_is_started_again_as_another_one() -> None:
    world, memory = World(), Memory()
    flaky = world.action("flaky", *[Fatal("no", happened=False)] * 2, result="ok")

    @saga("test.child")
    async def small(s: Work) -> Any:
        return await s.do(flaky)

    @saga("test.parent")
    async def big(s: Work) -> Any:
        return await s.call(small, restarts=2)

    ended = run(big, memory=memory)
    assert (ended.status, ended.result) == ("completed", "ok")
    assert with_one(statuses, memory=memory) == {
        "p": "completed",
        "p~1": "rolled_back",
        "p~2": "rolled_back",
        "p~3": "completed",
    }


# -- groups ----------------------------------------------------------------------------------------------------------


def group(world: World, failures: int, **policy: Any) -> SagaDefinition:
    left = world.action("left", result="L")
    right = world.action("right", *[Fatal("no", happened=False)] * failures, result="R")

    @saga("test.left")
    async def one(s: Work) -> Any:
        return await s.do(left)

    @saga("test.right")
    async def other(s: Work) -> Any:
        return await s.do(right)

    @saga("test.parent")
    async def big(s: Work) -> Any:
        try:
            return await s.call_all([child(one), child(other)], **policy)
        except StepError as exc:
            return exc.topic

    return big


def test_all_of_a_group_are_taken_back_when_one_fails() -> None:
    world = World()
    ended = run(group(world, 1))
    assert (ended.status, ended.result) == ("completed", "amends.call")
    assert world.seen == ["left", "right", "unleft"]


def test_only_the_one_that_failed_is_started_again() -> None:
    world = World()
    ended = run(group(world, 1, on_failure="restart_one"))
    assert (ended.status, ended.result) == ("completed", ["L", "R"])
    assert world.seen == ["left", "right", "right"]


def test_all_of_a_group_are_taken_back_and_started_again() -> None:
    world = World()
    ended = run(group(world, 1, on_failure="restart_all"))
    assert (ended.status, ended.result) == ("completed", ["L", "R"])
    assert world.seen == ["left", "right", "unleft", "left", "right"]


def test_a_group_that_fails_for_good_is_taken_back() -> None:
    world = World()
    ended = run(group(world, 9, on_failure="restart_all", restarts=2))
    assert (ended.status, ended.result) == ("completed", "amends.call")
    assert world.seen == ["left", "right", "unleft"] * 3


# -- who, and how deep -----------------------------------------------------------------------------------------------


def test_actor_environment_and_labels_pass_down_and_delegation_is_on_record() -> None:
    world, memory = World(), Memory()
    act = world.action("act")

    @saga("test.child")
    async def small(s: Work) -> None:
        await s.do(act)

    @saga("test.parent")
    async def big(s: Work) -> None:
        await s.call(small)
        await s.call(small, actor="agent:other")

    async def script(opened: Coordinator) -> list[e.SagaStarted]:
        await opened.run(big, id="p", actor="agent:bot", labels={"tenant": "t1"})
        shown = [await opened.show(name) for name in ("p~1", "p~2")]
        return [one.saga.begun for one in shown if one.saga.begun is not None]

    own, delegated = with_one(script, memory=memory, env="staging")
    assert (own.actor, own.env, own.labels) == (
        "agent:bot",
        "staging",
        {
            "tenant": "t1",
            "amends.parent": "p",
            "amends.parent_step": "1",
            "amends.root": "p",
            "amends.depth": "1",
        },
    )
    assert delegated.actor == "agent:other"
    assert delegated.labels["amends.on_behalf_of"] == "agent:bot"
    assert delegated.labels["delegates"] == "agent:bot"


def test_a_saga_that_calls_itself_with_what_it_was_given_is_refused() -> None:
    @saga("test.loop")
    async def loop(s: Work, n: int) -> None:
        await s.call(loop, n)

    ended = run(loop, 1)
    assert ended.status == "rolled_back"
    assert "test.loop calls itself with the input that it was given" in ended.why


def test_a_child_that_calls_its_parent_is_refused() -> None:
    @saga("test.ping")
    async def ping(s: Work, n: int) -> None:
        await s.call(pong, n)

    @saga("test.pong")
    async def pong(s: Work, n: int) -> None:
        await s.call(ping, n)

    ended = run(ping, 1)
    assert ended.status == "rolled_back"
    assert "test.ping calls itself with the input that it was given, directly or through a child" in ended.why


def test_children_go_sixteen_deep_and_no_deeper() -> None:
    @saga("test.deep")
    async def deep(s: Work, n: int) -> int:
        return n if n == 0 else await s.call(deep, n - 1)

    assert run(deep, 16).status == "completed"
    ended = run(deep, 17)
    assert ended.status == "rolled_back"
    assert "would be a child 17 deep, and 16 is the most" in ended.why


def test_bad_input_is_refused_before_anything_is_on_record() -> None:
    async def plain(s: Work) -> None: ...

    small = saga("test.child")(plain)
    wanted: Any = plain
    with pytest.raises(DeclarationError, match="is not a saga; decorate it"):
        child(wanted)
    with pytest.raises(InputError, match="is not an actor"):
        child(small, actor="bob")
    with pytest.raises(InputError, match="takes"):
        child(small, 1)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue] - as checkers say

    @saga("test.parent")
    async def big(s: Work) -> None:
        policy: Any = "shrug"
        await s.call_all([child(small)], on_failure=policy)

    assert "on_failure='shrug' is none of revert_all, restart_one, restart_all" in run(big).why


# -- a pivot, an incident, people ------------------------------------------------------------------------------------


def test_a_child_past_its_pivot_is_an_incident_of_the_parent_that_names_it() -> None:
    world = World()
    mail, fatal = world.action("mail", no_rollback="sent"), world.action("fatal", Fatal("no", happened=False))

    @saga("test.child")
    async def small(s: Work) -> None:
        await s.do(mail)

    @saga("test.parent")
    async def big(s: Work) -> None:
        await s.call(small)
        await s.do(fatal)

    ended = run(big)
    assert ended.status == "incident"
    assert "child saga p~1 cannot be cancelled: step 1 (test.mail) took effect and is irreversible" in ended.why


def test_a_child_that_cannot_be_rolled_back_is_named_and_the_parent_goes_on_once_it_is_seen_to() -> None:
    world, memory = World(), Memory()
    stuck = world.action("stuck", undo=[ValueError("locked")] * 99, compensation_retries=1)
    fatal = world.action("fatal", Fatal("no", happened=False))

    @saga("test.child")
    async def small(s: Work) -> None:
        await s.do(stuck)

    @saga("test.parent")
    async def big(s: Work) -> None:
        await s.call(small)
        await s.do(fatal)

    async def script(opened: Coordinator) -> list[Any]:
        ended = await opened.run(big, id="p")
        await opened.resolve_incident("p~1/1", by="person:ann", reason="unlocked by hand")
        return [ended, await opened.retry_incident("p/1", by="person:ann")]

    stopped, ended = with_one(script, memory=memory)
    assert stopped.status == "incident"
    assert "child p~1 could not be rolled back (p~1/1): ValueError: locked" in stopped.why
    assert ended.status == "rolled_back"


def test_a_parent_rests_while_its_child_waits_for_a_person_and_goes_on_after() -> None:
    world, memory = World(), Memory()
    mail = world.action("mail", no_rollback="sent", result="sent")

    @saga("test.child")
    async def small(s: Work) -> Any:
        return await s.do(mail)

    @saga("test.parent")
    async def big(s: Work) -> Any:
        return await s.call(small)

    async def script(opened: Coordinator) -> list[Any]:
        handle = await opened.start(big, id="p", actor="agent:bot")
        resting = await handle.halt()
        (row,) = await opened.approvals()
        await opened.grant(row.id, by="person:ann")
        return [resting.status, row.saga, await handle]

    status, asked, ended = with_one(script, memory=memory, env="production")
    assert (status, asked) == ("waiting", "p~1")
    assert (ended.status, ended.result) == ("completed", "sent")


def test_a_parent_whose_child_is_an_incident_keeps_no_resume_waiting() -> None:
    world, memory, clock, registry = World(), Memory(), QuickClock(), Registry()
    lost = world.action("lost", ConnectionError("cut"), ConnectionError("cut"), no_rollback="no way back")

    @saga("test.child")
    async def small(s: Work) -> None:
        await s.do(lost)

    @saga("test.parent")
    async def big(s: Work) -> None:
        await s.call(small)

    async def begin(opened: Coordinator) -> str:
        return str((await (await opened.start(big, id="p")).halt()).status)

    async def again(opened: Coordinator) -> list[Any]:
        before = await opened.resume()
        (incident,) = await opened.incidents()
        await opened.resolve_incident(incident.id, by="person:ann", reason="looked: it is not there")
        await opened.drive("p")
        return [before, incident.saga, await statuses(opened)]

    assert with_one(begin, memory=memory, clock=clock, registry=registry) == "waiting"
    before, named, at_last = with_one(again, memory=memory, clock=clock, registry=registry)
    assert [one.status for one in before] in ([], ["waiting"])
    assert named == "p~1"
    assert at_last == {"p": "rolled_back", "p~1": "rolled_back"}


# -- from outside ----------------------------------------------------------------------------------------------------


def test_cancelling_a_parent_stops_a_child_that_runs_and_takes_it_back() -> None:
    world, memory = World(), Memory()
    first = world.action("first")

    async def script(opened: Coordinator) -> list[Any]:
        begun = asyncio.Event()
        never = asyncio.Event()

        @saga("test.child")
        async def small(s: Work) -> None:
            await s.do(first)
            begun.set()
            await never.wait()

        @saga("test.parent")
        async def big(s: Work) -> None:
            await s.call(small)

        handle = await opened.start(big, id="p")
        await begun.wait()
        await opened.cancel("p", by="person:ann")
        return [(await handle).status, await statuses(opened)]

    ended, all_of_them = with_one(script, memory=memory, settings=Settings(settle_s=0.01))
    assert ended == "rolled_back"
    assert all_of_them == {"p": "rolled_back", "p~1": "rolled_back"}
    assert world.seen == ["first", "unfirst"]


def test_a_parent_that_had_completed_is_taken_back_with_its_children() -> None:
    world = World()

    async def script(opened: Coordinator) -> list[Any]:
        ended = await opened.run(family(world), id="p")
        return [ended.status, (await opened.cancel("p")).status, await statuses(opened)]

    assert with_one(script) == ["completed", "rolled_back", {"p": "rolled_back", "p~2": "rolled_back"}]
    assert world.seen[-4:] == ["unlast", "untwo", "unone", "unfirst"]


def test_a_closing_coordinator_does_not_wait_for_a_child_that_does_not_end() -> None:
    world, memory, clock, registry = World(), Memory(), QuickClock(), Registry()
    act = world.action("act", result=1)
    first_life = {"now": True}

    @saga("test.child")
    async def small(s: Work) -> Any:
        result = await s.do(act)
        if first_life["now"]:
            await asyncio.Event().wait()
        return result

    @saga("test.parent")
    async def big(s: Work) -> Any:
        return await s.call(small)

    async def begin(opened: Coordinator) -> None:
        _ = await opened.start(big, id="p")
        while "act" not in world.seen:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)

    async def again(opened: Coordinator) -> list[Ended]:
        return await opened.resume()

    with_one(begin, memory=memory, clock=clock, registry=registry)
    first_life["now"] = False
    ended = {one.id: (one.status, one.result) for one in with_one(again, memory=memory, clock=clock, registry=registry)}
    assert ended[SagaId("p")] == ("completed", 1)
    assert world.seen == ["act"]


def test_each_of_a_hundred_children_costs_no_more_than_each_of_five() -> None:
    """Counted, not timed: entries written, over all sagas, for a parent whose last step fails."""

    def entries(many: int) -> int:
        world, memory = World(), Memory()
        act, fatal = world.action("act"), world.action("fatal", Fatal("no", happened=False))

        @saga("test.child")
        async def small(s: Work, n: int) -> None:
            await s.do(act, n)

        @saga("test.parent")
        async def big(s: Work) -> None:
            for n in range(many):
                await s.call(small, n)
            await s.do(fatal)

        async def script(opened: Coordinator) -> int:
            assert (await opened.run(big, id="p")).status == "rolled_back"
            return sum([row.entries async for row in opened.list(limit=500)])

        counted: int = with_one(script, memory=memory)
        assert world.seen.count("unact") == many
        return counted

    few, more = entries(10), entries(100)
    assert (more - few) % 90 == 0
    assert (more - few) // 90 == (few - entries(5)) // 5


def test_a_child_that_has_so_much_time_is_rolled_back_when_it_is_over_although_everybody_was_put_away() -> None:
    world = World()
    a = world.action("a")

    @saga("test.slow")
    async def slow(s: Work) -> None:
        await s.do(a)
        await s.wait_for("never")

    @saga("test.impatient")
    async def impatient(s: Work) -> str:
        try:
            await s.call(slow, timeout=0.5)
        except StepError as exc:
            return exc.reason
        return "in time"

    async def scene(on: Coordinator, _: object) -> tuple[Ended, Ended]:
        handle = await on.start(impatient, id="x")
        return await handle.halt(), await handle

    halted, ended = in_real_time(scene)
    assert (halted.status, ended.status) == ("waiting", "completed")
    assert "limit seconds" in ended.result
    assert world.seen == ["a", "una"]


def test_a_timeout_does_not_loosen_the_child_s_own_limit() -> None:
    @saga("test.quick", limits=Limits(seconds=5))
    async def quick(s: Work) -> None:
        await s.wait_for("never")

    @saga("test.patient")
    async def patient(s: Work) -> str:
        try:
            await s.call(quick, timeout=3600)
        except StepError as exc:
            return exc.reason
        return "in time"

    async def scene() -> Ended:
        async with coordinator() as on:
            return await on.run(patient)

    assert "5 s" in asyncio.run(scene()).result


@pytest.mark.parametrize("timeout", [0, -1, "soon"])
def test_a_timeout_that_is_no_time_is_refused(timeout: Any) -> None:
    @saga("test.kid")
    async def kid(s: Work) -> None: ...

    with pytest.raises((DeclarationError, InputError)):
        child(kid, timeout=timeout)
