"""Calls that a server has this process make: an action's own functions, run as the runtime runs them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from amends.core.words.contracts import Topic
from amends.core.words.outcomes import Outcome, Succeeded
from amends.core.words.values import SagaId, StepId
from amends.errors import UnknownActionError
from amends.remote.outcomes import PROBE, CallReport, answered, reported
from amends.remote.secrets import GivenSecrets, SecretsOf
from amends.runtime.declare.action import Action, Asked, Done, captures
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.executor import Call, Executor, Part
from amends.runtime.drive.validation import after_look, judged, looks_at
from amends.runtime.values.signature import Typed

_VALUES = frozenset({"args", "result", "before"})
_OF_DONE = frozenset({"compensation", "mitigation", "reread"})


async def made(
    task: Mapping[str, Any],
    registry: Registry,
    executor: Executor,
    given: GivenSecrets,
    asked: Action[..., Any] | None = None,
) -> CallReport:
    """Make the call that a task asks for, and say how it ended. Never raises, but for a cancelled caller's sake.

    `asked`: the action of the step that is being asked for, where it is at hand.
    """
    part: Part = task["part"]
    try:
        action = asked or registry.action(Topic(task["topic"]), task["version"])
    except UnknownActionError as exc:
        return {"outcome": "failed", "why": f"nothing was done: {exc}"}
    try:
        call = _call(_with_secrets(task, given), part, action, SecretsOf(given, task["saga"]))
    except Exception as exc:  # noqa: BLE001 - what is on record does not fit the code: nothing was called
        return {"outcome": "failed", "why": f"nothing was done: {type(exc).__name__}: {exc}", "final": True}
    if part == PROBE:
        return answered(await executor.ask(call))
    outcome = await executor.perform(call)
    if action.parts.is_assertion:
        outcome = judged(outcome)
    elif part == "action":
        outcome = await _examined(call, task, action, outcome, executor)
    return reported(outcome)


async def _examined(
    call: Call, task: Mapping[str, Any], action: Action[..., Any], outcome: Outcome, executor: Executor
) -> Outcome:
    """The outcome of an attempt, once the function has looked at its result that the action declares for that."""
    function = action.parts.validation
    if function is None or not isinstance(outcome, Succeeded) or outcome.opaque:
        return outcome
    args = dict(action.parts.typed.restore(task["args"]) if action.parts.typed.loads else task["args"])
    known = action.parts.typed.restore_result(outcome.result)
    look = looks_at(action, function, args, known)
    is_async = inspect.iscoroutinefunction(function)
    looking = replace(
        call, part="validate", function=look, is_async=is_async, certain_failure=True, store=None, feedback=()
    )
    looked = await executor.perform(looking)
    return after_look(outcome, looked, call.feedback, action.parts.tries, call.secrets)


def _with_secrets(task: Mapping[str, Any], given: GivenSecrets) -> dict[str, Any]:
    """A task with the secrets that it speaks of, as far as this process has their values."""
    return {
        name: given.restored(value, task["saga"]) if name in _VALUES and value is not None else value
        for name, value in task.items()
    }


def _call(task: Mapping[str, Any], part: Part, action: Action[..., Any], knows: SecretsOf) -> Call:
    parts, contract = action.parts, action.contract
    args: dict[str, Any] = dict(task["args"])
    if parts.typed.loads:
        args = dict(parts.typed.restore(args))
    function, declared, store = _function(task, part, action, args)
    is_action = part == "action"
    return Call(
        saga=SagaId(task["saga"]),
        step=StepId(task["step"]),
        topic=action.topic,
        part=part,
        function=function,
        is_async=inspect.iscoroutinefunction(declared) or (is_action and parts.is_async),
        key=task["key"],
        timeout_s=task["timeout_s"],
        certain_failure=is_action and (contract.atomic or not contract.side_effect),
        repeats_bugs=parts.repeats_bugs_back if part in _OF_DONE else parts.repeats_bugs,
        feedback=tuple(task.get("reasons", ())),
        store=store,
        knows=knows,
    )


def _function(
    task: Mapping[str, Any], part: Part, action: Action[..., Any], args: dict[str, Any]
) -> tuple[Callable[[], Any], Callable[..., object], Callable[[Any, int], object] | None]:
    """The call itself, what is called, and what makes JSON of what it returns."""
    parts = action.parts
    if part == "action":
        store = parts.typed.store_result if parts.typed.result.stores else None
        return parts.signature.caller(parts.function, args), parts.function, store
    declared = _declared(part, action)
    if part in _OF_DONE:
        done = _done(task, action, args)
        store = Typed(f"{action.topic}: its reread", declared).store_result if part == "reread" else None
        return lambda: declared(done), declared, store
    asked: Asked = Asked(saga=SagaId(task["saga"]), step=StepId(task["step"]), args=args, key=task["key"])
    if part == "before":
        return captures(declared, parts.signature.names, asked), declared, parts.typed_before.store_result
    return lambda: declared(asked), declared, parts.typed.store_result


def _declared(part: Part, action: Action[..., Any]) -> Callable[..., object]:
    found: Callable[..., object] | None = getattr(action.parts, part, None)
    if found is None:
        raise UnknownActionError(f"{action.topic} declares no {part} in this process")
    return found


def _done(task: Mapping[str, Any], action: Action[..., Any], args: dict[str, Any]) -> Done:
    parts, result, before = action.parts, task["result"], task["before"]
    return Done(
        saga=SagaId(task["saga"]),
        step=StepId(task["step"]),
        args=args,
        result=None if result is None else parts.typed.restore_result(result),
        before=None if before is None else parts.typed_before.restore_result(before),
        certain=task["certain"],
        key=task["key"],
        action_key=task["action_key"],
    )
