"""A function's annotations at work: arguments checked when a step is new, stored as JSON, and made again from that.

Looked at when it is first used, not when it is declared: a class that stands further down in its module is there by
then. An annotation that cannot be resolved even so asks nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from amends.core.values import DEEPEST, LARGEST_VALUE, SECRET_MARK, Weight
from amends.errors import DivergedError, InputError, MisfitError, NotJsonError
from amends.runtime.kinds import ANYTHING, NULL, Hidden, Kind, OneOf, Series, Table
from amends.runtime.schema import Definitions, Schema
from amends.runtime.values import weigh

_P: Final = inspect.Parameter
_ABSENT: Final = object()


class Typed:
    """What a function's parameters and its result are declared to be; `whose` begins every message."""

    def __init__(self, whose: str, function: Callable[..., object] | None, *, skip: int = 0) -> None:
        self.whose = whose
        hints: dict[str, Kind] = {}
        unresolved: tuple[str, ...] = ()
        parameters: tuple[inspect.Parameter, ...] = ()
        result = ANYTHING
        if function is not None:
            hints, result, unresolved = kinds_of(function)
            parameters = tuple(inspect.signature(function).parameters.values())[skip:]
        self.kinds = {one.name: _of_parameter(one, hints.get(one.name, ANYTHING)) for one in parameters}
        self.result: Kind = result
        self._unresolved = {one.name: str(one.annotation) for one in parameters if one.name in unresolved}
        self._required = tuple(
            one.name
            for one in parameters
            if one.default is _P.empty and one.kind not in {_P.VAR_POSITIONAL, _P.VAR_KEYWORD}
        )
        self._checked = tuple((name, kind.exact, kind) for name, kind in self.kinds.items() if kind.checks)
        self._stored = tuple((name, kind) for name, kind in self.kinds.items() if kind.stores)
        self._loaded = tuple((name, kind) for name, kind in self.kinds.items() if kind.loads)
        self.checks = bool(self._checked)
        self.stores = bool(self._stored)
        self.loads = bool(self._loaded)

    # -- arguments ----------------------------------------------------------------------------------------------------

    def check(self, named: Mapping[str, Any]) -> None:
        """Raises InputError for the first argument, as JSON has it, that is not what is declared."""
        for name, exact, kind in self._checked:
            value = named.get(name, _ABSENT)
            if type(value) is not exact and value is not _ABSENT:
                self.check_one(name, value, kind)

    def fits_at_sight(self, named: Mapping[str, Any]) -> bool:
        """Whether every argument is of a type whose values all fit: then there is nothing to walk."""
        for name, exact, _ in self._checked:
            value = named.get(name, _ABSENT)
            if type(value) is not exact and value is not _ABSENT:
                return False
        return self.checks

    def check_one(self, name: str, value: object, kind: Kind | None = None, said: str | None = None) -> None:
        try:
            (kind or self.kinds.get(name, ANYTHING)).load(value)
        except MisfitError as exc:
            raise exc.said_of(f"{self.whose}: {said or name}") from None

    def store(self, named: Mapping[str, object], most: int = LARGEST_VALUE, what: str = "args") -> Mapping[str, object]:
        """The arguments as JSON has them. One that does not fit stays as it is.

        Raises TooLargeError where there is more to walk than `most`, NotJsonError where it has no end.
        """
        if not self._stored:
            return named
        found, weight = dict(named), Weight(most, f"{self.whose}: {what}")
        for name, kind in self._stored:
            if name in found:
                try:
                    found[name] = kind.store(found[name], weight)
                except MisfitError as exc:
                    raise exc.said_of(f"{self.whose}: {name}") from None
                except RecursionError:
                    raise _too_deep(f"{self.whose}: {name}") from None
        return found

    def not_json(self, named: Mapping[str, Any], error: NotJsonError) -> NotJsonError:
        """Why these cannot be stored: what was declared, where something was, says more than what JSON can hold."""
        if repr(SECRET_MARK) in str(error):  # by what stands on record it would pass for a Secret, which it is not
            return error
        try:
            self.check(named)
        except InputError as exc:
            return NotJsonError(str(exc))
        except RecursionError:
            return error
        lost = next((name for name in self._unresolved if f"args.{name}" in str(error)), None)
        if lost is None:
            return error
        return NotJsonError(f"{error}; its annotation {self._unresolved[lost]} is not found where the function is")

    def restore(self, named: dict[str, Any], most: int = LARGEST_VALUE) -> dict[str, Any]:
        """The arguments on record as what they are declared to be. Raises DivergedError where they do not fit now.

        Raises TooLargeError where they take more than `most`, and that is less than may be on record.
        """
        if most < LARGEST_VALUE:
            weigh(named, Weight(most))
        for name, kind in self._loaded:
            if name in named:
                named[name] = self._restored(f"the argument {name}", kind, named[name])
        return named

    # -- the result ---------------------------------------------------------------------------------------------------

    def store_result(self, value: object, most: int = LARGEST_VALUE) -> object:
        """A result as JSON has it. Raises InputError for one that could not be made again from that.

        Raises TooLargeError where there is more to walk than `most`.
        """
        if not self.result.stores:
            return value
        try:
            stored = self.result.store(value, Weight(most, "the result"))
            if not self.result.native:
                self.result.load(stored)
        except MisfitError as exc:
            raise exc.said_of("the result") from None
        except RecursionError:
            raise _too_deep("the result") from None
        return stored

    def restore_result(self, value: object, most: int = LARGEST_VALUE) -> Any:  # noqa: ANN401 - the function's own type
        """A result on record as what it is declared to be. Raises DivergedError where it does not fit now.

        Raises TooLargeError as above.
        """
        if not self.result.loads:
            return value
        if most < LARGEST_VALUE:
            weigh(value, Weight(most))
        return self._restored("the result", self.result, value)

    def _restored(self, what: str, kind: Kind, value: object) -> object:
        try:
            return kind.load(value, strict=False)
        except MisfitError as exc:
            if kind.native:
                return value
            raise DivergedError(
                f"{self.whose}: {what}{exc.inside} on record has to be {exc.expected}, not {exc.came}; what it is "
                "declared as has changed: give it back what it lacks (a default, say), then go on"
            ) from None

    # -- for models ---------------------------------------------------------------------------------------------------

    def schema(self, *, leave_out: tuple[str, ...] = ()) -> Schema:
        """The JSON Schema of the arguments by name. A Secret is not asked for: whoever calls adds it."""
        parts = Definitions()
        asked = {
            name: kind for name, kind in self.kinds.items() if name not in leave_out and not isinstance(kind, Hidden)
        }
        properties = {name: kind.schema(parts) for name, kind in asked.items()}
        return parts.whole(properties, [name for name in self._required if name in asked])


def _too_deep(what: str) -> NotJsonError:
    return NotJsonError(f"{what} is nested deeper than {DEEPEST} levels")


def _of_parameter(parameter: inspect.Parameter, kind: Kind) -> Kind:
    if parameter.kind is _P.VAR_POSITIONAL:
        return Series(list, kind)
    if parameter.kind is _P.VAR_KEYWORD:
        return Table(kind)
    if parameter.default is None and kind.checks:  # `x: int = None`: then null is one of its values
        return OneOf((kind, NULL))
    return kind


def kinds_of(function: Callable[..., object]) -> tuple[dict[str, Kind], Kind, tuple[str, ...]]:
    """The kinds of a function's parameters and of its result, and the annotations that cannot be resolved here."""
    from amends.runtime.annotated import Kinds, awaited, hints_of  # and all the types of values: not for a start

    hints, unresolved = hints_of(function)
    kinds = Kinds()
    result = kinds.of(awaited(hints.pop("return", Any)))
    return {name: kinds.of(hint) for name, hint in hints.items()}, result, unresolved


UNTYPED: Final = Typed("", None)
