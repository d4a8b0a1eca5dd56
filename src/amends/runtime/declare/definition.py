"""Definitions of sagas, as data: of a function (`@saga`), or of a list of steps (`SagaDefinition`).

A definition knows where it was declared: the module whose import makes it known again, in another process.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Concatenate, Final, Generic, Protocol, Unpack, cast, overload

from amends.core.words.values import LARGEST_VALUE
from amends.errors import AmendsError, DeclarationError, InputError
from amends.runtime.declare.action import Action, checked_topic
from amends.runtime.declare.checks import checks
from amends.runtime.declare.graph import Graph, graph_of
from amends.runtime.declare.options import OptionNames, Options, parted, require_names
from amends.runtime.declare.outline import Outlined, outlined
from amends.runtime.declare.parts import RESULT
from amends.runtime.declare.registry import PROCESS
from amends.runtime.declare.resources import checked_templates, fields_of, listed
from amends.runtime.declare.steps import (
    Step,
    arguments,
    check_given,
    inputs_of,
    required_of,
    taken_from_input,
    with_recoveries,
)
from amends.runtime.values.schema import Definitions, tool_schema
from amends.runtime.values.signature import UNTYPED, P, R_co, Signature, Typed, named_inputs

_OURS: Final = "amends"
_MAIN: Final = "__main__"
_BODY: Final = "<module>"


def declaring_module() -> str:
    """The module whose body is being executed just now, innermost, as it can be imported; '' where there is none.

    A script has no name that another process could import, nor has a cell of a notebook. What a function makes once
    the imports are over is nobody's: importing that module again does not make it.
    """
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != _BODY:
        frame = frame.f_back
    return "" if frame is None else _importable(str(frame.f_globals.get("__name__", "")))


def _importable(name: str) -> str:
    module = sys.modules.get(name)
    if module is None:  # a text that is executed under a name of its own
        return ""
    if name == _MAIN:  # `python -m shop.sagas` can be imported by its own name; `python -m shop` runs when it is
        name = getattr(getattr(module, "__spec__", None), "name", "")
    parts = name.split(".")
    return name if parts[0] != _OURS and parts[-1] != _MAIN and all(map(str.isidentifier, parts)) else ""


Body = Callable[..., Awaitable[Any]]
Arguments = Callable[[Step, Mapping[str, Any]], Mapping[str, object]]


class DoSteps(Protocol):
    """An open saga, as far as a list of steps needs it: `s`."""

    def do_steps(self, graph: Graph, arguments: Arguments) -> Coroutine[Any, Any, dict[str, Any]]: ...


class SagaDefinition(Generic[P, R_co]):
    """A saga as data: `SagaDefinition("refactor.module", [Step(analyze), …])`. `@saga` makes one of a function."""

    @overload
    def __init__(
        self: SagaDefinition[..., dict[str, Any]],
        name: str,
        steps: Sequence[Step | Action[..., Any]] = (),
        *,
        function: None = None,
        version: int = 1,
        **options: Unpack[OptionNames],
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        steps: Sequence[Step | Action[..., Any]] = (),
        *,
        function: Callable[Concatenate[Any, P], Awaitable[R_co]],
        version: int = 1,
        **options: Unpack[OptionNames],
    ) -> None: ...

    def __init__(
        self,
        name: str,
        steps: Sequence[Step | Action[..., Any]] = (),
        *,
        function: Body | None = None,
        version: int = 1,
        **options: Unpack[OptionNames],
    ) -> None:
        """The further keywords are those of `Options`."""
        self.options = Options(**options)
        self.name = str(checked_topic(name))
        self.options.require_bounds(f"saga {self.name}")
        self.version = version
        self.module = declaring_module()
        """Which to import to know it in another process; '' where no import would do."""
        self.rehearsal: Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]] | None = None
        """Has its work done in another way than a run does: a drill lets it fail at its very end."""
        self.steps = tuple(step if isinstance(step, Step) else Step(step) for step in steps)
        self._graph = Graph({}, {}, is_list=True)
        self._is_list = function is None
        if function is None:
            self._graph = graph_of(self.name, self.steps)
        elif not inspect.iscoroutinefunction(function):
            raise DeclarationError(f"@saga({name!r}) goes on an async function: async def {_name(function)}(s, …)")
        else:
            functools.update_wrapper(self, function)
        self.function: Body = function or self._do_steps
        self.signature = Signature(self.function, skip=1) if function else Signature(_list_input)
        self.checks = checks(self.name, self.options.verify)
        if self.options.lands is not None and not self.options.files:
            raise DeclarationError(f"saga {name} lands, and has no files=")
        if function is not None:
            require_names(self.name, self.signature.by_keyword, self.options.options)
            self._require_inputs(self.signature.names, DeclarationError)
        whose, fields = f"saga {self.name}", self.signature.names if function else None
        self.resources = checked_templates(whose, listed(whose, self.options.resources), fields)
        PROCESS.add_definition(self)

    def __repr__(self) -> str:
        return f"<saga {self.name}/{self.version}>"

    @cached_property
    def typed(self) -> Typed:
        """Types that its annotations ask for; of a list of steps, those of its actions do."""
        return UNTYPED if self._is_list else Typed(f"saga {self.name}", self.function, skip=1)

    def check(self, named: Mapping[str, Any]) -> None:
        """Raises InputError for an input, as JSON has it, that is not what was declared. For sagas that begin."""
        if not self._is_list:
            self.typed.check(named)
            return
        given = self.given(named)
        for step in with_recoveries(self.steps):
            for name, taken in taken_from_input(step):
                if taken in given:
                    step.action.parts.typed.check_one(name, given[taken], said=f"{taken} of the input")

    def __call__(self, s: DoSteps, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R_co]:
        """Run the body under a saga that is already open."""
        return self.function(s, *args, **kwargs)

    def schema(self) -> dict[str, Any]:
        """The saga as a tool of a model: `name`, `description` and, as JSON Schema, `parameters`."""
        if not self._is_list:
            return tool_schema(self.name, inspect.getdoc(self.function) or "", self.typed.schema())
        parts = Definitions()
        taken = {
            taken: step.action.parts.typed.kinds[name].schema(parts)
            for step in reversed(tuple(with_recoveries(self.steps)))  # what the first one says of it counts
            for name, taken in taken_from_input(step)
            if not (name == "files" and step.action.parts.on_files)
        }
        works_on_files = any(step.action.parts.on_files for step in self.steps)
        names = [name for name in self._inputs if name in taken or not (name == "files" and works_on_files)]
        required = required_of(with_recoveries(self.steps))
        asked = {name: taken.get(name, {}) for name in names}
        return tool_schema(self.name, "", parts.whole(asked, [name for name in names if name in required]))

    @property
    def takes_object(self) -> bool:
        """Whether its whole input may be one object."""
        return self._is_list

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of inputs that it can be given by keyword."""
        return self._inputs if self._is_list else self.signature.by_keyword

    def parted(
        self, known: Collection[str], args: tuple[object, ...], keywords: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The options among the keywords of a call that runs it, and the keywords of its own. Raises InputError."""
        own = () if args and self.takes_object else self.input_names
        return parted(self.name, own, self.options.options, known, keywords)

    def bind(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], most: int = LARGEST_VALUE
    ) -> dict[str, object]:
        """The input by name, as JSON has it. Raises InputError, and TooLargeError where it takes more than `most`."""
        if self.steps and not args:
            args, kwargs = (dict(kwargs),), {}
        try:
            bound = self.signature.bind(args, kwargs)
        except TypeError as exc:
            raise InputError(f"saga {self.name}: {self.signature.misfit(exc, kwargs)}") from None
        if not self.steps:
            return dict(self.typed.store(bound, most, "input"))
        if isinstance(bound["given"], dict):
            bound["given"] = self._stored(cast("dict[str, object]", bound["given"]), most)
        named_inputs(self.name, bound["given"], self._inputs, ())
        check_given(self.name, self.steps, bound["given"])
        self._require_inputs(self.given(bound), InputError)
        return bound

    def _stored(self, given: Mapping[str, object], most: int) -> dict[str, object]:
        """The input of a list of steps as JSON has it: by the word of the first action that takes it."""
        found = dict(given)
        for step in with_recoveries(self.steps):
            for name, taken in taken_from_input(step):
                if taken in found:
                    found[taken] = step.action.parts.typed.store({name: found[taken]}, most)[name]
        return found

    @cached_property
    def _inputs(self) -> tuple[str, ...]:
        """Inputs of a list of steps: what its steps, its assertions and its resources ask for, by name."""
        asked = [one.action.parts.signature.names for one in self.checks]
        found = dict.fromkeys((*inputs_of(self.steps), *itertools.chain(*asked), *fields_of(self.resources)))
        return tuple(name for name in found if name != RESULT)

    def _require_inputs(self, names: Iterable[str], error: type[AmendsError]) -> None:
        for one in self.checks:
            if lacking := one.lacks(self.name, tuple(names)):
                raise error(lacking)

    def given(self, named: Mapping[str, Any]) -> Mapping[str, Any]:
        """The saga's input by name, whichever kind of definition it is of."""
        return cast("Mapping[str, Any]", named["given"]) if self.steps else named

    def bind_document(self, document: object) -> dict[str, object]:
        """Bind one JSON document, as a command line has it: an object of the saga's inputs by name."""
        if self.steps:
            return self.bind((named_inputs(self.name, document, self._inputs, ()),), {})
        one = self.signature
        args, kwargs = one.from_names(
            named_inputs(self.name, document, one.names, one.required, takes_any=one.takes_any)
        )
        return self.bind(args, kwargs)

    @property
    def lands(self) -> bool:
        """Whether it lands its files at its end."""
        return self.options.lands is not None

    def outline(self, named: Mapping[str, Any]) -> tuple[Outlined, ...] | None:
        """The steps that it would take with this input, before it lands; None for a function, which decides them as it
        runs.
        """
        return tuple(outlined(self._graph, self.given(named))) if self.steps else None

    async def _do_steps(self, s: DoSteps, given: Mapping[str, Any]) -> dict[str, Any]:
        return await s.do_steps(self._graph, lambda step, results: arguments(step, given, results))


def _list_input(given: object = None) -> None:
    """The signature of a list of steps: one object."""


def _name(function: object) -> str:
    return str(getattr(function, "__name__", "book"))
