"""A saga's own word on what becomes of it when its process is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from amends import Coordinator, Settings, saga
from amends.core.transitions import SagaStatus
from amends.errors import DeclarationError
from tests.runtime import crash_victim as victim


def killed_and_resumed(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[SagaStatus, str, list[str]]:
    """Kill it, have another process go on; how it stands then, why, and what was done in the world."""
    log, journal = path / "log", str(path / "amends.db")
    monkeypatch.setattr(victim, "LOG", log)
    command = [sys.executable, "-m", "tests.runtime.crash_victim", journal, name]
    environment = {**os.environ, "CRASH_LOG": str(log), "CRASH_DIES": "1"}
    assert subprocess.run(command, env=environment, check=False, timeout=60).returncode == -signal.SIGKILL

    async def whole() -> tuple[SagaStatus, str]:
        async with Coordinator.open(journal, settings=Settings(poll_s=0.05), env="development") as coordinator:
            (ended,) = await coordinator.resume()
            return ended.status, ended.why

    status, why = asyncio.run(asyncio.wait_for(whole(), 30))
    return status, why, log.read_text().split("\n")[:-1]


def test_it_is_taken_back_where_it_asks_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, why, seen = killed_and_resumed(tmp_path, "back", monkeypatch)
    assert (status, why) == (SagaStatus.ROLLED_BACK, "its process was killed in the middle of an attempt")
    assert seen == ["book Lisbon", "die", "undie False", "unbook Lisbon True"]


def test_else_it_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, seen = killed_and_resumed(tmp_path, "on", monkeypatch)
    assert (status, seen) == (SagaStatus.COMPLETED, ["book Lisbon", "die", "die"])


def test_one_that_asks_for_something_else_is_taken_back_and_no_incident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, why, seen = killed_and_resumed(tmp_path, "other", monkeypatch)
    assert status is SagaStatus.ROLLED_BACK
    assert "with other arguments" in why
    assert seen == ["book Lisbon", "unbook Lisbon True"]


def test_another_word_is_refused() -> None:
    async def nothing(s: Any) -> None: ...

    with pytest.raises(DeclarationError, match="on_crash='forget' has to be 'resume' or 'rollback'"):
        saga("crash.none", on_crash=cast("Any", "forget"))(nothing)
