"""On duty: `work` drives whatever becomes due, whoever made it so, until the coordinator closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any

import pytest

from amends import Registry, SagaStatus, Settings, Work, register, saga
from amends.core.words.values import SagaId
from amends.errors import JournalBusyError, JournalStoppedError
from amends.gate.load import BuiltinGate
from amends.journal.memory import Memory, MemoryJournal
from amends.journal.port.journal import Lease
from amends.runtime.coordinator.coordinator import Coordinator
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


class Hours:
    """Sagas in an action that takes hours, left behind by a process that is gone; and others behind them."""

    def __init__(self, *, at_once: int = 2) -> None:
        self.world, self.memory, self.clock, self.registry = World(), Memory(), QuickClock(), Registry()
        self.settings = Settings(lease_s=1_000_000, settle_s=1, drain_s=0.01, resumed_at_once=at_once)
        self.over, self.inside = asyncio.Event(), 0
        quick = self.world.action("quick")

        async def think() -> None:
            self.inside += 1
            await self.over.wait()

        long = register("long.think", think, idempotent=True, timeout=None, no_rollback="a thought stays")

        @saga("test.long")
        async def for_hours(s: Work) -> None:
            await s.do(long)

        @saga("test.quick")
        async def at_last(s: Work) -> None:
            await self.over.wait() if not self.inside else None
            await s.do(quick)

        self.long, self.quick = for_hours, at_last

    def opened(self) -> Coordinator:
        return coordinator(self.memory, settings=self.settings, clock=self.clock, registry=self.registry)

    async def leave(self, long: int) -> None:
        async with self.opened() as gone:
            _ = await gone.start(self.quick, id="quick-0")
            for number in range(long):
                _ = await gone.start(self.long, id=f"long-{number}")
            _ = await gone.start(self.quick, id="quick-1")
            while self.inside < long:
                await asyncio.sleep(0)
        self.inside = 0


@pytest.mark.parametrize("verb", ["work", "resume"])
def test_long_actions_do_not_keep_the_rest_from_being_taken_up(verb: str) -> None:
    async def whole() -> None:
        hours = Hours()
        await hours.leave(7)
        async with hours.opened() as worker:
            working = asyncio.ensure_future(getattr(worker, verb)())
            async with asyncio.timeout(30):
                await until_ended(worker, "quick-0", "quick-1")
                while hours.inside < 7:
                    await asyncio.sleep(0)
                assert not working.done()
                hours.over.set()
                await until_ended(worker, *(f"long-{number}" for number in range(7)))
                if verb == "resume":
                    assert len(await working) == 9
        assert await working is None or verb == "resume"

    asyncio.run(whole())


def test_sagas_that_come_to_no_rest_are_said_to_keep_the_others_waiting(caplog: pytest.LogCaptureFixture) -> None:
    async def whole() -> None:
        hours = Hours(at_once=1)

        @saga("test.stuck")
        async def stuck(s: Work) -> None:
            hours.inside += 1
            await hours.over.wait()

        async with hours.opened() as gone:
            for number in range(3):
                _ = await gone.start(stuck, id=f"s-{number}")
            while hours.inside < 3:
                await asyncio.sleep(0)
        async with hours.opened() as worker:
            working = asyncio.ensure_future(worker.work())
            async with asyncio.timeout(30):
                while not caplog.messages:
                    await asyncio.sleep(0)
                for _ in range(100):
                    await asyncio.sleep(0)
                hours.over.set()
                await until_ended(worker, "s-0", "s-1", "s-2")
        await working
        (said,) = caplog.messages
        assert "1 sagas are being taken up, as many as Settings.resumed_at_once lets" in said
        assert "one is s-0" in said

    with caplog.at_level(logging.WARNING, "amends.engine"):
        asyncio.run(whole())


def test_a_saga_that_is_nudged_again_and_again_is_queued_once() -> None:
    """Each of 50 beats tells of it, while a claim waits for the journal."""

    async def whole() -> None:
        world, memory, clock, registry = World(), Memory(), QuickClock(), Registry()
        async with coordinator(memory, env="production", settings=SETTINGS, clock=clock, registry=registry) as worker:
            handle = await worker.start(mailing(world), id="m")
            assert (await handle.halt()).status is SagaStatus.WAITING
            engine = worker._engine
            async with engine.claims.alone():
                for _ in range(50):
                    engine._nudge((SagaId("m"),))
                    await asyncio.sleep(0)
                assert len(engine._background._running) == 1
            await engine._background.wait(30)
            await worker.grant("m/1", by="person:ana")
            await until_ended(worker, "m")

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
