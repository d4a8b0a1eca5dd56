"""The rules of locks: one line for each resource, first come, first served; nothing outlives its saga; no circles."""

from __future__ import annotations

import asyncio

from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId, StepId
from amends.errors import LeaseLostError, RefusedError, UnknownSagaError
from amends.journal.port.entries import Summary
from amends.journal.port.journal import Journal
from amends.journal.port.locks import LockAnswer, LockAsk, LockQuery, LocksQueued, LocksRefused, LocksTaken, LockWait
from amends.testing.journal_suite.fixture import RUNNING, TTL_S, StoreFixture, add, begin, equal, held, refusal, rule
from amends.testing.journal_suite.samples import resumed

WAITING = Summary(status=SagaStatus.WAITING)
ROLLED_BACK = Summary(status=SagaStatus.ROLLED_BACK)
HALTED = Summary(status=SagaStatus.INCIDENT)
TAKEN = LocksTaken()


class LocksSuite(StoreFixture):
    async def ask(
        self, journal: Journal, saga: SagaId, *resources: str, step: str = "1", wait_s: float = 60.0, most: int = 10
    ) -> LockAnswer:
        until = self.clock.now() + round(wait_s * 1000)
        ask = LockAsk(saga, StepId(step), saga, resources, until, most)
        return await journal.lock(ask, held(saga, "w"))

    async def sagas(self, journal: Journal, *names: str) -> list[SagaId]:
        await journal.enlist("w", TTL_S)
        return [await begin(journal, name, worker="w", summary=WAITING) for name in names]

    @rule
    async def test_who_comes_first_holds_and_the_others_stand_in_line(self, journal: Journal) -> None:
        s, t, u = await self.sagas(journal, "s", "t", "u")
        equal(await self.ask(journal, s, "r"), TAKEN)
        equal(await self.ask(journal, t, "r"), LocksQueued("r", s))
        other = await self.another()
        equal(await self.ask(other, u, "r"), LocksQueued("r", s))
        equal(await self.ask(journal, s, "r", step="2"), TAKEN)
        equal(await self.ask(journal, u, "q"), TAKEN)
        rows = (await other.locks(LockQuery(resource="r"))).rows
        equal([(row.saga, row.place) for row in rows], [(s, 0), (t, 1), (u, 2)])
        rows = (await journal.locks(LockQuery(saga=u))).rows
        equal([(row.resource, row.place, row.step) for row in rows], [("r", 2, "1"), ("q", 0, "1")])

    @rule
    async def test_the_end_of_a_saga_gives_the_next_one_its_turn(self, journal: Journal) -> None:
        s, t, u = await self.sagas(journal, "s", "t", "u")
        for saga in (s, t, u):
            await self.ask(journal, saga, "r")
        equal(await journal.awake("w"), ())
        await journal.append(s, [resumed()], after=1, summary=ROLLED_BACK, lease=held(s, "w"))
        equal((await journal.awake("w"), journal.nudged("w")), ((t,), (t,)))
        equal(await self.ask(journal, u, "r"), LocksQueued("r", t))
        equal(await self.ask(journal, t, "r"), TAKEN)
        await journal.append(t, [resumed()], after=1, summary=RUNNING, lease=held(t, "w"))
        equal(await journal.awake("w"), ())

    @rule
    async def test_one_whose_turn_came_is_due_whoever_is_left(self, journal: Journal) -> None:
        s, t = await self.sagas(journal, "s", "t")
        for saga in (s, t):
            await self.ask(journal, saga, "r")
        sleeps = WAITING._replace(wake_at=self.clock.now() + 60_000)
        await journal.append(t, [], after=1, summary=sleeps, lease=held(t, "w"))
        await journal.retire("w")
        equal([lease.saga for lease in await journal.claim("x", due_by=self.clock.now())], [s])
        await journal.append(s, [resumed()], after=1, summary=ROLLED_BACK, lease=held(s, "x", 2))
        await journal.append(t, [], after=1, summary=sleeps, lease=held(t, "w"))
        equal([lease.saga for lease in await journal.claim("x", due_by=self.clock.now())], [t])

    @rule
    async def test_all_that_a_step_needs_is_taken_at_once_or_waited_for(self, journal: Journal) -> None:
        s, t, u = await self.sagas(journal, "s", "t", "u")
        equal(await self.ask(journal, s, "q"), TAKEN)
        equal(await self.ask(journal, t, "p", "q", "r"), LocksQueued("q", s))
        equal(await self.ask(journal, u, "r"), LocksQueued("r", t))
        await add(journal, s, resumed(), summary=ROLLED_BACK)
        equal(await journal.awake("w"), (t,))
        equal(await self.ask(journal, t, "p", "q", "r"), TAKEN)

    @rule
    async def test_asking_again_keeps_the_place_in_line(self, journal: Journal) -> None:
        s, t, u = await self.sagas(journal, "s", "t", "u")
        for saga in (s, t, u, t, s, t):
            await self.ask(journal, saga, "r")
        rows = (await journal.locks(LockQuery())).rows
        equal([row.saga for row in rows], [s, t, u])

    @rule
    async def test_when_the_time_is_up_nothing_is_left_in_line(self, journal: Journal) -> None:
        s, t, u = await self.sagas(journal, "s", "t", "u")
        await self.ask(journal, s, "r")
        equal(await self.ask(journal, t, "q", "r", wait_s=1), LocksQueued("r", s))
        equal(await self.ask(journal, u, "q"), LocksQueued("q", t))
        self.clock.advance(1)
        equal(await self.ask(journal, t, "q", "r", wait_s=0), LocksRefused("r", s))
        equal(await journal.awake("w"), (u,))
        equal(await self.ask(journal, u, "q"), TAKEN)
        equal([row.saga for row in (await journal.locks(LockQuery())).rows], [s, u])
        await add(journal, s, resumed(), summary=ROLLED_BACK)
        equal(await self.ask(journal, t, "r", wait_s=0), TAKEN)

    @rule
    async def test_only_so_many_stand_in_one_line(self, journal: Journal) -> None:
        s, t, u, v = await self.sagas(journal, "s", "t", "u", "v")
        await self.ask(journal, s, "r")
        for saga in (t, u):
            equal(await self.ask(journal, saga, "r", most=2), LocksQueued("r", s))
        equal(await self.ask(journal, v, "r", most=2), LocksRefused("r", s, waiting=2))
        equal(await self.ask(journal, u, "r", most=2), LocksQueued("r", s))
        equal(await self.ask(journal, v, "q", most=2), TAKEN)

    @rule
    async def test_a_request_that_closes_a_circle_is_refused_and_only_it(self, journal: Journal) -> None:
        s, t, u = await self.sagas(journal, "s", "t", "u")
        for saga, resource in ((s, "a"), (t, "b"), (u, "c")):
            equal(await self.ask(journal, saga, resource), TAKEN)
        equal(await self.ask(journal, s, "b", step="2"), LocksQueued("b", t))
        equal(await self.ask(journal, t, "c", step="2"), LocksQueued("c", u))
        circle = (LockWait(u, "a", s), LockWait(s, "b", t), LockWait(t, "c", u))
        equal(await self.ask(journal, u, "a", step="2"), LocksRefused("a", s, circle=circle))
        equal([(row.saga, row.resource) for row in (await journal.locks(LockQuery(saga=u))).rows], [(u, "c")])
        await add(journal, u, resumed(), summary=ROLLED_BACK)
        equal(await journal.awake("w"), (t,))

    @rule
    async def test_of_two_that_close_a_circle_at_once_one_is_refused(self, journal: Journal) -> None:
        s, t = await self.sagas(journal, "s", "t")
        await self.ask(journal, s, "a")
        await self.ask(journal, t, "b")
        other = await self.another()
        asks = (self.ask(journal, s, "b", step="2"), self.ask(other, t, "a", step="2"))
        answers = await asyncio.gather(*asks)
        equal(sorted(type(answer).__name__ for answer in answers), ["LocksQueued", "LocksRefused"])

    @rule
    async def test_who_goes_back_keeps_what_it_holds_and_waits_for_nothing(self, journal: Journal) -> None:
        s, t = await self.sagas(journal, "s", "t")
        await self.ask(journal, s, "a")
        await self.ask(journal, t, "b")
        equal(await self.ask(journal, t, "a", step="2"), LocksQueued("a", s))
        back = Summary(status=SagaStatus.ROLLING_BACK)
        await journal.append(t, [resumed()], after=1, summary=back, lease=held(t, "w"))
        equal([(row.saga, row.resource) for row in (await journal.locks(LockQuery())).rows], [(s, "a"), (t, "b")])
        equal(await self.ask(journal, s, "b", step="2"), LocksQueued("b", t))
        await refusal(self.ask(journal, t, "c", step="3"), RefusedError)
        halted = Summary(status=SagaStatus.INCIDENT)
        await journal.append(t, [resumed()], after=2, summary=halted, lease=held(t, "w"))
        equal((await journal.locks(LockQuery(saga=t))).rows[0].resource, "b")

    @rule
    async def test_a_holder_that_was_replaced_takes_nothing(self, journal: Journal) -> None:
        (s,) = await self.sagas(journal, "s")
        await journal.retire("w")
        (lease,) = await journal.claim("x")
        ask = LockAsk(s, StepId("1"), s, ("r",), self.clock.now(), 1)
        await refusal(journal.lock(ask, held(s, "w")), LeaseLostError)
        equal(await journal.lock(ask, lease), TAKEN)
        await journal.append(s, [resumed()], after=1, summary=ROLLED_BACK, lease=lease)
        await refusal(journal.lock(ask, lease), RefusedError)
        nobody = ask._replace(saga=SagaId("nobody"))
        await refusal(journal.lock(nobody, held(SagaId("nobody"), "w")), UnknownSagaError)

    @rule
    async def test_sagas_of_one_owner_share_what_it_holds_until_it_ends(self, journal: Journal) -> None:
        s, t, u = await self.sagas(journal, "s", "t", "u")
        until = self.clock.now() + 1000
        equal(await self.ask(journal, s, "a"), TAKEN)
        child = LockAsk(t, StepId("1"), s, ("a", "b"), until, 1)
        equal(await journal.lock(child, held(t, "w")), TAKEN)
        await journal.append(s, [resumed()], after=1, summary=HALTED, lease=held(s, "w"))
        equal(await journal.lock(child._replace(step=StepId("2"), resources=("c",)), held(t, "w")), TAKEN)
        await journal.append(t, [resumed()], after=1, summary=ROLLED_BACK, lease=held(t, "w"))
        equal(await self.ask(journal, u, "b"), LocksQueued("b", s))
        await journal.append(s, [resumed()], after=2, summary=ROLLED_BACK, lease=held(s, "w"))
        equal(await journal.awake("w"), (u,))

    @rule
    async def test_the_lines_are_listed_page_by_page(self, journal: Journal) -> None:
        sagas = await self.sagas(journal, *(f"s{number}" for number in range(5)))
        for saga in sagas:
            await self.ask(journal, saga, "r")
        first = await journal.locks(LockQuery(limit=3))
        rest = await journal.locks(LockQuery(limit=3, after=first.cursor))
        equal([row.saga for row in first.rows + rest.rows], sagas)
        equal(rest.cursor, None)
