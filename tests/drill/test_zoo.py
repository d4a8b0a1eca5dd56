"""The drill names what is wrong with each compensation of the zoo, and has nothing to say about good ones."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from amends import Asked, ChangedSince, Done, Fatal, Happened, NotHappened, SagaDefinition, Work, key, register, saga
from amends.drill import Fault, Mark, Report, drill, somebody_else
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
    places = f" ({zoo.__name__.replace('.', '/')}.py:"
    assert CHARGE + fault in {each.partition(places)[0] for each in said(report)}
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


# -- one step over another --------------------------------------------------------------------------------------------


def doors(close_again: Callable[[set[str]], object]) -> tuple[set[str], SagaDefinition]:
    """A door is closed and opened again: what the second step leaves is what there was before the first."""
    closed: set[str] = set()

    def shut() -> None:
        closed.add("door")

    def unlock() -> None:
        closed.discard("door")

    def open_again(done: Done) -> None:
        closed.discard("door")

    def is_shut(asked: Asked) -> Happened | NotHappened:
        return Happened() if closed else NotHappened()

    def is_open(asked: Asked) -> Happened | NotHappened:
        return NotHappened() if closed else Happened()

    def shut_again(done: Done) -> None:
        close_again(closed)

    close = register("door.close", shut, compensation=open_again, probe=is_shut, idempotent=True)
    reopen = register("door.open", unlock, compensation=shut_again, probe=is_open, idempotent=True)

    @saga("zoo.doors")
    async def whole(s: Work) -> None:
        await s.do(close)
        await s.do(reopen)

    return closed, whole


def test_a_step_that_takes_an_earlier_ones_effect_away_and_gives_it_back_passes_and_is_told_of() -> None:
    closed, whole = doors(lambda closed: closed.add("door"))
    report = drilled(whole, fresh=closed.clear)
    assert said(report) == set()
    assert report.passed
    assert report.covered == (("1", "2"),)
    told = "step 2 (door.open) takes its effect away, and gives it back when it is taken back"
    assert f"covered: step 1 (door.close): {told}" in str(report)


def test_one_that_takes_it_away_and_does_not_give_it_back_is_named() -> None:
    closed, whole = doors(lambda _closed: None)
    report = drilled(whole, fresh=closed.clear, only=["taken-back"])
    assert said(report) == {
        "step 2 (door.open): it takes away what step 1 (door.close) did, and its compensation does not bring that back",
        "step 2 (door.open): its compensation returned success, and its effect still stands",
    }
    assert report.covered == ()


def test_an_effect_that_never_stood_is_not_excused_by_a_later_step() -> None:
    closed, whole = doors(lambda closed: closed.add("door"))

    def nothing() -> None: ...

    def is_done(asked: Asked) -> Happened | NotHappened:
        return NotHappened()

    def undo(done: Done) -> None: ...

    idle = register("door.paint", nothing, compensation=undo, probe=is_done)

    @saga("zoo.painted")
    async def painted(s: Work) -> None:
        await s.do(idle)
        await whole(s)

    report = drilled(painted, fresh=closed.clear, only=["as-it-is"])
    assert said(report) == {"step 1 (door.paint): the saga is completed, and its effect does not stand"}


def test_one_that_cannot_run_twice_in_a_row_is_named() -> None:
    """What the first run left behind, though it was taken back, keeps the second one from its steps."""
    used: list[str] = []

    def once() -> None:
        if used:
            raise Fatal("the number is taken", happened=False)
        used.append("17")

    def forget(done: Done) -> None: ...

    number = register("zoo.number", once, compensation=forget)
    reserve = Shop().reserve()

    @saga("zoo.numbered")
    async def whole(s: Work) -> None:
        await s.do(number)
        await s.do(reserve, "lamp")

    report = drilled(whole, only=["taken-back"])
    why = "zoo.number (step 1): the number is taken"
    assert said(report) == {f"after the first run it does not come as far a second time: {why}"}
    assert drilled(whole, only=["taken-back"], fresh=used.clear).mark is Mark.NOT_PROVEN


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
