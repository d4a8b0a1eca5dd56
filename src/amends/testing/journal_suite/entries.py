"""The rules of entries: all or none, numbered, chained, and read back as they were."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from amends.core import events as e
from amends.core.words.values import LARGEST_VALUE, Json, SagaId
from amends.errors import (
    InputError,
    JournalConflictError,
    NotJsonError,
    TooLargeError,
    UnknownSagaError,
)
from amends.journal.codec import FIRST, chain
from amends.journal.fields import INLINE
from amends.journal.port.entries import Entry
from amends.journal.port.journal import Journal
from amends.testing.journal_suite.fixture import (
    RUNNING,
    StoreFixture,
    add,
    begin,
    entries,
    equal,
    events,
    held,
    refusal,
    rule,
)
from amends.testing.journal_suite.samples import EVERY_EVENT, STEP, resumed, started, succeeded, walked

NOT_JSON: Final[tuple[object, ...]] = (
    (1, 2),
    {"a": {1, 2}},
    {1: "one"},
    b"bytes",
    float("nan"),
    float("inf"),
    2**53,
    "\ud800",
    {"\udfff": 1},
    object(),
)
QUOTES: Final = 2


class EntriesSuite(StoreFixture):
    @rule
    async def test_what_is_appended_is_read_back_in_order(self, journal: Journal) -> None:
        saga = SagaId("s")
        written = await journal.append(saga, [started(), *walked("a.1")], after=0, summary=RUNNING)
        written += await journal.append(saga, walked("a.2", is_first=False), after=5, summary=RUNNING)
        equal(await entries(journal, saga), list(written))
        equal([entry.number for entry in written], list(range(1, 10)))

    @rule
    async def test_every_kind_of_event_comes_back_as_it_was(self, journal: Journal) -> None:
        saga = SagaId("s")
        await journal.append(saga, EVERY_EVENT, after=0, summary=RUNNING)
        equal(await events(journal, saga), list(EVERY_EVENT))

    @rule
    async def test_an_entry_says_when_by_the_wall_clock(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        self.clock.advance(2.5)
        (entry,) = await add(journal, saga, resumed())
        equal(entry.at, self.clock.now())
        self.clock.jump(-3600)
        (entry,) = await add(journal, saga, resumed())
        equal(entry.at, self.clock.now())

    @rule
    async def test_reading_after_a_number_gives_the_rest(self, journal: Journal) -> None:
        saga = SagaId("s")
        written = await journal.append(saga, [started(), *walked("a.1")], after=0, summary=RUNNING)
        for after in range(7):
            equal(await entries(journal, saga, after=after), list(written[after:]))

    @rule
    async def test_an_unknown_saga_has_no_entries(self, journal: Journal) -> None:
        await begin(journal, "s")
        equal(await entries(journal, SagaId("t")), [])
        equal(await entries(journal, SagaId("t"), after=3), [])

    @rule
    async def test_a_long_saga_is_read_whole(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        for first in range(1, 1000, 250):
            batch = [resumed(str(number)) for number in range(first, first + 250)]
            await journal.append(saga, batch, after=first, summary=RUNNING)
        found = await entries(journal, saga)
        equal([entry.number for entry in found], list(range(1, 1002)))
        equal([entry.event for entry in found[1:]], [resumed(str(number)) for number in range(1, 1001)])

    # -- the fence ----------------------------------------------------------------------------------------------------

    @rule
    async def test_an_append_is_refused_unless_it_names_the_newest_entry(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        await add(journal, saga, *walked("a.1"))
        before = await entries(journal, saga)
        for after in (0, 1, 4, 6, 100):
            late = journal.append(saga, [resumed()], after=after, summary=RUNNING)
            await refusal(late, JournalConflictError)
        equal(await entries(journal, saga), before)

    @rule
    async def test_a_saga_starts_once(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        for handle in (journal, await self.another()):
            again = handle.append(saga, [started()], after=0, summary=RUNNING)
            await refusal(again, JournalConflictError)
        equal(len(await entries(journal, saga)), 1)

    @rule
    async def test_of_appends_that_race_one_wins(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        racing = [
            handle.append(saga, [resumed(str(number))], after=1, summary=RUNNING)
            for number, handle in enumerate([journal, await self.another()] * 4)
        ]
        ended = await asyncio.gather(*racing, return_exceptions=True)
        (won,) = (one for one in ended if isinstance(one, tuple))
        equal(sum(isinstance(one, JournalConflictError) for one in ended), len(racing) - 1)
        equal(await entries(journal, saga, after=1), list(won))

    @rule
    async def test_what_has_not_started_cannot_go_on(self, journal: Journal) -> None:
        saga = SagaId("s")
        await refusal(journal.append(saga, [resumed()], after=0, summary=RUNNING), UnknownSagaError)
        await refusal(journal.append(saga, [], after=0, summary=RUNNING), UnknownSagaError)
        await refusal(journal.append(saga, [started()], after=3, summary=RUNNING), JournalConflictError)
        equal(await entries(journal, saga), [])

    @rule
    async def test_a_saga_cannot_start_under_an_id_that_nobody_could_read(self, journal: Journal) -> None:
        for name in ("", "two\nlines", "nul\0", "\ud800", "x" * 201):
            await refusal(begin(journal, name), InputError)
        await begin(journal, "x" * 200)

    @rule
    async def test_another_handle_sees_at_once_what_one_has_written(self, journal: Journal) -> None:
        other = await self.another()
        saga = await begin(journal, "s")
        for turn in range(1, 6):
            equal(len(await entries(other, saga)), turn)
            writer, late = (other, journal) if turn % 2 else (journal, other)
            await writer.append(saga, [resumed()], after=turn, summary=RUNNING)
            await refusal(late.append(saga, [resumed()], after=turn, summary=RUNNING), JournalConflictError)

    @rule
    async def test_an_append_is_asked_for_before_it_is_awaited(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        first = journal.append(saga, [resumed("first")], after=1, summary=RUNNING)
        second = journal.append(saga, [resumed("second")], after=1, summary=RUNNING)
        await refusal(second, JournalConflictError)
        equal([entry.event for entry in await first], [resumed("first")])

    @rule
    async def test_a_wait_that_is_cancelled_does_not_take_its_write_back(self, journal: Journal) -> None:
        saga = await begin(journal, "s", worker="w")
        handles = [journal, await self.another()]
        for turn in range(1, 6):
            handle = handles[turn // 3 % 2]
            append = handle.append(saga, [resumed()], after=turn, summary=RUNNING, lease=held(saga, "w"))
            asyncio.ensure_future(append).cancel()
            # Whatever is asked next is answered after it.
            look = handle.append(saga, [], after=turn, summary=RUNNING, lease=held(saga, "w"))
            await refusal(look, JournalConflictError)
            equal(len(await entries(journal, saga)), turn + 1)

    # -- the chain ----------------------------------------------------------------------------------------------------

    @rule
    async def test_each_hash_covers_the_entry_and_the_one_before(self, journal: Journal) -> None:
        saga = SagaId("s")
        await journal.append(saga, [started(), *walked("a.1")], after=0, summary=RUNNING)
        await add(journal, saga, *walked("a.2", is_first=False))
        previous = FIRST
        for entry in await entries(journal, saga):
            previous = chain(previous, saga, entry.number, entry.at, entry.name, entry.body)
            equal(entry.hash, previous)

    @rule
    async def test_sagas_do_not_share_a_chain(self, journal: Journal) -> None:
        (first,) = await entries(journal, await begin(journal, "s"))
        (second,) = await entries(journal, await begin(journal, "t"))
        equal((first.at, first.name, first.body), (second.at, second.name, second.body))
        equal(first.hash == second.hash, False)  # noqa: FBT003 - the expected value

    # -- values -------------------------------------------------------------------------------------------------------

    @rule
    async def test_what_json_cannot_hold_is_refused_and_nothing_is_written(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        for value in NOT_JSON:
            await refusal(add(journal, saga, resumed(), succeeded(cast(Json, value))), NotJsonError)
        equal(len(await entries(journal, saga)), 1)

    @rule
    async def test_half_a_character_is_refused_wherever_it_stands(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        lost = e.AttemptLost(step=STEP, attempt=1, error="\ud83d", fatal=False, retry_at=None)
        for event in (lost, resumed("\udc00"), started(actor="\ud800")):
            await refusal(add(journal, saga, event), NotJsonError)
        equal(len(await entries(journal, saga)), 1)

    @rule
    async def test_a_large_payload_comes_back_whole(self, journal: Journal) -> None:
        saga = SagaId("s")
        large = "x" * INLINE
        written = [
            started(about=large),
            *(succeeded("r" * (INLINE - QUOTES + more)) for more in (-1, 0, 1, 100_000)),
            succeeded("é" * INLINE),
            succeeded([large, large, "y"]),
            e.BeforeCaptured(step=STEP, before={"before": large}),
            *walked("a.1", args=large),
        ]
        await journal.append(saga, written, after=0, summary=RUNNING)
        found = await entries(journal, saga)
        equal([entry.event for entry in found], written)
        equal([entry.number for entry in found if len(entry.body) > INLINE // 2], [2, 3])

    @rule
    async def test_a_payload_past_16_mb_is_refused_and_nothing_is_written(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        await add(journal, saga, succeeded("x" * (LARGEST_VALUE - QUOTES)))
        lost = e.AttemptLost(step=STEP, attempt=1, error="x" * LARGEST_VALUE, fatal=False, retry_at=None)
        for event in (succeeded("x" * (LARGEST_VALUE - 1)), succeeded("é" * (LARGEST_VALUE // 2)), lost):
            await refusal(add(journal, saga, event), TooLargeError)
        found = await entries(journal, saga, after=1)
        equal([entry.event == succeeded("x" * (LARGEST_VALUE - QUOTES)) for entry in found], [True])

    # -- many at once, and the end ------------------------------------------------------------------------------------

    @rule
    async def test_many_sagas_go_on_at_once_through_two_handles(self, journal: Journal) -> None:
        handles = [journal, await self.another()]

        async def live(name: str, handle: Journal) -> None:
            saga = await begin(handle, name, worker="w")
            for turn in range(8):
                step = walked(f"a.{turn}", is_first=turn == 0)
                await handle.append(saga, step, after=1 + 4 * turn, summary=RUNNING, lease=held(saga, "w"))

        names = [f"s{number}" for number in range(24)]
        await asyncio.gather(*(live(name, handles[index % 2]) for index, name in enumerate(names)))
        for name in names:
            equal([entry.number for entry in await entries(journal, SagaId(name))], list(range(1, 34)))

    @rule
    async def test_what_was_accepted_before_the_close_is_written(self, journal: Journal) -> None:
        names = [SagaId(f"s{number}") for number in range(20)]
        starts = [journal.append(name, [started()], after=0, summary=RUNNING) for name in names]
        *written, _ = await asyncio.gather(*starts, journal.close())
        again = await self.another()
        equal([await entries(again, name) for name in names], [list(cast(tuple[Entry], one)) for one in written])
