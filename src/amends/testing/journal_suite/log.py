"""The rules of the log: one order over all sagas, cursors in it, and rates that everybody shares."""

from __future__ import annotations

import asyncio

from amends.core.events import Event
from amends.core.values import SagaId
from amends.core.verdict import Rate
from amends.errors import InputError
from amends.journal.codec import INLINE
from amends.journal.protocol import Cursor, Journal
from amends.testing.journal_suite.ground import RUNNING, Ground, add, begin, entries, equal, logged, refusal, rule
from amends.testing.journal_suite.samples import opened, requested, resumed, started, succeeded, walked


class LogRules(Ground):
    @rule
    async def test_the_log_has_every_entry_of_every_saga_in_the_order_of_writing(self, journal: Journal) -> None:
        handles = [journal, await self.another()]
        written = list(await journal.append(SagaId("s0"), [started()], after=0, summary=RUNNING))
        for turn in range(1, 12):
            handle, saga = handles[turn % 2], SagaId(f"s{turn % 3}")
            row = await handle.saga(saga)
            events: list[Event] = [resumed(str(turn)) if row else started(), resumed("again")]
            written += await handle.append(saga, events, after=row.entries if row else 0, summary=RUNNING)
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

    # -- rates --------------------------------------------------------------------------------------------------------

    @rule
    async def test_so_many_are_admitted_and_no_more_until_the_oldest_falls_out(self, journal: Journal) -> None:
        other = await self.another()
        for handle in (journal, other, journal):
            equal(await admitted(handle, "mail", 3, 60), 0)
            self.clock.advance(1)
        equal([await admitted(handle, "mail", 3, 60) for handle in (other, journal)], [57_000, 57_000])
        self.clock.advance(56.999)
        equal(await admitted(journal, "mail", 3, 60), 1)
        self.clock.advance(0.001)
        equal([await admitted(journal, "mail", 3, 60) for _ in range(2)], [0, 1_000])

    @rule
    async def test_rates_of_different_names_do_not_know_each_other(self, journal: Journal) -> None:
        equal(await admitted(journal, "a", 1, 1), 0)
        equal(await admitted(journal, "b\x1fc", 1, 3600), 0)
        equal([await admitted(journal, "a", 1, 1), await admitted(journal, "b\x1fc", 1, 3600)], [
            1_000, 3_600_000
        ])  # fmt: skip
        self.clock.advance(5)
        equal([await admitted(journal, "a", 1, 1), await admitted(journal, "b\x1fc", 1, 3600)], [
            0, 3_595_000
        ])  # fmt: skip

    @rule
    async def test_a_rate_that_became_stricter_counts_what_was_admitted_before(self, journal: Journal) -> None:
        for _ in range(4):
            equal(await admitted(journal, "mail", 4, 60), 0)
            self.clock.advance(10)
        equal(await admitted(journal, "mail", 2, 60), 40_000)
        equal(await admitted(journal, "mail", 5, 60), 0)

    @rule
    async def test_a_clock_that_is_set_back_keeps_nobody_out_for_longer_than_the_rate(self, journal: Journal) -> None:
        equal(await admitted(journal, "mail", 1, 60), 0)
        self.clock.jump(-3600)
        equal(await admitted(journal, "mail", 1, 60), 60_000)
        self.clock.advance(60)
        equal(await admitted(journal, "mail", 1, 60), 0)

    @rule
    async def test_what_is_no_rate_is_refused(self, journal: Journal) -> None:
        for key, most, per_s in (("", 1, 1), ("\ud800", 1, 1), ("a", 0, 1), ("a", 1, 0), ("a", 1, float("inf"))):
            await refusal(admitted(journal, key, most, per_s), InputError)

    @rule
    async def test_of_those_who_ask_at_once_no_more_than_allowed_are_admitted(self, journal: Journal) -> None:
        handles = [journal, await self.another()]
        asked = [admitted(handles[turn % 2], "mail", 5, 60) for turn in range(40)]
        waits = await asyncio.gather(*asked)
        equal((waits.count(0), waits.count(60_000)), (5, 35))

    @rule
    async def test_what_one_rate_refuses_is_not_counted_in_another(self, journal: Journal) -> None:
        hourly, often = _rate("hourly", 1, 3600), _rate("often", 3, 60)
        equal(await journal.admit(often, hourly), (0, 0))
        equal([await journal.admit(often, hourly) for _ in range(3)], [(0, 3_600_000)] * 3)
        equal([await journal.admit(often) for _ in range(3)], [(0,), (0,), (60_000,)])
        equal(await journal.admit(), ())


def _rate(key: str, most: int, per_s: float) -> Rate:
    return Rate(rule="r", key=key, most=most, per_s=per_s)


async def admitted(journal: Journal, key: str, most: int, per_s: float) -> int:
    """How many milliseconds one rate makes a use wait; 0 where it is counted."""
    (wait,) = await journal.admit(_rate(key, most, per_s))
    return wait
