"""Looking again before taking back: what an action left is read at its success, and once more before its compensation.

A compensation that is repeated after one that was lost may find what that one did: where the present is what the
before-image says, nobody else changed it.
"""

from __future__ import annotations

from amends.core import commands as c
from amends.core.state.saga import Step
from amends.core.transitions import StepStatus
from amends.core.words.outcomes import Failed, Outcome, Succeeded
from amends.core.words.values import Json, StepId, canonical, spelling_of
from amends.errors import UnknownActionError
from amends.logs import logger
from amends.runtime.drive.run import Run, let_cancellation_go_on
from amends.runtime.values.bounded import off_loop, small_or_off_loop
from amends.runtime.values.signature import Typed
from amends.secrets import kept_words
from amends.text import spelled

_log = logger("amends.driver")
_LONGEST = 120


async def keep_after(run: Run, step: StepId) -> None:
    """Have what the action left on record, as far as it can be read."""
    state = run.state(step)
    found = await _look(run, state)
    if isinstance(found, Succeeded) and not found.opaque:
        if run.state(step).status is StepStatus.SUCCEEDED:
            run.book.tell(c.KeepAfter(step=step, after=found.result))
    else:
        why = found.opaque if isinstance(found, Succeeded) else found.error
        _log.warning("saga %s: what step %s left could not be read: %s", run.book.saga.id, step, why)
    let_cancellation_go_on()


async def changed_since(run: Run, state: Step) -> Failed | None:
    """Why the compensation must not run: the present is not what the action left, or cannot be read just now."""
    if state.seen is None:
        return None  # its outcome was lost, or could not be read: there is nothing to compare with
    found = await _look(run, state)
    if not isinstance(found, Succeeded) or found.opaque:
        return _unreadable(found)
    left = state.seen[0]
    if spelling_of(found.result) is None and spelling_of(left) is None:
        why = _changed(state, left, found.result)
    else:
        why = await off_loop(lambda: _changed(state, left, found.result))
    return Failed(error=kept_words(why, run.secrets_of(state.id)), changed_since=True) if why else None


def _unreadable(found: Outcome) -> Failed:
    said = "what it left could not be read again: "
    if isinstance(found, Succeeded):
        return Failed(error=said + found.opaque)
    return Failed(error=said + found.error, final=found.final, where=found.where)


def _changed(state: Step, left: Json, present: Json) -> str:
    """How the present differs from what the action left; empty where it does not."""
    text = canonical(present)
    is_undone = state.undo_attempts > 1 and state.contract.before and text == canonical(state.before)
    if text == canonical(left) or is_undone:
        return ""
    was, now = spelled(left, _LONGEST), spelled(present, _LONGEST)
    return f"it left {was}, and now there is {now}; it was not touched"


async def _look(run: Run, state: Step) -> Outcome:
    try:
        action = run.find(state.contract)
    except UnknownActionError as exc:
        return Failed(error=str(exc))
    look = action.parts.reread
    if look is None:
        return Failed(error=f"{state.topic} version {state.contract.version} declares no reread in this process")
    done = await small_or_off_loop(lambda most: run.done(state, action, most))
    call = run.call(state, "reread", look, done, key=done.key, timeout_s=state.contract.undo_timeout_s)
    call.store = Typed(f"{state.topic}: its reread", look).store_result
    call.repeats_bugs = action.parts.repeats_bugs_back
    return await run.around.executor.perform(call)
