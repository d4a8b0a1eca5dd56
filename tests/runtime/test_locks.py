"""What sagas keep to themselves: one at a time, in the order of asking, until they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from amends import (
    Coordinator,
    DeadlockError,
    Done,
    Fatal,
    Handle,
    Registry,
    SagaDefinition,
    SagaStatus,
    Settings,
    Step,
    StepFailedError,
    Work,
    action,
    given,
    register,
    saga,
)
from amends.errors import DeclarationError
from tests.runtime.support import coordinator, names

QUICK = Settings(park_s=0.05, poll_s=0.1)
SOON = Settings(park_s=0.05, poll_s=0.1, lock_wait_s=0.3)
Scene = Callable[[Coordinator], Coroutine[Any, Any, None]]


def play(path: Path, scene: Scene, settings: Settings = QUICK) -> None:
    async def whole() -> None:
        async with (
            asyncio.timeout(60),
            Coordinator.open(str(path / "j.db"), settings=settings, registry=Registry()) as opened,
        ):
            await scene(opened)

    asyncio.run(whole())


class Bank:
    """Accounts that nobody may be at while another is, and what happened at them."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.at: dict[str, str] = {}
        self.gate = asyncio.Event()

        async def touch(account: str, who: str, wait: bool = False) -> None:
            assert self.at.setdefault(account, who) == who, f"{who} is at {account} beside {self.at[account]}"
            self.seen.append(f"{who} at {account}")
            if wait:
                await self.gate.wait()

        async def leave(done: Done) -> None:
            self.seen.append(f"{done.args['who']} back from {done.args['account']}")
            self.at.pop(done.args["account"], None)

        self.touch = register("bank.touch", touch, compensation=leave, idempotent=True, resources=["account:{account}"])

    def visit(self, *accounts: str, fails: bool = False) -> SagaDefinition:
        async def body(s: Work, who: str) -> str:
            for account in accounts:
                await s.do(self.touch, account, who, wait=account.endswith("!"))
            if fails:
                raise Fatal("enough")
            for account in accounts:
                self.at.pop(account, None)
            return who

        return saga(f"visit.{'.'.join(a.rstrip('!').lower() for a in accounts)}.{int(fails)}")(body)


