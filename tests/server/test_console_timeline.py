"""The drawing of a saga: where bars, gaps and joins stand. On entries of sagas that have really run."""

from pathlib import Path

import pytest

from amends import Coordinator, Work, saga
from amends.core.words.values import SagaId
from amends.http.console.timeline import LABELS, MOST_LANES, WIDTH, Drawing, drawn
from amends.operate.reading import history
from tests.server import world


@saga("drawn.trip")
async def trip(s: Work) -> None:
    for name in ("a", "b", "c"):
        await s.do(world.reserve, name)
    await s.do(world.break_down, "sold out")


@saga("drawn.long")
async def long_one(s: Work) -> None:
    for number in range(MOST_LANES + 7):
        await s.do(world.reserve, str(number))


async def _drawn(coordinator: Coordinator, name: str, *, later_ms: int = 0, first: int = 1) -> Drawing:
    state, entries = await history(coordinator.journal, SagaId(name))
    found = drawn(state, entries, entries[-1].at + later_ms, first=first)
    assert found is not None
    return found


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "journal.db"


def test_what_went_back_mirrors_what_went_forward(journal: Path) -> None:
    async def made(coordinator: Coordinator) -> Drawing:
        await coordinator.run(trip, id="t")
        return await _drawn(coordinator, "t")

    found: Drawing = world.on(journal, made)
    back = [lane for lane in found.lanes if lane.back]
    assert [lane.y for lane in found.lanes] == sorted(lane.y for lane in found.lanes)
    assert [lane.back_y for lane in back] == sorted((lane.back_y for lane in back), reverse=True)
    assert [lane.back[0].x for lane in back] == sorted((lane.back[0].x for lane in back), reverse=True)
    assert all(lane.y < found.middle < lane.back_y < found.height for lane in back)
    assert [bool(lane.link) for lane in found.lanes] == [True, True, True, False]
    assert [bar.tone for bar in found.lanes[-1].bars] == ["bad"]


def test_nothing_stands_outside_of_the_drawing(journal: Path) -> None:
    async def made(coordinator: Coordinator) -> Drawing:
        await coordinator.run(trip, id="t")
        return await _drawn(coordinator, "t")

    found: Drawing = world.on(journal, made)
    for lane in found.lanes:
        for bar in (*lane.bars, *lane.back):
            assert bar.x >= LABELS
            assert bar.x + bar.width <= WIDTH + 6


def test_a_wait_is_a_gap_that_says_how_long_it_has_been(journal: Path) -> None:
    async def made(coordinator: Coordinator) -> Drawing:
        await world.start(coordinator, world.order_one, "sofa", 900, id="w")
        return await _drawn(coordinator, "w", later_ms=7_200_000)

    found: Drawing = world.on(journal, made)
    assert [gap.says for gap in found.gaps] == ["2 h"]
    (wait,) = found.lanes[1].bars
    assert (wait.kind, wait.says) == ("wait", "waits for people, for 2 h so far")
    assert wait.width >= found.gaps[0].width


def test_of_many_steps_a_part_is_drawn_at_a_time(journal: Path) -> None:
    async def made(coordinator: Coordinator) -> tuple[Drawing, Drawing, Drawing]:
        await coordinator.run(long_one, id="l")
        begun = await _drawn(coordinator, "l")
        rest = await _drawn(coordinator, "l", first=MOST_LANES + 1)
        beyond = await _drawn(coordinator, "l", first=10_000)
        return begun, rest, beyond

    begun, rest, beyond = world.on(journal, made)
    assert (begun.of, len(begun.lanes), len(rest.lanes), len(beyond.lanes)) == (MOST_LANES + 7, MOST_LANES, 7, 1)
    assert rest.lanes[0].step == str(MOST_LANES + 1)


def test_a_saga_without_steps_has_no_drawing(journal: Path) -> None:
    @saga("drawn.nothing")
    async def nothing(s: Work) -> None:
        del s

    async def made(coordinator: Coordinator) -> Drawing | None:
        await coordinator.run(nothing, id="n")
        state, entries = await history(coordinator.journal, SagaId("n"))
        return drawn(state, entries, 0)

    assert world.on(journal, made) is None
