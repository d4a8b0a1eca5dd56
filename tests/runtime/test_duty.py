"""On duty: `work` drives whatever becomes due, whoever made it so, until the coordinator closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any

import pytest

from amends import Registry, SagaStatus, Settings, Work, saga
from amends.core.values import SagaId
from amends.errors import JournalBusyError, JournalStoppedError
from amends.gate.builtin import BuiltinGate
from amends.journal.memory import Memory, MemoryJournal
from amends.journal.protocol import Lease
from amends.runtime.coordinator import Coordinator
from tests.runtime.support import QuickClock, World, coordinator

SETTINGS = Settings(lease_s=1_000_000, settle_s=1, park_s=0.001, drain_s=0.01)


async def until_ended(on: Coordinator, *sagas: str) -> None:
    while not all(row.status.ended for row in [await on.show(one) for one in sagas]):
        await asyncio.sleep(0)


def mailing(world: World) -> Any:
    send = world.action("send", no_rollback="a mail cannot be unsent")

    @saga("test.mail")
    async def mail(s: Work) -> None:
        await s.do(send)

    return mail


def test_a_saga_is_driven_once_that_people_approved_after_its_worker_had_gone() -> None:
    world, memory, clock, registry = World(), Memory(), QuickClock(), Registry()

    async def whole() -> None:
        async with coordinator(memory, env="production", settings=SETTINGS, clock=clock, registry=registry) as first:
            handle = await first.start(mailing(world), id="m")
            assert (await handle.halt()).status is SagaStatus.WAITING
        async with (
            coordinator(memory, settings=SETTINGS, clock=clock, registry=registry) as worker,
            coordinator(memory, settings=SETTINGS, clock=clock) as desk,
        ):
            working = asyncio.ensure_future(worker.work())
            for _ in range(20):
                await asyncio.sleep(0)
            assert world.seen == []
            await desk.grant("m/1", by="person:ana")
            await until_ended(desk, "m")
        await working
        assert world.seen == ["send"]

    asyncio.run(whole())


def test_work_begins_with_what_was_left_unfinished_and_goes_on_with_what_comes() -> None:
    world, memory, clock, registry = World(), Memory(), QuickClock(), Registry()
    settings = Settings(lease_s=1_000_000, settle_s=1, drain_s=0.01, resumed_at_once=2)
    step, most, at_once = world.action("step"), 0, 0
    stay = asyncio.Event()

    @saga("test.many")
    async def many(s: Work) -> None:
        nonlocal most, at_once
        at_once += 1
        most = max(most, at_once)
        await stay.wait()
        await s.do(step)
        at_once -= 1

    async def leave(*names: str) -> None:
        async with coordinator(memory, settings=settings, clock=clock, registry=registry) as gone:
            for name in names:
                _ = await gone.start(many, id=name)
            while at_once < len(names):
                await asyncio.sleep(0)

    async def whole() -> None:
        nonlocal most, at_once
        early = [f"early-{number}" for number in range(7)]
        await leave(*early)
        most = at_once = 0
        async with coordinator(memory, settings=settings, clock=clock, registry=registry) as worker:
            working = asyncio.ensure_future(worker.work())
            while not at_once:
                await asyncio.sleep(0)
            stay.set()
            await until_ended(worker, *early)
            assert most == 2
            stay.clear()
            at_once = 0
            await leave("late")
            stay.set()
            await until_ended(worker, "late")
            assert not working.done()
        await working
        assert len(world.seen) == 8

    asyncio.run(whole())


def test_work_that_is_cancelled_says_so_and_after_a_close_there_is_none() -> None:
    async def whole() -> None:
        async with coordinator(settings=SETTINGS) as made:
            working = asyncio.ensure_future(made.work())
            await asyncio.sleep(0)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
        await made.work()

    asyncio.run(whole())


class Troubled(MemoryJournal):
    """Its claims fail, as long as something is in `fails`."""

    fails: list[Exception]

    async def claim(
        self,
        worker: str,
        *,
        definitions: Collection[str] | None = None,
        saga: SagaId | None = None,
        due_by: int | None = None,
        limit: int = 500,
    ) -> tuple[Lease, ...]:
        if self.fails:
            raise self.fails.pop(0)
        return await super().claim(worker, definitions=definitions, saga=saga, due_by=due_by, limit=limit)


def troubled(*fails: Exception) -> Coordinator:
    clock = QuickClock()
    journal = Troubled(clock)
    journal.fails = list(fails)
    return Coordinator(journal=journal, gate=BuiltinGate(), clock=clock, settings=SETTINGS, registry=Registry())


def test_a_journal_that_is_busy_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    async def whole() -> None:
        async with troubled(JournalBusyError("held by a backup")) as made:
            working = asyncio.ensure_future(made.work())
            while "held by a backup" not in caplog.text:
                await asyncio.sleep(0)
            assert not working.done()
        await working

    with caplog.at_level(logging.WARNING):
        asyncio.run(whole())


def test_a_journal_that_has_stopped_ends_the_work() -> None:
    async def whole() -> None:
        async with troubled(JournalStoppedError("an fsync failed")) as made:
            with pytest.raises(JournalStoppedError):
                await made.work()

    asyncio.run(whole())
