"""Before-images that are taken for people to see: before they are asked, and for nothing but that."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from amends import Done, Fatal, Registry, SagaDefinition, action, saga
from amends.runtime.saga.work import Work
from tests.runtime.support import names
from tests.runtime.test_approvals import ALLOW, ASK, coordinator, driven, parked, until


class Account:
    """An account whose balance is another one each time that somebody looks, and a saga that pays from it."""

    def __init__(self, *, fails: bool = False, is_closed: bool = False) -> None:
        self.looks = itertools.count(100)
        self.looked: list[int] = []
        self.restored: list[Any] = []
        self.is_closed = is_closed
        self.paying = self._paying(fails=fails)

    def _paying(self, *, fails: bool) -> SagaDefinition:
        @action("test.pay")
        def pay(cents: int) -> int:
            return cents

        @pay.before
        def look() -> dict[str, int]:
            if self.is_closed:
                raise LookupError("no such account")
            self.looked.append(next(self.looks))
            return {"balance": self.looked[-1]}

        @pay.compensation
        def restore(done: Done[int]) -> None:
            self.restored.append(done.before)

        @action("test.end")
        def end() -> None:
            raise Fatal("it ends here", happened=False)

        @saga("test.paying")
        async def paying(s: Work) -> None:
            await s.do(pay, 5)
            if fails:
                await s.do(end)

        return paying


@driven
async def test_people_see_what_is_there_and_what_is_taken_back_goes_by_a_later_look() -> None:
    account = Account(fails=True)
    async with coordinator(ASK, registry=Registry()) as on:
        running = await on.start(account.paying, id="s")
        asked = await on.approval(await parked(on, "s"))
        assert (account.looked, asked.before) == ([100], {"balance": 100})
        entries = (await on.show("s")).entries
        assert names(entries)[-2:] == ["before.captured", "approval.requested"]
        assert asked.before_at == entries[-2].at
        await on.grant(asked.id, by="person:ann", digest=asked.digest)
        assert (await running).status == "rolled_back"
    assert (account.looked, account.restored) == ([100, 101], [{"balance": 101}])


@driven
async def test_what_is_there_is_no_part_of_what_people_agree_to() -> None:
    """It may be another one by the time that the step is done: what they agreed to are the arguments."""
    account = Account()
    async with coordinator(ASK, registry=Registry()) as on:
        running = await on.start(account.paying, id="s")
        asked = await on.approval(await parked(on, "s"))
        assert "balance" not in str(asked.shown)
        await on.grant(asked.id, by="person:ann", digest=asked.digest)
        assert (await running).status == "completed"


@driven
async def test_where_it_cannot_be_had_people_are_asked_without() -> None:
    account = Account(is_closed=True)
    async with coordinator(ASK, registry=Registry()) as on:
        running = await on.start(account.paying, id="s")
        asked = await on.approval(await parked(on, "s"))
        assert (asked.before, asked.before_at) == (None, None)
        account.is_closed = False
        await on.grant(asked.id, by="person:ann")
        assert (await running).status == "completed"
    assert account.looked == [100]


@driven
async def test_where_nobody_is_asked_there_is_one_look() -> None:
    account = Account()
    async with coordinator(ALLOW, registry=Registry()) as on:
        assert (await on.run(account.paying, id="s")).status == "completed"
    assert account.looked == [100]


@driven
async def test_a_saga_that_is_taken_back_during_the_look_asks_nobody() -> None:
    looking, seen = asyncio.Event(), asyncio.Event()

    @action("test.pay")
    def pay(cents: int) -> int:
        raise AssertionError("nobody has agreed to it")

    @pay.before
    async def look() -> int:
        looking.set()
        await seen.wait()
        return 100

    @pay.compensation
    def restore(done: Done[int]) -> None:
        raise AssertionError("nothing was paid")

    @saga("test.paying")
    async def paying(s: Work) -> None:
        await s.do(pay, 5)

    async with coordinator(ASK, registry=Registry()) as on:
        running = await on.start(paying, id="s")
        await looking.wait()
        cancelled = asyncio.create_task(on.cancel("s", why="never mind"))
        await until(on, "s", lambda saga: saga.rollback is not None)
        seen.set()
        assert (await cancelled).status == "rolled_back"
        assert (await running).status == "rolled_back"
        assert not await on.approvals(saga="s", open_only=False)


@driven
async def test_what_is_paused_is_not_looked_at_and_people_are_asked_once_it_goes_on() -> None:
    account = Account()
    async with coordinator(ASK, registry=Registry()) as on:
        await on.pause(topic="test.pay", why="the bank is down", by="person:kim")
        running = await on.start(account.paying, id="s")
        await running.halt()
        assert (account.looked, list(await on.approvals(saga="s"))) == ([], [])
        await on.unpause(topic="test.pay", by="person:kim")
        asked = await on.approval(await parked(on, "s"))
        assert asked.before == {"balance": 100}
