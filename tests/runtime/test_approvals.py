"""Approvals, driven: asked, parked, answered from anywhere, used once; and rates, and judged compensations."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amends import (
    Asked,
    Coordinator,
    Done,
    Registry,
    SagaDefinition,
    Secret,
    Settings,
    StepDeniedError,
    StepFailedError,
    action,
    saga,
)
from amends.bootstrap import Coordinator as Opened
from amends.core import commands, decide
from amends.core.events import StepThrottled
from amends.core.state.saga import Saga, open_waits
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Topic
from amends.core.words.values import SagaId, StepId
from amends.core.words.verdict import Verdict
from amends.errors import InputError, PolicyError, RefusedError, UnknownApprovalError
from amends.gate.facts import Facts, Gate
from amends.gate.load import parse_policy
from amends.gate.policy import PolicyGate
from amends.journal.memory import Memory, MemoryJournal
from amends.runtime.saga.work import Work
from amends.testing.clock import ManualClock
from tests.runtime.support import QuickClock, World, names

ASK = """
version: v1
default: allow
rules:
  - id: ask-first
    when: {topic: test.pay, phase: forward}
    decision: require_human
    reason: it is money
    expires: 1h
"""
ALLOW = "version: v1\ndefault: allow\nrules: []\n"
TWO = ASK.replace("expires: 1h", "approvals: 2")
NOW_PARKED = Settings(lease_s=1_000_000, settle_s=1, park_s=0.0, poll_s=0.01)


def driven(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


def gated(
    gate: Gate, memory: Memory | None = None, clock: QuickClock | None = None, registry: Registry | None = None
) -> Coordinator:
    used = clock or QuickClock()
    return Coordinator(
        journal=MemoryJournal(used, memory), gate=gate, clock=used, settings=NOW_PARKED, registry=registry or Registry()
    )


def coordinator(
    policy: str, memory: Memory | None = None, *, clock: QuickClock | None = None, registry: Registry | None = None
) -> Coordinator:
    return gated(PolicyGate(parse_policy(policy)), memory, clock, registry)


async def parked(coordinator: Coordinator, saga_id: str) -> str:
    """Wait until it waits for people; the id of what they are asked."""
    while True:
        rows = await coordinator.approvals(saga=saga_id)
        if rows and coordinator._engine.running(rows[0].saga) is None:
            return rows[0].id
        await asyncio.sleep(0.001)


async def until(coordinator: Coordinator, saga_id: str, stands: Callable[[Saga], bool]) -> None:
    while not stands((await coordinator.show(saga_id)).saga):
        await asyncio.sleep(0.001)


def pay_once(world: World, **contract: Any) -> SagaDefinition:
    book, pay = world.action("book"), world.action("pay", result="paid", **contract)

    @saga("test.paying")
    async def paying(s: Work, n: int) -> Any:
        await s.do(book)
        return await s.do(pay, n)

    return paying


# -- the whole way ----------------------------------------------------------------------------------------------------


@driven
async def test_a_saga_waits_for_people_without_being_in_memory_and_goes_on_when_they_agree() -> None:
    world = World()
    async with coordinator(ASK) as c:
        running = await c.start(pay_once(world), 7, id="s", actor="agent:bot")
        waiting = await parked(c, "s")
        row = await c.journal.saga(running.id)
        assert (row and row.status, world.seen, c._engine._runs) == ("waiting", ["book"], {})
        shown = await c.approval(waiting)
        assert (shown.topic, shown.args, shown.rule, shown.requester) == (
            "test.pay",
            {"n": 7},
            "ask-first",
            "agent:bot",
        )
        assert (shown.why, shown.compensation) == ("it is money", "undo")
        assert [line.text for line in shown.so_far][-1].startswith("approval requested from 1 person by ask-first")
        answered = await c.grant(waiting, by="person:ann", digest=shown.digest)
        assert answered.signers == ("person:ann",)
        ended = await running
        assert (ended.status, ended.result, world.seen) == ("completed", "paid", ["book", "pay(7)"])
        entries = names((await c.show("s")).entries)
    used = entries.index("approval.used")
    assert entries[used + 1] == "attempt.started"


@driven
async def test_a_refusal_is_told_to_the_function_and_rolls_back() -> None:
    world = World()
    async with coordinator(ASK) as c:
        running = await c.start(pay_once(world), 7, id="s")
        await c.refuse(await parked(c, "s"), by="person:ann", why="too much")
        ended = await running
    assert (ended.status, ended.cause, world.seen) == ("rolled_back", "denied", ["book", "unbook"])
    assert "person:ann refused it: too much" in ended.why


@driven
async def test_two_people_are_two() -> None:
    world = World()
    async with coordinator(TWO) as c:
        running = await c.start(pay_once(world), 7, id="s")
        waiting = await parked(c, "s")
        await c.grant(waiting, by="person:ann")
        with pytest.raises(RefusedError, match="another person is needed"):
            await c.grant(waiting, by="person:ann")
        await parked(c, "s")
        assert world.seen == ["book"]
        await c.grant(waiting, by="person:bob")
        assert (await running).status == "completed"


@driven
async def test_what_nobody_answers_in_time_is_denied() -> None:
    world, clock = World(), QuickClock()
    async with coordinator(ASK, clock=clock) as c:
        running = await c.start(pay_once(world), 7, id="s")
        waiting = await parked(c, "s")
        clock.advance(3600)
        with pytest.raises(RefusedError, match="has expired"):
            await c.grant(waiting, by="person:ann")
        ended = await running
    assert (ended.status, ended.cause, world.seen) == ("rolled_back", "denied", ["book", "unbook"])


@driven
async def test_a_parked_saga_wakes_by_itself_when_its_time_is_up() -> None:
    world, clock = World(), QuickClock()
    async with coordinator(ASK, clock=clock) as c:
        running = await c.start(pay_once(world), 7, id="s")
        await parked(c, "s")
        clock.advance(3600)
        assert (
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(_end(running))), 10)
        ).status == "rolled_back"


async def _end(handle: Any) -> Any:
    return await handle


@driven
async def test_another_process_answers_and_a_third_goes_on() -> None:
    """Nobody holds it meanwhile: the first has ended, and the second does not know the saga."""
    world, memory, clock = World(), Memory(), QuickClock()
    paying = pay_once(world)
    async with coordinator(ASK, memory, clock=clock) as first:
        _ = await first.start(paying, 7, id="s")
        waiting = await parked(first, "s")
    async with coordinator(ASK, memory, clock=clock) as second:
        await second.grant(waiting, by="person:ann")
    assert world.seen == ["book"]
    registry = Registry()
    registry.add_definition(paying)
    async with coordinator(ASK, memory, clock=clock, registry=registry) as third:
        (ended,) = await third.resume()
    assert (ended.status, world.seen) == ("completed", ["book", "pay(7)"])


@driven
async def test_resuming_leaves_alone_what_only_waits_for_people() -> None:
    world, memory, clock = World(), Memory(), QuickClock()
    paying = pay_once(world)
    async with coordinator(ASK, memory, clock=clock) as first:
        _ = await first.start(paying, 7, id="s")
        await parked(first, "s")
    registry = Registry()
    registry.add_definition(paying)
    async with coordinator(ASK, memory, clock=clock, registry=registry) as second:
        assert await second.resume() == []
        assert [row.status for row in await second.list()] == ["waiting"]


@driven
async def test_a_secret_survives_the_wait_in_the_process_that_was_given_it() -> None:
    world = World()
    seen: list[str] = []
    pay = world.action("pay")

    @saga("test.secret")
    async def paying(s: Work, token: Any) -> None:
        await s.do(pay, 7)
        seen.append(token.reveal())

    async with coordinator(ASK) as c:
        running = await c.start(paying, Secret("swordfish"), id="s")
        await c.grant(await parked(c, "s"), by="person:ann")
        assert (await running).status == "completed"
    assert seen == ["swordfish"]


@driven
async def test_cancelling_a_saga_that_waits_voids_what_was_asked() -> None:
    world = World()
    async with coordinator(ASK) as c:
        running = await c.start(pay_once(world), 7, id="s")
        waiting = await parked(c, "s")
        await c.cancel("s", by="person:ann")
        assert (await running).status == "rolled_back"
        assert (await c.approval(waiting)).status == "void"
        assert await c.approvals() == []
        with pytest.raises(RefusedError, match="does not wait for an approval"):
            await c.grant(waiting, by="person:ann")
    assert world.seen == ["book", "unbook"]


@driven
async def test_branches_that_go_on_beside_one_that_waits_are_not_stopped() -> None:
    world = World()
    slow, pay = world.action("slow"), world.action("pay")

    @saga("test.branches")
    async def both(s: Work) -> None:
        async def second() -> None:
            await s.do(slow, 1)
            await s.do(slow, 2)

        await asyncio.gather(s.do(pay, 7), second())

    async with coordinator(ASK) as c:
        running = await c.start(both, id="s")
        waiting = await parked(c, "s")
        assert world.seen == ["slow(1)", "slow(2)"]
        await c.grant(waiting, by="person:ann")
        assert (await running).status == "completed"
    assert world.seen == ["slow(1)", "slow(2)", "pay(7)"]


# -- asking ahead -----------------------------------------------------------------------------------------------------

SEEDS = """
version: v1
rules:
  - id: require-compensation-for-prod-writes
    when:
      env: production
      side_effect: true
      compensation_declared: false
    decision: require_human

  - id: deny-irreversible-delete-without-approval
    when:
      topic: test.delete
      rollback_supported: false
      approval_present: false
    decision: deny
