"""Waiting for the time or for a signal, and sending one: what such requests lead to. Pure.

Which wait a signal ends, `state/waits` says at its head.

And holding dispatch back: pausing one saga and letting it go on, and the facts that hold for all of them.
"""

from __future__ import annotations

from typing import Final

from amends.core import commands as c, events as e
from amends.core.decide.require import window_end
from amends.core.state.deciders import require_decider, require_person
from amends.core.state.limits import one_more
from amends.core.state.saga import Saga, open_waits
from amends.core.state.waits import Waits
from amends.core.transitions import SagaStatus, WaitStatus
from amends.core.words.values import CONTROL, canonical
from amends.errors import RefusedError, TooLargeError

LARGEST_PAYLOAD: Final = 1024 * 1024
MOST_EARLY: Final = 1_000


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


def end_wait(saga: Saga, command: c.EndWait, moment: c.Moment) -> tuple[e.Event, ...]:
    """The time is up."""
    wait = None if saga.waits is None else saga.waits.places.get(command.place)
    if wait is None or wait.status is not WaitStatus.OPEN or moment.now < wait.until:
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


def pause(saga: Saga, command: c.PauseSaga) -> tuple[e.Event, ...]:
    """Stop one saga where it stands: what is in flight may end, and nothing more is dispatched."""
    if saga.phase is SagaStatus.PAUSED:
        is_own = saga.paused is not None and saga.paused.pause == 0
        return () if is_own or command.pause else (e.SagaPaused(by=command.by, why=command.why),)
    if saga.phase not in {SagaStatus.RUNNING, SagaStatus.ROLLING_BACK} or saga.begun is None:
        why = "nothing is dispatched for it" if saga.begun is not None else "it has not been started"
        raise RefusedError(f"saga {saga.id} is {saga.phase}: {why}, so there is nothing to pause")
    if (saga.phase is SagaStatus.ROLLING_BACK or saga.awaited is not None) and not command.rollbacks:
        raise RefusedError(f"saga {saga.id} is rolling back, which goes on; say that rollbacks stop too to pause it")
    return (e.SagaPaused(by=command.by, why=command.why, pause=command.pause),)


def unpause(saga: Saga, command: c.UnpauseSaga, moment: c.Moment) -> tuple[e.Event, ...]:
    """Let a paused saga go on, the way that it was going. A rollback gets a full window.

    One that a limit had stopped is allowed as much again.
    """
    if saga.phase is not SagaStatus.PAUSED:
        raise RefusedError(f"saga {saga.id} is {saga.phase}, and not paused")
    own = not command.follows and require_decider(saga.begun, command.by, f"unpause saga {saga.id}")
    deadline_at = window_end(saga, moment)
    if saga.rollback is None:
        resumed = e.WorkResumed(by=command.by, deadline_at=deadline_at if saga.rewinding else 0, own=own)
        return (*one_more(saga.budget, command.by, "", moment.now, own=own), resumed)
    return (e.RollbackResumed(by=command.by, deadline_at=deadline_at, own=own),)


def control(saga: Saga, command: c.KeepControl) -> tuple[e.Event, ...]:
    """Keep what holds for every saga in one of its own, which has ended as soon as it began.

    Anybody may hold something back; only people let it go.
    """
    if isinstance(command.fact, e.DispatchUnpaused | e.HoldLifted):
        is_pause = isinstance(command.fact, e.DispatchUnpaused)
        require_person(command.fact.by, "end a pause" if is_pause else "lift a hold")
    if isinstance(command.fact, e.TokenEvent):
        require_person(command.fact.by, "make or revoke a token")
    begun: tuple[e.Event, ...] = ()
    if saga.begun is None:
        start = e.SagaStarted(definition=CONTROL, version=1, input=None, actor=command.fact.by, env="", labels={})
        begun = (start, e.SagaCompleted(result=None))
    elif saga.begun.definition != CONTROL:
        raise RefusedError(f"saga {saga.id} is {saga.begun.definition}, and controls nothing")
    return (*begun, command.fact)
