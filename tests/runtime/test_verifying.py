"""Done is not complete: what has to hold before a saga counts as complete, and what happens where it does not."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from amends import Coordinator, Ended, SagaDefinition, Settings, Step, Work, action, check, saga
from amends.errors import DeclarationError, InputError
from amends.journal.memory import Memory
from tests.runtime.support import QuickClock, World, coordinator
from tests.runtime.test_going_back import play


def paid_in_full(result: int, cents: int) -> bool:
    return result == cents


def order(world: World, *assertions: Any, pays: int = 500, pivot: bool = False) -> SagaDefinition:
    pay = world.action("pay", result=pays, **({"no_rollback": "paid"} if pivot else {}))

    @saga("verify.order", verify=assertions)
    async def definition(s: Work, cents: int) -> int:
        paid: int = await s.do(pay, cents)
        return paid

    return definition


def test_what_holds_is_a_step_on_record_and_the_saga_completes() -> None:
    world = World()

    async def scene(on: Coordinator) -> tuple[Ended, Any]:
        ended = await on.run(order(world, paid_in_full), 500)
        return ended, (await on.show(ended.id)).saga

    ended, state = play(scene)
    assert (ended.status, ended.result) == ("completed", 500)
    asked = state.steps["2"]
    assert (asked.topic, asked.args, asked.result) == (
        "amends.verify.paid_in_full",
        {"result": 500, "cents": 500},
        True,
    )
    assert world.seen == ["pay(500)"]


def test_what_does_not_hold_rolls_the_saga_back_with_the_reason_on_record() -> None:
    world = World()
    ended = play(lambda on: on.run(order(world, paid_in_full, pays=499), 500))
    assert (ended.status, ended.cause, ended.step) == ("rolled_back", "unverified", "2")
    assert ended.why == "verification paid_in_full failed: it does not hold"
    assert world.seen == ["pay(500)", "unpay"]


def raises(result: int) -> None:
    raise LookupError(f"no invoice of {result}")


def is_asserted(result: int) -> None:
    assert result > 1000, "too little"


async def gives_a_number(result: int) -> int:
    return result


async def is_slow() -> bool:
    await asyncio.Event().wait()
    return True


waited_for = threading.Event()


def is_slow_in_a_thread() -> bool:
    return waited_for.wait(5)


@pytest.mark.parametrize(
    ("assertion", "why"),
    [
        (raises, "LookupError: no invoice of 500"),
        (is_asserted, "AssertionError: too little"),
        (gives_a_number, "an assertion returns True, False or nothing, and this one something else"),
        (check(is_slow, timeout=0.01), "no answer in 0.01 s"),
        (check(is_slow_in_a_thread, timeout=0.01), "no answer in 0.01 s"),
    ],
)
def test_whatever_is_not_a_plain_yes_in_time_has_failed_and_is_asked_once(assertion: Any, why: str) -> None:
    world = World()

    async def scene(on: Coordinator) -> tuple[Ended, Any]:
        ended = await on.run(order(world, assertion), 500)
        waited_for.set()
        return ended, (await on.show(ended.id)).saga

    waited_for.clear()
    ended, state = play(scene)
    assert ended.status == "rolled_back"
    assert why in ended.why
    assert state.steps["2"].attempts == 1


def test_they_are_asked_in_order_and_the_first_that_fails_is_the_last() -> None:
    world = World()
    asked: list[str] = []

    def first(result: int) -> None:
        asked.append("first")

    async def second() -> bool:
        asked.append("second")
        return False

    def third() -> None:
        asked.append("third")

    assert play(lambda on: on.run(order(world, first, second, third), 500)).status == "rolled_back"
    assert asked == ["first", "second"]


def test_a_person_is_called_and_has_it_asked_again() -> None:
    world, answers = World(), [False, False, True]

    def settled() -> bool:
        return answers.pop(0)

    async def scene(on: Coordinator) -> tuple[Ended, Any, Ended, Ended]:
        halted = await on.run(order(world, check(settled, on_failed="call")), 500)
        row = (await on.incidents())[0]
        again = await on.retry_incident(row.id)
        last = await on.retry_incident((await on.incidents())[0].id)
        return halted, row, again, last

    halted, row, again, last = play(scene)
    assert (halted.status, row.kind, row.step, row.left) == ("incident", "verification_failed", "2", ("1",))
    assert again.status == "incident"
    assert (last.status, last.result) == ("completed", 500)
    assert world.seen == ["pay(500)"]


def test_a_person_who_resolves_it_vouches_and_the_result_is_kept() -> None:
    world = World()
    asked: list[str] = []

    def never() -> bool:
        return False

    def then() -> None:
        asked.append("then")

    async def scene(on: Coordinator) -> Ended:
        halted = await on.run(order(world, check(never, on_failed="call"), then), 500)
        return await on.resolve_incident(halted.incidents[0], reason="seen in the ledger", by="person:ann")

    ended = play(scene)
    assert (ended.status, ended.result, asked) == ("completed", 500, ["then"])


def test_a_person_may_take_it_back_instead() -> None:
    world = World()

    async def scene(on: Coordinator) -> Ended:
        halted = await on.run(order(world, check(raises, on_failed="call")), 500)
        return await on.cancel(halted.id, by="person:ann")

    assert play(scene).status == "rolled_back"
    assert world.seen == ["pay(500)", "unpay"]


def test_past_the_pivot_nothing_is_taken_back_and_a_person_is_called() -> None:
    world = World()
    ended = play(lambda on: on.run(order(world, paid_in_full, pays=1, pivot=True), 500))
    assert ended.status == "incident"
    assert "verification paid_in_full failed" in ended.why


def test_a_list_of_steps_is_verified_by_its_result_and_its_input() -> None:
    world = World()
    pay = world.action("pay", result=7)

    def holds(result: dict[str, Any], n: int) -> bool:
        return result == {"act": 7} and n == 7

    definition = SagaDefinition("verify.list", [Step(pay)], verify=[holds])
    assert play(lambda on: on.run(definition, n=7)).status == "completed"
    assert play(lambda on: on.run(definition, n=8)).status == "rolled_back"
    with pytest.raises(InputError, match="assertion holds asks for n, which is not in the input"):
        play(lambda on: on.run(definition))
    with pytest.raises(InputError, match=r"saga verify\.list has no input 'm'; it takes n"):
        play(lambda on: on.run(definition, m=7))


def test_a_read_only_action_is_an_assertion_under_its_own_topic() -> None:
    world = World()

    @action("ledger.balanced", read_only=True)
    def balanced(cents: int) -> bool:
        return cents == 500

    async def scene(on: Coordinator) -> Any:
        ended = await on.run(order(world, balanced), 500)
        return (await on.show(ended.id)).saga

    assert play(scene).steps["2"].topic == "ledger.balanced"
    assert (
        play(lambda on: on.run(order(world, balanced), 5)).why
        == "verification ledger.balanced failed: it does not hold"
    )


def test_who_was_killed_between_asks_only_the_open_one_again() -> None:
    memory, world, clock = Memory(), World(), QuickClock()
    asked: list[str] = []

    async def one() -> None:
        asked.append("one")

    async def two() -> None:
        asked.append("two")
        if asked.count("two") == 1:
            await asyncio.Event().wait()

    definition = order(world, one, two)
    settings = Settings(lease_s=1_000_000, settle_s=0.01, drain_s=0.01)

    async def killed() -> None:
        async with coordinator(memory, settings=settings, clock=clock) as on:
            _ = await on.start(definition, 500, id="v")
            while "two" not in asked:
                await asyncio.sleep(0)

    async def resumed() -> list[Ended]:
        async with coordinator(memory, clock=clock) as on:
            on.registry.add_definition(definition)
            return await on.resume()

    asyncio.run(killed())
    assert [ended.status for ended in asyncio.run(resumed())] == ["completed"]
    assert asked == ["one", "two", "two"]
    assert world.seen == ["pay(500)"]


def test_a_declaration_that_cannot_work_is_refused() -> None:
    world = World()
    with pytest.raises(DeclarationError, match=r"test\.pay changes something, and an assertion only looks"):
        order(world, world.action("pay"))
    with pytest.raises(DeclarationError, match="two assertions called raises"):
        order(world, raises, raises)
    with pytest.raises(DeclarationError, match=r"without a name cannot go on record; use check\(…, name="):
        order(world, lambda result: True)  # pyright: ignore[reportUnknownLambdaType] - that is what is refused
    with pytest.raises(DeclarationError, match="timeout=0 must be more than 0 seconds"):
        check(raises, timeout=0)
    with pytest.raises(DeclarationError, match="on_failed='ignore' must be 'rollback' or 'call'"):
        check(raises, on_failed=cast("Any", "ignore"))
    with pytest.raises(DeclarationError, match="3 is not an assertion"):
        check(cast("Any", 3))

    def wants(price: int) -> None: ...

    with pytest.raises(
        DeclarationError, match=r"assertion wants asks for price, which is not in the input.*and for cents"
    ):
        order(world, wants)
