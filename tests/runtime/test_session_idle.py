"""Sessions that nobody goes on with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from amends import Coordinator
from amends.core.transitions import SagaStatus
from amends.errors import InputError, RefusedError
from tests.runtime.support import World
from tests.runtime.test_session import status, tell


async def kinds(coordinator: Coordinator) -> list[str]:
    return [str(one.kind) async for one in coordinator.incidents()]


async def until(coordinator: Coordinator, name: str, wanted: SagaStatus) -> None:
    async with asyncio.timeout(10):
        while await status(coordinator, name) is not wanted:
            await asyncio.sleep(0.05)


def test_an_open_block_without_a_step_tells_a_person_until_the_next(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1", idle=0.2) as s:
            await s.do(pay, 1)
            async with asyncio.timeout(10):
                while await kinds(coordinator) != ["idle"]:
                    await asyncio.sleep(0.05)
            await s.do(pay, 2)
            assert await kinds(coordinator) == []
        assert await status(coordinator, "t-1") is SagaStatus.COMPLETED

    tell(tmp_path, story)
    assert world.seen == ["pay(1)", "pay(2)"]


def test_a_detached_one_tells_a_person_and_keeps_nobody_out(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1", idle=0.2) as s:
            await s.do(pay, 1)
            await s.detach()
        async with asyncio.timeout(10):
            while await kinds(coordinator) != ["idle"]:
                await asyncio.sleep(0.05)
        assert await status(coordinator, "t-1") is SagaStatus.WAITING
        async with coordinator.session("support.agent", id="t-1") as s:
            await s.do(pay, 2)
            assert await kinds(coordinator) == []
        assert await status(coordinator, "t-1") is SagaStatus.COMPLETED

    tell(tmp_path, story)
    assert world.seen == ["pay(1)", "pay(2)"]


def test_a_detached_one_is_rolled_back_by_another_process(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay")

    async def first(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1", idle=0.5, on_idle="rollback") as s:
            await s.do(pay, 1)
            await s.detach()

    async def second(coordinator: Coordinator) -> None:
        working = asyncio.ensure_future(coordinator.work())
        await until(coordinator, "t-1", SagaStatus.ROLLED_BACK)
        working.cancel()

    tell(tmp_path, first)
    tell(tmp_path, second)
    assert world.seen == ["pay(1)", "unpay"]


def test_an_open_one_is_rolled_back_and_its_agent_hears_of_it(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(RefusedError, match="nobody has taken a step"):  # noqa: PT012 - the block itself is what is left by it
            async with coordinator.session("support.agent", id="t-1", idle=0.2, on_idle="rollback") as s:
                await s.do(pay, 1)
                await until(coordinator, "t-1", SagaStatus.ROLLED_BACK)
                await s.do(pay, 2)

    tell(tmp_path, story)
    assert world.seen == ["pay(1)", "unpay"]


def test_waiting_for_a_timer_does_not_count(tmp_path: Path) -> None:
    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1", idle=0.3) as s:
            await s.sleep(0.8)
            assert await kinds(coordinator) == []

    tell(tmp_path, story)


@pytest.mark.parametrize("idle", ["soon", "0s", -1, 0])
def test_a_time_that_is_none_is_refused(tmp_path: Path, idle: str | float) -> None:
    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(InputError, match="is no time without a step"):
            async with coordinator.session("support.agent", idle=idle):
                pass

    tell(tmp_path, story)
