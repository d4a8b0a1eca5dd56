"""Each safety mechanism, switched off by a patch: what the simulation has to find."""

import contextlib
import dataclasses
from collections.abc import Generator
from typing import Any, cast

import pytest

from amends.clock import Clock
from amends.core import decide, plan
from amends.core.decide import incidents
from amends.core.events import StepPlaced
from amends.core.state import saga, step
from amends.core.state.saga import Saga, Step
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.values import SagaId, StepId
from amends.drill.mortal import Mortal
from amends.journal.memory import MemoryJournal, journal as memory_journal
from amends.journal.port import documents as filing
from amends.journal.port.leases import Reading
from amends.journal.port.locks import LockAnswer, LockAsk, LocksTaken
from amends.runtime.drive import backward, logbook, logbook as records
from amends.runtime.drive.family import Family
from amends.runtime.drive.run import Run
from amends.runtime.engine.local import LocalEngine
from amends.testing.simulation import Flaws, Tally, play
from amends.testing.simulation.programs import kind_of

ABLATIONS = {
    "intent": "what is about to be called is not on disk first",
    "fence": "a worker that lost its lease may write all the same",
    "key": "each attempt has a key of its own",
    "provider's key": "providers do not know a key again",
    "tombstone": "providers do what arrives after its compensation",
    "late success": "a worker that was replaced tells nobody what it did",
    "uncertain": "only what certainly happened is compensated",
    "order": "the oldest step is taken back first",
    "completion": "a compensation begins before the newer one has succeeded",
    "lock": "whoever asks for a resource has it",
    "clock": "who waits for the write lock goes by the time from before",
    "read-only": "what changes nothing is in doubt when its answer is lost",
    "pivot": "a saga goes back while what cannot be taken back is on its way",
    "asked ahead": "a step that was asked ahead belongs where it was asked",
    "family's hold": "what a child holds is released when the child has done its work",
    "family's document": "a child is a stranger to the document of its parent",
    "children": "the children of what goes back are not told, and do not look",
    "counted on": "a child is cancelled behind its parent",
    "resume": "the end of a child wakes nobody, and resume is not told that it lets its parent go on",
    "release": "a child is told to release before that is on its parent's record",
}
SOUGHT_IN: dict[str, tuple[str, ...]] = {
    "read-only": ("looks",),
    "pivot": ("pivots",),
    "asked ahead": ("asked",),
    "family's hold": ("held",),
    "family's document": ("documents",),
    "children": ("thwarted",),
    "counted on": ("siblings", "rewinds", "signals"),
    "resume": ("signals", "rewound", "grandchildren"),
    "release": ("held",),
}
"""The kinds of programs that have to do with it, for a mechanism that few others use; the rest are not played."""

_RARE = 10
"""So many times as many seeds are looked at for one of these: next to none of them is of its kinds, and played."""


@contextlib.contextmanager
def without(mechanism: str) -> Generator[Flaws]:
    """While this lasts, the runtime (or the simulated providers) does without it."""
    flaws = Flaws(forgets_keys=mechanism == "provider's key", keeps_no_tombstones=mechanism == "tombstone")
    with pytest.MonkeyPatch.context() as patch:
        match mechanism:
            case "intent":
                patch.setattr(Run, "commit_to_dispatch", _no_commit)
            case "fence":
                patch.setattr(Mortal, "append", _unfenced(Mortal.append))
            case "key":
                patch.setattr(Run, "key", _fresh(Run.key))
            case "late success":
                patch.setattr(LocalEngine, "_ended_late", _keep_to_oneself)
            case "uncertain":
                patch.setattr(step, "_STANDING", step._STANDING - {StepStatus.UNKNOWN})
            case "order":
                _take_back(patch, _oldest)
            case "completion":
                _take_back(patch, _newest_untried)
            case "lock":
                patch.setattr(MemoryJournal, "lock", _had_for_the_asking)
            case "pivot":
                patch.setattr(plan, "_may_be_pivot", _never)
                patch.setattr(incidents, "_at_pivot", _never)
            case "clock":
                patch.setattr(memory_journal, "reading", _from_before)
            case _:
                assert flaws != Flaws() or _without_where_features_meet(mechanism, patch)
        yield flaws