"""


def delete_saga(world: World, *, ahead: bool) -> SagaDefinition:
    delete = world.action("delete", no_rollback="what is deleted is gone")

    @saga("test.deleting")
    async def deleting(s: Work, n: int) -> Any:
        approvers: Any = await s.ask(delete, n) if ahead else ()
        await s.do(delete, n)
        return list(approvers)

    return deleting


@driven
async def test_the_seeds_rule_denies_a_delete_that_nobody_asked_for_ahead() -> None:
    world = World()
    async with coordinator(SEEDS) as c:
        ended = await c.run(delete_saga(world, ahead=False), 7)
    assert (ended.status, world.seen) == ("rolled_back", [])


@driven
async def test_asked_for_ahead_it_is_done_once_approved() -> None:
    world = World()
    async with coordinator(SEEDS) as c:
        running = await c.start(delete_saga(world, ahead=True), 7, id="s")
        await c.grant(await parked(c, "s"), by="person:ann")
        ended = await running
    assert (ended.status, ended.result, world.seen) == ("completed", ["person:ann"], ["delete(7)"])


@driven
async def test_refused_ahead_the_function_may_go_on_without_it() -> None:
    world = World()
    delete = world.action("delete", no_rollback="gone")

    @saga("test.careful")
    async def careful(s: Work) -> str:
        try:
            await s.ask(delete, 7)
        except StepDeniedError as exc:
            return f"kept: {exc}"
        return "deleted"

    async with coordinator(SEEDS) as c:
        running = await c.start(careful, id="s")
        await c.refuse(await parked(c, "s"), by="person:ann", why="no")
        ended = await running
    assert (ended.status, world.seen) == ("completed", [])
    assert "person:ann refused it: no" in ended.result


def paying(body: Callable[[Work, Any], Coroutine[Any, Any, Any]], pay: Any) -> SagaDefinition:
    async def function(s: Work) -> Any:
        return await body(s, pay)

    return saga("test.paying")(function)


async def red_once(s: Work, pay: Any) -> None:
    await s.ask(pay, 7)
    async for attempt in s.attempts("t", max=2):
        async with attempt:
            await s.do(pay, 7)
            if attempt.number == 1:
                raise ValueError("red")


async def back_to_checkpoint(s: Work, pay: Any) -> None:
    await s.ask(pay, 7)
    await s.checkpoint("cp")
    await s.do(pay, 7)
    assert [one.topic for one in (await s.rollback_to("cp", "red")).taken_back] == ["test.pay"]
    await s.do(pay, 7)


async def back_by_one(s: Work, pay: Any) -> None:
    await s.ask(pay, 7)
    await s.do(pay, 7)
    await s.rollback_last(1, "red")
    await s.do(pay, 7)


@pytest.mark.parametrize("body", [red_once, back_to_checkpoint, back_by_one])
@driven
async def test_what_was_asked_ahead_goes_back_with_the_place_where_it_is_done(body: Any) -> None:
    world = World()
    async with coordinator(ALLOW) as c:
        running = await c.start(paying(body, world.action("pay")), id="s")
        await c.grant(await parked(c, "s"), by="person:ann")
        assert (await running).status == "completed"
    assert world.seen == ["pay(7)", "unpay", "pay(7)"]


@driven
async def test_the_second_try_of_what_was_asked_ahead_asks_again_where_the_policy_asks() -> None:
    world = World()
    async with coordinator(ASK) as c:
        running = await c.start(paying(red_once, world.action("pay")), id="s")
        first = await parked(c, "s")
        await c.grant(first, by="person:ann")
        second = await parked(c, "s")
        assert (second != first, world.seen) == (True, ["pay(7)", "unpay"])
        await c.grant(second, by="person:ann")
        assert (await running).status == "completed"
    assert world.seen == ["pay(7)", "unpay", "pay(7)"]


@driven
async def test_what_was_asked_ahead_and_is_irreversible_is_not_tried_twice() -> None:
    world = World()
    async with coordinator(ALLOW) as c:
        running = await c.start(paying(red_once, world.action("pay", no_rollback="it is gone")), id="s")
        await c.grant(await parked(c, "s"), by="person:ann")
        ended = await running
    assert (ended.status, world.seen) == ("incident", ["pay(7)"])
    assert "is not taken back: saga s cannot go back that far" in ended.why


@driven
async def test_asked_in_a_try_that_failed_before_it_was_done_it_is_asked_again_in_the_next() -> None:
    world = World()

    async def body(s: Work, pay: Any) -> None:
        async for attempt in s.attempts("t", max=2):
            async with attempt:
                await s.ask(pay, 7)
                if attempt.number == 1:
                    raise ValueError("red")
                await s.do(pay, 7)

    async with coordinator(ALLOW) as c:
        running = await c.start(paying(body, world.action("pay")), id="s")
        for _ in range(2):
            await c.grant(await parked(c, "s"), by="person:ann")
        assert (await running).status == "completed"
    assert world.seen == ["pay(7)"]


@driven
async def test_going_back_from_outside_to_between_the_asking_and_the_doing_does_it_anew_and_asks_nobody_ahead() -> None:
    world = World()

    async def body(s: Work, pay: Any) -> list[str]:
        by = await s.ask(pay, 7)
        await s.checkpoint("cp")
        await s.do(pay, 7)
        return list(by)

    async with coordinator(ALLOW) as c:
        running = await c.start(paying(body, world.action("pay")), id="s")
        await c.grant(await parked(c, "s"), by="person:ann")
        assert (await running).status == "completed"
        ended = await c.rollback("s", to="cp", why="again", by="person:bob")
        assert (ended.status, ended.result) == ("completed", ["person:ann"])
        steps = (await c.show("s")).saga.steps
        assert {step.id: (step.place, step.status.value) for step in steps.values()} == {
            "1": ("3", "compensated"),
            "3~2": ("3~2", "succeeded"),
        }
        assert [one.id for one in await c.approvals(saga="s", open_only=False)] == ["s/1"]
    assert world.seen == ["pay(7)", "unpay", "pay(7)"]


@driven
async def test_going_back_from_outside_to_before_the_asking_asks_again() -> None:
    world = World()

    async def body(s: Work, pay: Any) -> None:
        await s.checkpoint("cp")
        await s.ask(pay, 7)
        await s.do(pay, 7)

    async with coordinator(ALLOW) as c:
        running = await c.start(paying(body, world.action("pay")), id="s")
        await c.grant(await parked(c, "s"), by="person:ann")
        assert (await running).status == "completed"
        going = asyncio.ensure_future(c.rollback("s", to="cp", why="again", by="person:bob"))
        assert await parked(c, "s") == "s/2~2"
        await c.grant("s/2~2", by="person:ann")
        await going
        await until(c, "s", lambda state: state.phase is SagaStatus.COMPLETED)
        assert (await c.show("s")).saga.steps[StepId("2~2")].place == "3~2"
    assert world.seen == ["pay(7)", "unpay", "pay(7)"]


@driven
async def test_what_is_held_and_was_asked_ahead_but_never_done_is_not_released() -> None:
    world = World()

    async def body(s: Work, pay: Any) -> None:
        await s.ask(pay, 7)

    async with coordinator(ALLOW) as c:
        running = await c.start(paying(body, world.action("pay", no_rollback="out", hold=True)), id="s")
        await c.grant(await parked(c, "s"), by="person:ann")
        assert (await running).status == "completed"
    assert world.seen == []


@driven
async def test_a_step_that_an_old_journal_has_at_its_asking_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    world, memory, clock = World(), Memory(), QuickClock()
    pay, other = world.action("pay"), world.action("other")

    async def body(s: Work, pay: Any) -> None:
        await s.ask(pay, 7)
        await s.do(other)
        await s.do(pay, 7)
        await s.wait_for("go")
        await s.do(other)

    definition = paying(body, pay)
    propose = decide._propose

    def not_ahead(saga: Saga, command: commands.ProposeStep) -> Any:
        return propose(saga, replace(command, ahead=False))

    with monkeypatch.context() as old:
        old.setattr(decide, "_propose", not_ahead)
        async with coordinator(ALLOW, memory, clock=clock) as c:
            running = await c.start(definition, id="s")
            await c.grant(await parked(c, "s"), by="person:ann")
            await until(c, "s", lambda state: bool(open_waits(state)))
            await running.halt()
    registry = Registry()
    registry.add_definition(definition)
    async with coordinator(ALLOW, memory, clock=clock, registry=registry) as c:
        await c.signal("s", "go", by="person:ann")
        await c.resume()
        await until(c, "s", lambda state: state.phase is SagaStatus.COMPLETED)
        history = await c.show("s")
        assert (history.saga.phase, list(history.saga.steps)) == ("completed", ["1", "2", "4"])
        assert "step.placed" not in names(history.entries)
    assert world.seen == ["other", "pay(7)", "other"]


@driven
async def test_what_was_asked_with_other_arguments_is_not_what_was_approved() -> None:
    world = World()
    delete = world.action("delete", no_rollback="gone")

    @saga("test.sly")
    async def sly(s: Work) -> None:
        await s.ask(delete, 7)
        await s.do(delete, 8)

    async with coordinator(SEEDS) as c:
        running = await c.start(sly, id="s")
        await c.grant(await parked(c, "s"), by="person:ann")
        ended = await running
    assert (ended.status, world.seen) == ("rolled_back", [])


# -- drift ------------------------------------------------------------------------------------------------------------


class Swappable:
    """A gate whose policy changes under way."""

    def __init__(self, text: str) -> None:
        self.use(text)

    def use(self, text: str) -> None:
        self._gate = PolicyGate(parse_policy(text))

    def judge(self, facts: Facts) -> Verdict:
        return self._gate.judge(facts)


async def drifting(paying: SagaDefinition, between: Callable[[Swappable], object]) -> tuple[Any, list[str]]:
    """Grant, then change something before it is used; the saga's entries up to where it waits again, or ends."""
    gate, clock, memory = Swappable(ASK), QuickClock(), Memory()
    async with gated(gate, memory, clock) as c:
        _ = await c.start(paying, 7, id="s")
        waiting = await parked(c, "s")
    async with gated(gate, memory, clock) as c:
        await c.grant(waiting, by="person:ann")
    between(gate)
    registry = Registry()
    registry.add_definition(paying)
    async with gated(gate, memory, clock, registry) as c:
        ended = await c.resume()
        return ended[0].status, names((await c.show("s")).entries)


