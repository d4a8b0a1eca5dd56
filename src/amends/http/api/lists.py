"""Lists over HTTP of what belongs to no one saga: definitions, drills, locks, workers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from amends.core.transitions import SagaStatus
from amends.core.words.values import BUILT_IN, DRILLS, SagaId
from amends.evidence.drills import DrillRecord, drill_of
from amends.http.api.operations import At, Operation, get
from amends.http.api.sagas import checked_limit
from amends.http.api.shapes import SOME_OBJECT, TEXT, WHOLE, many, page, record, shape
from amends.journal.port.journal import SagaQuery
from amends.journal.port.leases import WorkerRow
from amends.journal.port.locks import LockQuery, LockRow
from amends.operate.fields import lock_fields
from amends.runtime.declare.definition import SagaDefinition

_DEFINITION: Final = record(name=TEXT, version=WHOLE, does=TEXT, input=SOME_OBJECT)


async def list_definitions(at: At) -> object:
    """List the definitions that this server can start, with the JSON Schema of what each takes."""
    known = (one for one in at.coordinator.registry.definitions() if not one.name.startswith(BUILT_IN))
    return {"items": [_definition(one) for one in sorted(known, key=lambda one: (one.name, one.version))]}


def _definition(one: SagaDefinition) -> dict[str, object]:
    tool = one.schema()
    return {"name": one.name, "version": one.version, "does": tool["description"], "input": tool["parameters"]}


async def list_drills(at: At, *, limit: int = 50, page: str | None = None) -> object:
    """List the drills on record, newest first."""
    query = SagaQuery(definition=DRILLS, statuses=(SagaStatus.COMPLETED,), before=page, limit=checked_limit(limit))
    found = await at.journal.sagas(query)
    read = [drill_of(row.id, [entry async for entry in at.journal.read(row.id)]) for row in found.rows]
    return {"items": [asdict(one) for one in read if one is not None], "next": found.cursor}


async def list_locks(
    at: At, *, resource: str | None = None, saga: str | None = None, limit: int = 50, page: str | None = None
) -> object:
    """List the lines of resources, in the order of asking: `place` is 0 for who holds one, 1 for the next."""
    of = None if saga is None else SagaId(saga)
    query = LockQuery(resource=resource, saga=of, after=page, limit=checked_limit(limit))
    found = await at.journal.locks(query)
    return {"items": [lock_fields(row) for row in found.rows], "next": found.cursor}


async def list_workers(at: At) -> object:
    """List the processes that drive sagas: who, where, how many, and until when they are believed."""
    return {"items": [row._asdict() for row in await at.journal.workers()]}


def operations() -> tuple[Operation, ...]:
    return (
        get("/definitions", list_definitions, record(items=many(_DEFINITION))),
        get("/drills", list_drills, page(shape(DrillRecord))),
        get("/locks", list_locks, page(shape(LockRow))),
        get("/workers", list_workers, record(items=many(shape(WorkerRow)))),
    )
