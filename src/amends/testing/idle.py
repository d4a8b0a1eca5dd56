"""Moves of a walk that only time and people's patience make: waits, signals, pauses. See `histories`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from amends.core import commands as c
from amends.core.transitions import SagaStatus
from amends.core.values import StepId
from amends.core.waits import open_waits

if TYPE_CHECKING:
    from amends.testing.histories import Walk

_NAMES: Final = ("", "paid", "seen")
_HOUR_MS: Final = 3_600_000


def idle_moves(walk: Walk) -> list[Callable[[], object]]:
    """What may be asked for that has nothing to do with an action."""
    saga = walk.saga
    if saga.phase is SagaStatus.PAUSED:
        return [*[partial(unpause, walk)] * 3, partial(pause, walk)]
    if saga.phase is SagaStatus.ROLLING_BACK:
        return [partial(pause, walk)]
    if saga.phase is not SagaStatus.RUNNING:
        return []
    ending = [partial(_end, walk, wait.place) for wait in open_waits(saga)]
    return [partial(pause, walk), partial(_wait, walk), partial(_signal, walk), *ending]


def pause(walk: Walk) -> bool:
    stops, wide = walk.tape.once_in(2), walk.tape.pick((0, 0, 3))
    return walk.tell(c.PauseSaga(by="ann", why="let me look", rollbacks=stops, pause=wide))


def unpause(walk: Walk) -> bool:
    return walk.tell(c.UnpauseSaga(by="person:ann", now=walk.now, window_s=900))


def _wait(walk: Walk) -> None:
    known = 0 if walk.saga.waits is None else len(walk.saga.waits.places)
    place = StepId(f"w{known + 1}")
    walk.tell(c.StartWait(place=place, name=walk.tape.pick(_NAMES), until=walk.now + _HOUR_MS))


def _signal(walk: Walk) -> None:
    known = 0 if walk.saga.waits is None else len(walk.saga.waits.signals)
    early = walk.tape.once_in(2)
    walk.tell(c.SendSignal(name=walk.tape.pick(_NAMES[1:]), payload=known + 1, by="ann", early=early))


def _end(walk: Walk, place: StepId) -> None:
    if walk.tape.once_in(2) and walk.saga.waits is not None:
        walk.now = max(walk.now, walk.saga.waits.places[place].until)
    walk.tell(c.EndWait(place=place, now=walk.now))
