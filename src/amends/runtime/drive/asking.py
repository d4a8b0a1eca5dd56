"""Asking the world about a step whose outcome nobody knows, and waiting: for the time, for people, for other sagas."""

from __future__ import annotations

import asyncio
from typing import Final

from amends.core import commands as c
from amends.core.state.saga import Step
from amends.core.transitions import StepStatus
from amends.core.words.outcomes import Answer, Found, NoAnswer
from amends.core.words.values import StepId
from amends.errors import DivergedError, UnknownActionError
from amends.runtime.drive.late import end_of_thread
from amends.runtime.drive.logbook import wakes_at
from amends.runtime.drive.run import Run, let_cancellation_go_on

LOOK_AGAIN_S: Final = 30.0
"""How often one that waits for another saga's end looks, though nobody has told it of that."""


async def probe(run: Run, step: StepId) -> None:
    """Ask the world about a step whose outcome nobody knows."""
    book = run.book
    has_ended = await end_of_thread(run, step)
    await book.commit()
    state = run.state(step)
    if state.status is StepStatus.UNKNOWN:
        answer = await _answer(run, state)
        if isinstance(answer, NoAnswer) and answer.look_again_s is not None:
            await look_again(run, step, answer.look_again_s)
            return
        if not has_ended and not isinstance(answer, Found):
            answer = NoAnswer("its attempt is still running in a thread, and may yet take effect")
        let_cancellation_go_on()
        if run.state(step).status is StepStatus.UNKNOWN:
            book.tell(c.RecordAnswer(step=step, answer=answer, reports=state.reports))


async def look_again(run: Run, step: StepId, after_s: float) -> None:
    """Not yet: nothing goes on record, and what waits for nothing else does not wait in memory."""
    let_cancellation_go_on()
    await look_at(run, step, run.around.clock.now() + round(after_s * 1000))


async def look_at(run: Run, step: StepId, when: int) -> None:
    """Wait until then to look at a step again; where the saga waits for nothing else, not in memory."""
    run.looks[step] = when
    try:
        await wait_outside(run, run.looks[step])
    finally:
        run.looks.pop(step, None)  # a branch that was left alone may look at the same
    run.stop_if_draining()


async def _answer(run: Run, state: Step) -> Answer:
    try:
        action = run.find(state.contract)
        asked = await run.asked(state, action)
    except (UnknownActionError, DivergedError) as exc:
        return NoAnswer(str(exc))
    if action.parts.probe is None:
        return NoAnswer(f"{state.topic} declares no probe in this process")
    call = run.call(state, "probe", action.parts.probe, asked, key=asked.key, timeout_s=state.contract.timeout_s)
    call.store = action.parts.typed.store_result
    return await run.around.executor.ask(call)


async def wait_outside(run: Run, until: int, looked: int | None = None) -> None:
    """Until someone answers or signals, its turn comes, or the time is up. What waits for nothing else does not
    wait in memory. `looked`: how often it had been nudged when it last looked.
    """
    run.looked = run.nudges if looked is None else looked
    head, clock = run.book.saga.head, run.around.clock
    await wait(run, min(until, clock.now() + round(run.around.settings.park_s * 1000)))
    wake_at = wakes_at(run.book.saga, run.looks, run.left_alone)
    idle = run.book.saga.head == head and not run.is_busy and clock.now() < until and not run.attended
    if idle and wake_at is not None and await run.book.rest(wake_at) and not run.is_busy:
        run.parked = run.draining = True
        if run.on_parked():
            await asyncio.get_running_loop().create_future()  # until the function is stopped, which is now
        raise asyncio.CancelledError  # the work is done: what waits here is the drive itself


async def wait(run: Run, until: int) -> None:
    """Until then, or until something changes."""
    await run.book.commit()
    news = run.news.next()
    wait_s = max(0.0, (until - run.around.clock.now()) / 1000)
    sleep = asyncio.ensure_future(run.around.clock.sleep(wait_s))
    changed = asyncio.ensure_future(news.wait())
    try:
        await asyncio.wait({sleep, changed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleep.cancel()
        changed.cancel()
