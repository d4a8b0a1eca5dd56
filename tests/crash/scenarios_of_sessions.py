"""Scenarios of open sagas, whose agent comes back after a crash and goes another way, beside those of `scenarios`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from amends import Fatal, SagaStatus, StepLostError
from amends.errors import Detach, RefusedError
from amends.runtime.coordinator.coordinator import Coordinator
from amends.testing.crash.crash import Scenario
from amends.testing.crash.life import Script
from tests.crash.scenarios import (
    ALL,
    COMPLETED,
    ID,
    ROLLED_BACK,
    act,
    fatal,
    keyed_a,
    keyed_b,
    keyed_c,
    nothing,
    plain_a,
    plain_b,
    works,
)

NAME = "crash.session"
asked = act("plain.asked_in_session", works, probe=nothing)


def scenario(name: str, begin: Script, unharmed: SagaStatus, *ends: SagaStatus, people: Script) -> None:
    """`people` is the agent that comes back; what it does has to be something that can be done again."""
    ALL[name] = Scenario(name=name, begin=begin, unharmed=unharmed, ends=frozenset({unharmed, *ends}), people=people)


async def another_way(coordinator: Coordinator) -> None:
    with suppress(RefusedError):  # it has ended
        async with coordinator.session(NAME, id=ID) as s:
            await s.do(keyed_c, 9, call="other")


async def gives_up(coordinator: Coordinator) -> None:
    with suppress(RefusedError, Fatal):
        async with coordinator.session(NAME, id=ID):
            raise Fatal("the agent gives up")


async def calls(coordinator: Coordinator) -> None:
    async with coordinator.session(NAME, id=ID) as s:
        await s.do(plain_a, 1, call="c1")
        await s.do(keyed_b, 2, call="c2")
        await s.do(asked, 3, call="c3")


async def same_calls(coordinator: Coordinator) -> None:
    """Asks for the same calls again, as a framework does that has kept them; what was lost stays lost."""
    with suppress(RefusedError):
        async with coordinator.session(NAME, id=ID) as s:
            with suppress(StepLostError):
                await s.do(plain_a, 1, call="c1")
            await s.do(keyed_b, 2, call="c2")
            await s.do(asked, 3, call="c3")


async def side_by_side(coordinator: Coordinator) -> None:
    async with coordinator.session(NAME, id=ID) as s:
        some: list[Any] = [s.do(plain_a, 1, call="c1"), s.do(plain_b, 2, call="c2"), s.do(keyed_c, 3, call="c3")]
        await asyncio.gather(*some)


async def fails(coordinator: Coordinator) -> None:
    with suppress(Fatal):
        async with coordinator.session(NAME, id=ID) as s:
            await s.do(plain_a, 1, call="c1")
            await s.do(keyed_b, 2, call="c2")
            await s.do(fatal, 3, call="c3")


async def goes_back(coordinator: Coordinator) -> None:
    async with coordinator.session(NAME, id=ID) as s:
        await s.do(keyed_a, 1, call="c1")
        await s.checkpoint("there")
        await s.do(plain_b, 2, call="c2")
        await s.rollback_to("there", "no beds")
        await s.do(keyed_c, 3, call="c3")


async def comes_and_goes(coordinator: Coordinator) -> None:
    with suppress(Detach):
        async with coordinator.session(NAME, id=ID) as s:
            await s.do(keyed_a, 1, call="c1")
            raise Detach
    async with coordinator.session(NAME, id=ID) as s:
        await s.do(plain_b, 2, call="c2")


scenario("a session, and its agent goes another way", calls, COMPLETED, people=another_way)
scenario("a session, and its agent asks for the same calls", calls, COMPLETED, people=same_calls)
scenario("a session, and its agent gives up", calls, COMPLETED, ROLLED_BACK, people=gives_up)
scenario("a session's steps side by side", side_by_side, COMPLETED, people=another_way)
scenario("a session whose last step is fatal", fails, ROLLED_BACK, COMPLETED, people=another_way)
scenario("a session goes back to a checkpoint", goes_back, COMPLETED, people=another_way)
scenario("a session is left and taken up again", comes_and_goes, COMPLETED, people=another_way)
