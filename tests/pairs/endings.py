"""The ways to end, as data: what the saga does around or after its feature, what a person does, and how it may stand.

One line of ENDINGS is one more way to end, in a pair with every feature.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amends import (
    CallPerson,
    Complete,
    Fatal,
    Limits,
    SagaStatus,
    Work,
    check,
    to_checkpoint,
)
from amends.errors import RefusedError
from amends.journal.port.journal import PARENT
from amends.runtime.coordinator.coordinator import Coordinator
from amends.runtime.saga.rewind import Feedback
from amends.testing.crash.life import here
from tests.pairs.features import Body, act, works

ID = "crash-1"
ANN = "person:ann"
POLICIES = Path(__file__).with_name("policies")
COMPLETED, ROLLED_BACK, INCIDENT = SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK, SagaStatus.INCIDENT
Around = Callable[[Work, Body, Feedback | None], Awaitable[None]]
Act = Callable[[Coordinator], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """`around` does the feature and what comes after it. `act` is what a person does, once, `when` the saga is so:
    a status, the name of the signal that it waits for, "asked" for an approval, or "begun" for some effect in the
    middle. `before` is what they do before it is started.

    `ends`: how it stands then; `or_ends`: or so, where that is for the runtime to decide. `stands`: what does besides
    the feature, in a saga that completed. `cut`: the work may end before the feature has, so that less may stand.
    """

    name: str
    around: Around
    ends: SagaStatus
    or_ends: SagaStatus | None = None
    act: Act | None = None
    when: str = ""
    before: Act | None = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    stands: dict[str, int] = field(default_factory=lambda: {"keyed.last": 1})
    cut: bool = False


# -- the last step ----------------------------------------------------------------------------------------------------


async def _refuses(topic: str) -> None:
    raise Fatal("never", happened=False)


async def _fails_after_all(topic: str) -> None:
    await works(topic)
    raise Fatal("never again")


async def _slow(topic: str) -> str:
    await here().clock.sleep(5)
    return await works(topic)


last, extra = act("keyed.last"), act("keyed.extra")
refuses, fails_after_all, slow = (
    act("keyed.refuses", _refuses),
    act("keyed.fails", _fails_after_all),
    act("keyed.slow", _slow),
)
adopted = act("adopted.pay")


def answered(what: str = "answered") -> bool:
    """Whether a person has said so, in this life or one before."""
    return any(line.what == "note" and line.topic == what for line in here()._world.everything)


# -- what the saga does -----------------------------------------------------------------------------------------------


def then(tail: Callable[[Work, Feedback | None], Awaitable[object]]) -> Around:
    """First the feature, then this."""

    async def around(s: Work, body: Body, told: Feedback | None) -> None:
        await body(s)
        await tail(s, told)

    return around


async def _last(s: Work, told: Feedback | None) -> None:
    await s.do(last)


async def _error(s: Work, told: Feedback | None) -> None:
    raise ValueError("it was not meant to be")


async def _overspends(s: Work, told: Feedback | None) -> None:
    if told is None:
        await s.spend(usd=6)
    await s.do(last)


async def _takes_long(s: Work, told: Feedback | None) -> None:
    await s.sleep(5_000)
    await s.do(last)


def _waits_for(name: str) -> Around:
    async def tail(s: Work, told: Feedback | None) -> None:
        await s.wait_for(name)
        await s.do(last)

    return then(tail)


async def _complete(s: Work, told: Feedback | None) -> None:
    await s.do(last)
    raise Complete("enough")


async def _calls_a_person(s: Work, told: Feedback | None) -> None:
    if not answered():
        raise CallPerson("what now?")
    await s.do(last)


async def _rolls_back_the_last(s: Work, told: Feedback | None) -> None:
    await s.do(last)
    await s.do(extra)
    await s.rollback_last(1, "one too many")


async def _complete_beside(s: Work, body: Body, told: Feedback | None) -> None:
    async def enough() -> None:
        await s.sleep(0.3)
        raise Complete("enough")

    await asyncio.gather(body(s), enough())


async def _fails_beside(s: Work, body: Body, told: Feedback | None) -> None:
    async def fails() -> None:
        await s.sleep(0.02)
        raise ValueError("it went wrong beside")

    await asyncio.gather(body(s), fails())


async def _in_a_hurry(s: Work, body: Body, told: Feedback | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(0.3):
            await body(s)
    await s.do(last)


async def _in_a_block(s: Work, body: Body, told: Feedback | None) -> None:
    """The whole feature is in a block that fails once."""
    async for attempt in s.attempts("around", max=2):
        async with attempt:
            await body(s)
            if attempt.number == 1:
                raise ValueError("once more")
    await s.do(last)


def _verified(**more: Any) -> dict[str, Any]:
    def looks_right(result: object) -> bool:
        return answered()

    return {"verify": [check(looks_right, **more)]}


def _step(action: Any) -> Around:
    return then(lambda s, told: s.do(action))


def _limit(**limits: Any) -> dict[str, Any]:
    return {"limits": Limits(**limits)}


# -- what people do ---------------------------------------------------------------------------------------------------


async def cancel(c: Coordinator) -> None:
    await c.cancel(ID, why="changed my mind", by=ANN)


async def cancel_a_child(c: Coordinator) -> None:
    """What is a part of something else is cancelled behind its back."""
    async for row in c.list():
        if PARENT in row.labels:
            await c.cancel(row.id, why="changed my mind", by=ANN)


async def back_to(c: Coordinator) -> None:
    await c.rollback(ID, to="cp", why="another way", by=ANN)


async def back_by_one(c: Coordinator) -> None:
    await c.rollback(ID, last=1, why="another way", by=ANN)


async def answer_and_go_back(c: Coordinator) -> None:
    here()._world.tally("answered")
    await back_to(c)


async def raise_limit(c: Coordinator) -> None:
    await c.raise_limit(ID, why="go on", by=ANN)


async def retry(c: Coordinator) -> None:
    here()._world.tally("answered")
    async for row in c.incidents(saga=ID):
        with suppress(RefusedError):  # it may have been done: that takes a person who looks
            await c.retry_incident(row.id, by=ANN)


async def unpause(c: Coordinator) -> None:
    await c.unpause(everything=True, by=ANN)
    with suppress(RefusedError):
        await c.unpause(saga=ID, by=ANN)


async def pause_it(c: Coordinator) -> None:
    await c.pause(saga=ID, why="a look", by=ANN)


def pause(topic: str) -> Act:
    return lambda c: c.pause(topic=topic, why="a look", by=ANN)


def adopt(policy: str) -> Act:
    return lambda c: c.adopt(POLICIES / f"{policy}.yaml", by=ANN, why="a better one")


_ENDINGS = (
    Ending(name="complete", around=then(_last), ends=COMPLETED),
    Ending(name="Fatal", around=_step(refuses), ends=ROLLED_BACK),
    Ending(name="Fatal after the effect", around=_step(fails_after_all), ends=ROLLED_BACK),
    Ending(name="error", around=then(_error), ends=ROLLED_BACK),
    Ending(name="error beside it", around=_fails_beside, ends=ROLLED_BACK, cut=True),
    Ending(name="abort", around=then(lambda s, told: s.abort("no more")), ends=ROLLED_BACK),
    Ending(name="limit: rollback", around=then(_overspends), ends=ROLLED_BACK, options=_limit(usd=5)),
    Ending(
        name="limit: to a checkpoint",
        around=then(_overspends),
        ends=COMPLETED,
        options=_limit(usd=5, then=to_checkpoint("cp", "for less")),
    ),
    Ending(
        name="limit: pause, raised",
        around=then(_overspends),
        ends=COMPLETED,
        options=_limit(usd=5, then="pause"),
        when="paused",
        act=raise_limit,
    ),
    Ending(
        name="limit: pause, cancelled",
        around=then(_overspends),
        ends=ROLLED_BACK,
        options=_limit(usd=5, then="pause"),
        when="paused",
        act=cancel,
    ),
    Ending(
        name="limit: call, retried",
        around=then(_overspends),
        ends=COMPLETED,
        options=_limit(usd=5, then="call"),
        when="incident",
        act=retry,
    ),
    Ending(
        name="limit: call, cancelled",
        around=then(_overspends),
        ends=ROLLED_BACK,
        options=_limit(usd=5, then="call"),
        when="incident",
        act=cancel,
    ),
    Ending(name="limit: steps", around=then(_last), ends=ROLLED_BACK, options=_limit(steps=1)),
    Ending(name="limit: seconds", around=then(_takes_long), ends=ROLLED_BACK, options=_limit(seconds=1_000)),
    Ending(name="verify: rollback", around=then(_last), ends=ROLLED_BACK, options=_verified()),
    Ending(
        name="verify: call, retried",
        around=then(_last),
        ends=COMPLETED,
        options=_verified(on_failed="call"),
        when="incident",
        act=retry,
    ),
    Ending(
        name="verify: call, cancelled",
        around=then(_last),
        ends=ROLLED_BACK,
        options=_verified(on_failed="call"),
        when="incident",
        act=cancel,
    ),
    Ending(name="cancel: in the middle", around=then(_last), ends=ROLLED_BACK, when="begun", act=cancel, cut=True),
    Ending(
        name="cancel: a child in the middle",
        around=then(_last),
        ends=COMPLETED,
        or_ends=ROLLED_BACK,
        when="begun",
        act=cancel_a_child,
    ),
    Ending(
        name="cancel: a child of what completed",
        around=then(_last),
        ends=COMPLETED,
        or_ends=ROLLED_BACK,
        when="completed",
        act=cancel_a_child,
    ),
    Ending(name="cancel: waiting", around=_waits_for("never"), ends=ROLLED_BACK, when="never", act=cancel),
    Ending(name="cancel: completed", around=then(_last), ends=ROLLED_BACK, when="completed", act=cancel),
    Ending(name="rollback to: in the middle", around=then(_last), ends=COMPLETED, when="begun", act=back_to),
    Ending(name="rollback to: waiting", around=_waits_for("go"), ends=COMPLETED, when="go", act=back_to),
    Ending(name="rollback to: completed", around=then(_last), ends=COMPLETED, when="completed", act=back_to),
    Ending(name="rollback last: in the middle", around=then(_last), ends=COMPLETED, when="begun", act=back_by_one),
    Ending(name="rollback last: waiting", around=_waits_for("go"), ends=COMPLETED, when="go", act=back_by_one),
    Ending(name="rollback last: completed", around=then(_last), ends=COMPLETED, when="completed", act=back_by_one),
    Ending(name="rollback_last", around=then(_rolls_back_the_last), ends=COMPLETED),
    Ending(name="attempts around it", around=_in_a_block, ends=COMPLETED),
    Ending(name="Complete", around=then(_complete), ends=COMPLETED),
    Ending(name="Complete beside it", around=_complete_beside, ends=COMPLETED, stands={}, cut=True),
    Ending(name="asyncio.timeout around it", around=_in_a_hurry, ends=COMPLETED, cut=True),
    Ending(name="CallPerson, retried", around=then(_calls_a_person), ends=COMPLETED, when="incident", act=retry),
    Ending(name="CallPerson, cancelled", around=then(_calls_a_person), ends=ROLLED_BACK, when="incident", act=cancel),
    Ending(
        name="CallPerson, rolled back to",
        around=then(_calls_a_person),
        ends=COMPLETED,
        when="incident",
        act=answer_and_go_back,
    ),
    Ending(
        name="pause: of the last step",
        around=then(_last),
        ends=COMPLETED,
        before=pause("keyed.last"),
        when="paused",
        act=unpause,
    ),
    Ending(
        name="pause: of what is out for good",
        around=then(_last),
        ends=COMPLETED,
        before=pause("final.*"),
        when="paused",
        act=unpause,
    ),
    Ending(
        name="pause: of the saga",
        around=_step(slow),
        ends=COMPLETED,
        stands={"keyed.slow": 1},
        when="begun",
        act=pause_it,
    ),
    Ending(
        name="a policy that allows",
        around=_step(adopted),
        ends=COMPLETED,
        stands={"adopted.pay": 1},
        when="asked",
        act=adopt("allows"),
    ),
    Ending(name="a policy that denies", around=_step(adopted), ends=ROLLED_BACK, when="asked", act=adopt("denies")),
)
ENDINGS = {one.name: one for one in _ENDINGS}
