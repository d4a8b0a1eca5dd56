"""Taking a part of the work back, and going on: checkpoints and rewinds, decided. Pure.

A rewind names its steps, newest first, in one fact. Who asks from inside the definition names them by place; who asks
from outside names a checkpoint, or how many. Neither crosses an irreversible step that took effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final, assert_never

from amends.core import commands as c, events as e
from amends.core.decide.approvals import drop, void
from amends.core.decide.incidents import begun_back, closed, past_pivot, require_whole
from amends.core.decide.require import end_of, may_go_back_alone, on_record, require_free, require_work, window_end
from amends.core.effects import TurnBack
from amends.core.plan import is_pivot, may_be_pivots, next_of, pivot_says, plan, unmitigated
from amends.core.state.deciders import require_decider
from amends.core.state.rewinds import Checkpoint
from amends.core.state.saga import Saga, Step, evolve, open_waits
from amends.core.words.values import RUNTIME, StepId
from amends.errors import PastPivotError, RefusedError, UnknownCheckpointError

_BACK: Final = "the part of the work that it belongs to is taken back"


def decide_rewind(
    saga: Saga, command: c.MakeCheckpoint | c.Rewind | c.RollBackTo | c.TurnBack | c.EndRewind, moment: c.Moment
) -> tuple[e.Event, ...]:
    match command:
        case c.MakeCheckpoint():
            return make_checkpoint(saga, command)
        case c.Rewind():
            return rewind(saga, command, moment)
        case c.RollBackTo():
            return roll_back_to(saga, command, moment)
        case c.TurnBack():
            return turn_back(saga, moment)
        case c.EndRewind():
            return end_rewind(saga, command)
        case _:
            assert_never(command)


def make_checkpoint(saga: Saga, command: c.MakeCheckpoint) -> tuple[e.Event, ...]:
    require_work(saga)
    require_free(saga, command.place)
    return (e.CheckpointMade(place=command.place, name=command.name),)


def rewind(saga: Saga, command: c.Rewind, moment: c.Moment) -> tuple[e.Event, ...]:
    """Take the steps back newest first, in whatever order the definition names them."""
    require_work(saga)
    require_free(saga, command.place)
    asked = (on_record(saga, name) for name in dict.fromkeys(command.steps))
    steps = newest_first(step for step in asked if step.rewind is None or step.owed)
    require_no_pivot(saga, steps)
    require_settled(saga, steps)
    started = e.RewindStarted(
        place=command.place,
        steps=tuple(step.id for step in steps),
        why=command.why,
        by=RUNTIME,
        deadline_at=window_end(saga, moment),
        step=command.step if command.step in saga.steps else None,
        to=command.to,
        attempt=command.attempt,
    )
    waits = tuple(
        e.WaitEnded(place=wait.place, signal=None) for wait in open_waits(saga) if wait.place in command.waits
    )
    return (*void(saga, started.steps, _BACK), *drop(saga, started.steps, _BACK), *waits, started)


def end_rewind(saga: Saga, command: c.EndRewind) -> tuple[e.Event, ...]:
    if command.place not in saga.rewinding:
        raise RefusedError(f"saga {saga.id} has no rewind under way at place {command.place}")
    stopped_at = next_of(saga, saga.rewinds[command.place])
    if stopped_at is not None and stopped_at.named and saga.works:
        return (e.SagaHalted(),)
    return end_of(saga, saga.rewinds[command.place])


# -- from outside -----------------------------------------------------------------------------------------------------


def roll_back_to(saga: Saga, command: c.RollBackTo, moment: c.Moment) -> tuple[e.Event, ...]:
    require_whole(saga)
    if command.counted_on and not may_go_back_alone(saga, partly=True):
        raise RefusedError(command.counted_on)
    if saga.called_back:
        raise RefusedError(f"saga {saga.id} is going back already; wait for that, then ask again")
    above, floor, to = place_of(saga, to=command.to, last=command.last)
    steps = steps_above(saga, above, floor)
    require_no_pivot(saga, steps)
    _require_no_release(saga)
    cause = e.Cause.LIMIT if command.by == RUNTIME else e.Cause.CANCELLED
    own = _own_way_on(saga, command)
    asked = e.RollbackAwaited(
        cause=cause, why=command.why, step=None, by=command.by, to=to, above=above, floor=floor, own=own
    )
    over = closed(saga, command.by, "the saga goes back", own=own)
    pending = {step.id for step in may_be_pivots(reduce(evolve, over, saga.copy()))}
    if any(step.id in pending for step in steps):
        return (*over, asked)
    return (*over, *_begun_back_to(saga, asked, above, steps, window_end(saga, moment)))


def _own_way_on(saga: Saga, command: c.RollBackTo) -> bool:
    """A saga that has stopped for people goes on when a part of it is taken back, so people decide about that."""
    if command.by == RUNTIME or not closed(saga, command.by, ""):
        return False
    return require_decider(
        saga.begun, command.by, f"have saga {saga.id} go on from its incident, by taking a part of it back"
    )


def _require_no_release(saga: Saga) -> None:
    """Refuse while held steps go out, when nothing can fail any more: meanwhile nothing is done again that could."""
    going_out = [step for step in saga.lent if step.releasing]
    going_out += [step for name in saga.live if (step := saga.steps[name]).contract.hold]
    if going_out:
        raise RefusedError(
            f"saga {saga.id} has done its work and releases what it holds: step {going_out[0].id} "
            f"({going_out[0].topic}) is on its way; wait until that has ended, then ask again"
        )


def _begun_back_to(
    saga: Saga, asked: e.RollbackAwaited, above: int, steps: tuple[Step, ...], deadline_at: int
) -> tuple[e.Event, ...]:
    started = e.RewindStarted(
        place=None,
        steps=tuple(step.id for step in steps),
        why=asked.why,
        by=asked.by,
        deadline_at=deadline_at,
        to=asked.to,
        above=above,
        own=asked.own,
    )
    return (*void(saga, started.steps, _BACK), *drop(saga, started.steps, _BACK), started)


def turn_back(saga: Saga, moment: c.Moment) -> tuple[e.Event, ...]:
    """Go back as was asked for, now that what may have been the pivot is settled; past the pivot, a person decides."""
    asked = saga.awaited
    if asked is None or plan(saga, moment.now) != (TurnBack(),):
        raise RefusedError(f"saga {saga.id} is {saga.status}, and does not wait to go back")
    deadline_at = window_end(saga, moment)
    if asked.above is None:
        missing = unmitigated(saga)
        if saga.pivot is not None and (missing or not asked.mitigate):
            return past_pivot(saga, asked.step, asked.why, missing[0] if missing else saga.steps[saga.pivot])
        return begun_back(saga, asked, deadline_at)
    steps = steps_above(saga, asked.above, asked.floor)
    pivot = next(filter(is_pivot, steps), None)
    if pivot is None:
        return _begun_back_to(saga, asked, asked.above, steps, deadline_at)
    limit = asked.cause is e.Cause.LIMIT
    kind = e.IncidentKind.LIMIT_REACHED if limit else e.IncidentKind.PAST_PIVOT
    return past_pivot(saga, None, asked.why, pivot, kind)


def place_of(saga: Saga, *, to: str | None, last: int | None) -> tuple[int, int, StepId | None]:
    """The entry and the number of intents to which it goes back, and the checkpoint's place, where it is one.

    Raises UnknownCheckpointError or RefusedError.
    """
    if to is not None:
        checkpoint = checkpoint_of(saga, to)
        above, floor, place = checkpoint.entry, checkpoint.floor, checkpoint.place
    else:
        first = nth_newest(saga, saga.order.values(), 1 if last is None else last)
        above, floor, place = first.entry - 1, first.number - 1, None
    for rewind in saga.rewinds.values():
        taken = [saga.steps[step] for step in rewind.begun.steps]
        if rewind.entry > above and not rewind.from_outside and any(0 < step.number <= floor for step in taken):
            raise RefusedError(
                f"saga {saga.id}: {'that place' if to is None else f'checkpoint {to!r}'} lies in a part of the work "
                "that was taken back since; roll back further, or all of it"
            )
    return above, floor, place


def checkpoint_of(saga: Saga, name: str) -> Checkpoint:
    """The newest of that name. Raises UnknownCheckpointError, with those that there are."""
    found = [one for one in saga.checkpoints.values() if one.name == name]
    if not found:
        raise UnknownCheckpointError(unknown_checkpoint(f"saga {saga.id}", name, names(saga.checkpoints.values())))
    return max(found, key=lambda one: one.entry)


def names(checkpoints: Iterable[Checkpoint]) -> tuple[str, ...]:
    """Their names, in the order in which they were made."""
    return tuple(dict.fromkeys(one.name for one in sorted(checkpoints, key=lambda one: one.entry)))


def unknown_checkpoint(where: str, name: str, known: tuple[str, ...]) -> str:
    there = f"there are: {', '.join(map(repr, known))}" if known else "it has made none; see s.checkpoint(name)"
    return f"{where} has no checkpoint {name!r}; {there}"


def nth_newest(saga: Saga, among: Iterable[StepId], last: int) -> Step:
    """The oldest of the newest `last` steps that may stand. Raises RefusedError."""
    if last < 1:
        raise RefusedError(f"last={last}: at least 1 step has to be taken back")
    standing = [step for step in map(saga.steps.__getitem__, among) if step.standing and step.rewind is None]
    if len(standing) < last:
        found = "1 step stands" if len(standing) == 1 else f"{len(standing)} steps stand"
        raise RefusedError(f"last={last}: only {found} that could be taken back; ask for fewer")
    return newest_first(standing)[last - 1]


def steps_above(saga: Saga, above: int, floor: int) -> tuple[Step, ...]:
    """Forgotten steps: each step whose intent, or if it never had one whose proposal, came after that place."""
    after = (step for step in saga.steps.values() if (step.number > floor if step.number else step.entry > above))
    return newest_first(step for step in after if not step.forgotten)


def newest_first(steps: Iterable[Step]) -> tuple[Step, ...]:
    return tuple(sorted(steps, key=lambda step: (step.number, step.entry), reverse=True))


def require_no_pivot(saga: Saga, steps: Iterable[Step]) -> None:
    for step in steps:
        if is_pivot(step):
            raise PastPivotError(f"saga {saga.id} cannot go back that far: {pivot_says(step)}")


def require_settled(saga: Saga, steps: Iterable[Step]) -> None:
    """None of them is on its way that could not be taken back."""
    live = next((step for step in steps if step.id in saga.live and step in may_be_pivots(saga)), None)
    if live is not None:
        what = f"step {live.id} ({live.topic}) is on its way, and could not be taken back"
        raise RefusedError(f"saga {saga.id} cannot go back yet: {what}; wait for its end")
