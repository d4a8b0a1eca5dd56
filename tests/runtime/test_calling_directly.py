"""An action that is called without `s.do`: refused in a saga's function, a plain function everywhere else."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import amends
from amends import Asked, Done, Fatal, Happened, SagaDefinition, Step, Work, action, saga
from amends.errors import DirectCallError
from amends.journal.port.journal import Entry
from tests.runtime.support import coordinator, names

said: list[str] = []


@pytest.fixture(autouse=True)
def nothing_said() -> None:
    said.clear()


@action("test.mail", no_rollback="a mail cannot be unsent")
async def mail(to: str) -> str:
    said.append(to)
    return f"told {to}"


@action("test.shout", no_rollback="what is heard is heard")
def shout(to: str) -> str:
    said.append(to)
    return f"heard by {to}"


@action("test.look", read_only=True)
def look() -> int:
    return len(said)


def _helper() -> str:
    return shout("ann")


async def _awaits_it(_: Work) -> Any:
    return await mail("ann")


async def _only_makes_it(_: Work) -> Any:
    waits = mail("ann")
    return await waits


async def _in_a_helper(_: Work) -> Any:
    return _helper()


async def _after_a_step(s: Work) -> Any:
    await s.do(look)
    return shout("ann")


async def _in_a_branch(s: Work) -> Any:
    async def branch() -> str:
        await s.do(look)
        return await mail("ann")

    return await asyncio.gather(s.do(look), branch())


async def _in_a_group(s: Work) -> Any:
    async with asyncio.TaskGroup() as group:
        group.create_task(s.do(look))
        group.create_task(_in_a_helper(s))


async def _in_a_thread(_: Work) -> Any:
    return await asyncio.to_thread(_helper)


async def _handed_to_a_thread(_: Work) -> Any:
    return await asyncio.to_thread(shout, "ann")


async def _bound_before(_: Work) -> Any:
    return functools.partial(shout, "ann")()


async def _as_an_argument(s: Work) -> Any:
    made: Any = mail("ann")
    return await s.do(made)


def _ended(function: Callable[[Work], Awaitable[Any]]) -> tuple[amends.Ended, list[str]]:
    async def told() -> tuple[amends.Ended, list[str]]:
        async with coordinator() as on:
            ended = await on.run(saga("test.forgetful")(function))
            return ended, names(tuple([entry async for entry in on.journal.read(ended.id)]))

    return asyncio.run(told())


@pytest.mark.parametrize(
    "function",
    [
        _awaits_it,
        _only_makes_it,
        _in_a_helper,
        _after_a_step,
        _in_a_branch,
        _in_a_group,
        _in_a_thread,
        _handed_to_a_thread,
        _bound_before,
        _as_an_argument,
    ],
)
def test_an_action_called_without_s_do_is_refused_wherever_the_function_calls_it(
    function: Callable[[Work], Awaitable[Any]],
) -> None:
    ended, entries = _ended(function)
    assert said == []
    assert ended.status == "rolled_back"
    name = "mail" if "test.mail" in str(ended.why) else "shout"
    why, _, place = ended.why.partition(" (tests/runtime/test_calling_directly.py:")
    assert place
    assert why == (
        f"DirectCallError: test.{name} was called directly in the function of saga test.forgetful, where the gate and "
        f"the journal would not know of it, and nothing was done; write `await s.do({name}, …)`"
    )
    assert entries[-2:] == ["rollback.started", "saga.rolled_back"]


def test_a_function_that_catches_it_goes_on() -> None:
    async def careful(s: Work) -> str:
        try:
            return await mail("ann")
        except DirectCallError:
            return await s.do(mail, "bob")

    ended, _ = _ended(careful)
    assert (ended.status, ended.result, said) == ("completed", "told bob", ["bob"])


def test_inside_an_action_a_compensation_a_probe_and_the_rest_it_stays_the_plain_function() -> None:
    """Each of them calls another action as what it is: a function."""

    @action("test.all", timeout=5)
    def everything(ends: str) -> str:
        shout("action")
        if ends == "lost":
            raise RuntimeError(ends)
        if ends == "fatal":
            raise Fatal(ends)
        return ends

    @everything.compensation
    async def back(done: Done) -> None:
        await mail("compensation")
        await asyncio.to_thread(shout, "a thread of it")

    @everything.probe
    def found(asked: Asked) -> Happened:
        shout("probe")
        return Happened("yes")

    @everything.before
    async def capture(ends: str) -> str:
        return await asyncio.create_task(mail("before"))

    @everything.reread
    def again(done: Done) -> int:
        shout("reread")
        return 1

    @action("test.seen", read_only=True)
    def seen() -> int:
        return look()

    @seen.validate
    def fits(result: int) -> None:
        shout("validate")

    def check_of_all(result: object) -> bool:
        return shout("check") == "heard by check"

    async def whole(s: Work) -> None:
        await s.do(everything, "works")
        assert await s.do(everything, "lost") == "yes"
        await s.do(seen)

    async def failing(s: Work) -> None:
        await s.do(everything, "works")
        await s.do(everything, "fatal")

    async def told() -> None:
        async with coordinator() as on:
            ended = await on.run(saga("test.plain", verify=[check_of_all])(whole))
            assert (ended.status, ended.why) == ("completed", "")
            assert said == ["before", "action", "reread", "before", "action", "probe", "validate", "check"]
            said.clear()
            ended = await on.run(saga("test.plain_back")(failing))
            assert ended.status == "rolled_back"
            back = ["compensation", "a thread of it"]
            assert said == ["before", "action", "reread", "before", "action", "probe", *back, "reread", *back]

    asyncio.run(told())


def test_a_saga_that_an_action_runs_is_guarded_too_and_the_action_is_not() -> None:
    async def inner(s: Work) -> str:
        return shout("the inner function")

    async def told() -> None:
        async with coordinator() as on:

            @action("test.nested", no_rollback="it is a test")
            async def nested() -> str:
                ended = await on.run(saga("test.inner")(inner))
                return f"{ended.status} and {shout('the action')}"

            async def outer(s: Work) -> str:
                return await s.do(nested)

            ended = await on.run(saga("test.outer")(outer))
            assert ended.result == "rolled_back and heard by the action"
            assert said == ["the action"]

    asyncio.run(told())


def test_a_child_is_guarded_as_its_parent_is() -> None:
    @saga("test.child")
    async def child(s: Work) -> str:
        return shout("ann")

    async def parent(s: Work) -> None:
        await s.call(child)

    ended, _ = _ended(parent)
    assert (ended.status, said) == ("rolled_back", [])
    assert "in the function of saga test.child" in str(ended.why)


def test_what_a_list_asks_between_its_steps_is_part_of_the_definition() -> None:
    """complete_if= decides what comes next, as a function's own code does; the steps' functions are plain."""

    @action("test.step", read_only=True)
    def step() -> str:
        return shout("the step")

    def enough(result: str) -> bool:
        return bool(shout("between"))

    async def told() -> amends.Ended:
        async with coordinator() as on:
            return await on.run(SagaDefinition("test.list", [Step(step, complete_if=enough), Step(look)]))

    ended = asyncio.run(told())
    assert (ended.status, said) == ("rolled_back", ["the step"])
    assert "`await s.do(shout, …)`" in str(ended.why)


def test_an_observer_is_outside_of_the_saga_that_it_is_told_of() -> None:
    heard: list[str] = []

    def observer(entry: Entry) -> None:
        heard.append(shout(entry.name))

    async def steps(s: Work) -> None:
        await s.do(look)
        await s.do(look)

    async def told() -> None:
        async with coordinator() as on:
            stop = on.observe(observer)
            await on.run(saga("test.observed")(steps))
            assert len(heard) == len(said) > 3
            stop()
            await on.run(saga("test.observed")(steps))
            assert len(heard) == len(said)

    asyncio.run(told())


def test_outside_of_sagas_it_is_the_function() -> None:
    assert asyncio.run(mail("ann")) == "told ann"
    assert shout("bob") == "heard by bob"


def test_a_key_is_nobodys_in_a_function_even_of_a_saga_that_an_action_runs() -> None:
    keys: list[str] = []

    async def inner(s: Work) -> None:
        keys.extend([amends.key(), amends.key()])

    async def told() -> None:
        async with coordinator() as on:

            @action("test.keyed", no_rollback="it is a test")
            async def keyed() -> None:
                keys.append(amends.key())
                await on.run(saga("test.inner")(inner))

            async def outer(s: Work) -> None:
                await s.do(keyed)

            await on.run(saga("test.outer")(outer))

    asyncio.run(told())
    assert len(set(keys)) == 3
    assert [key.startswith("plain-") for key in keys] == [False, True, True]
