"""Pausing: nothing more is dispatched of what is paused, in any process; all else goes on, and nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from amends import Done, Fatal, Registry, SagaDefinition, SagaStatus, Settings, Work, register, saga
from amends.core import events as e
from amends.errors import InputError, RefusedError
from amends.journal.memory import Memory
from amends.runtime.coordinator.coordinator import Coordinator
from tests.runtime.support import QuickClock, World, coordinator
from tests.runtime.test_waiting import driven

SETTINGS = Settings(lease_s=1_000_000, settle_s=60, park_s=0.0, poll_s=0.005, drain_s=0.01)
PAUSED, COMPLETED, ROLLED_BACK = SagaStatus.PAUSED, SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK


class Ground:
    def __init__(self) -> None:
        self.world, self.clock = World(), QuickClock()
        self._memory = Memory()

    def open(self, *definitions: SagaDefinition, settings: Settings = SETTINGS) -> Coordinator:
        registry = Registry()
        for each in definitions:
            registry.add_definition(each)
        return coordinator(self._memory, settings=settings, clock=self.clock, registry=registry)

    def two_steps(self, name: str = "test.two", topics: tuple[str, str] = ("one", "two")) -> SagaDefinition:
        first, second = (self.world.action(topic) for topic in topics)

        @saga(name)
        async def two(s: Work) -> str:
            await s.do(first)
            await s.do(second)
            return "done"

        return two

    def held(self, topic: str = "held") -> tuple[Any, asyncio.Event, asyncio.Event]:
        """An action that says when it runs, and ends when it is told to."""
        entered, leave = asyncio.Event(), asyncio.Event()

        async def act() -> str:
            self.world.note(topic)
            entered.set()
            await leave.wait()
            return topic

        async def undo(done: Done) -> None:
            self.world.note(f"un{topic}")

        return register(f"test.{topic}", act, compensation=undo), entered, leave


async def standing(process: Coordinator, name: str, status: SagaStatus) -> None:
    while (await process.show(name)).status is not status:
        await asyncio.sleep(0)


@driven
async def test_nothing_is_dispatched_while_everything_is_paused_and_all_of_it_afterwards() -> None:
    ground = Ground()
    async with ground.open() as process:
        await process.pause(why="the bank is down", by="person:ann")
        handles = [await process.start(ground.two_steps(), id=f"s-{n}") for n in range(3)]
        assert [(await handle.halt()).status for handle in handles] == [PAUSED] * 3
        assert ground.world.seen == []
        (pause,) = await process.paused()
        assert (pause.why, pause.by, pause.scope) == ("the bank is down", "person:ann", ("", "", ""))
        assert await process.unpause(by="person:ann") == 3
        assert [(await handle).status for handle in handles] == [COMPLETED] * 3
        assert await process.paused() == []
    assert sorted(ground.world.seen) == ["one"] * 3 + ["two"] * 3


@driven
async def test_what_is_in_flight_ends_and_is_not_done_again() -> None:
    ground = Ground()
    held, entered, leave = ground.held()
    after = ground.world.action("after")

    @saga("test.flying")
    async def flying(s: Work) -> None:
        await s.do(held)
        await s.do(after)

    async with ground.open() as process:
        handle = await process.start(flying, id="f")
        await entered.wait()
        await process.pause(why="a look")
        draining = asyncio.ensure_future(process.drain(within=0.0))
        assert await draining == ["f/1"]
        leave.set()
        assert await process.drain() == []
        await standing(process, "f", PAUSED)
        assert ground.world.seen == ["held"]
        await process.unpause()
        assert (await handle).status is COMPLETED
    assert ground.world.seen == ["held", "after"]


@driven
async def test_a_topic_in_quarantine_holds_only_the_sagas_that_need_it() -> None:
    ground = Ground()
    bad, good = ground.two_steps("test.bad", ("one", "pay.card")), ground.two_steps("test.good", ("one", "mail"))
    async with ground.open() as process:
        await process.pause(topic="test.pay.*", why="the bank is down")
        held = await process.start(bad, id="b")
        assert (await process.run(good, id="g")).status is COMPLETED
        assert (await held.halt()).status is PAUSED
        assert ground.world.seen.count("pay.card") == 0
        assert await process.unpause(topic="test.pay.*") == 1
        assert (await held).status is COMPLETED


@driven
@pytest.mark.parametrize(
    ("clauses", "stopped"),
    [
        ({"definition": "test.a"}, {"a-acme", "a-none"}),
        ({"tenant": "acme"}, {"a-acme", "b-acme"}),
        ({"tenant": "acme", "definition": "test.a"}, {"a-acme"}),
        ({"tenant": "acme", "topic": "test.two"}, {"a-acme", "b-acme"}),
        ({"topic": "test.none"}, set[str]()),
        ({}, {"a-acme", "a-none", "b-acme", "b-none"}),
    ],
)
async def test_all_clauses_have_to_fit(clauses: dict[str, Any], stopped: set[str]) -> None:
    ground = Ground()
    a, b = ground.two_steps("test.a"), ground.two_steps("test.b")
    async with ground.open() as process:
        await process.pause(**clauses, why="a test")
        for definition, name in ((a, "a"), (b, "b")):
            await (await process.start(definition, id=f"{name}-acme", labels={"tenant": "acme"})).halt()
            await (await process.start(definition, id=f"{name}-none")).halt()
        assert {row.id for row in await process.list(status="paused")} == stopped


@driven
async def test_rollbacks_go_on_unless_they_are_told_to_stop() -> None:
    ground = Ground()
    fails = ground.world.action("fails", Fatal("no", happened=False))

    def failing(name: str) -> SagaDefinition:
        first = ground.world.action(f"first.{name}")

        @saga(f"test.{name}")
        async def body(s: Work) -> None:
            await s.do(first)
            held, entered, leave = ground.held(f"held.{name}")
            flights[name] = (entered, leave)
            await s.do(held)
            await s.do(fails)

        return body

    flights: dict[str, tuple[asyncio.Event, asyncio.Event]] = {}
    async with ground.open() as process:
        goes, stops = await process.start(failing("goes"), id="g"), await process.start(failing("stops"), id="s")
        while len(flights) < 2:
            await asyncio.sleep(0)
        for entered, _ in flights.values():
            await entered.wait()
        await process.pause(definition="test.stops", why="a look", rollbacks="stop")
        await process.pause(definition="test.goes", why="a look")
        for name in ("g", "s"):
            cancelling = asyncio.ensure_future(process.cancel(name))
            await asyncio.sleep(0)
            for _, leave in flights.values():
                leave.set()
            await cancelling
        assert (await goes).status is ROLLED_BACK
        await standing(process, "s", PAUSED)
        assert "unheld.stops" not in ground.world.seen
        await process.unpause(definition="test.stops")
        assert (await stops).status is ROLLED_BACK
    assert ground.world.seen[-2:] == ["unheld.stops", "unfirst.stops"]


# -- one saga --------------------------------------------------------------------------------------------------------


@driven
async def test_one_saga_is_paused_and_goes_on_where_it_stood() -> None:
    ground = Ground()
    held, entered, leave = ground.held()
    after = ground.world.action("after")

    @saga("test.one")
    async def one(s: Work) -> None:
        await s.do(held)
        await s.do(after)

    async with ground.open() as process:
        handle = await process.start(one, id="o")
        await entered.wait()
        await process.pause(saga="o", why="let me look", by="person:ann")
        assert (await process.show("o")).status is PAUSED
        leave.set()
        assert (await handle.halt()).status is PAUSED
        assert ground.world.seen == ["held"]
        assert await process.paused() == []
        await process.unpause(saga="o", by="person:ann")
        assert (await handle).status is COMPLETED
        told = [line.text for line in (await process.show("o")).timeline]
    assert "paused by person:ann: let me look" in told
    assert "work resumed by person:ann" in told
    assert ground.world.seen == ["held", "after"]


@driven
async def test_a_pause_and_its_end_while_a_step_is_in_flight_leave_no_trace_in_the_work() -> None:
    """The function is stopped for the pause as the pause ends: that is no failure of it, and it is called again."""
    ground = Ground()
    held, entered, leave = ground.held()
    after = ground.world.action("after")

    @saga("test.quick")
    async def quick(s: Work) -> str:
        await s.do(held)
        await s.do(after)
        return "done"

    async with ground.open() as process:
        handle = await process.start(quick, id="q")
        await entered.wait()
        await process.pause(saga="q", why="a slip of the finger")
        await process.unpause(saga="q")
        leave.set()
        assert (await handle).result == "done"
    assert ground.world.seen == ["held", "after"]


@driven
async def test_a_paused_saga_is_cancelled_and_taken_back() -> None:
    ground = Ground()
    async with ground.open() as process:
        await process.pause(topic="test.two", why="a look")
        handle = await process.start(ground.two_steps(), id="c")
        assert (await handle.halt()).status is PAUSED
        assert (await process.cancel("c")).status is ROLLED_BACK
        assert (await handle).status is ROLLED_BACK
    assert ground.world.seen == ["one", "unone"]


@driven
async def test_a_saga_with_a_pause_of_its_own_stays_when_the_wide_one_ends() -> None:
    ground = Ground()
    async with ground.open() as process:
        await process.pause(why="all of it")
        handle = await process.start(ground.two_steps(), id="o")
        await handle.halt()
        with pytest.raises(RefusedError, match="saga o is held by pause 3 of everything; end that one"):
            await process.unpause(saga="o")
        await process.pause(saga="o", why="this one longer")
        assert await process.unpause() == 0
        assert (await process.show("o")).status is PAUSED
        await process.unpause(saga="o")
        assert (await handle).status is COMPLETED


# -- several processes -----------------------------------------------------------------------------------------------


@driven
async def test_a_pause_holds_in_another_process_and_after_a_restart() -> None:
    ground = Ground()
    definition = ground.two_steps()
    async with ground.open() as desk:
        await desk.pause(topic="test.two", why="a look")
    async with ground.open() as process:
        assert (await (await process.start(definition, id="p")).halt()).status is PAUSED
    async with ground.open(definition) as other:
        assert await other.resume() == []
        assert (await other.show("p")).status is PAUSED
    async with ground.open() as desk:  # it knows no definition, and has nobody go on but who can
        assert await desk.unpause(topic="test.two") == 1
    async with ground.open(definition) as other:
        assert [ended.status for ended in await other.resume()] == [COMPLETED]
    assert ground.world.seen == ["one", "two"]


@driven
async def test_the_process_that_held_a_saga_hears_that_it_may_go_on() -> None:
    ground = Ground()
    async with ground.open() as process, ground.open() as desk:
        await desk.pause(why="a look")
        handle = await process.start(ground.two_steps(), id="p")
        assert (await handle.halt()).status is PAUSED
        await desk.unpause()
        assert (await handle).status is COMPLETED


@driven
async def test_a_saga_whose_pause_ended_while_nobody_let_it_go_on_is_found_by_the_next_resume() -> None:
    """Who ended the pause died before it came to this saga."""
    ground = Ground()
    definition = ground.two_steps()
    async with ground.open() as process:
        number = await process.pause(why="a look")
        await (await process.start(definition, id="p")).halt()
        await process._engine.pauses.end(number, by="person:ann", why="")
    async with ground.open(definition) as other:
        assert [ended.status for ended in await other.resume()] == [COMPLETED]


@driven
async def test_a_saga_that_is_paused_just_as_the_pause_ends_goes_on() -> None:
    """What this process knows of pauses is old: the pause has ended, and who ended it saw no paused saga."""
    ground = Ground()
    slow_to_look = Settings(lease_s=1_000_000, settle_s=1, park_s=0.0, poll_s=1_000.0, drain_s=0.01)
    async with ground.open(settings=slow_to_look) as process, ground.open() as desk:
        await desk.pause(why="a look")
        await process.paused()
        assert await desk.unpause() == 0
        assert process._engine.pauses.active
        assert (await process.run(ground.two_steps(), id="p")).status is COMPLETED
        kinds = [type(entry.event) for entry in (await process.show("p")).entries]
    assert kinds.count(e.SagaPaused) == 1


# -- bad input -------------------------------------------------------------------------------------------------------


@driven
async def test_a_pause_that_cannot_be_meant_is_refused() -> None:
    ground = Ground()
    async with ground.open() as process:
        with pytest.raises(InputError, match="a pause needs a reason"):
            await process.pause(why=" ")
        with pytest.raises(InputError, match="a saga is paused alone"):
            await process.pause(saga="s", topic="a.b", why="x")
        with pytest.raises(InputError, match=r"\*\* has to be a whole segment"):
            await process.pause(topic="pay**", why="x")
        with pytest.raises(InputError, match="they go_on, or they stop"):
            await process.pause(why="x", rollbacks=cast("Any", "halt"))
        with pytest.raises(RefusedError, match="nothing is paused, so there is nothing to wait for"):
            await process.drain()
        with pytest.raises(RefusedError, match=r"there is no pause of topic a[.]b; paused now: nothing"):
            await process.unpause(topic="a.b")
        await process.run(ground.two_steps(), id="done")
        with pytest.raises(RefusedError, match="saga done is completed: nothing is dispatched for it"):
            await process.pause(saga="done", why="x")
        with pytest.raises(RefusedError, match="saga done is completed, and not paused"):
            await process.unpause(saga="done")
        with pytest.raises(InputError, match=r"the id amends[.]control is taken"):
            await process.run(ground.two_steps(), id="amends.control")


@driven
async def test_the_same_pause_twice_is_one() -> None:
    ground = Ground()
    async with ground.open() as process:
        first = await process.pause(topic="a.b", why="x")
        assert await process.pause(topic="a.b", why="y") == first
        assert await process.pause(topic="a.b", why="y", rollbacks="stop") != first
        assert len(await process.paused()) == 2
        await process.unpause(topic="a.b")
        assert await process.paused() == []
