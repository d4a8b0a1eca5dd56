"""Couriers: at least once, in order, one at a time for each target, and nobody waits for somebody else's target."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from amends.core.events.people import ApprovalGranted, IncidentResolved
from amends.core.words.values import SagaId, StepId
from amends.errors import InputError, JournalBusyError, JournalDamagedError, JournalStoppedError, UnknownTargetError
from amends.journal.memory import Memory, MemoryJournal
from amends.journal.port.journal import Cursor, Journal
from amends.notify.courier import Courier, Left
from amends.notify.notice import TYPES, Notice
from amends.notify.progress import PACE, Progress, forget_target, progress_of, target_statuses
from amends.notify.target import Delivery, Undelivered
from amends.runtime.coordinator.couriers import Couriers
from amends.runtime.settings import Settings
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.fixture import add, begin
from amends.testing.journal_suite.samples import opened, requested, resumed
from tests.runtime.notices.receiver import Friend

DOWN = Undelivered("it is down")
LEASE_S = 14.0


def run(test: Callable[[MemoryJournal, ManualClock], Awaitable[None]]) -> None:
    async def whole() -> None:
        clock = ManualClock()
        await test(MemoryJournal(clock), clock)

    asyncio.run(whole())


def courier(journal: Journal, target: Friend, clock: ManualClock) -> Courier:
    return Courier(journal, target, clock, poll_s=1.0)


async def ask(journal: Journal, *sagas: str) -> None:
    """An approval of step 1 of each of these, which are new."""
    for name in sagas:
        await add(journal, await begin(journal, name), requested("1"))


async def progress(journal: Journal) -> Progress:
    (cursor,) = await journal.cursors("notices/friend")
    return progress_of(cursor)


async def forever(what: Callable[[], bool]) -> None:
    while not what():
        await asyncio.sleep(0)


# -- one courier ------------------------------------------------------------------------------------------------------


def test_notices_are_told_in_the_order_of_the_log_each_once() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend()
        one = courier(journal, friend, clock)
        assert (await one.round()).left is Left.NOTHING
        await ask(journal, "c", "a")
        await add(journal, await begin(journal, "b"), opened(1), resumed(), opened(2))
        assert await one.round() == (Left.NOTHING, 1.0)
        assert await one.round() == (Left.NOTHING, 1.0)
        assert friend.heard == ["c/1", "a/1", "b/1", "b/2"]
        assert len({notice.id for notice in friend.told}) == 4
        assert (await progress(journal)).holder == ""
        await ask(journal, "d")
        await courier(journal, friend, clock).round()
        assert friend.heard[4:] == ["d/1"]

    run(test)


def test_a_failed_notice_is_tried_again_further_and_further_apart_and_holds_up_those_behind_it() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend(fails=[DOWN] * 12, give_up_s=1_000_000)
        one = courier(journal, friend, clock)
        await one.round()
        await ask(journal, "a", "b")
        while not friend.told:
            rest = await one.round()
            clock.advance(rest.wait_s / 2)
            assert (await one.round()).left is rest.left
            clock.advance(rest.wait_s / 2 + 0.001)
        assert friend.heard == ["a/1", "b/1"]
        assert {notice.id for _, notice in friend.tried[:13]} == {friend.told[0].id}
        times = [at for at, _ in friend.tried[:13]]
        waits = [(after - before) / 1000 for before, after in pairwise(times)]
        for attempt, wait in enumerate(waits, start=1):
            assert PACE.delay_s(attempt, 1) <= wait <= PACE.delay_s(attempt, 0) + 0.01
        assert PACE.delay_s(12, 0) == 900

    run(test)


def test_a_target_that_asks_for_time_is_given_it() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend(fails=[Undelivered("busy", 77.0)])
        one = courier(journal, friend, clock)
        await one.round()
        await ask(journal, "a")
        assert await one.round() == (Left.UNTOLD, 77.0)

    run(test)


def test_what_a_target_raises_is_a_failure_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend(fails=[ZeroDivisionError("oh")])
        one = courier(journal, friend, clock)
        await one.round()
        await ask(journal, "a")
        assert (await one.round()).left is Left.UNTOLD
        assert (await progress(journal)).error == "ZeroDivisionError: oh"
        clock.advance(2)
        await one.round()
        assert friend.heard == ["a/1"]

    run(test)
    assert "ZeroDivisionError" in caplog.text


def test_a_notice_that_is_too_old_is_given_up_loudly_and_the_next_one_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend(give_up_s=100)
        one = courier(journal, friend, clock)
        await one.round()
        await ask(journal, "a")
        friend.fails = [DOWN] * 1000
        since = clock.now()
        while (rest := await one.round()).left is Left.UNTOLD:
            clock.advance(rest.wait_s)
        friend.fails = []
        assert 100_000 <= clock.now() - since <= 200_000
        assert [record.levelname for record in caplog.records if "given up" in record.message] == ["ERROR"]
        assert "approval.requested a/1" in caplog.text
        await ask(journal, "b")
        await one.round()
        assert friend.heard == ["b/1"]
        kept = await progress(journal)
        assert (kept.given_up, kept.given_up_last.partition(" (")[0]) == (1, "approval.requested a/1")
        assert kept.given_up_last.endswith(": it is down")

    run(test)


def test_a_notice_that_grew_old_because_nothing_ran_is_tried_all_the_same() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend(give_up_s=100)
        await courier(journal, friend, clock).round()
        await ask(journal, "a", "b")
        clock.advance(1_000_000)
        friend.fails = [DOWN]
        await courier(journal, friend, clock).round()
        assert friend.heard == ["b/1"]

    run(test)


def test_a_target_that_is_new_is_first_told_what_waits_for_people_now() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        await ask(journal, "a", "b")
        await add(journal, await begin(journal, "c"), opened(1), opened(2))
        await add(journal, SagaId("a"), ApprovalGranted(step=StepId("1"), by="person:ana", digest="d"))
        await add(journal, SagaId("c"), IncidentResolved(incident=1, by="person:ana", reason="x", settled=()))
        friend = Friend(types=TYPES, fails=[DOWN])
        assert (await courier(journal, friend, clock).round()).left is Left.UNTOLD
        await add(journal, SagaId("c"), IncidentResolved(incident=2, by="person:ana", reason="x", settled=()))
        clock.advance(2)
        await courier(journal, friend, clock).round()
        assert [(notice.type, notice.about) for notice in friend.told] == [
            ("approval.requested", "b/1"),
            ("incident.resolved", "c/2"),
        ]

    run(test)


def test_a_new_target_of_a_journal_where_nobody_is_asked_anything_begins_at_its_end() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        await begin(journal, "a")
        friend = Friend()
        await courier(journal, friend, clock).round()
        assert (await progress(journal)).position == 1

    run(test)


def test_a_target_is_told_of_the_types_that_it_asks_for_and_may_ask_for_others_later() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend(types=("incident.opened",))
        await courier(journal, friend, clock).round()
        await ask(journal, "a")
        await add(journal, await begin(journal, "b"), opened(1))
        await courier(journal, friend, clock).round()
        friend.types = ("approval.requested",)
        await ask(journal, "c")
        await courier(journal, friend, clock).round()
        assert friend.heard == ["b/1", "c/1"]
        assert (await progress(journal)).types == ("approval.requested",)

    run(test)


def test_the_cursor_is_moved_over_many_entries_that_concern_nobody() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend()
        one = courier(journal, friend, clock)
        await one.round()
        saga = await begin(journal, "a")
        await add(journal, saga, *[resumed()] * 999)
        await one.round()
        assert (await progress(journal)).position == 0
        await add(journal, saga, *[resumed()] * 2)
        await one.round()
        assert (await progress(journal)).position == 1002

    run(test)


def test_a_note_that_is_not_ours_is_told_with_what_to_do() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        for note in ("", "x", "[]", "{}", '{"types": [1]}', "[" * 10_000):
            await journal.move_cursor("notices/friend", 5, note=note)
            with pytest.raises(JournalDamagedError, match="amends notify forget friend"):
                await courier(journal, Friend(), clock).round()
        await forget_target(journal, "friend")
        await courier(journal, Friend(), clock).round()

    run(test)


# -- several ----------------------------------------------------------------------------------------------------------


def test_two_processes_tell_a_target_each_notice_once() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        told: list[Notice] = []

        class Slow(Friend):
            async def deliver(self, notice: Notice, now: int) -> Delivery:
                for _ in range(3):
                    await asyncio.sleep(0)
                return await super().deliver(notice, now)

        couriers = [courier(MemoryJournal(clock, journal.memory), Slow(told=told), clock) for _ in range(3)]
        for one in couriers:
            await one.round()
        for burst in range(5):
            await ask(journal, *[f"s{burst}-{number}" for number in range(20)])
            while not all(rest.left is Left.NOTHING for rest in await asyncio.gather(*(c.round() for c in couriers))):
                clock.advance(0.2)
        assert [notice.about for notice in told] == [f"s{b}-{n}/1" for b in range(5) for n in range(20)]

    run(test)


def test_who_overslept_finds_that_another_went_on_and_one_notice_was_told_twice() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        told: list[Notice] = []
        asleep, awake = asyncio.Event(), asyncio.Event()

        class Sleeper(Friend):
            async def deliver(self, notice: Notice, now: int) -> Delivery:
                delivery = await super().deliver(notice, now)
                asleep.set()
                await awake.wait()
                return delivery

        sleeper, other = courier(journal, Sleeper(told=told), clock), courier(journal, Friend(told=told), clock)
        await sleeper.round()
        await ask(journal, "a", "b", "c")
        sleeping = asyncio.ensure_future(sleeper.round())
        await asleep.wait()
        assert (await other.round()).left is Left.HELD
        clock.advance(LEASE_S + 0.001)
        assert (await other.round()).left is Left.NOTHING
        awake.set()
        assert (await sleeping).left is Left.HELD
        assert (await sleeper.round()).left is Left.NOTHING
        assert [notice.about for notice in told] == ["a/1", "a/1", "b/1", "c/1"]
        assert told[0].id == told[1].id
        assert (await progress(journal)).position == 6

    run(test)


def test_processes_share_the_time_of_the_next_try_and_a_restart_does_not_begin_anew() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend(fails=[DOWN] * 9, give_up_s=1_000_000)
        await courier(journal, friend, clock).round()
        await ask(journal, "a")
        for tries in range(1, 6):
            rest = await courier(journal, friend, clock).round()
            assert (await courier(journal, friend, clock).round()).left is Left.UNTOLD
            assert len(friend.tried) == tries
            assert rest.wait_s > 2 ** (tries - 2)
            clock.advance(rest.wait_s)

    run(test)


def test_a_clock_that_is_set_back_keeps_nobody_out_for_long() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend()
        one = courier(journal, friend, clock)
        await one.round()
        await ask(journal, "a")
        assert await one._look(2)
        assert await one._hold()
        clock.jump(-86_400)
        await courier(journal, friend, clock).round()
        assert friend.heard == ["a/1"]
        friend.fails = [DOWN] * 14
        friend.give_up_s = 1_000_000
        await ask(journal, "b")
        for _ in range(13):
            clock.advance(901)
            await courier(journal, friend, clock).round()
        clock.jump(-86_400)
        assert (await courier(journal, friend, clock).round()).wait_s <= 3600

    run(test)


# -- dying ------------------------------------------------------------------------------------------------------------


class Deadly(MemoryJournal):
    """Its user dies at a write: before it is made, or just after."""

    left = 0
    is_after = False

    async def move_cursor(self, name: str, position: int, *, note: str = "", since: Cursor | None = None) -> bool:
        self.left -= 1
        if self.left == 0 and not self.is_after:
            raise asyncio.CancelledError
        moved = await super().move_cursor(name, position, note=note, since=since)
        if self.left == 0:
            raise asyncio.CancelledError
        return moved


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("writes", range(1, 9))
def test_a_death_at_any_write_loses_nothing_and_repeats_at_most_one(writes: int, is_after: bool) -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend()
        await courier(journal, friend, clock).round()
        await ask(journal, "a", "b", "c")
        deadly = Deadly(clock, journal.memory)
        deadly.left, deadly.is_after = writes, is_after
        try:
            await courier(deadly, friend, clock).round()
        except asyncio.CancelledError:
            assert deadly.left == 0
        clock.advance(LEASE_S + 0.001)
        await courier(journal, friend, clock).round()
        heard = friend.heard
        assert list(dict.fromkeys(heard)) == ["a/1", "b/1", "c/1"]
        assert len(heard) <= 4
        assert heard == sorted(heard)
        assert len({notice.id for notice in friend.told}) == 3

    run(test)


# -- living -----------------------------------------------------------------------------------------------------------


def test_a_target_that_is_down_holds_up_nobody_else() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        stuck = asyncio.Event()

        class Stuck(Friend):
            async def deliver(self, notice: Notice, now: int) -> Delivery:
                await stuck.wait()
                return await super().deliver(notice, now)

        hung, down, well = Stuck(name="hung"), Friend(name="down", fails=[DOWN] * 99), Friend(name="well")
        couriers = Couriers(journal, [hung, down, well], clock, Settings(drain_s=0.01))
        couriers.start()
        await forever(lambda: clock.sleepers == 3)
        await ask(journal, "a", "b")
        clock.advance(1)
        await forever(lambda: well.heard == ["a/1", "b/1"])
        stuck.set()
        await forever(lambda: hung.heard == ["a/1", "b/1"])
        assert len(down.tried) == 1
        await couriers.close()

    run(test)


def test_what_becomes_durable_here_is_told_without_waiting_for_the_next_look() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend()
        observers: list[Any] = []
        couriers = Couriers(journal, [friend], clock, Settings())
        couriers.start(observers.append)
        await forever(lambda: clock.sleepers == 1)
        for entry in await add(journal, await begin(journal, "a"), resumed(), requested("1")):
            observers[0](entry)
        await forever(lambda: friend.heard == ["a/1"])
        await couriers.close()

    run(test)


def test_what_is_pending_at_the_end_is_told_once_more() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend, down = Friend(), Friend(name="down", fails=[DOWN] * 99)
        couriers = Couriers(journal, [friend, down], clock, Settings())
        couriers.start()
        await forever(lambda: clock.sleepers == 2)
        await ask(journal, "a")
        await couriers.close()
        assert (friend.heard, len(down.tried)) == (["a/1"], 1)
        assert not asyncio.all_tasks() - {asyncio.current_task()}

    run(test)


def test_a_try_that_takes_too_long_at_the_end_is_given_up_and_its_mark_with_it() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        class Stuck(Friend):
            async def deliver(self, notice: Notice, now: int) -> Delivery:
                await asyncio.Event().wait()
                raise AssertionError

        couriers = Couriers(journal, [Stuck()], clock, Settings(drain_s=0.01))
        couriers.start()
        await forever(lambda: clock.sleepers == 1)
        await ask(journal, "a")
        await couriers.close()
        assert (await progress(journal)).holder == ""

    run(test)


class Troubled(MemoryJournal):
    fails: tuple[Exception, ...] = ()

    async def cursors(self, under: str) -> tuple[Cursor, ...]:
        if self.fails:
            first, *others = self.fails
            self.fails = tuple(others)
            raise first
        return await super().cursors(under)


def test_a_journal_in_trouble_is_asked_again_and_one_that_has_stopped_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async def test(_journal: MemoryJournal, clock: ManualClock) -> None:
        journal = Troubled(clock, Memory())
        journal.fails = (JournalBusyError("a backup holds it"), ZeroDivisionError("a bug"))
        friend = Friend()
        one = courier(journal, friend, clock)
        one.start()
        for _ in range(2):
            await forever(lambda: clock.sleepers == 1)
            clock.advance(2)
        await forever(lambda: bool(journal.memory.cursors))
        await ask(journal, "a")
        one.wake()
        await forever(lambda: friend.heard == ["a/1"])
        journal.fails = (JournalStoppedError("an fsync failed"),)
        await ask(journal, "b")
        one.wake()
        assert one._running is not None
        await one._running
        await one.close(1)
        assert friend.heard == ["a/1"]

    with caplog.at_level(logging.WARNING):
        run(test)
    for said in ("a backup holds it", "ZeroDivisionError: a bug", "is not told of anything any more: an fsync failed"):
        assert said in caplog.text


def test_once_tries_each_notice_once_whenever_it_is_due() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend, other = Friend(), Friend(name="other")
        assert await Couriers(journal, [friend, other], clock, Settings()).once()
        await ask(journal, "a", "b")
        friend.fails = [DOWN, DOWN]
        for _ in range(2):
            assert not await Couriers(journal, [friend, other], clock, Settings()).once()
        assert await Couriers(journal, [friend, other], clock, Settings()).once()
        assert (friend.heard, other.heard) == (["a/1", "b/1"], ["a/1", "b/1"])

    run(test)


def test_once_waits_for_another_process_to_be_done_but_not_for_ever() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        friend = Friend()
        holder = courier(journal, friend, clock)
        await holder.round()
        await ask(journal, "a")
        assert await holder._look(2)
        assert await holder._hold()
        once = asyncio.ensure_future(courier(journal, friend, clock).once())
        while not once.done():
            await asyncio.sleep(0)
            if clock.sleepers:
                assert await holder._save(holder._progress.held("it", clock.now() + 14_000))
                clock.advance(1)
        assert not await once
        clock.advance(LEASE_S + 0.001)
        assert await courier(journal, friend, clock).once()
        assert friend.heard == ["a/1"]

    run(test)


def test_two_targets_of_one_name_are_refused() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        with pytest.raises(InputError, match="two targets are called friend"):
            Couriers(journal, [Friend(), Friend()], clock, Settings())

    run(test)


# -- how they stand ---------------------------------------------------------------------------------------------------


def test_the_status_of_every_target_that_was_ever_told() -> None:
    async def test(journal: MemoryJournal, clock: ManualClock) -> None:
        well, down = Friend(name="well"), Friend(name="down", fails=[DOWN] * 3)
        couriers = Couriers(journal, [well, down], clock, Settings())
        await couriers.once()
        asked_at = clock.now()
        await ask(journal, "a", "b")
        clock.advance(5)
        await couriers.once()
        first, second = await target_statuses(journal)
        assert (first.name, first.pending, first.pending_since) == ("down", 2, asked_at)
        kept = first.progress
        assert (kept.target, kept.error, kept.tries, kept.failed_at) == (
            "a friend called down", "it is down", 1, clock.now()
        )  # fmt: skip
        assert (second.name, second.pending, second.progress.delivered_at) == ("well", 0, clock.now())
        await forget_target(journal, "down")
        assert [one.name for one in await target_statuses(journal)] == ["well"]
        with pytest.raises(UnknownTargetError):
            await forget_target(journal, "down")

    run(test)
