"""The rules of the log: one order over all sagas, and cursors in it."""

from __future__ import annotations

import asyncio

from amends.core.events import Event
from amends.core.words.values import SagaId
from amends.errors import InputError
from amends.journal.fields import INLINE
from amends.journal.port.journal import Journal
from amends.journal.port.log import Cursor
from amends.testing.journal_suite.fixture import (
    RUNNING,
    StoreFixture,
    add,
    begin,
    entries,
    equal,
    logged,
    refusal,
    rule,
)
from amends.testing.journal_suite.samples import opened, requested, resumed, started, succeeded, walked


class LogSuite(StoreFixture):
    @rule
    async def test_the_log_has_every_entry_of_every_saga_in_the_order_of_writing(self, journal: Journal) -> None:
        handles = [journal, await self.another()]
        written = list(await journal.append(SagaId("s0"), [started()], after=0, summary=RUNNING))
        for turn in range(1, 12):
            handle, saga = handles[turn % 2], SagaId(f"s{turn % 3}")
            after = len(await entries(handle, saga))
            events: list[Event] = [resumed(str(turn)) if after else started(), resumed("again")]
            written += await handle.append(saga, events, after=after, summary=RUNNING)
        for handle in handles:
            found = await logged(handle)
            equal([one.entry for one in found], written)
            equal([one.position for one in found], list(range(1, len(written) + 1)))

    @rule
    async def test_sagas_that_write_at_once_leave_no_gap_in_the_log(self, journal: Journal) -> None:
        handles = [journal, await self.another()]
        names = [SagaId(f"s{number}") for number in range(30)]
        starts = [
            handles[place % 2].append(name, [started(), *walked("a.1")], after=0, summary=RUNNING)
            for place, name in enumerate(names)
        ]
        await asyncio.gather(*starts)
        found = await logged(journal)
        equal([one.position for one in found], list(range(1, 151)))
        for name in names:
            equal([one.entry for one in found if one.entry.saga == name], await entries(journal, name))

    @rule
    async def test_what_was_refused_leaves_no_gap_in_the_log(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        asked = [journal.append(saga, [resumed(str(turn))], after=1, summary=RUNNING) for turn in range(5)]
        await asyncio.gather(*asked, return_exceptions=True)
        await add(journal, saga, resumed())
        equal([one.position for one in await logged(journal)], [1, 2, 3])

    @rule
    async def test_the_log_is_read_from_any_position_on(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        for first in range(1, 1000, 250):
            batch = [resumed(str(number)) for number in range(first, first + 250)]
            await journal.append(saga, batch, after=first, summary=RUNNING)
        whole = await logged(journal)
        equal(len(whole), 1001)
        for after in (0, 1, 511, 512, 513, 1000, 1001, 2000):
            equal(await logged(journal, after=after), whole[after:])

    @rule
    async def test_the_log_is_read_by_wire_names(self, journal: Journal) -> None:
        saga, other = await begin(journal, "s"), await begin(journal, "t")
        for turn in range(1, 4):
            await add(journal, saga, opened(turn), requested(f"a.{turn}"), resumed())
            await add(journal, other, requested(f"b.{turn}"))
        whole = await logged(journal)
        for names in (
            {"approval.requested/1"},
            {"incident.opened/1"},
            {"approval.requested/1", "incident.opened/1"},
            {"saga.started/1"},
            {"saga.started/1", "incident.opened/1"},
            {"incident.opened/2"},
            set[str](),
        ):
            for after in (0, 3, 7):
                expected = [one for one in whole[after:] if one.entry.name in names]
                equal((names, await logged(journal, after=after, names=names)), (names, expected))

    @rule
    async def test_the_log_has_large_payloads_too(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        await add(journal, saga, succeeded("x" * INLINE), succeeded(["y" * INLINE]))
        equal([one.entry.event for one in await logged(journal, after=1)], [
            succeeded("x" * INLINE), succeeded(["y" * INLINE])
        ])  # fmt: skip

    # -- cursors ------------------------------------------------------------------------------------------------------

    @rule
    async def test_a_cursor_stays_where_it_was_moved_to(self, journal: Journal) -> None:
        other = await self.another()
        equal(await journal.cursor("webhook"), 0)
        await journal.move_cursor("webhook", 17)
        await other.move_cursor("mail", 3)
        equal((await other.cursor("webhook"), await journal.cursor("mail")), (17, 3))
        await other.move_cursor("webhook", 4)
        equal(await journal.cursor("webhook"), 4)

    @rule
    async def test_a_cursor_keeps_the_note_that_it_was_moved_with(self, journal: Journal) -> None:
        other = await self.another()
        await journal.move_cursor("mail/b", 17, note="all is well \U0001f680")
        await journal.move_cursor("mail/a", 0, note="has not begun")
        await other.move_cursor("mail%", 3)
        mails = (Cursor("mail/a", 0, "has not begun"), Cursor("mail/b", 17, "all is well \U0001f680"))
        equal(await other.cursors("mail/"), mails)
        equal(await other.cursors(""), (Cursor("mail%", 3), *mails))
        await other.move_cursor("mail/b", 18)
        await other.move_cursor("mail/a", 0)
        equal(await journal.cursors("mail/"), (Cursor("mail/b", 18),))
        equal((await journal.cursor("mail/a"), await journal.cursor("mail/b")), (0, 18))

    @rule
    async def test_a_cursor_that_others_have_moved_stays_where_they_left_it(self, journal: Journal) -> None:
        other, new = await self.another(), Cursor("mail")
        moved = await journal.move_cursor("mail", 5, note="a", since=new)
        wrong = (new, Cursor("mail", 5), Cursor("mail", 4, "a"), Cursor("mail", 5, "b"))
        equal((moved, [await other.move_cursor("mail", 6, since=one) for one in wrong]), (True, 4 * [False]))
        equal(await journal.cursors(""), (Cursor("mail", 5, "a"),))
        await other.move_cursor("mail", 0, since=Cursor("mail", 5, "a"))
        equal((await journal.cursors(""), await journal.cursor("mail")), ((), 0))

    @rule
    async def test_of_those_who_move_a_cursor_at_once_one_does(self, journal: Journal) -> None:
        handles = [journal, await self.another()]
        asked = [handles[turn % 2].move_cursor("c", turn + 1, since=Cursor("c")) for turn in range(20)]
        equal((await asyncio.gather(*asked)).count(True), 1)

    @rule
    async def test_what_can_be_no_cursor_is_refused(self, journal: Journal) -> None:
        for name in ("", "\ud800", "x" * 1001):
            await refusal(journal.cursor(name), InputError)
            await refusal(journal.move_cursor(name, 1), InputError)
        await refusal(journal.move_cursor("webhook", -1), InputError)
        for note in ("\ud800", "x" * 16_001):
            await refusal(journal.move_cursor("webhook", 1, note=note), InputError)
        equal(await journal.cursors(""), ())
