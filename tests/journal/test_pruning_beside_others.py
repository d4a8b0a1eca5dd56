"""Pruning leaves room for others: whoever writes from another program comes in between its transactions."""

from __future__ import annotations

import asyncio
from pathlib import Path

from amends.core.events import SagaCompleted
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.journal.port.journal import Summary
from amends.journal.sqlite import SqliteJournal
from amends.journal.sqlite.retention import SAGAS
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.samples import started

COMPLETED = Summary(status=SagaStatus.COMPLETED)
OLD = 8 * SAGAS


async def end(journal: SqliteJournal, name: str) -> None:
    await journal.append(SagaId(name), [started(), SagaCompleted(result=None)], after=0, summary=COMPLETED)


def test_who_writes_meanwhile_comes_in_after_each_few_sagas(tmp_path: Path) -> None:
    async def whole() -> None:
        clock, path = ManualClock(), tmp_path / "journal.db"
        pruner, other = [await SqliteJournal.open(path, clock) for _ in range(2)]  # each with its own connections
        await asyncio.gather(*(end(pruner, f"old-{number}") for number in range(OLD)))
        clock.advance(1)
        pruning = asyncio.ensure_future(
            pruner.remove_payloads(by="person:ann", why="it is old", ended_before=clock.now(), limit=OLD)
        )
        while not pruning.done():
            await end(other, f"new-{clock.new_id()}")
        assert (await pruning).sagas == OLD
        names = [(one.name, one.saga.startswith("new-")) async for one in other.stored()]
        removals = [place for place, (name, _) in enumerate(names) if name.startswith("content.removed/")]
        between = [is_new for _, is_new in names[removals[0] : removals[-1]]]
        assert any(between)
        for journal in (pruner, other):
            await journal.close()

    asyncio.run(whole())
