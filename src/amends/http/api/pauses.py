"""Pauses over HTTP: dispatch of a kind held back, in every process on the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from starlette.responses import Response

from amends.core import events as e
from amends.http.api.operations import At, Leaves, Operation, get, post
from amends.http.api.shapes import WHOLE, many, record, shape
from amends.http.api.signing import decided
from amends.http.callers import Scope
from amends.journal.port.journal import Entry
from amends.runtime.coordinator.control import Rollbacks
from amends.runtime.drive.pauses import Pause

PAUSES: Final = record(items=many(shape(Pause)))


async def list_pauses(at: At) -> object:
    """List the pauses in force, oldest first. A saga that is paused itself is in the list of sagas."""
    return {"items": [asdict(one) for one in await at.coordinator.paused()]}


async def pause(
    at: At,
    *,
    topic: str = "",
    definition: str = "",
    tenant: str = "",
    why: str,
    rollbacks: Rollbacks = "go_on",
) -> object:
    """Dispatch nothing more of this kind, in any process; without any clause, nothing at all.

    All clauses that are given have to fit. Rollbacks go on, unless they are to `stop`.
    """
    await at.coordinator.pause(
        topic=topic, definition=definition, tenant=tenant, why=why, by=at.caller.name, rollbacks=rollbacks
    )
    return await list_pauses(at)


async def unpause(
    at: At,
    *,
    topic: str = "",
    definition: str = "",
    tenant: str = "",
    everything: bool = False,
    why: str = "",
    proof: str = "",
) -> object:
    """End the pause of exactly this kind, or all, and have the sagas go on that it held: `released` says how many."""
    answered = await decided(
        lambda signed: at.coordinator.unpause(
            topic=topic,
            definition=definition,
            tenant=tenant,
            everything=everything,
            why=why,
            by=at.caller.name,
            proof=signed,
        ),
        proof,
    )
    return answered if isinstance(answered, Response) else {"released": answered}


async def _shown(at: At, **_: object) -> object:
    return await list_pauses(at)


def _stops_alike(entry: Entry, given: Mapping[str, object]) -> bool:
    event = entry.event
    if not isinstance(event, e.DispatchPaused) or event.rollbacks != (given.get("rollbacks") == "stop"):
        return False
    return all(getattr(event, name) == given.get(name, "") for name in ("topic", "definition", "tenant"))


def operations() -> tuple[Operation, ...]:
    """Ending a pause again ends nothing more, so that nothing has to be looked for."""
    pauses = Leaves(events=(e.DispatchPaused,), shows=_shown, fits=_stops_alike, others=frozenset({"rollbacks"}))
    return (
        get("/pauses", list_pauses, PAUSES),
        post("/pauses", pause, PAUSES, scope=Scope.ADMIN, leaves=pauses),
        post("/pauses/end", unpause, record(released=WHOLE), scope=Scope.ADMIN),
    )
