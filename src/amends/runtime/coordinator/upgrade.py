"""Sagas this process could not go on with: unfinished ones whose definition or actions it does not know as they were.

Asked before a deploy, with the new code loaded. It calls nothing and changes nothing. What only a function's own text
decides (another order of steps, other arguments) shows when it is called again, and stops that one saga then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final

from amends.core.state.saga import Saga, Step
from amends.core.transitions import SagaStatus
from amends.core.words.values import BUILT_IN, SagaId, StepId
from amends.dataclass import dataclass
from amends.errors import DivergedError, UnknownActionError, UnknownDefinitionError
from amends.journal.port.journal import Journal, SagaRow
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.compatibility import still_promised
from amends.runtime.drive.logbook import load, rows

UNFINISHED: Final = (
    SagaStatus.RUNNING,
    SagaStatus.WAITING,
    SagaStatus.ROLLING_BACK,
    SagaStatus.PAUSED,
    SagaStatus.INCIDENT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One thing that stands in the way. `step` is the first that needs it; None: the definition itself."""

    what: str
    do: str
    step: StepId | None = None
    steps: int = 0
    """How many steps need it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresumable:
    """A saga that this process cannot go on with, or not take back."""

    saga: SagaId
    definition: str
    version: int
    status: SagaStatus
    obstacles: tuple[Obstacle, ...]


async def unresumable(journal: Journal, registry: Registry, *, completed: bool = False) -> AsyncIterator[Unresumable]:
    """Newest first. `completed`: those too that could still be cancelled."""
    statuses = (*UNFINISHED, SagaStatus.COMPLETED) if completed else UNFINISHED
    async for row in rows(journal, statuses):
        if not row.definition.startswith(BUILT_IN) and not row.pruned:
            obstacles = tuple(_obstacles(await load(journal, row.id), row, registry))
            if obstacles:
                yield Unresumable(
                    saga=row.id, definition=row.definition, version=row.version, status=row.status, obstacles=obstacles
                )


def _obstacles(saga: Saga, row: SagaRow, registry: Registry) -> Iterator[Obstacle]:
    if row.status is SagaStatus.COMPLETED and saga.pivot is not None:
        return
    if saga.goes_forward and not row.status.ended:
        try:
            registry.definition(row.definition, row.version)
        except UnknownDefinitionError as exc:
            kept = f"keep {row.definition} version={row.version} declared until its sagas have ended, or cancel them"
            do = f"name the module that declares it too; if none does any more, {kept}"
            yield Obstacle(what=str(exc), do=do)
    needed: dict[tuple[str, int], list[Step]] = {}
    for step in saga.steps.values():
        if (saga.goes_forward or step.standing) and not step.topic.startswith(BUILT_IN):
            needed.setdefault((step.topic, step.contract.version), []).append(step)
    for steps in needed.values():
        yield from _missing(steps, registry)


def _missing(steps: list[Step], registry: Registry) -> Iterator[Obstacle]:
    first = steps[0]
    contract = first.contract
    try:
        still_promised(contract, registry.action(contract.topic, contract.version))
    except UnknownActionError as exc:
        do = f"keep {contract.topic} version={contract.version} declared beside newer ones"
        yield Obstacle(what=str(exc), do=do, step=first.id, steps=len(steps))
    except DivergedError as exc:
        what, _, do = str(exc).rpartition("; ")
        yield Obstacle(what=what, do=do, step=first.id, steps=len(steps))
