"""Claiming: side by side where it can be, in turns where it must, and one commit for what wakes together."""

from __future__ import annotations

import asyncio
from pathlib import Path

from amends import Coordinator, Settings, Work, saga
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.journal.sqlite import SqliteJournal
from amends.runtime.engine.leases import SIDE_BY_SIDE, Claims

A, B = SagaId("a"), SagaId("b")


async def turns() -> None:
    """Whoever could go on by now has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


class Asker:
    """Somebody who claims, and stays at it until let go."""

    def __init__(self, claims: Claims, saga: SagaId | None) -> None:
        self.is_at_it = False
        self._go = asyncio.Event()
        self._turn = claims.alone() if saga is None else claims.of(saga)
        self.task = asyncio.ensure_future(self._claim())

    async def _claim(self) -> None:
        async with self._turn:
            self.is_at_it = True
            await self._go.wait()
        self.is_at_it = False

    async def let_go(self) -> None:
        self._go.set()
        await self.task
        await turns()


def test_two_sagas_are_claimed_side_by_side_and_one_saga_in_turns() -> None:
    async def whole() -> None:
        claims = Claims()
        first, second, other = (Asker(claims, one) for one in (A, A, B))
        await turns()
        assert (first.is_at_it, second.is_at_it, other.is_at_it) == (True, False, True)
        await first.let_go()
        assert second.is_at_it
        assert claims.is_in_line(A)
        await second.let_go()
        assert not claims.is_in_line(A)
        await other.let_go()

    asyncio.run(whole())


def test_a_claim_on_whatever_is_due_has_nobody_beside_it() -> None:
    async def whole() -> None:
        claims = Claims()
        before = Asker(claims, A)
        await turns()
        due = Asker(claims, None)
        await turns()
        after = Asker(claims, B)
        await turns()
        assert (before.is_at_it, due.is_at_it, after.is_at_it) == (True, False, False)
        await before.let_go()
        assert (due.is_at_it, after.is_at_it) == (True, False)
        await due.let_go()
        assert after.is_at_it
        await after.let_go()

    asyncio.run(whole())


def test_who_gives_up_in_line_keeps_nobody_waiting() -> None:
    async def whole() -> None:
        claims = Claims()
        many = [Asker(claims, SagaId(f"s-{number}")) for number in range(SIDE_BY_SIDE + 1)]
        await turns()
        last, twin, due = many[-1], Asker(claims, SagaId("s-0")), Asker(claims, None)
        await turns()
        assert not last.is_at_it
        for given_up in (last, twin):
            given_up.task.cancel()
        await asyncio.gather(last.task, twin.task, return_exceptions=True)
        for one in many[:-1]:
            await one.let_go()
        assert due.is_at_it
        assert not claims.is_in_line(SagaId("s-0"))
        await due.let_go()

    asyncio.run(whole())


def test_sagas_that_are_signalled_together_share_their_commits(tmp_path: Path) -> None:
    """Each alone would take two: a claim of its own, and its end."""

    @saga("test.signalled")
    async def signalled(s: Work) -> object:
        return await s.wait_for("go")

    async def whole() -> None:
        settings = Settings(park_s=0.0, poll_s=60.0)
        async with Coordinator.open(str(tmp_path / "j.db"), signals=False, settings=settings) as opened:
            handles = [await opened.start(signalled, id=f"s-{number}") for number in range(100)]
            for handle in handles:
                assert (await handle.halt()).status is SagaStatus.WAITING
            journal = opened.journal
            assert isinstance(journal, SqliteJournal)
            assert journal._heads == {}  # what waits is nobody's memory
            before = journal.commits
            await asyncio.gather(*(opened.signal(f"s-{number}", "go", number) for number in range(100)))
            ended = await asyncio.gather(*handles)
            assert [one.result for one in ended] == list(range(100))
            assert journal.commits - before < 100

    asyncio.run(whole())
