"""Engines of others: what any of them is told of a saga, and what is found again in the journal. It knows none.

The journal is the truth, and an engine a clock with a memory: it keeps one durable object per saga, by its id, and asks
some worker to drive it, once for each stretch of work. What an engine forgets, or never heard of, is in the journal:
`sync` tells it again, and `look_after` does so for whatever is due and nobody drives.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

from amends.bootstrap import Coordinator
from amends.clock import SystemClock
from amends.core.words.values import SagaId
from amends.core.words.verdict import Rate
from amends.dataclass import dataclass
from amends.errors import AmendsError
from amends.journal.port.journal import Journal
from amends.journal.port.leases import Waking
from amends.logs import logger
from amends.runtime.coordinator.starting import checked_definition
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.options import START_OPTIONS
from amends.runtime.values.bounded import small_or_off_loop

Wake = Callable[[SagaId], Awaitable[object]]
Opened = AbstractAsyncContextManager[Coordinator]
"""A coordinator to be entered: `Coordinator.open(…)`."""

_log = logger("amends.engine")
_HELD_S: Final = 5.0
"""How soon to ask again for a saga that another worker drives: it tells nobody when it is through."""
_SHORTEST_S: Final = 0.1
_LONGEST_S: Final = 30 * 86_400.0
_SIDE_BY_SIDE: Final = 64
_AGAIN_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Where a saga stands after a stretch of work, and when to drive it again: None where only a wake has it go on."""

    is_over: bool
    wake_at: int | None = None
    """In milliseconds of UTC."""
    wake_s: float | None = None


async def driven(coordinator: Coordinator, saga: str) -> Stretch:
    """Drive it as far as it goes now. Raises UnknownDefinitionError, UnknownSagaError."""
    end = await coordinator.drive(saga)
    if end.wake_at is None:
        return Stretch(is_over=end.status.ended)
    now = SystemClock().now()
    longest = _HELD_S if end.held_by else _LONGEST_S  # beyond that an engine may have bounds of its own: it asks twice
    wake_s = min(max((end.wake_at - now) / 1000, _SHORTEST_S), longest)
    return Stretch(is_over=False, wake_at=now + round(wake_s * 1000) if end.held_by else end.wake_at, wake_s=wake_s)


async def sync(journal: Journal, wake: Wake) -> int:
    """Tell an engine of every unfinished saga on a journal that has something to do, now or later; how many.

    It may know some of them: to be told twice is the same. Those that wait for people alone are told of when these
    have answered.
    """
    told, turns = 0, asyncio.Semaphore(_SIDE_BY_SIDE)

    async def tell(saga: SagaId) -> None:
        async with turns:
            await wake(saga)

    async for page in _pages(journal, None):
        async with asyncio.TaskGroup() as group:
            for each in page:
                group.create_task(tell(each.saga))
        told += len(page)
    return told


async def _pages(journal: Journal, due_by: int | None) -> AsyncIterator[tuple[Waking, ...]]:
    after: SagaId | None = None
    while page := await journal.waking(due_by=due_by, after=after):
        yield page
        after = page[-1].saga


class SagaEngine(ABC):
    """An engine, as those know it who start sagas by it, and as its workers look after it."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        coordinator.lend()

    @abstractmethod
    async def wake(self, saga: str) -> None:
        """Have the engine drive a saga now: somebody answered or signalled, or it has never heard of it."""

    async def start(self, definition: SagaDefinition[..., Any], /, *args: object, **kwargs: Any) -> SagaId:
        """Put a saga on record and have the engine drive it; its id. The options are those of `coordinator.start`.

        The same id twice is one saga, on record and in the engine. It is on record before the engine hears of it: if
        nobody comes to tell the engine, `look_after` does.
        """
        asked, own = checked_definition(definition).parted(START_OPTIONS, args, kwargs)
        named = await small_or_off_loop(partial(definition.bind, args, own))
        saga = await self.coordinator.put_on_record(definition, named, **asked)
        await self.wake(saga)
        return saga

    async def sync(self) -> int:
        """Tell the engine of every unfinished saga on this journal, as after it was lost; how many."""
        return await sync(self.coordinator.journal, self.wake)

    async def look_after(self) -> None:
        """Until cancelled, wake what is due and nobody drives: an answer at a terminal, a start that was not passed on.

        What is due at two looks in a row, `poll_s` apart. Of all workers on a journal, one wakes it, and again only
        after half a minute in which nothing has happened to it: while an engine is behind, its queue does not grow by
        this. Whoever could not reach the engine tries again at each look.
        """
        seen: set[SagaId] = set()
        owed: set[SagaId] = set()
        while True:
            await SystemClock().sleep(self.coordinator.settings.poll_s)
            try:
                due = await self._due()
                owed &= due
                for saga in due & seen:
                    if saga in owed or await self._is_ours_to_wake(saga):
                        owed.add(saga)
                        await self.wake(saga)
                        owed.discard(saga)
                        _log.info("saga %s was due, and nobody drove it: the engine is told", saga)
                seen = due
            except AmendsError as exc:
                _log.warning("what is due could not be looked for, or the engine not be told of it: %s", exc)

    async def _due(self) -> set[SagaId]:
        page = await self.coordinator.journal.waking(due_by=SystemClock().now())
        return {each.saga for each in page if not each.worker}

    async def _is_ours_to_wake(self, saga: SagaId) -> bool:
        journal, row = self.coordinator.journal, await self.coordinator.journal.saga(saga)
        if row is None:
            return False
        rate = Rate(rule="amends.engine", key=f"amends.engine/{saga}/{row.entries}", most=1, per_s=_AGAIN_S)
        return await journal.admit(rate) == (0,)
