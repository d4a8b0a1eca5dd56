"""The before-image: how the world looks before an action changes it, for its compensation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from amends.core import commands as c
from amends.core.transitions import StepStatus
from amends.core.words.outcomes import Failed, Outcome, Succeeded
from amends.core.words.values import StepId
from amends.errors import DivergedError
from amends.runtime.declare.action import Action, captures
from amends.runtime.drive.run import Run, let_cancellation_go_on

Look = Callable[..., object]


async def look_before_asking(run: Run, step: StepId, look: Look, action: Action[..., Any]) -> bool:
    """Take the before-image for people who are about to be asked, so that they see what would change.

    Nothing is compensated by it: it is taken anew once they have agreed. Where it cannot be had, they are asked
    without. False where the step came to stand elsewhere meanwhile; that it goes back is found when they are asked.
    """
    if _may_be_asked(run, step):
        try:
            outcome = await _looked(run, step, look, action)
        except DivergedError:
            return True  # arguments that do not fit are told once it is to be done
        let_cancellation_go_on()
        if isinstance(outcome, Succeeded) and not outcome.opaque and _may_be_asked(run, step):
            run.book.tell(c.KeepBefore(step=step, before=outcome.result))
    return run.state(step).status is StepStatus.PROPOSED


def _may_be_asked(run: Run, step: StepId) -> bool:
    state = run.state(step)
    return state.status is StepStatus.PROPOSED and state.rewind is None and run.book.saga.rollback is None


async def capture(run: Run, step: StepId, look: Look, action: Action[..., Any], start: c.StartAttempt) -> bool:
    """Take the before-image; whether it could be had. If not, the step certainly failed, and that goes on record.

    The function is told, and may go on without it: called again, it has to find the same. Where the approval has
    expired meanwhile, that is on record instead, and the step is planned again.
    """
    outcome = await _looked(run, step, look, action)
    let_cancellation_go_on()
    if isinstance(outcome, Succeeded) and not outcome.opaque:
        run.book.tell(c.KeepBefore(step=step, before=outcome.result))
        return True
    why, where = (outcome.opaque, "") if isinstance(outcome, Succeeded) else (outcome.error, outcome.where)
    failed = Failed(error=f"its before-image could not be captured: {why}", final=True, where=where)
    run.book.tell(start)
    if run.state(step).status is StepStatus.RUNNING:
        run.book.tell(c.RecordOutcome(step=step, outcome=failed))
    return False


async def _looked(run: Run, step: StepId, look: Look, action: Action[..., Any]) -> Outcome:
    await run.book.commit()
    state = run.state(step)
    asked = await run.asked(state, action)
    function = captures(look, action.parts.signature.names, asked)
    call = run.call(state, "before", function, key=asked.key, timeout_s=state.contract.timeout_s)
    call.is_async = inspect.iscoroutinefunction(look)
    call.store = action.parts.typed_before.store_result
    return await run.around.executor.perform(call)
