"""The order of a definition's steps: what comes before what, checked when it is declared. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final, cast

from amends.dataclass import dataclass
from amends.errors import DeclarationError
from amends.runtime.declare.action import Action
from amends.runtime.declare.steps import ResultOf, Step, references, with_recoveries

MOST_RETRIES: Final = 1000


@dataclass(frozen=True, slots=True)
class Graph:
    """A definition's steps by label. `needs` has what each is after; in a plain list, the one before it."""

    steps: Mapping[str, Step]
    needs: Mapping[str, tuple[str, ...]]
    is_list: bool


def graph_of(name: str, steps: Sequence[Step]) -> Graph:
    """Check the steps of a definition, and put them in order. Raises DeclarationError."""
    _check_each(name, steps)
    by_label = {step.label: step for step in steps}
    if not any(step.after for step in steps):
        _check_list(name, steps)
        labels = list(by_label)
        needs = {label: tuple(labels[at - 1 : at]) for at, label in enumerate(labels)}
        return Graph(by_label, needs, is_list=True)
    needs = {step.label: _needs(name, step, by_label) for step in steps}
    cycle = _cycle(needs)
    if cycle:
        raise DeclarationError(f"saga {name} has a cycle, {' -> '.join(cycle)}: none of these steps could ever start")
    for step in with_recoveries(steps):
        if not step.label.replace("-", "_").isidentifier():
            raise DeclarationError(
                f"saga {name}: in a graph a step is known by its name, and {step.label!r} is none; "
                "give it a name= of letters, digits, _ and -, which begins with a letter"
            )
    return Graph(by_label, needs, is_list=False)


def _check_each(name: str, steps: Sequence[Step]) -> None:
    if not steps:
        raise DeclarationError(f"saga {name} has no steps")
    seen: set[str] = set()
    recoveries = {id(step.on_failure) for step in with_recoveries(steps)}
    for step in with_recoveries(steps):
        if not isinstance(cast("object", step.action), Action):
            raise DeclarationError(f"saga {name}: {step.action!r} is not an action; decorate it with @action(topic)")
        if step.label in seen:
            raise DeclarationError(f"saga {name} has two steps called {step.label}; give one of them a name=")
        seen.add(step.label)
        unknown = set(step.args) - set(step.action.parts.signature.names)
        if unknown:
            raise DeclarationError(
                f"saga {name}, step {step.label}: {step.action.topic} takes no {', '.join(sorted(unknown))}"
            )
        if not isinstance(step.on_failure, Step) and step.on_failure not in {"rollback", "call"}:
            raise DeclarationError(
                f"saga {name}, step {step.label}: on_failure={step.on_failure!r} is none of "
                '"rollback", "call" and a Step to go on by'
            )
        if not 0 <= step.retry <= MOST_RETRIES:
            raise DeclarationError(f"saga {name}, step {step.label}: retry={step.retry} is not 0 to {MOST_RETRIES}")
        if id(step) in recoveries and step.after:
            raise DeclarationError(
                f"saga {name}, step {step.label} is gone to when another failed; it cannot be after= something else"
            )


def _check_list(name: str, steps: Iterable[Step]) -> None:
    """In a plain list a result has to come from above."""
    seen: set[str] = set()
    for step in steps:
        for one in with_recoveries((step,)):
            for wanted in _results_wanted(one):
                if wanted not in seen:
                    raise DeclarationError(
                        f"saga {name}, step {one.label} wants the result of {wanted}, which is not an earlier step"
                    )
        seen |= {one.label for one in with_recoveries((step,))}


def _needs(name: str, step: Step, known: Mapping[str, Step]) -> tuple[str, ...]:
    """Labels that a step is after: what it says, and whatever it or its recovery wants the result of."""
    said = [one.label if isinstance(one, Step) else one for one in _listed(name, step)]
    wanted = [label for one in with_recoveries((step,)) for label in _results_wanted(one)]
    for label in (*said, *wanted):
        if label == step.label:
            raise DeclarationError(f"saga {name}: step {label} is after itself")
        if label not in known:
            raise DeclarationError(
                f"saga {name}, step {step.label} is after {label}, which is no step of it; there are {', '.join(known)}"
            )
    return tuple(dict.fromkeys((*said, *wanted)))


def _listed(name: str, step: Step) -> Sequence[str | Step]:
    if isinstance(cast("object", step.after), str | Step):
        raise DeclarationError(f"saga {name}, step {step.label}: after= takes a list, as in after=[{step.after!r}]")
    return step.after


def _results_wanted(step: Step) -> tuple[str, ...]:
    return tuple(value.step for value in references(list(step.args.values())) if isinstance(value, ResultOf))


def _cycle(needs: Mapping[str, tuple[str, ...]]) -> list[str]:
    """A way round, its first step named again at the end; nothing where there is none."""
    sorter = TopologicalSorter(dict.fromkeys(needs, ()))
    for label, before in needs.items():
        for one in before:
            sorter.add(one, label)
    try:
        sorter.prepare()
    except CycleError as exc:
        cycle: list[str] = exc.args[1]
        return cycle[::-1]
    return []
