"""One saga's pen: what becomes durable when, and what happens when another author writes first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from amends.core import commands as c
from amends.core.events import Event
from amends.core.state.saga import unstarted
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Contract, Topic
from amends.core.words.outcomes import Succeeded
from amends.core.words.values import SagaId, StepId
from amends.core.words.verdict import Decision, Verdict
from amends.errors import JournalConflictError, JournalFullError, LeaseLostError, RefusedError
from amends.journal.memory import MemoryJournal
from amends.journal.port.journal import Entry, Lease, Summary
from amends.runtime.drive.logbook import Logbook, unrecorded_ends
from amends.runtime.drive.observers import Observers
from tests.runtime.support import QuickClock

SAGA = SagaId("s")
START = c.StartSaga(definition="d", version=1, input=None, actor="system:test", env="test", labels={})
MOMENT = c.Moment(now=1, jitter=0, window_s=60)
CANCEL = c.CancelSaga(by="person:ann", why="no")


def pen(journal: MemoryJournal, epoch: int = 1) -> Logbook:
    return Logbook(journal, unstarted(SAGA), Lease(saga=SAGA, worker="w", epoch=epoch), Observers(), lambda: MOMENT)


async def stored(journal: MemoryJournal) -> list[str]:
    return [entry.name async for entry in journal.read(SAGA)]


def test_what_is_told_is_durable_only_after_a_commit_and_then_in_one_append() -> None:
    async def scene() -> None:
        journal = MemoryJournal(QuickClock())
        book = pen(journal)
        book.tell(START)
        book.tell(c.FinishWork(result=1))
        assert (book.saga.status, await stored(journal)) == ("completed", [])
        await book.commit()
        assert await stored(journal) == ["saga.started/1", "saga.completed/1"]

    asyncio.run(scene())


def test_what_nobody_commits_is_written_soon_all_the_same() -> None:
    async def scene() -> None:
        journal = MemoryJournal(QuickClock())
        book = pen(journal)
        book.tell(START)
        book.commit_soon()
        for _ in range(5):
            await asyncio.sleep(0)
        assert await stored(journal) == ["saga.started/1"]

    asyncio.run(scene())


def test_a_refused_command_changes_nothing() -> None:
    async def scene() -> None:
        book = pen(MemoryJournal(QuickClock()))
        book.tell(START)
        before = book.saga.copy()
        with pytest.raises(RefusedError):
            book.tell(START)
        assert book.saga == before

    asyncio.run(scene())


def test_another_author_s_entry_is_folded_in_and_what_no_longer_fits_is_dropped() -> None:
    async def scene() -> None:
        journal = MemoryJournal(QuickClock())
        book, moved = pen(journal), list[str]()
        book.on_moved = lambda: moved.append(book.saga.phase)
        book.tell(START)
        await book.commit()
        other = Logbook(journal, book.saga.copy(), None, Observers(), lambda: MOMENT)
        other.tell(CANCEL)
        await other.commit()
        book.tell(c.FinishWork(result=1))
        await book.commit()
        assert book.saga.phase is SagaStatus.ROLLING_BACK
        assert moved == ["rolling_back"]
        assert await stored(journal) == ["saga.started/1", "rollback.started/1"]

    asyncio.run(scene())


def test_a_pen_whose_lease_was_lost_is_broken_for_good() -> None:
    async def scene() -> None:
        journal = MemoryJournal(QuickClock())
        book = pen(journal)
        book.tell(START)
        await book.commit()
        await journal.enlist("other", 60)
        await journal.claim("other", saga=SAGA)
        book.tell(c.FinishWork(result=1))
        for _ in range(2):
            with pytest.raises(LeaseLostError):
                await book.commit()
        with pytest.raises(LeaseLostError):
            book.tell(CANCEL)
        assert await stored(journal) == ["saga.started/1"]

    asyncio.run(scene())


class Slow(MemoryJournal):
    """Answers an append when it is told to."""

    def __init__(self) -> None:
        super().__init__(QuickClock())
        self.asked: list[asyncio.Future[None]] = []

    def append(
        self, saga: SagaId, events: Sequence[Event], *, after: int, summary: Summary, lease: Lease | None = None
    ) -> asyncio.Future[tuple[Entry, ...]]:
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.asked.append(asked)

        async def answered() -> tuple[Entry, ...]:
            await asked
            return await MemoryJournal.append(self, saga, events, after=after, summary=summary, lease=lease)

        return asyncio.ensure_future(answered())


async def all_is_quiet() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def propose(step: int) -> c.ProposeStep:
    return c.ProposeStep(StepId(str(step)), Contract(topic=Topic("t")), None, "")


def test_who_commits_this_far_does_not_wait_for_what_others_tell_meanwhile() -> None:
    async def scene() -> None:
        journal = Slow()
        book = pen(journal)
        book.tell(START)
        this_far = asyncio.ensure_future(book.commit_this_far())
        await all_is_quiet()
        book.tell(propose(1))
        more = asyncio.ensure_future(book.commit_this_far())
        everything = asyncio.ensure_future(book.commit())
        await all_is_quiet()
        assert len(journal.asked) == 1
        journal.asked[0].set_result(None)
        await all_is_quiet()
        assert (this_far.done(), more.done(), everything.done()) == (True, False, False)
        book.tell(propose(2))
        journal.asked[1].set_result(None)
        await all_is_quiet()
        assert (more.done(), everything.done(), len(journal.asked)) == (True, False, 3)
        journal.asked[2].set_result(None)
        await everything
        assert await stored(journal) == ["saga.started/1", "step.proposed/1", "step.proposed/1"]

    asyncio.run(scene())


def test_what_waits_for_a_later_write_has_it_begun_also_where_nobody_else_does() -> None:
    async def scene() -> None:
        journal = Slow()
        book = pen(journal)
        book.tell(START)
        waiting = [asyncio.ensure_future(book.commit_this_far())]
        await all_is_quiet()
        for step in range(3):
            book.tell(propose(step))
            waiting.append(asyncio.ensure_future(book.commit_this_far()))
        await all_is_quiet()
        journal.asked[0].set_result(None)
        await all_is_quiet()
        assert [each.done() for each in waiting] == [True, False, False, False]
        journal.asked[1].set_result(None)
        await asyncio.gather(*waiting)
        assert len(journal.asked) == 2

    asyncio.run(scene())


def test_a_command_that_is_dropped_frees_nobody_who_waits_for_one_before_it() -> None:
    async def scene() -> None:
        journal = Slow()
        book = pen(journal)
        book.tell(START)
        verdict = Verdict(decision=Decision.ALLOW, rule="r", policy="p")
        step = StepId("1")
        book.tell(c.DispatchStep(step, Contract(topic=Topic("t")), None, "", verdict))
        begun = asyncio.ensure_future(book.commit_this_far())
        await all_is_quiet()
        journal.asked[0].set_result(None)
        await begun
        other = Logbook(journal, book.saga.copy(), None, Observers(), lambda: MOMENT)
        other.tell(CANCEL)
        cancelled = asyncio.ensure_future(other.commit())
        await all_is_quiet()
        journal.asked[1].set_result(None)
        await cancelled

        book.tell(c.RecordOutcome(step=step, outcome=Succeeded("done")))
        waiting = [asyncio.ensure_future(book.commit_this_far())]
        await all_is_quiet()
        book.tell(propose(2))
        waiting.append(asyncio.ensure_future(book.commit_this_far()))
        await all_is_quiet()
        journal.asked[2].set_result(None)  # another entry came first: the outcome is told again, the proposal is not
        await all_is_quiet()
        assert (len(book.undurable), [each.done() for each in waiting]) == (1, [False, False])
        journal.asked[3].set_result(None)
        await asyncio.wait_for(asyncio.gather(*waiting), 5)
        assert (await stored(journal))[-2:] == ["rollback.started/1", "attempt.succeeded/1"]

    asyncio.run(scene())


def test_nobody_waits_for_commands_that_are_dropped() -> None:
    async def scene() -> None:
        journal = MemoryJournal(QuickClock())
        book = pen(journal)
        book.tell(START)
        await book.commit()
        other = Logbook(journal, book.saga.copy(), None, Observers(), lambda: MOMENT)
        other.tell(c.PauseSaga(by="person:ann", why="wait"))
        await other.commit()
        book.tell(propose(1))
        book.tell(c.FinishWork(result=1))
        await book.commit_this_far()
        assert not book.undurable
        assert book.saga.head == len(await stored(journal))
        assert await stored(journal) == ["saga.started/1", "saga.paused/1"]

    asyncio.run(scene())


def test_a_pen_that_breaks_wakes_everyone() -> None:
    async def scene() -> None:
        journal = Slow()
        book = pen(journal)
        book.tell(START)
        book.commit_soon()
        await all_is_quiet()
        book.tell(propose(1))
        waiting = asyncio.ensure_future(book.commit_this_far())
        await all_is_quiet()
        journal.asked[0].set_result(None)
        while len(book.undurable) == 2:
            await asyncio.sleep(0)
        book.give_up(JournalFullError("no room elsewhere"))  # between two writes
        with pytest.raises(JournalFullError, match="elsewhere"):
            await asyncio.wait_for(waiting, 5)
        assert len(journal.asked) == 1

    asyncio.run(scene())


def test_a_cancelled_waiter_takes_no_write_back() -> None:
    async def scene() -> None:
        journal = MemoryJournal(QuickClock())
        book = pen(journal)
        book.tell(START)
        waiting = asyncio.ensure_future(book.commit())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await book.commit()
        assert await stored(journal) == ["saga.started/1"]

    asyncio.run(scene())


class Contrary(MemoryJournal):
    """Says that another entry came first, and has none."""

    def append(
        self, saga: SagaId, events: Sequence[Event], *, after: int, summary: Summary, lease: Lease | None = None
    ) -> asyncio.Future[tuple[Entry, ...]]:
        if after:
            raise JournalConflictError("another entry came first")
        return super().append(saga, events, after=after, summary=summary, lease=lease)


def test_a_conflict_without_news_breaks_the_pen_instead_of_trying_for_ever() -> None:
    async def scene() -> None:
        book = pen(Contrary(QuickClock()))
        book.tell(START)
        await book.commit()
        book.tell(c.FinishWork(result=1))
        with pytest.raises(JournalConflictError, match="came first"):
            await asyncio.wait_for(book.commit(), 5)

    asyncio.run(scene())


def test_a_saga_that_exists_already_is_not_begun_again_by_another_pen() -> None:
    async def scene() -> None:
        journal = MemoryJournal(QuickClock())
        for turn in range(2):
            book = pen(journal)
            book.tell(START)
            if turn == 0:
                await book.commit()
            else:
                with pytest.raises(JournalConflictError):
                    await book.commit()
        assert await stored(journal) == ["saga.started/1"]

    asyncio.run(scene())


def test_an_end_that_a_full_disk_refused_is_told_all_the_same() -> None:
    """Its worker had slept past its lease, and another was done with the saga: nobody else knew of the effect."""

    class Full(MemoryJournal):
        def append(
            self, saga: SagaId, events: Sequence[Event], *, after: int, summary: Summary, lease: Lease | None = None
        ) -> asyncio.Future[tuple[Entry, ...]]:
            if after:
                raise JournalFullError("no room")
            return super().append(saga, events, after=after, summary=summary, lease=lease)

    async def scene() -> None:
        book = pen(Full(QuickClock()))
        step, contract = StepId("1"), Contract(topic=Topic("t"))
        allowed = Verdict(decision=Decision.ALLOW, rule="r", policy="p")
        book.tell(START)
        book.tell(c.DispatchStep(step=step, contract=contract, args={}, digest="", verdict=allowed))
        await book.commit()
        book.tell(c.RecordOutcome(step=step, outcome=Succeeded("done")))
        assert list(unrecorded_ends(book)) == []
        with pytest.raises(JournalFullError):
            await book.commit()
        assert list(unrecorded_ends(book)) == [(step, 1, Succeeded("done"))]

    asyncio.run(scene())