@driven
async def test_another_policy_between_grant_and_use_asks_again() -> None:
    world = World()
    status, entries = await drifting(
        pay_once(world), lambda gate: gate.use(ASK.replace("it is money", "it is much money"))
    )
    assert (status, world.seen) == ("waiting", ["book"])
    assert entries[-2:] == ["approval.voided", "approval.requested"]


@driven
async def test_a_policy_that_now_denies_denies_what_was_approved() -> None:
    world = World()
    denies = ASK.replace("require_human", "deny").replace("    expires: 1h\n", "")
    status, entries = await drifting(pay_once(world), lambda gate: gate.use(denies))
    assert (status, world.seen) == ("rolled_back", ["book", "unbook"])
    assert "approval.voided" in entries
    assert "action.denied" in entries


@driven
async def test_another_contract_between_grant_and_use_asks_again() -> None:
    world = World()
    paying = pay_once(world)

    def redeploy(_: Swappable) -> None:
        from amends.runtime.declare.registry import PROCESS

        pay = PROCESS.action(Topic("test.pay"), 1)
        pay.contract = replace(pay.contract, risk=("money",))

    status, entries = await drifting(paying, redeploy)
    assert (status, world.seen) == ("waiting", ["book"])
    assert entries[-2:] == ["approval.voided", "approval.requested"]


