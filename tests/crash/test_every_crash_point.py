"""Every scenario, with a crash at every point: before and after each append, claim, effect and compensation.

What survives is recovered by a new process, and the journal is held against the world (amends.drill.world): completed
sagas stand, rolled back ones do not, and whatever else stands is named by an open incident.
"""

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self, cast

import pytest

from amends.core.transitions import SagaStatus
from amends.drill.world import check
from amends.runtime.coordinator.coordinator import Coordinator
from amends.testing.crash import crash
from amends.testing.crash.crash import (
    CrashGround,
    Scenario,
    SlowGround,
    Tried,
    every_death,
    every_freeze,
    every_refusal,
    every_rival,
    here,
    statuses_besides,
)
from tests.crash.scenarios import ALL
from tests.parts import number_of, only_sampled, rest
from tests.simulation.ablations import without

ROOT = Path(__file__).resolve().parent.parent.parent
CROWDED = "five sagas at once"
SOAK = "AMENDS_SOAK" in os.environ
WHOLE = frozenset(list(ALL)[:45])
"""In each run of all tests these die again at every point of the recovery, and are killed and sleep at every point of
the work; the others at each third. `make soak` leaves none out."""
THIRDS = 3
Record = Callable[[str, object], None]

each_scenario = pytest.mark.parametrize("scenario", ALL.values(), ids=list(ALL))


def thirds_of_each_scenario(way: str, *, each: int = 2) -> pytest.MarkDecorator:
    """Of one scenario in so many `make test` tries a third of the points, and `make test-all` the other two; of the
    others `make test-all` tries all. Which those are depends on the way of going wrong, so that each has its turn."""
    cases: list[Any] = []
    for name, scenario in ALL.items():
        left = tuple(range(THIRDS))
        if only_sampled(way, name, each=each) == ():
            cases.append(pytest.param(scenario, left[:1], id=f"{name}-a third"))
            left = left[1:]
        cases.append(pytest.param(scenario, left, id=f"{name}-{'the others' if left[0] else 'all'}", marks=rest))
    return pytest.mark.parametrize(("scenario", "thirds"), cases)


def stride_of(scenario: Scenario) -> int:
    return 1 if SOAK or scenario.name in WHOLE else 3


@dataclasses.dataclass(frozen=True)
class Points:
    """The points of a third: the first of them, and how far each is from the next. Which third it is that begins with
    the very first point depends on the scenario, so that `make test` does not try the same place in all of them."""

    since: int
    stride: int
    are_certain: bool
    """Whether there has to be one: the shortest scenarios have too few for each third."""

    @classmethod
    def of(cls, scenario: str, third: int, stride: int) -> Self:
        offset = (number_of(scenario) + third) % THIRDS
        return cls(1 + offset * stride, THIRDS * stride, are_certain=offset == 0)

    @classmethod
    def of_each(cls, scenario: str, thirds: tuple[int, ...], stride: int) -> list[Self]:
        """All points at once where all thirds are asked for: the end of the scenario is then come to only once."""
        if len(thirds) == THIRDS:
            return [cls(1, stride, are_certain=True)]
        return [cls.of(scenario, third, stride) for third in thirds]


def are_certain(parts: list[Points]) -> bool:
    return any(points.are_certain for points in parts)


def verdict(tried: Tried, record: Record, kind: str, scenario: str, *, is_certain: bool = True) -> None:
    counts = {"points": tried.points, "deaths": tried.deaths, "histories": tried.histories}
    record(kind, {"scenario": scenario, **counts})
    assert tried.points + tried.deaths > 0 or not is_certain
    assert tried.complaints == []


@pytest.mark.parametrize("stride", [1, 3, 4])
def test_the_thirds_of_a_scenario_are_all_of_its_points_and_none_twice(stride: int) -> None:
    for scenario in ALL:
        thirds = [Points.of(scenario, third, stride) for third in range(THIRDS)]
        points = [point for third in thirds for point in range(third.since, 1000, third.stride)]
        assert sorted(points) == list(range(1, 1000, stride))
        assert sum(third.are_certain for third in thirds) == 1
        assert Points.of_each(scenario, (1, 2), stride) == thirds[1:]
        assert Points.of_each(scenario, (0, 1, 2), stride) == [Points(1, stride, are_certain=True)]


@each_scenario
def test_a_crash_at_every_point(scenario: Scenario, record_property: Record) -> None:
    tried = Tried()
    every_death(scenario, CrashGround, tried, twice=False)
    verdict(tried, record_property, "died", scenario.name)


@rest
@pytest.mark.parametrize(
    "scenario", [scenario for name, scenario in ALL.items() if name != CROWDED], ids=lambda one: one.name
)
def test_a_crash_at_every_point_of_the_recovery_from_it(scenario: Scenario, record_property: Record) -> None:
    tried = Tried()
    every_death(scenario, CrashGround, tried, once=False, stride=stride_of(scenario))
    verdict(tried, record_property, "died again", scenario.name)


@pytest.mark.parametrize("name", list(ALL)[::12])
def test_a_life_that_goes_on_shows_what_a_death_at_each_of_its_points_leaves(name: str) -> None:
    """Deaths in a recovery are read off one recovery that nobody disturbs; that has to be the same."""
    scenario = ALL[name]

    def told(deaths: Iterable[crash.Death]) -> list[tuple[int, str, Hashable, float]]:
        return [(death.point, death.where, death.found, death.ground.now_s) for death in deaths]

    firsts = [*crash._deaths(scenario, CrashGround(), scenario.begin)]
    assert told(firsts) == told(crash._deaths_one_by_one(scenario, CrashGround(), scenario.begin, 1, 1))
    for first in firsts[::7]:
        again = scenario, first.ground, scenario.recover_and_then, 2, 3
        assert told(crash._deaths(*again)) == told(crash._deaths_one_by_one(*again))


