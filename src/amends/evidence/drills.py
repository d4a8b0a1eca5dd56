"""Drills on record: written, read back, and when each action was last drilled.

A drill on record is a saga of the definition `amends.drill` that has ended as soon as it began. Its input says what was
drilled: the saga, and each action with the digest of its contract; its result says how each came out. Only an action
that passed counts, and only under the contract that it had then. Cancelling the saga withdraws the drill. A quick drill
is on record as such, and counts for the age: every compensation worked in it. A part of a drill (`only`) is evidence,
and does not count.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias, cast

from amends.clock import Clock
from amends.core.events import (
    ActionDispatched,
    CompensationFailed,
    CompensationLost,
    CompensationSucceeded,
    DrillMissed,
    SagaCompleted,
    SagaStarted,
    StepProposed,
)
from amends.core.state.saga import Saga, Step
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Contract, described
from amends.core.words.values import CONTROL, DRILLS, Json, SagaId, StepId, canonical, digest
from amends.dataclass import dataclass
from amends.journal.port.journal import Entry, Journal, SagaQuery, Summary

PASSED: Final = "passed"
FAILED: Final = "failed"
LAST: Final = 20
"""Of how many compensations the share that failed is told."""
_LOOKED_THROUGH: Final = 200
_WENT_BACK: Final = (SagaStatus.ROLLED_BACK, SagaStatus.MITIGATED, SagaStatus.ROLLING_BACK, SagaStatus.INCIDENT)
_PAGE: Final = 50
_ENTRIES: Final = 2
"""A drill is on record with its beginning and its end; whatever follows withdraws it."""


def contract_digest(contract: Contract) -> str:
    """Of everything that an action promises, the tool behind it included."""
    return digest(canonical(described(contract)))[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrilledAction:
    """`code` is the digest of its functions' text; the gate does not know that, `amends drill --changed` does."""

    topic: str
    version: int
    contract: str
    code: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRecord:
    """One drill: of which saga, with what input, by which code, and how it came out."""

    saga: str
    version: int
    target: str
    input: Json
    code: str
    outcome: str
    actions: Sequence[DrilledAction]
    counts: Mapping[str, int]
    findings: Sequence[str]
    children: Sequence[str] = ()
    """The sagas that it called: name/version."""
    cells: Mapping[str, str] = field(default_factory=dict[str, str])
    """How each place came out, and how the saga ended there."""
    only: Sequence[str] = ()
    """What was tried, where that is not all."""
    quick: bool = False
    """Whether only the fewest runs were made in which every compensation works once."""
    doubles: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What it was drilled with: modules and functions, by the names of the options."""
    at: int = 0
    id: str = ""


async def record_drill(journal: Journal, clock: Clock, drilled: DrillRecord, *, by: str, env: str) -> SagaId:
    """Put a drill on record; the id of its saga."""
    actions = [
        {"topic": each.topic, "version": each.version, "contract": each.contract, "code": each.code}
        for each in drilled.actions
    ]
    about = {
        "saga": drilled.saga,
        "version": drilled.version,
        "target": drilled.target,
        "input": drilled.input,
        "code": drilled.code,
        "actions": actions,
        "children": list(drilled.children),
        "only": list(drilled.only),
        "doubles": dict(drilled.doubles),
        **({"quick": True} if drilled.quick else {}),
    }
    result = {
        "outcome": drilled.outcome,
        "actions": [each.outcome for each in drilled.actions],
        "counts": dict(drilled.counts),
        "findings": list(drilled.findings),
        "cells": dict(drilled.cells),
    }
    saga = SagaId(clock.new_id())
    labels = {
        "saga": drilled.saga,
        "outcome": drilled.outcome,
        **({"only": ",".join(drilled.only)} if drilled.only else {}),
        **({"kind": "quick"} if drilled.quick else {}),
    }
    begun = SagaStarted(definition=DRILLS, version=1, input=cast("Json", about), actor=by, env=env, labels=labels)
    ended = SagaCompleted(result=cast("Json", result))
    await journal.append(saga, (begun, ended), after=0, summary=Summary(SagaStatus.COMPLETED))
    return saga


async def drills_on_record(journal: Journal) -> AsyncIterator[DrillRecord]:
    """Newest first; those that were withdrawn, or whose content was removed, are left out."""
    query = SagaQuery(definition=DRILLS, statuses=(SagaStatus.COMPLETED,), limit=_PAGE)
    while True:
        page = await journal.sagas(query)
        for row in page.rows:
            drilled = drill_of(row.id, [entry async for entry in journal.read(row.id)])
            if drilled is not None:
                yield drilled
        if page.cursor is None:
            return
        query = SagaQuery(definition=DRILLS, statuses=query.statuses, limit=_PAGE, before=page.cursor)


def drill_of(saga: SagaId, entries: Sequence[Entry]) -> DrillRecord | None:
    """The drill that a saga's entries put on record; None where it is none, or its content was removed."""
    if len(entries) < _ENTRIES or any(entry.is_removed for entry in entries):
        return None
    begun, ended = (entry.event for entry in entries[:_ENTRIES])
    if not isinstance(begun, SagaStarted) or begun.definition != DRILLS or not isinstance(ended, SagaCompleted):
        return None
    return _read(saga, entries[0].at, begun.input, ended.result)


