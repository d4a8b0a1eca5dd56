"""Where a value comes from: the newest place on record that has it, told in words."""

import pytest

from amends.core import commands as c
from amends.core.state.provenance import NOWHERE, Origin, Sources, sources_of, unsourced
from amends.core.words.outcomes import Lost, Succeeded
from amends.core.words.values import Json, StepId
from tests.core.story import FLIGHT, HOTEL, Story, contract


def started(value: Json, actor: str = "agent:desk") -> Story:
    begun = c.StartSaga(definition="trip", version=1, input=value, actor=actor, env="test", labels={})
    return Story(started=False).tell(begun)


# -- what is looked up ------------------------------------------------------------------------------------------------


def test_the_input_is_a_person_s_where_a_person_started_the_saga() -> None:
    by_agent = sources_of(started({"trip": {"order": "A-1001"}}).saga)
    assert by_agent.origin("order", "A-1001") == Origin("input", "input.trip.order")
    by_person = sources_of(started({"orders": ["A-1000", "A-1001"]}, "person:ann").saga)
    assert by_person.origin("x", "A-1001") == Origin("person", "person:ann, input.orders[1]")


def test_a_result_says_which_step_and_which_action_it_is_of() -> None:
    story = started(None).does(FLIGHT, contract("fly.book"), Succeeded({"seat": "12-A"}))
    assert sources_of(story.saga).origin("seat", "12-A") == Origin(
        "result", "step flight (fly.book) result.seat", "fly.book"
    )


def test_what_failed_or_brought_nothing_is_no_source() -> None:
    lost = started(None).does(FLIGHT, contract("fly.book"), Lost(error="12-A"))
    assert sources_of(lost.saga).origin("seat", "12-A") == NOWHERE
    empty = started("some input").does(FLIGHT, contract("fly.book"), Succeeded(None))
    assert sources_of(empty.saga).origin("", None) == NOWHERE


def test_what_a_signal_brought_is_a_person_s_only_where_a_person_sent_it() -> None:
    story = started(None).tell(c.SendSignal(name="seat", payload="12-A", by="person:ann", early=True))
    story.tell(c.SendSignal(name="gate", payload={"gate": "B-77"}, by="system:airport", early=True))
    found = sources_of(story.saga)
    assert found.origin("x", "12-A") == Origin("person", "person:ann, signal seat")
    assert found.origin("x", "B-77") == Origin("signal", "system:airport, signal gate.gate")


def test_before_its_start_nothing_is_on_record() -> None:
    assert (
        sources_of(Story(started=False).saga).origin("x", "12-A")
        == NOWHERE
        == Origin("code", "the saga's own function")
    )


def test_of_the_same_value_the_newest_place_counts() -> None:
    found = Sources()
    found.add_result("12-A", "1", "fly.find")
    found.add_result("12-A", "2", "fly.book")
    assert found.origin("x", "12-A").where == "step 2 (fly.book) result"
    assert found.origin("x", "12-A", ("fly.find",)).where == "step 1 (fly.find) result"
    assert found.origin("x", "12-A", ("fly.ask", "fly.find")).topic == "fly.find"
    assert found.origin("x", "12-A", ("fly.ask",)) == NOWHERE


# -- what turns up everywhere -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("common", [None, True, False, 0, 999, -999, 1.5, "", "ab", [], {}])
def test_a_common_value_counts_only_under_its_own_name(common: Json) -> None:
    found = Sources()
    found.add_input({"many": {"cents": common}}, "agent:a")
    assert found.origin("cents", common) == Origin("input", "input.many.cents")
    assert found.origin("dollars", common) == NOWHERE


@pytest.mark.parametrize("rare", [1000, -1000, 1000.5, "abc", ["abc"], {"a": "abc"}])
def test_any_other_counts_wherever_it_stands(rare: Json) -> None:
    found = Sources()
    found.add_input({"many": {"cents": rare}}, "agent:a")
    assert found.origin("dollars", rare) == Origin("input", "input.many.cents")


def test_the_items_of_a_list_stand_under_the_name_of_the_list() -> None:
    found = Sources()
    found.add_input({"sizes": [[7, 8], 9]}, "agent:a")
    assert found.origin("sizes", 8) == Origin("input", "input.sizes[0][1]")
    assert found.origin("sizes", 9) == Origin("input", "input.sizes[1]")
    assert found.origin("size", 9) == NOWHERE


# -- what is put together ---------------------------------------------------------------------------------------------


def test_a_value_put_together_from_sourced_parts_is_sourced_and_says_from_where() -> None:
    found = Sources()
    found.add_result("12-A", "1", "fly.book")
    found.add_input({"guest": "ann bee"}, "agent:a")
    made: dict[str, Json] = {"seat": "12-A", "guests": ["ann bee", "ann bee"]}
    assert found.origin("ticket", made) == Origin(
        "result", "its parts: step 1 (fly.book) result; input.guest", "fly.book"
    )
    assert found.origin("ticket", {**made, "class": "first"}) == NOWHERE
    assert found.origin("ticket", made, ("fly.book",)) == NOWHERE
    assert found.origin("ticket", {"seat": "12-A"}, ("fly.book",)).kind == "result"


def test_a_part_of_a_list_goes_by_the_name_of_the_argument() -> None:
    found = Sources()
    found.add_input({"size": 7}, "agent:a")
    assert found.origin("size", [7]) == Origin("input", "its parts: input.size")
    assert found.origin("weight", [7]) == NOWHERE


# -- what is required -------------------------------------------------------------------------------------------------


def test_an_argument_without_the_source_that_it_needs_is_told() -> None:
    story = started({"order": "A-1001"}).does(HOTEL, contract("stay.book"), Succeeded("room 101"))
    args: Json = {"order": "A-1001", "room": "room 101", "guest": "nobody"}
    assert unsourced(story.saga, args, {"order": (), "room": ("stay.book",)}) == ""
    assert unsourced(story.saga, args, {"order": (), "guest": ()}) == (
        "guest has to come from a result, the input or a person, and this value stands nowhere on record, in no input, "
        "no result and nothing that a person sent: the function made it up"
    )
    assert unsourced(story.saga, args, {"order": ("stay.book", "stay.find")}) == (
        "order has to come from the result of stay.book or stay.find, and this value comes from the input (input.order)"
    )
    assert unsourced(story.saga, args, {"room": ("stay.find",)}) == (
        "room has to come from the result of stay.find, and this value comes from the result of a step "
        "(step hotel (stay.book) result)"
    )
    assert unsourced(story.saga, {}, {"order": ()}).startswith("order has to come from a result")
    assert unsourced(story.saga, "A-1001", {"order": ()}).startswith("order has to come from a result")
    assert unsourced(story.saga, args, {}) == ""
    few = started({"seats": 2, "at": {"row": 7}})
    assert unsourced(few.saga, {"seats": 2, "at": [7]}, {"seats": ()}) == "", "under its own name"
    assert unsourced(few.saga, {"row": [7]}, {"row": ()}) == ""
    assert unsourced(few.saga, {"rows": 7}, {"rows": ()}).startswith("rows has to come")


def test_a_step_that_is_set_back_is_no_source_any_more() -> None:
    story = started(None).does(StepId("1"), contract("fly.book"), Succeeded("12-A")).fails().takes_back(StepId("1"))
    assert sources_of(story.saga).origin("seat", "12-A") == NOWHERE
