"""Sessions whose process is killed between an effect and its record, on a real journal."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from amends import Coordinator, Registry, Settings
from amends.core.transitions import SagaStatus
from amends.errors import RefusedError, StepLostError
from amends.runtime.declare.registry import PROCESS
from tests.runtime import session_victim as victim

QUICK = Settings(poll_s=0.05, park_s=0.05)
Told = Callable[[Coordinator], Coroutine[Any, Any, None]]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(victim, "LOG", tmp_path / "log")
    return tmp_path / "log"


def kill(path: Path, log: Path, which: str) -> None:
    """Run an agent until it is killed inside an action, after the effect."""
    command = [sys.executable, "-m", "tests.runtime.session_victim", str(path / "amends.db"), which]
    environment = {**os.environ, "SESSION_LOG": str(log), "SESSION_DIES": "1"}
    ended = subprocess.run(command, env=environment, check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL


def tell(path: Path, story: Told, registry: Registry = PROCESS) -> None:
    async def whole() -> None:
        async with Coordinator.open(
            str(path / "amends.db"), settings=QUICK, env="development", registry=registry
        ) as coordinator:
            await story(coordinator)

    asyncio.run(asyncio.wait_for(whole(), 30))


def test_what_was_lost_is_asked_about_and_the_agent_goes_another_way(tmp_path: Path, log: Path) -> None:
    kill(tmp_path, log, "found")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("victim.agent", id="t-1") as s:
            assert [(one.call, one.stands) for one in s.steps] == [("c1", True), ("c2", True)]
            assert await s.do(victim.book, "Porto", call="another") == "booked Porto"
            assert await s.do(victim.found, 5, call="c2") == "paid 5"
        assert (await coordinator.show("t-1")).status is SagaStatus.COMPLETED

    tell(tmp_path, story)
    assert log.read_text().split("\n") == ["book Lisbon", "found 5", "probe", "book Porto", ""]


def test_what_may_be_repeated_is_repeated_under_the_same_step(tmp_path: Path, log: Path) -> None:
    kill(tmp_path, log, "repeated")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("victim.agent", id="t-1") as s:
            assert await s.do(victim.repeated, 5, call="c2") == "done again"

    tell(tmp_path, story)
    assert log.read_text().split("\n") == ["book Lisbon", "repeated 5", "repeated 5", ""]


def test_what_nobody_knows_is_taken_back_before_anything_new(tmp_path: Path, log: Path) -> None:
    kill(tmp_path, log, "doubted")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("victim.agent", id="t-1") as s:
            await s.do(victim.book, "Porto")
            with pytest.raises(StepLostError):
                await s.do(victim.doubted, 5, call="c2")

    tell(tmp_path, story)
    assert log.read_text().split("\n") == ["book Lisbon", "doubted 5", "undoubt False", "book Porto", ""]


def test_what_cannot_be_taken_back_is_shown_to_a_person(tmp_path: Path, log: Path) -> None:
    kill(tmp_path, log, "final")

    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(RefusedError, match="t-1 is incident"):
            async with coordinator.session("victim.agent", id="t-1"):
                pass
        incidents = [one async for one in coordinator.incidents()]
        assert [one.kind for one in incidents] == ["outcome_unknown"]

    tell(tmp_path, story)
    assert log.read_text().split("\n") == ["book Lisbon", "final 5", ""]


def test_a_worker_settles_it_without_any_agent(tmp_path: Path, log: Path) -> None:
    kill(tmp_path, log, "doubted")

    async def story(coordinator: Coordinator) -> None:
        (ended,) = await coordinator.resume()
        assert (ended.id, ended.status) == ("t-1", SagaStatus.WAITING)
        assert await coordinator.resume() == []
        ended = await coordinator.cancel("t-1")
        assert ended.status is SagaStatus.ROLLED_BACK

    tell(tmp_path, story)
    assert log.read_text().split("\n") == ["book Lisbon", "doubted 5", "undoubt False", "unbook Lisbon", ""]


def test_a_worker_that_does_not_know_the_actions_leaves_it_to_others(tmp_path: Path, log: Path) -> None:
    kill(tmp_path, log, "doubted")

    async def ignorant(coordinator: Coordinator) -> None:
        (ended,) = await coordinator.resume()
        assert ended.status is SagaStatus.RUNNING
        async with Coordinator.open(str(tmp_path / "amends.db"), settings=QUICK, env="development") as knowing:  # noqa: SIM117 - one is inside the other
            async with knowing.session("victim.agent", id="t-1") as s:
                assert len(s.steps) == 2

    tell(tmp_path, ignorant, Registry())
    assert log.read_text().split("\n") == ["book Lisbon", "doubted 5", "undoubt False", ""]
