"""Fish or cut bait: what a saga may use up, and what happens when it has."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st

from amends import (
    Abort,
    Coordinator,
    Done,
    Ended,
    Fatal,
    Limit,
    Limits,
    NotDone,
    SagaDefinition,
    Settings,
    Work,
    action,
    register,
    saga,
)
from amends.core.state.limits import MICROS
from amends.errors import DeclarationError, InputError, RefusedError, StepFailedError
from amends.journal.memory import Memory
from amends.runtime.declare.limits import to_checkpoint
from amends.runtime.settings import Bounds
from amends.testing.clock import ManualClock
from tests.runtime.support import QuickClock, World, coordinator, names
from tests.runtime.test_going_back import play


def shopper(world: World, *usd: Any, limits: Limits | None = None, name: str = "limits.shop") -> SagaDefinition:
    """A saga that does a step and spends, for each amount."""
    buy = world.action("buy")

    @saga(name, limits=limits)
    async def definition(s: Work) -> str:
        for n, amount in enumerate(usd, start=1):
            await s.do(buy, n)
            await s.spend(usd=amount, tokens=10)
        return "done"

    return definition


async def budget_of(on: Coordinator, ended: Ended) -> Any:
    return (await on.show(ended.id)).saga.budget


def test_what_is_spent_is_on_record_and_under_its_limit_nothing_happens() -> None:
    async def scene(on: Coordinator) -> tuple[Ended, Any, list[str]]:
        ended = await on.run(shopper(World(), "0.1", 0.2, Decimal("0.3"), limits=Limits(usd="0.6", tokens=30)))
        return ended, await budget_of(on, ended), names((await on.show(ended.id)).entries)

    ended, budget, entries = play(scene)
    assert ended.status == "completed"
    assert (budget.usd_micros, budget.tokens, budget.steps) == (600_000, 30, 3)
    assert entries.count("budget.spent") == 3
    assert "limit.reached" not in entries


def test_without_limits_spending_is_a_fact_and_nothing_more() -> None:
    ended = play(lambda on: on.run(shopper(World(), 5, 5)))
    assert ended.status == "completed"


def test_the_spending_that_crosses_a_limit_is_the_last_and_all_is_taken_back() -> None:
    world = World()

    async def scene(on: Coordinator) -> tuple[Ended, Any]:
        ended = await on.run(shopper(world, 2, 2, 2, 2, limits=Limits(usd=5)))
        return ended, await ended.evidence()

    ended, record = play(scene)
    assert (ended.status, ended.cause) == ("rolled_back", "limit")
    assert ended.why == "limit usd: 6 USD spent, and the limit is 5 USD"
    assert world.seen == ["buy(1)", "buy(2)", "buy(3)", "unbuy", "unbuy", "unbuy"]
    ours = record["amends"]
    assert (ours["cause"], ours["spent"]) == ("limit", {"tokens": 30, "usd": "6"})
    assert ours["limits"] == {"usd": {"most": "5 USD", "used": "6 USD", "then": "rollback"}}
    assert any("limit usd reached: 6 USD spent" in fact["text"] for fact in ours["timeline"])


def test_who_starts_a_saga_sets_limits_in_place_of_its_definition() -> None:
    world = World()
    definition = shopper(world, 2, 2, limits=Limits(usd=3, tokens=1000))
    assert play(lambda on: on.run(definition)).status == "rolled_back"
    assert play(lambda on: on.run(definition, limits=Limits(usd=10))).status == "completed"
    assert play(lambda on: on.run(definition, limits=Limits(usd=10, tokens=15))).cause == "limit"


def test_so_many_steps_and_no_more() -> None:
    world = World()
    ended = play(lambda on: on.run(shopper(world, 1, 1, 1, limits=Limits(steps=2))))
    assert (ended.status, ended.cause) == ("rolled_back", "limit")
    assert ended.why == "limit steps: test.buy would be step 3, and the limit is 2 steps"
    assert world.seen == ["buy(1)", "buy(2)", "unbuy", "unbuy"]


def test_branches_side_by_side_do_not_slip_past_the_number_of_steps() -> None:
    world = World()
    buy = world.action("buy")

    @saga("limits.side", limits=Limits(steps=3))
    async def side_by_side(s: Work) -> None:
        await asyncio.gather(*(s.do(buy, n) for n in range(1, 9)))

    async def scene(on: Coordinator) -> tuple[Ended, Any]:
        ended = await on.run(side_by_side)
        return ended, (await on.show(ended.id)).saga

    ended, state = play(scene)
    assert ended.cause == "limit"
    assert (len(state.steps), state.budget.steps) == (3, 3)


def test_a_person_is_called_and_a_retry_allows_as_much_again() -> None:
    world = World()
    definition = shopper(world, 2, 2, 2, 2, limits=Limits(usd=Limit(3, then="call")))

    async def scene(on: Coordinator) -> tuple[Ended, Any, Ended, Ended, Any]:
        halted = await on.run(definition)
        row = (await on.incidents())[0]
        again = await on.retry_incident(row.id, by="person:ann")
        ended = await on.retry_incident(again.incidents[0], by="person:ann") if again.incidents else again
        return halted, row, again, ended, await budget_of(on, ended)

    halted, row, again, ended, budget = play(scene)
    assert (halted.status, row.kind, row.left) == ("incident", "limit_reached", ("3", "1"))
    assert (again.status, ended.status) == ("incident", "completed")
    assert world.seen == ["buy(1)", "buy(2)", "buy(3)", "buy(4)"]
    assert budget.usd_micros == 8 * MICROS


def test_a_limit_that_is_raised_lets_a_stopped_saga_go_on() -> None:
    world = World()
    definition = shopper(world, 2, 2, 2, 2, limits=Limits(usd=Limit(3, then="call"), steps=100))

    async def scene(on: Coordinator) -> Ended:
        halted = await on.run(definition)
        with pytest.raises(RefusedError, match="has used 4 USD of 3 USD; raise usd to more than 4 USD"):
            await on.raise_limit(halted.id, usd=4)
        with pytest.raises(RefusedError, match="no limit on tokens; it has steps, usd"):
            await on.raise_limit(halted.id, tokens=4)
        with pytest.raises(InputError, match="usd=-1 must be more than 0"):
            await on.raise_limit(halted.id, usd=-1)
        return await on.raise_limit(halted.id, usd=8, why="worth it", by="person:ann")

    assert play(scene).status == "completed"
    assert world.seen == ["buy(1)", "buy(2)", "buy(3)", "buy(4)"]


def test_a_saga_is_paused_and_goes_on_when_its_limit_is_raised() -> None:
    world = World()
    definition = shopper(world, 2, 2, 2, 2, limits=Limits(usd=3, then="pause"))

    async def scene(on: Coordinator) -> tuple[Ended, Ended, Ended]:
        paused = await (await on.start(definition)).halt()
        again = await on.raise_limit(paused.id, by="person:ann")
        return paused, again, await on.raise_limit(paused.id, usd=100, by="person:ann")

    paused, again, ended = play(scene)
    assert (paused.status, paused.why) == ("paused", "limit usd: 4 USD spent, and the limit is 3 USD")
    assert (again.status, ended.status) == ("paused", "completed")
    assert world.seen == ["buy(1)", "buy(2)", "buy(3)", "buy(4)"]


def wanderer(world: World, spends: list[int], **limits: Any) -> SagaDefinition:
    """Plans, then buys; told why it was sent back, it buys something else."""
    buy = world.action("buy")

    @saga("limits.back", limits=Limits(**limits))
    async def definition(s: Work) -> str:
        await s.do(buy, 1)
        sent_back = await s.checkpoint("planned")
        world.note("" if sent_back is None else sent_back.why)
        await s.do(buy, 2 if sent_back is None else 3)
        await s.spend(usd=spends[0] if sent_back is None else spends[1])
        return "done"

    return definition


def test_a_saga_goes_back_to_a_checkpoint_and_on_with_guidance() -> None:
    world = World()
    back = to_checkpoint("planned", "take the cheap one")

    async def scene(on: Coordinator) -> tuple[Ended, Any]:
        ended = await on.run(wanderer(world, [6, 2], usd=5, then=back))
        return ended, await budget_of(on, ended)

    ended, budget = play(scene)
    assert ended.status == "completed"
    why = "take the cheap one (limit usd: 6 USD spent, and the limit is 5 USD)"
    assert world.seen == ["buy(1)", "", "buy(2)", "unbuy", why, "buy(3)"]
    assert (budget.usd_micros, budget.bounds["usd"].most) == (8 * MICROS, 11 * MICROS)


def test_what_goes_back_too_often_is_rolled_back() -> None:
    world = World()
    ended = play(lambda on: on.run(wanderer(world, [6, 6], usd=5, then=to_checkpoint("planned"))))
    assert (ended.status, ended.cause) == ("rolled_back", "limit")
    assert ended.why == "limit usd: 12 USD spent, and the limit is 11 USD"
    assert [one for one in world.seen if "buy" in one] == ["buy(1)", "buy(2)", "unbuy", "buy(3)", "unbuy", "unbuy"]


def test_where_there_is_no_such_checkpoint_a_person_is_called() -> None:
    world = World()
    ended = play(lambda on: on.run(wanderer(world, [6, 6], usd=5, then=to_checkpoint("nowhere"))))
    assert ended.status == "incident"
    assert "it cannot go back to checkpoint 'nowhere'" in ended.why
    assert "'planned'" in ended.why


def test_a_saga_that_has_ended_has_nothing_to_raise() -> None:
    async def scene(on: Coordinator) -> None:
        ended = await on.run(shopper(World(), 2, limits=Limits(usd=5)))
        with pytest.raises(RefusedError, match="it uses nothing up any more"):
            await on.raise_limit(ended.id, usd=8)

    play(scene)


def test_the_time_runs_while_an_action_hangs() -> None:
    world, clock = World(), ManualClock()

    @action("limits.hangs", timeout=None, atomic=True, retries=1)
    async def hangs() -> None:
        world.note("hangs")
        await asyncio.Event().wait()

    @hangs.compensation
    async def lets_go(done: Done) -> None:
        world.note("lets go")

    @saga("limits.time", limits=Limits(seconds=60))
    async def definition(s: Work) -> None:
        await s.do(world.action("buy"), 1)
        await s.do(hangs)

    async def scene(on: Coordinator) -> Ended:
        handle = await on.start(definition)
        while "hangs" not in world.seen:
            await asyncio.sleep(0)
        clock.advance(60)
        return await handle

    ended = play(scene, clock=clock, settings=Settings(lease_s=1_000_000, settle_s=0.01))
    assert (ended.status, ended.cause) == ("rolled_back", "limit")
    assert ended.why == "limit seconds: 60 s since it began, and the limit is 60 s"
    assert world.seen == ["buy(1)", "hangs", "lets go", "unbuy"]


def test_an_agent_that_goes_round_in_circles_is_cut_short() -> None:
    world = World()
    search = world.action("search", result=["nothing"])
    texts = ["find the invoice", "Find  the invoice", "FIND THE INVOICE", "find the invoice"]

    @action("limits.search", read_only=True)
    def look(text: str) -> list[str]:
        world.note(text)
        return ["nothing"]

    @saga("limits.spin", limits=Limits(spin=3))
    async def definition(s: Work) -> None:
        await s.do(search, 1)
        for text in texts:
            await s.do(look, text)

    ended = play(lambda on: on.run(definition))
    assert (ended.status, ended.cause) == ("rolled_back", "limit")
    assert ended.why == "limit spin: limits.search is asked for again, and the last 3 such steps brought nothing new"
    assert world.seen == ["search(1)", *texts[:3], "unsearch"]


@pytest.mark.parametrize("changes", ["args", "result", "topic"])
def test_whoever_asks_or_learns_something_new_does_not_spin(changes: str) -> None:
    answers = iter(range(100))

    @action("limits.poll", read_only=True)
    def poll(job: str) -> int:
        return next(answers) if changes == "result" else 0

    @action("limits.other", read_only=True)
    def other(job: str) -> int:
        return 0

    @saga("limits.polls", limits=Limits(spin=2))
    async def definition(s: Work) -> None:
        for n in range(6):
            which = other if changes == "topic" and n % 2 else poll
            await s.do(which, f"job {n}" if changes == "args" else "job")

    assert play(lambda on: on.run(definition)).status == "completed"


def test_an_agent_may_give_up_and_says_why() -> None:
    world = World()

    @saga("limits.aborts")
    async def by_method(s: Work) -> None:
        await s.do(world.action("buy"), 1)
        await s.abort("nobody sells this")

    @saga("limits.raises")
    async def by_error(s: Work) -> None:
        await s.do(world.action("buy"), 1)
        raise Abort("nobody sells this")

    for ended in (play(lambda on: on.run(by_method)), play(lambda on: on.run(by_error))):
        assert (ended.status, ended.cause, ended.why) == ("rolled_back", "aborted", "nobody sells this")
    assert world.seen == ["buy(1)", "unbuy"] * 2


def test_giving_up_ends_a_block_that_would_be_tried_again_and_its_branches() -> None:
    world = World()

    @saga("limits.gives_up")
    async def in_a_block(s: Work) -> None:
        async for attempt in s.attempts("buy", max=3):
            async with attempt:
                await s.do(world.action("buy"), attempt.number)
                raise Abort("nobody sells this")

    async def raises() -> None:
        raise Abort("nobody sells this")

    @saga("limits.gives_up_aside")
    async def in_a_branch(s: Work) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(raises())

    for ended in (play(lambda on: on.run(in_a_block)), play(lambda on: on.run(in_a_branch))):
        assert (ended.status, ended.cause, ended.why) == ("rolled_back", "aborted", "nobody sells this")
    assert world.seen == ["buy(1)", "unbuy"]


def test_a_kill_forgets_nothing_that_was_spent_and_counts_nothing_twice() -> None:
    memory, world, clock = Memory(), World(), QuickClock()
    gone: list[int] = []
    buy = world.action("buy")

    @saga("limits.killed", limits=Limits(usd=Limit(5, then="rollback")))
    async def definition(s: Work) -> str:
        for n in range(1, 4):
            await s.do(buy, n)
            await s.spend(usd=2)
            if n == 2 and not gone:
                gone.append(n)
                await asyncio.Event().wait()
        return "done"

    async def killed() -> None:
        async with coordinator(memory, clock=clock) as on:
            _ = await on.start(definition, id="k")
            while not gone:
                await asyncio.sleep(0)

    async def resumed() -> tuple[list[Ended], Any]:
        async with coordinator(memory, clock=clock) as on:
            on.registry.add_definition(definition)
            ended = await on.resume()
            return ended, (await on.show("k")).saga.budget

    asyncio.run(killed())
    ended, budget = asyncio.run(resumed())
    assert [(one.status, one.cause) for one in ended] == [("rolled_back", "limit")]
    assert budget.usd_micros == 6 * MICROS


amounts = st.lists(st.integers(min_value=1, max_value=4_000_000), min_size=1, max_size=12)


@given(spends=amounts, most=st.integers(min_value=1, max_value=9_000_000))
@settings(deadline=None, max_examples=60)
def test_the_sum_never_passes_its_limit_by_more_than_the_one_spending_that_crossed(
    spends: list[int], most: int
) -> None:
    world = World()
    usd = [Decimal(one) / MICROS for one in spends]

    async def scene(on: Coordinator) -> tuple[Ended, Any]:
        ended = await on.run(shopper(world, *usd, limits=Limits(usd=Decimal(most) / MICROS), name="limits.property"))
        return ended, await budget_of(on, ended)

    ended, budget = play(scene)
    counted = 0
    for one in spends:
        counted += one
        if counted > most:
            break
    assert budget.usd_micros == counted
    assert (ended.status == "rolled_back") == (counted > most)
    assert (
        sum(one.startswith("buy") for one in world.seen) == sum(one == "unbuy" for one in world.seen) or counted <= most
    )


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"usd": 0}, "usd=0 must be more than 0"),
        ({"tokens": -5}, "tokens=-5 must be more than 0"),
        ({"tokens": 1.5}, r"tokens=1\.5 must be a whole number"),
        ({"usd": "five"}, "usd='five' is not an amount"),
        ({"usd": float("nan")}, "is not an amount"),
        ({"steps": True}, "steps=True is not a number"),
        ({"spin": 1}, "one step is no spin: at least 2"),
        ({"usd": 5, "then": "explode"}, "'explode' is no response; write 'rollback', 'pause', 'call' or"),
        ({"usd": Limit(5, then=cast("Any", "stop"))}, "'stop' is no response"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused(declared: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        Limits(**declared)


def test_a_checkpoint_needs_a_name() -> None:
    with pytest.raises(DeclarationError, match="needs a checkpoint's name"):
        to_checkpoint(" ")


@pytest.mark.parametrize(
    ("spent", "why"),
    [
        ({}, "told of nothing"),
        ({"usd": -1}, "cannot be negative"),
        ({"tokens": -1}, "tokens are counted"),
        ({"usd": "much"}, "usd='much' is not an amount"),
        ({"tokens": 1, "what": "x" * 500}, "longer than 400"),
    ],
)
def test_a_spending_that_is_none_is_refused(spent: dict[str, Any], why: str) -> None:
    @saga("limits.refused")
    async def definition(s: Work) -> None:
        await s.spend(**spent)

    ended = play(lambda on: on.run(definition))
    assert ended.status == "rolled_back"
    assert why in ended.why


# -- failures, retries, and the bounds of one saga --------------------------------------------------------------------


def downs(many: int) -> list[NotDone]:
    return [NotDone("down") for _ in range(many)]


def flaky(world: World, *fails: BaseException | None, limits: Limits | None = None, **options: Any) -> SagaDefinition:
    """A step that stands, then one that fails as it is told to."""
    buy, pay = world.action("buy"), world.action("pay", *fails, idempotent=True)

    @saga("limits.flaky", limits=limits, **options)
    async def definition(s: Work) -> str:
        await s.do(buy, 1)
        await s.do(pay)
        return "paid"

    return definition


def test_a_saga_may_fail_so_often_and_the_next_failure_takes_it_back() -> None:
    world = World()

    async def scene(on: Coordinator) -> tuple[Ended, list[str], Any]:
        ended = await on.run(flaky(world, *downs(9), limits=Limits(failures=2)))
        return ended, names((await on.show(ended.id)).entries), await ended.evidence()

    ended, entries, record = play(scene)
    assert (ended.status, ended.cause) == ("rolled_back", "limit")
    assert ended.why == "limit failures: 3 failures so far, and the limit is 2 failures"
    assert world.seen == ["buy(1)", "pay", "pay", "pay", "unbuy"]
    at = entries.index("limit.reached")
    assert entries[at - 1 : at + 2] == ["attempt.failed", "limit.reached", "rollback.started"]
    assert record["amends"]["limits"]["failures"] == {"most": "2 failures", "used": "3 failures", "then": "rollback"}
    enough = flaky(World(), *downs(2), limits=Limits(failures=2, retries=2))
    assert play(lambda on: on.run(enough)).status == "completed"


def test_retries_are_counted_over_all_steps_and_the_next_is_not_dispatched() -> None:
    world = World()
    one, two = world.action("one", *downs(2), idempotent=True), world.action("two", *downs(2), idempotent=True)

    @saga("limits.retries", limits=Limits(retries=Limit(3, then="pause")))
    async def definition(s: Work) -> str:
        await s.do(one)
        await s.do(two)
        return "done"

    async def scene(on: Coordinator) -> tuple[Ended, Ended]:
        paused = await (await on.start(definition)).halt()
        return paused, await on.raise_limit(paused.id, retries=4, by="person:ann")

    paused, ended = play(scene)
    assert paused.why == "limit retries: test.two would be retry 4, and the limit is 3 retries"
    assert (ended.status, world.seen) == ("completed", [*["one"] * 3, *["two"] * 3])


def test_a_failure_that_the_function_catches_counts_all_the_same() -> None:
    world = World()
    pay = world.action("pay", *downs(9), retries=1)

    @saga("limits.caught", limits=Limits(failures=2))
    async def definition(s: Work) -> str:
        for _ in range(9):
            try:
                await s.do(pay)
            except StepFailedError:
                continue
        return "gave up"

    assert play(lambda on: on.run(definition)).cause == "limit"
    assert world.seen == ["pay"] * 3


def test_the_last_failure_is_one_too_many_even_where_nothing_comes_after_it() -> None:
    world = World()
    pay = world.action("pay", *downs(9), retries=1)

    @saga("limits.last", limits=Limits(failures=1))
    async def definition(s: Work) -> str:
        for _ in range(2):
            with suppress(StepFailedError):
                await s.do(pay)
        return "gave up"

    ended = play(lambda on: on.run(definition))
    assert (ended.status, ended.cause) == ("rolled_back", "limit")


def test_what_fails_in_children_counts_for_whoever_called_them() -> None:
    world = World()
    pay = world.action("pay", *downs(9), idempotent=True)

    @saga("limits.below")
    async def below(s: Work) -> None:
        await s.do(pay)

    @saga("limits.between")
    async def between(s: Work) -> None:
        await s.call(below)

    for limits, many in ((Limits(failures=2), 3), (Limits(retries=2), 3)):
        world.seen.clear()

        @saga("limits.above", limits=limits)
        async def above(s: Work) -> None:
            await s.call(between)

        async def scene(on: Coordinator, definition: SagaDefinition = above) -> Ended:
            for each in (below, between):
                on.registry.add_definition(each)
            on.registry.add_action(cast("Any", pay))
            return await on.run(definition)

        ended = play(scene)
        assert (ended.status, ended.cause) == ("rolled_back", "limit")
        assert world.seen == ["pay"] * many


def test_a_kill_forgets_no_failure() -> None:
    memory, world, clock = Memory(), World(), QuickClock()
    gone: list[int] = []

    async def act() -> None:
        world.note("pay")
        if len(world.seen) == 2:
            gone.append(1)
            await asyncio.Event().wait()
        raise NotDone("down")

    pay = register("test.killed", act, idempotent=True, no_rollback="a test")

    @saga("limits.killed_retry", limits=Limits(failures=2))
    async def definition(s: Work) -> None:
        await s.do(pay)

    async def killed() -> None:
        async with coordinator(memory, clock=clock, settings=Settings(lease_s=1_000_000, drain_s=0.01)) as on:
            _ = await on.start(definition, id="k")
            while not gone:
                await asyncio.sleep(0)

    async def resumed() -> list[Ended]:
        async with coordinator(memory, clock=clock) as on:
            on.registry.add_definition(definition)
            on.registry.add_action(cast("Any", pay))
            return await on.resume()

    asyncio.run(killed())
    (ended,) = asyncio.run(resumed())
    assert (ended.cause, len(world.seen)) == ("limit", 3)


def test_who_starts_a_saga_comes_before_its_definition_and_that_before_the_settings() -> None:
    default = Settings(lease_s=1_000_000, attempts=4, compensation_attempts=3, limits=Limits(failures=8))

    async def begun(on: Coordinator, definition: SagaDefinition, bounds: Bounds | None) -> tuple[object, ...]:
        handle = await on.start_bound(definition, {}, bounds=bounds)
        await handle
        started = (await on.show(handle.id)).saga.begun
        assert started is not None
        return started.rollback_s, started.attempts, started.compensation_attempts

    def played(definition: SagaDefinition, bounds: Bounds | None = None, settings: Settings = default) -> object:
        return play(lambda on: begun(on, definition, bounds), settings=settings)

    plain, own = flaky(World()), flaky(World(), attempts=2, rollback_s=30)
    assert played(plain, settings=Settings(lease_s=1_000_000)) == (None, None, None)
    assert played(plain) == (None, 4, 3)
    assert played(own) == (30, 2, 3)
    assert played(own, Bounds(rollback_s=5, compensation_attempts=1)) == (5, 2, 1)
    world = World()
    ended = play(lambda on: on.run(flaky(world, *downs(9), attempts=3)), settings=default)
    assert (ended.status, ended.cause, world.seen) == ("rolled_back", "failed", ["buy(1)", *["pay"] * 3, "unbuy"])
    limited = play(lambda on: on.run(flaky(World(), *downs(20))), settings=Settings(lease_s=1e6, limits=default.limits))
    assert limited.why == "limit failures: 9 failures so far, and the limit is 8 failures"


def test_a_rollback_that_takes_longer_than_its_sagas_window_is_an_incident() -> None:
    world = World()
    slow = world.action("slow", undo=[OSError("down")] * 50, compensation_retries=50)
    end = world.action("end", Fatal("the end", happened=False))

    @saga("limits.window", rollback_s=30)
    async def definition(s: Work) -> None:
        await s.do(slow)
        await s.do(end)

    clock = QuickClock()
    since = clock.now()
    ended = play(lambda on: on.run(definition), clock=clock)
    assert ended.status == "incident"
    assert clock.now() - since < 100_000  # and not the 15 minutes of the settings


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"rollback_s": 0}, "saga x: rollback_s=0 has to be more than 0"),
        ({"rollback_s": "30s"}, "saga x: rollback_s='30s' is not a number of seconds"),
        ({"lease_s": float("inf")}, "saga x: lease_s=inf has to be more than 0, and not for ever"),
        ({"attempts": 0}, "saga x: attempts=0 has to be a whole number from 1"),
        ({"compensation_attempts": 1.5}, r"saga x: compensation_attempts=1\.5 has to be a whole number"),
    ],
)
def test_a_bound_that_nothing_could_keep_to_is_refused_where_it_is_declared(options: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        SagaDefinition("x", [World().action("a")], **options)
    with pytest.raises(DeclarationError, match=why.replace("saga x", "Settings")):
        Settings(**options)
