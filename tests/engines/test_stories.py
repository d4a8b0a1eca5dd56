"""Stories that both engines tell alike, on real servers: what is started comes to its end, whatever is killed."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from amends.errors import RefusedError
from tests.engines.programs import EngineName, asks, calls, fills, goes_back, listens, naps
from tests.engines.stage import staged


def told(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Over both engines; it hangs for two minutes at most."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 120))

    both: Callable[..., None] = pytest.mark.parametrize("engine", ["restate", "temporal"])(run)
    return both


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for what is due: what happens, the engine did."""
    monkeypatch.setenv("AMENDS_TEST_ALONE", "1")


@told
@pytest.mark.usefixtures("alone")
async def test_a_saga_that_is_started_twice_with_one_id_is_one_saga(
    engine: EngineName, journal: str, tmp_path: Path
) -> None:
    async with staged(engine, journal, tmp_path) as stage:
        started = await asyncio.gather(*(stage.engine.start(fills, "s", id="s") for _ in range(5)))
        assert started == ["s"] * 5
        await stage.until_is("s", "completed")
        assert await stage.engine.start(fills, "s", id="s") == "s"
        with pytest.raises(RefusedError, match="exists already, with another beginning"):
            await stage.engine.start(fills, "another", id="s")
        await stage.start(goes_back, "b")
        await stage.until_is("b", "rolled_back")
        assert await stage.standing() == {"s": "completed", "b": "rolled_back"}
        stage.require("s", "abcdef")
        stage.require("b", "")


@told
@pytest.mark.usefixtures("alone")
async def test_a_worker_is_asked_once_for_each_stretch_and_a_timer_is_the_engines(
    engine: EngineName, postgresql: str, tmp_path: Path
) -> None:
    async with staged(engine, postgresql, tmp_path) as stage:
        await stage.start(fills, "straight")
        await stage.start(naps, "naps", 1.5)
        await stage.until_is("straight", "completed")
        await stage.until_idle("naps")
        assert (stage.asked("straight"), stage.asked("naps")) == (1, 1)
        stage.kill_worker()
        stage.add_worker()
        await stage.until_is("naps", "completed")
        assert (stage.asked("straight"), stage.asked("naps")) == (1, 2)
        stage.require("naps", "ab")


@told
async def test_an_answer_at_a_terminal_is_found_after_engine_and_worker_were_killed_in_between(
    engine: EngineName, journal: str, tmp_path: Path
) -> None:
    async with staged(engine, journal, tmp_path) as stage:
        await stage.start(asks, "s")
        await stage.until_idle("s")
        stage.kill_worker()
        await stage.restart(stage.server)
        stage.add_worker()
        await stage.grant("s")  # and nobody tells the engine
        await stage.until_is("s", "completed")
        stage.require("s", "abc")


@told
@pytest.mark.usefixtures("alone")
async def test_whoever_signals_a_saga_wakes_it(engine: EngineName, postgresql: str, tmp_path: Path) -> None:
    async with staged(engine, postgresql, tmp_path) as stage:
        await stage.start(listens, "s")
        await stage.until_idle("s")
        await stage.engine.wake("s")  # too soon: nothing has come
        await stage.coordinator.signal("s", "answer", "yes")
        await stage.engine.wake("s")
        await stage.until_is("s", "completed")
        stage.require("s", "ab")


@told
async def test_what_a_killed_worker_was_in_the_middle_of_another_one_goes_on_with(
    engine: EngineName, journal: str, tmp_path: Path
) -> None:
    async with staged(engine, journal, tmp_path) as stage:
        for name in ("one", "two", "three"):
            await stage.start(fills, name)
        await stage.start(goes_back, "back")
        await stage.until_done("two", "b")
        stage.add_worker()
        stage.kill_worker(0)
        for name in ("one", "two", "three"):
            await stage.until_is(name, "completed")
            stage.require(name, "abcdef")
        await stage.until_is("back", "rolled_back")
        stage.require("back", "")


@told
@pytest.mark.usefixtures("alone")
async def test_an_engine_that_is_killed_in_the_middle_goes_on_from_what_it_has_stored(
    engine: EngineName, postgresql: str, tmp_path: Path
) -> None:
    async with staged(engine, postgresql, tmp_path, workers=2) as stage:
        await stage.start(naps, "naps", 1.0)
        await stage.start(fills, "fills", 0.2)
        await stage.until_done("fills", "b")
        await stage.restart(stage.server)
        for name, steps in (("naps", "ab"), ("fills", "abcdef")):
            await stage.until_is(name, "completed")
            stage.require(name, steps)


@told
@pytest.mark.usefixtures("alone")
async def test_a_lost_engine_is_told_by_the_command_of_all_that_is_unfinished(
    engine: EngineName, postgresql: str, tmp_path: Path
) -> None:
    async with staged(engine, postgresql, tmp_path) as stage:
        await stage.start(fills, "over")
        await stage.until_is("over", "completed")
        for definition, name in ((asks, "asks"), (listens, "listens")):
            await stage.start(definition, name)
            await stage.until_idle(name)
        await stage.start(naps, "naps", 5.0)
        await stage.start(fills, "midway", 0.3)
        await stage.until_done("midway", "b")
        stage.kill_worker()
        await stage.lose()
        stage.add_worker()
        await asyncio.to_thread(stage.register)
        standing = await stage.standing()
        assert (standing["midway"], standing["naps"], standing["over"]) == ("running", "waiting", "completed")
        await stage.coordinator.signal("listens", "answer", "yes")
        await stage.grant("asks")
        command = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "amends", "engine", "sync", "--journal", postgresql),
            *(f"--{engine}", stage.address()),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await command.communicate()
        assert (said.decode(), command.returncode) == ("told the engine of 4 sagas\n", 0)
        for name, steps in (("naps", "ab"), ("asks", "abc"), ("listens", "ab"), ("midway", "abcdef")):
            await stage.until_is(name, "completed")
            stage.require(name, steps)
        assert stage.asked("over") == 1


@told
@pytest.mark.usefixtures("alone")
async def test_a_saga_that_no_journal_knows_is_given_up_at_once(
    engine: EngineName, postgresql: str, tmp_path: Path
) -> None:
    async with staged(engine, postgresql, tmp_path) as stage:
        await stage.engine.wake("nobody")
        await stage.start(fills, "s", 0.3)
        await stage.until_is("s", "completed")
        assert (stage.asked("nobody"), stage.asked("s")) == (1, 1)


@told
async def test_a_child_that_sleeps_is_driven_and_its_parent_after_it(
    engine: EngineName, postgresql: str, tmp_path: Path
) -> None:
    async with staged(engine, postgresql, tmp_path, workers=2) as stage:
        await stage.start(calls, "s", 0.3)
        await stage.until_is("s", "completed")
        stage.require("s", "a")
        stage.require("s.child", "ab")


@told
async def test_what_was_put_on_record_and_never_told_to_the_engine_is_found(
    engine: EngineName, postgresql: str, tmp_path: Path
) -> None:
    async with staged(engine, postgresql, tmp_path, workers=2) as stage:
        await stage.coordinator.put_on_record(fills, {"name": "s"}, id="s")
        await stage.until_is("s", "completed")
        stage.require("s", "abcdef")
