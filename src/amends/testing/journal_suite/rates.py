"""The rules of rates: so many uses in so long, counted for everybody."""

from __future__ import annotations

import asyncio

from amends.core.words.verdict import Rate
from amends.errors import InputError
from amends.journal.port.journal import Journal
from amends.testing.journal_suite.fixture import StoreFixture, equal, refusal, rule


class RatesSuite(StoreFixture):
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
