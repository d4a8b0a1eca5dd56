"""A report as it is put on record, and which sagas have changed since they were last drilled.

What a drill was of is kept as digests of the code of a definition and of its actions, to tell whether they have
changed.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from amends.core.words.contracts import Topic
from amends.core.words.values import Json
from amends.drill.findings import Mark
from amends.drill.report import Report, is_users
from amends.errors import UnknownActionError, UnknownDefinitionError
from amends.evidence.drills import DrilledAction, DrillRecord, contract_digest
from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.registry import Registry

_MOST_FINDINGS: Final = 50


def record_of(report: Report, target: str, doubles: Mapping[str, Json] | None = None) -> DrillRecord:
    """`target` is where the saga was found, as in trip:book_trip; `doubles`, what it was drilled with."""
    contracts = {(step.contract.topic, step.contract.version): step.contract for step in report.steps}
    actions = [
        DrilledAction(
            topic=contract.topic,
            version=contract.version,
            contract=contract_digest(contract),
            code=report.digests.get(contract.topic, ""),
            outcome=str(report.mark_of(contract.topic)),
        )
        for contract in contracts.values()
    ]
    found = [f"{mark}: {finding}" for mark in (Mark.FAILED, Mark.NOT_PROVEN) for finding, _ in report.findings(mark)]
    return DrillRecord(
        saga=report.saga,
        version=report.version,
        target=target,
        input=report.input,
        code=report.digests.get(report.saga, ""),
        outcome=str(report.mark),
        actions=actions,
        counts={str(mark): count for mark, count in report.counts().items()},
        findings=found[:_MOST_FINDINGS],
        children=report.children,
        cells={str(cell.place): f"{cell.mark}, {cell.ended}" for cell in report.cells},
        only=report.only,
        quick=report.quick,
        doubles=dict(doubles or {}),
    )


def has_changed(drilled: DrillRecord, definition: SagaDefinition, registry: Registry) -> bool:
    """Whether the code of a saga, of one that it calls, or of an action of its own, or a contract, is another now."""
    users = [each for each in drilled.actions if is_users(each.topic)]
    try:
        actions = [registry.action(Topic(each.topic), each.version) for each in users]
        children = child_definitions(registry, drilled.children)
    except (UnknownActionError, UnknownDefinitionError):
        return True
    now = digests_of(definition, actions, children)
    before = {drilled.saga: drilled.code, **{each.topic: each.code for each in users}}
    return definition.version != drilled.version or now != before


def digests_of(
    definition: SagaDefinition, actions: Iterable[Action[..., Any]], children: Iterable[SagaDefinition] = ()
) -> dict[str, str]:
    """Of the definition and those that it calls under its name, of each action under its topic."""
    text = [part for each in (definition, *children) for part in _text(each)]
    found = {definition.name: _digest(*text)}
    for action in actions:
        parts = action.parts
        functions = [parts.function, parts.compensation, parts.probe, parts.before]
        functions += [parts.mitigation] if parts.mitigation is not None else []
        found[action.topic] = _digest(contract_digest(action.contract), *map(_code, functions))
    return found


def child_definitions(registry: Registry, names: Iterable[str]) -> list[SagaDefinition]:
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
