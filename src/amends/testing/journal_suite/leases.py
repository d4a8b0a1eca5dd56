"""The rules of leases: who may drive a saga, how it changes hands, and who hears of others' writing."""

from __future__ import annotations

import asyncio
import threading

from amends.core import events as e
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import JournalConflictError, LeaseLostError
from amends.journal.port.entries import Summary
from amends.journal.port.journal import Journal
from amends.journal.port.leases import Waking
from amends.testing.journal_suite.fixture import (
    RUNNING,
    TTL_S,
    StoreFixture,
    add,
    begin,
    entries,
    equal,
    held,
    refusal,
    rule,
    sagas_of,
)
from amends.testing.journal_suite.samples import resumed, started, walked


class LeasesSuite(StoreFixture):
    @rule
    async def test_the_holder_writes_and_nobody_else_with_a_lease(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        saga = await begin(journal, "s", worker="w")
        await journal.append(saga, walked("a.1"), after=1, summary=RUNNING, lease=held(saga, "w"))
        for epoch in (0, 2, 7):
            stale = journal.append(saga, [resumed()], after=5, summary=RUNNING, lease=held(saga, "x", epoch))
            await refusal(stale, LeaseLostError)
        equal(len(await entries(journal, saga)), 5)

    @rule
    async def test_a_holder_that_was_replaced_cannot_write(self, journal: Journal) -> None:
        await journal.enlist("old", TTL_S)
        saga = await begin(journal, "s", worker="old")
        self.clock.advance(TTL_S)
        other = await self.another()
        await other.enlist("new", TTL_S)
        (lease,) = await other.claim("new")
        equal(lease, held(saga, "new", 2))
        old = held(saga, "old")
        await refusal(journal.append(saga, [resumed()], after=1, summary=RUNNING, lease=old), LeaseLostError)
        changed = Summary(status=SagaStatus.WAITING)
        await refusal(journal.append(saga, [resumed()], after=1, summary=changed, lease=old), LeaseLostError)
        await journal.enlist("old", TTL_S)
        await refusal(journal.append(saga, [resumed()], after=1, summary=RUNNING, lease=old), LeaseLostError)
        await other.append(saga, [resumed()], after=1, summary=RUNNING, lease=lease)
        equal(len(await entries(journal, saga)), 2)

    @rule
    async def test_an_ended_lease_is_said_before_a_stale_number(self, journal: Journal) -> None:
        saga = await begin(journal, "s", worker="old")
        (lease,) = await journal.claim("new")
        await journal.append(saga, [resumed()], after=1, summary=RUNNING, lease=lease)
        late = journal.append(saga, [resumed()], after=1, summary=RUNNING, lease=held(saga, "old"))
        await refusal(late, LeaseLostError)
        late = journal.append(saga, [resumed()], after=1, summary=RUNNING, lease=lease)
        await refusal(late, JournalConflictError)

    @rule
    async def test_a_lease_of_another_saga_opens_nothing(self, journal: Journal) -> None:
        one, two = await begin(journal, "s", worker="w"), await begin(journal, "t", worker="w")
        wrong = journal.append(two, [resumed()], after=1, summary=RUNNING, lease=held(one, "w"))
        await refusal(wrong, LeaseLostError)

    @rule
    async def test_a_saga_is_begun_under_the_first_epoch_or_none(self, journal: Journal) -> None:
        saga = SagaId("s")
        wrong = journal.append(saga, [started()], after=0, summary=RUNNING, lease=held(saga, "w", 2))
        await refusal(wrong, LeaseLostError)
        await begin(journal, "s")
        equal(await journal.claim("w"), (held(saga, "w", 1),))

    @rule
    async def test_starting_what_another_holds_is_refused(self, journal: Journal) -> None:
        saga = await begin(journal, "s", worker="w")
        again = journal.append(saga, [started()], after=0, summary=RUNNING, lease=held(saga, "x"))
        await refusal(again, JournalConflictError)
        await journal.claim("y")
        other = await self.another()
        again = other.append(saga, [started()], after=0, summary=RUNNING, lease=held(saga, "x"))
        await refusal(again, LeaseLostError)

    # -- what can be claimed ------------------------------------------------------------------------------------------

    @rule
    async def test_what_a_living_worker_holds_is_not_free(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        await begin(journal, "s", worker="w")
        self.clock.advance(TTL_S / 2)
        equal(await journal.claim("x"), ())
        equal(await journal.claim("w"), ())
        journal.renew("w", TTL_S)
        self.clock.advance(TTL_S - 1)
        equal(await journal.claim("x"), ())
        self.clock.advance(1)
        equal(sagas_of(await journal.claim("x")), ["s"])

    @rule
    async def test_setting_the_wall_clock_frees_nothing(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        await begin(journal, "s", worker="w")
        for jump in (10 * TTL_S, -100 * TTL_S):
            self.clock.jump(jump)
            equal(await journal.claim("x"), ())

    @rule
    async def test_a_retired_workers_sagas_are_free_at_once(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        saga = await begin(journal, "s", worker="w")
        await journal.retire("w")
        await journal.retire("nobody")
        # Until somebody claims it, its last word can still be written.
        await journal.append(saga, [resumed()], after=1, summary=RUNNING, lease=held(saga, "w"))
        equal(sagas_of(await journal.claim("x")), ["s"])

    @rule
    async def test_who_holds_a_saga_is_told_as_long_as_they_live(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        saga = await begin(journal, "s", worker="w")
        paused = Summary(status=SagaStatus.PAUSED)
        await journal.append(saga, [e.SagaPaused(by="a", why="")], after=1, summary=paused, lease=held(saga, "w"))
        equal([await journal.holder(saga), await journal.holder(SagaId("none"))], ["w", None])
        equal(await journal.claim("x", saga=saga), ())
        self.clock.advance(TTL_S)
        equal(await journal.holder(saga), None)
        await journal.append(saga, [resumed()], after=2, summary=RUNNING)
        equal(len(await journal.claim("x", saga=saga)), 1)

    @rule
    async def test_who_drives_is_told_with_until_when_and_of_whoever_is_gone_too(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        await journal.enlist("gone", TTL_S)
        saga, left = await begin(journal, "s", worker="w"), await begin(journal, "left", worker="gone")
        over = await begin(journal, "over", worker="w")
        ended = Summary(status=SagaStatus.COMPLETED)
        await journal.append(over, [e.SagaCompleted(result=None)], after=1, summary=ended, lease=held(over, "w"))
        await journal.retire("gone")
        self.clock.advance(TTL_S / 2)
        told = await journal.drivers([saga, left, over, SagaId("none")])
        equal(
            {name: (one.worker, one.is_gone) for name, one in told.items()}, {"s": ("w", False), "left": ("gone", True)}
        )
        equal(told[left].until_at, None)
        equal(told[saga].until_at, self.clock.now() + round(TTL_S / 2 * 1000))
        await journal.enlist("w", TTL_S)
        renewed = await journal.drivers([saga])
        equal(renewed[saga].until_at, self.clock.now() + round(TTL_S * 1000))
        self.clock.advance(TTL_S)
        lapsed = await journal.drivers([saga])
        equal((lapsed[saga].worker, lapsed[saga].is_gone, lapsed[saga].until_at), ("w", True, None))
        equal(await journal.drivers([]), {})

    @rule
    async def test_a_worker_that_comes_back_in_time_holds_what_is_left(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        for name in ("s", "t"):
            await begin(journal, name, worker="w")
        self.clock.advance(2 * TTL_S)
        await journal.enlist("x", TTL_S)
        equal(sagas_of(await journal.claim("x", limit=1)), ["s"])
        journal.renew("w", TTL_S)
        equal(await journal.claim("x"), ())

    @rule
    async def test_who_claims_is_alive_and_gets_its_own_only_by_name(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        saga = await begin(journal, "s", worker="w")
        self.clock.advance(2 * TTL_S)
        equal(await journal.claim("w"), ())
        await journal.retire("w")
        equal(await journal.claim("w"), ())
        equal(sagas_of(await journal.claim("w", saga=saga)), ["s"])

    @rule
    async def test_only_what_has_something_to_do_is_claimed(self, journal: Journal) -> None:
        for status in SagaStatus:
            await begin(journal, status, summary=Summary(status=status))
        equal(sagas_of(await journal.claim("w")), ["running", "waiting", "rolling_back"])

    @rule
    async def test_what_is_resumed_can_be_claimed_again(self, journal: Journal) -> None:
        saga = await begin(journal, "s", summary=Summary(status=SagaStatus.INCIDENT))
        equal(await journal.claim("w"), ())
        await add(journal, saga, resumed(), summary=Summary(status=SagaStatus.ROLLING_BACK))
        equal(sagas_of(await journal.claim("w")), ["s"])

    @rule
    async def test_the_epoch_rises_with_each_claim(self, journal: Journal) -> None:
        saga = await begin(journal, "s", worker="w1")
        for epoch in range(2, 6):
            equal(await journal.claim(f"w{epoch}"), (held(saga, f"w{epoch}", epoch),))

    @rule
    async def test_of_two_that_claim_at_once_one_gets_each_saga(self, journal: Journal) -> None:
        names = [f"s{number}" for number in range(10)]
        for name in names:
            await begin(journal, name)
        other = await self.another()
        for worker in ("w", "x"):
            await journal.enlist(worker, TTL_S)
        claims = [handle.claim(worker) for handle, worker in ((journal, "w"), (other, "x"))]
        one, two = await asyncio.gather(*claims)
        equal(sorted(sagas_of(one + two)), sorted(names))

    @rule
    async def test_claims_take_the_oldest_first_up_to_the_limit(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        for number in range(6):
            await begin(journal, f"s{number}", worker=f"gone{number % 3}")
        self.clock.jump(-60)
        await begin(journal, "s6")
        equal(sagas_of(await journal.claim("w", limit=4)), ["s0", "s1", "s2", "s3"])
        equal(sagas_of(await journal.claim("w", limit=4)), ["s4", "s5", "s6"])
        equal(await journal.claim("w"), ())

    @rule
    async def test_a_claim_can_name_definitions_or_one_saga(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        for name, definition in (("s", "one"), ("t", "two"), ("u", "three"), ("v", "two")):
            await begin(journal, name, definition=definition)
        equal(await journal.claim("w", definitions=[]), ())
        equal(await journal.claim("w", saga=SagaId("nobody")), ())
        equal(await journal.claim("w", saga=SagaId("u"), definitions={"two/2"}), ())
        equal(sagas_of(await journal.claim("w", saga=SagaId("v"), definitions={"two/2"})), ["v"])
        equal(await journal.claim("x", saga=SagaId("v")), ())
        equal(sagas_of(await journal.claim("w", definitions=("one/2", "two/2", "three/1"))), ["s", "t"])
        equal(sagas_of(await journal.claim("w")), ["u"])

    @rule
    async def test_a_worker_can_claim_its_own_saga_by_name(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        saga = await begin(journal, "s", worker="w")
        equal(await journal.claim("w"), ())
        equal(await journal.claim("w", saga=saga), (held(saga, "w", 2),))
        old = journal.append(saga, [resumed()], after=1, summary=RUNNING, lease=held(saga, "w"))
        await refusal(old, LeaseLostError)

    @rule
    async def test_a_claim_can_leave_the_sleepers_asleep(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        for name, wake_at in (("now", None), ("soon", 1000), ("late", 2000)):
            await begin(journal, name, summary=Summary(status=SagaStatus.WAITING, wake_at=wake_at))
        equal(await journal.claim("w", saga=SagaId("late"), due_by=1000), ())
        equal(sagas_of(await journal.claim("w", due_by=1000)), ["now", "soon"])
        equal(sagas_of(await journal.claim("w")), ["late"])

    @rule
    async def test_whoever_asks_hears_who_would_wake_and_when_and_claims_nothing(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        for name, wake_at in (("now", None), ("soon", 1000), ("late", 2000)):
            await begin(journal, name, summary=Summary(status=SagaStatus.WAITING, wake_at=wake_at))
        for name, status in (("over", SagaStatus.COMPLETED), ("stuck", SagaStatus.INCIDENT)):
            await begin(journal, name, summary=Summary(status))
        await begin(journal, "held", worker="w")
        now, soon, late = (Waking(SagaId(name), at, "") for name, at in (("now", None), ("soon", 1000), ("late", 2000)))
        has = Waking(SagaId("held"), None, "w")
        equal(await journal.waking(), (now, soon, late, has))
        equal(await journal.waking(due_by=1000), (now, soon, has))
        equal(await journal.waking(limit=2), (now, soon))
        equal(await journal.waking(after=SagaId("soon")), (late, has))
        equal(await journal.waking(saga=SagaId("late")), (late,))
        equal(await journal.waking(saga=SagaId("over")), ())
        self.clock.advance(TTL_S)
        equal(await journal.waking(saga=SagaId("held")), (has._replace(worker=""),))
        equal(sagas_of(await journal.claim("x")), ["now", "soon", "late", "held"])

    # -- nudges -------------------------------------------------------------------------------------------------------

    @rule
    async def test_the_holder_hears_of_what_others_wrote(self, journal: Journal) -> None:
        saga, quiet = await begin(journal, "s", worker="w"), await begin(journal, "t", worker="w")
        await journal.append(quiet, [resumed()], after=1, summary=RUNNING, lease=held(quiet, "w"))
        equal(journal.nudged("w"), ())
        other = await self.another()
        await other.append(saga, [resumed()], after=1, summary=RUNNING)
        equal(journal.nudged("w"), (saga,))
        equal(journal.nudged("w"), (saga,))
        equal(other.nudged("x"), ())
        await journal.append(saga, [resumed()], after=2, summary=RUNNING, lease=held(saga, "w"))
        equal(journal.nudged("w"), ())

    @rule
    async def test_a_holder_may_forget_a_saga_until_its_time_has_come(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        waiting = Summary(status=SagaStatus.WAITING)
        saga = await begin(journal, "s", worker="w", summary=waiting)
        wakes_at = self.clock.now() + 1000
        await journal.append(saga, [], after=1, summary=waiting._replace(wake_at=wakes_at), lease=held(saga, "w"))
        equal((journal.nudged("w"), journal.nudged("x")), ((), ()))
        equal(await journal.claim("w", saga=saga, due_by=wakes_at - 1), ())
        self.clock.advance(1)
        equal((journal.nudged("w"), journal.nudged("x")), ((saga,), ()))
        await journal.append(saga, [resumed()], after=1, summary=waiting, lease=held(saga, "w"))
        equal(journal.nudged("w"), ())

    @rule
    async def test_an_append_wakes_a_saga_that_waits_and_no_other(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        for name, status in (("s", SagaStatus.WAITING), ("t", SagaStatus.INCIDENT)):
            far = self.clock.now() + 3_600_000
            await begin(journal, name, worker="w", summary=Summary(status, far if name == "s" else None))
        for name in ("s", "t", "nobody"):
            child = await begin(journal, f"child-of-{name}", worker="x")
            done = Summary(SagaStatus.COMPLETED, wakes=SagaId(name))
            await journal.append(child, [resumed()], after=1, summary=done, lease=held(child, "x"))
        equal(journal.nudged("w"), (SagaId("s"),))
        await journal.retire("w")
        equal([lease.saga for lease in await journal.claim("y", due_by=self.clock.now())], [SagaId("s")])

    @rule
    async def test_a_claim_begins_without_nudges(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        await add(journal, saga, resumed())
        await journal.claim("w")
        equal(journal.nudged("w"), ())

    @rule
    async def test_a_busy_loop_does_not_lose_its_leases(self, journal: Journal) -> None:
        await journal.enlist("w", TTL_S)
        saga = await begin(journal, "s", worker="w")
        await add(journal, saga, resumed())
        self.clock.advance(TTL_S - 1)
        heard: list[SagaId] = []

        def beat() -> None:
            journal.renew("w", TTL_S)
            heard.extend(journal.nudged("w"))

        heart = threading.Thread(target=beat, daemon=True)
        heart.start()
        heart.join(60)  # the loop stands still meanwhile
        equal(heard, [saga])
        self.clock.advance(TTL_S - 1)
        equal(await journal.claim("x"), ())
