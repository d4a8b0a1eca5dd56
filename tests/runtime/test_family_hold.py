"""What a child holds goes out when nothing in the family can fail any more, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amends import (
    Coordinator,
    Done,
    Ended,
    Fatal,
    NotDone,
    Registry,
    SagaDefinition,
    StepError,
    Work,
    action,
    child,
    saga,
)
from amends.core.words.values import SagaId
from amends.drill.world import Account
from amends.errors import PastPivotError
from amends.journal.memory import Memory
from amends.journal.port.journal import Entry
from amends.runtime.engine.children import Children
from amends.testing.families import Families
from tests.runtime.support import QuickClock, World, coordinator, names
from tests.runtime.test_going_back import play

SENT = "a mail cannot be unsent"


class Family:
    """A child that books and has a mail sent; a parent that calls it, does more, and may fail."""

    def __init__(self, *fails: BaseException | None, mail_fails: tuple[BaseException, ...] = ()) -> None:
        self.world = World()
        self.mail = self.world.action("mail", *mail_fails, no_rollback=SENT, hold=True)
        self.a, self.b = self.world.action("a"), self.world.action("b", *fails)
        family = self

        @saga("fam.kid")
        async def kid(s: Work, number: int = 1) -> str:
            await s.do(family.mail, number)
            await s.do(family.a)
            return f"kid {number}"

        @saga("fam.middle")
        async def middle(s: Work) -> str:
            told = await s.call(kid, 2)
            await s.do(family.mail, 3)
            return str(told)

        self.kid, self.middle = kid, middle

    @property
    def seen(self) -> list[str]:
        return self.world.seen

    def top(self, *called: SagaDefinition) -> SagaDefinition:
        family = self

        @saga("fam.top")
        async def top(s: Work) -> list[Any]:
            told = [await s.call(one) for one in called]
            await s.do(family.b)
            return told

        return top


async def below(on: Coordinator, parent: str) -> list[tuple[str, str]]:
    return [(row.id, str(row.status)) async for row in on.list(parent=parent)]


def test_a_child_s_mail_goes_out_after_its_parent_has_done_its_work() -> None:
    fam = Family()

    async def scene(on: Coordinator) -> tuple[Ended, list[tuple[str, str]], list[str], list[str]]:
        ended = await on.run(fam.top(fam.kid), id="t")
        (kid,) = await below(on, "t")
        return ended, [kid], names((await on.show("t")).entries), names((await on.show(kid[0])).entries)

    ended, kids, of_top, of_kid = play(scene)
    assert (ended.status, ended.result) == ("completed", ["kid 1"])
    assert fam.seen == ["a", "b", "mail(1)"]
    assert [status for _, status in kids] == ["completed"]
    assert of_top[-4:] == ["work.finished", "release.started", "release.ended", "saga.completed"]
    assert of_kid[-5:] == ["work.finished", "family.settled", "attempt.started", "attempt.succeeded", "saga.completed"]


def test_a_parent_that_fails_has_its_child_s_mail_dropped() -> None:
    fam = Family(Fatal("no", happened=False))

    async def scene(on: Coordinator) -> tuple[Ended, list[tuple[str, str]], list[str]]:
        ended = await on.run(fam.top(fam.kid), id="t")
        kids = await below(on, "t")
        return ended, kids, [line.text for line in (await on.show(kids[0][0])).timeline]

    ended, kids, told = play(scene)
    assert (ended.status, [status for _, status in kids]) == ("rolled_back", ["rolled_back"])
    assert fam.seen == ["a", "b", "una"]
    assert any("dropped, and never dispatched" in line for line in told)


def test_all_below_hold_until_the_root_has_done_its_work_and_release_in_the_order_of_their_calls() -> None:
    fam = Family()
    ended = play(lambda on: on.run(fam.top(fam.middle, fam.kid)))
    assert (ended.status, ended.result) == ("completed", ["kid 2", "kid 1"])
    assert fam.seen == ["a", "a", "b", "mail(2)", "mail(3)", "mail(1)"]


def test_a_group_holds_too() -> None:
    fam = Family()

    @saga("fam.group")
    async def group(s: Work) -> list[Any]:
        told = await s.call_all([child(fam.kid, 1), child(fam.kid, 2)])
        await s.do(fam.b)
        return told

    ended = play(lambda on: on.run(group))
    assert (ended.status, ended.result) == ("completed", ["kid 1", "kid 2"])
    assert fam.seen[:3] == ["a", "a", "b"]
    assert sorted(fam.seen[3:]) == ["mail(1)", "mail(2)"]


def test_what_a_group_has_taken_back_is_not_released() -> None:
    fam = Family()
    bad = fam.world.action("bad", Fatal("no", happened=False))

    @saga("fam.bad")
    async def fails(s: Work) -> None:
        await s.do(bad)

    @saga("fam.group")
    async def group(s: Work) -> str:
        try:
            await s.call_all([child(fam.kid, 1), child(fails)])
        except StepError:
            await s.do(fam.b)
        return "without"

    ended = play(lambda on: on.run(group))
    assert (ended.status, ended.result) == ("completed", "without")
    assert "mail(1)" not in fam.seen


def test_until_the_first_release_all_of_it_can_be_cancelled_and_afterwards_nothing() -> None:
    fam = Family()

    @saga("fam.waits")
    async def waits(s: Work) -> None:
        await s.call(fam.kid)
        await s.wait_for("go")

    async def scene(on: Coordinator) -> tuple[list[str], Ended, Ended]:
        early = await on.start(waits, id="early")
        await early.halt()
        resting = [status for _, status in await below(on, "early")]
        cancelled = await on.cancel("early")
        done = await on.start(waits, id="done")
        await done.halt()
        await on.signal("done", "go")
        ended = await done
        with pytest.raises(PastPivotError, match="what the child of step 1 held goes out"):
            await on.cancel("done")
        return resting, cancelled, ended

    resting, cancelled, ended = play(scene)
    assert resting == ["waiting"]
    assert (cancelled.status, ended.status) == ("rolled_back", "completed")
    assert fam.seen == ["a", "una", "a", "mail(1)"]


def test_a_release_that_fails_is_the_child_s_incident_and_its_parent_waits_for_it() -> None:
    fam = Family(mail_fails=(Fatal("no such address", happened=False),))

    async def scene(on: Coordinator) -> tuple[Ended, str, Ended]:
        handle = await on.start(fam.top(fam.kid), id="t")
        halted = await handle.halt()
        (incident,) = await on.incidents()
        await on.retry_incident(incident.id)
        return halted, incident.kind, await handle

    halted, kind, ended = play(scene)
    assert (halted.status, kind, ended.status) == ("waiting", "release_failed", "completed")
    assert fam.seen == ["a", "b", "mail(1)", "mail(1)"]


def test_a_parent_brought_to_its_end_by_hand_lets_its_children_s_mails_go_out() -> None:
    fam = Family()
    pivot = fam.world.action("pivot", no_rollback="done is done")

    @saga("fam.past")
    async def past(s: Work) -> None:
        await s.call(fam.kid)
        await s.do(pivot)
        raise ValueError("past it")

    async def scene(on: Coordinator) -> tuple[Ended, list[tuple[str, str]]]:
        await on.run(past, id="t")
        (incident,) = await on.incidents()
        ended = await on.resolve_incident(incident.id, reason="seen to")
        return ended, await below(on, "t")

    ended, kids = play(scene)
    assert (ended.status, [status for _, status in kids]) == ("completed", ["completed"])
    assert fam.seen == ["a", "pivot", "mail(1)"]


def test_another_process_releases_what_a_child_holds() -> None:
    fam, memory, clock, registry = Family(NotDone("busy")), Memory(), QuickClock(), Registry()

    @saga("fam.waits")
    async def waits(s: Work) -> None:
        await s.call(fam.middle)
        await s.wait_for("go")

    async def one() -> None:
        async with coordinator(memory, clock=clock, registry=registry) as on:
            await (await on.start(waits, id="t")).halt()
            await on.signal("t", "go")

    async def two() -> str:
        async with coordinator(memory, clock=clock, registry=registry) as on:
            await on.resume()
            return str((await on.show("t")).status)

    asyncio.run(one())
    assert asyncio.run(two()) == "completed"
    assert fam.seen == ["a", "mail(2)", "mail(3)"]


def test_a_child_that_cannot_be_taken_back_completes_without_what_it_held() -> None:
    fam = Family(Fatal("no", happened=False))
    pivot = fam.world.action("pivot", no_rollback="done is done")

    @saga("fam.final")
    async def final(s: Work) -> None:
        await s.call(fam.kid)
        await s.do(fam.mail, 7)
        await s.do(pivot)

    async def scene(on: Coordinator) -> tuple[Ended, list[str], list[str]]:
        ended = await on.run(fam.top(final), id="t")
        (kid,) = await below(on, "t")
        return ended, [kid[1]], [status for _, status in await below(on, kid[0])]

    ended, kids, grandkids = play(scene)
    assert (ended.status, kids, grandkids) == ("incident", ["completed"], ["completed"])
    assert fam.seen == ["a", "pivot", "b"]


# -- a clock that is set while a family goes back -----------------------------------------------------------------


async def judged(on: Coordinator) -> list[str]:
    """What the judge of families says of a journal."""
    histories: dict[SagaId, list[Entry]] = {}
    order: list[tuple[SagaId, int]] = []
    async for logged in on.journal.log():
        histories.setdefault(logged.entry.saga, []).append(logged.entry)
        order.append((logged.entry.saga, logged.entry.number))
    accounts = {name: Account(tuple(entries)) for name, entries in histories.items()}
    return list(Families(accounts, order, ()).complaints())


class LateFamily(Family):
    """Its last step is taken back while somebody sets the clock past the window of the rollback, once."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.is_set = QuickClock(), False
        family = self

        @action("fam.slow")
        async def slow() -> None:
            raise Fatal("in doubt")

        @slow.compensation
        async def unslow(done: Done) -> None:
            if not family.is_set:
                family.is_set = True
                family.clock.jump(3_600)

        self.b = slow


