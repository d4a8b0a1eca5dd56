"""The functions of an action: its own, and those beside it (compensation, probe, before, reread, validate).

One that could never be called, would never run, or would take another one's place unseen is refused where it is
declared: at import, and not in the middle of a rollback.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any, Final, Generic, Literal, ParamSpec, TypeAlias

from amends.core.words.values import BUILT_IN
from amends.errors import DeclarationError
from amends.runtime.values.signature import UNTYPED, R_co, Signature, Typed

P = ParamSpec("P")
Function: TypeAlias = Callable[..., object]
CheckArguments: TypeAlias = Callable[[Mapping[str, Any]], None]
Given: TypeAlias = Literal["Done", "Asked", "result"]

RESULT: Final = "result"
"""The parameter by which a validation, or an assertion, asks for what was returned."""
_OWNERS: Final = frozenset({"self", "cls"})
_LOCAL: Final = "<locals>"
_HOW: Final[Mapping[Given, str]] = {
    "Done": "one argument, a Done: {name}(done)",
    "Asked": "one argument, an Asked: {name}(asked)",
    "result": "the result: {name}(result)",
}


class Parts(Generic[P, R_co]):
    """An action's function, those that its decorators were given, and what is known of them.

    Written where the action is declared, and read by the runtime from then on.
    """

    def __init__(self, topic: str, function: Callable[P, R_co]) -> None:
        self._topic = topic
        self.function = function
        self.signature = Signature(function)
        self.is_async = inspect.iscoroutinefunction(function)
        self.compensation: Function | None = None
        self.mitigation: Function | None = None
        self.probe: Function | None = None
        self.before: Function | None = None
        self.reread: Function | None = None
        self.validation: Function | None = None
        self.tries = 0
        """After how many results that the validation found flawed the step has failed."""
        self.sourced: Mapping[str, tuple[str, ...]] = {}
        """The arguments that may not be made up, each with the topics that it has to come from; none: from anywhere."""
        self.repeats_bugs = False
        """Whether its author said how often it is tried; else a mistake in its code is not made twice."""
        self.repeats_bugs_back = False
        """Whether its author said so of its compensation and its mitigation."""
        self.is_assertion = False
        """Whether it asks for `verify=` if the work is as it should be: then every bad end of it is final."""
        self.on_files: Literal["", "layer", "changeset"] = "layer" if _takes_files(function) else ""
        """Whether it works on a saga's files: in a layer of its own, or, of the built-in ones, on all of them."""

    @cached_property
    def typed(self) -> Typed:
        """Types that its annotations ask for; the runtime's own actions are called by the runtime alone."""
        return UNTYPED if self._topic.startswith(BUILT_IN) else Typed(self._topic, self.function)

    @cached_property
    def check(self) -> CheckArguments | None:
        """The check of a new step's arguments, as they go on record; None where nothing is asked of them."""
        return self.typed.check if self.typed.checks else None

    @cached_property
    def typed_before(self) -> Typed:
        """Type that its before-image is declared to have."""
        return UNTYPED if self.before is None else Typed(f"{self._topic}: its before-image", self.before)


def _takes_files(function: Callable[..., object]) -> bool:
    """Whether it says that it works on files: a parameter `files: Files`, by that very name and type."""
    parameter = inspect.signature(function).parameters.get("files")
    said = None if parameter is None else parameter.annotation
    return (said if isinstance(said, str) else getattr(said, "__name__", "")).rpartition(".")[2] == "Files"


def wanted_names(function: Function, names: Collection[str]) -> tuple[str, ...] | None:
    """Which of these a function asks for, as parameters; None where it takes the one thing itself, under any name."""
    parameters = inspect.signature(function).parameters
    if len(parameters) == 1 and not set(parameters) <= set(names):
        return None
    return tuple(name for name in parameters if name in names)


def require_function(topic: str, function: Function) -> None:
    """Raises DeclarationError for an action's function that would not run, or that nobody could call."""
    _require_runs(topic, "action", function)
    inside, _, name = str(getattr(function, "__qualname__", "")).rpartition(".")
    if not inside or inside.endswith(_LOCAL) or inspect.ismethod(function):
        return
    if next(iter(inspect.signature(function).parameters), None) in _OWNERS:
        raise DeclarationError(
            f"{topic}: {place_of(function)} is a method, and no step would give it its object; put @staticmethod "
            f"above @action, move it out of the class, or register({topic!r}, an_object.{name})"
        )


def require_part(topic: str, part: str, function: Function, given: Given, before: Function | None) -> None:
    """Raises DeclarationError for a part that cannot be called with the one thing that it is given, or is a second."""
    _require_only(topic, part, function, before)
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # a builtin that does not say what it takes
    try:
        signature.bind(None)
    except TypeError as exc:
        raise _impossible(topic, part, function, f"called with {_HOW[given]}", exc) from None


def require_part_by_name(
    topic: str, part: str, function: Function, given: Given, names: Collection[str], before: Function | None
) -> None:
    """Raises DeclarationError unless a part takes the one thing, or the action's parameters, with the result or not."""
    _require_only(topic, part, function, before)
    how = f"called with {_HOW[given]}, or with any of {', '.join(names) or 'its parameters (it has none)'} by name"
    try:
        wanted = wanted_names(function, names)
        signature = inspect.signature(function)
        signature.bind(None) if wanted is None else signature.bind(**dict.fromkeys(wanted))
    except (TypeError, ValueError) as exc:
        raise _impossible(topic, part, function, how, exc) from None


def _impossible(topic: str, part: str, function: Function, how: str, exc: Exception) -> DeclarationError:
    name = str(getattr(function, "__name__", part))
    return DeclarationError(
        f"{topic}: its {part} {place_of(function)} could never be called: it is {how.format(name=name)}; {exc}"
    )


def _require_only(topic: str, part: str, function: Function, before: Function | None) -> None:
    if not callable(function):
        raise DeclarationError(f"{topic}: its {part} has to be a function, not {function!r}")
    _require_runs(topic, part, function)
    if before is not None and not _is_again(before, function):
        raise DeclarationError(
            f"{topic} has a {part} already, {place_of(before)}, and {place_of(function)} would take its place unseen; "
            "keep one of them, or declare another action with a topic or a version of its own"
        )


def _require_runs(topic: str, part: str, function: Function) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DeclarationError(
            f"{topic}: its {part} {place_of(function)} is a generator: called, it would not run a line of it; "
            "return what it gives, and do not yield it"
        )


def _is_again(before: Function, function: Function) -> bool:
    """Whether it is the same function once more: a notebook's cell, or a line at a prompt, was run again.

    A module that is loaded again makes its actions anew, and they have no parts yet.
    """
    if before == function:
        return True
    if _identity(before) != _identity(function) or _LOCAL in str(getattr(function, "__qualname__", _LOCAL)):
        return False
    then, now = _code_place(before), _code_place(function)
    return then is not None and now is not None and (then == now or then[0] != now[0])


def _identity(function: Function) -> tuple[object, object]:
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)


def _code_place(function: Function) -> tuple[str, int] | None:
    """The file and the line; each version of a notebook's cell is a file of its own."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else (code.co_filename, code.co_firstlineno)


def place_of(function: Function) -> str:
    """Where a function is, for its author: `shop:refund, line 12`."""
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    at = _code_place(function)
    return f"{module}:{name}" + ("" if at is None else f", line {at[1]}")
