"""The rules that several parts of a journal keep together: asking without writing, closing, and large values.

A large value is stored in parts, each once for all that need it, and gone with the last of them.
"""

from __future__ import annotations

import asyncio
from typing import cast

from amends.core.transitions import SagaStatus
from amends.core.words.parts import cut, named_by
from amends.core.words.values import Json, SagaId, canonical, digest
from amends.core.words.verdict import Rate
from amends.errors import JournalConflictError, JournalStoppedError, LeaseLostError
from amends.journal.codec import references
from amends.journal.fields import INLINE
from amends.journal.port.entries import Summary
from amends.journal.port.journal import Journal
from amends.journal.port.lists import PersonQuery, SagaQuery
from amends.testing.journal_suite.fixture import (
    RUNNING,
    TTL_S,
    StoreFixture,
    add,
    begin,
    entries,
    equal,
    held,
    logged,
    refusal,
    rule,
)
from amends.testing.journal_suite.samples import resumed, started, succeeded, walked

COMPLETED = Summary(status=SagaStatus.COMPLETED)


def history(first: int, last: int, *, of: str = "a", length: int = 700) -> Json:
    """A history as an agent hands it to its model: messages by their numbers, each of its own."""
    said = [f"{of} said {number}: " + digest(f"{of}{number}") * (length // 64) for number in range(first, last)]
    return {"messages": [{"role": "user", "content": one} for one in said]}


async def kept(journal: Journal, saga: SagaId) -> dict[str, str]:
    """Everything beside the entries of a saga, by digest."""
    found: dict[str, str] = {}
    for entry in await entries(journal, saga):
        left = [] if entry.is_removed else list(references(entry.body))
        while left:
            name = left.pop()
            if name not in found:
                found[name] = await journal.payload(name) or ""
                left += named_by(found[name])
    return found


class WholeSuite(StoreFixture):
    @rule
    async def test_no_events_only_ask(self, journal: Journal) -> None:
        saga = await begin(journal, "s", worker="w")
        before = await journal.saga(saga)
        self.clock.advance(1)
        ended = Summary(status=SagaStatus.COMPLETED, wake_at=7)
        for lease in (None, held(saga, "w")):
            equal(await journal.append(saga, [], after=1, summary=ended, lease=lease), ())
            await refusal(journal.append(saga, [], after=0, summary=RUNNING, lease=lease), JournalConflictError)
            await refusal(journal.append(saga, [], after=2, summary=RUNNING, lease=lease), JournalConflictError)
        stale = journal.append(saga, [], after=1, summary=RUNNING, lease=held(saga, "w", 2))
        await refusal(stale, LeaseLostError)
        equal((await journal.saga(saga), len(await entries(journal, saga)), journal.nudged("w")), (before, 1, ()))
        await journal.append(saga, [resumed()], after=1, summary=ended, lease=held(saga, "w"))
        row = await journal.saga(saga)
        equal(row and row.status, SagaStatus.COMPLETED)

    @rule
    async def test_after_close_every_call_is_refused(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        await journal.close()
        await journal.close()
        await refusal(journal.append(saga, [resumed()], after=1, summary=RUNNING), JournalStoppedError)
        await refusal(entries(journal, saga), JournalStoppedError)
        await refusal(journal.enlist("w", TTL_S), JournalStoppedError)
        await refusal(journal.retire("w"), JournalStoppedError)
        await refusal(journal.claim("w"), JournalStoppedError)
        await refusal(journal.saga(saga), JournalStoppedError)
        await refusal(journal.sagas(SagaQuery()), JournalStoppedError)
        await refusal(journal.incidents(PersonQuery()), JournalStoppedError)
        await refusal(journal.approvals(PersonQuery()), JournalStoppedError)
        await refusal(logged(journal), JournalStoppedError)
        await refusal(journal.cursor("c"), JournalStoppedError)
        await refusal(journal.cursors("c"), JournalStoppedError)
        await refusal(journal.move_cursor("c", 1), JournalStoppedError)
        await refusal(journal.admit(Rate(rule="r", key="k", most=1, per_s=1)), JournalStoppedError)
        await refusal(asyncio.to_thread(journal.renew, "w", TTL_S), JournalStoppedError)
        await refusal(asyncio.to_thread(journal.nudged, "w"), JournalStoppedError)

    # -- large values -------------------------------------------------------------------------------------------------

    @rule
    async def test_a_history_comes_back_as_it_was_on_each_turn(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        grown = [history(0, last) for last in (6, 7, 40, 41)]
        turns = [*grown, history(20, 41), {"system": "anew", **cast(dict[str, Json], history(1, 41))}, grown[0]]
        await add(journal, saga, *[succeeded(turn) for turn in turns[:3]])
        for turn in turns[3:]:
            await add(journal, saga, succeeded(turn))
        await add(journal, saga, *walked("a.1", args=turns[3]))
        found = [entry.event for entry in await entries(journal, saga, after=1)]
        equal(found, [*[succeeded(turn) for turn in turns], *walked("a.1", args=turns[3])])
        equal([one.entry.event async for one in journal.log(after=1)], found)

    @rule
    async def test_what_comes_again_is_stored_once(self, journal: Journal) -> None:
        saga, text = await begin(journal, "s"), 0
        for last in range(8, 60):
            turn = history(0, last)
            await add(journal, saga, succeeded(turn), succeeded(turn))
            text = len(canonical(turn))
        found = await kept(journal, saga)
        equal({name: digest(part) for name, part in found.items()}, {name: name for name in found})
        equal(sum(map(len, found.values())) // text in range(3), True)  # noqa: FBT003 - what is expected

    @rule
    async def test_a_small_value_stands_in_its_body(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        await add(journal, saga, succeeded(history(0, 1)), succeeded({"parts": {"result": {"digest": "x"}}}))
        equal(await kept(journal, saga), {})
        await add(journal, saga, succeeded("x" * INLINE))
        equal(list(await kept(journal, saga)), [digest('="' + "x" * INLINE + '"')])

    @rule
    async def test_parts_go_with_the_last_saga_that_needs_them(self, journal: Journal) -> None:
        old, young = await begin(journal, "old"), await begin(journal, "young")
        await add(journal, old, succeeded(history(0, 40)), succeeded(history(0, 41)), summary=COMPLETED)
        await add(journal, young, succeeded(history(0, 40)))
        before, needed = await kept(journal, old), await kept(journal, young)
        await journal.remove_payloads(by="person:ann", why="it is old", ended_before=self.clock.now() + 1)
        left = {name for name in before if await journal.payload(name) is not None}
        equal(left, before.keys() & needed.keys())
        equal(len(before) - len(left) in range(1, len(before)), True)  # noqa: FBT003 - what is expected
        equal([one.event async for one in journal.read(young, after=1)], [succeeded(history(0, 40))])
        await add(journal, young, succeeded(history(0, 41)), summary=COMPLETED)
        equal([one.event async for one in journal.read(young, after=2)], [succeeded(history(0, 41))])
        await journal.remove_payloads(by="person:ann", why="it is old", ended_before=self.clock.now() + 1)
        equal([await journal.payload(name) for name in {*before, *needed}], [None] * len({*before, *needed}))

    @rule
    async def test_an_append_that_is_refused_leaves_no_parts(self, journal: Journal) -> None:
        saga, other = await begin(journal, "s"), await self.another()
        turn = history(0, 40)
        await refusal(journal.append(saga, [succeeded(turn)], after=7, summary=RUNNING), JournalConflictError)
        await refusal(other.append(saga, [started(about=turn)], after=0, summary=RUNNING), JournalConflictError)
        made = cut(canonical(turn)).parts
        equal([await journal.payload(name) for name in made], [None] * len(made))
        await add(other, saga, succeeded(turn))
        equal(await kept(journal, saga), made)
