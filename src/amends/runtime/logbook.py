"""One saga's pen: commands go in, decided events come out durable, in order, and only under the lease.

`tell` decides and folds at once, so the caller sees the state after its command; nothing is on disk yet. `commit` returns
when everything told so far is durable, and it alone may precede a dispatch. Between the two, what others tell joins the same
append: the outcome of one step and the intent of the next are one write.

When another author's entry came first (a person cancelled the saga from elsewhere), the new entries are folded in and the
commands that were not yet durable are decided again on top of them; those that no longer fit are dropped, and `on_moved` hears
of it. When the lease is lost, the pen is broken for good: every later call raises.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from amends.core.commands import Command, RecordOutcome
from amends.core.decide import decide
from amends.core.events import Event
from amends.core.saga import Saga, evolve
from amends.errors import JournalConflictError, JournalError, LeaseLostError, RefusedError
from amends.journal.protocol import Journal, Lease, Summary
from amends.runtime.observe import Observers

_log = logging.getLogger("amends.logbook")


class Logbook:
    def __init__(self, journal: Journal, saga: Saga, lease: Lease | None, observers: Observers) -> None:
        self.saga = saga
        self.lease = lease
        self.broken: JournalError | None = None
        self.on_moved: Callable[[], None] = lambda: None
        self._journal = journal
        self._observers = observers
        self._durable = saga
        self._told: list[tuple[Command, tuple[Event, ...]]] = []
        self._writing: asyncio.Future[None] | None = None
        self._background: asyncio.Task[None] | None = None

    def tell(self, command: Command) -> tuple[Event, ...]:
        """Decide, fold, and queue for the next append. Raises RefusedError; then nothing has changed."""
        if self.broken is not None:
            raise self.broken
        events = decide(self.saga, command)
        self._fold(command, events)
        return events

    def _fold(self, command: Command, events: tuple[Event, ...]) -> None:
        saga = self.saga
        for event in events:
            saga = evolve(saga, event)
        self.saga = saga
        if events:
            self._told.append((command, events))

    @property
    def undurable(self) -> tuple[Command, ...]:
        """What was told and never became durable."""
        return tuple(command for command, _ in self._told)

    def commit_soon(self) -> None:
        """Write what was told, unless someone commits it sooner: the next step's intent usually does."""
        if self._told and self._background is None:
            asyncio.get_running_loop().call_soon(self._commit_in_background)

    def _commit_in_background(self) -> None:
        if self._told and self._writing is None and self._background is None and self.broken is None:
            self._background = asyncio.ensure_future(self._commit_quietly())

    async def _commit_quietly(self) -> None:
        try:
            await self.commit()
        except JournalError as exc:
            _log.debug("saga %s: a background write failed: %s", self.saga.id, exc)
        finally:
            self._background = None

    async def commit(self) -> None:
        """All that was told so far is durable when this returns. A cancelled caller first learns what became of it."""
        while self._told:
            if self.broken is not None:
                raise self.broken
            if self._writing is not None:
                await asyncio.shield(self._writing)
            else:
                await self._alone(self._append)
        if self.broken is not None:
            raise self.broken

    async def _alone(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """One write at a time: others wait for `_writing`, which is over before any of them wakes."""
        writing = self._writing = asyncio.get_running_loop().create_future()
        try:
            await work()
        except asyncio.CancelledError:
            await _through(asyncio.ensure_future(self._find_out()))
            raise
        finally:
            self._writing = None
            writing.set_result(None)

    async def _find_out(self) -> None:
        """The wait for a write was cancelled, not the write: see what is on record before anyone writes again.

        The journal answers in the order of asking, so when it answers this, the write before has landed or failed.
        """
        try:
            await self._still_held()
        except JournalConflictError:
            await self._catch_up()
        except JournalError as exc:
            self._break(exc)

    async def _append(self) -> None:
        batch, saga = tuple(self._told), self.saga
        events = [event for _, made in batch for event in made]
        summary = Summary(status=saga.status, wake_at=_wake_at(saga))
        try:
            entries = await self._journal.append(
                saga.id, events, after=self._durable.head, summary=summary, lease=self.lease
            )
        except LeaseLostError as exc:
            self._break(exc)
        except JournalConflictError:
            await self._catch_up()
        except JournalError as exc:
            self._break(exc)
        else:
            self._durable = saga
            del self._told[: len(batch)]
            self._observers.tell(entries)

    def _break(self, error: JournalError) -> None:
        self.broken = error
        self.on_moved()

    async def _catch_up(self) -> None:
        """There are entries that this pen has not acknowledged: its own, whose answer was lost, or another author's.

        Own ones are taken as written. Others are folded in, and what is not yet durable is decided again on top.
        """
        saga, told = self._durable, list(self._told)
        ours = [event for _, made in told for event in made]
        news = [entry async for entry in self._journal.read(saga.id, after=saga.head)]
        if not news:
            self._break(JournalConflictError(f"saga {saga.id} has fewer entries than its driver saw; it is not driven on"))
            return
        for entry in news:
            saga = evolve(saga, entry.event)
        self._durable = self.saga = saga
        self._told.clear()
        mine = 0
        if [entry.event for entry in news[: len(ours)]][:1] == ours[:1]:
            while told and [entry.event for entry in news[mine : mine + len(told[0][1])]] == list(told[0][1]):
                mine += len(told.pop(0)[1])
            self._observers.tell(news[:mine])
        for command, _ in told:
            try:
                self._fold(command, decide(self.saga, command))
            except RefusedError as exc:
                _log.info("saga %s moved on: %s is dropped (%s)", saga.id, type(command).__name__, exc)
        if mine < len(news):
            self.on_moved()

    async def refresh(self) -> None:
        """Fold in what others wrote, without writing."""
        if self._writing is None and self.broken is None:
            await self._alone(self._refresh)

    async def _refresh(self) -> None:
        if self._told:
            await self._append()
        else:
            saga = self._durable
            async for entry in self._journal.read(saga.id, after=saga.head):
                saga = evolve(saga, entry.event)
            if saga.head != self._durable.head and not self._told:
                self._durable = self.saga = saga
                self.on_moved()

    async def still_held(self) -> None:
        """Ask the store whether this lease is still the newest. Raises LeaseLostError."""
        await self.commit()
        await self._still_held()

    async def _still_held(self) -> None:
        saga = self._durable
        summary = Summary(status=saga.status, wake_at=_wake_at(saga))
        await self._journal.append(saga.id, (), after=saga.head, summary=summary, lease=self.lease)


async def _through(work: asyncio.Future[None]) -> None:
    """Wait for the end of this work even if cancelled meanwhile; then let the cancellation go on."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        raise cancelled
    work.result()


def _wake_at(saga: Saga) -> int | None:
    """When something is due again, for a saga that only waits. A long list is not worth the exact time."""
    if saga.live or not saga.waiting or len(saga.waiting) > 16:
        return None
    times = [saga.steps[step].retry_at for step in saga.waiting]
    known = [at for at in times if at is not None]
    return min(known) if known and len(known) == len(times) else None


def unrecorded_successes(book: Logbook) -> tuple[RecordOutcome, ...]:
    """Outcomes that never reached the journal because another worker had taken over."""
    return tuple(command for command in book.undurable if isinstance(command, RecordOutcome))
