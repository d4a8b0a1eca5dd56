"""More of what the enumeration runs: what agents are held to. Assertions, flawed answers, sources, limits."""

from contextlib import suppress
from typing import Any

from amends import Limits, NotDone, SagaDefinition, StepFailedError, Work, check, saga, to_checkpoint
from amends.runtime.coordinator.coordinator import Coordinator
from amends.testing.crash.crash import here
from tests.crash.scenarios import (
    COMPLETED,
    ID,
    INCIDENT,
    ROLLED_BACK,
    act,
    always,
    keyed_a,
    plain_b,
    read,
    reads,
    scenario,
    slow,
    works,
)

# -- verify= ---------------------------------------------------------------------------------------------------------


async def stands(result: Any) -> bool:
    await here().reach("asserted: stands")
    return bool(result == "done")


async def never_stands() -> bool:
    await here().reach("asserted: never stands")
    return False


async def stands_at_last() -> bool:
    return await here().tally("asserted: at last") > 1


@scenario("the work is verified", COMPLETED, ROLLED_BACK, declared={"verify": [stands]})
async def verified(s: Work) -> str:
    await s.do(keyed_a, 1)
    await s.do(plain_b, 2)
    return "done"


@scenario("the work is done, and not as it should be", ROLLED_BACK, declared={"verify": [stands, never_stands]})
async def unverified(s: Work) -> str:
    await s.do(keyed_a, 1)
    await s.do(plain_b, 2)
    return "done"


async def retry_what_is_open(coordinator: Coordinator) -> None:
    for row in await coordinator.incidents():
        await coordinator.retry_incident(row.id, by="person:ann")


@scenario(
    "an assertion calls a person, who has it asked again",
    INCIDENT,
    COMPLETED,
    then=retry_what_is_open,
    at_last=frozenset({COMPLETED}),
    declared={"verify": [check(stands_at_last, on_failed="call")]},
)
async def verified_later(s: Work) -> None:
    await s.do(keyed_a, 1)


# -- answers that are flawed -----------------------------------------------------------------------------------------


async def answers(topic: str) -> str:
    await here().reach(f"{topic}: asked")
    return "good" if await here().tally(f"{topic}: answered") > 1 else "bad"


def is_good(result: str) -> str | None:
    return None if result == "good" else "not good"


answer = act("plain.answer", answers, undo=None, read_only=True)
answer.validate(is_good)
hopeless = act("plain.hopeless", reads, undo=None, read_only=True)
hopeless.validate(tries=2)(is_good)


@scenario("a flawed answer is asked for again", COMPLETED, ROLLED_BACK)
async def flawed_once(s: Work) -> None:
    await s.do(plain_b, 1)
    await s.do(answer, 2)