def test_a_window_that_passes_before_a_resting_child_has_its_turn_calls_a_person_because_of_the_time() -> None:
    fam = LateFamily()

    async def scene(on: Coordinator) -> None:
        assert (await on.run(fam.top(fam.kid), id="t")).status == "incident"
        (incident,) = await on.incidents()
        assert (incident.kind, incident.left) == ("compensation_timed_out", ("1",))
        assert await below(on, "t") == [("t~1", "waiting")]
        assert await judged(on) == []
        assert (await on.retry_incident(incident.id, by="person:ann")).status == "rolled_back"
        assert await below(on, "t") == [("t~1", "rolled_back")]
        assert fam.seen == ["a", "una"]

    play(scene, clock=fam.clock)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_resting_child_that_its_parent_fails_to_stop_is_still_a_complaint(
    is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fam = Family(Fatal("no", happened=False))
    clock = QuickClock()

    async def fails(self: Children, done: Done) -> None:
        if is_late:
            clock.jump(3_600)
            raise OSError("it was in the way")
        raise Fatal("it is in the way", happened=False)

    async def scene(on: Coordinator) -> None:
        monkeypatch.setattr(Children, "take_back", fails)
        assert (await on.run(fam.top(fam.kid), id="t")).status == "incident"
        (incident,) = await on.incidents()
        assert incident.kind == ("compensation_timed_out" if is_late else "compensation_failed")
        assert await judged(on) == ["saga t calls a person because of its child t~1, which is running"]

    play(scene, clock=clock)