# -- policies ---------------------------------------------------------------------------------------------------------


@driven
async def test_a_policy_is_adopted_on_record_and_stands_for_who_opens_without_one(tmp_path: Path) -> None:
    journal, file = str(tmp_path / "a.db"), tmp_path / "policy.yaml"
    file.write_text(ASK)
    world = World()
    settings = Settings(park_s=0.0)
    async with Opened.open(journal, policy=file, settings=settings) as c:
        entries = names((await c.show("amends.policy")).entries)
        assert entries == ["saga.started", "saga.completed", "policy.adopted"]
    async with Opened.open(journal, policy=file, settings=settings) as c:
        assert len((await c.show("amends.policy")).entries) == 3
    async with Opened.open(journal, settings=settings) as c:
        _ = await c.start(pay_once(world), 7, id="s")
        await parked(c, "s")
        assert world.seen == ["book"]
        with pytest.raises(RefusedError, match="stay on record"):
            await c.cancel("amends.policy")


@driven
async def test_a_new_policy_reaches_a_coordinator_that_runs(tmp_path: Path) -> None:
    journal, file = str(tmp_path / "a.db"), tmp_path / "policy.yaml"
    file.write_text(ASK.replace("require_human", "deny").replace("    expires: 1h\n", ""))
    world = World()
    async with (
        Opened.open(journal, settings=Settings(poll_s=0.01)) as runs,
        Opened.open(journal, settings=Settings()) as other,
    ):
        assert (await runs.run(pay_once(world), 7)).status == "completed"
        assert await other.adopt(file, by="person:ann", why="enough")
        assert not await other.adopt(file, by="person:ann", why="again")
        await asyncio.sleep(0.02)  # past poll_s
        assert (await runs.run(pay_once(World()), 7)).status == "rolled_back"


