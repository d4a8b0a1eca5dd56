"""Attacks by the clock: time that is set back or forth between a decision and its use."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from amends import Coordinator, Work, action, saga
from amends.errors import RefusedError
from amends.testing.clock import ManualClock
from tests.runtime.support import QuickClock
from tests.security.held import desk

# -- deadlines --------------------------------------------------------------------------------------------------------

DEADLINE_POLICY = """
version: v1
default: allow
rules: [{id: ask, when: {topic: "bank.**"}, decision: require_human, expires: 1h}]
"""
DEADLINE_HOUR_S = 3600
deadline_paid: list[int] = []


@action("bank.pay", no_rollback="it is gone")
def deadline_pay(cents: int) -> None:
    deadline_paid.append(cents)


@saga("bank.transfer")
async def deadline_transfer(s: Work) -> None:
    await s.do(deadline_pay, 300)


@saga("clock.nap")
async def deadline_nap(s: Work) -> str:
    await s.sleep(1)
    return "awake"


def deadline_lives(tmp_path: Path, *lives: tuple[ManualClock, Callable[[Coordinator], Awaitable[None]]]) -> None:
    """Open the journal once for each life, each with the machine's clocks as they are by then."""
    deadline_paid.clear()
    policy = tmp_path / "policy.yaml"
    policy.write_text(DEADLINE_POLICY)

    async def live() -> None:
        for clock, does in lives:
            opening = Coordinator.open(str(tmp_path / "a.db"), policy=policy, env="production", clock=clock)
            async with opening as coordinator:
                await does(coordinator)

    asyncio.run(live())


async def deadline_asks(coordinator: Coordinator) -> None:
    _ = await coordinator.start(deadline_transfer, id="t-1", actor="agent:bot")
    while not await coordinator.approvals():
        await asyncio.sleep(0)


async def deadline_is_over(coordinator: Coordinator) -> None:
    with pytest.raises(RefusedError, match=r"has expired|its approval expired"):
        await coordinator.grant("t-1/1", by="person:kim")
    while (await coordinator.approval("t-1/1")).status == "requested":  # its saga says so in a turn of its own
        await asyncio.sleep(0)
    assert (await coordinator.approval("t-1/1")).status == "expired"
    assert deadline_paid == []


def test_an_approval_is_not_revived_by_setting_the_clock_back(tmp_path: Path) -> None:
    """Asked for an hour; granted two hours later, with the clock set back by an hour and a half."""
    clock = ManualClock()

    async def set_back(coordinator: Coordinator) -> None:
        await deadline_asks(coordinator)
        clock.advance(2 * DEADLINE_HOUR_S)
        clock.jump(-1.5 * DEADLINE_HOUR_S)
        await deadline_is_over(coordinator)

    deadline_lives(tmp_path, (clock, set_back))


def test_nor_in_a_process_that_begins_after_the_clock_was_set_back(tmp_path: Path) -> None:
    """Nothing was written meanwhile: only the clock that nobody sets knows how late it is."""
    first = ManualClock()
    set_back = ManualClock(now=first.now() + DEADLINE_HOUR_S * 500, elapsed=first.elapsed() + 2 * DEADLINE_HOUR_S)
    deadline_lives(tmp_path, (first, deadline_asks), (set_back, deadline_is_over))


def test_nor_after_a_reboot_once_something_was_written_late(tmp_path: Path) -> None:
    """The machine starts anew with its clock set back, to before the newest entry of the journal."""
    first = ManualClock()
    late = ManualClock(now=first.now() + DEADLINE_HOUR_S * 2000, elapsed=first.elapsed() + 2 * DEADLINE_HOUR_S)
    rebooted = ManualClock(now=first.now() + DEADLINE_HOUR_S * 500, elapsed=1.0)

    async def writes(coordinator: Coordinator) -> None:
        await coordinator.pause(topic="mail.**", why="a look", by="person:kim")

    deadline_lives(tmp_path, (first, deadline_asks), (late, writes), (rebooted, deadline_is_over))


def test_in_time_by_the_machine_s_clocks_it_is_granted(tmp_path: Path) -> None:
    """The control: a grant within its time counts, so refusing the others says something."""
    first = ManualClock()
    in_time = ManualClock(now=first.now() + DEADLINE_HOUR_S * 500, elapsed=first.elapsed() + DEADLINE_HOUR_S / 2)

    async def grants(coordinator: Coordinator) -> None:
        await coordinator.grant("t-1/1", by="person:kim")
        while not deadline_paid:
            await asyncio.sleep(0)

    deadline_lives(tmp_path, (first, deadline_asks), (in_time, grants))


def test_a_clock_that_was_set_back_has_nobody_wait_for_it_to_catch_up(tmp_path: Path) -> None:
    """The time of the journal goes on by the clock that nobody sets: a nap of a second is a second."""
    clock = ManualClock()

    async def naps(coordinator: Coordinator) -> None:
        await coordinator.pause(topic="mail.**", why="a look", by="person:kim")
        clock.jump(-24 * DEADLINE_HOUR_S)
        handle = await coordinator.start(deadline_nap, id="n-1")
        napping = asyncio.ensure_future(handle.halt())
        for _ in range(100):
            await asyncio.sleep(0.005)
            clock.advance(0.1)
        assert napping.done()
        assert (await napping).result == "awake"

    deadline_lives(tmp_path, (clock, naps))


def test_entries_are_never_older_than_those_before_them(tmp_path: Path) -> None:
    """The clock is set back, so that what comes later looks as if it came before."""
    first = ManualClock()
    set_back = ManualClock(now=first.now() - DEADLINE_HOUR_S * 1000, elapsed=1.0)

    async def writes(coordinator: Coordinator) -> None:
        await coordinator.run(deadline_nap_nothing)

    deadline_lives(tmp_path, (first, writes), (set_back, writes))
    with sqlite3.connect(tmp_path / "a.db") as journal:
        times = [at for (at,) in journal.execute("SELECT at FROM entry ORDER BY seq")]
    assert times == sorted(times)


@saga("clock.nothing")
async def deadline_nap_nothing(s: Work) -> None:
    """Do nothing."""


# -- rates ------------------------------------------------------------------------------------------------------------

TWO_A_MINUTE = """
version: v1
default: allow
rules:
  - id: two-a-minute
    when: {topic: test.mail}
    decision: throttle
    rate: {max: 2, per: 60s}
"""
DAY = 86_400.0


def test_a_clock_that_is_set_back_or_forth_lets_no_more_through_than_the_rate() -> None:
    """The clock is set a day back, and two days forth, between calls that are throttled."""
    clock = QuickClock()
    sent: list[float] = []

    @action("test.mail", no_rollback="it is sent")
    def mail() -> None:
        sent.append(clock.elapsed())

    @saga("test.mails")
    async def mails(s: Work) -> None:
        for jump in (0.0, -DAY, 0.0, -DAY, 2 * DAY, 0.0):
            clock.jump(jump)
            await s.do(mail)

    async def whole() -> None:
        async with desk(TWO_A_MINUTE, clock, park_s=60.0) as coordinator:  # it waits in place
            assert (await coordinator.run(mails, actor="agent:bot")).status == "completed"

    asyncio.run(whole())
    assert len(sent) == 6
    set_forth = 4  # a clock that goes forth has let time pass, as far as anybody can tell
    for number in range(2, len(sent)):
        if number != set_forth and number - 1 != set_forth:
            assert sent[number] - sent[number - 2] >= 60, sent
