"""Hold until settled: what cannot be taken back goes out last, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amends import Coordinator, Ended, Fatal, NotDone, Work, action, saga
from amends.errors import DeclarationError, PastPivotError
from tests.runtime.support import World, names
from tests.runtime.test_going_back import play

SENT = "a mail cannot be unsent"


def test_what_is_held_goes_out_in_order_after_the_work_has_finished() -> None:
    world = World()
    mail = world.action("mail", no_rollback=SENT, hold=True, result="sent")
    a = world.action("a")

    @saga("test.held")
    async def work(s: Work) -> list[Any]:
        first = await s.do(mail, 1)
        await s.do(mail, 2)
        await s.do(a)
        return [first, list(world.seen)]

    async def scene(on: Coordinator) -> tuple[Ended, list[str]]:
        ended = await on.run(work, id="s")
        return ended, names((await on.show("s")).entries)

    ended, told = play(scene)
    assert (ended.status, ended.result) == ("completed", [None, ["a"]])
    assert world.seen == ["a", "mail(1)", "mail(2)"]
    assert told[-6:] == [
        *("work.finished", "attempt.started", "attempt.succeeded", "attempt.started", "attempt.succeeded"),
        "saga.completed",
    ]


def test_a_rollback_drops_what_is_held_and_it_is_never_dispatched() -> None:
    world = World()
    mail, a = world.action("mail", no_rollback=SENT, hold=True), world.action("a")
    end = world.action("end", Fatal("the end", happened=False))

    @saga("test.dropped")
    async def work(s: Work) -> None:
        await s.do(a)
        await s.do(mail)
        await s.do(end)

    async def scene(on: Coordinator) -> tuple[Ended, list[str]]:
        ended = await on.run(work, id="s")
        return ended, [line.text for line in (await on.show("s")).timeline]

    ended, told = play(scene)
    assert ended.status == "rolled_back"
    assert world.seen == ["a", "end", "una"]
    assert "mail n=0 dropped, and never dispatched: the saga is rolled back" in told


def test_going_back_over_a_held_step_drops_it_and_the_next_attempt_holds_its_own() -> None:
    world = World()
    mail, a = world.action("mail", no_rollback=SENT, hold=True), world.action("a")

    @saga("test.held_in_a_block")
    async def work(s: Work) -> None:
        async for attempt in s.attempts("block", max=2):
            async with attempt:
                await s.do(a, attempt.number)
                await s.do(mail, attempt.number)
                if attempt.number == 1:
                    raise ValueError("no")

    assert play(lambda on: on.run(work)).status == "completed"
    assert world.seen == ["a(1)", "una", "a(2)", "mail(2)"]


def test_a_release_that_fails_is_tried_again_and_then_shown_to_a_person() -> None:
    world = World()
    mail = world.action("mail", *[NotDone("no route")] * 3, no_rollback=SENT, hold=True, retries=2)

    @saga("test.unreleased")
    async def work(s: Work) -> str:
        await s.do(mail)
        return "done"

    async def scene(on: Coordinator) -> tuple[Ended, Any, Ended]:
        stuck = await on.run(work)
        (incident,) = await on.incidents()
        return stuck, incident, await on.retry_incident(incident.id, by="person:ann")

    stuck, incident, ended = play(scene)
    assert stuck.status == "incident"
    assert (incident.kind, incident.step) == ("release_failed", "1")
    assert (ended.status, ended.result) == ("completed", "done")
    assert world.seen == ["mail"] * 4


def test_a_person_may_see_to_it_by_hand_and_it_is_dropped() -> None:
    world = World()
    mail = world.action("mail", *[NotDone("no route")] * 9, no_rollback=SENT, hold=True, retries=1)

    @saga("test.by_hand")
    async def work(s: Work) -> None:
        await s.do(mail)

    async def scene(on: Coordinator) -> Ended:
        stuck = await on.run(work)
        return await on.resolve_incident(stuck.incidents[0], reason="I phoned them", by="person:ann")

    assert play(scene).status == "completed"
    assert world.seen == ["mail"]


def test_once_released_it_is_a_pivot_and_before_that_it_is_none() -> None:
    world = World()
    mail, a = world.action("mail", no_rollback=SENT, hold=True), world.action("a")
    going = asyncio.Event()

    @saga("test.pivot_later")
    async def work(s: Work) -> None:
        await s.do(a)
        await s.do(mail)
        going.set()
        if len(world.seen) == 1:
            await asyncio.Event().wait()

    async def scene(on: Coordinator) -> tuple[Ended, Ended]:
        handle = await on.start(work, id="first")
        await going.wait()
        cancelled = await on.cancel("first")
        assert cancelled == await handle
        completed = await on.run(work, id="second")
        with pytest.raises(PastPivotError, match="irreversible"):
            await on.cancel("second")
        return cancelled, completed

    cancelled, completed = play(scene)
    assert (cancelled.status, completed.status) == ("rolled_back", "completed")
    assert world.seen == ["a", "una", "a", "mail"]


def test_only_what_cannot_be_taken_back_is_held() -> None:
    with pytest.raises(DeclarationError, match="hold=True is for what cannot be taken back"):
        action("test.held_in_vain", hold=True)
