"""The same id twice is one saga: whoever comes second joins it, as long as they ask for the same.

A start is on disk only with its saga's first intent, so two processes may both begin one: the journal lets one of them
write, and nothing of the other has been dispatched. That one joins.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, Protocol

from amends.core.commands import StartSaga
from amends.core.deciders import normal
from amends.core.events import SagaStarted
from amends.core.saga import Saga
from amends.core.values import Json, SagaId
from amends.errors import JournalConflictError, RefusedError
from amends.runtime.checked import SYSTEM, login
from amends.runtime.handle import Ended
from amends.runtime.logbook import Logbook

_OURS: Final = "amends."


class Engine(Protocol):
    """What it takes to follow a saga."""

    async def drive(self, saga: SagaId) -> Ended | None: ...

    async def load(self, saga: SagaId) -> Saga: ...

    async def told(self, saga: Saga) -> Ended: ...


def require_same(saga: SagaId, begun: SagaStarted, start: StartSaga | SagaStarted, *, by_anybody: bool = False) -> None:
    """Raises RefusedError where a start asks for another saga than the one that has its id.

    by_anybody: whoever asks for it, wherever they say that it is, and whatever they note on it.
    """
    if (begun.definition, begun.version) != (start.definition, start.version):
        there, asked = (f"{one.definition} version {one.version}" for one in (begun, start))
        what = f"it is {there}, and {asked} is asked for"
    elif begun.input != start.input:
        what = _differing(begun.input, start.input)
    else:
        what = "" if by_anybody else _around(begun, start)
    if not what:
        return
    raise RefusedError(
        f"saga {saga} exists already, with another beginning: {what}; use another id, or ask for the same to join it"
    )


def _around(begun: SagaStarted, start: StartSaga | SagaStarted) -> str:
    """What else is asked for: another actor, environment or label. The runtime's own labels are nobody's wish."""
    from amends.evidence.texts import short

    differing: list[str] = []
    defaulted = begun.actor == SYSTEM and start.actor == login()
    if normal(begun.actor) != normal(start.actor) and not defaulted:
        differing.append(f"its actor is {short(begun.actor)}, and {short(start.actor)} is given")
    if begun.env != start.env:
        differing.append(f"its environment is {short(begun.env)}, and {short(start.env)} is given")
    labels, asked = (
        {name: value for name, value in each.labels.items() if not name.startswith(_OURS)} for each in (begun, start)
    )
    if labels != asked:
        differing.append(f"of its labels, {_differing(dict(labels), dict(asked))}")
    return "; ".join(differing)


def _differing(begun: Json, asked: Json) -> str:
    from amends.evidence.texts import short, spelled

    if not isinstance(begun, dict) or not isinstance(asked, dict):
        return f"its input is {spelled(begun)}, and {spelled(asked)} is given"
    names = [name for name in sorted({*begun, *asked}) if begun.get(name) != asked.get(name)]
    return ", ".join(f"{short(n)} is {spelled(begun.get(n))}, and {spelled(asked.get(n))} is given" for n in names)


async def followed(engine: Engine, saga: SagaId) -> Ended:
    """Drive a saga that exists, where nobody else does; else where it stands."""
    return await engine.drive(saga) or await engine.told(await engine.load(saga))


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
