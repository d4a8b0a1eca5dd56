"""Provenance: an argument that may not be made up, and where each argument came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amends import Coordinator, Done, Ended, SagaDefinition, Work, action, saga
from amends.core.state.provenance import NOWHERE, Sources
from amends.errors import DeclarationError
from tests.runtime.support import World
from tests.runtime.test_going_back import play


def payer(world: World, pays: Callable[[dict[str, Any], int], int], *, topics: Any = None) -> SagaDefinition:
    """Asks for a quote, then pays what the function makes of it and of its input."""

    @action("shop.quote", read_only=True)
    def quote(item: str) -> dict[str, Any]:
        return {"item": item, "cents": 4200, "express": 0}

    @action("shop.pay", sourced=["cents", "to"] if topics is None else {"cents": topics})
    def pay(cents: int, to: str) -> str:
        world.note(f"pay {cents} to {to}")
        return "paid"

    @pay.compensation
    def refund(done: Done) -> None:
        world.note("refund")

    @saga("source.pay")
    async def definition(s: Work, to: str, budget: int) -> str:
        offer = await s.do(quote, "lamp")
        return await s.do(pay, pays(offer, budget), to)

    return definition


def run(definition: SagaDefinition, actor: str = "agent:bot") -> tuple[Ended, list[Any]]:
    async def scene(on: Coordinator) -> tuple[Ended, list[Any]]:
        ended = await on.run(definition, "acme", 9900, actor=actor)
        record: Any = await ended.evidence()
        return ended, record["amends"]["steps"]

    found: tuple[Ended, list[Any]] = play(scene)
    return found


def test_what_comes_from_a_result_and_the_input_is_paid_and_the_record_says_where_it_came_from() -> None:
    world = World()
    ended, steps = run(payer(world, lambda offer, _: offer["cents"]))
    assert (ended.status, world.seen) == ("completed", ["pay 4200 to acme"])
    assert steps[0]["args_from"] == {"item": "the saga's own function"}
    assert steps[1]["args_from"] == {"cents": "step 1 (shop.quote) result.cents", "to": "input.to"}


def test_what_the_function_made_up_is_denied_before_it_is_dispatched_and_on_record() -> None:
    world = World()
    ended, steps = run(payer(world, lambda offer, _: offer["cents"] + 1))
    assert (ended.status, ended.cause, world.seen) == ("rolled_back", "denied", [])
    assert "cents has to come from a result, the input or a person" in ended.why
    assert (steps[1]["outcome"], steps[1]["rule"]) == ("denied", "amends-sourced")


def test_a_source_may_be_a_certain_action_alone() -> None:
    world = World()
    assert run(payer(world, lambda _, budget: budget))[0].status == "completed"
    ended, _ = run(payer(world, lambda _, budget: budget, topics="shop.quote"))
    assert "cents has to come from the result of shop.quote" in ended.why
    assert run(payer(world, lambda offer, _: offer["cents"], topics="shop.quote"))[0].status == "completed"


def test_what_turns_up_everywhere_counts_only_under_its_own_name() -> None:
    world = World()
    assert run(payer(world, lambda offer, _: offer["express"]))[0].cause == "denied"
    sources = Sources()
    sources.add_result({"express": 0, "cents": 1}, "1", "shop.quote")
    assert sources.origin("cents", 0) == NOWHERE
    assert sources.origin("express", 0).kind == "result"
    assert sources.origin("cents", None) == NOWHERE


def test_a_person_s_input_and_signal_are_said_to_be_theirs() -> None:
    _, steps = run(payer(World(), lambda offer, _: offer["cents"]), actor="person:ann")
    assert steps[1]["args_from"]["to"] == "person:ann, input.to"
    sources = Sources()
    sources.add_signal({"cents": 777_000}, "amount", "person:bob")
    assert sources.origin("cents", 777_000).where == "person:bob, signal amount.cents"


def test_a_whole_is_sourced_when_all_of_its_parts_are() -> None:
    sources = Sources()
    sources.add_input({"a": "first text", "b": "second text"}, "agent:bot")
    assert sources.origin("pair", ["first text", "second text"]).where == "its parts: input.a; input.b"
    assert sources.origin("pair", ["first text", "third text"]) == NOWHERE


def test_a_declaration_that_cannot_be_kept_is_refused() -> None:
    def pay(cents: int) -> None: ...

    with pytest.raises(DeclarationError, match="sourced= names price, which it does not take; it takes cents"):
        action("source.wrong", sourced=["price"])(pay)
    with pytest.raises(DeclarationError, match="is a text; write sourced="):
        action("source.text", sourced="cents")(pay)
