"""A drill of a saga that calls others: the children run, die and go back with it, and are judged with it."""

import asyncio
import xml.etree.ElementTree as ET
from typing import Any

from amends import Asked, Done, Happened, NotHappened, Registry, SagaDefinition, Work, child, register, saga
from amends.drill import Mark, Report, drill
from amends.drill.page import junit, page
from amends.drill.records import has_changed, record_of
from amends.runtime.declare.registry import PROCESS
from tests.drill import zoo
from tests.drill.zoo import Shop, order


def drilled(definition: SagaDefinition, **options: Any) -> Report:
    return asyncio.run(drill(definition, **options))


def said(report: Report, mark: Mark = Mark.FAILED) -> set[str]:
    return {str(finding) for finding, _ in report.findings(mark)}


def twice(shop: Shop, below: SagaDefinition) -> SagaDefinition:
    """A step of its own, and two children after each other."""
    reserve = shop.reserve("stock.hold")

    @saga("zoo.twice")
    async def whole(s: Work) -> None:
        await s.do(reserve, "shelf")
        await s.call(below, 100)
        await s.call(below, 200)

    return whole


def test_a_good_saga_with_good_children_passes_everywhere_and_says_what_it_leaves_out() -> None:
    shop = Shop()
    report = drilled(twice(shop, order(shop.charge(shop.refund), shop)), world=shop.seen)
    assert said(report) == set()
    assert report.passed
    assert shop.seen() == Shop().seen()
    assert [(step.topic, step.title) for step in report.steps] == [
        ("stock.hold", "stock.hold"),
        ("amends.call", "zoo.order"),
        ("amends.call", "zoo.order"),
    ]
    faults = {str(cell.fault) for cell in report.cells if cell.step == "2"}
    assert faults >= {"fatal", "lost-done", "cancelled", "crash", "undo-fails", "undo-denied", "undo-crash"}
    runs = {str(cell.place): cell.runs for cell in report.cells}
    assert runs["2:crash"] >= 3 * runs["1:crash"], "the process also dies at what a child writes and does"
    told = "zoo.order ran as part of it; what goes wrong at a step inside of a child is for the child's own drill"
    assert told in str(report)
    assert "what goes wrong at a step inside of a child" in page(report)
    properties = ET.fromstring(junit(report)).findall("properties/property")
    assert [(each.get("name"), each.get("value")) for each in properties] == [("children", told)]


def test_a_child_that_does_not_come_back_is_named_with_the_step_that_called_it() -> None:
    shop = Shop()
    report = drilled(twice(shop, order(shop.charge(zoo.no_op(shop)), shop)), fresh=shop.fresh, only=["3:fatal"])
    stands = "step 2 (card.charge): its compensation returned success, and its effect still stands"
    assert [str(cell.place) for cell in report.cells] == ["3:fatal", "as-it-is"], "told once"
    assert said(report) == {f"step {step} (amends.call): in its child zoo.order, {stands}" for step in (2, 3)}
    assert report.mark is Mark.FAILED


def test_what_cannot_be_seen_in_a_child_is_not_proven() -> None:
    shop = Shop()
    report = drilled(twice(shop, order(shop.charge(shop.refund, blind=True), shop)), only=["taken-back"])
    blind = "step 2 (card.charge): it has no probe, so nobody can tell whether its effect stands"
    assert said(report, Mark.NOT_PROVEN) == {
        f"step {step} (amends.call): in its child zoo.order, {blind}" for step in "23"
    }


def test_children_that_fail_beside_each_other_take_the_others_back() -> None:
    shop = Shop()
    below = order(shop.charge(shop.refund), shop)

    @saga("zoo.beside")
    async def whole(s: Work) -> None:
        await s.call_all([child(below, cents) for cents in (1, 2)])

    report = drilled(whole, world=shop.seen, only=["fatal", "unknown-done", "taken-back"])
    assert said(report) == set()
    assert [str(cell.place) for cell in report.cells if cell.fault == "fatal"] == ["0.1/1:fatal", "0.2/1:fatal"]


def test_a_child_past_its_pivot_is_named_and_a_person_in_a_child_is_answered() -> None:
    sent: list[str] = []
    mail = register("zoo.mail", lambda: sent.append("hello"), no_rollback="a mail cannot be unsent")

    @saga("zoo.mailer")
    async def below(s: Work) -> None:
        await s.do(mail)

    @saga("zoo.above")
    async def whole(s: Work) -> None:
        await s.call(below)

    report = drilled(whole, env="production", allow_production=True, only=["as-it-is", "fatal", "lost-done", "crash"])
    assert said(report) == set()
    assert sent
    (as_it_is,) = (cell for cell in report.cells if cell.fault == "as-it-is")
    assert as_it_is.ended == "completed"


def test_a_saga_has_changed_when_one_that_it_calls_has() -> None:
    shop = Shop()
    whole = twice(shop, order(shop.charge(shop.refund), shop))
    record = record_of(drilled(whole, only=["taken-back"]), "x")
    assert record.children == ("zoo.order/1",)
    assert not has_changed(record, whole, PROCESS)

    @saga("zoo.order")
    async def another(s: Work, cents: int = 500) -> None:
        """Not what was drilled."""

    assert has_changed(record, whole, PROCESS)
    assert another.name == "zoo.order"
    assert has_changed(record, whole, Registry())


# -- documents --------------------------------------------------------------------------------------------------------


def test_changes_of_documents_are_proven() -> None:
    @saga("zoo.notes")
    async def whole(s: Work) -> None:
        await s.state.set("seen", 1)
        await s.documents.set("shared/page", "hello")
        await s.documents.delete("shared/page")

    report = drilled(whole)
    assert {str(each) for cell in report.cells for each in cell.findings} == set()
    assert report.passed
    topics = {report.topic_of(cell.step) for cell in report.cells if cell.fault == "crash"}
    assert topics == {"amends.document.set", "amends.document.delete"}


def test_a_lock_that_was_taken_is_a_place_to_die_at() -> None:
    """It is counted at the step that it was taken for, and not at one that there is not."""
    held: dict[str, str] = {}

    def take(name: str) -> None:
        held[name] = name

    def give_back(done: Done) -> None:
        held.pop(done.args["name"], None)

    def is_taken(asked: Asked) -> Happened | NotHappened:
        return Happened() if asked.args["name"] in held else NotHappened()

    take_it = register("zoo.take", take, compensation=give_back, probe=is_taken, resources=["thing:{name}"])

    @saga("zoo.held")
    async def whole(s: Work) -> None:
        await s.do(take_it, "a")

    report = drilled(whole, only=["crash", "undo-crash"])
    assert {cell.step for cell in report.cells} == {step.id for step in report.steps} == {"1"}
    assert report.passed
