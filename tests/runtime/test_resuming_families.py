"""Families that were left waiting: one `resume()` brings them to their end, or as far as somebody is waited for."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from amends import Coordinator, Registry, SagaDefinition, Settings, Work, child, saga
from amends.core import commands as c
from tests.runtime.support import World

QUICK = Settings(park_s=0.05, poll_s=0.05)


def _silent(*_about: object) -> None:
    """Whoever would have heard of it does not."""


def opened(path: Path, registry: Registry) -> AbstractAsyncContextManager[Coordinator]:
    return Coordinator.open(str(path / "j.db"), settings=QUICK, registry=registry)


def over(below: SagaDefinition, n: int) -> SagaDefinition:
    @saga(f"test.over_{n}")
    async def calls(s: Work) -> Any:
        return await s.call(below)

    return calls


def line_of(world: World, deep: int, *waits: str) -> SagaDefinition:
    """A saga that calls one that calls one: the last of them waits for signals, one after the other."""
    act = world.action("act")

    @saga("test.leaf")
    async def leaf(s: Work) -> str:
        for name in waits:
            await s.wait_for(name)
        await s.do(act)
        return "done"

    made: SagaDefinition = leaf
    for n in range(deep):
        made = over(made, n)
    return made


@pytest.mark.parametrize("deep", [1, 3])
def test_resuming_brings_a_family_to_its_end_and_tells_of_all_of_it(tmp_path: Path, deep: int) -> None:
    world, registry = World(), Registry()

    async def whole() -> None:
        top = line_of(world, deep, "go")
        async with opened(tmp_path, registry) as first:
            assert (await (await first.start(top, id="p")).halt()).status == "waiting"
        async with opened(tmp_path, registry) as second:
            leaf = (await second.list(definition="test.leaf"))[0].id
        async with asyncio.timeout(20), opened(tmp_path, registry) as third:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(third._engine._children), "ended", _silent)  # nobody else stirs a parent
                await third._engine.request(leaf, c.SendSignal(name="go", payload=None, by="person:ann"))
                ended = await third.resume()
            assert {one.status for one in ended} == {"completed"}
            assert len(ended) == len({one.id for one in ended}) == deep + 1
            assert ended[-1].id == "p"
            assert ended[-1].result == "done"

    asyncio.run(whole())


def test_resuming_returns_where_a_child_waits_on_for_somebody(tmp_path: Path) -> None:
    world, registry = World(), Registry()

    async def whole() -> None:
        top = line_of(world, 2, "go", "then")
        async with opened(tmp_path, registry) as first:
            assert (await (await first.start(top, id="p")).halt()).status == "waiting"
            leaf = (await first.list(definition="test.leaf"))[0].id
        async with asyncio.timeout(20), opened(tmp_path, registry) as second:
            await second.signal(leaf, "go", None)
            ended = await second.resume()
            assert [(one.id, one.status, one.waits_for) for one in ended] == [(leaf, "waiting", ("then",))]
            assert await second.resume() == []
        async with asyncio.timeout(20), opened(tmp_path, registry) as third:
            await third.signal(leaf, "then", None)
            assert ("p", "completed") in [(one.id, one.status) for one in await third.resume()]
            assert [row.status async for row in third.list()] == ["completed"] * 3

    asyncio.run(whole())


def test_resuming_leaves_a_parent_alone_that_waits_for_another_child_or_is_unknown_here(tmp_path: Path) -> None:
    world = World()
    act = world.action("act")

    @saga("test.leaf")
    async def leaf(s: Work, name: str) -> None:
        await s.wait_for(name)
        await s.do(act)

    @saga("test.top")
    async def top(s: Work) -> None:
        await s.call_all([child(leaf, "a"), child(leaf, "b")])

    async def whole() -> None:
        everything, only_leaves = Registry(), Registry()
        only_leaves.add_definition(leaf)
        async with opened(tmp_path, everything) as first:
            assert (await (await first.start(top, id="p")).halt()).status == "waiting"
            one, other = [row.id async for row in first.list(definition="test.leaf")]
        async with asyncio.timeout(20), opened(tmp_path, only_leaves) as second:
            await second.signal(one, "a", None, early=True)
            await second.signal(one, "b", None, early=True)
            assert "p" not in [each.id for each in await second.resume()]
            assert [(await second.show(each)).status for each in ("p", one)] == ["waiting", "completed"]
        async with asyncio.timeout(20), opened(tmp_path, everything) as third:
            await third.resume()
            assert (await third.show("p")).status == "waiting"
            await third.signal(other, "a", None, early=True)
            await third.signal(other, "b", None, early=True)
        async with asyncio.timeout(20), opened(tmp_path, everything) as fourth:
            await fourth.resume()
            assert (await fourth.show("p")).status == "completed"

    asyncio.run(whole())


def test_a_child_that_ended_while_nobody_knew_its_parent_has_woken_it(tmp_path: Path) -> None:
    """Its end is on record together with that: whoever comes next finds the parent due, and does not wait to look."""
    world, everything, only_leaf = World(), Registry(), Registry()

    async def whole() -> None:
        top = line_of(world, 1, "go")
        async with opened(tmp_path, everything) as first:
            assert (await (await first.start(top, id="p")).halt()).status == "waiting"
            leaf = (await first.list(definition="test.leaf"))[0].id
        only_leaf.add_definition(everything.definition("test.leaf", 1))
        async with asyncio.timeout(20), opened(tmp_path, only_leaf) as second:
            await second.signal(leaf, "go", None)
            await second.resume()
            assert (await second.show(leaf)).saga.status == "completed"
        async with asyncio.timeout(20), opened(tmp_path, everything) as third:
            assert [(one.id, one.status) for one in await third.resume()] == [("p", "completed")]

    asyncio.run(whole())
