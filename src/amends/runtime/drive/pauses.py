"""Pauses and holds on this journal, for all of it: dispatch that is held back, and holds on what may be removed.

They stand in a saga of their own, `amends.control`, with who asked for each and why. A coordinator looks for news
before it dispatches, at most once each `poll_s`: within that time of a pause no process begins what it covers.

A saga that comes to a pause is paused itself, on record and under the pause's number, and forgotten. Whoever ends the
pause lets those sagas go on. Two things could lose one: it is paused just as the pause ends, or who ends it dies in the
middle. Against the first, who pauses a saga looks once more afterwards; against the second, every `resume` and every
process on duty looks for sagas whose pause is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final

from amends.clock import Clock
from amends.core import commands as c, events as e
from amends.core.decide.waits import control
from amends.core.state.saga import Saga, unstarted
from amends.core.transitions import SagaStatus
from amends.core.words.globs import Matches, glob
from amends.core.words.values import CONTROL, SagaId
from amends.dataclass import dataclass
from amends.errors import JournalConflictError, JournalError
from amends.journal.port.entries import Entry, caught_up
from amends.journal.port.journal import Journal, Summary
from amends.logs import logger
from amends.runtime.drive.logbook import load, rows

TENANT: Final = "tenant"
"""The label that says whose a saga is."""
_SAGA: Final = SagaId(CONTROL)
_log = logger("amends.pauses")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Dispatch that is held back. An empty clause means any; `rollbacks`: whether they stop too."""

    number: int
    topic: str = ""
    definition: str = ""
    tenant: str = ""
    rollbacks: bool = False
    by: str
    why: str
    at: int

    @property
    def scope(self) -> tuple[str, str, str]:
        return self.topic, self.definition, self.tenant

    def covers(self, saga: Saga, topic: str, *, back: bool) -> bool:
        """Whether it holds this step of this saga back."""
        begun = saga.begun
        return (
            begun is not None
            and (self.rollbacks or not back)
            and (not self.topic or _matches(self.topic)(topic))
            and self.definition in {"", begun.definition}
            and self.tenant in {"", begun.labels.get(TENANT)}
        )


@lru_cache(maxsize=256)
def _matches(pattern: str) -> Matches:
    return glob(pattern, dotted=True)


class Pauses:
    """Pauses and holds, as far as they are known here. `refresh` looks for news."""

    def __init__(self, journal: Journal, clock: Clock, poll_s: float) -> None:
        self._journal = journal
        self._clock = clock
        self._poll_s = poll_s
        self.stale_at = float("-inf")
        """When to look for news, by the clock that nobody sets."""
        self._looking = asyncio.Lock()
        self._kept: Saga = unstarted(_SAGA)
        self.unproved: Callable[[Entry], Awaitable[str]] | None = None
        """Why an entry is not proved; '' where it is, or where names are believed."""
        self.active: dict[int, Pause] = {}
        self.holds: dict[str, str] = {}
        """Sagas that are held, and why."""
        self.missed: dict[str, int] = {}
        """Where sagas are found whose drill was missed, and when that was last put on record."""

    @property
    def is_stale(self) -> bool:
        return self._clock.elapsed() >= self.stale_at

    @property
    def may_hold(self) -> bool:
        """Whether to ask `over`: something is paused, or nobody has looked for a while."""
        return bool(self.active) or self.is_stale

    async def refresh(self) -> None:
        """Take up what was put on record since."""
        async with self._looking:
            self.stale_at = self._clock.elapsed() + self._poll_s
            row = await self._journal.saga(_SAGA)
            if row is None or row.entries == self._kept.head:
                return
            news = list[Entry]()
            kept = await caught_up(self._journal, self._kept.copy(), news.append)
            for entry in news:
                lets_go = isinstance(entry.event, e.DispatchUnpaused | e.HoldLifted)
                why = await self.unproved(entry) if lets_go and self.unproved is not None else ""
                if why:
                    _log.error("entry %d of %s counts for nothing: %s", entry.number, _SAGA, why)
                else:
                    self._note(entry)
            self._kept = kept

    def _note(self, entry: Entry) -> None:
        number, at, event = entry.number, entry.at, entry.event
        match event:
            case e.DispatchPaused():
                self.active[number] = Pause(
                    number=number,
                    topic=event.topic,
                    definition=event.definition,
                    tenant=event.tenant,
                    rollbacks=event.rollbacks,
                    by=event.by,
                    why=event.why,
                    at=at,
                )
            case e.DispatchUnpaused(pause=pause):
                self.active.pop(pause, None)
            case e.HoldPlaced(saga=saga, why=why):
                self.holds[saga] = why
            case e.HoldLifted(saga=saga):
                self.holds.pop(saga, None)
            case e.DrillMissed(target=target):
                self.missed[target] = at
            case _:
                pass

    async def over(self, saga: Saga, topic: str, *, back: bool) -> Pause | None:
        """The oldest pause that holds this step back; None where none does, by what was known within `poll_s`."""
        if self.is_stale:
            try:
                await self.refresh()
            except JournalError as exc:  # nothing can be dispatched without the journal; what is known still holds
                _log.warning("could not look for pauses: %s", exc)
        return next((pause for pause in self.active.values() if pause.covers(saga, topic, back=back)), None)

    async def outlived(self) -> list[SagaId]:
        """The sagas that are paused under a pause that is over."""
        await self.refresh()
        found = [row.id async for row in rows(self._journal, (SagaStatus.PAUSED,))]
        held = [(saga, (await load(self._journal, saga)).paused) for saga in found]
        return [saga for saga, paused in held if paused and paused.pause and paused.pause not in self.active]

    async def keep(self, fact: Callable[[], e.ControlEvent | None]) -> int:
        """Put a fact on record, decided on the newest state; its number. 0 where there is nothing to say any more."""
        while True:
            await self.refresh()
            due = fact()
            if due is None:
                return 0
            events = control(self._kept, c.KeepControl(fact=due))
            number = self._kept.head + len(events)
            try:
                await self._journal.append(_SAGA, events, after=self._kept.head, summary=Summary(SagaStatus.COMPLETED))
            except JournalConflictError:
                continue
            await self.refresh()
            return number

    async def end(self, number: int, *, by: str, why: str, signed: str = "") -> None:
        """End one, unless somebody else has."""
        ended = e.DispatchUnpaused(pause=number, by=by, why=why, signed=signed)
        await self.keep(lambda: ended if number in self.active else None)
