"""The same id twice is one saga: whoever comes second joins it, as long as they ask for the same.

A start is on disk only with its saga's first intent, so two processes may both begin one: the journal lets one of them
write, and nothing of the other has been dispatched. That one joins.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from amends.core.commands import StartSaga
from amends.core.events import SagaStarted
from amends.core.saga import Saga
from amends.core.values import Json, SagaId
from amends.errors import JournalConflictError, RefusedError
from amends.runtime.handle import Ended
from amends.runtime.logbook import Logbook


class Engine(Protocol):
    """What it takes to follow a saga."""

    async def drive(self, saga: SagaId) -> Ended | None: ...

    async def load(self, saga: SagaId) -> Saga: ...

    def told(self, saga: Saga) -> Ended: ...


def require_same(saga: SagaId, begun: SagaStarted, start: StartSaga | SagaStarted) -> None:
    """Raises RefusedError where a start asks for another saga than the one that has its id."""
    if (begun.definition, begun.version, begun.input) == (start.definition, start.version, start.input):
        return
    there, asked = (f"{one.definition} version {one.version}" for one in (begun, start))
    what = f"it is {there}, and {asked} is asked for" if there != asked else _differing(begun.input, start.input)
    raise RefusedError(
        f"saga {saga} exists already, with another beginning: {what}; use another id, or ask for the same to join it"
    )


def _differing(begun: Json, asked: Json) -> str:
    from amends.evidence.texts import short, spelled

    if not isinstance(begun, dict) or not isinstance(asked, dict):
        return f"its input is {spelled(begun)}, and {spelled(asked)} is given"
    names = [name for name in sorted({*begun, *asked}) if begun.get(name) != asked.get(name)]
    return ", ".join(f"{short(n)} is {spelled(begun.get(n))}, and {spelled(asked.get(n))} is given" for n in names)


async def followed(engine: Engine, saga: SagaId) -> Ended:
    """Drive a saga that exists, where nobody else does; else where it stands."""
    return await engine.drive(saga) or engine.told(await engine.load(saga))


async def driven_or_joined(driving: Coroutine[Any, Any, Ended], book: Logbook, engine: Engine) -> Ended:
    """The end of a drive. Where another process began the same saga first, that one's."""
    try:
        return await driving
    except JournalConflictError:
        start = book.saga.begun
        if not book.is_unborn or start is None:
            raise
    there = (await engine.load(book.saga.id)).begun
    if there is not None:
        require_same(book.saga.id, there, start)
    return await followed(engine, book.saga.id)
