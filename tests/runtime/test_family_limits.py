"""Limits in families: a child runs within what is left to its parent, what it uses up counts for both, and a stop of
the parent is a stop of the child.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amends import (
    Coordinator,
    Done,
    Limit,
    Limits,
    SagaDefinition,
    Settings,
    StepFatalError,
    Work,
    child,
    register,
    saga,
    to_checkpoint,
)
from tests.runtime.test_locks import Scene, play, until

QUICK = Settings(park_s=0.05, poll_s=0.05, settle_s=5)


class Shop:
    """What was bought, and a gate that some purchases wait at."""

    def __init__(self) -> None:
        self.bought: list[str] = []
        self.gate = asyncio.Event()

        async def buy(what: str, wait: bool = False) -> str:
            self.bought.append(what)
            if wait:
                await self.gate.wait()
            return what

        async def give_back(done: Done) -> None:
            self.bought.remove(done.args["what"])

        self.buy = register("shop.buy", buy, compensation=give_back, idempotent=True)

    def buyer(self, name: str, *wanted: str, usd: int = 0, **declared: Any) -> SagaDefinition:
        """Buys one thing after another, each for so much; what ends with `!` waits at the gate."""

        @saga(f"buy.{name}", **declared)
        async def body(s: Work) -> list[str]:
            for one in wanted:
                await s.do(self.buy, one, one.endswith("!"))
                if usd:
                    await s.spend(usd=usd, what=one)
            return list(wanted)

        return body


def on(path: Path, scene: Scene) -> None:
    play(path, scene, QUICK)


async def spent(at: Coordinator, name: str) -> str:
    budget = (await at.show(name)).saga.budget
    return "" if budget is None else f"{budget.usd_micros / 1_000_000:g} USD, {budget.steps} steps"


def test_what_a_child_spends_counts_against_its_parent(tmp_path: Path) -> None:
    async def scene(at: Coordinator) -> None:
        shop = Shop()
        small = shop.buyer("small", "a", usd=3)

        @saga("buy.big", limits=Limits(usd=5))
        async def big(s: Work) -> None:
            await s.call(small)
            await s.spend(usd=3, what="its own")
            await s.do(shop.buy, "never")

        ended = await at.run(big, id="p")
        assert (ended.status, ended.cause) == ("rolled_back", "limit")
        assert ended.why == "limit usd: 6 USD spent, and the limit is 5 USD"
        assert shop.bought == []
        assert await spent(at, "p") == "6 USD, 1 steps"

    on(tmp_path, scene)


def test_a_child_does_not_go_past_its_parents_limit_whatever_its_own_says(tmp_path: Path) -> None:
    async def scene(at: Coordinator) -> None:
        shop = Shop()
        small = shop.buyer("small", "a", "b", "c", usd=3, limits=Limits(usd=100))

        @saga("buy.middle")
        async def middle(s: Work) -> Any:
            return await s.call(small)

        @saga("buy.big", limits=Limits(usd=5, then="call"))
        async def big(s: Work) -> Any:
            return await s.call(middle)

        handle = await at.start(big, id="p")
        assert (await handle.halt()).status == "incident"
        await standing(at, "buy.small", "paused")
        assert shop.bought == ["a", "b"]
        paused = (await at.show("p~1~1")).saga.paused
        assert paused is not None
        assert paused.why == "limit usd of its parent p: 6 USD spent, and the limit is 5 USD"
        await at.raise_limit("p", usd=20, by="person:ann")
        await standing(at, "buy.big", "completed")
        assert shop.bought == ["a", "b", "c"]
        assert [await spent(at, name) for name in ("p", "p~1", "p~1~1")] == ["9 USD, 3 steps"] * 3

    on(tmp_path, scene)


async def standing(at: Coordinator, name: str, status: str) -> None:
    async def stands() -> bool:
        return any(row.definition == name for row in await at.list(status=status))

    await until(stands)


def test_a_childs_tighter_limit_ends_the_child_and_leaves_the_parents_alone(tmp_path: Path) -> None:
    async def scene(at: Coordinator) -> None:
        shop = Shop()
        small = shop.buyer("small", "a", usd=2, limits=Limits(usd=1))

        @saga("buy.big", limits=Limits(usd=5))
        async def big(s: Work) -> str:
            try:
                await s.call(small)
            except StepFatalError as exc:
                await s.do(shop.buy, "b")
                return exc.reason
            return "never"

        ended = await at.run(big, id="p")
        assert ended.status == "completed"
        assert ended.result == "child p~1 was rolled back: limit usd: 2 USD spent, and the limit is 1 USD"
        assert shop.bought == ["b"]
        assert await spent(at, "p") == "2 USD, 2 steps"

    on(tmp_path, scene)


def test_children_side_by_side_do_no_more_steps_than_are_left(tmp_path: Path) -> None:
    async def scene(at: Coordinator) -> None:
        shop = Shop()
        wanted = [child(shop.buyer(name, f"{name}1", f"{name}2")) for name in "abc"]

        @saga("buy.big", limits=Limits(steps=4, then="pause"))
        async def big(s: Work) -> Any:
            return await s.call_all(wanted)

        handle = await at.start(big, id="p")
        assert (await handle.halt()).status == "paused"
        while len(await at.list(status=("running", "waiting"), parent="p")) > 0:
            await asyncio.sleep(0.01)
        assert 1 <= len(shop.bought) <= 4
        await at.raise_limit("p", steps=6, by="person:ann")
        ended = await handle
        assert (ended.status, len(shop.bought)) == ("completed", 6)

    on(tmp_path, scene)


def test_when_the_parents_time_is_up_its_children_go_back_too(tmp_path: Path) -> None:
    async def scene(at: Coordinator) -> None:
        shop = Shop()

        @saga("buy.patient")
        async def patient(s: Work) -> None:
            await s.do(shop.buy, "a")
            await s.wait_for("never")

        @saga("buy.big", limits=Limits(seconds=0.5))
        async def big(s: Work) -> None:
            await s.call(patient)

        ended = await at.run(big, id="p")
        assert (ended.status, ended.cause) == ("rolled_back", "limit")
        assert shop.bought == []
        assert (await at.show("p~1")).saga.phase == "rolled_back"

    on(tmp_path, scene)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_limit_may_stop_the_children_at_once(tmp_path: Path, *, at_once: bool) -> None:
    async def scene(at: Coordinator) -> None:
        shop = Shop()
        busy, dear = shop.buyer("busy", "b!", "b2"), shop.buyer("dear", "d", usd=9)

        @saga("buy.middle")
        async def middle(s: Work) -> Any:
            return await s.call(busy)

        @saga("buy.big", limits=Limits(usd=Limit(5, then="pause", stop_children=at_once)))
        async def big(s: Work) -> Any:
            async def spends() -> Any:
                await s.wait_for("go")
                return await s.call(dear)

            return await asyncio.gather(s.call(middle), spends())

        handle = await at.start(big, id="p")
        await until(lambda: seen(shop, "b!"))
        await at.signal("p", "go", None)
        await standing(at, "buy.big", "paused")
        if at_once:
            await standing(at, "buy.busy", "paused")  # while what it buys is still on its way
        else:
            await standing(at, "buy.dear", "paused")
            await standing(at, "buy.busy", "running")
        shop.gate.set()
        await standing(at, "buy.busy", "paused")
        assert (await handle.halt()).status == "paused"
        assert shop.bought == ["b!", "d"]
        await at.raise_limit("p", usd=50, by="person:ann")
        ended = await handle
        assert (ended.status, ended.result) == ("completed", [["b!", "b2"], ["d"]])
        assert await spent(at, "p") == "9 USD, 3 steps"

    on(tmp_path, scene)


async def seen(shop: Shop, what: str) -> bool:
    return what in shop.bought


def test_children_that_are_stopped_with_a_rollback_are_cancelled_all_the_way_down(tmp_path: Path) -> None:
    async def scene(at: Coordinator) -> None:
        shop = Shop()

        @saga("buy.patient")
        async def patient(s: Work) -> None:
            await s.do(shop.buy, "a")
            await s.wait_for("never")

        @saga("buy.middle")
        async def middle(s: Work) -> None:
            await s.call(patient)

        @saga("buy.big", limits=Limits(usd=5, stop_children=True))
        async def big(s: Work) -> None:
            async def spends() -> None:
                await s.wait_for("go")
                await s.spend(usd=6)

            await asyncio.gather(s.call(middle), spends())

        handle = await at.start(big, id="p")
        await standing(at, "buy.patient", "waiting")
        await at.signal("p", "go", None)
        assert (await handle).status == "rolled_back"
        assert shop.bought == []
        below = [row.id for row in await at.list() if row.id != "p"]
        stopped = [(await at.show(name)).saga.rollback for name in below]
        assert [one.by for one in stopped if one is not None] == ["system:family"] * 2

    on(tmp_path, scene)


def test_a_child_that_crosses_a_limit_goes_back_with_the_part_that_is_taken_back(tmp_path: Path) -> None:
    async def scene(at: Coordinator) -> None:
        shop = Shop()
        dear, cheap = shop.buyer("dear", "d", usd=9), shop.buyer("cheap", "c", usd=1)

        @saga("buy.big", limits=Limits(usd=5, then=to_checkpoint("begun", "take the cheap one")))
        async def big(s: Work) -> Any:
            await s.do(shop.buy, "first")
            told = await s.checkpoint("begun")
            return await s.call(dear if told is None else cheap)

        ended = await at.run(big, id="p")
        assert (ended.status, ended.result) == ("completed", ["c"])
        assert shop.bought == ["first", "c"]
        assert await spent(at, "p") == "10 USD, 3 steps"

    on(tmp_path, scene)
