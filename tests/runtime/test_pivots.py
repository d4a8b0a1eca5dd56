"""A pivot on its way when the saga is to go back: it is waited for, and no record says rolled back over an effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amends import Coordinator, Done, Ended, Fatal, Limits, SagaDefinition, Work, action, saga, to_checkpoint
from amends.clock import SystemClock
from amends.errors import PastPivotError
from amends.gate.load import BuiltinGate
from amends.journal.memory import MemoryJournal
from amends.runtime.declare.names import login
from amends.runtime.declare.registry import Registry
from amends.runtime.settings import Settings

SENT = "a mail cannot be unsent"


class Post:
    """A mail that takes its time, and a seat."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.sent: list[str] = []
        self.seats: list[str] = []
        self.fails = False

        @action("mail.send", no_rollback=SENT)
        async def send(to: str) -> None:
            await self.goes_out(to)

        @action("mail.last", no_rollback=SENT, hold=True)
        async def send_last(to: str) -> None:
            await self.goes_out(to)

        @action("seat.book")
        async def book(seat: str) -> None:
            self.seats.append(seat)

        @book.compensation
        async def unbook(done: Done) -> None:
            self.seats.remove(done.args["seat"])

        self.send, self.send_last, self.book = send, send_last, book

    async def goes_out(self, to: str) -> None:
        self.begun.set()
        await self.may_end.wait()
        if self.fails:
            raise Fatal("no such address", happened=False)
        self.sent.append(to)