@scenario("every answer is flawed", ROLLED_BACK)
async def flawed_always(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(hopeless, 2)


@scenario("every answer is flawed, and the function goes on without", COMPLETED)
async def flawed_and_done_without(s: Work) -> None:
    with suppress(StepFailedError):
        await s.do(hopeless, 2)
    await s.do(keyed_a, 1)


# -- where an argument comes from -------------------------------------------------------------------------------------


async def counts(topic: str) -> int:
    await works(topic)
    return 4711


counted, sourced = act("keyed.counted", counts), act("keyed.sourced", sourced=["n"])


@scenario("an argument comes from an earlier result, and the next is made up", ROLLED_BACK)
async def made_up(s: Work) -> None:
    await s.do(sourced, await s.do(counted, 1))
    await s.do(sourced, 4712)


# -- limits ----------------------------------------------------------------------------------------------------------


async def buys(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.spend(usd=2, what="the first")
    await s.do(plain_b, 2)
    await s.spend(usd=2, tokens=5)
    await s.do(keyed_a, 3)


scenario("what is spent stays within its limit", COMPLETED, ROLLED_BACK, declared={"limits": Limits(usd=4, steps=3)})(
    buys
)
scenario("a spending crosses its limit, and all is taken back", ROLLED_BACK, declared={"limits": Limits(usd=3)})(buys)
scenario("one step too many", ROLLED_BACK, declared={"limits": Limits(steps=2)})(buys)


async def allow_more(coordinator: Coordinator) -> None:
    for row in await coordinator.list(status="paused"):
        await coordinator.raise_limit(row.id, usd=10, by="person:ann")


scenario(
    "a limit calls a person, who has it go on",
    INCIDENT,
    ROLLED_BACK,
    COMPLETED,
    then=retry_what_is_open,
    at_last=frozenset({COMPLETED, ROLLED_BACK}),
    declared={"limits": Limits(usd=3, then="call")},
)(buys)


async def run_and_allow_more(coordinator: Coordinator, definition: SagaDefinition) -> None:
    await (await coordinator.start(definition, id=ID)).halt()
    await allow_more(coordinator)


scenario(
    "a limit pauses a saga, and is raised",
    COMPLETED,
    ROLLED_BACK,
    begin=run_and_allow_more,
    people=allow_more,
    declared={"limits": Limits(usd=3, then="pause")},
)(buys)


@scenario(
    "a limit sends a saga back to a checkpoint",
    COMPLETED,
    ROLLED_BACK,
    declared={"limits": Limits(usd=3, then=to_checkpoint("planned", "cheaper"))},
)
async def sent_back(s: Work) -> None:
    await s.do(keyed_a, 1)
    told = await s.checkpoint("planned")
    await s.do(plain_b, 2 if told is None else 3)
    await s.spend(usd=4 if told is None else 1)


@scenario("the time is up while a step is on its way", ROLLED_BACK, declared={"limits": Limits(seconds=30)})
async def out_of_time(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(slow, 2)


@scenario("an agent goes round in circles", ROLLED_BACK, declared={"limits": Limits(spin=2)})
async def in_circles(s: Work) -> None:
    await s.do(keyed_a, 1)
    for _ in range(4):
        await s.do(read, 1)


down = act("keyed.down", always(NotDone("down")))


async def fails_often(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(down, 2)


scenario("an attempt fails once too often", ROLLED_BACK, declared={"limits": Limits(failures=2)})(fails_often)
scenario("one retry too many", ROLLED_BACK, declared={"limits": Limits(retries=2)})(fails_often)
scenario("a saga has attempts of its own", ROLLED_BACK, declared={"attempts": 2, "rollback_s": 3600.0})(fails_often)


@scenario("an agent gives up", ROLLED_BACK)
async def gives_up(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(plain_b, 2)
    await s.abort("nobody sells this")


# -- limits in families ----------------------------------------------------------------------------------------------


async def all_is_counted(coordinator: Coordinator) -> None:
    """What its children have spent is spent by a saga that has ended, each once, whatever was killed."""
    for row in await coordinator.list(status=("completed", "rolled_back")):
        budget = (await coordinator.show(row.id)).saga.budget
        own = 0 if budget is None else sum(one.fact.usd_micros for one in budget.places.values())
        below = [(await coordinator.show(one.id)).saga.budget for one in await coordinator.list(parent=row.id)]
        total = own + sum(one.usd_micros for one in below if one is not None)
        counted = 0 if budget is None else budget.usd_micros
        assert counted == total, f"{row.id} has counted {counted}, and its children and itself spent {total}"


@saga("crash.child_spends")
async def child_spends(s: Work) -> None:
    await s.do(keyed_a, 11)
    await s.do(plain_b, 12)
    await s.spend(usd=2)


@scenario(
    "a child spends within what is left to its parent",
    COMPLETED,
    ROLLED_BACK,
    then=all_is_counted,
    declared={"limits": Limits(usd=3, steps=4)},
)
async def within_limits(s: Work) -> None:
    await s.call(child_spends)
    await s.spend(usd=1)
    await s.do(keyed_a, 2)


@scenario(
    "a child spends more than is left to its parent",
    ROLLED_BACK,
    then=all_is_counted,
    declared={"limits": Limits(usd=2, stop_children=True)},
)
async def past_limits(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.spend(usd=1)
    await s.call(child_spends)


@saga("crash.child_fails")
async def child_fails(s: Work) -> None:
    await s.do(keyed_a, 11)
    await s.do(down, 12)


@scenario("a child fails too often for its parent", ROLLED_BACK, declared={"limits": Limits(failures=2, retries=9)})
async def child_past_failures(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.call(child_fails)


async def run_and_raise(coordinator: Coordinator, definition: SagaDefinition) -> None:
    await (await coordinator.start(definition, id=ID)).halt()
    await raise_what_is_paused(coordinator)


async def raise_what_is_paused(coordinator: Coordinator) -> None:
    for row in await coordinator.list(status="paused"):
        if row.id == ID:
            await coordinator.raise_limit(row.id, steps=9, by="person:ann")
    while await coordinator.list(status=("running", "waiting", "rolling_back")):
        await here().clock.sleep(5)
        await coordinator.resume()


@scenario(
    "a child stands still with its parent, and goes on with it",
    COMPLETED,
    ROLLED_BACK,
    begin=run_and_raise,
    people=raise_what_is_paused,
    declared={"limits": Limits(steps=1, then="pause", stop_children=True)},
)
async def stands_still(s: Work) -> None:
    await s.call(child_spends)
