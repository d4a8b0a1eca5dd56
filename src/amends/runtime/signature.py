"""Arguments by name: binding a call to a function's signature, and calling the function from what was stored."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, cast

from amends.errors import DeclarationError, InputError
from amends.runtime.secret import Secret
from amends.source.marked import shown
from amends.source.words import nearest

_P: Final = inspect.Parameter
_PLAIN: Final = frozenset({str, int, float, bool, dict, list, Secret, type(None)})


class Signature:
    """What a function takes, less its first `skip` parameters (a saga's `s`)."""

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
        kinds = {parameter.kind for parameter in self._parameters.values()}
        self._simple = kinds <= {_P.POSITIONAL_OR_KEYWORD}
        self._by_keyword = kinds <= {_P.POSITIONAL_OR_KEYWORD, _P.KEYWORD_ONLY}
        self.takes_any = _P.VAR_KEYWORD in kinds
        """Whether it takes arguments of any name: it ends in `**more`."""

    @property
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
        if self._simple and not kwargs and len(args) == len(self.names):
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
