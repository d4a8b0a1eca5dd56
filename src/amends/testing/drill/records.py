"""A report as it is put on record, and which sagas have changed since they were last drilled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amends.core.contracts import Topic
from amends.core.values import Json
from amends.errors import UnknownActionError, UnknownDefinitionError
from amends.runtime.definition import SagaDefinition
from amends.runtime.drills import DrilledAction, DrillRecord, contract_digest
from amends.runtime.registry import Registry
from amends.testing.drill.digests import called, digests_of
from amends.testing.drill.findings import Mark
from amends.testing.drill.report import Report, is_users

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
        children = called(registry, drilled.children)
    except (UnknownActionError, UnknownDefinitionError):
        return True
    now = digests_of(definition, actions, children)
    before = {drilled.saga: drilled.code, **{each.topic: each.code for each in users}}
    return definition.version != drilled.version or now != before