async def until(seen: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    while not await seen():
        await asyncio.sleep(0.01)


async def waiting(on: Coordinator, many: int) -> None:
    async def seen() -> bool:
        return len(await on.list(status="waiting")) == many

    await until(seen)


def test_one_at_a_time_in_the_order_of_asking(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank = Bank()
        first = await on.start(bank.visit("A!"), "s1", id="s1")
        await until_seen(bank, "s1 at A!")
        later = list[Handle]()
        for number in range(2, 6):
            later.append(await on.start(bank.visit("A!"), f"s{number}", id=f"s{number}"))
            await waiting(on, number - 1)
        rows = await on.locks()
        assert [(row.resource, row.saga, row.place) for row in rows] == [
            ("account:A!", f"s{number}", number - 1) for number in range(1, 6)
        ]
        bank.gate.set()
        assert [(await one).status for one in (first, *later)] == ["completed"] * 5
        assert bank.seen == [f"s{number} at A!" for number in range(1, 6)]
        assert await on.locks() == []

    play(tmp_path, scene)


async def until_seen(bank: Bank, what: str) -> None:
    async def seen() -> bool:
        return what in bank.seen

    await until(seen)


def test_it_is_held_until_the_rollback_has_ended(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank = Bank()
        first = await on.start(bank.visit("A!", fails=True), "s1", id="s1")
        await until_seen(bank, "s1 at A!")
        second = await on.start(bank.visit("A"), "s2", id="s2")
        third = await on.start(bank.visit("A!"), "s3", id="s3")
        await waiting(on, 1)
        bank.gate.set()
        assert (await first).status == "rolled_back"
        assert (await second).status == "completed"
        assert (await third).status == "completed"
        assert bank.seen[-2:] == ["s1 back from A!", "s3 at A!"]

    play(tmp_path, scene)


def test_a_step_that_waits_too_long_fails_and_names_the_holder(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank = Bank()
        first = await on.start(bank.visit("A!"), "s1", id="s1")
        await until_seen(bank, "s1 at A!")
        told: list[StepFailedError] = []

        @saga("impatient")
        async def impatient(s: Work) -> str:
            try:
                await s.do(bank.touch, "A!", "s2")
            except StepFailedError as exc:
                told.append(exc)
            return "went elsewhere"

        ended = await on.run(impatient, id="s2")
        assert ended.result == "went elsewhere"
        assert told[-1].reason == (
            "saga s1 holds account:A! and did not end within 0.3 s; look at it with: amends saga show s1"
        )
        assert not isinstance(told[-1], DeadlockError)
        assert names((await on.show("s2")).entries)[1:] == [
            "step.proposed",
            "action.allowed",
            "lock.awaited",
            "lock.refused",
            "saga.completed",
        ]
        assert len(await on.locks()) == 1
        bank.gate.set()
        assert (await first).status == "completed"

    play(tmp_path, scene, SOON)


def test_who_does_not_want_to_wait_is_refused_at_once(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank = Bank()
        first = await on.start(bank.visit("A!"), "s1", id="s1")
        await until_seen(bank, "s1 at A!")

        async def peek(account: str) -> None:
            raise AssertionError("it must not be called")

        look = register("bank.peek", peek, read_only=True, resources=["account:{account}"], lock_wait=0)
        ended = await on.run(SagaDefinition("peeking", [Step(look)]), account="A!")
        assert (ended.status, ended.why) == (
            "rolled_back",
            "bank.peek (step 1): saga s1 holds account:A!; look at it with: amends saga show s1",
        )
        bank.gate.set()
        await first

    play(tmp_path, scene)


def test_of_two_that_would_wait_for_each_other_one_gives_way_and_the_other_goes_on(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank, met = Bank(), asyncio.Event()

        @saga("crossing")
        async def crossing(s: Work, who: str, one: str, other: str) -> str:
            await s.do(bank.touch, one, who)
            if len(bank.seen) == 2:
                met.set()
            await met.wait()
            await s.do(bank.touch, other, who)
            return who

        sagas = [await on.start(crossing, *way, id=way[0]) for way in (("s1", "A", "B"), ("s2", "B", "A"))]
        ended = {one.id: one for one in [await each for each in sagas]}
        assert sorted(one.status for one in ended.values()) == ["completed", "rolled_back"]
        victim = next(one for one in ended.values() if one.status is SagaStatus.ROLLED_BACK)
        other = "s1" if victim.id == "s2" else "s2"
        mine, theirs = ("A", "B") if victim.id == "s1" else ("B", "A")
        assert victim.cause == "failed"
        assert victim.why == (
            f"bank.touch (step 2): a deadlock: saga {victim.id} waits for account:{theirs}, which is saga {other}'s; "
            f"saga {other} waits for account:{mine}, which is saga {victim.id}'s; this one gives way"
        )
        assert await on.locks() == []

    play(tmp_path, scene)


def test_a_deadlock_is_an_error_of_its_own_and_may_be_caught(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank, met = Bank(), asyncio.Event()

        @saga("careful")
        async def careful(s: Work, who: str, one: str, other: str) -> str:
            await s.do(bank.touch, one, who)
            if len(bank.seen) == 2:
                met.set()
            await met.wait()
            try:
                await s.do(bank.touch, other, who)
            except DeadlockError:
                bank.at.pop(one)
                return "gave way"
            return "went on"

        sagas = [await on.start(careful, *way, id=way[0]) for way in (("s1", "A", "B"), ("s2", "B", "A"))]
        assert sorted([(await each).result for each in sagas]) == ["gave way", "went on"]

    play(tmp_path, scene)


def test_the_steps_of_one_saga_share_what_it_holds(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank = Bank()

        @saga("family")
        async def family(s: Work) -> None:
            await asyncio.gather(*(s.do(bank.touch, "A", "s1", wait=False) for _ in range(3)))
            await s.do(bank.touch, "A", "s1")
            assert [(row.resource, row.place) for row in await on.locks()] == [("account:A", 0)]

        assert (await on.run(family, id="s1")).status == "completed"

    play(tmp_path, scene)


def test_a_list_names_a_resource_for_each_item_and_all_are_taken_at_once(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        async def move(accounts: list[str], by: dict[str, Any]) -> list[str]:
            return [row.resource for row in await on.locks(saga="s1")]

        transfer = register(
            "bank.move", move, no_rollback="as agreed", resources=["account:{accounts}", "clerk:{by.name}"]
        )
        ended = await on.run(
            SagaDefinition("moving", [Step(transfer)]), accounts=["B", "A"], by={"name": "ann"}, id="s1"
        )
        assert ended.result == {"move": ["account:A", "account:B", "clerk:ann"]}

    play(tmp_path, scene)


def test_a_saga_may_keep_something_to_itself_from_its_beginning(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        seen: list[str] = []
        gate = asyncio.Event()

        @saga("whole", resources=["account:{account}"])
        async def whole(s: Work, account: str, who: str) -> str:
            seen.append(who)
            if who == "s1":
                await gate.wait()
            await s.lock("desk:1")
            return who

        first = await on.start(whole, "A", "s1", id="s1")
        second = await on.start(whole, "A", "s2", id="s2")
        other = await on.start(whole, "B", "s3", id="s3")
        await waiting(on, 1)
        assert (await other).status == "completed"
        assert "s2" not in seen
        gate.set()
        assert [(await first).status, (await second).status] == ["completed", "completed"]

    play(tmp_path, scene)


def test_more_than_may_wait_are_refused(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank = Bank()
        first = await on.start(bank.visit("A!"), "s1", id="s1")
        await until_seen(bank, "s1 at A!")
        second = await on.start(bank.visit("A!"), "s2", id="s2")
        await waiting(on, 1)
        third = await on.run(bank.visit("A!"), "s3", id="s3")
        assert third.why == "bank.touch (step 1): saga s1 holds account:A!, and 1 wait for it already; try later"
        bank.gate.set()
        assert [(await first).status, (await second).status] == ["completed", "completed"]

    play(tmp_path, scene, Settings(park_s=0.05, poll_s=0.1, lock_waiters=1))


def test_who_is_cancelled_in_line_leaves_it(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank = Bank()
        first = await on.start(bank.visit("A!"), "s1", id="s1")
        await until_seen(bank, "s1 at A!")
        second = await on.start(bank.visit("A!"), "s2", id="s2")
        await waiting(on, 1)
        await asyncio.sleep(0.2)  # it is not in memory any more
        assert (await on.cancel("s2", why="no need")).status == "rolled_back"
        assert (await second).status == "rolled_back"
        assert [row.saga for row in await on.locks()] == ["s1"]
        bank.gate.set()
        assert (await first).status == "completed"

    play(tmp_path, scene)


def test_an_incident_keeps_what_it_holds_until_a_person_has_seen_to_it(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        async def touch(account: str) -> None: ...

        touched = register("bank.once", touch, resources=["account:{account}"])

        @saga("stuck")
        async def stuck(s: Work) -> None:
            await s.do(touched, "A")
            raise Fatal("no way back")

        assert (await on.run(stuck, id="s1")).status == "incident"
        assert [row.saga for row in await on.locks()] == ["s1"]
        ended = await on.resolve_incident("s1/1", reason="by hand", by="person:ann")
        assert ended.status == "rolled_back"
        assert await on.locks() == []

    play(tmp_path, scene)


def test_another_coordinator_on_the_same_journal_waits_its_turn(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank = Bank()
        first = await on.start(bank.visit("A!"), "s1", id="s1")
        await until_seen(bank, "s1 at A!")
        async with Coordinator.open(str(tmp_path / "j.db"), settings=QUICK, registry=Registry(), signals=False) as b:
            second = await b.start(bank.visit("A!"), "s2", id="s2")
            await waiting(on, 1)
            bank.gate.set()
            assert [(await first).status, (await second).status] == ["completed", "completed"]
        assert bank.seen == ["s1 at A!", "s2 at A!"]

    play(tmp_path, scene)


def test_who_stands_in_line_when_its_process_ends_is_resumed_in_its_turn(tmp_path: Path) -> None:
    bank = Bank()

    async def leave(on: Coordinator) -> None:
        _ = await on.start(bank.visit("A!"), "s1", id="s1")
        await until_seen(bank, "s1 at A!")
        _ = await on.start(bank.visit("A!"), "s2", id="s2")
        await waiting(on, 1)

    async def come_back(on: Coordinator) -> None:
        bank.gate = asyncio.Event()
        bank.gate.set()
        on.registry.add_definition(bank.visit("A!"))
        ended = await on.resume()
        assert sorted((one.id, str(one.status)) for one in ended) == [("s1", "completed"), ("s2", "completed")]
        assert bank.seen[-1] == "s2 at A!"

    play(tmp_path, leave, Settings(park_s=0.05, poll_s=0.1, drain_s=0.0))
    play(tmp_path, come_back)


@pytest.mark.parametrize(
    ("resource", "complaint"),
    [
        ("account:{nobody}", "asks for {nobody}"),
        ("account:{account!r}", "write {name} or {name.key}"),
        ("account:{account:>9}", "write {name} or {name.key}"),
        ("account:{", "is no template"),
        ("account:{}", "with one of its parameters: account"),
        ("", "a resource has no name"),
    ],
)
def test_what_cannot_name_a_resource_is_refused_where_it_is_declared(resource: str, complaint: str) -> None:
    with pytest.raises(DeclarationError, match=complaint.replace("{", r"\{").replace("}", r"\}")):

        @action("bank.wrong", resources=[resource])
        def wrong(account: str) -> None: ...

    with pytest.raises(DeclarationError, match=r"must be a list"):
        action("bank.text", resources="account:{account}")
    with pytest.raises(DeclarationError, match="lock_wait=-1"):
        action("bank.text", lock_wait=-1)


def test_what_cannot_be_a_name_stops_the_saga_before_the_call() -> None:
    async def touch(account: Any) -> None:
        raise AssertionError("it must not be called")

    touched = register("bank.any", touch, resources=["account:{account}"])

    async def whole() -> list[str]:
        async with coordinator() as on:
            one = SagaDefinition("anything", [Step(touched, {"account": given("account")})])
            values: list[Any] = [None, 1.5, True, {}, "", "a\nb"]
            return [(await on.run(one, account=value)).why for value in values]

    whys = asyncio.run(whole())
    assert (
        whys[0]
        == "InputError: bank.any: the resource 'account:{account}': account must be text or an integer, not None"
    )
    assert all("InputError" in why for why in whys[:4] + whys[5:])


def test_the_name_that_a_lock_had_before_still_works_and_says_the_new_one(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        @saga("desk")
        async def desk(s: Work) -> int:
            with pytest.warns(DeprecationWarning, match="s.hold is s.lock now"):
                await s.hold("desk:1")
            return len(await on.locks())

        assert (await on.run(desk, id="d1")).result == 1

    play(tmp_path, scene)
