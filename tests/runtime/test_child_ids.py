"""Whose child a saga is: ids that neither clash nor can be asked for, and a parent that adopts nobody else's saga."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest

from amends import Coordinator, Fatal, Limits, Registry, SagaDefinition, Secret, Work, saga, to_checkpoint
from amends.core import events as e
from amends.core.transitions import SagaStatus
from amends.core.words.values import Json, SagaId, StepId
from amends.errors import InputError
from amends.journal.memory import Memory, MemoryJournal
from amends.journal.port.journal import PARENT, ROOT, Summary
from amends.runtime.drive import kinship
from amends.runtime.drive.family import PARENT_STEP
from amends.runtime.drive.kinship import child_id, former_child_id
from amends.runtime.engine import children
from amends.secrets import mask, without_digests
from tests.runtime.support import QuickClock, World, coordinator


def _nothing_strange(*_about: object) -> str:
    return ""


async def statuses(opened: Coordinator) -> dict[str, str]:
    return {row.id: str(row.status) async for row in opened.list()}


async def written(
    memory: Memory, id: str, definition: str, given: Json, labels: dict[str, str], *more: e.Event
) -> None:
    """A saga as a journal may have it, whoever wrote it."""
    begun = e.SagaStarted(
        definition=definition, version=1, input=given, actor="person:bob", env="development", labels=labels
    )
    status = SagaStatus.COMPLETED if more else SagaStatus.RUNNING
    await MemoryJournal(QuickClock(), memory).append(SagaId(id), [begun, *more], after=0, summary=Summary(status))


COMPLETED = e.SagaCompleted(result="bob's")


def calling(world: World, *, fails: bool = False) -> SagaDefinition:
    """A parent that calls one child; then it may fail."""
    act, fatal = world.action("act", result="mine"), world.action("fatal", Fatal("no", happened=False))

    @saga("test.kid")
    async def kid(s: Work, n: int) -> Any:
        return await s.do(act, n)

    @saga("test.top")
    async def top(s: Work) -> Any:
        result = await s.call(kid, 1)
        if fails:
            await s.do(fatal)
        return result

    return top


# -- ids --------------------------------------------------------------------------------------------------------------


def test_no_two_children_have_the_same_id() -> None:
    """Over all that a family of three generations can come to: steps, branches, and both done again."""
    steps = [StepId(f"{place}{again}") for place in ("1", "2", "12", "2.1/2", "1.2/1") for again in ("", "~2", "~12")]
    root = SagaId("x")
    named: dict[tuple[StepId, ...], SagaId] = {(): root}
    for depth in (1, 2, 3):
        for way in product(steps[:6] if depth == 3 else steps, repeat=depth):
            parent = named.get(way[:-1])
            if parent is not None:
                named[way] = child_id(parent, way[-1])
    assert len(named) > 400
    assert len(set(named.values())) == len(named)
    with_former = {way: former_child_id(named[way[:-1]], way[-1]) for way in named if way}
    assert len(set(with_former.values())) < len(with_former), "the former ids do clash, or this test shows nothing"


def test_a_child_has_the_id_that_it_always_had_unless_its_step_was_done_again() -> None:
    x = SagaId("x")
    assert [child_id(x, StepId(step)) for step in ("2", "2.1/3", "2~2")] == ["x~2", "x~2.1-3", "x~2@2"]
    long = SagaId("x" * 126)
    assert child_id(long, StepId("12")) == former_child_id(long, StepId("12"))
    assert child_id(long, StepId("12")) != child_id(long, StepId("13"))
    assert len(child_id(long, StepId("12~2"))) <= 128


def test_a_caller_cannot_ask_for_the_id_of_a_child() -> None:
    async def script() -> None:
        async with coordinator() as opened:
            with pytest.raises(InputError, match=r"the id 'order-7~1' has a ~.*use another character.*'order-7-1'"):
                _ = await opened.start(calling(World()), id="order-7~1")
            assert await statuses(opened) == {}

    asyncio.run(script())


def test_a_saga_of_an_old_journal_with_such_an_id_is_joined_and_resumed() -> None:
    world, memory, registry = World(), Memory(), Registry()

    async def script() -> list[Any]:
        await written(memory, "a~1", "test.top", {}, {})
        await written(memory, "b~1", "test.top", {}, {})
        top = calling(world)
        async with coordinator(memory, registry=registry) as opened:
            joined = await opened.run(top, id="a~1", actor="person:bob")
            return [joined.status, [ended.id for ended in await opened.resume()], await statuses(opened)]

    joined, resumed, at_last = asyncio.run(script())
    assert (joined, resumed) == ("completed", ["b~1"])
    assert at_last == {"a~1": "completed", "b~1": "completed", "a~1~1": "completed", "b~1~1": "completed"}


# -- whom a parent takes for its child --------------------------------------------------------------------------------

OURS = {PARENT: "order-7", PARENT_STEP: "1", ROOT: "order-7"}
STRANGERS: dict[str, tuple[str, Json, dict[str, str], str]] = {
    "nobody's": ("test.other", {"n": 1}, {}, "is nobody's child"),
    "the same work, nobody's": ("test.kid", {"n": 1}, {}, "is nobody's child"),
    "another's": ("test.kid", {"n": 1}, {**OURS, PARENT: "order"}, "is the child of step 1 of order"),
    "another step's": ("test.kid", {"n": 1}, {**OURS, PARENT_STEP: "2"}, "is the child of step 2 of order-7"),
    "another definition": ("test.other", {"n": 1}, OURS, "is test.other version 1"),
    "another input": ("test.kid", {"n": 2}, OURS, "is one with another input"),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_stranger_with_the_id_of_a_child_is_not_adopted_and_not_taken_back(kind: str) -> None:
    definition, given, labels, says = STRANGERS[kind]
    world, memory = World(), Memory()

    async def script() -> list[Any]:
        await written(memory, "order-7~1", definition, given, labels, COMPLETED)
        async with coordinator(memory) as opened:
            ended = await opened.run(calling(world), id="order-7", actor="agent:eve")
            stranger = await opened.show("order-7~1")
            return [ended, await statuses(opened), len(stranger.entries)]

    ended, at_last, entries = asyncio.run(script())
    assert at_last == {"order-7": "rolled_back", "order-7~1": "completed"}
    assert entries == 2, "nothing was written to the stranger's"
    assert world.seen == []
    assert f"test.kid version 1 would be child order-7~1, and the saga of that id {says}" in ended.why
    assert "start order-7 anew under another id" in ended.why


def test_a_parent_that_had_adopted_a_stranger_does_not_take_it_back() -> None:
    """As an older amends left it: the call has succeeded, with the stranger's result."""
    world, memory, registry = World(), Memory(), Registry()
    top = calling(world)

    async def script(patch: pytest.MonkeyPatch) -> list[Any]:
        await written(memory, "order-7~1", "test.kid", {"n": 1}, {}, COMPLETED)
        async with coordinator(memory, registry=registry) as opened:
            with patch.context() as older:
                older.setattr(kinship, "estranged", _nothing_strange)
                ended = await opened.run(top, id="order-7")
            return [ended.result, (await opened.cancel("order-7")).status, await statuses(opened)]

    with pytest.MonkeyPatch.context() as patch:
        result, cancelled, at_last = asyncio.run(script(patch))
    assert (result, cancelled) == ("bob's", "rolled_back")
    assert at_last == {"order-7": "rolled_back", "order-7~1": "completed"}


