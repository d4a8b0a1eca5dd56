"""A worker sleeps past its lease anywhere on the way to a child's end; its parent is cancelled; the worker wakes."""

import itertools

from amends.drill.world import check
from amends.errors import UnknownSagaError
from amends.runtime.coordinator.coordinator import Coordinator
from amends.testing.crash.crash import CrashGround
from amends.testing.crash.life import Blow
from tests.crash.scenarios import ALL

SCENARIO = ALL["a child completes, and its parent after it"]
PARENT = "crash-1"


async def cancel_parent(coordinator: Coordinator) -> None:
    try:
        await coordinator.cancel(PARENT, why="nobody wants it any more")
    except UnknownSagaError:
        return
    await coordinator.resume()


def complaints_after_a_sleep_at(point: int) -> list[str] | None:
    """What is wrong after somebody cancelled the parent while its worker slept; None: there is no such point."""
    ground = CrashGround()
    sleeper = ground.next_life(ends_at=point, blow=Blow.FREEZE)
    sleeper.begin(ground, SCENARIO.begin, SCENARIO.settings, SCENARIO.env)
    if not sleeper.stopped:
        return None
    ground.now_s = sleeper.loop.time() + SCENARIO.settings.lease_s + 1
    ground.live(SCENARIO, cancel_parent)
    sleeper.thaw(ground.now_s, None)
    ground.now_s = sleeper.loop.time()
    ground.bury_workers()
    last = ground.live(SCENARIO, SCENARIO.recover)
    return [f"slept at {sleeper.passed[point - 1]}: {what}" for what in check(ground.world, last.entries)]


def test_a_sleeper_begins_no_child_of_a_parent_that_was_taken_back() -> None:
    tried = itertools.takewhile(lambda found: found is not None, map(complaints_after_a_sleep_at, itertools.count(1)))
    points = list(tried)
    assert len(points) > 10
    assert [found for found in points if found] == []
