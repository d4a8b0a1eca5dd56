"""Children of what goes back: they begin nothing more, and are taken back with the step that called them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from amends import (
    Coordinator,
    Done,
    Ended,
    Limits,
    Registry,
    SagaDefinition,
    Settings,
    Step,
    StepError,
    Work,
    child,
    register,
    saga,
    to_checkpoint,
)
from amends.core import commands as c
from amends.core.words.values import SagaId
from amends.errors import RefusedError
from tests.runtime.test_locks import play, until

QUICK = Settings(park_s=0.05, poll_s=0.05, settle_s=30)


class Desk:
    """What was done, each with a number; those from `stops_at` on wait until the gate is open."""

    def __init__(self, stops_at: int = 10_000) -> None:
        self.done: list[int] = []
        self.most: list[int] = []
        """Whatever was done once."""
        self.taken: list[int] = []
        self.gate = asyncio.Event()
        self.reached = asyncio.Event()

        async def put(n: int) -> int:
            self.done.append(n)
            self.most.append(n)
            if n >= stops_at:
                self.reached.set()
                await self.gate.wait()
            return n

        async def take(done: Done) -> None:
            self.done.remove(done.args["n"])
            self.taken.append(done.args["n"])

        async def last() -> None:
            self.most.append(-1)

        self.put = register("desk.put", put, compensation=take, idempotent=True)
        self.last = register("desk.last", last, no_rollback="it is out")

    def child(self, *numbers: int, waits: str = "", name: str = "child") -> SagaDefinition:
        @saga(f"desk.{name}")
        async def body(s: Work) -> list[int]:
            for n in numbers:
                await s.do(self.put, n)
            if waits:
                self.reached.set()
                await s.wait_for(waits)
            return list(numbers)

        return body


def _silent(*_about: object) -> None:
    """Whoever would have heard of it does not."""


def on(path: Path, scene: Callable[[Coordinator], Any], settings: Settings = QUICK) -> None:
    play(path, scene, settings)


async def statuses(at: Coordinator) -> dict[str, str]:
    return {row.definition: str(row.status) async for row in at.list()}


GoBack = Callable[[Coordinator], Awaitable[Ended]]


async def to_place(at: Coordinator) -> Ended:
    return await at.rollback("p", to="here", why="another way")


async def by_one(at: Coordinator) -> Ended:
    return await at.rollback("p", last=1, why="another way")


async def wholly(at: Coordinator) -> Ended:
    return await at.cancel("p", why="no more of it")


each_way = pytest.mark.parametrize("go_back", [to_place, by_one, wholly])


@each_way
@pytest.mark.parametrize("deep", [False, True])
def test_a_child_that_runs_begins_nothing_more_and_goes_back(tmp_path: Path, go_back: GoBack, *, deep: bool) -> None:
    async def scene(at: Coordinator) -> None:
        desk = Desk(stops_at=5)
        running = desk.child(*range(1, 31))

        @saga("desk.middle")
        async def middle(s: Work) -> Any:
            return await s.call(running)

        goes_another_way = False

        @saga("desk.top")
        async def top(s: Work) -> str:
            await s.do(desk.put, 0)
            await s.checkpoint("here")
            if not goes_another_way:
                await s.call(middle if deep else running)
            return "another way"

        handle = await at.start(top, id="p")
        await desk.reached.wait()
        goes_another_way = True
        asked = asyncio.ensure_future(go_back(at))
        await until(lambda: is_stopped(at, "desk.child"))  # while what it does is still on its way
        desk.gate.set()
        ended = await asked
        assert desk.most == [0, 1, 2, 3, 4, 5]
        assert (await statuses(at))["desk.child"] == "rolled_back"
        if go_back is wholly:
            assert (ended.status, desk.done) == ("rolled_back", [])
        else:
            assert (ended.status, ended.result, desk.done) == ("completed", "another way", [0])
        assert (await handle).status == ended.status

    on(tmp_path, scene)


async def is_stopped(at: Coordinator, definition: str) -> bool:
    """Or on its way back already: where its parent has nothing newer to take back, that comes at once."""
    return (await statuses(at)).get(definition) in {"paused", "rolling_back"}


@each_way
@pytest.mark.parametrize("parked", [False, True])
def test_a_child_that_waits_for_a_signal_is_stopped_and_goes_back(
    tmp_path: Path, go_back: GoBack, *, parked: bool
) -> None:
    async def scene(at: Coordinator) -> None:
        desk = Desk()
        goes_another_way = False
        patient = desk.child(1, 2, waits="never")

        @saga("desk.top")
        async def top(s: Work) -> str:
            await s.checkpoint("here")
            if not goes_another_way:
                await s.call(patient)
            return "another way"

        handle = await at.start(top, id="p")
        await desk.reached.wait()
        if parked:
            assert (await handle.halt()).status == "waiting"
        goes_another_way = True
        ended = await go_back(at)
        assert ended.status == ("rolled_back" if go_back is wholly else "completed")
        assert (await statuses(at))["desk.child"] == "rolled_back"
        assert desk.done == []

    on(tmp_path, scene, Settings(park_s=0.05 if parked else 60, poll_s=0.05))


def test_a_graph_that_is_a_child_is_stopped_and_a_whole_group_too(tmp_path: Path) -> None:
    async def scene(at: Coordinator) -> None:
        desk = Desk(stops_at=100)
        drawn = SagaDefinition(
            "desk.graph",
            [
                Step(desk.put, {"n": 1}, name="a"),
                Step(desk.put, {"n": 100}, name="b", after=["a"]),
                Step(desk.put, {"n": 101}, name="c", after=["a"]),
                Step(desk.put, {"n": 3}, name="d", after=["b", "c"]),
            ],
        )
        patient = desk.child(7, waits="never", name="patient")

        @saga("desk.top")
        async def top(s: Work) -> str:
            if await s.checkpoint("here") is None:
                await s.call_all([child(drawn), child(patient)])
            return "another way"

        _ = await at.start(top, id="p")
        await until(lambda: stands(desk, 100, 101, 7))
        asked = asyncio.ensure_future(to_place(at))
        await until(lambda: is_stopped(at, "desk.graph"))
        desk.gate.set()
        assert (await asked).status == "completed"
        assert (sorted(desk.most), desk.done) == ([1, 7, 100, 101], [])

    on(tmp_path, scene)


async def stands(desk: Desk, *numbers: int) -> bool:
    return {*numbers} <= {*desk.done}


@each_way
def test_a_child_stands_still_until_it_is_its_turn_newest_first(tmp_path: Path, go_back: GoBack) -> None:
    async def scene(at: Coordinator) -> None:
        desk = Desk()
        patient = desk.child(1, 2, waits="never")
        goes_another_way = False

        @saga("desk.top")
        async def top(s: Work) -> str:
            async def more() -> None:
                await desk.reached.wait()
                await s.do(desk.put, 3)
                await s.wait_for("never")

            await s.checkpoint("here")
            if not goes_another_way:
                await asyncio.gather(s.call(patient), more())
            return "another way"

        handle = await at.start(top, id="p")
        assert (await handle.halt()).status == "waiting"
        goes_another_way = True
        if go_back is by_one:
            await at.rollback("p", last=2)
        else:
            await go_back(at)
        assert desk.taken == [3, 2, 1]

    on(tmp_path, scene)


# -- asked for by the function, or by a limit -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["to", "last", "attempts"])
def test_a_function_takes_back_a_child_that_still_runs_beside_it(tmp_path: Path, how: str) -> None:
    async def scene(at: Coordinator) -> None:
        desk = Desk(stops_at=5)
        running = desk.child(*range(1, 31))

        async def give_up(s: Work) -> None:
            calling = asyncio.ensure_future(s.call(running))
            await desk.reached.wait()
            asyncio.get_running_loop().call_later(0.3, desk.gate.set)
            if how == "to":
                await s.rollback_to("here", "no good")
            elif how == "last":
                await s.rollback_last(1, "no good")
            else:
                raise ValueError("no good")
            with suppress(StepError):
                await calling

        @saga("desk.top")
        async def top(s: Work) -> str:
            await s.do(desk.put, 0)
            if how == "attempts":
                async for attempt in s.attempts("try", max=2):
                    async with attempt:
                        if attempt.number == 1:
                            await give_up(s)
            else:
                await s.checkpoint("here")
                await give_up(s)
            return "went on"

        ended = await at.run(top, id="p")
        assert (ended.status, ended.result) == ("completed", "went on")
        assert (desk.most, desk.done) == ([0, 1, 2, 3, 4, 5], [0])
        assert (await statuses(at))["desk.child"] == "rolled_back"

    on(tmp_path, scene)


def test_a_limit_that_goes_back_to_a_checkpoint_stops_the_child_that_waits(tmp_path: Path) -> None:
    async def scene(at: Coordinator) -> None:
        desk = Desk()
        patient = desk.child(1, waits="never")

        @saga("desk.top", limits=Limits(usd=5, then=to_checkpoint("here", "the cheap one")))
        async def top(s: Work) -> str:
            async def spends() -> None:
                await s.wait_for("go")
                await s.spend(usd=6)

            if await s.checkpoint("here") is None:
                await asyncio.gather(s.call(patient), spends())
            return "cheap"

        handle = await at.start(top, id="p")
        await desk.reached.wait()
        await at.signal("p", "go", None, early=True)
        ended = await handle
        assert (ended.status, ended.result, desk.done) == ("completed", "cheap", [])
        assert (await statuses(at))["desk.child"] == "rolled_back"

    on(tmp_path, scene)


def test_what_is_beside_the_part_that_goes_back_goes_on(tmp_path: Path) -> None:
    """A sibling that runs, one that waits, and one that is called while the other part is on its way back."""

    async def scene(at: Coordinator) -> None:
        desk = Desk(stops_at=50)
        gone = desk.child(1, waits="never", name="gone")
        busy, patient = desk.child(2, 50, 3, name="busy"), desk.child(4, waits="go", name="patient")
        late = desk.child(5, name="late")
        is_back = asyncio.Event()

        async def slow_take(done: Done) -> None:
            is_back.set()
            await desk.gate.wait()

        async def nothing() -> None: ...

        slow = register("desk.slow", nothing, compensation=slow_take)

        @saga("desk.top")
        async def top(s: Work) -> Any:
            async def fails() -> None:
                await desk.reached.wait()
                await s.do(slow)
                raise ValueError("no good")

            async def block() -> str:
                async for attempt in s.attempts("try", max=2):
                    async with attempt:
                        if attempt.number == 1:
                            await asyncio.gather(s.call(gone), fails())
                return "second try"

            async def calls_late() -> Any:
                await is_back.wait()
                return await s.call(late)

            return await asyncio.gather(block(), s.call(busy), s.call(patient), calls_late())

        handle = await at.start(top, id="p")
        await is_back.wait()
        await until(lambda: stands(desk, 5))
        found = await statuses(at)
        assert (found["desk.top"], found["desk.gone"]) == ("rolling_back", "paused")
        assert (found["desk.busy"], found["desk.patient"]) == ("running", "waiting")
        desk.gate.set()
        (waits,) = [row.id async for row in at.list(definition="desk.patient")]
        await at.signal(waits, "go", None)
        ended = await handle
        assert (ended.status, ended.result) == ("completed", ["second try", [2, 50, 3], [4], [5]])
        assert sorted(desk.done) == [2, 3, 4, 5, 50]

    on(tmp_path, scene)


def test_a_child_past_its_pivot_goes_on_and_its_parent_calls_a_person(tmp_path: Path) -> None:
    async def scene(at: Coordinator) -> None:
        desk = Desk(stops_at=5)

        @saga("desk.child")
        async def pivots(s: Work) -> str:
            await s.do(desk.last)
            await s.do(desk.put, 5)
            await s.do(desk.put, 1)
            return "sent"

        @saga("desk.top")
        async def top(s: Work) -> Any:
            await s.checkpoint("here")
            return await s.call(pivots)

        _ = await at.start(top, id="p")
        await desk.reached.wait()
        asked = asyncio.ensure_future(to_place(at))
        await until(lambda: goes_back(at))
        desk.gate.set()
        ended = await asked
        assert ended.status == "incident"
        assert "took effect and is irreversible" in ended.why
        assert desk.most == [-1, 5, 1]
        assert (await statuses(at))["desk.child"] == "completed"

    on(tmp_path, scene)


async def goes_back(at: Coordinator) -> bool:
    return (await statuses(at))["desk.top"] == "rolling_back"


# -- several workers, and none ----------------------------------------------------------------------------------------


def opened(path: Path, registry: Registry) -> AbstractAsyncContextManager[Coordinator]:
    return Coordinator.open(str(path / "j.db"), settings=QUICK, registry=registry)


def test_a_child_that_another_worker_drives_is_stopped_too(tmp_path: Path) -> None:
    async def whole() -> None:
        desk, registry = Desk(stops_at=5), Registry()

        @saga("desk.child")
        async def running(s: Work) -> None:
            await s.wait_for("go")
            for n in range(1, 31):
                await s.do(desk.put, n)

        @saga("desk.top")
        async def top(s: Work) -> str:
            if await s.checkpoint("here") is None:
                await s.call(running)
            return "another way"

        async with opened(tmp_path, registry) as first:
            assert (await (await first.start(top, id="p")).halt()).status == "waiting"
        async with asyncio.timeout(60), opened(tmp_path, registry) as second, opened(tmp_path, registry) as third:
            (row,) = [row async for row in second.list(definition="desk.child")]
            await second.signal(row.id, "go", None)
            driven = asyncio.ensure_future(second.drive(row.id))
            await desk.reached.wait()
            asked = asyncio.ensure_future(to_place(third))
            await until(lambda: is_stopped(third, "desk.child"))
            desk.gate.set()
            ended = await asked
            await driven
            assert (ended.status, ended.result) == ("completed", "another way")
            assert (desk.most, desk.done) == ([1, 2, 3, 4, 5], [])
            assert (await statuses(third))["desk.child"] == "rolled_back"

    asyncio.run(whole())


def test_a_child_of_what_goes_back_is_taken_up_and_begins_nothing(tmp_path: Path) -> None:
    """Nobody drives its parent yet, which somebody had go back just before all was killed."""

    async def whole() -> None:
        desk, registry = Desk(), Registry()

        @saga("desk.child")
        async def patient(s: Work) -> None:
            await s.wait_for("go")
            await s.do(desk.put, 1)

        @saga("desk.middle")
        async def middle(s: Work) -> None:
            await s.call(patient)

        @saga("desk.top")
        async def top(s: Work) -> str:
            if await s.checkpoint("here") is None:
                await s.call(middle)
            return "another way"

        async with opened(tmp_path, registry) as first:
            assert (await (await first.start(top, id="p")).halt()).status == "waiting"
            (row,) = [row async for row in first.list(definition="desk.child")]
        async with opened(tmp_path, registry) as second:
            engine = second._engine
            goes = c.RollBackTo(to="here", last=None, by="person:ann", why="another way")
            with pytest.MonkeyPatch.context() as killed:
                killed.setattr(type(engine._children.family), "asked_to_return", _silent)
                await engine.request(SagaId("p"), goes)
            await second.signal(row.id, "go", None)
            stopped = await second.drive(row.id)
            assert stopped is not None
            assert (stopped.status, stopped.why, desk.most) == ("paused", "saga p goes back", [])
            with suppress(RefusedError):
                await second.unpause(saga=row.id, by="person:bob")
            assert desk.most == []
        async with opened(tmp_path, registry) as third:
            ended = {one.id: one.status for one in await third.resume()}
            assert ended[SagaId("p")] == "completed"
            assert await statuses(third) == {
                "desk.top": "completed",
                "desk.middle": "rolled_back",
                "desk.child": "rolled_back",
            }
            assert desk.most == []

    asyncio.run(whole())
