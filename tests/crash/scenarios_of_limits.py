"""More of what the enumeration runs: what agents are held to. Assertions, flawed answers, limits."""

from typing import Any

from amends import Work, check
from amends.runtime.coordinator import Coordinator
from amends.testing.crash import here
from tests.crash.scenarios import COMPLETED, INCIDENT, ROLLED_BACK, keyed_a, plain_b, scenario

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
