"""Arguments by name: binding a call to a function's signature, and calling the function from what was stored."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from amends.errors import DeclarationError
from amends.runtime.secret import Secret

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
