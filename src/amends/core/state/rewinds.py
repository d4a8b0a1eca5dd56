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
from amends.core.state.limits import forget_places
from amends.core.state.step import Step, told_of
from amends.core.state.waits import forget_waits
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


def mark(saga: Saga, event: CheckpointMade, entry: int) -> None:
    made = Checkpoint(place=event.place, name=event.name, entry=entry, floor=len(saga.order))
    saga.checkpoints[event.place] = made


def begin(saga: Saga, event: RewindStarted, entry: int) -> None:
    gone = frozenset(name for name in event.steps if saga.steps[name].status in _GONE)
    rewind = Rewind(begun=event, entry=entry, deadline_at=event.deadline_at, gone=gone)
    if rewind.from_outside:
        _forget(saga, event)
    for name in event.steps:
        saga.steps[name] = _set_aside(saga.steps[name], rewind)
    saga.rewinds[rewind.key] = rewind
    saga.rewinding = (*saga.rewinding, rewind.key)


def _forget(saga: Saga, event: RewindStarted) -> None:
    """Forget all that was marked after the entry to which it goes back."""
    for checkpoint in tuple(saga.checkpoints.values()):
        if checkpoint.entry > event.above:
            del saga.checkpoints[checkpoint.place]
    for rewind in tuple(saga.rewinds.values()):
        if rewind.entry > event.above and not rewind.from_outside:
            del saga.rewinds[rewind.key]
    saga.rewinding = tuple(key for key in saga.rewinding if key in saga.rewinds)
    if saga.waits is not None:
        forget_waits(saga.waits, event.above)
    if saga.budget is not None:
        forget_places(saga.budget, event.above)
    saga.finished, saga.early, saga.result = False, "", None


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


def walk(saga: Saga, *, again: bool = False) -> None:
    """Move every open rewind past what is not owed; from its beginning, where something may be owed again.

    What a later rewind has set aside too is taken back by that one.
    """
    for key in saga.rewinding:
        rewind = saga.rewinds[key]
        steps, at = rewind.begun.steps, 0 if again else rewind.at
        while at < len(steps) and not _is_due(saga.steps[steps[at]], rewind):
            at += 1
        if at != rewind.at:
            saga.rewinds[key] = altered(rewind, at=at)


def _is_due(step: Step, rewind: Rewind) -> bool:
    return step.owed and step.rewind == rewind.key


def end(saga: Saga, event: RewindEnded) -> None:
    key = next(key for key in saga.rewinding if saga.rewinds[key].begun.place == event.place)
    saga.rewinds[key] = altered(saga.rewinds[key], ended=True, taken_back=event.taken_back)
    saga.rewinding = tuple(other for other in saga.rewinding if other != key)


def renew(saga: Saga, deadline_at: int) -> None:
    """A person has it go on: the time starts anew."""
    for key in saga.rewinding:
        saga.rewinds[key] = altered(saga.rewinds[key], deadline_at=deadline_at)


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


def give_up(saga: Saga) -> None:
    """The definition has ended: what was to be tried again for it is not, and is not its wish any more."""
    for step in [saga.steps[name] for name in saga.waiting]:
        if step.status is _S.QUEUED or step.is_throttled:
            del saga.waiting[step.id]
        elif step.retry_at is not None:
            saga.steps[step.id] = altered(step, retry_at=None, given_up=True)
            del saga.waiting[step.id]
