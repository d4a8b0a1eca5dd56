"""What a saga waits for besides people: how facts about it fold, and what requests about it lead to. Pure.

Each signal is a fact of its own, and ends at most one wait: the oldest that waits for its name, in the same breath. One
that came before anybody waited for it is kept, and ends the first wait that asks for it. So whoever replays the facts
finds each signal at the same wait, and signals of one name are taken up in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from amends.core import events as e
from amends.core.deciders import require_decider
from amends.core.pmap import Pmap
from amends.core.transitions import WAIT, SagaStatus, WaitStatus
from amends.core.values import Json, StepId, canonical
from amends.dataclass import dataclass
from amends.errors import JournalDamagedError, RefusedError, TooLargeError

if TYPE_CHECKING:
    from amends.core import commands as c
    from amends.core.saga import Saga

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
        """What stands at this place, for whoever compares it with what a function asks for."""
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


def open_waits(saga: Saga) -> tuple[Wait, ...]:
    """Those that the definition is at, oldest first."""
    if saga.waits is None or saga.finished or saga.rollback is not None:
        return ()
    return tuple(saga.waits.opened())


# -- facts ------------------------------------------------------------------------------------------------------------


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


# -- requests ---------------------------------------------------------------------------------------------------------


def start_wait(saga: Saga, command: c.StartWait) -> tuple[e.Event, ...]:
    """Wait; where a signal is there already, the oldest of that name ends it at once."""
    waits = saga.waits
    if command.place in saga.steps or (waits is not None and command.place in waits.places):
        raise RefusedError(f"saga {saga.id} has something at place {command.place} already")
    started = e.WaitStarted(place=command.place, name=command.name, until=command.until)
    early = [] if waits is None or not command.name else [n for n in waits.unread if _named(waits, n, command.name)]
    return (started, e.WaitEnded(place=command.place, signal=min(early))) if early else (started,)


def _named(waits: Waits, number: int, name: str) -> bool:
    return waits.signals[number].name == name


def end_wait(saga: Saga, command: c.EndWait) -> tuple[e.Event, ...]:
    """The time is up."""
    wait = None if saga.waits is None else saga.waits.places.get(command.place)
    if wait is None or wait.status is not WaitStatus.OPEN or command.now < wait.until:
        raise RefusedError(f"saga {saga.id} does not wait at place {command.place}, or not until now")
    return (e.WaitEnded(place=command.place, signal=None),)


def receive(saga: Saga, command: c.SendSignal) -> tuple[e.Event, ...]:
    """A signal from outside, for the oldest wait of its name; early, it is kept until there is one."""
    _require_listener(saga, command.name)
    if len(canonical(command.payload, what="the payload").encode()) > LARGEST_PAYLOAD:
        raise TooLargeError(
            f"the payload of signal {command.name!r} takes more than {LARGEST_PAYLOAD >> 20} MB as JSON; "
            "store it elsewhere and send a reference"
        )
    known = 0 if saga.waits is None else len(saga.waits.signals)
    own = bool(command.decides) and require_decider(saga.begun, command.by, command.decides)
    received = e.SignalReceived(number=known + 1, name=command.name, payload=command.payload, by=command.by, own=own)
    waiting = [wait for wait in open_waits(saga) if wait.name]
    wanted = next((wait for wait in waiting if wait.name == command.name), None)
    if wanted is not None:
        return (received, e.WaitEnded(place=wanted.place, signal=received.number))
    if not command.early:
        names = ", ".join(dict.fromkeys(repr(wait.name) for wait in waiting))
        awaited = f"it waits for {names}" if names else "it waits for no signal now"
        raise RefusedError(
            f"saga {saga.id} does not wait for {command.name!r}: {awaited}; check the name, or send it early, "
            "which keeps it until the saga waits for it"
        )
    if saga.waits is not None and len(saga.waits.unread) >= MOST_EARLY:
        raise RefusedError(
            f"saga {saga.id} has {MOST_EARLY} signals that it has not taken up; send no more before it does"
        )
    return (received,)


def _require_listener(saga: Saga, name: str) -> None:
    if saga.begun is None:
        raise RefusedError(f"saga {saga.id} has not been started")
    if not saga.goes_forward or saga.phase.ended:
        what = "has finished its work" if saga.phase is SagaStatus.RUNNING else f"is {saga.phase}"
        raise RefusedError(f"saga {saga.id} {what}: nothing in it will wait for {name!r} any more")
