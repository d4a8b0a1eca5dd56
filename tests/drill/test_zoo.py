"""The drill names what is wrong with each compensation of the zoo, and has nothing to say about good ones."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from amends import Asked, ChangedSince, Done, Happened, NotHappened, SagaDefinition, Work, key, register, saga
from amends.testing.drill import Fault, Mark, Report, drill, somebody_else
from tests.drill import zoo
from tests.drill.zoo import Shop, order


def drilled(definition: SagaDefinition, input: object = None, **options: Any) -> Report:
    return asyncio.run(drill(definition, input, **options))


def said(report: Report, mark: Mark = Mark.FAILED) -> set[str]:
    return {str(finding) for finding, _ in report.findings(mark)}


CHARGE = "step 2 (card.charge): "
NOT_IDEMPOTENT = "its compensation is not idempotent: it had worked, and fails when it is called again"


def test_a_good_saga_passes_everywhere() -> None:
    shop = Shop()
    report = drilled(order(shop.charge(shop.refund), shop))
    assert said(report) == set()
    assert report.passed
    assert shop.seen() == Shop().seen()


@pytest.mark.parametrize(
    ("creature", "fault"),
    [
        (zoo.no_op, "its compensation returned success, and its effect still stands"),
        (
            zoo.not_idempotent,
            f"{NOT_IDEMPOTENT}: LookupError: there is no such charge",
        ),
        (
            zoo.fails_when_nothing_happened,
            "its compensation fails when the action never happened: LookupError: there is no such charge",
        ),
        (
            zoo.wrong_order,
            "its compensation also takes back step 1 (stock.reserve), whose turn has not come: not newest first",
        ),
        (zoo.hangs, "its compensation hangs: no answer in 0.2 s"),
        (zoo.raises_base_exception, "its compensation fails: Unheard: out of here"),
        (zoo.exits, "its compensation fails: RuntimeError: SystemExit: 1"),
    ],
)
def test_each_creature_is_named(creature: Callable[[Shop], Callable[..., object]], fault: str) -> None:
    shop = Shop()
    definition = order(shop.charge(creature(shop)), shop)
    report = drilled(definition, fresh=shop.fresh, patience_s=0.2)
    assert CHARGE + fault in said(report)
    assert report.mark is Mark.FAILED
    assert report.mark_of("card.charge") is Mark.FAILED


def test_a_compensation_that_hangs_in_a_thread_is_named_and_waited_for_once() -> None:
    shop = Shop()
    report = drilled(order(shop.charge(zoo.hangs_in_a_thread(shop)), shop), fresh=shop.fresh, patience_s=0.2)
    assert any(each.startswith(f"{CHARGE}its compensation hangs: ") for each in said(report))


def test_a_double_refund_is_seen_by_a_snapshot_of_the_world() -> None:
    """A probe says whether the charge stands, and it does not; only the till knows that the money went back twice."""
    shop = Shop()
    definition = order(shop.charge(zoo.double_refund(shop)), shop)
    assert said(drilled(definition, fresh=shop.fresh, only=["undo-repeated"])) == set()
    report = drilled(definition, fresh=shop.fresh, world=shop.seen)
    twice = "its compensation is not idempotent: it was called 2 times, and 'till' was 0 and is -500"
    assert CHARGE + twice in said(report)


def test_taking_back_what_never_happened_is_seen_by_a_snapshot() -> None:
    shop = Shop()
    report = drilled(order(shop.charge(zoo.takes_back_too_much(shop)), shop), fresh=shop.fresh, world=shop.seen)
    assert said(report) == {f"{CHARGE}its compensation takes back what never happened: 'till' was 0 and is -500"}
    assert {cell.fault for _, cells in report.findings() for cell in cells} >= {Fault.UNKNOWN_NOT_DONE}


# -- somebody else's change -------------------------------------------------------------------------------------------


def roles(shop: Shop, restore: Callable[..., object]) -> SagaDefinition:
    """A saga of one step; what somebody else does is declared for its topic, and the last declaration counts."""
    set_role = shop.set_role(restore)

    @somebody_else(set_role)
    def promote(asked: Asked) -> None:
        shop.roles[asked.args["user"]] = "admin"

    @saga("zoo.roles")
    async def change(s: Work) -> None:
        await s.do(set_role, "kim", "driver")

    return change


def test_one_that_restores_over_somebody_elses_change_is_named() -> None:
    shop = Shop()

    def overwrite(done: Done) -> None:
        shop.roles[done.args["user"]] = done.before

    report = drilled(roles(shop, overwrite), fresh=shop.fresh)
    over = "its compensation restores over somebody else's change: it was 'admin' and is 'clerk'"
    assert said(report) == {f"step 1 (role.set): {over}"}
    (cell,) = (cell for cell in report.cells if cell.mark is Mark.FAILED)
    assert cell.fault is Fault.CHANGED_SINCE


@pytest.mark.parametrize("refuses", [True, False])
def test_one_that_refuses_to_overwrite_or_leaves_it_alone_passes(refuses: bool) -> None:
    shop = Shop()

    def careful(done: Done) -> None:
        user = done.args["user"]
        if shop.roles[user] == done.args["role"]:
            shop.roles[user] = done.before
        elif shop.roles[user] != done.before and refuses:
            raise ChangedSince(f"{user} has been made {shop.roles[user]}")

    report = drilled(roles(shop, careful), fresh=shop.fresh)
    assert said(report) == set()
    assert report.passed
    assert report.cell(Fault.CHANGED_SINCE, "1") is not None


def test_a_cry_of_changed_since_where_nobody_changed_anything_is_named() -> None:
    shop = Shop()

    def anxious(done: Done) -> None:
        raise ChangedSince("who knows")

    found = said(drilled(order(shop.charge(anxious), shop), fresh=shop.fresh, only=["taken-back"]))
    assert f"{CHARGE}its compensation says that somebody changed it, and nobody did: who knows" in found


# -- what cannot be seen ----------------------------------------------------------------------------------------------


def test_where_an_action_has_no_probe_nothing_is_passed() -> None:
    shop = Shop()
    report = drilled(order(shop.charge(shop.refund, blind=True), shop))
    assert report.mark is Mark.NOT_PROVEN
    assert said(report) == set()
    assert said(report, Mark.NOT_PROVEN) == {
        f"{CHARGE}it has no probe, so nobody can tell whether its effect stands",
    }
    assert {cell.mark for cell in report.cells if cell.step == "2"} == {Mark.NOT_PROVEN}
    assert report.mark_of("stock.reserve") is Mark.PASSED
    assert report.mark_of("card.charge") is Mark.NOT_PROVEN


def test_a_snapshot_of_the_world_sees_what_no_probe_sees() -> None:
    shop = Shop()
    assert drilled(order(shop.charge(shop.refund, blind=True), shop), world=shop.seen).passed
    broken = drilled(order(shop.charge(zoo.no_op(shop), blind=True), shop), world=shop.seen, fresh=shop.fresh)
    assert any(each.startswith("the world does not come back: ") for each in said(broken))


def test_a_probe_that_does_not_answer_proves_nothing() -> None:
    def act() -> None: ...

    def undo(done: Done) -> None: ...

    def ask(asked: Asked) -> Happened | NotHappened:
        raise ConnectionError("nobody there")

    mute = register("zoo.mute", act, compensation=undo, probe=ask)

    @saga("zoo.mute")
    async def whole(s: Work) -> None:
        await s.do(mute)

    found = said(drilled(whole, only=["taken-back"]), Mark.NOT_PROVEN)
    assert found == {"step 1 (zoo.mute): its probe does not answer: ConnectionError: nobody there"}


# -- lies of actions --------------------------------------------------------------------------------------------------


def test_an_action_that_says_it_is_idempotent_and_is_not_is_named() -> None:
    shop = Shop()

    def refund_one(done: Done) -> None:
        for charge in shop.charges:
            if charge[0] == done.action_key:
                shop.charges.remove(charge)
                return

    def charge(cents: int) -> None:
        shop.charges.append((key(), cents))

    lying = register("card.charge", charge, compensation=refund_one, idempotent=True)
    report = drilled(order(lying, shop), world=shop.seen, fresh=shop.fresh)
    assert any("the world does not come back: 'charges' was []" in each for each in said(report))


def test_an_action_that_certifies_that_nothing_happened_and_lies_is_named() -> None:
    shop = Shop()

    def charge(cents: int) -> None:
        shop.charges.append((key(), cents))
        raise ValueError("after the fact")

    def ask(asked: Asked) -> Happened | NotHappened:
        return Happened() if shop.paid(asked.key) else NotHappened()

    lying = register("card.charge", charge, compensation=shop.refund, probe=ask, atomic=True, retries=2)
    found = said(drilled(order(lying, shop), fresh=shop.fresh))
    assert f"{CHARGE}it said that nothing had happened, and its effect stands: ValueError: after the fact" in found
