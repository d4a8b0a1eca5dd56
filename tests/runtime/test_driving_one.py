"""One saga, one stretch of work at a time: what `drive` tells whoever keeps time, and who may be next."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from amends import Coordinator, Fatal, Registry, SagaDefinition, SagaStatus, Settings, Work, saga
from amends.clock import SystemClock
from amends.errors import InputError, RefusedError, UnknownDefinitionError, UnknownSagaError
from amends.secrets import Secret
from tests.runtime.support import World

UNPROMPTED = Settings(park_s=0.02, poll_s=60)
"""Nobody looks for anything by himself while a test lasts: what happens, `drive` did."""


def driven(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


@asynccontextmanager
async def workers(tmp_path: Path, *definitions: SagaDefinition) -> AsyncGenerator[tuple[Coordinator, Coordinator]]:
    """Two of them on one journal; the second stands for another machine."""
    registry = Registry()
    for each in definitions:
        registry.add_definition(each)

    def opened() -> Any:
        return Coordinator.open(str(tmp_path / "j.db"), signals=False, settings=UNPROMPTED, registry=registry)

    async with opened() as one, opened() as other:
        one.lend()
        other.lend()
        yield one, other


@saga("test.two")
async def two(s: Work, seats: list[str]) -> int:
    first, second = WORLD.actions
    await s.do(first)
    await s.do(second)
    return len(seats)


class Actions(World):
    @property
    def actions(self) -> tuple[Any, Any]:
        return self.first, self.second

    def begin(self) -> None:
        self.seen.clear()
        self.first, self.second = self.action("first"), self.action("second")


WORLD = Actions()


@pytest.fixture(autouse=True)
def _begins() -> None:
    WORLD.begin()


@saga("test.naps")
async def naps(s: Work, seconds: float) -> None:
    await s.do(WORLD.first)
    await s.sleep(seconds)
    await s.do(WORLD.second)


@saga("test.listens")
async def listens(s: Work) -> object:
    await s.do(WORLD.first)
    answer = await s.wait_for("answer")
    await s.do(WORLD.second)
    return answer


@saga("test.breaks")
async def breaks(s: Work) -> None:
    await s.do(WORLD.first)
    raise Fatal("no")


@saga("test.calls")
async def calls(s: Work) -> object:
    return await s.call(listens)


@driven
async def test_what_was_put_on_record_is_driven_by_whoever_is_asked_and_is_over_in_one_stretch(tmp_path: Path) -> None:
    async with workers(tmp_path, two) as (one, other):
        assert await one.put_on_record(two, {"seats": ["a", "b"]}, id="s") == "s"
        assert (WORLD.seen, [row.id for row in await other.list()]) == ([], ["s"])
        end = await other.drive("s")
        assert (end.status, end.result, end.wake_at, end.held_by) == (SagaStatus.COMPLETED, 2, None, "")
        assert (await one.drive("s")).result == 2
    assert WORLD.seen == ["first", "second"]


@driven
async def test_a_saga_that_goes_back_is_over_in_one_stretch_too(tmp_path: Path) -> None:
    async with workers(tmp_path, breaks) as (one, _):
        await one.put_on_record(breaks, {}, id="s")
        end = await one.drive("s")
        assert (end.status, end.wake_at) == (SagaStatus.ROLLED_BACK, None)
    assert WORLD.seen == ["first", "unfirst"]


@driven
async def test_a_saga_that_sleeps_says_when_it_wants_to_be_woken_and_another_worker_may_do_that(tmp_path: Path) -> None:
    async with workers(tmp_path, naps) as (one, other):
        now = SystemClock().now()
        await one.put_on_record(naps, {"seconds": 0.8}, id="s")
        slept = await one.drive("s")
        assert slept.status is SagaStatus.WAITING
        assert slept.wake_at is not None
        assert now + 800 <= slept.wake_at <= SystemClock().now() + 800
        early = await other.drive("s")
        assert (early.wake_at, early.held_by, WORLD.seen) == (slept.wake_at, "", ["first"])
        await asyncio.sleep(max(0.0, (slept.wake_at - SystemClock().now()) / 1000) + 0.01)
        assert (await other.drive("s")).status is SagaStatus.COMPLETED
    assert WORLD.seen == ["first", "second"]


@driven
async def test_a_saga_that_waits_for_a_signal_names_it_and_no_time(tmp_path: Path) -> None:
    async with workers(tmp_path, listens) as (one, other):
        await one.put_on_record(listens, {}, id="s")
        waits = await one.drive("s")
        assert (waits.status, waits.wake_at, waits.waits_for) == (SagaStatus.WAITING, None, ("answer",))
        again = await other.drive("s")
        assert (again.status, again.wake_at, again.waits_for) == (SagaStatus.WAITING, None, ("answer",))
        stranger = await Coordinator.open(
            str(tmp_path / "j.db"), signals=False, settings=UNPROMPTED, registry=Registry()
        )
        async with stranger:
            await stranger.signal("s", "answer", "yes")
        end = await other.drive("s")
        assert (end.status, end.result) == (SagaStatus.COMPLETED, "yes")
    assert WORLD.seen == ["first", "second"]


@driven
async def test_a_saga_that_another_worker_drives_is_left_to_it_and_said_to_be_held_until_when(tmp_path: Path) -> None:
    goes_on, under_way = asyncio.Event(), asyncio.Event()

    @saga("test.long")
    async def long(s: Work) -> None:
        await s.do(WORLD.first)
        under_way.set()
        await goes_on.wait()
        await s.do(WORLD.second)

    async with workers(tmp_path, long) as (one, other):
        await one.put_on_record(long, {}, id="s")
        driving = asyncio.ensure_future(one.drive("s"))
        joined = asyncio.ensure_future(one.drive("s"))
        await under_way.wait()
        held = await other.drive("s")
        assert held.held_by == one._engine.worker
        assert held.wake_at is not None
        assert held.wake_at > SystemClock().now()
        goes_on.set()
        assert (await driving).status is (await joined).status is SagaStatus.COMPLETED
    assert WORLD.seen == ["first", "second"]


@driven
async def test_whoever_asks_may_be_stopped_at_any_moment_and_no_saga_is_kept_by_a_worker_that_does_nothing(
    tmp_path: Path,
) -> None:
    async with workers(tmp_path, two) as (one, other):
        for turns in range(40):
            saga = f"s{turns}"
            await one.put_on_record(two, {"seats": []}, id=saga)
            asking = asyncio.ensure_future(one.drive(saga))
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            async with asyncio.timeout(10):
                while (await other.drive(saga)).status is not SagaStatus.COMPLETED:
                    await asyncio.sleep(0)
    assert WORLD.seen == ["first", "second"] * 40


@driven
async def test_a_parent_that_waits_for_its_child_says_when_to_look_again(tmp_path: Path) -> None:
    async with workers(tmp_path, calls, listens) as (one, other):
        await one.put_on_record(calls, {}, id="s")
        waits = await one.drive("s")
        assert waits.wake_at is not None
        (child,) = [row.id for row in await one.list(parent="s")]
        assert (await other.drive(child)).waits_for == ("answer",)
        await other.signal(child, "answer", "yes")
        await other.drive(child)
        assert (await other.drive("s")).result == "yes"


@driven
async def test_the_same_id_twice_is_one_saga_and_asking_for_another_one_is_refused(tmp_path: Path) -> None:
    async with workers(tmp_path, two) as (one, other):
        both = [each.put_on_record(two, {"seats": ["a"]}, id="s") for each in (one, other, one)]
        assert await asyncio.gather(*both) == ["s", "s", "s"]
        with pytest.raises(RefusedError, match="exists already, with another beginning"):
            await other.put_on_record(two, {"seats": ["b"]}, id="s")
        await one.drive("s")
        assert (await other.start(two, ["a"], id="s")).id == "s"
        assert len(await one.list()) == 1
    assert WORLD.seen == ["first", "second"]


@driven
async def test_a_secret_is_refused_where_others_will_drive(tmp_path: Path) -> None:
    async with workers(tmp_path, two) as (one, _):
        with pytest.raises(InputError, match="a secret, which is not on record; pass a reference to it"):
            await one.put_on_record(two, {"seats": cast("Any", [Secret("x")])}, id="s")
        assert await one.list() == []


@driven
async def test_a_worker_that_does_not_know_the_definition_says_so_and_harms_nothing(tmp_path: Path) -> None:
    async with workers(tmp_path, two) as (one, _):
        await one.put_on_record(two, {"seats": []}, id="s")
        stranger = await Coordinator.open(
            str(tmp_path / "j.db"), signals=False, settings=UNPROMPTED, registry=Registry()
        )
        async with stranger:
            with pytest.raises(UnknownDefinitionError, match=r"saga s is not driven here: no saga test\.two version 1"):
                await stranger.drive("s")
            with pytest.raises(UnknownSagaError):
                await stranger.drive("nobody")
        assert (await one.drive("s")).status is SagaStatus.COMPLETED