def _read(saga: SagaId, at: int, about: Json, result: Json) -> DrillRecord:
    said, came_out = _object(about), _object(result)
    outcomes = _list(came_out.get("actions"))
    actions = [
        DrilledAction(
            topic=str(each.get("topic")),
            version=int(str(each.get("version"))),
            contract=str(each.get("contract")),
            code=str(each.get("code")),
            outcome=str(outcome),
        )
        for each, outcome in zip(map(_object, _list(said.get("actions"))), outcomes, strict=False)
    ]
    return DrillRecord(
        saga=str(said.get("saga")),
        version=int(str(said.get("version"))),
        target=str(said.get("target")),
        input=said.get("input"),
        code=str(said.get("code")),
        outcome=str(came_out.get("outcome")),
        actions=actions,
        counts={name: int(str(count)) for name, count in _object(came_out.get("counts")).items()},
        findings=[str(each) for each in _list(came_out.get("findings"))],
        children=[str(each) for each in _list(said.get("children"))],
        cells={place: str(how) for place, how in _object(came_out.get("cells")).items()},
        only=[str(each) for each in _list(said.get("only"))],
        quick=said.get("quick") is True,
        doubles=_object(said.get("doubles")),
        at=at,
        id=saga,
    )


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


# -- on time ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A saga that was drilled, and when it last was, whole or quick, and nothing failed."""

    saga: str
    target: str
    at: int

    def is_missed(self, now: int, every_s: float) -> bool:
        return now - self.at > every_s * 1000


async def scheduled(journal: Journal) -> list[Scheduled]:
    """Every saga that was ever drilled. Where each drill of it failed, the first counts: it waits since then."""
    newest: dict[str, Scheduled] = {}
    oldest: dict[str, Scheduled] = {}
    async for drilled in drills_on_record(journal):
        if not drilled.only:
            one = Scheduled(saga=drilled.saga, target=drilled.target, at=drilled.at)
            oldest[drilled.target] = one
            if drilled.outcome != FAILED:
                newest.setdefault(drilled.target, one)
    return list({**oldest, **newest}.values())


async def missed_still(journal: Journal) -> frozenset[int]:
    """Numbers of the entries of `amends.control` that say a drill was missed which has not been made up for."""
    newest: dict[str, tuple[int, int]] = {}
    async for entry in journal.read(SagaId(CONTROL)):
        if not entry.is_removed and isinstance(entry.event, DrillMissed):
            newest[entry.event.target] = entry.number, entry.at
    if not newest:
        return frozenset()
    last = {one.target: one.at for one in await scheduled(journal)}
    return frozenset(number for target, (number, at) in newest.items() if last.get(target, at) < at)


# -- for the gate -----------------------------------------------------------------------------------------------------

DrilledAt: TypeAlias = dict[tuple[str, int, str], int]
"""By topic, version and the digest of the contract."""
DrillResults: TypeAlias = dict[tuple[str, int, str], tuple[int, str]]


