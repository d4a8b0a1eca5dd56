"""A write lock that is slow to be had: whoever waits for it goes by the time at which it is had."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from amends.clock import Clock
from amends.core.words.values import SagaId
from amends.journal.memory import Memory, MemoryJournal
from amends.journal.port import leases
from amends.journal.port.journal import Journal
from amends.journal.port.leases import Identity
from amends.journal.sqlite import SqliteJournal, journal as sqlite_journal
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.fixture import TTL_S, begin, sagas_of

SLOW_S = TTL_S / 2


class Door:
    """The write lock of one handle: shut, whoever asks stands before it."""

    def __init__(self) -> None:
        self.asked, self._let = threading.Event(), threading.Event()
        self._let.set()

    def shut(self) -> None:
        self._let.clear()
        self.asked.clear()

    def open(self) -> None:
        self._let.set()

    def pass_through(self) -> None:
        self.asked.set()
        assert self._let.wait(30)

    async def passed(self) -> None:
        await asyncio.to_thread(self.pass_through)

    async def is_asked(self) -> None:
        assert await asyncio.to_thread(self.asked.wait, 30)


class Two:
    """Two programs on one journal; the door is before the second one's writes."""

    def __init__(self, first: Journal, second: Journal, door: Door, clock: ManualClock) -> None:
        self.first, self.second, self.door, self.clock = first, second, door, clock

    async def in_the_meantime(self, asked: Awaitable[Any], what: Callable[[], object]) -> Any:
        """Ask the second for something; it gets the lock some time later, after something else was written."""
        self.door.shut()
        answer = asyncio.ensure_future(asked)
        await self.door.is_asked()
        self.clock.advance(SLOW_S)
        await asyncio.to_thread(what)
        self.door.open()
        return await answer


@asynccontextmanager
async def in_memory(_path: Path) -> AsyncGenerator[Two]:
    clock, memory, door = ManualClock(), Memory(), Door()
    yield Two(MemoryJournal(clock, memory), MemoryJournal(clock, memory, wait=door.passed), door, clock)


@asynccontextmanager
async def in_a_file(path: Path) -> AsyncGenerator[Two]:
    clock, door = ManualClock(), Door()
    first, second = [await SqliteJournal.open(path, clock, checked=False) for _ in range(2)]
    commit = second._writer._commit

    def slowly(asks: Any) -> None:
        door.pass_through()
        commit(asks)

    second._writer._commit = slowly  # type: ignore[method-assign] # where it waits for SQLite's lock
    try:
        yield Two(first, second, door, clock)
    finally:
        await first.close()
        await second.close()


@pytest.fixture(params=[in_memory, in_a_file])
def two(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """On a system that does not name its boots: there only the time tells, and it has to be the right one."""
    monkeypatch.setattr(sqlite_journal, "own_identity", Identity)
    return lambda: request.param(tmp_path / "amends.db")


def test_a_worker_that_renews_while_a_claim_waits_keeps_its_sagas(two: Any) -> None:
    async def whole() -> None:
        async with two() as both:
            await both.first.enlist("alive", TTL_S)
            saga = await begin(both.first, "s", worker="alive")
            for asked in (both.second.claim("other"), both.second.claim("other", saga=saga)):
                assert await both.in_the_meantime(asked, lambda: both.first.renew("alive", TTL_S)) == ()
            assert await both.first.holder(saga) == "alive"
            await both.in_the_meantime(both.second.enlist("other", TTL_S), lambda: None)
            assert await both.second.holder(saga) == "alive"

    asyncio.run(whole())


def test_a_worker_whose_time_runs_out_while_a_claim_waits_is_gone_when_the_lock_is_had(two: Any) -> None:
    async def whole() -> None:
        async with two() as both:
            await both.first.enlist("gone", TTL_S)
            await begin(both.first, "s", worker="gone")
            both.clock.advance(TTL_S - SLOW_S)
            assert sagas_of(await both.in_the_meantime(both.second.claim("other"), lambda: None)) == ["s"]

    asyncio.run(whole())


def test_a_renewal_counts_from_when_it_is_written(two: Any) -> None:
    async def whole() -> None:
        async with two() as both:
            await both.in_the_meantime(both.second.enlist("w", TTL_S), lambda: None)
            saga = await begin(both.first, "s", worker="w")
            both.clock.advance(TTL_S - 0.1)
            assert await both.first.holder(saga) == "w"
            assert await both.first.claim("x") == ()

    asyncio.run(whole())


def test_a_time_from_before_the_wait_takes_a_living_workers_sagas(two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old defect, which the simulation switches on by the same patch."""

    def too_early(clock: Clock) -> leases.Reading:
        then = clock.elapsed()
        return lambda: then

    async def whole() -> None:
        async with two() as both:
            await both.first.enlist("alive", TTL_S)
            await begin(both.first, "s", worker="alive")
            renew = both.first.renew
            with monkeypatch.context() as patch:
                for module in ("sqlite", "memory"):
                    patch.setattr(f"amends.journal.{module}.journal.reading", too_early)
                taken = await both.in_the_meantime(both.second.claim("other"), lambda: renew("alive", TTL_S))
            assert sagas_of(taken) == ["s"]

    asyncio.run(whole())


@pytest.mark.parametrize("is_late", [False, True])
def test_a_worker_does_not_claim_its_own_sagas_whatever_its_row_says(two: Any, is_late: bool) -> None:
    async def whole() -> None:
        async with two() as both:
            await both.first.enlist("w", TTL_S)
            saga = await begin(both.first, "s", worker="w")
            if is_late:
                both.clock.advance(2 * TTL_S)
            else:
                await both.first.retire("w")
            assert await both.first.claim("w") == ()
            assert sagas_of(await both.first.claim("w", saga=SagaId(saga))) == ["s"]

    asyncio.run(whole())
