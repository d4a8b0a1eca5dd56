"""The features of the language, as data: what each does within a saga, and what stands of it when all went well.

One line of FEATURES is one more feature, in a pair with every ending. Topics say which provider is meant: `plain.*`
knows no key again, all others do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amends import (
    Action,
    Asked,
    Done,
    Flawed,
    Happened,
    NotHappened,
    SagaDefinition,
    Step,
    StepFailedError,
    StepLostError,
    Work,
    child,
    register,
)
from amends.changeset import Files
from amends.testing.crash.life import here

Body = Callable[[Work], Awaitable[object]]
DOCUMENT = "pairs"
DESK = "desk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """`stands`: how often the effect of each topic stands once the saga has completed. `document`: what DOCUMENT holds
    then. `file`: what its file holds. `final`: something of it cannot be taken back once the saga has completed.
    """

    name: str
    body: Body
    stands: dict[str, int] = field(default_factory=dict[str, int])
    document: object = None
    file: str | None = None
    final: bool = False


# -- actions ----------------------------------------------------------------------------------------------------------


async def works(topic: str) -> str:
    await here().clock.sleep(0.05)
    await here().effect(topic, honours_keys=not topic.startswith("plain."))
    return topic


async def takes_back(topic: str, done: Done) -> None:
    await here().undo(topic, done, honours_keys=not topic.startswith("plain."))


async def lost_at_first(topic: str) -> str:
    """The first call takes effect, and its answer is lost."""
    early = await here().tally(topic) == 1
    await works(topic)
    if early:
        raise ConnectionError("the line went dead")
    return topic


async def always_lost(topic: str) -> str:
    await works(topic)
    raise ConnectionError("the line went dead")


def act(
    topic: str, how: Callable[[str], Awaitable[Any]] = works, *, probe: bool = False, **contract: Any
) -> Action[..., Any]:
    async def action(n: int = 0) -> Any:
        return await how(topic)

    async def compensation(done: Done) -> None:
        await takes_back(topic, done)

    async def ask(asked: Asked) -> Happened | NotHappened:
        return Happened("probed") if await here().stands(topic, asked) else NotHappened()

    contract.setdefault("idempotent", not topic.startswith("plain."))
    return register(
        topic,
        action,
        compensation=None if "no_rollback" in contract else compensation,
        probe=ask if probe else None,
        timeout=10,
        **contract,
    )


a, b, c, kid_does = act("keyed.a"), act("keyed.b"), act("keyed.c"), act("keyed.kid")
held = act("final.mail", no_rollback="a mail cannot be unsent", probe=True, hold=True)
locked = act("keyed.locked", resources=[DESK])
lost_probed = act("plain.probed", lost_at_first, probe=True)
lost_plain = act("plain.lost", always_lost)
lost_keyed = act("keyed.lost", lost_at_first)
pay = act("approved.pay")


async def _look(n: int) -> str:
    """The first answer never comes, and the second is no good."""
    if await here().tally("read.look") == 1:
        await here().clock.sleep(60)
    return "bad"


look = register("read.look", _look, read_only=True, timeout=5)


def _look_closely(result: str) -> None:
    raise Flawed("no good")


look.validate(tries=2)(_look_closely)


def _write(files: Files, text: str) -> None:
    files.write_text("note", text)


write = register("files.write", _write)


# -- children ---------------------------------------------------------------------------------------------------------


def kid(name: str, body: Body) -> SagaDefinition:
    async def work(s: Work, n: int = 1) -> int:
        await body(s)
        return n

    return SagaDefinition(f"pairs.{name}", function=work)


async def _one(s: Work) -> None:
    await s.do(kid_does)


async def _two_levels(s: Work) -> None:
    await s.do(kid_does)
    await s.call(KID, 2)


async def _holds(s: Work) -> None:
    await s.do(kid_does)
    await s.do(held)


async def _keeps(s: Work) -> None:
    await s.documents.set(DOCUMENT, "the child's")
    await s.do(kid_does)


async def _locks(s: Work) -> None:
    await s.do(locked)


async def _waits(s: Work) -> None:
    await s.wait_for("paid")
    await s.do(kid_does)


async def _many(s: Work) -> None:
    for n in range(12):
        await s.do(kid_does, n)
        await s.sleep(0.2)


KID, PARENT_KID = kid("kid", _one), kid("two_levels", _two_levels)
HOLDS, KEEPS, LOCKS, WAITS, MANY = (
    kid("holds", _holds),
    kid("keeps", _keeps),
    kid("locks", _locks),
    kid("waits", _waits),
    kid("many", _many),
)
GRAPH = SagaDefinition(
    "pairs.graph",
    [Step(a, {}, name="a", after=[]), Step(b, {}, name="b", after=["a"]), Step(c, {}, name="c", after=["a"])],
)
CHILDREN = (KID, PARENT_KID, HOLDS, KEEPS, LOCKS, WAITS, MANY, GRAPH)


# -- what each does ---------------------------------------------------------------------------------------------------


async def sequence(s: Work) -> None:
    await s.do(a)
    await s.do(b)


async def gather(s: Work) -> None:
    await asyncio.gather(s.do(a), s.do(b))


async def call_all(s: Work) -> None:
    await s.call_all([child(KID, 1), child(KID, 2)])


async def attempts(s: Work) -> None:
    async for attempt in s.attempts("try", max=2):
        async with attempt:
            await s.do(a)
            if attempt.number == 1:
                raise ValueError("red")


async def attempts_with_call(s: Work) -> None:
    async for attempt in s.attempts("try", max=2):
        async with attempt:
            await s.call(KID)
            if attempt.number == 1:
                raise ValueError("red")


async def rollback_to(s: Work) -> None:
    await s.checkpoint("here")
    await s.do(a)
    await s.rollback_to("here", "another way")
    await s.do(b)


async def rollback_to_over_a_call(s: Work) -> None:
    await s.checkpoint("here")
    await s.call(PARENT_KID)
    await s.rollback_to("here", "another way")
    await s.call(KID)


async def documents(s: Work) -> None:
    await s.documents.set(DOCUMENT, "first")
    await s.documents.set(DOCUMENT, "second")


async def documents_in_a_child(s: Work) -> None:
    await s.documents.set(DOCUMENT, "before")
    await s.call(KEEPS)
    await s.documents.set(DOCUMENT, "after")


async def locks(s: Work) -> None:
    await s.do(locked)
    await s.lock("chair")


async def locks_in_a_child(s: Work) -> None:
    await s.lock(DESK)
    await s.call(LOCKS)


async def lost_without_probe(s: Work) -> None:
    try:
        await s.do(lost_plain)
    except StepLostError as exc:
        await s.settle(exc)


async def read_only_lost(s: Work) -> None:
    try:
        await s.do(look, 1)
    except StepFailedError:
        await s.do(a)


async def ask_ahead(s: Work) -> None:
    await s.ask(pay, 7)
    await s.do(a)
    await s.do(pay, 7)


async def ask_ahead_in_attempts(s: Work) -> None:
    await s.ask(pay, 7)
    async for attempt in s.attempts("try", max=2):
        async with attempt:
            await s.do(pay, 7)
            if attempt.number == 1:
                raise ValueError("red")


async def ask_ahead_of_a_checkpoint(s: Work) -> None:
    await s.ask(pay, 7)
    await s.checkpoint("here")
    await s.do(pay, 7)
    await s.rollback_to("here", "another way")
    await s.do(a)


async def sleep(s: Work) -> None:
    await s.do(a)
    await s.sleep(30)


async def branches(s: Work) -> None:
    async def waits() -> None:
        await s.wait_for("paid")
        await s.do(a)

    async def sleeps() -> None:
        await s.sleep(3)
        await s.do(b)

    await asyncio.gather(waits(), s.call(WAITS), sleeps())


async def files(s: Work) -> None:
    layer = s.files(here_tree())
    await s.do(write, layer, "new")
    await s.land(layer, "a note")


def here_tree() -> Path:
    return Path(str(getattr(here(), "tree")))  # noqa: B009 - a life of these tests has one


def done(action: Action[..., Any]) -> Callable[[Work], Coroutine[Any, Any, Any]]:
    return lambda s: s.do(action)


def called(definition: SagaDefinition) -> Callable[[Work], Coroutine[Any, Any, Any]]:
    return lambda s: s.call(definition)


_FEATURES = (
    Feature(name="sequence", body=sequence, stands={"keyed.a": 1, "keyed.b": 1}),
    Feature(name="gather", body=gather, stands={"keyed.a": 1, "keyed.b": 1}),
    Feature(name="graph as child", body=called(GRAPH), stands={"keyed.a": 1, "keyed.b": 1, "keyed.c": 1}),
    Feature(name="call", body=called(KID), stands={"keyed.kid": 1}),
    Feature(name="call of two levels", body=called(PARENT_KID), stands={"keyed.kid": 2}),
    Feature(name="call of many steps", body=called(MANY), stands={"keyed.kid": 12}),
    Feature(name="call_all", body=call_all, stands={"keyed.kid": 2}),
    Feature(name="attempts", body=attempts, stands={"keyed.a": 1}),
    Feature(name="attempts and call", body=attempts_with_call, stands={"keyed.kid": 1}),
    Feature(name="rollback_to", body=rollback_to, stands={"keyed.b": 1}),
    Feature(name="rollback_to over a call", body=rollback_to_over_a_call, stands={"keyed.kid": 1}),
    Feature(name="hold", body=done(held), stands={"final.mail": 1}, final=True),
    Feature(name="hold in a child", body=called(HOLDS), stands={"keyed.kid": 1, "final.mail": 1}, final=True),
    Feature(name="documents", body=documents, document="second"),
    Feature(name="documents in a child", body=documents_in_a_child, stands={"keyed.kid": 1}, document="after"),
    Feature(name="locks", body=locks, stands={"keyed.locked": 1}),
    Feature(name="locks in a child", body=locks_in_a_child, stands={"keyed.locked": 1}),
    Feature(name="lost with a probe", body=done(lost_probed), stands={"plain.probed": 1}),
    Feature(name="lost without a probe", body=lost_without_probe),
    Feature(name="lost and idempotent", body=done(lost_keyed), stands={"keyed.lost": 1}),
    Feature(name="lost and read-only", body=read_only_lost, stands={"keyed.a": 1}),
    Feature(name="signal", body=lambda s: s.wait_for("paid")),
    Feature(name="signal in a child", body=called(WAITS), stands={"keyed.kid": 1}),
    Feature(name="approval", body=lambda s: s.do(pay, 7), stands={"approved.pay": 1}),
    Feature(name="ask ahead", body=ask_ahead, stands={"keyed.a": 1, "approved.pay": 1}),
    Feature(name="ask ahead in attempts", body=ask_ahead_in_attempts, stands={"approved.pay": 1}),
    Feature(name="ask ahead of a checkpoint", body=ask_ahead_of_a_checkpoint, stands={"keyed.a": 1}),
    Feature(name="sleep", body=sleep, stands={"keyed.a": 1}),
    Feature(name="branches", body=branches, stands={"keyed.a": 1, "keyed.b": 1, "keyed.kid": 1}),
    Feature(name="files", body=files, file="new"),
)
FEATURES = {one.name: one for one in _FEATURES}