def _without_where_features_meet(mechanism: str, patch: pytest.MonkeyPatch) -> bool:
    """Whether it is one of these."""
    match mechanism:
        case "read-only":
            patch.setattr(decide, "may_stand", _always)
        case "asked ahead":
            patch.setattr(Step, "place", property(_own_name))
            folds = cast("dict[Any, Any]", saga._FOLD)
            patch.setitem(folds, StepPlaced, _placed_where_it_was_asked(saga._place_step))
        case "family's hold":
            patch.setattr(Saga, "holds_for_family", property(_never))
        case "family's document":
            patch.setattr(filing, "_line", _alone)
        case "children":
            patch.setattr(Family, "hold_still", _untold)
            patch.setattr(Family, "above_goes_back", _unlooked)
        case "counted on":
            patch.setattr(incidents, "may_go_back_alone", _always)
        case "resume":
            patch.setattr(LocalEngine, "drive_parent", _left_to_itself)
            patch.setattr(LocalEngine, "families_under_way", _nobody)
            patch.setattr(logbook, "woken_by", _no_one)
            patch.setattr(records, "woken_by", _no_one)
        case "release":
            patch.setattr(backward, "is_released", _always)
        case _:
            return False
    return True


def first_found(mechanism: str, most: int) -> Tally:
    """The schedules up to the first one that shows that this mechanism is not there."""
    with without(mechanism) as flaws:
        kinds = SOUGHT_IN.get(mechanism)
        if kinds is None:
            return play(range(most), flaws, stops=True)
        return play((seed for seed in range(most * _RARE) if kind_of(seed) in kinds), flaws, stops=True)


def _always(*_about: object, **_more: object) -> bool:
    return True


async def _left_to_itself(self: LocalEngine, *_about: object) -> None:
    """Its parent looks again by its own clock."""


def _no_one(_saga: Saga) -> None:
    """Its parent looks again when it has slept for as long as it meant to."""


def _nobody(self: LocalEngine) -> dict[Any, Any]:
    return {}


def _never(*_about: object) -> bool:
    return False


def _own_name(step: Step) -> StepId:
    return step.id


def _placed_where_it_was_asked(place_step: Any) -> Any:
    def placed(saga: Saga, event: Any) -> None:
        entry = saga.steps[event.step].entry
        place_step(saga, event)
        saga.steps[event.step] = dataclasses.replace(saga.steps[event.step], entry=entry)

    return placed


def _alone(_shelf: object, saga: SagaId) -> tuple[SagaId, ...]:
    return (saga,)


async def _untold(self: Family, *_about: object, **_how: object) -> None:
    """They hear of it when it is their turn."""


async def _unlooked(self: Family, saga: Saga) -> str:
    return ""


async def _no_commit(self: Run) -> None:
    """The intent is written some time later."""


def _unfenced(append: Any) -> Any:
    async def unfenced(self: Any, saga: Any, events: Any, *, after: Any, summary: Any, lease: Any = None) -> Any:
        record = self._inner.memory.sagas.get(saga)
        if lease is not None and record is not None:
            lease = lease._replace(epoch=record.epoch)
        return await append(self, saga, events, after=after, summary=summary, lease=lease)

    return unfenced


def _fresh(key: Any) -> Any:
    def fresh(self: Run, state: Step) -> str:
        return f"{key(self, state)}-{state.attempts}" if state.attempts > 1 else key(self, state)

    return fresh


def _keep_to_oneself(self: LocalEngine, *_late: object) -> None:
    """What was done is nobody's business."""


async def _had_for_the_asking(self: MemoryJournal, ask: LockAsk, lease: object) -> LockAnswer:
    return LocksTaken()


def _from_before(clock: Clock) -> Reading:
    then = clock.elapsed()
    return lambda: then


# -- the way back in another order --------------------------------------------------------------------------------


def _take_back(patch: pytest.MonkeyPatch, choose: Any) -> None:
    in_order = plan.turns

    def turns(saga: Saga) -> tuple[Step, ...]:
        if saga.phase is not SagaStatus.ROLLING_BACK:
            return in_order(saga)
        owed = [one for number in range(saga.top, 0, -1) if (one := saga.steps[saga.order[number]]).owed]
        return (choose(owed),) if owed else ()

    patch.setattr(plan, "turns", turns)
    patch.setattr(decide, "require_turn", _anyone)


def _anyone(saga: Saga, one: Step) -> None:
    """Any step may be taken back at any time."""


def _oldest(owed: list[Step]) -> Step:
    return owed[-1]


def _newest_untried(owed: list[Step]) -> Step:
    return next((one for one in owed if one.undo_attempts == 0), owed[0])
