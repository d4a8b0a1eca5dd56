"""The shipped rules can fail: a journal that breaks one does not pass."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any

import pytest

from amends.core.events import Event
from amends.core.words.values import SagaId
from amends.core.words.verdict import Rate
from amends.journal.memory import Memory, MemoryJournal
from amends.journal.memory.state import KeptSaga
from amends.journal.port.documents import Document, DocumentWrite
from amends.journal.port.evidence import Notary
from amends.journal.port.journal import Cursor, Entry, Journal, Lease, Logged, SagaPage, SagaQuery, Summary
from amends.journal.port.leases import Reading
from amends.journal.port.locks import LockAnswer, LockAsk, LocksTaken
from amends.testing.journal_suite import JournalSuite
from amends.testing.journal_suite.fixture import StoreFixture

Answer = asyncio.Future[tuple[Entry, ...]]


class TakesAnyNumber(MemoryJournal):
    def append(
        self, saga: SagaId, events: Sequence[Event], *, after: int, summary: Summary, lease: Lease | None = None
    ) -> Answer:
        record = self.memory.sagas.get(saga)
        after = len(record.entries) if record else 0
        return super().append(saga, events, after=after, summary=summary, lease=lease)


class ForgetsTheLease(MemoryJournal):
    def append(
        self, saga: SagaId, events: Sequence[Event], *, after: int, summary: Summary, lease: Lease | None = None
    ) -> Answer:
        return super().append(saga, events, after=after, summary=summary, lease=None)


class AppendsWhatItCan(MemoryJournal):
    def append(
        self, saga: SagaId, events: Sequence[Event], *, after: int, summary: Summary, lease: Lease | None = None
    ) -> Answer:
        for number, event in enumerate(events[:-1]):
            one = super().append(saga, [event], after=after + number, summary=summary, lease=lease)
            if one.exception():
                return one
        return super().append(saga, events[-1:], after=after + max(0, len(events) - 1), summary=summary, lease=lease)


class LetsAnyoneClaim(MemoryJournal):
    async def claim(
        self,
        worker: str,
        *,
        definitions: Collection[str] | None = None,
        saga: SagaId | None = None,
        due_by: int | None = None,
        limit: int = 500,
    ) -> tuple[Lease, ...]:
        self.memory.workers.clear()
        return await super().claim(worker, definitions=definitions, saga=saga, due_by=due_by, limit=limit)


class ClaimsFromItself(MemoryJournal):
    def _is_free(self, record: KeptSaga, worker: str, elapsed: Reading, *, is_named: bool) -> bool:
        return self._living(record, elapsed) is None or (is_named and record.worker == worker)


class NeverNudges(MemoryJournal):
    def nudged(self, worker: str) -> tuple[SagaId, ...]:
        self._require_open()
        return ()


class PagesByOffset(MemoryJournal):
    async def sagas(self, query: SagaQuery) -> SagaPage:
        start = int(query.before or 0)
        page = await super().sagas(SagaQuery(limit=10_000))
        rows = page.rows[start : start + query.limit]
        return SagaPage(rows=rows, cursor=str(start + len(rows)) if len(page.rows) > start + len(rows) else None)


class KeepsItsMemoryToItself(MemoryJournal):
    def __init__(self, clock: Any, memory: Memory, *, notary: Notary) -> None:
        super().__init__(clock, Memory(), notary=notary)


class LogsSagaAfterSaga(MemoryJournal):
    async def log(self, *, after: int = 0, names: Collection[str] | None = None) -> AsyncIterator[Logged]:
        found = [one async for one in super().log(names=names)]
        for place, one in enumerate(sorted(found, key=lambda one: one.entry.saga)[after:], after + 1):
            yield Logged(place, one.entry)


class MovesAnyCursor(MemoryJournal):
    async def move_cursor(self, name: str, position: int, *, note: str = "", since: Cursor | None = None) -> bool:
        return await super().move_cursor(name, position, note=note)


class AdmitsEveryone(MemoryJournal):
    async def admit(self, *asked: Rate) -> tuple[int, ...]:
        await super().admit(*asked)
        return (0,) * len(asked)


class CountsWhatIsRefused(MemoryJournal):
    async def admit(self, *asked: Rate) -> tuple[int, ...]:
        return tuple([wait for rate in asked for wait in await super(CountsWhatIsRefused, self).admit(rate)])


class SignsNothing(MemoryJournal):
    def __init__(self, clock: Any, memory: Memory, *, notary: Notary) -> None:
        super().__init__(clock, memory)


class SignsByAnyKey(MemoryJournal):
    def _adopt(self, notary: Notary) -> None:
        self.memory.signers.clear()
        super()._adopt(notary)


class RemovesWhatIsGoingOn(MemoryJournal):
    def _is_over(self, record: KeptSaga, ended_before: int) -> bool:
        return True


class LocksNothing(MemoryJournal):
    async def lock(self, ask: LockAsk, lease: Lease) -> LockAnswer:
        await super().lock(ask, lease)
        return LocksTaken()


class WakesNobody(MemoryJournal):
    async def awake(self, worker: str) -> tuple[SagaId, ...]:
        return ()


class WritesWhateverIsThere(MemoryJournal):
    async def write(self, write: DocumentWrite) -> Document:
        return await super().write(write._replace(expect=None))


class LetsAnyDriverWrite(MemoryJournal):
    async def write(self, write: DocumentWrite) -> Document:
        return await super().write(write._replace(epoch=None))


class ShowsWhatIsNotFinal(MemoryJournal):
    async def document(self, name: str, *, reader: SagaId | None = None, version: int | None = None) -> Document | None:
        newest = [one async for one in _every(self, name)][-1:]
        return newest[0] if newest and version is None else await super().document(name, version=version)


async def _every(journal: MemoryJournal, name: str) -> AsyncIterator[Document]:
    for one in (await journal.versions(name)).rows:
        yield one


class StaysOpen(MemoryJournal):
    async def close(self) -> None:
        """As if nothing had been said."""


def breaks(kind: Callable[..., Journal], rule: str) -> bool:
    class Suite(JournalSuite):
        memory = Memory()

        async def open(self) -> Journal:
            return kind(self.clock, self.memory, notary=self.notary)

    try:
        getattr(Suite(), rule)()
    except Exception:  # noqa: BLE001 - however it shows
        return True
    return False


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (TakesAnyNumber, "test_an_append_is_refused_unless_it_names_the_newest_entry"),
        (ForgetsTheLease, "test_a_holder_that_was_replaced_cannot_write"),
        (AppendsWhatItCan, "test_what_json_cannot_hold_is_refused_and_nothing_is_written"),
        (LetsAnyoneClaim, "test_what_a_living_worker_holds_is_not_free"),
        (ClaimsFromItself, "test_who_claims_is_alive_and_gets_its_own_only_by_name"),
        (NeverNudges, "test_the_holder_hears_of_what_others_wrote"),
        (PagesByOffset, "test_what_comes_new_does_not_shift_the_pages"),
        (KeepsItsMemoryToItself, "test_another_handle_sees_at_once_what_one_has_written"),
        (LogsSagaAfterSaga, "test_the_log_has_every_entry_of_every_saga_in_the_order_of_writing"),
        (MovesAnyCursor, "test_a_cursor_that_others_have_moved_stays_where_they_left_it"),
        (AdmitsEveryone, "test_so_many_are_admitted_and_no_more_until_the_oldest_falls_out"),
        (CountsWhatIsRefused, "test_what_one_rate_refuses_is_not_counted_in_another"),
        (SignsNothing, "test_what_ends_a_saga_is_signed_with_it"),
        (SignsByAnyKey, "test_every_handle_of_a_journal_signs_by_the_same_key"),
        (RemovesWhatIsGoingOn, "test_only_what_ended_before_and_has_nothing_open_is_removed"),
        (LocksNothing, "test_who_comes_first_holds_and_the_others_stand_in_line"),
        (LocksNothing, "test_a_request_that_closes_a_circle_is_refused_and_only_it"),
        (WakesNobody, "test_the_end_of_a_saga_gives_the_next_one_its_turn"),
        (WritesWhateverIsThere, "test_a_write_that_expects_another_version_changes_nothing"),
        (LetsAnyDriverWrite, "test_a_driver_that_was_replaced_writes_nothing"),
        (ShowsWhatIsNotFinal, "test_what_a_saga_holds_only_it_changes_and_others_read_what_is_final"),
        (StaysOpen, "test_after_close_every_call_is_refused"),
    ],
)
def test_a_journal_that_breaks_a_rule_does_not_pass(kind: Callable[..., Journal], rule: str) -> None:
    assert breaks(kind, rule)
    assert not breaks(MemoryJournal, rule)


def test_whoever_uses_the_rules_has_to_say_what_to_open() -> None:
    with pytest.raises(NotImplementedError):
        asyncio.run(StoreFixture().open())