@driven
async def test_a_broken_policy_changes_nothing(tmp_path: Path) -> None:
    journal, file = str(tmp_path / "a.db"), tmp_path / "policy.yaml"
    file.write_text("version: v1\nrules: [{id: x, desicion: allow}]\n")
    async with Opened.open(journal) as c:
        with pytest.raises(PolicyError, match=r"policy.yaml:2"):
            await c.adopt(file, by="person:ann", why="w")
        with pytest.raises(InputError, match="is not an actor"):
            await c.adopt(file, by="ann", why="w")
        assert await c.journal.saga(SagaId("amends.policy")) is None


# -- rates ------------------------------------------------------------------------------------------------------------


def paced(policy: str, clock: ManualClock, park_s: float) -> Coordinator:
    return Coordinator(
        journal=MemoryJournal(clock),
        gate=PolicyGate(parse_policy(policy)),
        clock=clock,
        settings=replace(NOW_PARKED, park_s=park_s),
        registry=Registry(),
    )


RATE = """
version: v1
default: allow
rules:
  - id: two-a-minute
    when: {topic: test.mail}
    decision: throttle
    rate: {max: 2, per: 60s, by: [topic]}
"""


@driven
async def test_a_rate_makes_dispatches_wait_for_their_turn() -> None:
    world, clock = World(), QuickClock()
    mail = world.action("mail")

    @saga("test.mails")
    async def mails(s: Work) -> None:
        for n in range(1, 6):
            await s.do(mail, n)

    async with paced(RATE, clock, park_s=60.0) as c:  # so long that it waits in place
        began = clock.now()
        assert (await c.run(mails, id="s")).status == "completed"
        entries = (await c.show("s")).entries
    times = [entry.at - began for entry in entries if entry.name == "attempt.started/1"]
    assert [round(at / 60_000) for at in times] == [0, 0, 1, 1, 2]
    waits = [(entry.event.rule, round((entry.event.until - began) / 60_000))
             for entry in entries if isinstance(entry.event, StepThrottled)]  # fmt: skip
    assert waits == [("two-a-minute", 1), ("two-a-minute", 2)]


