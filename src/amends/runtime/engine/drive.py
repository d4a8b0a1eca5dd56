"""One saga, one stretch of work: drive it while something is due, and say when to come back. For engines of others.

Idempotent and fenced: an engine may ask as often as it likes, and any worker. Asked twice at once, a worker joins what
it drives already; of one that another worker has, it says until when. Where the worker lends its sagas, one that waits
is nobody's, and whichever worker is asked next goes on with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from amends.clock import Clock
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import UnknownDefinitionError
from amends.journal.port.journal import Journal
from amends.runtime.declare.registry import Registry
from amends.runtime.engine.handle import Ended
from amends.runtime.engine.local import LocalEngine

_FOR_EVER_MS: Final = 366 * 86_400_000
"""A wait without an end is on record as one until some year to come."""


async def drive(engine: LocalEngine, journal: Journal, registry: Registry, clock: Clock, saga: SagaId) -> Ended:
    """Drive it as far as it goes now. Raises UnknownDefinitionError where it needs a definition of another process."""
    await _require_known(engine, journal, registry, saga)
    driven = await engine.drive(saga, due_by=clock.now())
    found = await journal.waking(saga=saga)
    end = driven or await engine.told(await engine.load(saga))
    if not found:
        return end
    (stands,) = found
    if stands.worker:
        holder = (await journal.drivers([saga])).get(saga)
        until_at = clock.now() if holder is None or holder.until_at is None else holder.until_at
        return replace(end, wake_at=until_at, held_by="" if stands.worker == engine.worker else stands.worker)
    wake_at = clock.now() if stands.wake_at is None else stands.wake_at
    return replace(end, wake_at=None if wake_at - clock.now() > _FOR_EVER_MS else wake_at)


async def _require_known(engine: LocalEngine, journal: Journal, registry: Registry, saga: SagaId) -> None:
    """Going forward takes the definition; going back only the journal. An open saga brings its own."""
    row = await journal.saga(saga)
    if row is None or f"{row.definition}/{row.version}" in registry.definition_names():
        return
    state = await engine.state(saga)
    begun = state.begun
    if begun is None or begun.session is not None or state.phase is not SagaStatus.RUNNING or state.finished:
        return
    try:
        registry.definition(begun.definition, begun.version)
    except UnknownDefinitionError as exc:
        raise UnknownDefinitionError(f"saga {saga} is not driven here: {exc}") from None
