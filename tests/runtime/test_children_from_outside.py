"""A child is not taken back behind its parent: who asks for that hears what to do, and a parent hears of every end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from amends import CallPerson, Coordinator, Fatal, Registry, SagaDefinition, Settings, StepFatalError, Work, saga
from amends.core.words.verdict import Decision, Verdict
from amends.errors import RefusedError
from amends.gate.facts import Facts
from amends.gate.load import BuiltinGate
from amends.journal.memory import Memory, MemoryJournal
from tests.runtime.support import QuickClock, World, coordinator

Script = Callable[[Coordinator], Coroutine[Any, Any, Any]]


def with_one(script: Script, **options: Any) -> Any:
    async def whole() -> Any:
        async with coordinator(**options) as opened:
            return await script(opened)

    return asyncio.run(whole())


async def statuses(opened: Coordinator) -> dict[str, str]:
    return {row.id: str(row.status) async for row in opened.list()}


def family(world: World) -> SagaDefinition:
    """A parent that calls a child of one step, does one of its own, and waits to go on."""
    one, two = world.action("one", result="made"), world.action("two")

    @saga("test.kid")
    async def kid(s: Work) -> Any:
        await s.checkpoint("begun")
        return await s.do(one)

    @saga("test.top")
    async def top(s: Work) -> Any:
        result = await s.call(kid)
        await s.do(two)
        await s.wait_for("go")
        return result

    return top


BEHIND: dict[str, Callable[[Coordinator], Coroutine[Any, Any, Any]]] = {
    "cancel": lambda opened: opened.cancel("t~1", by="person:kim"),
    "rollback of all": lambda opened: opened.rollback("t~1", by="person:kim"),
    "rollback to a checkpoint": lambda opened: opened.rollback("t~1", to="begun", by="person:kim"),
    "rollback of the last": lambda opened: opened.rollback("t~1", last=1, by="person:kim"),
}


@pytest.mark.parametrize("parent", ["waiting", "completed"])
@pytest.mark.parametrize("how", BEHIND)
def test_a_completed_child_is_not_taken_back_behind_its_parent(how: str, parent: str) -> None:
    world = World()

    async def script(opened: Coordinator) -> None:
        handle = await opened.start(family(world), id="t")
        await handle.halt()
        if parent == "completed":
            await opened.signal("t", "go")
            await handle
        with pytest.raises(RefusedError) as refused:
            await BEHIND[how](opened)
        assert str(refused.value) == (
            f"saga t~1 is a child, and its parent t, which is {parent}, counts on it; "
            "cancel t to take the whole family back, or take t back to before step 1: `amends saga rollback t --last 2`"
        )
        assert await statuses(opened) == {"t": parent, "t~1": "completed"}
        assert world.seen == ["one", "two"]

    with_one(script)


@pytest.mark.parametrize("instead", ["cancel", "rollback"])
def test_what_the_refusal_names_takes_the_child_back(instead: str) -> None:
    world = World()

    async def script(opened: Coordinator) -> None:
        handle = await opened.start(family(world), id="t")
        await handle.halt()
        await opened.signal("t", "go")
        await handle
        if instead == "cancel":
            await opened.cancel("t")
            assert await statuses(opened) == {"t": "rolled_back", "t~1": "rolled_back"}
        else:
            await opened.rollback("t", last=2)
            children = {row.id: str(row.status) async for row in opened.list(parent="t")}
            assert children == {"t~1": "rolled_back", "t~1@2": "completed"}
        assert world.seen[:4] == ["one", "two", "untwo", "unone"]

    with_one(script)


def test_a_child_under_way_is_not_cancelled_behind_its_parent_but_goes_back_in_part() -> None:
    world = World()
    one = world.action("one")

    @saga("test.kid")
    async def kid(s: Work) -> Any:
        told = await s.checkpoint("begun")
        await s.do(one)
        return await s.wait_for("go") if told is None else told.why

    @saga("test.top")
    async def top(s: Work) -> Any:
        return await s.call(kid)

    async def script(opened: Coordinator) -> None:
        handle = await opened.start(top, id="t")
        await handle.halt()
        plan = await opened.rollback("t~1", plan=True)
        assert "its parent t, which is waiting, counts on it; cancel t" in plan.refused
        for refused in (opened.cancel("t~1"), opened.rollback("t~1")):
            with pytest.raises(RefusedError, match="its parent t, which is waiting, counts on it; cancel t"):
                await refused
        assert (await opened.rollback("t~1", to="begun", plan=True)).is_clean
        assert (await opened.rollback("t~1", to="begun", why="another way")).status == "completed"
        assert (await handle).result == "another way"
        assert world.seen == ["one", "unone", "one"]
        plan = await opened.rollback("t~1", to="begun", plan=True)
        assert "its parent t, which is completed, counts on it" in plan.refused

    with_one(script)


def test_the_refusal_names_the_root_and_the_nearest_saga_that_may_go_back_in_part() -> None:
    world = World()
    one = world.action("one")

    @saga("test.leaf")
    async def leaf(s: Work) -> None:
        await s.do(one)

    @saga("test.branch")
    async def branch(s: Work) -> None:
        await s.call(leaf)
        await s.wait_for("go")

    @saga("test.root")
    async def root(s: Work) -> None:
        await s.do(one, 1)
        await s.call(branch)

    async def script(opened: Coordinator) -> list[str]:
        handle = await opened.start(root, id="r")
        await handle.halt()
        said: list[str] = []
        with pytest.raises(RefusedError) as refused:
            await opened.cancel("r~2~1")
        said.append(str(refused.value).partition("; ")[2])
        await opened.signal("r~2", "go")
        await handle
        with pytest.raises(RefusedError) as refused:
            await opened.cancel("r~2~1")
        return [*said, str(refused.value).partition("; ")[2]]

    assert with_one(script) == [
        f"cancel r to take the whole family back, or {instead}"
        for instead in (
            "take r~2 back to before step 1: `amends saga rollback r~2 --last 1`",
            "take r back to before step 2: `amends saga rollback r --last 1`",
        )
    ]


# -- an incident of its own -------------------------------------------------------------------------------------------


def asking(world: World, *, restarts: int = 0) -> SagaDefinition:
    """A parent whose child calls a person in its first life, and goes on when it is tried again."""
    one = world.action("one")
    calls = ["once"]

    @saga("test.kid")
    async def kid(s: Work) -> str:
        await s.do(one)
        if calls:
            calls.pop()
            raise CallPerson("is this right?")
        return "right"

    @saga("test.top")
    async def top(s: Work) -> Any:
        try:
            return await s.call(kid, restarts=restarts)
        except StepFatalError as exc:
            return f"without it: {exc.reason}"

    return top


@pytest.mark.parametrize(
    ("restarts", "result", "seen"),
    [
        (0, "without it: child t~1 was rolled back: no, it is not", ["one", "unone"]),
        (1, "right", ["one", "unone", "one"]),
    ],
)
def test_a_child_that_stopped_at_an_incident_may_be_taken_back_and_its_parent_hears_of_it(
    restarts: int, result: str, seen: list[str]
) -> None:
    world = World()

    async def script(opened: Coordinator) -> None:
        handle = await opened.start(asking(world, restarts=restarts), id="t")
        await handle.halt()
        assert (await opened.show("t~1")).status == "incident"
        assert (await opened.cancel("t~1", why="no, it is not", by="person:kim")).status == "rolled_back"
        ended = await handle
        assert (ended.status, ended.result) == ("completed", result)
        assert world.seen == seen

    with_one(script)


@pytest.mark.parametrize("how", ["retry", "resolve"])
def test_a_parent_hears_how_its_child_ended_once_a_person_has_seen_to_it(how: str) -> None:
    world = World()

    async def script(opened: Coordinator) -> None:
        handle = await opened.start(asking(world), id="t")
        await handle.halt()
        if how == "retry":
            await opened.retry_incident("t~1/1", by="person:kim")
        else:
            await opened.resolve_incident("t~1/1", reason="I have looked", by="person:kim")
        ended = await handle
        assert (ended.status, ended.result) == ("completed", "right" if how == "retry" else None)
        with pytest.raises(RefusedError, match="its parent t, which is completed, counts on it"):
            await opened.cancel("t~1")

    with_one(script)


# -- a parent that goes back ------------------------------------------------------------------------------------------


def test_a_child_does_not_overtake_its_parents_rollback() -> None:
    world = World()
    stuck = world.action("stuck", undo=[ValueError("locked")] * 99, compensation_retries=1)
    one, fatal = world.action("one"), world.action("fatal", Fatal("no", happened=False))

    @saga("test.kid")
    async def kid(s: Work) -> None:
        await s.do(one)

    @saga("test.top")
    async def top(s: Work) -> None:
        await s.call(kid)
        await s.do(stuck)
        await s.do(fatal)

    async def script(opened: Coordinator) -> None:
        assert (await opened.run(top, id="t")).status == "incident"
        with pytest.raises(RefusedError, match=r"goes back with it, once somebody has seen to incident t/1$"):
            await opened.cancel("t~1")
        await opened.resolve_incident("t/1", reason="unlocked", by="person:kim")
        assert await statuses(opened) == {"t": "rolled_back", "t~1": "rolled_back"}
        with pytest.raises(RefusedError, match="its rollback has begun already"):
            await opened.cancel("t~1")

    with_one(script)


class NoWayBack(BuiltinGate):
    """Has no child taken back."""

    def judge(self, facts: Facts) -> Verdict:
        if facts.contract.topic == "amends.call" and facts.phase == "compensation":
            return Verdict(decision=Decision.DENY, rule="r", policy="p", why="not at night")
        return super().judge(facts)


@pytest.mark.parametrize("first", ["the child", "the incident"])
def test_a_child_that_its_parent_could_not_take_back_is_taken_back_by_hand(first: str) -> None:
    world, memory, clock = World(), Memory(), QuickClock()
    one, fatal = world.action("one"), world.action("fatal", Fatal("no", happened=False))

    @saga("test.kid")
    async def kid(s: Work) -> None:
        await s.do(one)

    @saga("test.top")
    async def top(s: Work) -> None:
        await s.call(kid)
        await s.do(fatal)

    async def script() -> None:
        async with Coordinator(
            journal=MemoryJournal(clock, memory),
            gate=NoWayBack(),
            clock=clock,
            settings=Settings(lease_s=1_000_000),
            registry=Registry(),
        ) as opened:
            assert (await opened.run(top, id="t")).status == "incident"
            if first == "the incident":
                await opened.resolve_incident("t/1", reason="it stays", by="person:kim")
                assert await statuses(opened) == {"t": "rolled_back", "t~1": "completed"}
            assert (await opened.cancel("t~1", by="person:kim")).status == "rolled_back"
            if first == "the child":
                await opened.resolve_incident("t/1", reason="taken back", by="person:kim")
            assert await statuses(opened) == {"t": "rolled_back", "t~1": "rolled_back"}
            assert world.seen == ["one", "fatal", "unone"]

    asyncio.run(script())