def play(scene: Callable[[Coordinator, Post], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        clock = SystemClock()
        parts: dict[str, Any] = {"journal": MemoryJournal(clock), "gate": BuiltinGate(), "clock": clock}
        settings = Settings(poll_s=0.02, park_s=0.05)
        async with asyncio.timeout(20), Coordinator(**parts, registry=Registry(), settings=settings) as on:
            return await scene(on, Post())

    return asyncio.run(whole())


def plain(post: Post) -> SagaDefinition:
    @saga("plain")
    async def work(s: Work) -> None:
        await s.do(post.book, "4C")
        await s.checkpoint("cp")
        await s.do(post.send, "ann")

    return work


def held(post: Post) -> SagaDefinition:
    @saga("held")
    async def work(s: Work) -> None:
        await s.do(post.send_last, "ann")
        await s.do(post.send_last, "bob")
        await s.do(post.book, "4C")

    return work


def beside(post: Post) -> SagaDefinition:
    @saga("beside")
    async def work(s: Work) -> None:
        await s.do(post.book, "4C")

        async def fail() -> None:
            await post.begun.wait()
            raise ValueError("the sibling failed")

        await asyncio.gather(s.do(post.send, "ann"), fail())

    return work


def in_a_limit(post: Post, limits: Limits) -> SagaDefinition:
    @saga("limited", limits=limits)
    async def work(s: Work) -> None:
        await s.do(post.book, "4C")
        if await s.checkpoint("cp") is not None:
            return

        async def spend() -> None:
            await post.begun.wait()
            await s.spend(usd=6)

        await asyncio.gather(s.do(post.send, "ann"), spend())

    return work


async def cancelled(on: Coordinator, post: Post) -> None:
    handle = await on.start(plain(post), id="s")
    await gone_back(post, on.cancel(handle.id, why="rain"))


async def released(on: Coordinator, post: Post) -> None:
    handle = await on.start(held(post), id="s")
    await gone_back(post, on.cancel(handle.id, why="rain"))


async def rolled_back_to(on: Coordinator, post: Post) -> None:
    handle = await on.start(plain(post), id="s")
    await gone_back(post, on.rollback(handle.id, to="cp", why="wrong"))


async def failed_beside(on: Coordinator, post: Post) -> None:
    handle = await on.start(beside(post), id="s")
    await gone_back(post, handle)


async def limited(on: Coordinator, post: Post) -> None:
    handle = await on.start(in_a_limit(post, Limits(usd=5)), id="s")
    await gone_back(post, handle)


async def limited_to_checkpoint(on: Coordinator, post: Post) -> None:
    handle = await on.start(in_a_limit(post, Limits(usd=5, then=to_checkpoint("cp", "the cheap one"))), id="s")
    await gone_back(post, handle)


async def gone_back(post: Post, asked: Awaitable[Ended]) -> Ended:
    """Ask while the mail is on its way; then let it go out."""
    await post.begun.wait()
    asking = asyncio.ensure_future(asked)
    await asyncio.sleep(0.05)
    post.may_end.set()
    return await asking


WAYS = [cancelled, released, rolled_back_to, failed_beside, limited, limited_to_checkpoint]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_mail_on_its_way_is_waited_for_and_then_there_is_no_way_but_forward(way: Any) -> None:
    async def scene(on: Coordinator, post: Post) -> tuple[Any, ...]:
        await way(on, post)
        state = await on.drive("s")
        (incident,) = await on.incidents()
        before = (str(state.status), incident.kind, list(post.sent), list(post.seats))
        ended = await on.resolve_incident(incident.id, reason="the mail is out", by="person:kim")
        return before, str(ended.status), post.sent, post.seats

    before, status, sent, seats = play(scene)
    kind = "limit_reached" if way is limited_to_checkpoint else "past_pivot"
    assert before == ("incident", kind, ["ann"], ["4C"])
    assert status == "completed"
    assert (sent, seats) == (["ann", "bob"] if way is released else ["ann"], ["4C"])


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_mail_that_did_not_go_out_keeps_nothing_from_going_back(way: Any) -> None:
    async def scene(on: Coordinator, post: Post) -> tuple[str, list[str], list[str]]:
        post.fails = True
        await way(on, post)
        await on.drive("s")
        return str((await on.show("s")).status), post.sent, post.seats

    status, sent, seats = play(scene)
    back_to_a_place = way in {rolled_back_to, limited_to_checkpoint}
    if way is rolled_back_to:  # done anew, it fails again, and all of it goes back
        assert (status, sent, seats) == ("rolled_back", [], [])
    else:
        assert (status, sent, seats) == (
            "completed" if back_to_a_place else "rolled_back",
            [],
            ["4C"] * back_to_a_place,
        )


def test_a_try_waits_for_the_mail_that_it_has_on_its_way_and_is_then_not_taken_back() -> None:
    async def scene(on: Coordinator, post: Post) -> tuple[Ended, list[str], list[str]]:
        @saga("tries")
        async def work(s: Work) -> str:
            sending: asyncio.Future[None] | None = None
            try:
                async for attempt in s.attempts("block", max=2):
                    async with attempt:
                        await s.do(post.book, str(attempt.number))
                        sending = asyncio.ensure_future(s.do(post.send, "ann"))
                        await post.begun.wait()
                        asyncio.get_running_loop().call_later(0.05, post.may_end.set)
                        raise ValueError("red")
            except PastPivotError as exc:
                assert sending is not None
                await sending
                return str(exc)
            return "tried again"

        return await on.run(work), post.sent, post.seats

    ended, sent, seats = play(scene)
    assert (ended.status, sent, seats) == ("completed", ["ann"], ["1"])
    assert "is not taken back: " in ended.result
    assert SENT in ended.result


def test_a_try_whose_mail_did_not_go_out_is_taken_back() -> None:
    async def scene(on: Coordinator, post: Post) -> tuple[Ended, list[str], list[str]]:
        post.fails = True

        @saga("tries")
        async def work(s: Work) -> int:
            async for attempt in s.attempts("block", max=2):
                async with attempt:
                    await s.do(post.book, str(attempt.number))
                    if attempt.number == 2:
                        return 2
                    sending = asyncio.ensure_future(s.do(post.send, "ann"))
                    sending.add_done_callback(lambda done: done.exception())
                    await post.begun.wait()
                    asyncio.get_running_loop().call_later(0.05, post.may_end.set)
                    raise ValueError("red")
            return 0

        return await on.run(work), post.sent, post.seats

    ended, sent, seats = play(scene)
    assert (ended.status, ended.result, sent, seats) == ("completed", 2, [], ["2"])


def test_a_saga_that_was_cancelled_too_late_goes_on_when_a_person_says_so() -> None:
    async def scene(on: Coordinator, post: Post) -> tuple[Ended, list[str]]:
        await cancelled(on, post)
        (incident,) = await on.incidents()
        return await on.retry_incident(incident.id, by="person:kim"), [
            line.text for line in (await on.show("s")).timeline
        ]

    ended, told = play(scene)
    assert ended.status == "completed"
    assert f"to go back (asked for by {login()}): rain; waits first for what cannot be taken back" in told
