"""What a saga is made from: a function (`@saga`), or a list of steps (`SagaDefinition`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from amends.errors import AmendsError, DeclarationError, InputError
from amends.runtime.action import Action, checked_topic
from amends.runtime.assertions import Check, checks
from amends.runtime.registry import PROCESS
from amends.runtime.signature import Signature

if TYPE_CHECKING:
    from amends.runtime.work import Work

Body = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Given:
    """An argument taken from the saga's input."""

    name: str


@dataclass(frozen=True, slots=True)
class ResultOf:
    """An argument taken from an earlier step's result, or from inside it."""

    step: str
    path: tuple[str | int, ...] = ()


def given(name: str) -> Given:
    """An argument of a step in a list: this part of the saga's input."""
    return Given(name)


def result_of(step: str, *path: str | int) -> ResultOf:
    """An argument of a step in a list: an earlier step's result, or what lies at `path` inside it."""
    return ResultOf(step, path)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a list. Parameters that `args` leaves out are taken from the saga's input by name."""

    action: Action[..., Any]
    args: Mapping[str, object] = field(default_factory=dict[str, object])
    name: str = ""

    @property
    def label(self) -> str:
        return self.name or getattr(self.action, "__name__", str(self.action.topic))


class SagaDefinition:
    """A saga as data: `SagaDefinition("refactor.module", [Step(analyze), …])`. `@saga` makes one of a function."""

    def __init__(
        self,
        name: str,
        steps: Sequence[Step | Action[..., Any]] = (),
        *,
        function: Body | None = None,
        version: int = 1,
        verify: Sequence[Check | Callable[..., object]] = (),
    ) -> None:
        """verify: what has to hold before a saga of it counts as complete; see `check`."""
        self.name = str(checked_topic(name))
        self.version = version
        self.steps = tuple(step if isinstance(step, Step) else Step(step) for step in steps)
        if function is None:
            _check_steps(self.name, self.steps)
        elif not inspect.iscoroutinefunction(function):
            raise DeclarationError(f"@saga({name!r}) goes on an async function: async def {_name(function)}(s, …)")
        else:
            functools.update_wrapper(self, function)
        self.function: Body = function or self._run_steps
        self.signature = Signature(self.function, skip=1) if function else Signature(_list_input)
        self.checks = checks(self.name, verify)
        if function is not None:
            self._require_inputs(self.signature.names, DeclarationError)
        PROCESS.add_definition(self)

    def __repr__(self) -> str:
        return f"<saga {self.name}/{self.version}>"

    def __call__(self, s: Work, *args: object, **kwargs: object) -> Awaitable[Any]:
        """Run the body under a saga that is already open."""
        return self.function(s, *args, **kwargs)

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        if self.steps and not args:
            args, kwargs = (dict(kwargs),), {}
        try:
            bound = self.signature.bind(args, kwargs)
        except TypeError as exc:
            raise InputError(f"saga {self.name}: {exc}; it takes ({', '.join(self.signature.names)})") from None
        if self.steps:
            _check_given(self.name, self.steps, cast("Mapping[str, object]", bound["given"]))
            self._require_inputs(self.given(bound), InputError)
        return bound

    def _require_inputs(self, names: Iterable[str], error: type[AmendsError]) -> None:
        for one in self.checks:
            if lacking := one.lacks(self.name, tuple(names)):
                raise error(lacking)

    def given(self, named: Mapping[str, Any]) -> Mapping[str, Any]:
        """The saga's input by name, whichever kind of definition it is of."""
        return cast("Mapping[str, Any]", named["given"]) if self.steps else named

    def bind_document(self, document: object) -> dict[str, object]:
        """Bind one JSON document, as a command line has it: its keys are the parameters, or it is the only one."""
        if self.steps:
            return self.bind((document,), {})
        names, required = self.signature.names, self.signature.required
        if isinstance(document, dict):
            keys = set(cast("dict[str, object]", document))
            if set(required) <= keys <= set(names):
                return self.bind((), cast("dict[str, object]", document))
        if document is None and not required:
            return self.bind((), {})
        if len(required) == 1 or (len(names) == 1 and not required):
            return self.bind((document,), {})  # pyright: ignore[reportUnknownArgumentType] - any JSON document
        raise InputError(f"saga {self.name} takes an object with the keys {', '.join(names)}; the input does not fit")

    async def run(self, s: Work, named: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the user's own type
        if self.steps:
            return await self._run_steps(s, named["given"])
        return await self.signature.call(self.function, named, s)

    async def _run_steps(self, s: Work, given: Mapping[str, Any]) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for step in self.steps:
            named = {name: _resolved(value, given, results) for name, value in step.args.items()}
            for name in step.action.signature.names:
                if name not in named and name in given:
                    named[name] = given[name]
            results[step.label] = await s.do_named(step.action, named)
        return results


def saga(
    name: str, *, version: int = 1, verify: Sequence[Check | Callable[..., object]] = ()
) -> Callable[[Body], SagaDefinition]:
    """Make an async function a saga's definition. Its first parameter is the saga, to act through: `await s.do(…)`.

    verify: what has to hold before a saga of it counts as complete; see `check`.
    """

    def declare(function: Body) -> SagaDefinition:
        return SagaDefinition(name, function=function, version=version, verify=verify)

    return declare


def _list_input(given: object = None) -> None:
    """The signature of a list of steps: one object."""


def _name(function: object) -> str:
    return str(getattr(function, "__name__", "book"))


def _check_steps(name: str, steps: Iterable[Step]) -> None:
    seen: set[str] = set()
    for step in steps:
        if not isinstance(cast("object", step.action), Action):
            raise DeclarationError(f"saga {name}: {step.action!r} is not an action; decorate it with @action(topic)")
        if step.label in seen:
            raise DeclarationError(f"saga {name} has two steps called {step.label}; give one of them a name=")
        unknown = set(step.args) - set(step.action.signature.names)
        if unknown:
            raise DeclarationError(
                f"saga {name}, step {step.label}: {step.action.topic} takes no {', '.join(sorted(unknown))}"
            )
        for value in _references(list(step.args.values())):
            if isinstance(value, ResultOf) and value.step not in seen:
                raise DeclarationError(
                    f"saga {name}, step {step.label} wants the result of {value.step}, which is not an earlier step"
                )
        seen.add(step.label)
    if not seen:
        raise DeclarationError(f"saga {name} has no steps")


def _check_given(name: str, steps: Iterable[Step], given: object) -> None:
    if not isinstance(given, dict):
        raise InputError(f"saga {name} takes an object of inputs, not {given!r}")
    for step in steps:
        wanted = {value.name for value in _references(list(step.args.values())) if isinstance(value, Given)}
        wanted |= set(step.action.signature.required) - set(step.args)
        missing = wanted - set(cast("dict[str, object]", given))
        if missing:
            raise InputError(f"saga {name}, step {step.label} needs {', '.join(sorted(missing))} in the input")


def _resolved(value: object, given: Mapping[str, Any], results: Mapping[str, Any]) -> object:
    if isinstance(value, Given):
        return given[value.name]
    if isinstance(value, ResultOf):
        found: Any = results[value.step]
        for key in value.path:
            found = found[key]
        return found
    if isinstance(value, list):
        return [_resolved(item, given, results) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        items = cast("dict[object, object]", value)
        return {key: _resolved(item, given, results) for key, item in items.items()}
    return value


def _references(value: object) -> Iterator[Given | ResultOf]:
    """Every reference in an argument, however deep."""
    if isinstance(value, Given | ResultOf):
        yield value
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _references(item)
    elif isinstance(value, dict):
        yield from _references(list(cast("dict[object, object]", value).values()))
