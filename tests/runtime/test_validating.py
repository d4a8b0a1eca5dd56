"""Flawed results: a read-only action's answer is looked at before it counts, and asked for again with the reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import amends
from amends import (
    Coordinator,
    Ended,
    Fatal,
    Flawed,
    Retries,
    SagaDefinition,
    Step,
    StepFailedError,
    Work,
    action,
    register,
    saga,
)
from amends.core.words.values import StepId
from amends.errors import DeclarationError
from amends.journal.memory import Memory
from tests.runtime.support import QuickClock, World, coordinator, names
from tests.runtime.test_going_back import play


def asker(*answers: Any, tries: int = 3, **contract: Any) -> tuple[Any, list[tuple[str, ...]]]:
    """An action that gives these answers in turn, and what it was told before each."""
    told: list[tuple[str, ...]] = []
    left = list(answers)

    @action("llm.plan", read_only=True, **contract)
    async def plan(goal: str) -> Any:
        told.append(amends.reasons())
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def is_short(result: list[str], goal: str) -> str | None:
        return f"{len(result)} steps to {goal}; at most 2" if len(result) > 2 else None

    plan.validate(tries=tries)(is_short)
    return plan, told


def planned(plan: Any) -> Any:
    @saga("validate.plan")
    async def definition(s: Work) -> Any:
        return await s.do(plan, "tidy up")

    return definition


LONG = ["a", "b", "c"]


def test_a_flawed_result_is_asked_for_again_with_the_reason_and_the_good_one_counts() -> None:
    plan, told = asker(LONG, [*LONG, "d"], ["a"])

    async def scene(on: Coordinator) -> tuple[Ended, list[str], Any]:
        ended = await on.run(planned(plan))
        history = await on.show(ended.id)
        return ended, names(history.entries), history.saga

    ended, entries, state = play(scene)
    assert (ended.status, ended.result) == ("completed", ["a"])
    first, second = "flawed: 3 steps to tidy up; at most 2", "flawed: 4 steps to tidy up; at most 2"
    assert told == [(), (first,), (first, second)]
    assert state.steps["1"].reasons == (first, second)
    assert entries.count("attempt.failed") == 2


def test_after_so_many_flawed_results_the_step_has_failed() -> None:
    plan, told = asker(LONG, LONG, LONG, ["a"])
    ended = play(lambda on: on.run(planned(plan)))
    assert (ended.status, ended.cause, len(told)) == ("rolled_back", "failed", 3)
    assert "flawed: 3 steps to tidy up; at most 2" in ended.why


def test_a_provider_that_is_down_does_not_use_up_the_tries_of_flawed_results() -> None:
    down = ConnectionError("busy")
    plan, told = asker(down, down, LONG, down, LONG, ["a"], retries=Retries(attempts=10))
    assert play(lambda on: on.run(planned(plan))).status == "completed"
    assert len(told) == 6


def test_the_block_around_it_is_revised_knowing_why() -> None:
    world = World()
    plan, _ = asker(LONG, ["a"], tries=1)
    why: list[str] = []

    @saga("validate.revised")
    async def definition(s: Work) -> Any:
        async for attempt in s.attempts("plan", max=2):
            async with attempt:
                await s.do(world.action("draft"), attempt.number)
                why.append("" if attempt.feedback is None else attempt.feedback.why)
                return await s.do(plan, "tidy up")
        return None

    ended = play(lambda on: on.run(definition))
    assert (ended.status, ended.result) == ("completed", ["a"])
    assert world.seen == ["draft(1)", "undraft", "draft(2)"]
    assert "at most 2" in why[1]


def raises_flawed(result: Any) -> None:
    raise Flawed("no such town")


def raises_value_error(plan: Any) -> None:
    raise ValueError("no such town")


async def says_no(result: Any) -> bool:
    return False


@pytest.mark.parametrize(
    ("validate", "why"),
    [
        (raises_flawed, "flawed: no such town"),
        (raises_value_error, "flawed: ValueError: no such town"),
        (says_no, "flawed: it was found wrong"),
    ],
)
def test_whatever_a_validation_says_no_with_is_the_reason(validate: Any, why: str) -> None:
    def plan(goal: str) -> str:
        return "to Atlantis"

    declared = register("llm.trip", plan, read_only=True, validate=validate)
    caught: list[str] = []

    @saga("validate.no")
    async def definition(s: Work) -> None:
        try:
            await s.do(declared, "away")
        except StepFailedError as exc:
            caught.append(exc.reason)

    assert play(lambda on: on.run(definition)).status == "completed"
    assert caught == [why]


def test_an_answer_that_never_came_is_no_doubt_and_the_function_goes_on_without_the_plan() -> None:
    asked: list[int] = []

    @action("llm.plan", read_only=True, timeout=0.05)
    async def plan() -> str:
        asked.append(len(asked))
        if len(asked) == 1:
            await asyncio.Event().wait()
        return "bad"

    plan.validate(tries=2)(raises_flawed)

    @saga("validate.silent")
    async def definition(s: Work) -> str:
        try:
            return await s.do(plan)
        except StepFailedError as exc:
            return f"the standard plan: {exc.reason}"

    async def scene(on: Coordinator) -> tuple[Ended, Any]:
        ended = await on.run(definition)
        return ended, (await on.show(ended.id)).saga.steps[StepId("1")]

    ended, step = play(scene)
    assert (ended.status, ended.result) == ("completed", "the standard plan: flawed: no such town")
    assert (len(asked), step.status) == (3, "failed")


def test_a_step_of_a_list_that_only_reads_is_tried_again_after_a_call_that_was_lost() -> None:
    world = World()
    get = world.action("get", Fatal("not now"), Fatal("not now", happened=False), result="here", read_only=True)
    ended = play(lambda on: on.run(SagaDefinition("validate.list", [Step(get, retry=2)])))
    assert (ended.status, ended.result) == ("completed", {"act": "here"})
    assert world.seen == ["get", "get", "get"]


def test_a_remembered_result_is_neither_asked_for_nor_validated_again() -> None:
    memory, clock = Memory(), QuickClock()
    plan, told = asker(LONG, ["a"])
    definition = planned(plan)

    async def twice() -> Any:
        async with coordinator(memory, clock=clock) as on:
            first = await on.run(definition, id="v")
            return first, await on.run(definition, id="v")

    first, again = asyncio.run(twice())
    assert first.result == again.result == ["a"]
    assert len(told) == 2


def test_only_what_changes_nothing_can_be_validated() -> None:
    @action("mail.write")
    def write(to: str) -> None: ...

    with pytest.raises(DeclarationError, match=r"mail\.write changes something"):
        write.validate(raises_flawed)

    @action("llm.read", read_only=True)
    def read() -> None: ...

    with pytest.raises(DeclarationError, match="tries=0 must be between 1 and 16"):
        read.validate(tries=0)


def test_outside_a_saga_there_is_no_feedback() -> None:
    assert amends.reasons() == ()
