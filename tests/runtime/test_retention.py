"""Retention: what old sagas held goes, what proves that they were stays, and what somebody needs is not touched."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from amends import Fatal, SagaStatus, Work, saga
from amends.addresses import open_journal
from amends.clock import SystemClock
from amends.core.words.values import SagaId
from amends.errors import InputError, PayloadRemovedError, RefusedError, UnknownSagaError
from amends.evidence.verify.examine import Conclusion
from amends.evidence.verify.verify import verify_journal
from amends.gate.load import BuiltinGate
from amends.journal.memory import Memory
from amends.journal.sqlite import SqliteJournal
from amends.runtime.coordinator.coordinator import Coordinator
from amends.runtime.declare.registry import Registry
from amends.testing.clock import ManualClock
from tests.runtime.support import QuickClock, World, coordinator
from tests.runtime.test_waiting import PARKED, driven

DAY = 86_400.0


class Ground:
    def __init__(self) -> None:
        self.world = World()
        self.clock: ManualClock = ManualClock()
        self._memory = Memory()
        self.act = self.world.action("act", result="a secret of somebody's")
        self.fails = self.world.action("fails", Fatal("no"), undo=[Fatal("never")])

        @saga("test.done")
        async def done(s: Work, word: str = "") -> str:
            result: str = await s.do(self.act)
            return result

        @saga("test.waits")
        async def waits(s: Work) -> None:
            await s.wait_for("go")

        @saga("test.stuck")
        async def stuck(s: Work) -> None:
            await s.do(self.fails)

        self.done, self.waits, self.stuck = done, waits, stuck

    def open(self) -> Coordinator:
        return coordinator(self._memory, settings=PARKED, clock=self.clock)


async def pruned(process: Coordinator) -> set[str]:
    return {row.id for row in [row async for row in process.list()] if row.pruned}


@driven
async def test_what_ended_long_ago_is_pruned_and_nothing_else() -> None:
    ground = Ground()
    async with ground.open() as process:
        await process.run(ground.done, id="old")
        await (await process.start(ground.waits, id="waits")).halt()
        assert (await process.run(ground.stuck, id="stuck")).status is SagaStatus.INCIDENT
        await process.pause(topic="none", why="a fact that has to stay")
        ground.clock.advance(90 * DAY)
        await process.run(ground.done, id="new")
        assert (await process.prune("90d", dry_run=True)).left == 0
        ground.clock.advance(1)
        assert (await process.prune("90d", dry_run=True)).left == 1
        done = await process.prune("90d")
        assert (done.sagas, done.left) == (1, 0)
        assert await pruned(process) == {"old"}
        assert (await process.prune(0.0, dry_run=True)).left == 1
        assert await process.paused() != []
        assert (await process.prune(timedelta(days=90))).sagas == 0


@driven
async def test_a_pruned_saga_says_so_and_shows_what_is_left_of_it() -> None:
    ground = Ground()
    async with ground.open() as process:
        await process.run(ground.done, "hello", id="old", labels={"team": "a"})
        ground.clock.advance(1)
        await process.prune(0.0)
        history = await process.show("old")
        assert (history.pruned, history.row.pruned, history.status) == (True, True, SagaStatus.COMPLETED)
        assert [line.text for line in history.timeline] == [
            "entry 1, saga.started: what it held was removed",
            "entry 2, action.dispatched: what it held was removed",
            "entry 3, attempt.succeeded: what it held was removed",
            "entry 4, saga.completed: what it held was removed",
            "what entries 1 to 4 held was removed by system:local: it ended more than 0.0 ago",
        ]
        with pytest.raises(PayloadRemovedError, match="what it held was removed"):
            await process.cancel("old")


@driven
async def test_a_hold_keeps_a_saga_until_it_is_lifted() -> None:
    ground = Ground()
    async with ground.open() as process:
        await process.run(ground.done, id="held")
        await process.run(ground.done, id="labelled", labels={"hold": "case 7"})
        await process.run(ground.done, id="kept", labels={"customer": "acme"})
        await process.run(ground.done, id="other", labels={"customer": "emca"})
        await process.retain("held", why="a court asks", by="person:ann")
        ground.clock.advance(1)
        assert await process.retained() == {"held": "a court asks"}
        await process.prune(0.0, keep=["customer=acme"])
        assert await pruned(process) == {"other"}
        await process.prune(0.0, keep=["customer"])
        assert await pruned(process) == {"other"}
        await process.lift("held", by="person:ann")
        await process.prune(0.0)
        assert await pruned(process) == {"other", "held", "kept"}
        with pytest.raises(RefusedError, match="saga held is pruned: what it held was removed"):
            await process.retain("held", why="too late")


@driven
async def test_a_prune_does_a_bounded_amount_of_work_and_says_what_is_left() -> None:
    ground = Ground()
    async with ground.open() as process:
        for n in range(7):
            await process.run(ground.done, id=f"s-{n}")
        ground.clock.advance(1)
        done = [await process.prune(0.0, limit=3) for _ in range(3)]
    assert [(one.sagas, one.left) for one in done] == [(3, 4), (3, 1), (1, 0)]


@driven
async def test_what_makes_no_sense_is_refused() -> None:
    ground = Ground()
    bad: Any
    async with ground.open() as process:
        for bad in ("soon", "-3d", -1, float("nan"), None, True):
            with pytest.raises(InputError, match="is no age"):
                await process.prune(bad)
        with pytest.raises(InputError, match="does not say in which zone"):
            await process.prune(datetime(2026, 3, 31))  # noqa: DTZ001 - the point
        assert (await process.prune(datetime(2026, 3, 31, tzinfo=UTC))).sagas == 0
        with pytest.raises(InputError, match="prune at least one saga"):
            await process.prune("1d", limit=0)
        with pytest.raises(InputError, match="give a list of labels"):
            await process.prune("1d", keep="hold")
        with pytest.raises(InputError, match="a hold needs a reason"):
            await process.retain("x", why="")
        with pytest.raises(UnknownSagaError):
            await process.retain("x", why="a court asks")
        with pytest.raises(RefusedError, match="saga x is not held; held are: none"):
            await process.lift("x")


# -- on a real file --------------------------------------------------------------------------------------------------


@driven
async def test_the_file_gets_smaller_and_what_is_left_still_verifies(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    world, clock = World(), SystemClock()
    acts = [world.action(f"act-{n}", result="x" * 200 + random.Random(n).randbytes(6_000).hex()) for n in range(400)]
    large = world.action("large", result="y" * 400_000)

    @saga("test.bulky")
    async def bulky(s: Work, n: int) -> None:
        for _ in range(4):
            await s.do(acts[n], n)
        if n % 50 == 0:
            await s.do(large)

    def opened(journal: Any) -> Coordinator:
        return Coordinator(journal=journal, gate=BuiltinGate(), clock=clock, registry=Registry())

    async with opened(await open_journal(str(path), clock)) as process:
        for n in range(400):
            await process.run(bulky, n, id=f"s-{n}", labels={"hold": "case 7"} if n == 399 else None)
    before = path.stat().st_size
    async with opened(await open_journal(str(path), clock)) as process:
        done = await process.prune(0.0, limit=1_000)
        assert (done.sagas, done.left) == (399, 0)
        assert (await process.show("s-399")).saga.result is None
        assert not (await process.show("s-399")).pruned
    after = path.stat().st_size
    assert after < before / 3, (before, after)
    assert b"xxxxxxxx" * 20 in path.read_bytes(), "the saga that is held is still there"
    journal = await SqliteJournal.open(path, clock)
    try:
        report = await verify_journal(journal)
        assert report.conclusion is Conclusion.COVERED, report
    finally:
        await journal.close()


@driven
async def test_a_file_of_small_sagas_gets_smaller_too(tmp_path: Path) -> None:
    """What an entry held was often shorter than the text of its digest, which was left in its place."""
    path = tmp_path / "journal.db"
    world, clock = World(), SystemClock()
    act = world.action("act")

    @saga("test.small")
    async def small(s: Work, n: int) -> None:
        for _ in range(5):
            await s.do(act, n)

    def opened(journal: Any) -> Coordinator:
        return Coordinator(journal=journal, gate=BuiltinGate(), clock=clock, registry=Registry())

    async with opened(await open_journal(str(path), clock)) as process:
        await asyncio.gather(*(process.run(small, n, id=f"s-{n}") for n in range(300)))
    before = path.stat().st_size
    async with opened(await open_journal(str(path), clock)) as process:
        assert (await process.prune(0.0)).sagas == 300
        assert (await process.show("s-7")).pruned
    after = path.stat().st_size
    assert after < 0.75 * before, (before, after)
    journal = await SqliteJournal.open(path, clock)
    try:
        assert (await verify_journal(journal)).conclusion is Conclusion.COVERED
    finally:
        await journal.close()


@driven
async def test_a_child_is_kept_as_long_as_its_parent_may_take_it_back() -> None:
    ground = Ground()

    @saga("test.parent")
    async def parent(s: Work) -> None:
        await s.call(ground.done)
        await s.wait_for("go")
        raise Fatal("and back")

    async with ground.open() as process:
        handle = await process.start(parent, id="p")
        assert (await handle.halt()).status == "waiting"
        ground.clock.advance(100 * DAY)
        assert (await process.prune("90d")).sagas == 0
        await process.signal("p", "go", None)
        assert (await handle).status == "rolled_back"
        assert ground.world.seen == ["act", "unact"]
        ground.clock.advance(100 * DAY)
        await process.prune("90d")
        assert await pruned(process) == {"p", "p~1"}


@driven
async def test_a_grandchild_is_kept_while_a_child_above_it_needs_a_person_and_its_root_is_long_over() -> None:
    """The person may have the child's rollback go on, which takes the grandchild back."""
    ground = Ground()
    ground.clock = QuickClock()
    locked = ground.world.action("locked", undo=[ValueError("locked")], compensation_retries=1)

    @saga("test.child")
    async def child(s: Work) -> None:
        await s.call(ground.done)
        await s.do(locked)
        raise Fatal("and back")

    @saga("test.parent")
    async def parent(s: Work) -> None:
        await s.call(child)

    async with ground.open() as process:
        handle = await process.start(parent, id="p")
        await handle.halt()
        assert (await process.cancel("p")).status == "incident"
        await process.resolve_incident("p/1", reason="the child is seen to by itself", by="person:ann")
        ground.clock.advance(100 * DAY)
        await process.prune("90d")
        assert await pruned(process) == set(), "a family stays whole"
        assert (await process.retry_incident("p~1/1", by="person:ann")).status == "rolled_back"
        assert ground.world.seen == ["act", "locked", "unlocked", "unlocked", "unact"]


@driven
async def test_a_child_of_a_pruned_parent_cannot_be_taken_back_alone() -> None:
    ground = Ground()

    @saga("test.parent")
    async def parent(s: Work) -> None:
        await s.call(ground.done)

    async with ground.open() as process:
        await process.run(parent, id="p")
        ground.clock.advance(100 * DAY)
        aged: dict[str, Any] = {"by": "system:local", "why": "by an older version", "ended_before": ground.clock.now()}
        await process.journal.remove_payloads(**aged, sagas={SagaId("p")})
        assert await pruned(process) == {"p"}
        with pytest.raises(RefusedError, match="the parent is pruned, so neither can be taken back any more"):
            await process.cancel("p~1")


@driven
async def test_the_names_that_it_had_before_still_work_and_say_the_new_ones() -> None:
    ground = Ground()
    async with ground.open() as process:
        await process.run(ground.done, id="kept")
        with pytest.warns(DeprecationWarning, match="coordinator.hold is coordinator.retain now"):
            await process.hold("kept", why="a court asks")
        with pytest.warns(DeprecationWarning, match="coordinator.holds is coordinator.retained now"):
            assert await process.holds() == {"kept": "a court asks"}
