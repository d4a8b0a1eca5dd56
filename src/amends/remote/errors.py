"""Errors as they go over HTTP: how a step ended badly, why a function gave up, and what a server refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from amends import errors
from amends.errors import (
    Abort,
    AmendsError,
    CallPerson,
    DeadlockError,
    DivergedError,
    Fatal,
    InputError,
    NotDone,
    ProofError,
    RefusedError,
    SessionOverError,
    StepDeniedError,
    StepError,
    StepFailedError,
    StepFatalError,
    StepLostError,
    UnverifiedError,
    WaitTimeoutError,
)


def _steps() -> Mapping[str, Callable[..., StepError]]:
    kinds = (
        StepError,
        StepFatalError,
        StepFailedError,
        DeadlockError,
        StepLostError,
        StepDeniedError,
        UnverifiedError,
    )
    return {kind.__name__: kind for kind in kinds}


_STEPS: Final = _steps()
_WORDS_ALONE: Final = (Abort, Fatal, NotDone, DivergedError, InputError, RefusedError, SessionOverError)
PREFIX: Final = "urn:amends:"
_LONGEST: Final = 2000


def step_error_fields(error: StepError) -> dict[str, object]:
    return {
        "type": type(error).__name__,
        "step": error.step,
        "topic": error.topic,
        "reason": error.reason,
        "where": error.where,
        "happened": error.happened,
        "rule": getattr(error, "rule", ""),
        **({"calls": True} if isinstance(error, UnverifiedError) and error.calls else {}),
    }


def step_error(fields: Mapping[str, Any]) -> StepError:
    """The error that a step has ended with, made again. Raises InputError for fields that are none."""
    name = str(fields.get("type"))
    kind = _STEPS.get(name)
    if kind is None:
        raise InputError(f"{fields.get('type')!r} is no error of a step; they are {', '.join(_STEPS)}")
    words = {name: str(fields.get(name, "")) for name in ("step", "topic", "reason", "where", "rule")}
    step, topic = words["step"], words["topic"]
    if name == StepDeniedError.__name__:
        return StepDeniedError(words["reason"], step=step, topic=topic, rule=words["rule"])
    if name == UnverifiedError.__name__:
        return UnverifiedError(words["reason"], step=step, topic=topic, calls=fields.get("calls") is True)
    if name == StepFatalError.__name__:
        return StepFatalError(
            words["reason"], step=step, topic=topic, happened=fields.get("happened"), where=words["where"]
        )
    return kind(words["reason"], step=step, topic=topic, where=words["where"])


def failure_fields(error: BaseException) -> dict[str, object]:
    """The reason why a client's function was left by this error."""
    if isinstance(error, StepError):
        return step_error_fields(error)
    fields: dict[str, object] = {"type": type(error).__name__, "reason": str(error)[:_LONGEST]}
    if isinstance(error, CallPerson):
        fields["step"] = error.step or ""
    return fields


def failure(fields: Mapping[str, Any]) -> Exception:
    """The error that a client's function was left by, as far as a saga's record tells of it."""
    name, reason = str(fields.get("type", "Error")), str(fields.get("reason", ""))[:_LONGEST]
    if name in _STEPS:
        return step_error(fields)
    known = getattr(errors, name, None)
    if known in _WORDS_ALONE:
        return cast("type[AmendsError]", known)(reason)
    if name == CallPerson.__name__:
        return CallPerson(reason, step=str(fields.get("step", "")) or None)
    if not name.isidentifier() or len(name) > 100:  # noqa: PLR2004 - no class has a longer name
        raise InputError(f"{name[:100]!r} is no name of an error")
    unknown: type[Exception] = type(name, (Exception,), {})  # by its name alone it stands on record
    return unknown(reason)


def refusal(problem: Mapping[str, Any]) -> AmendsError:
    """The error that a server's answer stands for."""
    kind = getattr(errors, str(problem.get("type", "")).removeprefix(PREFIX), None)
    detail = str(problem.get("detail") or problem.get("title") or "the server refused, and did not say why")
    if kind is WaitTimeoutError:
        return WaitTimeoutError(detail, name="")
    if kind is ProofError and problem.get("statement"):
        each = cast("list[object]", problem.get("statements") or [])
        return errors.UnsignedError(detail, str(problem["statement"]), tuple(map(str, each)))
    if isinstance(kind, type) and issubclass(kind, AmendsError) and not issubclass(kind, StepError):
        try:
            return kind(detail)
        except TypeError:
            pass  # one that is made of more than words
    status = problem.get("status")
    if status == 401:  # noqa: PLR2004 - as HTTP writes it
        return errors.UnknownCallerError(detail)
    if status == 403:  # noqa: PLR2004 - as HTTP writes it, too
        return errors.ForbiddenError(detail)
    return InputError(detail) if status in {413, 415, 422} else AmendsError(detail)
