"""Time, chance and ids: the machine's own, and those that tests move."""

import asyncio

import pytest

from amends.clock import Clock, SteadyClock, SystemClock, spell_id
from amends.testing.clock import ManualClock


def test_the_machines_clock_goes_forward() -> None:
    clock = SystemClock()
    now, elapsed = clock.now(), clock.elapsed()
    asyncio.run(clock.sleep(0.002))
    assert clock.now() > 1_600_000_000_000
    assert clock.now() >= now
    assert clock.elapsed() >= elapsed + 0.002


def test_chance_lies_between_nothing_and_one() -> None:
    for clock in (SystemClock(), ManualClock()):
        drawn = [clock.jitter() for _ in range(100)]
        assert len(set(drawn)) == 100
        assert all(0 <= each < 1 for each in drawn)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["system", "manual"])
def test_ids_are_unique_and_have_26_characters(clock: Clock) -> None:
    ids = [clock.new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {len(each) for each in ids} == {26}


def test_ids_sort_by_time() -> None:
    moments = [0, 1, 31, 32, 1_700_000_000_000, 1_700_000_000_001, 2**48 - 1]
    ids = [spell_id(moment, bytes([255 - number] * 10)) for number, moment in enumerate(moments)]
    assert ids == sorted(ids)
    assert spell_id(0, bytes(10)) == "0" * 26
    assert spell_id(2**48 - 1, b"\xff" * 10) == "7" + "z" * 25


def test_a_manual_clock_repeats_itself() -> None:
    one, two = ManualClock(), ManualClock()
    assert [one.jitter(), one.new_id(), one.now()] == [two.jitter(), two.new_id(), two.now()]


def test_a_sleeper_wakes_when_the_clock_has_been_moved_far_enough() -> None:
    async def live() -> list[str]:
        clock = ManualClock()
        woken: list[str] = []

        async def sleep(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append(name)

        async with asyncio.TaskGroup() as group:
            for name, seconds in (("late", 5.0), ("soon", 1.0), ("at once", 0.0), ("later", 5.0)):
                group.create_task(sleep(name, seconds))
            cancelled = group.create_task(sleep("never", 2.0))
            await turn()
            assert (woken, clock.sleepers, clock.next_wake_s) == (["at once"], 4, 1.0)
            cancelled.cancel()
            clock.advance(0.5)
            await turn()
            assert (woken, clock.sleepers, clock.next_wake_s) == (["at once"], 3, 0.5)
            clock.jump(3600)
            clock.advance(1.5)
            await turn()
            assert (woken, clock.next_wake_s) == (["at once", "soon"], 3.0)
            clock.advance(3)
        assert (clock.sleepers, clock.next_wake_s) == (0, None)
        return woken

    assert asyncio.run(live()) == ["at once", "soon", "late", "later"]


async def turn() -> None:
    """Let everyone who can run do so."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_moving_the_clock_moves_both_hands_and_a_jump_only_one() -> None:
    clock = ManualClock(now=5000, elapsed=10.0)
    clock.advance(1.25)
    assert (clock.now(), clock.elapsed()) == (6250, 11.25)
    clock.jump(-6)
    assert (clock.now(), clock.elapsed()) == (250, 11.25)


# -- the time of a journal --------------------------------------------------------------------------------------------


def test_steady_time_is_the_wall_clock_s_as_long_as_nobody_sets_it_back() -> None:
    clock = ManualClock(now=5000, elapsed=10.0)
    steady = SteadyClock(clock)
    clock.advance(1.25)
    assert (steady.now(), steady.elapsed()) == (6250, 11.25)
    clock.jump(60)
    assert steady.now() == 66_250


def test_set_back_steady_time_goes_on_from_where_it_was() -> None:
    clock = ManualClock(now=5_000_000, elapsed=10.0)
    steady = SteadyClock(clock)
    clock.advance(7200)
    clock.jump(-5400)
    assert steady.now() == 12_200_000
    clock.advance(30)
    assert steady.now() == 12_230_000


def test_what_was_set_forth_and_back_is_not_forgotten() -> None:
    clock = ManualClock(now=5_000_000, elapsed=10.0)
    steady = SteadyClock(clock)
    clock.jump(3600)
    assert steady.now() == 8_600_000
    clock.jump(-3600)
    clock.advance(1)
    assert steady.now() == 8_601_000


def test_time_is_never_before_what_is_known_to_be_past() -> None:
    clock = ManualClock(now=5_000, elapsed=10.0)
    steady = SteadyClock(clock)
    steady.not_before(9_000)
    steady.not_before(7_000)
    assert steady.now() == 9_000
    clock.advance(1)
    assert steady.now() == 10_000
    clock.jump(60)
    assert steady.now() == 66_000