async def last_passed(journal: Journal) -> DrilledAt:
    """When each action last passed a drill, whole or quick."""
    return (await passed_at(journal))[0]


async def passed_at(journal: Journal) -> tuple[DrilledAt, DrilledAt]:
    """When each action last passed a drill, and when a whole one."""
    found: DrilledAt = {}
    whole: DrilledAt = {}
    async for drilled in drills_on_record(journal):
        for each in drilled.actions if not drilled.only else ():
            if each.outcome == PASSED:
                which = (each.topic, each.version, each.contract)
                found.setdefault(which, drilled.at)
                if not drilled.quick:
                    whole.setdefault(which, drilled.at)
    return found, whole


async def last_drills(journal: Journal, saga: Saga, until: int) -> dict[StepId, Json]:
    """The last drill of each step's action, whole or quick, up to a moment, however it came out."""
    wanted = {(step.topic, step.contract.version) for step in saga.steps.values() if step.contract.side_effect}
    newest: dict[tuple[str, int], tuple[DrillRecord, DrilledAction]] = {}
    async for drilled in drills_on_record(journal):
        for each in drilled.actions if drilled.at <= until and not drilled.only else ():
            newest.setdefault((each.topic, each.version), (drilled, each))
        if wanted <= newest.keys():
            break
    found = {step: newest.get((each.topic, each.contract.version)) for step, each in saga.steps.items()}
    return {step: _told(saga.steps[step], *last) for step, last in found.items() if last is not None}


def _told(step: Step, drilled: DrillRecord, action: DrilledAction) -> Json:
    at = datetime.fromtimestamp(drilled.at // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    same = action.contract == contract_digest(step.contract)
    told: dict[str, Json] = {"drill": drilled.id, "at": at, "outcome": action.outcome, "same_contract": same}
    return {**told, "kind": "quick"} if drilled.quick else told


async def last_results(journal: Journal) -> DrillResults:
    """How the last drill of each action came out, whole or quick."""
    found: DrillResults = {}
    async for drilled in drills_on_record(journal):
        for each in drilled.actions if not drilled.only else ():
            found.setdefault((each.topic, each.version, each.contract), (drilled.at, each.outcome))
    return found


async def compensation_failures(journal: Journal, topic: str, version: int) -> float | None:
    """The share of an action's last compensations that failed; None where none was ever tried.

    A compensation counts when it has ended: it succeeded, or was given up. They are looked for in the newest sagas with
    the action that went back.
    """
    ended: list[tuple[int, bool]] = []
    looked = 0
    query = SagaQuery(topic=topic, statuses=_WENT_BACK, limit=_PAGE)
    while len(ended) < LAST and looked < _LOOKED_THROUGH:
        page = await journal.sagas(query)
        for row in page.rows:
            ended += [] if row.pruned else await _compensations(journal, row.id, topic, version)
        looked += len(page.rows)
        if page.cursor is None:
            break
        query = replace(query, before=page.cursor)
    last = sorted(ended)[-LAST:]
    return sum(failed for _, failed in last) / len(last) if last else None


async def _compensations(journal: Journal, saga: SagaId, topic: str, version: int) -> list[tuple[int, bool]]:
    """When each compensation of an action in a saga ended, and whether it failed."""
    steps: set[StepId] = set()
    ended: list[tuple[int, bool]] = []
    async for entry in journal.read(saga):
        if entry.is_removed:
            return []
        match entry.event:
            case StepProposed() | ActionDispatched() as begun if (begun.topic, begun.version) == (topic, version):
                steps.add(begun.step)
            case CompensationSucceeded(step=step) if step in steps:
                ended.append((entry.at, False))
            case CompensationFailed(step=step, retry_at=None) | CompensationLost(step=step, retry_at=None) if (
                step in steps
            ):
                ended.append((entry.at, True))
            case _:
                pass
    return ended


def drilled_at(known: DrilledAt, contract: Contract) -> int | None:
    """When this action passed a drill under this contract; None where it never did."""
    return known.get((contract.topic, contract.version, contract_digest(contract))) if known else None