def test_a_child_is_known_by_its_input_also_where_the_value_of_a_secret_is_gone() -> None:
    world, memory, clock, registry = World(), Memory(), QuickClock(), Registry()
    act = world.action("act", result="done")

    @saga("test.kid")
    async def kid(s: Work, token: Secret) -> Any:
        await s.wait_for("go")
        return await s.do(act)

    @saga("test.top")
    async def top(s: Work, token: Secret) -> Any:
        return await s.call(kid, token)

    async def begin() -> str:
        async with coordinator(memory, clock=clock, registry=registry) as opened:
            return str((await (await opened.start(top, Secret("s3cr3t"), id="p")).halt()).status)

    async def go_on() -> dict[str, str]:
        async with coordinator(memory, clock=clock, registry=registry) as opened:
            await opened.signal("p~1", "go")
            await opened.drive("p~1")
            await opened.drive("p")
            return await statuses(opened)

    assert asyncio.run(begin()) == "waiting"
    assert asyncio.run(go_on()) == {"p": "completed", "p~1": "completed"}


def test_secrets_differ_by_the_variable_that_they_are_read_from_and_not_by_their_salt() -> None:
    one, other = ({"a": [Secret("v"), 1]}, {"a": [Secret("w"), 1]})
    assert without_digests(_masked(one, "p")) == without_digests(_masked(other, "p~1"))
    assert without_digests(_masked([Secret.env("A")], "p")) != without_digests(_masked([Secret.env("B")], "p"))


