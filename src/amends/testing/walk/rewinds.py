"""Checkpoints and rewinds in a walk: the requests of the definition, and of whoever is outside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from amends.core import commands as c
from amends.core.effects import End, Settle
from amends.core.plan import is_pivot, may_be_pivots, rewinding
from amends.core.words.values import StepId

if TYPE_CHECKING:
    from amends.testing.walk.walk import Walk

_WINDOWS_S: Final = (900.0, 900.0, 900.0, 3.0, 0.0)
_MOST_MARKS: Final = 4
Move = Callable[[], object]


def due(walk: Walk) -> list[Move]:
    """Moves that are due for the rewinds that the definition waits for, while the rest of it goes on."""
    moves: list[Move] = []
    for key in walk.saga.rewinding:
        effect = rewinding(walk.saga, walk.saga.rewinds[key], walk.now)
        if isinstance(effect, End):
            moves.append(partial(walk.tell, c.EndRewind(place=key)))
        elif not isinstance(effect, Settle):  # what is in flight ends by itself
            moves.append(partial(walk.walk_back, effect))
    return moves


def asked(walk: Walk) -> list[Move]:
    """Moves that the definition may ask for now and then."""
    marks = len(walk.saga.checkpoints) + len(walk.saga.rewinds)
    if marks >= _MOST_MARKS or not walk.tape.once_in(6):
        return []
    return [partial(_mark, walk), partial(_rewind, walk)]


def _mark(walk: Walk) -> None:
    walk.tell(c.MakeCheckpoint(place=_place(walk), name=walk.tape.pick(("here", "there"))))


def _rewind(walk: Walk) -> None:
    """Some of its own steps, of one branch or of several: never over a pivot, or over one that is on its way."""
    saga = walk.saga
    pivots = {step.id for step in saga.steps.values() if is_pivot(step)} | {step.id for step in may_be_pivots(saga)}
    floor = walk.tape.pick(range(len(saga.order) + 1))
    above = [step for step in saga.steps.values() if step.number > floor or step.number == 0]
    mine = [step.id for step in above if step.id not in pivots and not (len(above) > 1 and walk.tape.once_in(4))]
    window_s = walk.tape.pick(_WINDOWS_S)
    walk.tell(c.Rewind(place=_place(walk), steps=tuple(mine), why="no good"), window_s)


def _place(walk: Walk) -> StepId:
    return StepId(f"mark {len(walk.events)}")


def people(walk: Walk) -> list[Move]:
    """Moves that someone outside may ask for."""
    if walk.saga.phase.has_gone_back or not walk.tape.once_in(2):
        return []
    return [partial(_roll_back, walk)]


def _roll_back(walk: Walk) -> None:
    names = sorted({one.name for one in walk.saga.checkpoints.values()})
    to = walk.tape.pick(names) if names and walk.tape.once_in(2) else None
    last = None if to is not None else walk.tape.pick((1, 1, 2, 3))
    window_s = walk.tape.pick(_WINDOWS_S)
    walk.tell(c.RollBackTo(to=to, last=last, by="person:ann", why="once more"), window_s)
