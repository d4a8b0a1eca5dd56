"""Looking at what a read-only action returned before it counts: `@plan.validate`. A flawed result is a failed attempt.

Between the attempt's result and its record: what is found wrong is on record as the attempt's reason, and the next
attempt is told (`amends.feedback()`). So a model is asked again knowing what was wrong, a few times and not for ever.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from amends.core.outcomes import Failed, Lost, Outcome, Succeeded
from amends.core.saga import Step
from amends.core.values import Json
from amends.runtime.executor import kept_words
from amends.runtime.parts import wanted_names
from amends.runtime.secret import unmask
from amends.runtime.values import small_or_off_loop

if TYPE_CHECKING:
    from amends.runtime.action import Action, Examine
    from amends.runtime.run import Run

FLAWED: Final = "flawed: "
RESULT: Final = "result"


def validation(action: Action[..., Any], function: Callable[..., object], tries: int) -> Examine:
    """What is made of an attempt of this action, whose results this function looks at."""

    async def examine(run: Run, state: Step, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, Succeeded) or outcome.opaque:
            return outcome
        looked = await _looked_at(run, state, function, action, outcome.result)
        match looked:
            case Succeeded(result=None | True, opaque=""):
                return outcome
            case Lost(timed_out=False, fatal=False, final=False):
                return looked  # it was cancelled: the attempt is made again
            case Succeeded(result=str() as why):
                return _flawed(state, kept_words(why, run.secrets_of(state.id)), tries)
            case Succeeded():
                return _flawed(state, "it was found wrong", tries)
            case Failed(error=why, where=where) | Lost(error=why, where=where):
                return _flawed(state, why, tries, where)

    return examine


async def _looked_at(
    run: Run, state: Step, function: Callable[..., object], action: Action[..., Any], result: Json
) -> Outcome:
    names, saga = action.signature.names, run.book.saga.id
    secrets = run.secrets.get(state.id) or run.given
    known = await small_or_off_loop(lambda most: action.typed.restore_result(unmask(result, saga, secrets, most=most)))
    asked = await run.asked(state, action)
    given = {**{name: value for name, value in asked.args.items() if name in names}, RESULT: known}
    wanted = wanted_names(function, (RESULT, *names))
    if wanted is None:
        call = run.call(state, "validate", function, known, key=run.key(state), timeout_s=state.contract.timeout_s)
    else:
        by_name = {name: value for name, value in given.items() if name in wanted}
        call = run.call(
            state, "validate", lambda: function(**by_name), key=run.key(state), timeout_s=state.contract.timeout_s
        )
    call.is_async = inspect.iscoroutinefunction(function)
    call.certain_failure = True
    return await run.around.executor.perform(call)


def _flawed(state: Step, why: str, tries: int, where: str = "") -> Failed:
    """The next attempt comes at once, unless there were enough: a provider that is down is waited for, a flaw not."""
    earlier = state.attempts - state.renewed_at - 1
    flawed = sum(reason.startswith(FLAWED) for reason in state.reasons[-earlier:]) if earlier > 0 else 0
    return Failed(error=FLAWED + why, final=flawed + 1 >= tries, after_s=0.0, where=where)
