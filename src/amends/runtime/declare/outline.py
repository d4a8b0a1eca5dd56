"""The steps that a list or a graph would take, as far as that is known before it runs. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from amends.core.words.values import SECRET_MARK, Json
from amends.dataclass import dataclass
from amends.runtime.declare.action import Action
from amends.runtime.declare.graph import Graph
from amends.runtime.declare.steps import Given, ResultOf, Step
from amends.secrets import Secret


@dataclass(frozen=True, slots=True)
class Later:
    """A value that is known when the saga has come there; `text` is how it is shown: `{{steps.build.result}}`."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlined:
    """One step. `turn` counts from 1, and steps of the same turn run side by side; 0: nobody knows when.

    `recovers` names the step whose failure leads here. `open_args`: none of its arguments is known yet.
    """

    label: str
    action: Action[..., Any]
    args: Mapping[str, object]
    turn: int = 0
    after: tuple[str, ...] = ()
    recovers: str = ""
    open_args: bool = False
    notes: tuple[str, ...] = ()


def outlined(graph: Graph, given: Mapping[str, Any]) -> Iterator[Outlined]:
    """The steps of a list or a graph in the order of their turns, each with what it is recovered by."""
    turns = turns_of(graph.needs)
    for label in sorted(graph.steps, key=lambda one: turns[one]):
        yield from _outlined(graph.steps[label], given, turns[label], graph.needs[label])


def turns_of(needs: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """By label: a step's turn comes after those of all that it needs. There is no cycle."""
    found: dict[str, int] = {}
    left = list(needs)
    while left:
        ready = [label for label in left if all(one in found for one in needs[label])]
        for label in ready:
            found[label] = 1 + max((found[one] for one in needs[label]), default=0)
        left = [label for label in left if label not in found]
    return found


def _outlined(
    step: Step, given: Mapping[str, Any], turn: int, after: tuple[str, ...], recovers: str = ""
) -> Iterator[Outlined]:
    notes = [
        *(["its result may end the saga early"] if step.complete_if is not None else []),
        *([f"done again up to {step.retry} times when certainly nothing happened"] if step.retry else []),
        *(["calls a person when it fails"] if step.on_failure == "call" else []),
    ]
    yield Outlined(
        label=step.label,
        action=step.action,
        args=_arguments(step, given),
        turn=turn,
        after=after,
        recovers=recovers,
        notes=tuple(notes),
    )
    if isinstance(step.on_failure, Step):
        yield from _outlined(step.on_failure, given, turn, (step.label,), step.label)


def _arguments(step: Step, given: Mapping[str, Any]) -> dict[str, object]:
    named = {name: _told(value, given) for name, value in step.args.items()}
    for name in step.action.parts.signature.names:
        if name not in named and name in given:
            named[name] = given[name]
    if step.action.parts.on_files:
        named.setdefault("files", None)
    return with_defaults(step.action, named)


def with_defaults(action: Action[..., Any], named: dict[str, object]) -> dict[str, object]:
    """The arguments as a step has them; as they are where they do not fit, which a run says."""
    try:
        return action.parts.signature.bind((), named)
    except TypeError:
        return named


def _told(value: object, given: Mapping[str, Any]) -> object:
    if isinstance(value, Given):
        return given.get(value.name)
    if isinstance(value, ResultOf):
        return Later("{{" + ".".join(("steps", value.step, "result", *map(str, value.path))) + "}}")
    if isinstance(value, list):
        return [_told(item, given) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _told(item, given) for key, item in cast("dict[object, object]", value).items()}
    return value


# -- what is known of arguments ---------------------------------------------------------------------------------------


def shown(value: object) -> Json:
    """A value for people: what is not known yet as a reference, and no secret."""
    if isinstance(value, Later):
        return value.text
    if isinstance(value, Secret):
        return {SECRET_MARK: True}
    if isinstance(value, dict):
        return {str(name): shown(part) for name, part in cast("dict[object, object]", value).items()}
    if isinstance(value, list):
        return [shown(part) for part in cast("list[object]", value)]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def known(value: object) -> Json:
    """A value for a gate: what is not known yet is missing."""
    if isinstance(value, dict):
        parts = cast("dict[object, object]", value).items()
        return {str(name): known(part) for name, part in parts if next(unknown(part), None) != ""}
    return shown(value)


def unknown(value: object, path: str = "") -> Iterator[str]:
    """Where in a value something is not known yet: paths as rules write them. A list with any such part is none."""
    if isinstance(value, Later):
        yield path
    elif isinstance(value, dict):
        for name, part in cast("dict[object, object]", value).items():
            yield from unknown(part, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and any(next(unknown(part), None) is not None for part in cast("list[object]", value)):
        yield path
