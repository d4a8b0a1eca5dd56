"""A saga's evidence, from whoever ran it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import amends
from amends import Fatal, saga
from amends.core.words.values import SagaId
from amends.errors import RefusedError
from amends.runtime.engine.handle import Ended
from amends.runtime.saga.work import Work
from tests.runtime.support import World, coordinator


def failing(world: World) -> Any:
    book, pay = world.action("book"), world.action("pay", Fatal("no", happened=False))

    @saga("test.evident")
    async def work(s: Work) -> None:
        await s.do(book)
        await s.do(pay)

    return work


def test_the_record_says_what_failed_what_was_taken_back_and_who_stands_behind_each_fact() -> None:
    async def whole() -> dict[str, Any]:
        async with coordinator() as c:
            ended = await c.run(failing(World()), id="s", actor="agent:bot")
            return await ended.evidence()

    record = asyncio.run(whole())
    assert list(record)[:9] == [
        *("run_id", "job_id", "status", "matched_policy_id", "rollback_triggered", "rollback_mode"),
        *("compensation_jobs_dispatched", "compensation_jobs_skipped", "rollback_finished_at"),
    ]
    assert (record["run_id"], record["status"], record["compensation_jobs_dispatched"]) == ("s", "FAILED_FATAL", 1)
    told = record["amends"]["timeline"]
    assert {fact["who"] for fact in told} == {"agent:bot", "system:runtime"}
    assert all(fact["key"] for fact in told if fact["what"] in {"action.dispatched/1", "compensation.started/1"})


def test_code_without_a_loop_has_it_after_the_journal_was_closed(tmp_path: Path) -> None:
    ended = amends.run(failing(World()), journal=str(tmp_path / "a.db"), id="s")
    assert asyncio.run(ended.evidence())["run_id"] == "s"


def test_what_was_not_run_here_has_none() -> None:
    ended = Ended(id=SagaId("s"), status=amends.SagaStatus.COMPLETED)
    with pytest.raises(RefusedError, match="amends evidence record s"):
        asyncio.run(ended.evidence())
