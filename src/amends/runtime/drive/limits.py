"""Limits while a saga runs: what it spends, what is looked at before a step, and the time that runs out.

Where a limit is reached the saga's function is not told: it is stopped, as when a person cancels the saga, and what
follows is on record already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from amends.core import commands as c
from amends.core.decide.limits import FAMILY
from amends.core.events import BudgetSpent, Cause
from amends.core.state.limits import SPENDING, Response, spent_words
from amends.core.words.values import BUILT_IN, Json, StepId
from amends.dataclass import dataclass
from amends.errors import InputError, JournalError
from amends.runtime.declare.limits import Amount, spending
from amends.runtime.drive.family import Halt, heed, within
from amends.runtime.drive.positions import TakesPlaces
from amends.runtime.drive.run import Run

LONGEST_WORDS: Final = 400


@dataclass(slots=True, eq=False)
class Keeper:
    """Keeps one run within its limits."""

    _run: Run
    _forward: TakesPlaces
    _timer: asyncio.Task[None] | None = None

    async def spend(self, tokens: int, usd: Amount, what: str) -> None:
        counted, micros = spending(tokens, usd)
        if len(what) > LONGEST_WORDS:
            raise InputError(f"s.spend(what=…) is longer than {LONGEST_WORDS} characters")
        run = self._run
        said = BudgetSpent(place=StepId(""), tokens=counted, usd_micros=micros, what=what)
        place, is_remembered = await self._forward.place(SPENDING, spent_words(said))
        if not is_remembered:
            spend = c.Spend(place=place, tokens=counted, usd_micros=micros, what=what)
            run.book.tell(spend)
            run.book.commit_soon()
            await self.report()
            await stop_unless_running(run)

    async def report(self) -> None:
        """Within its parent's limits: tell what is used up. Returns if it may go on; else the function is stopped."""
        run = self._run
        if run.book.saga.budget is not None and run.book.saga.budget.within:
            if not run.book.is_unborn:
                await run.book.commit()
            await _heeding(run, within(run.book))

    async def abort(self, why: str) -> None:
        """The definition gives up: everything is taken back, and this is why."""
        run = self._run
        why = run.kept_words(why)
        run.book.tell(c.FailWork(cause=Cause.ABORTED, why=why, step=None))
        await stop_unless_running(run)

    # -- time ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Watch the time, where it is limited."""
        if self._run.book.saga.budget is not None and self._run.book.saga.budget.until_at is not None:
            self._timer = asyncio.ensure_future(self._watch())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _watch(self) -> None:
        run = self._run
        while (budget := run.book.saga.budget) is not None and budget.until_at is not None:
            left_ms = budget.until_at - run.around.clock.now()
            if left_ms <= 0:
                break
            await run.around.clock.sleep(left_ms / 1000)
        if run.book.saga.works and run.book.broken is None:
            run.book.tell(c.KeepLimits())
            run.book.commit_soon()
            heed(run.book)
            run.book.on_moved()


async def keep(run: Run, step: StepId, topic: str, args: Json) -> None:
    """Before a step is proposed. Returns if every limit is kept; else the function is stopped here."""
    if run.book.tell(c.KeepLimits(topic=topic, args=args)):
        await stop_unless_running(run)
    budget = run.book.saga.budget
    if budget is not None and budget.within and not topic.startswith(BUILT_IN):
        known = run.book.saga.steps
        run.counted = frozenset(one for one in run.counted if one not in known) | {step}
        await _heeding(run, within(run.book, more=len(run.counted), topic=topic))


async def keep_retry(run: Run, topic: str) -> None:
    """Before a step is tried again. Returns if every limit is kept; else the function is stopped here."""
    book, budget = run.book, run.book.saga.budget
    if budget is None or not book.saga.works or topic.startswith(BUILT_IN):
        return
    if book.tell(c.KeepLimits(again=topic)):
        book.commit_soon()
        await stop_unless_running(run)
    if budget.tells_tries:
        await _heeding(run, within(book, again=topic))


def note_failure(run: Run) -> bool:
    """After an attempt that failed or was lost: whether it was one too many; what follows is written with it."""
    if run.book.saga.budget is None or not run.book.saga.works:
        return False
    return bool(run.book.tell(c.KeepLimits()))


async def keep_failure(run: Run, *, is_over: bool) -> None:
    """Once that is on its way to the journal: returns if the saga may go on; else the function is stopped here."""
    budget = run.book.saga.budget
    if is_over:
        await stop_unless_running(run)
    elif budget is not None and budget.tells_tries and run.book.saga.works:
        await run.book.commit()
        await _heeding(run, within(run.book))


async def _heeding(run: Run, asked: Awaitable[Halt | None]) -> None:
    """Go back, or stand still, where one above says so."""
    book = run.book
    try:
        halt = await asked
    except JournalError as exc:  # nothing may be dispatched that the one above could not count
        book.give_up(exc)
        raise
    if halt is not None and book.saga.works:
        if halt.how is Response.ROLLBACK:
            book.tell(c.FailWork(cause=halt.cause, why=halt.why, step=None))
        else:
            book.tell(c.PauseSaga(by=FAMILY, why=halt.why))
        book.commit_soon()
    await stop_unless_running(run)


async def stop_unless_running(run: Run) -> None:
    """A saga that does not run any more does not go on with its function either."""
    if not run.book.saga.works:
        heed(run.book)
        run.book.on_moved()
        await asyncio.get_running_loop().create_future()  # until the function is stopped, which is now
