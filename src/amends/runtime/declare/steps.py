"""The steps of a list or a graph, as data, and where their arguments come from. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias, cast

from amends.dataclass import dataclass
from amends.errors import InputError
from amends.runtime.declare.action import Action


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


OnFailure: TypeAlias = "Literal['rollback', 'call'] | Step"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a list or a graph. Parameters that `args` leaves out are taken from the saga's input by name.

    after: the steps, or their labels, that have to be done first; with it anywhere in a list, the list is a graph.
    complete_if: asked with the step's result; true means that the saga's work is done, and what is left is not run.
    retry: how often it is done again, as a new step, when it ended badly and certainly nothing happened.
    on_failure: what becomes of the saga when it ended badly: "rollback", "call" a person, or another step, to go on by.
    """

    action: Action[..., Any]
    args: Mapping[str, object] = field(default_factory=dict[str, object])
    name: str = ""
    after: Sequence[str | Step] = ()
    complete_if: Callable[[Any], object] | None = None
    retry: int = 0
    on_failure: OnFailure = "rollback"

    @property
    def label(self) -> str:
        return self.name or getattr(self.action, "__name__", str(self.action.topic))


def with_recoveries(steps: Iterable[Step]) -> Iterator[Step]:
    """Each step, and after it the one that it is recovered by."""
    for step in steps:
        yield step
        if isinstance(step.on_failure, Step):
            yield from with_recoveries((step.on_failure,))


def inputs_of(steps: Iterable[Step]) -> Iterator[str]:
    """The parts of the input that steps take, in their order, some of them several times."""
    for step in with_recoveries(steps):
        yield from (value.name for value in references(list(step.args.values())) if isinstance(value, Given))
        yield from (name for name in step.action.parts.signature.names if name not in step.args)


def taken_from_input(step: Step) -> Iterator[tuple[str, str]]:
    """The parameters of a step whose whole value is a part of the input, each with the name of that part."""
    for name in step.action.parts.signature.names:
        value = step.args.get(name, Given(name))
        if isinstance(value, Given):
            yield name, value.name


def required_of(steps: Iterable[Step]) -> set[str]:
    """The parts of the input that steps cannot do without."""
    wanted: set[str] = set()
    for step in steps:
        wanted |= {value.name for value in references(list(step.args.values())) if isinstance(value, Given)}
        wanted |= (
            set(step.action.parts.signature.required)
            - set(step.args)
            - ({"files"} if step.action.parts.on_files else set())
        )
    return wanted


def check_given(name: str, steps: Iterable[Step], given: object) -> None:
    if not isinstance(given, dict):
        raise InputError(f"saga {name} takes an object of inputs, not {given!r}")
    for step in with_recoveries(steps):
        missing = required_of((step,)) - set(cast("dict[str, object]", given))
        if missing:
            raise InputError(f"saga {name}, step {step.label} needs {', '.join(sorted(missing))} in the input")


def arguments(step: Step, given: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, object]:
    """A step's arguments by name: what it says, and from the saga's input what it leaves out."""
    named = {name: resolved(value, given, results) for name, value in step.args.items()}
    for name in step.action.parts.signature.names:
        if name not in named and name in given:
            named[name] = given[name]
    return named


def resolved(value: object, given: Mapping[str, Any], results: Mapping[str, Any]) -> object:
    if isinstance(value, Given):
        return given[value.name]
    if isinstance(value, ResultOf):
        found: Any = results[value.step]
        for key in value.path:
            found = found[key]
        return found
    if isinstance(value, list):
        return [resolved(item, given, results) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        items = cast("dict[object, object]", value)
        return {key: resolved(item, given, results) for key, item in items.items()}
    return value


def references(value: object) -> Iterator[Given | ResultOf]:
    """Every reference in an argument, however deep."""
    if isinstance(value, Given | ResultOf):
        yield value
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from references(item)
    elif isinstance(value, dict):
        yield from references(list(cast("dict[object, object]", value).values()))
