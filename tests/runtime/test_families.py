"""Families: what children share with their parents. Locks, and what is left of limits."""

from __future__ import annotations

from pathlib import Path

from amends import Coordinator, DeadlockError, Work, saga
from tests.runtime.test_locks import Bank, play, until_seen, waiting

# -- families --------------------------------------------------------------------------------------------------------


def test_a_child_shares_what_its_parent_holds_and_others_wait_until_the_parent_has_ended(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank = Bank()

        @saga("family.grandchild")
        async def grandchild(s: Work) -> None:
            await s.do(bank.touch, "A", "family")
            await s.do(bank.touch, "B", "family")

        @saga("family.child")
        async def middle(s: Work) -> None:
            await s.call(grandchild)

        @saga("family.parent")
        async def parent(s: Work) -> None:
            await s.do(bank.touch, "A", "family")
            await s.call(middle)
            await s.do(bank.touch, "C!", "family", wait=True)
            bank.at.clear()

        first = await on.start(parent, id="p")
        await until_seen(bank, "family at C!")
        other = await on.start(bank.visit("B"), "other", id="other")  # which only the grandchild has asked for
        await waiting(on, 1)
        rows = {(row.resource, row.saga, row.owner, row.place) for row in await on.locks()}
        assert ("account:B", "p~2~1", "p", 0) in rows
        assert ("account:B", "other", "other", 1) in rows
        assert (await on.show("p~2~1")).saga.phase == "completed"
        bank.gate.set()
        assert [(await one).status for one in (first, other)] == ["completed", "completed"]
        assert bank.seen[-1] == "other at B"
        assert await on.locks() == []

    play(tmp_path, scene)


def test_a_child_that_would_wait_for_who_waits_for_its_parent_gives_way(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        bank = Bank()

        @saga("family.child")
        async def child(s: Work) -> str:
            try:
                await s.do(bank.touch, "B", "family")
            except DeadlockError as exc:
                return exc.reason
            return "went on"

        @saga("family.parent")
        async def parent(s: Work) -> str:
            await s.do(bank.touch, "A", "family")
            await s.do(bank.touch, "gate!", "family", wait=True)
            return str(await s.call(child))

        first = await on.start(parent, id="p")
        await until_seen(bank, "family at gate!")
        other = await on.start(bank.visit("B", "A"), "other", id="other")
        await waiting(on, 1)  # it holds B, and stands in line for A
        bank.gate.set()
        ended = await first
        assert ended.result.startswith("a deadlock: saga p waits for account:B")
        bank.at.clear()
        assert (await other).status == "completed"

    play(tmp_path, scene)