@driven
async def test_a_saga_that_a_rate_makes_wait_says_so_and_is_not_in_memory() -> None:
    world, clock = World(), ManualClock()
    mail = world.action("mail")

    @saga("test.mails")
    async def mails(s: Work) -> None:
        for n in (1, 2, 3):
            await s.do(mail, n)

    async with paced(RATE, clock, park_s=0.0) as c:
        ended = await (await c.start(mails, id="s")).halt()
        assert (ended.status, ended.why) == ("waiting", "test.mail waits for rule two-a-minute (2 per 60 s)")
        assert ended.due_at == clock.now() + 60_000
        told = [line.text for line in (await c.show("s")).timeline]
        assert told[-1] == "mail n=3 waits 60 s for rule two-a-minute (2 per 60 s)"
        assert await c.resume() == [], "it is not due"
        assert c._engine.running(SagaId("s")) is None
        clock.advance(60)
        await until(c, "s", lambda saga: saga.phase.ended)
    assert world.seen == ["mail(1)", "mail(2)", "mail(3)"]


@driven
async def test_a_saga_that_a_rate_makes_wait_is_cancelled_at_once() -> None:
    world, clock = World(), ManualClock()
    mail = world.action("mail")

    @saga("test.mails")
    async def mails(s: Work) -> None:
        for n in (1, 2):
            await s.do(mail, n)

    rate = RATE.replace("max: 2", "max: 1").replace("topic: test.mail}", "topic: test.mail, phase: forward}")
    for park_s in (0.0, 10_000.0):
        world.seen.clear()
        async with paced(rate, clock, park_s) as c:
            handle = await c.start(mails, id=f"s{park_s:g}")
            while (await c.show(handle.id)).status is not SagaStatus.WAITING:
                await asyncio.sleep(0)
            assert (await c.cancel(handle.id, why="no")).status == "rolled_back"
            assert world.seen == ["mail(1)", "unmail"]
        clock.advance(60)


