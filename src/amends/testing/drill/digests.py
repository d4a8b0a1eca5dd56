"""What a drill was of: digests of the code of a definition and of its actions, to tell whether they have changed."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from amends.runtime.action import Action
from amends.runtime.definition import SagaDefinition
from amends.runtime.drills import contract_digest
from amends.runtime.registry import Registry


def digests_of(
    definition: SagaDefinition, actions: Iterable[Action[..., Any]], children: Iterable[SagaDefinition] = ()
) -> dict[str, str]:
    """Of the definition and those that it calls under its name, of each action under its topic."""
    text = [part for each in (definition, *children) for part in _text(each)]
    found = {definition.name: _digest(*text)}
    for action in actions:
        parts = [action.function, action.compensate, action.ask, action.capture]
        parts += [action.mitigate] if action.mitigate is not None else []
        found[action.topic] = _digest(contract_digest(action.contract), *map(_code, parts))
    return found


def called(registry: Registry, names: Iterable[str]) -> list[SagaDefinition]:
    """The definitions of children, by name/version. Raises UnknownDefinitionError."""
    split = (name.rpartition("/") for name in names)
    return [registry.definition(name, int(version)) for name, _, version in split]


def _text(definition: SagaDefinition) -> Iterable[str]:
    return (str(definition.version), *_steps(definition), _code(definition.function))


def _steps(definition: SagaDefinition) -> Iterable[str]:
    return (f"{step.label} {step.action.topic} {step.args!r}" for step in definition.steps)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]


def _code(function: Callable[..., object] | None) -> str:
    """A function's text; where there is none to be had, its compiled form."""
    if function is None:
        return ""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return repr(function) if code is None else f"{code.co_code.hex()} {code.co_names} {code.co_consts!r}"
