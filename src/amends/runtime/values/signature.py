"""A function's signature at work: arguments bound by name, checked when a step is new, stored as JSON, made again from
that, and called with.

Annotations are looked at when they are first used, not when the function is declared: a class that stands further down
in its module is there by then. An annotation that cannot be resolved even so asks nothing.

The type variables of what users hold: left out, each stands for anything. `Done`, `Ended` and `SagaDefinition` alone
are types, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, cast

from amends.core.words.values import DEEPEST, LARGEST_VALUE, SECRET_MARK, Weight
from amends.errors import DeclarationError, DivergedError, InputError, MisfitError, NotJsonError
from amends.runtime.values.bounded import weigh
from amends.runtime.values.kinds import ANYTHING, NULL, Dictionary, Hidden, Kind, OneOf, Series
from amends.runtime.values.schema import Definitions, Schema
from amends.secrets import Secret
from amends.source.marked import nearest, shown

_P: Final = inspect.Parameter
_PLAIN: Final = frozenset({str, int, float, bool, dict, list, Secret, type(None)})
_ABSENT: Final = object()


class Signature:
    """Parameters of a function, less its first `skip` (a saga's `s`)."""

    def __init__(self, function: Callable[..., object], *, skip: int = 0) -> None:
        parameters = list(inspect.signature(function).parameters.values())
        if len(parameters) < skip:
            name = getattr(function, "__qualname__", repr(function))
            raise DeclarationError(
                f"{name} takes no arguments; a saga's function takes the saga first: async def {name}(s, …)"
            )
        self._whole = inspect.Signature(parameters[skip:])
        self._parameters = self._whole.parameters
        self.names = tuple(self._parameters)
        self._count = len(self.names)
        kinds = {parameter.kind for parameter in self._parameters.values()}
        self._simple = kinds <= {_P.POSITIONAL_OR_KEYWORD}
        self._by_keyword = kinds <= {_P.POSITIONAL_OR_KEYWORD, _P.KEYWORD_ONLY}
        self.takes_any = _P.VAR_KEYWORD in kinds
        """Whether it takes arguments of any name: it ends in `**more`."""

    @cached_property
    def by_keyword(self) -> tuple[str, ...]:
        """The parameters that a caller may give by keyword."""
        kinds = {_P.POSITIONAL_OR_KEYWORD, _P.KEYWORD_ONLY}
        return tuple(name for name, parameter in self._parameters.items() if parameter.kind in kinds)

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(
            name
            for name, parameter in self._parameters.items()
            if parameter.default is _P.empty and parameter.kind not in {_P.VAR_KEYWORD, _P.VAR_POSITIONAL}
        )

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """The arguments by name, defaults that can be stored included. Raises TypeError as a call would."""
        if self._simple and not kwargs and len(args) == self._count:
            return dict(zip(self.names, args, strict=True))
        bound = self._whole.bind(*args, **kwargs)
        given = cast("dict[str, object]", bound.arguments)
        return {
            name: list(cast("tuple[object, ...]", given[name])) if parameter.kind is _P.VAR_POSITIONAL else given[name]
            for name, parameter in self._parameters.items()
            if name in given or self._default_into(given, name, parameter)
        }

    def misfit(self, exc: TypeError, given: Iterable[str]) -> str:
        """Why a call with these keywords was not bound, in Python's words; and the word that was probably meant."""
        takes = f"it takes ({', '.join(self.names)})"
        wrong = None if self.takes_any else next((name for name in given if name not in self.names), None)
        if wrong is None:
            return f"{exc}; {takes}"
        right = nearest(wrong, self.names)
        meant = "" if right is None else f"did you mean {right}? "
        return f"got an unexpected keyword argument {wrong!r}; {meant}{takes}"

    def from_names(self, named: Mapping[str, object]) -> tuple[tuple[object, ...], dict[str, object]]:
        """The arguments of a call that are given all by name, also those that Python itself takes only by place.

        What is required is there; what is left out before them is its default.
        """
        keywords = dict(named)
        if self._by_keyword:
            return (), keywords
        parameters = self._parameters.values()
        rest = next((one.name for one in parameters if one.kind is _P.VAR_POSITIONAL and one.name in named), None)
        by_place = {_P.POSITIONAL_ONLY} if rest is None else {_P.POSITIONAL_ONLY, _P.POSITIONAL_OR_KEYWORD}
        placed = [one for one in parameters if one.kind in by_place]
        while placed and rest is None and placed[-1].name not in named:
            placed.pop()
        positional: list[object] = [keywords.pop(one.name, one.default) for one in placed]
        if rest is not None:
            positional += _items(rest, keywords.pop(rest))
        return tuple(positional), keywords

    def _default_into(self, given: dict[str, object], name: str, parameter: inspect.Parameter) -> bool:
        default: object = parameter.default
        if default is _P.empty or type(default) not in _PLAIN:
            return False
        given[name] = default
        return True

    def caller(self, function: Callable[..., Any], named: Mapping[str, Any]) -> Callable[[], Any]:
        """A call with arguments by name that waits to be made."""
        return partial(function, **named) if self._by_keyword else partial(self.call, function, named)

    def call(self, function: Callable[..., Any], named: Mapping[str, Any], *first: object) -> Any:  # noqa: ANN401 - the user's own type
        """Call with arguments by name, as `bind` gave them."""
        if self._by_keyword:
            return function(*first, **named)
        positional: list[object] = list(first)
        keywords: dict[str, Any] = {}
        for name, parameter in self._parameters.items():
            if name not in named:
                continue
            if parameter.kind is _P.VAR_POSITIONAL:
                positional.extend(named[name])
            elif parameter.kind is _P.VAR_KEYWORD:
                keywords.update(named[name])
            elif parameter.kind is _P.KEYWORD_ONLY:
                keywords[name] = named[name]
            else:
                positional.append(named[name])
        return function(*positional, **keywords)


def _items(name: str, given: object) -> list[object]:
    if not isinstance(given, list):
        raise InputError(f"input {name} has to be a list, not {shown(given)}")
    return cast("list[object]", given)


def named_inputs(
    saga: str, document: object, known: Collection[str], required: Collection[str], *, takes_any: bool = False
) -> dict[str, object]:
    """A saga's input from a document: an object of what it takes, by name; no document is an empty one.

    Raises InputError for what is missing, unknown or no object: nothing is made up.
    """
    if document is None:
        document = {}
    if not isinstance(document, dict):
        alone = tuple(required or known)
        hint = f"it takes {', '.join(known) or 'none'}"
        if len(alone) == 1:
            hint = f"write {_example(alone)}, or say --input-as {alone[0]}"
        raise InputError(f"saga {saga} takes an object of inputs, not {shown(document)}; {hint}")
    named = cast("dict[str, object]", document)
    for name in named if not takes_any else ():
        if name not in known:
            right = nearest(str(name), known)
            hint = f"did you mean {right}?" if right else f"it takes {', '.join(known) or 'none'}"
            raise InputError(f"saga {saga} has no input {shown(name)}; {hint}")
    missing = [name for name in required if name not in named]
    if missing:
        raise InputError(f"saga {saga} needs {', '.join(missing)}; give it with --input '{_example(missing)}'")
    return named


def _example(names: Iterable[str]) -> str:
    return "{" + ", ".join(f'"{name}": …' for name in names) + "}"


class AnyNames(Signature):
    """The signature of what is called elsewhere, a tool or a client's action: arguments by name, whatever they are."""

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        if args:
            raise TypeError("it takes its arguments by name")
        return dict(kwargs)

    def caller(self, function: Callable[..., Any], named: Mapping[str, Any]) -> Callable[[], Any]:
        return partial(function, named)

    def call(self, function: Callable[..., Any], named: Mapping[str, Any], *first: object) -> Any:  # noqa: ANN401 - the tool's own
        return function(named)


class Typed:
    """Declared types of a function's parameters and its result; `whose` begins every message."""

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
        return Dictionary(kind)
    if parameter.default is None and kind.checks:  # `x: int = None`: then null is one of its values
        return OneOf((kind, NULL))
    return kind


def kinds_of(function: Callable[..., object]) -> tuple[dict[str, Kind], Kind, tuple[str, ...]]:
    """The kinds of a function's parameters and of its result, and the annotations that cannot be resolved here."""
    from amends.runtime.values.annotations import (  # and all the types of values: not for a start
        Kinds,
        awaited,
        hints_of,
    )

    hints, unresolved = hints_of(function)
    kinds = Kinds()
    result = kinds.of(awaited(hints.pop("return", Any)))
    return {name: kinds.of(hint) for name, hint in hints.items()}, result, unresolved


UNTYPED: Final = Typed("", None)


if TYPE_CHECKING:  # defaults of type variables came with Python 3.13; type checkers have them for all
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R_co = TypeVar("R_co", covariant=True, default=Any)
    Args_co = TypeVar("Args_co", covariant=True, default=dict[str, Any])
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)
    Args_co = TypeVar("Args_co", covariant=True)
