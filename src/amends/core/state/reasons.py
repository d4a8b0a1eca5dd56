"""Why something is done again: what was done before it and taken back, and the reasons. From what is on record; pure.

A step is told of each rollback of a part of the work that took back as many steps of its action as have not been done
again since. A child is told of the children before it that its parent called with the same input, and that failed or
were taken back. So whoever is asked twice knows why, in whichever process, however often somebody was killed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from amends.core.state.saga import Saga, Step
from amends.core.state.step import KEPT_REASONS
from amends.core.transitions import StepStatus
from amends.core.words.contracts import Topic
from amends.core.words.values import BUILT_IN, CALL, Json, StepId

REVERT: Final = Topic("amends.revert")


def reasons_for(saga: Saga, step: Step) -> tuple[str, ...]:
    """All that an attempt of a step is told, the newest last: of its saga, of what it is done again for, of itself."""
    begun = () if saga.begun is None else saga.begun.because
    return (*begun, *redone(saga, step), *step.reasons)[-KEPT_REASONS:]


def redone(saga: Saga, step: Step) -> tuple[str, ...]:
    """Why what stood in this step's place was taken back, oldest first; nothing where it is done for the first time."""
    over = (one for one in saga.rewinds.values() if one.ended and one.entry < step.entry)
    found: list[str] = []
    for rewind in sorted(over, key=lambda one: one.entry):
        taken_back = sum(saga.steps[name].topic == step.topic for name in rewind.begun.steps)
        since = _like(saga.steps.values(), step, rewind.entry) if taken_back else 0
        if since < taken_back:
            found.append(rewind.begun.why)
    return tuple(found)


def _like(steps: Iterable[Step], step: Step, since: int) -> int:
    """How many steps of the same action came before this one, and still count."""
    return sum(one.topic == step.topic and one.rewind is None and since < one.entry < step.entry for one in steps)


def because_of(parent: Saga, step: StepId) -> tuple[str, ...]:
    """Why a child is called again: the ends of those that were called before it with the same input, oldest first."""
    begun = () if parent.begun is None else parent.begun.because
    called = parent.steps.get(step)
    if called is None or called.topic != CALL:
        return begun
    earlier = (one for one in parent.steps.values() if one.topic == CALL and one.entry < called.entry)
    wanted = _asked(called.args)
    before = sorted((one for one in earlier if _asked(one.args) == wanted), key=lambda one: one.entry)
    found: list[str] = []
    for place, one in enumerate(before):
        until = before[place + 1].entry if place + 1 < len(before) else called.entry
        why = _end_of(parent, one, until)
        found = [*found, why] if why else []  # one that stands is no try that failed: the work goes on from there
    return (*begun, *found)[-KEPT_REASONS:]


def _asked(args: Json) -> tuple[Json, ...]:
    """Which definition with which input. Compared as they are: to spell a large input takes its time."""
    named = args if isinstance(args, dict) else {}
    return tuple(named.get(name) for name in ("definition", "given"))


def _end_of(parent: Saga, call: Step, until: int) -> str:
    """Why a child is over of which nothing stands; nothing where it stands, or is on its way."""
    if call.status is StepStatus.FAILED:
        return call.error
    if call.rewind is not None and call.rewind in parent.rewinds:
        return parent.rewinds[call.rewind].begun.why
    child = call.result.get("child") if isinstance(call.result, dict) else None
    since = [one for one in parent.steps.values() if call.entry < one.entry < until]
    reverts = [one for one in since if one.topic == REVERT and isinstance(one.args, dict)]
    if child is None or not any(isinstance(one.args, dict) and one.args.get("child") == child for one in reverts):
        return ""
    failed = [one for one in since if one.status is StepStatus.FAILED and one.topic.startswith(BUILT_IN)]
    return max(failed, key=lambda one: one.entry).error if failed else "it was taken back"