def _masked(value: object, salt: str) -> Any:
    return mask(value, salt)


# -- a step done again ------------------------------------------------------------------------------------------------


def generations(world: World) -> SagaDefinition:
    """A root that calls a branch, which calls a leaf. The first branch is too dear: it goes back to its checkpoint."""
    put, leave = world.action("put"), world.action("leaf", result="leaf")

    @saga("test.leaf")
    async def leaf(s: Work) -> Any:
        return await s.do(leave)

    @saga("test.branch")
    async def branch(s: Work) -> str:
        await s.do(put)
        await s.call(leaf)
        return "branch"

    @saga("test.root", limits=Limits(usd=5, then=to_checkpoint("cp", "the cheap one")))
    async def root(s: Work) -> str:
        told = await s.checkpoint("cp")
        result: str = await s.call(branch)
        if told is None:
            await s.spend(usd=6)
        return result

    return root


def test_the_child_of_a_step_done_again_is_not_taken_for_a_grandchild() -> None:
    world, memory = World(), Memory()

    async def script() -> list[Any]:
        async with coordinator(memory) as opened:
            ended = await opened.run(generations(world), id="x")
            return [ended.status, ended.result, await statuses(opened)]

    status, result, at_last = asyncio.run(script())
    assert (status, result) == ("completed", "branch")
    assert world.seen == ["put", "leaf", "unleaf", "unput", "put", "leaf"]
    assert at_last == {
        "x": "completed",
        "x~2": "rolled_back",
        "x~2~2": "rolled_back",
        "x~2@2": "completed",
        "x~2@2~2": "completed",
    }


def test_a_child_that_an_older_amends_began_for_a_step_done_again_is_found_and_taken_back() -> None:
    world, memory, clock, registry = World(), Memory(), QuickClock(), Registry()
    act = world.action("act", result="done")

    @saga("test.kid")
    async def kid(s: Work) -> Any:
        await s.do(act)
        return await s.wait_for("go")

    @saga("test.top")
    async def top(s: Work) -> Any:
        await s.checkpoint("cp")
        return await s.call(kid)

    async def older(patch: pytest.MonkeyPatch) -> dict[str, str]:
        patch.setattr(children, "child_id", former_child_id)
        async with coordinator(memory, clock=clock, registry=registry) as opened:
            handle = await opened.start(top, id="x")
            await handle.halt()
            await opened.signal("x~2", "go")
            assert (await handle).status == "completed"
            assert (await opened.rollback("x", to="cp")).status == "waiting"
            return await statuses(opened)

    async def newer() -> list[Any]:
        async with coordinator(memory, clock=clock, registry=registry) as opened:
            await opened.signal("x~2~2", "go", "it went on")
            await opened.drive("x~2~2")
            ended = await opened.drive("x")
            before = await statuses(opened)
            await opened.cancel("x")
            return [ended.result, before, await statuses(opened)]

    with pytest.MonkeyPatch.context() as patch:
        assert asyncio.run(older(patch)) == {"x": "waiting", "x~2": "rolled_back", "x~2~2": "waiting"}
    result, before, after = asyncio.run(newer())
    assert before == {"x": "completed", "x~2": "rolled_back", "x~2~2": "completed"}
    assert result == "it went on"
    assert after == dict.fromkeys(("x", "x~2", "x~2~2"), "rolled_back")
    assert world.seen == ["act", "unact", "act", "unact"]
