"""`resume`: everything that was left unfinished, driven as far as it goes, and how each saga ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from amends.core.values import SagaId
from amends.errors import AmendsError, JournalConflictError
from amends.journal.protocol import Lease
from amends.runtime.handle import Ended, Handle, halted

_log = logging.getLogger("amends.engine")
Driven: TypeAlias = set[asyncio.Future[Ended | None]]


class Engine(Protocol):
    """What resuming asks of the engine."""

    def take_up_dropped(self) -> Driven: ...

    async def take_up_due(self, most: int, trouble: Callable[[SagaId, AmendsError], None]) -> Driven: ...

    async def next_halt(self, saga: SagaId) -> Ended | None: ...


async def resumed(engine: Engine, at_once: int) -> list[Ended]:
    found = Resumed()
    driven = engine.take_up_dropped()
    in_line: Driven = set()  # what they wait for may be held by those that are not yet taken up
    while True:
        taken = await engine.take_up_due(at_once - len(driven), found.add_trouble)
        driven |= taken
        if not driven and not in_line:
            return found.all_ended()
        if not taken:
            done, _ = await asyncio.wait(driven | in_line, return_when=asyncio.FIRST_COMPLETED)
            driven, in_line = driven - done, in_line - done
            for saga in [saga for one in done if (saga := found.add(one)) is not None]:
                in_line.add(asyncio.ensure_future(engine.next_halt(saga)))


async def taken_up(
    leases: Sequence[Lease],
    take_up: Callable[[Lease], Awaitable[Handle]],
    trouble: Callable[[SagaId, AmendsError], None],
) -> Driven:
    """Read them side by side, and drive each; one that cannot be read must not keep the others waiting."""
    driven: Driven = set()
    found = await asyncio.gather(*map(take_up, leases), return_exceptions=True)
    for lease, handle in zip(leases, found, strict=True):
        if isinstance(handle, AmendsError):
            trouble(lease.saga, handle)
        elif isinstance(handle, BaseException):
            raise handle
        else:
            driven.add(asyncio.ensure_future(halted(handle)))
    return driven


class Resumed:
    """How the sagas of one `resume` ended. What is wrong with one of them is raised when the others are through."""

    def __init__(self) -> None:
        self._ended: list[Ended] = []
        self._trouble: BaseException | None = None

    def add(self, driven: asyncio.Future[Ended | None]) -> SagaId | None:
        """The saga, where it has not ended but only stands in line for what others hold."""
        error = driven.exception()
        if isinstance(error, JournalConflictError):
            _log.info("a resumed saga is driven elsewhere: %s", error)
        elif error is not None:
            self._trouble = self._trouble or error
        elif (saga := driven.result()) is not None and saga.in_line:
            return saga.id
        elif saga is not None:
            self._ended.append(saga)
        return None

    def add_trouble(self, saga: SagaId, error: AmendsError) -> None:
        _log.error("saga %s cannot be resumed: %s", saga, error)
        self._trouble = self._trouble or error

    def all_ended(self) -> list[Ended]:
        if self._trouble is not None:
            raise self._trouble
        return self._ended
