"""How a rewind changes a saga's state: the part of the fold that `saga.evolve` leaves to it.

A rewind does not change the saga's phase: the work goes on, beside it (other branches) or after it. Its steps are *set
aside*: they are not tried again, what may stand of them is not the definition's wish any more, and what the definition
was told about each of them is kept, because it is told the same when it is called again. After a rewind from outside
they are also *forgotten*: the definition, called again, asks for them anew, under new names and so with new keys.

A definition marks on its way: checkpoints, and rewinds that take a part of the work back. Those are values only; the
decisions are in `decide.rewinds`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amends.core.events import CheckpointMade, RewindEnded, RewindStarted
from amends.core.state.limits import forgetting as without_places
from amends.core.state.step import Step, told_of
from amends.core.state.waits import forgetting
from amends.core.transitions import StepStatus
from amends.core.words.values import StepId
from amends.dataclass import altered, dataclass

if TYPE_CHECKING:
    from amends.core.state.saga import Saga


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`entry` is its own in the journal; `floor` counts the intents that came before it."""

    place: StepId
    name: str
    entry: int
    floor: int


@dataclass(frozen=True, kw_only=True)
class Rewind:
    """`at` is where it stands: the steps before it in `begun.steps` are settled."""

    begun: RewindStarted
    entry: int
    deadline_at: int
    at: int = 0
    ended: bool = False
    gone: frozenset[StepId] = frozenset()
    """Those of its steps that had been taken back before."""
    taken_back: tuple[StepId, ...] = ()

    @property
    def key(self) -> StepId:
        """Its place, or, where it was asked for from outside, its entry."""
        return StepId(f"@{self.entry}") if self.begun.place is None else self.begun.place

    @property
    def from_outside(self) -> bool:
        return self.begun.place is None


_S = StepStatus
_TRIED: Final = frozenset({_S.FAILED, _S.UNKNOWN})
_OVER: Final = frozenset({_S.SUCCEEDED, _S.FAILED, _S.UNKNOWN, _S.DENIED})
_GONE: Final = frozenset({_S.COMPENSATED, _S.SETTLED})


def mark(saga: Saga, event: CheckpointMade) -> Saga:
    made = Checkpoint(place=event.place, name=event.name, entry=saga.head, floor=len(saga.order))
    return altered(saga, checkpoints=saga.checkpoints.set(event.place, made))


def begin(saga: Saga, event: RewindStarted) -> Saga:
    gone = frozenset(name for name in event.steps if saga.steps[name].status in _GONE)
    rewind = Rewind(begun=event, entry=saga.head, deadline_at=event.deadline_at, gone=gone)
    saga = _forgetting(saga, event) if rewind.from_outside else saga
    steps = saga.steps
    for name in event.steps:
        aside = _set_aside(steps[name], rewind)
        if aside is not steps[name]:
            steps = steps.set(name, aside)
    rewinding = (*saga.rewinding, rewind.key)
    return altered(saga, steps=steps, rewinds=saga.rewinds.set(rewind.key, rewind), rewinding=rewinding)


def _forgetting(saga: Saga, event: RewindStarted) -> Saga:
    """Without all that was marked after the entry to which it goes back."""
    checkpoints, rewinds = saga.checkpoints, saga.rewinds
    for checkpoint in tuple(saga.checkpoints.values()):
        if checkpoint.entry > event.above:
            checkpoints = checkpoints.drop(checkpoint.place)
    for rewind in tuple(saga.rewinds.values()):
        if rewind.entry > event.above and not rewind.from_outside:
            rewinds = rewinds.drop(rewind.key)
    rewinding = tuple(key for key in saga.rewinding if key in rewinds)
    waits = forgetting(saga.waits, event.above)
    moved = altered(saga, checkpoints=checkpoints, rewinds=rewinds, rewinding=rewinding, waits=waits)
    return altered(moved, finished=False, early="", result=None, budget=without_places(saga.budget, event.above))


def _set_aside(step: Step, rewind: Rewind) -> Step:
    return altered(
        told_when_over(step),
        rewind=rewind.key,
        forgotten=step.forgotten or rewind.from_outside,
        given_up=True,
        retry_at=None if step.status in _TRIED else step.retry_at,
    )


def told_when_over(step: Step) -> Step:
    """With what the definition was, or is just being, told about it."""
    return altered(step, told=told_of(step)) if step.status in _OVER else step


def walked(saga: Saga, *, again: bool = False) -> Saga:
    """Move every open rewind past what is not owed; from its beginning, where something may be owed again.

    What a later rewind has set aside too is taken back by that one.
    """
    rewinds = saga.rewinds
    for key in saga.rewinding:
        rewind = rewinds[key]
        steps, at = rewind.begun.steps, 0 if again else rewind.at
        while at < len(steps) and not _is_due(saga.steps[steps[at]], rewind):
            at += 1
        if at != rewind.at:
            rewinds = rewinds.set(key, altered(rewind, at=at))
    return saga if rewinds is saga.rewinds else altered(saga, rewinds=rewinds)


def _is_due(step: Step, rewind: Rewind) -> bool:
    return step.owed and step.rewind == rewind.key


def end(saga: Saga, event: RewindEnded) -> Saga:
    key = next(key for key in saga.rewinding if saga.rewinds[key].begun.place == event.place)
    rewind = altered(saga.rewinds[key], ended=True, taken_back=event.taken_back)
    rewinding = tuple(other for other in saga.rewinding if other != key)
    return altered(saga, rewinds=saga.rewinds.set(key, rewind), rewinding=rewinding)


def renewed(saga: Saga, deadline_at: int) -> Saga:
    """A person has it go on: the time starts anew."""
    rewinds = saga.rewinds
    for key in saga.rewinding:
        rewinds = rewinds.set(key, altered(rewinds[key], deadline_at=deadline_at))
    return altered(saga, rewinds=rewinds)


def is_asked_anew(saga: Saga, step: Step) -> bool:
    """Whether a rewind from outside has forgotten that people were asked ahead; one back to in between has not.

    Then only its place is done anew: what was approved has been used, and the gate judges again.
    """
    asked = step.entry if step.ahead is None else step.ahead.entry
    return any(one.from_outside and one.begun.above < asked < one.entry for one in saga.rewinds.values())


def taken_back(saga: Saga, rewind: Rewind) -> tuple[StepId, ...]:
    """Steps of a rewind that took effect, or may have, and of which nothing stands any more."""
    steps = (saga.steps[name] for name in rewind.begun.steps)
    return tuple(step.id for step in steps if step.status in _GONE and step.id not in rewind.gone)


def gives_up(saga: Saga) -> Saga:
    """The definition has ended: what was to be tried again for it is not, and is not its wish any more."""
    steps, waiting = saga.steps, saga.waiting
    for step in map(steps.__getitem__, saga.waiting):
        if step.status is _S.QUEUED or step.is_throttled:
            waiting = waiting.drop(step.id)
        elif step.retry_at is not None:
            steps = steps.set(step.id, altered(step, retry_at=None, given_up=True))
            waiting = waiting.drop(step.id)
    return altered(saga, steps=steps, waiting=waiting)
