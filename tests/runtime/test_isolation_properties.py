"""Whatever sagas ask for and however they end: one holder at a time, in order, no circle stays, no update is lost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings as effort, strategies as st

from amends import Fatal, Settings, Work, saga
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId, StepId
from amends.journal.memory import MemoryJournal
from amends.journal.port.journal import Lease, Summary
from amends.journal.port.locks import LockAsk, LockQuery, LocksQueued, LocksRefused, LocksTaken
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.samples import resumed, started
from tests.runtime.support import coordinator

RESOURCES, SAGAS = "abc", 4
WAITING, ENDED = Summary(SagaStatus.WAITING), Summary(SagaStatus.ROLLED_BACK)
asks = st.tuples(st.just("ask"), st.integers(0, SAGAS - 1), st.sets(st.sampled_from(RESOURCES), min_size=1, max_size=2))
ends = st.tuples(st.just("end"), st.integers(0, SAGAS - 1), st.just(frozenset[str]()))


@dataclass
class Crowd:
    """Sagas on one journal, and what each believes: what it holds, and what it waits for."""

    journal: MemoryJournal
    holds: dict[SagaId, set[str]] = field(default_factory=dict[SagaId, set[str]])
    waits: dict[SagaId, tuple[str, ...]] = field(default_factory=dict[SagaId, tuple[str, ...]])
    order: list[tuple[SagaId, str]] = field(default_factory=list[tuple[SagaId, str]])
    steps: int = 0
    deadlocks: int = 0

    async def begin(self, name: str) -> None:
        saga = SagaId(name)
        await self.journal.append(saga, [started()], after=0, summary=WAITING, lease=Lease(saga, "w", 1))
        self.holds[saga] = set()

    async def ask(self, saga: SagaId, resources: frozenset[str]) -> None:
        if saga not in self.holds or saga in self.waits:
            return
        self.steps += 1
        await self._ask(saga, tuple(sorted(resources)))

    async def _ask(self, saga: SagaId, wanted: tuple[str, ...]) -> None:
        step = StepId(f"{saga}-{self.steps}" if saga not in self.waits else self._step[saga])
        self._step[saga] = step
        new = [(saga, name) for name in wanted if (saga, name) not in self.order]
        answer = await self.journal.lock(LockAsk(saga, step, saga, wanted, 10**15, 100), Lease(saga, "w", 1))
        if isinstance(answer, LocksRefused):
            assert answer.circle[0].saga == answer.circle[-1].ahead == saga
            assert [wait.ahead for wait in answer.circle[:-1]] == [wait.saga for wait in answer.circle[1:]]
            assert {wait.saga for wait in answer.circle[1:]} <= self.waits.keys(), "all but the asking one wait"
            self.deadlocks += 1
            await self.end(saga)
            return
        self.order += new
        if isinstance(answer, LocksTaken):
            self.holds[saga] |= set(wanted)
            self.waits.pop(saga, None)
        else:
            assert isinstance(answer, LocksQueued)
            self.waits[saga] = wanted

    _step: dict[SagaId, StepId] = field(default_factory=dict[SagaId, StepId])

    async def end(self, saga: SagaId) -> None:
        if saga not in self.holds or saga in self.waits:
            return
        row = await self.journal.saga(saga)
        assert row is not None
        await self.journal.append(saga, [resumed()], after=row.entries, summary=ENDED, lease=Lease(saga, "w", 1))
        del self.holds[saga]
        self.order = [one for one in self.order if one[0] != saga]
        for woken in await self.journal.awake("w"):
            await self._ask(woken, self.waits[woken])
            assert woken not in self.waits, "who is woken has its turn"
            entries = await self.journal.saga(woken)
            assert entries is not None
            await self.journal.append(
                woken, [resumed()], after=entries.entries, summary=WAITING, lease=Lease(woken, "w", 1)
            )

    async def check(self) -> None:
        rows = (await self.journal.locks(LockQuery(limit=1000))).rows
        for name in RESOURCES:
            line = [row.saga for row in rows if row.resource == name]
            assert line == [saga for saga, resource in self.order if resource == name], "first come, first served"
            holders = [saga for saga, held in self.holds.items() if name in held]
            assert len(holders) <= 1, f"{name} has several holders"
            assert not holders or line[0] == holders[0]


@effort(max_examples=150, deadline=None)
@given(st.lists(st.one_of(asks, asks, asks, ends), min_size=8, max_size=40))
def test_locks_exclude_keep_the_order_leak_nothing_and_never_stand_still(moves: list[tuple[str, int, Any]]) -> None:
    async def whole() -> None:
        crowd = Crowd(MemoryJournal(ManualClock()))
        for number in range(SAGAS):
            await crowd.begin(f"s{number}")
        for what, number, resources in moves:
            saga = SagaId(f"s{number}")
            await (crowd.ask(saga, frozenset(resources)) if what == "ask" else crowd.end(saga))
            await crowd.check()
        while crowd.holds:
            free = [saga for saga in crowd.holds if saga not in crowd.waits]
            assert free, "all of them wait for each other"
            await crowd.end(free[0])
            await crowd.check()
        assert (await crowd.journal.locks(LockQuery())).rows == ()

    asyncio.run(whole())


@effort(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.lists(st.sampled_from("xyz"), min_size=1, max_size=4), st.booleans()), min_size=1, max_size=6)
)
def test_documents_lose_no_update_and_a_rollback_restores_exactly(plans: list[tuple[list[str], bool]]) -> None:
    @saga("count.each")
    async def count(s: Work, names: list[str], completes: bool) -> None:
        await s.lock(*(f"document:{name}" for name in sorted(set(names))))
        for name in names:
            await s.documents.update(name, lambda n: n + 1, 0)
        if not completes:
            raise Fatal("take it back")

    async def whole() -> None:
        quick = Settings(lease_s=1_000_000, settle_s=1, lock_wait_s=1_000_000)
        async with coordinator(settings=quick) as on:
            handles = [await on.start(count, names, completes) for names, completes in plans]
            ended = [await handle for handle in handles]
            assert [one.status == "completed" for one in ended] == [completes for _, completes in plans]
            for name in "xyz":
                counted = sum(names.count(name) for names, completes in plans if completes)
                found = await on.documents.get(name)
                assert (0 if found is None else found.body) == counted
                versions = [one.version async for one in on.documents.history(name)]
                assert versions == list(range(1, len(versions) + 1))
            assert await on.locks() == []

    asyncio.run(whole())
