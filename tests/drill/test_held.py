"""A drill of what is held until nothing can fail: it is dropped, or goes out, or a person has it tried again."""

import asyncio
from typing import Any

import pytest

import amends
from amends import Action, Asked, Done, Happened, NotHappened, SagaDefinition, Work, register, saga
from amends.drill import Mark, Report, drill
from tests.drill.zoo import Shop

sent: dict[str, str] = {}


def mail(**more: Any) -> Action[..., Any]:
    async def send(to: str) -> None:
        sent[amends.key()] = to

    async def find(asked: Asked) -> Happened | NotHappened:
        return Happened() if asked.key in sent else NotHappened()

    probe = None if more.pop("blind", False) else find
    return register("mail.send", send, no_rollback="a mail cannot be unsent", hold=True, probe=probe, **more)


def drilled(definition: SagaDefinition, **options: Any) -> Report:
    return asyncio.run(drill(definition, fresh=sent.clear, **options))


def said(report: Report, mark: Mark = Mark.FAILED) -> set[str]:
    return {str(finding) for finding, _ in report.findings(mark)}


def letter(reserve: Action[..., Any], *, first: bool, blind: bool = False) -> SagaDefinition:
    send = mail(blind=blind)

    @saga("held.letter")
    async def whole(s: Work) -> None:
        if first:
            await s.do(send, "ann")
        await s.do(reserve, "seat")
        if not first:
            await s.do(send, "ann")

    return whole


@pytest.mark.parametrize(("first", "blind"), [(True, False), (False, False), (True, True), (False, True)])
def test_a_right_saga_with_a_held_step_passes_everywhere_and_its_compensations_are_drilled(
    first: bool, blind: bool
) -> None:
    report = drilled(letter(Shop().reserve(), first=first, blind=blind))
    assert said(report) == set()
    assert report.passed
    seat, held = ("2", "1") if first else ("1", "2")
    ends = {str(cell.place): cell.ended for cell in report.cells}
    assert ends["taken-back"] == "rolled_back", "before anything held has gone out"
    assert ends[f"{held}:fatal"] == "incident", "the work stands, and a person has it tried again"
    assert {f"{seat}:undo-fails", f"{seat}:undo-repeated", f"{seat}:undo-crash"} <= ends.keys()


def test_a_held_step_that_fails_by_itself_is_still_a_failure() -> None:
    async def send(to: str) -> None:
        raise amends.Fatal("no such mailbox", happened=False)

    bounces = register("mail.send", send, no_rollback="a mail cannot be unsent", hold=True)

    @saga("held.bounces")
    async def whole(s: Work) -> None:
        await s.do(bounces, "nobody")

    assert said(drilled(whole)) == {"step 1 (mail.send): a person is called: no such mailbox"}


def test_a_compensation_that_leaves_something_is_named_though_the_saga_holds_a_pivot() -> None:
    shop = Shop()
    reserved = shop.reserve("stock.other")

    async def nothing(done: Done) -> None: ...

    lazy = register("stock.reserve", reserved.parts.function, compensation=nothing, probe=reserved.parts.probe)
    report = drilled(letter(lazy, first=True), only=["taken-back"])
    assert said(report) == {"step 2 (stock.reserve): its compensation returned success, and its effect still stands"}


def test_what_a_child_holds_is_dropped_with_its_family_and_the_family_is_drilled_back() -> None:
    shop = Shop()
    below, reserve = letter(shop.reserve(), first=True), shop.reserve("stock.hold")

    @saga("held.family")
    async def whole(s: Work) -> None:
        await s.call(below)
        await s.do(reserve, "shelf")

    report = drilled(whole)
    assert said(report) == set()
    assert report.passed
    ends = {str(cell.place): cell.ended for cell in report.cells}
    assert ends["taken-back"] == "rolled_back"
    assert {"1:undo-fails", "2:undo-fails", "2:undo-denied", "1:undo-crash"} <= ends.keys()
