"""No verb of the coordinator waits for ever where nothing is due: every kind of waiting, with every verb."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest

from amends import Complete, Coordinator, Done, SagaDefinition, Work, action, saga
from amends.clock import SystemClock
from amends.errors import RefusedError
from amends.gate.load import parse_policy
from amends.gate.policy import PolicyGate
from amends.journal.memory import Memory, MemoryJournal
from amends.runtime.declare.registry import Registry
from amends.runtime.settings import Settings

PATIENCE_S = 60
POLICY = """
version: v1
default: allow
rules:
  - id: ask
    when: {topic: "asked.*", phase: forward}
    decision: require_human
    expires: 1h
  - id: ask-for-mails
    when: {topic: "late.*", phase: forward}
    decision: require_human
    expires: 1s
"""


@action("seat.book")
async def book(seat: str) -> None:
    """Take a seat."""


@book.compensation
async def unbook(done: Done) -> None:
    """Give it back."""


@action("asked.book")
async def ask_and_book(seat: str) -> None:
    """Take a seat, if a person agrees."""


@ask_and_book.compensation
async def unbook_asked(done: Done) -> None:
    """Give it back."""


@action("mail.send", no_rollback="a mail cannot be unsent", hold=True)
async def send(to: str) -> None:
    """Goes out last."""


@action("late.send", no_rollback="a mail cannot be unsent", hold=True)
async def ask_and_send(to: str) -> None:
    """Goes out last, if a person agrees."""


class Cradle:
    """Tells of the first child that begins; each test has a loop, and so an event, of its own."""

    is_born: asyncio.Event


@saga("kid")
async def kid(s: Work) -> None:
    Cradle.is_born.set()
    await s.wait_for("never")


async def left_alone(s: Work) -> None:
    """Call a child, and go on without it soon after it has begun."""
    call = asyncio.ensure_future(s.call(kid))
    await Cradle.is_born.wait()
    await asyncio.wait({call}, timeout=0.02)
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call


@saga("signal")
async def signal(s: Work) -> None:
    await s.do(book, "4C")
    await s.wait_for("never")


@saga("time")
async def time(s: Work) -> None:
    await s.do(book, "4C")
    await s.sleep(3600)


@saga("person")
async def person(s: Work) -> None:
    await s.do(book, "4C")
    await s.do(ask_and_book, "4D")


@saga("child")
async def child(s: Work) -> None:
    await s.do(book, "4C")
    await s.call(kid)


@saga("complete_beside_a_child")
async def complete_beside_a_child(s: Work) -> None:
    await s.do(book, "4C")

    async def enough() -> None:
        await s.sleep(0.1)
        raise Complete("r")

    await asyncio.gather(s.call(kid), enough())


@saga("complete_beside_two_children")
async def complete_beside_two_children(s: Work) -> None:
    await s.do(book, "4C")

    async def enough() -> None:
        await s.sleep(0.1)
        raise Complete("r")

    await asyncio.gather(s.call(kid), s.call(kid), enough())


@saga("child_left_alone")
async def child_left_alone(s: Work) -> str:
    await s.do(book, "4C")
    await left_alone(s)
    return "enough"


@saga("child_left_alone_for_a_signal")
async def child_left_alone_for_a_signal(s: Work) -> None:
    await s.do(book, "4C")
    await left_alone(s)
    await s.wait_for("never")


@saga("release")
async def release(s: Work) -> None:
    await s.do(book, "4C")
    await s.do(send, "ann")


@saga("asked_at_release")
async def asked_at_release(s: Work) -> None:
    await s.do(book, "4C")
    await s.do(ask_and_send, "ann")
    await s.sleep(1.1)


@saga("lock", resources=["post"])
async def lock(s: Work) -> None:
    await s.do(book, "4C")


@saga("holder", resources=["post"])
async def holder(s: Work) -> None:
    await s.wait_for("never")


KINDS: list[SagaDefinition] = [
    signal,
    time,
    person,
    child,
    complete_beside_a_child,
    complete_beside_two_children,
    child_left_alone,
    child_left_alone_for_a_signal,
    release,
    asked_at_release,
    lock,
]
"""Each comes to a place where nothing is due before somebody else does something. `release` runs under a pause of its
topic, `lock` while another saga has what it needs; the approval of `asked_at_release` expires before its release."""


@asynccontextmanager
async def opened(memory: Memory) -> AsyncGenerator[Coordinator]:
    clock, registry = SystemClock(), Registry()
    settings = Settings(poll_s=0.02, park_s=0.05, settle_s=0.2, drain_s=0.2, lock_wait_s=3600)
    parts: dict[str, Any] = {
        "journal": MemoryJournal(clock, memory),
        "gate": PolicyGate(parse_policy(POLICY)),
        "clock": clock,
    }
    async with Coordinator(**parts, registry=registry, settings=settings) as on:
        for one in (*KINDS, kid, holder):
            registry.add_definition(one)
        yield on


async def begun(on: Coordinator, kind: SagaDefinition) -> str:
    """Start it, and come back when nothing is due any more."""
    if kind is release:
        await on.pause(topic="mail.*", why="a look")
    if kind is lock:
        await (await on.start(holder, id="holder")).halt()
    handle = await on.start(kind, id="s")
    ended = await handle.halt()
    if kind is asked_at_release:
        (asked,) = await on.approvals(saga="s")
        await on.grant(asked.id, by="person:kim")
        while not (await on.show("s")).saga.finished or not await on.approvals(saga="s"):
            await asyncio.sleep(0.02)
        ended = await (await on.start(kind, id="s")).halt()
    return str(ended.status)


Verb: TypeAlias = Callable[[Coordinator], Awaitable[Any]]


async def halts(on: Coordinator) -> Any:
    return await (await on.start(await definition_of(on), id="s")).halt()


async def definition_of(on: Coordinator) -> SagaDefinition:
    name = (await on.show("s")).row.definition
    return next(one for one in KINDS if one.name == name)


async def pauses(on: Coordinator) -> None:
    if (await on.show("s")).status != "paused":
        await on.pause(saga="s", why="a look")
        await on.drive("s")
    await on.unpause(everything=True)


VERBS: dict[str, Verb] = {
    "halt": halts,
    "resume": lambda on: on.resume(),
    "drive": lambda on: on.drive("s"),
    "cancel": lambda on: on.cancel("s"),
    "rollback": lambda on: on.rollback("s", last=1),
    "pause": pauses,
    "show": lambda on: on.show("s"),
    "close": lambda on: on.close(),
}


async def returned(asked: Awaitable[Any]) -> None:
    """Where it has nothing to do, it may also say so."""
    with contextlib.suppress(RefusedError):
        await asyncio.wait_for(asked, PATIENCE_S)


@pytest.mark.parametrize("again", [False, True], ids=["here", "by another process"])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_verb_returns_where_nothing_is_due(kind: SagaDefinition, verb: str, again: bool) -> None:
    async def whole() -> str:
        Cradle.is_born = asyncio.Event()
        memory = Memory()
        async with opened(memory) as on:
            status = await asyncio.wait_for(begun(on, kind), PATIENCE_S)
            if not again:
                await returned(VERBS[verb](on))
        if again:
            async with opened(memory) as on:
                await returned(VERBS[verb](on))
        return status

    assert asyncio.run(whole()) == ("paused" if kind is release else "waiting")
