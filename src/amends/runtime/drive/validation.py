"""Looking at what a read-only action returned before it counts: `@plan.validate`. A flawed result is a failed attempt.

Between the attempt's result and its record: what is found wrong is on record as the attempt's reason, and the next
attempt is told (`amends.reasons()`). So a model is asked again knowing what was wrong, a few times and not for ever.

Assertions of `verify=` are looked at here too, each asked as a step after the definition's last; `declare.checks` says
what each is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Protocol

from amends.core.events import IncidentKind
from amends.core.state.saga import Saga, Step
from amends.core.state.step import located
from amends.core.transitions import IncidentStatus
from amends.core.words.outcomes import Failed, Lost, Outcome, Succeeded
from amends.core.words.values import Json, StepId
from amends.errors import StepError, UnverifiedError
from amends.runtime.declare.action import Action
from amends.runtime.declare.checks import Check
from amends.runtime.declare.parts import RESULT, wanted_names
from amends.runtime.drive.run import Run
from amends.runtime.values.bounded import small_or_off_loop
from amends.secrets import Secret, kept_words, unmask

FLAWED: Final = "flawed: "


async def examined(run: Run, action: Action[..., Any], state: Step, outcome: Outcome) -> Outcome:
    """The outcome of an attempt, once the function has looked at its result that the action declares for that."""
    function = action.parts.validation
    if function is None or not isinstance(outcome, Succeeded) or outcome.opaque:
        return outcome
    looked = await _looked_at(run, state, function, action, outcome.result)
    earlier = state.attempts - state.renewed_at - 1
    before = state.reasons[-earlier:] if earlier > 0 else ()
    return after_look(outcome, looked, before, action.parts.tries, run.secrets_of(state.id))


def after_look(
    outcome: Outcome, looked: Outcome, before: Iterable[str], tries: int, known: Iterable[Secret]
) -> Outcome:
    """The outcome of an attempt whose result was looked at. `before`: why the attempts before it did not succeed.

    The next attempt comes at once, unless there were enough: a provider that is down is waited for, a flaw not.
    """

    def flawed(why: str, where: str = "") -> Failed:
        count = 1 + sum(reason.startswith(FLAWED) for reason in before)
        return Failed(error=FLAWED + why, final=count >= tries, after_s=0.0, where=where)

    match looked:
        case Succeeded(result=None | True, opaque=""):
            return outcome
        case Lost(timed_out=False, fatal=False, final=False):
            return looked  # it was cancelled: the attempt is made again
        case Succeeded(result=str() as why):
            return flawed(kept_words(why, known))
        case Succeeded():
            return flawed("it was found wrong")
        case Failed(error=why, where=where) | Lost(error=why, where=where):
            return flawed(why, where)


async def _looked_at(
    run: Run, state: Step, function: Callable[..., object], action: Action[..., Any], result: Json
) -> Outcome:
    saga, secrets = run.book.saga.id, run.secrets.get(state.id) or run.given
    known = await small_or_off_loop(
        lambda most: action.parts.typed.restore_result(unmask(result, saga, secrets, most=most))
    )
    asked = await run.asked(state, action)
    look = looks_at(action, function, asked.args, known)
    call = run.call(state, "validate", look, key=run.key(state), timeout_s=state.contract.timeout_s)
    call.is_async = inspect.iscoroutinefunction(function)
    call.certain_failure = True
    return await run.around.executor.perform(call)


def looks_at(
    action: Action[..., Any], function: Callable[..., object], args: Mapping[str, Any], result: object
) -> Callable[[], object]:
    """The call by which a validation looks at a result, with whichever arguments of the action it asks for."""
    names = action.parts.signature.names
    wanted = wanted_names(function, (RESULT, *names))
    if wanted is None:
        return lambda: function(result)
    given = {**{name: value for name, value in args.items() if name in names}, RESULT: result}
    by_name = {name: value for name, value in given.items() if name in wanted}
    return lambda: function(**by_name)


class DoNamed(Protocol):
    """Does a step: `s.do_named`."""

    def __call__(self, action: Action[..., Any], named: Mapping[str, object], /) -> Coroutine[Any, Any, Any]: ...


def judged(outcome: Outcome) -> Outcome:
    """The outcome of asking an assertion: every bad end is final, but a call that was cancelled is made again."""
    match outcome:
        case Succeeded(result=None | True, opaque=""):
            return Succeeded(result=True)
        case Succeeded(result=False, opaque=""):
            return Failed(error="it does not hold", final=True)
        case Succeeded():
            return Failed(error="an assertion returns True, False or nothing, and this one something else", final=True)
        case Lost(error=error, timed_out=timed_out, fatal=fatal, where=where):
            return Failed(error=error, final=True, where=where) if timed_out or fatal else outcome
        case Failed(error=error, where=where):
            return Failed(error=error, final=True, where=where)


async def verify(
    do: DoNamed,
    wanted: Iterable[Check],
    named: Mapping[str, object],
    result: object,
    is_vouched_for: Callable[[StepId], bool],
) -> None:
    """Ask each in turn. Raises UnverifiedError for the first that does not hold, unless a person vouched for it."""
    for one in wanted:
        try:
            await do(one.action, one.args(named, result))
        except StepError as exc:
            if is_vouched_for(StepId(exc.step)):
                continue
            why = f"verification {one.name} failed: {located(exc.reason, exc.where)}"
            raise UnverifiedError(why, step=exc.step, topic=exc.topic, calls=one.on_failed == "call") from exc


def is_waived(saga: Saga, step: StepId) -> bool:
    """Whether a person has resolved the incident of this assertion: they vouch for what it asks."""
    return any(
        one.kind is IncidentKind.VERIFICATION_FAILED and one.step == step and one.status is IncidentStatus.RESOLVED
        for one in saga.incidents
    )
