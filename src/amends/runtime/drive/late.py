"""Late: attempts that were given up, and whose threads still run. What they did, or may have done, is owed again."""

from __future__ import annotations

import asyncio

from amends.core import commands as c
from amends.core.words.outcomes import Failed, Lost, Outcome, Succeeded
from amends.core.words.values import StepId
from amends.errors import AmendsError
from amends.runtime.drive.run import Run


def note_thread(run: Run, step: StepId) -> None:
    """A call of this step has run out of time, or was cancelled, and still runs in its thread."""
    run.around.threads[run.book.saga.id, step] = asyncio.Event()


async def end_of_thread(run: Run, step: StepId) -> bool:
    """Wait a while for a thread that was given up; whether it has ended."""
    running = run.around.threads.get((run.book.saga.id, step))
    if running is None:
        return True
    await run.book.commit()
    try:
        async with asyncio.timeout(run.around.settings.settle_s):
            await running.wait()
    except TimeoutError:
        return False
    return True


def thread_ended(run: Run, step: StepId) -> None:
    ended = run.around.threads.pop((run.book.saga.id, step), None)
    if ended is not None:
        ended.set()
    run.news.tell()


def ended_late(run: Run, step: StepId, attempt: int, outcome: Outcome) -> None:
    """An attempt that had been given up has ended after all; what it did, or may have done, is owed again."""
    if not isinstance(outcome, Failed):
        try:
            _enrol(run, step, attempt, outcome)
        except AmendsError:
            run.around.late(run.book.saga.id, step, attempt, outcome)
    thread_ended(run, step)


def _enrol(run: Run, step: StepId, attempt: int, outcome: Succeeded | Lost) -> None:
    if run.over:
        run.around.late(run.book.saga.id, step, attempt, outcome)
        return
    run.book.tell(c.EnrolLate(step=step, attempt=attempt, outcome=outcome))
    run.book.commit_soon()


def report_unrecorded(run: Run, step: StepId, outcome: Outcome) -> None:
    """An attempt has ended, and this pen cannot record it any more; another worker may drive its saga now."""
    if not isinstance(outcome, Failed):
        run.around.late(run.book.saga.id, step, run.state(step).attempts, outcome)
