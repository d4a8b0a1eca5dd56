"""Waits of a saga, for the time or for a signal: the fold of the facts about them. Pure.

Each signal is a fact of its own, and ends at most one wait: the oldest that waits for its name, in the same breath. One
that came before anybody waited for it is kept, and ends the first wait that asks for it. So whoever replays the facts
finds each signal at the same wait, and signals of one name are taken up in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from typing import Final

from amends.core import events as e
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


@dataclass(frozen=True, slots=True)
class Waits:
    """All waits by their place, all signals by their number; `open` and `unread` name what is left of them."""

    places: dict[StepId, Wait] = field(default_factory=dict[StepId, Wait])
    open: dict[StepId, None] = field(default_factory=dict[StepId, None])
    signals: dict[int, Signal] = field(default_factory=dict[int, Signal])
    unread: dict[int, None] = field(default_factory=dict[int, None])

    def copy(self) -> Waits:
        return Waits(dict(self.places), dict(self.open), dict(self.signals), dict(self.unread))

    def opened(self) -> Iterator[Wait]:
        return iter(sorted((self.places[place] for place in self.open), key=lambda wait: wait.number))


def wait_words(name: str) -> str:
    return f"a wait for {name}" if name else "a sleep"


def fold_wait(waits: Waits, event: e.WaitEvent, entry: int) -> None:
    """Add one more fact, which is that entry. Raises JournalDamagedError for one that cannot follow."""
    match event:
        case e.WaitStarted(place=place, name=name, until=until):
            if place in waits.places:
                raise JournalDamagedError(f"place {place} is waited at twice")
            number = len(waits.places) + 1
            waits.places[place] = Wait(place=place, number=number, name=name, until=until, entry=entry)
            waits.open[place] = None
        case e.SignalReceived(number=number, name=name, payload=payload, by=by):
            if number != len(waits.signals) + 1:
                raise JournalDamagedError(f"signal {number} follows signal {len(waits.signals)}")
            waits.signals[number] = Signal(number=number, name=name, payload=payload, by=by)
            waits.unread[number] = None
        case e.WaitEnded(place=place, signal=signal):
            found = waits.places.get(place)
            status = None if found is None else WAIT[found.status].get(type(event))
            if found is None or status is None or (signal is not None and signal not in waits.unread):
                raise JournalDamagedError(f"place {place} is not waited at, or signal {signal} is not there to be read")
            waits.places[place] = replace(found, status=status, signal=signal)
            del waits.open[place]
            if signal is not None:
                del waits.unread[signal]


def forget_waits(waits: Waits, above: int) -> None:
    """Forget those that began after an entry: the definition waits anew, and finds the signals that they had taken."""
    for wait in tuple(waits.places.values()):
        if wait.entry > above:
            del waits.places[wait.place]
            waits.open.pop(wait.place, None)
            if wait.signal is not None:
                waits.unread[wait.signal] = None