@driven
async def test_a_compensation_keeps_the_rate_too_and_the_rollback_stays_bounded() -> None:
    world, clock = World(), QuickClock()
    mail, bad = world.action("mail"), world.action("bad", ValueError("no"))

    @saga("test.mails_back")
    async def mails(s: Work) -> None:
        for n in (1, 2):
            await s.do(mail, n)
        await s.do(bad)

    async with coordinator(RATE.replace("60s", "1h"), clock=clock) as c:
        ended = await c.run(mails, id="s")
        told = [line.text for line in (await c.show("s")).timeline]
    assert (ended.status, world.seen) == ("incident", ["mail(1)", "mail(2)", "bad", "unbad?"])
    assert "going back waits 60 min for rule two-a-minute (2 per 1 h)" in told
    assert "still waits for rule two-a-minute (2 per 1 h)" in ended.why


# -- compensations are judged -----------------------------------------------------------------------------------------

NO_WAY_BACK = """
version: v1
default: allow
rules:
  - id: no-refunds-by-machines
    when: {topic: test.pay, phase: compensation}
    decision: deny
    reason: a person refunds
"""


async def stuck(c: Coordinator, world: World) -> str:
    pay, bad = world.action("pay"), world.action("bad", ValueError("no"))

    @saga("test.stuck")
    async def work(s: Work) -> None:
        await s.do(pay, 7)
        await s.do(bad)

    ended = await c.run(work, id="s", actor="agent:bot")
    assert (ended.status, ended.why) == ("incident", "a person refunds")
    return ended.incidents[0]


@driven
async def test_a_denied_compensation_is_an_incident_that_a_person_lets_run() -> None:
    world = World()
    async with coordinator(NO_WAY_BACK) as c:
        incident = await stuck(c, world)
        with pytest.raises(RefusedError, match="is not a person"):
            await c.retry_incident(incident, by="agent:bot", let_run=True)
        assert (await c.retry_incident(incident, by="person:ann")).status == "incident"
        (again,) = await c.incidents()
        ended = await c.retry_incident(again.id, by="person:ann", let_run=True)
    assert (ended.status, world.seen) == ("rolled_back", ["pay(7)", "bad", "unbad?", "unpay"])


@driven
async def test_or_does_it_by_hand_with_a_reason_and_a_proof() -> None:
    world = World()
    async with coordinator(NO_WAY_BACK) as c:
        incident = await stuck(c, world)
        await c.assign_incident(incident, owner="person:ann", by="person:bob")
        await c.comment_incident(incident, text="calling the bank", by="person:ann")
        assert [row.owner for row in await c.incidents()] == ["person:ann"]
        ended = await c.resolve_incident(incident, reason="refunded by hand", by="person:ann", proof="receipt 9")
        told = [line.text for line in (await c.show("s")).timeline]
    assert (ended.status, world.seen) == ("rolled_back", ["pay(7)", "bad", "unbad?"])
    assert "incident 1 given to person:ann by person:bob" in told
    assert any("refunded by hand (proof: receipt 9)" in line for line in told)


class Broken:
    """A gate that cannot answer."""

    def __init__(self, phase: str) -> None:
        self._phase = phase
        self._fine = PolicyGate(parse_policy("version: v1\ndefault: allow\nrules: []\n"))

    def judge(self, facts: Facts) -> Verdict:
        if facts.phase == self._phase:
            raise RuntimeError("out of order")
        return self._fine.judge(facts)


