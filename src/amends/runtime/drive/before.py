"""The before-image: how the world looks before an action changes it, for its compensation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from amends.core import commands as c
from amends.core.transitions import StepStatus
from amends.core.words.outcomes import Failed, Succeeded
from amends.core.words.values import StepId
from amends.runtime.declare.action import Action, captures
from amends.runtime.drive.run import Run, let_cancellation_go_on


async def capture(
    run: Run, step: StepId, look: Callable[..., object], action: Action[..., Any], start: c.StartAttempt
) -> bool:
    """Take the before-image; whether it could be had. If not, the step certainly failed, and that goes on record.

    The function is told, and may go on without it: called again, it has to find the same. Where the approval has
    expired meanwhile, that is on record instead, and the step is planned again.
    """
    await run.book.commit()
    state = run.state(step)
    asked = await run.asked(state, action)
    function = captures(look, action.parts.signature.names, asked)
    call = run.call(state, "before", function, key=asked.key, timeout_s=state.contract.timeout_s)
    call.is_async = inspect.iscoroutinefunction(look)
    call.store = action.parts.typed_before.store_result
    outcome = await run.around.executor.perform(call)
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
