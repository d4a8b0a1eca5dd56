"""Waits of a saga, for the time or for a signal: the fold of the facts about them. Pure.

Each signal is a fact of its own, and ends at most one wait: the oldest that waits for its name, in the same breath. One
that came before anybody waited for it is kept, and ends the first wait that asks for it. So whoever replays the facts
finds each signal at the same wait, and signals of one name are taken up in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from amends.core import events as e
from amends.core.state.pmap import Pmap
from amends.core.transitions import WAIT, WaitStatus
from amends.core.words.values import Json, StepId
from amends.dataclass import dataclass
from amends.errors import JournalDamagedError

LARGEST_PAYLOAD: Final = 1024 * 1024
MOST_EARLY: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """`number` counts the saga's waits in the order in which they began. A sleep has no name."""

    place: StepId
    number: int
    name: str
    until: int
    status: WaitStatus = WaitStatus.OPEN
    signal: int | None = None
    entry: int = 0

    @property
    def words(self) -> str:
        """Description of the wait, for whoever compares it with what a function asks for."""
        return wait_words(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    number: int
    name: str
    payload: Json
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """All waits by their place, all signals by their number; `open` and `unread` name what is left of them."""

    places: Pmap[StepId, Wait]
    open: Pmap[StepId, None]
    signals: Pmap[int, Signal]
    unread: Pmap[int, None]

    def opened(self) -> Iterator[Wait]:
        return iter(sorted((self.places[place] for place in self.open), key=lambda wait: wait.number))


def wait_words(name: str) -> str:
    return f"a wait for {name}" if name else "a sleep"


def folded(waits: Waits | None, event: e.WaitEvent, entry: int) -> Waits:
    """The waits after one more fact, which is that entry. Raises JournalDamagedError for one that cannot follow."""
    old = waits or Waits(places=Pmap(), open=Pmap(), signals=Pmap(), unread=Pmap())
    match event:
        case e.WaitStarted(place=place, name=name, until=until):
            if place in old.places:
                raise JournalDamagedError(f"place {place} is waited at twice")
            wait = Wait(place=place, number=len(old.places) + 1, name=name, until=until, entry=entry)
            return _with(old, wait, unread=old.unread)
        case e.SignalReceived(number=number, name=name, payload=payload, by=by):
            if number != len(old.signals) + 1:
                raise JournalDamagedError(f"signal {number} follows signal {len(old.signals)}")
            signals = old.signals.set(number, Signal(number=number, name=name, payload=payload, by=by))
            return replace(old, signals=signals, unread=old.unread.set(number, None))
        case e.WaitEnded(place=place, signal=signal):
            found = old.places.get(place)
            status = None if found is None else WAIT[found.status].get(type(event))
            if found is None or status is None or (signal is not None and signal not in old.unread):
                raise JournalDamagedError(f"place {place} is not waited at, or signal {signal} is not there to be read")
            ended = replace(found, status=status, signal=signal)
            return _with(old, ended, unread=old.unread if signal is None else old.unread.drop(signal))


def _with(old: Waits, wait: Wait, unread: Pmap[int, None]) -> Waits:
    is_open = wait.status is WaitStatus.OPEN
    left = old.open.set(wait.place, None) if is_open else old.open.drop(wait.place)
    return Waits(places=old.places.set(wait.place, wait), open=left, signals=old.signals, unread=unread)


def forgetting(waits: Waits | None, above: int) -> Waits | None:
    """Without those that began after an entry: the definition waits anew, and finds the signals that they had taken."""
    if waits is None:
        return None
    places, left, unread = waits.places, waits.open, waits.unread
    for wait in tuple(waits.places.values()):
        if wait.entry > above:
            places, left = places.drop(wait.place), left.drop(wait.place)
            unread = unread if wait.signal is None else unread.set(wait.signal, None)
    return replace(waits, places=places, open=left, unread=unread)