@thirds_of_each_scenario("slept")
def test_asleep_past_the_lease_at_every_point(
    scenario: Scenario, thirds: tuple[int, ...], record_property: Record
) -> None:
    tried, parts = Tried(), Points.of_each(scenario.name, thirds, stride_of(scenario))
    for points in parts:
        every_freeze(scenario, CrashGround, tried, since=points.since, stride=points.stride)
    verdict(tried, record_property, "slept", scenario.name, is_certain=are_certain(parts))


@thirds_of_each_scenario("renewed")
def test_asleep_past_the_lease_at_every_point_and_renewed_first(
    scenario: Scenario, thirds: tuple[int, ...], record_property: Record
) -> None:
    """The thread that keeps the worker alive may be the first to wake: it must not make a lost lease look good."""
    tried, parts = Tried(), Points.of_each(scenario.name, thirds, 1 if SOAK else 3)
    for points in parts:
        every_freeze(scenario, CrashGround, tried, since=points.since, stride=points.stride, on_waking=renew)
    verdict(tried, record_property, "slept and renewed", scenario.name, is_certain=are_certain(parts))


def renew(coordinator: Coordinator) -> None:
    coordinator._engine._renew()


@thirds_of_each_scenario("rivalled")
def test_another_worker_that_waits_for_the_lock_at_every_point_takes_nothing(
    scenario: Scenario, thirds: tuple[int, ...], record_property: Record
) -> None:
    tried, parts = Tried(), Points.of_each(scenario.name, thirds, 1 if SOAK else 4)
    for points in parts:
        every_rival(scenario, tried, since=points.since, stride=points.stride)
    verdict(tried, record_property, "rivalled", scenario.name, is_certain=are_certain(parts))


SLOW = [
    pytest.param(name, marks=only_sampled("slow", name, each=3)) for name in (list(ALL) if SOAK else list(ALL)[::6])
]


@pytest.mark.parametrize("name", SLOW)
def test_a_crash_at_every_point_where_the_lock_is_slow(name: str, record_property: Record) -> None:
    tried = Tried()
    every_death(ALL[name], SlowGround, tried, twice=SOAK)
    verdict(tried, record_property, "died slowly", name)


def test_a_time_from_before_the_wait_for_the_lock_is_found_by_the_rival() -> None:
    with without("clock"):
        tried = Tried()
        every_rival(ALL["a straight line of actions that cannot be repeated"], tried)
    assert "from a worker that lives" in tried.complaints[0]


@thirds_of_each_scenario("refused")
def test_no_room_on_the_disk_at_every_append(
    scenario: Scenario, thirds: tuple[int, ...], record_property: Record
) -> None:
    tried, parts = Tried(), Points.of_each(scenario.name, thirds, 1)
    for points in parts:
        every_refusal(scenario, CrashGround, tried, since=points.since, stride=points.stride)
    verdict(tried, record_property, "refused", scenario.name, is_certain=are_certain(parts))


@pytest.mark.parametrize("moment", range(24))
def test_closed_at_every_step_of_the_loop_without_waiting_for_anything(moment: int) -> None:
    scenario = ALL["a straight line of actions that cannot be repeated"]
    hasty = dataclasses.replace(scenario, settings=dataclasses.replace(scenario.settings, drain_s=0.0))
    ground = CrashGround()

    async def begin_and_close(coordinator: Coordinator) -> None:
        begun = asyncio.ensure_future(cast(Coroutine[Any, Any, object], scenario.begin(coordinator)))
        for _ in range(moment):
            await here().clock.sleep(0)
        await coordinator.close()
        await asyncio.wait({begun})

    ground.live(hasty, begin_and_close)
    dispatched = len(ground.world.lines)
    recovered = ground.live(scenario, scenario.recover)
    assert check(ground.world, recovered.entries) == []
    ends = {SagaStatus.COMPLETED} if dispatched == 0 else {SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK}
    assert statuses_besides(recovered.entries, frozenset(ends)) == []


class Zygote:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.zygote"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def every_kill(self, scenario: str, points: Points) -> Tried:
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        asked.write(json.dumps({"scenario": scenario, "since": points.since, "stride": points.stride}) + "\n")
        asked.flush()
        answer: dict[str, Any] = json.loads(told.readline())
        return Tried(**answer)

    def end(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.end()


@thirds_of_each_scenario("killed", each=3)
def test_a_real_kill_at_every_point(
    scenario: Scenario, thirds: tuple[int, ...], zygote: Zygote, record_property: Record
) -> None:
    tried, parts = Tried(), Points.of_each(scenario.name, thirds, stride_of(scenario))
    for points in parts:
        tried.add(zygote.every_kill(scenario.name, points))
    verdict(tried, record_property, "killed", scenario.name, is_certain=are_certain(parts))


def test_a_saga_that_cannot_be_read_keeps_no_other_from_being_recovered() -> None:
    scenario = ALL[CROWDED]
    ground = CrashGround()
    assert ground.live(scenario, scenario.begin, ends_at=40).dead
    ground.damage("crash-1")
    first = ground.live(scenario, scenario.recover)
    assert "crash-1, entry 2: it does not match its hash" in str(first.trouble)

    standing: dict[str, str] = {}

    async def look(coordinator: Coordinator) -> None:
        standing.update({row.id: row.status for row in await coordinator.list()})

    ground.live(scenario, look)
    assert standing == {f"crash-{n}": "running" if n == 1 else "rolled_back" for n in range(5)}