@pytest.mark.parametrize(
    ("phase", "status", "seen"), [("forward", "rolled_back", []), ("compensation", "incident", ["pay", "bad"])]
)
@driven
async def test_a_gate_that_cannot_answer_says_no(phase: str, status: str, seen: list[str]) -> None:
    world = World()
    pay, bad = world.action("pay"), world.action("bad", ValueError("no"))

    @saga("test.broken")
    async def work(s: Work) -> None:
        await s.do(pay)
        await s.do(bad)

    async with gated(Broken(phase)) as c:
        ended = await c.run(work)
    assert (ended.status, world.seen) == (status, seen)
    assert "the gate could not answer: RuntimeError('out of order')" in ended.why


# -- bad input --------------------------------------------------------------------------------------------------------


@driven
async def test_bad_names_are_clear_errors() -> None:
    world = World()
    async with coordinator(ASK) as c:
        for name in ("nonsense", "s/", "nobody/1"):
            with pytest.raises(UnknownApprovalError):
                await c.approval(name)
        running = await c.start(pay_once(world), 7, id="s")
        waiting = await parked(c, "s")
        with pytest.raises(UnknownApprovalError, match="nobody was asked about s/1"):
            await c.approval("s/1")
        with pytest.raises(InputError, match=r"'ann' is not an actor: write agent:<name>, person:<name>"):
            await c.grant(waiting, by="ann")
        with pytest.raises(InputError, match="is not an actor"):
            _ = await c.start(pay_once(world), 7, actor="root")
        await c.grant(waiting, by="person:ann")
        await running


@driven
async def test_a_saga_that_waits_for_very_many_answers_is_not_in_memory_either() -> None:
    world = World()
    pay = world.action("pay")

    @saga("test.many")
    async def many(s: Work) -> None:
        await asyncio.gather(*(s.do(pay, n) for n in range(1, 41)))

    async with coordinator(ASK) as c:
        running = await c.start(many, id="s")
        await parked(c, "s")
        rows = [row async for row in c.approvals(saga="s")]
        assert (len(rows), c._engine._runs) == (40, {})
        for row in rows:
            await c.grant(row.id, by="person:ann")
        assert (await running).status == "completed"
    assert len(world.seen) == 40


@driven
async def test_an_approved_step_whose_before_image_cannot_be_had_failed_and_its_approval_was_used() -> None:
    @action("test.pay")
    def pay(cents: int) -> int:
        return cents

    @pay.compensation
    def pay_back(done: Done[int]) -> None:
        raise AssertionError("nothing was paid")

    @pay.before
    def balance(asked: Asked) -> int:
        raise LookupError("no such account")

    @saga("pays")
    async def pays(s: Work) -> str:
        with pytest.raises(StepFailedError, match="before-image could not be captured: LookupError"):
            await s.do(pay, 5)
        return "went on"

    async with coordinator(ASK, registry=Registry()) as on:
        running = await on.start(pays, id="s")
        await on.grant(await parked(on, "s"), by="person:ann")
        ended = await running
        assert (ended.status, ended.result) == ("completed", "went on")
        entries = names((await on.show("s")).entries)
    assert "approval.used" in entries
    assert "approval.voided" not in entries


@driven
async def test_several_are_answered_at_once_and_where_one_cannot_be_none_is() -> None:
    world = World()
    async with coordinator(ASK) as on:
        running = [await on.start(pay_once(world), n, id=f"s{n}") for n in range(3)]
        asked = [await parked(on, f"s{n}") for n in range(3)]
        seen = {one: (await on.approval(one)).digest for one in asked}
        with pytest.raises(RefusedError, match=f"{asked[2]}.*nothing is decided about the others either"):
            await on.grant_all({**seen, asked[2]: "0" * 64}, by="person:ann")
        assert {(await on.approval(one)).status for one in asked} == {"requested"}
        granted = await on.grant_all({one: seen[one] for one in asked[:2]}, by="person:ann", why="both")
        assert [(one.id, one.signers) for one in granted] == [(one, ("person:ann",)) for one in asked[:2]]
        with pytest.raises(RefusedError, match=asked[0]):
            await on.refuse_all(asked, by="person:bob", why="none of them")
        (refused,) = await on.refuse_all([asked[2], asked[2]], by="person:bob", why="too dear")
        assert refused.status == "refused"
        assert [(await one).status for one in running] == ["completed", "completed", "rolled_back"]
        for wrong in ({}, dict.fromkeys(map(str, range(51)), "")):
            with pytest.raises(InputError, match="choose 1 to 50"):
                await on.grant_all(wrong, by="person:ann")
