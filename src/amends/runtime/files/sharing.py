"""Files that a child has from its parent: what is handed down, and which layers the journals of both know. Pure.

A child that shares works in its parent's changeset, over the layers that stood there when it was called (`under`). Its
own layers go on its own record; when it has ended they go on its parent's, with the step that called it. Nobody else of
the family works on the files meanwhile, so layers lie in the order of the steps, a child's all together.

A child that has a branch works in a changeset of its own, which stands on those layers by itself. Its layers go on its
own record alone; with its end its parent is told which they are, and merges them as one layer, in a step of its own.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, cast

from amends.core.events import SagaStarted
from amends.core.state.saga import Saga, Step
from amends.core.transitions import StepStatus
from amends.core.words.values import Json
from amends.dataclass import dataclass
from amends.runtime.files.given import PARAMETER, ChangesetPlace, place_in
from amends.runtime.files.topics import MERGE, UNMERGE

CALL_TOPIC: Final = "amends.call"
REVERT_TOPIC: Final = "amends.revert"
_MAYBE: Final = frozenset(
    {StepStatus.COMPENSATING, StepStatus.RECOMPENSATING, StepStatus.UNCOMPENSATED, StepStatus.UNKNOWN}
)
_CALLED: Final = frozenset({StepStatus.RUNNING, StepStatus.UNKNOWN})
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """Which changeset a child has from its parent, and the layers that it found there."""

    place: ChangesetPlace
    under: dict[int, str]
    is_branch: bool = False
    """It is a branch of its parent's, made for it, and not the parent's own."""


def inherited(begun: SagaStarted | None) -> Inherited | None:
    """Files that a saga has from its parent, by the entry that started it."""
    if begun is None or begun.files is None:
        return None
    place = place_in({PARAMETER: begun.files})
    if place is None or not isinstance(begun.files, dict):
        return None
    is_branch = begun.files.get("branch_of") is not None
    return Inherited(place=place, under=numbered(begun.files.get("under")), is_branch=is_branch)


def fit(saga: str) -> str:
    """As much of a saga's id as a changeset's may have."""
    return _UNFIT.sub("-", saga)[:64].strip("-.")


def branch_place(place: ChangesetPlace, child: str) -> ChangesetPlace:
    """The branch of a changeset that a child works in: the same on every attempt, in every process."""
    short = hashlib.sha256(f"{place.changeset}/{child}".encode()).hexdigest()[:16]
    return ChangesetPlace(changeset=f"{fit(child)}-{short}".lstrip("-"), roots=place.roots, state=place.state)


def handed_down(parent: Saga, files: Json, child: str) -> Json:
    """Files that a child is started with, where the step that calls it names files of its parent's."""
    place = place_in({PARAMETER: files})
    if place is None:
        return None
    if place.fork:
        return {**branch_place(place, child).data(), "branch_of": place.changeset}
    under = layers_of(parent, place.changeset)[0]
    return {**place.data(), "under": {str(number): digest for number, digest in sorted(under.items())}}


def brought_back(child: Saga) -> dict[str, Json]:
    """The layers that a child leaves to its parent, in its parent's changeset or in a branch, for the call's result."""
    given = inherited(child.begun)
    if given is None:
        return {}
    sealed = layers_of(child, given.place.changeset)[0]
    own: dict[str, Json] = {str(each): digest for each, digest in sorted(sealed.items()) if each not in given.under}
    return {"branch": {**given.place.data(), "layers": own}} if given.is_branch else {"layers": own}


def layers_of(saga: Saga, changeset: str) -> tuple[dict[int, str], dict[int, str]]:
    """The layers that a saga's journal knows, by number: those that stand, and those that may have been dropped."""
    given = inherited(saga.begun)
    sealed = dict(given.under) if given is not None and given.place.changeset == changeset else {}
    doubtful: dict[int, str] = {}
    reverted = _reverted(saga)
    for step in saga.steps.values():
        place = place_in(step.args) if step.layer or step.topic == CALL_TOPIC else None
        if place is None or place.changeset != changeset or place.fork:
            continue
        status = reverted.get(_child_of(step), step.status) if reverted else step.status
        if status is StepStatus.SUCCEEDED:
            sealed.update(_layers(step))
        elif status in _MAYBE:
            doubtful.update(_layers(step))
    return sealed, doubtful


def _reverted(saga: Saga) -> dict[str, StepStatus]:
    """How the layers stand of children that were taken back while the saga went on."""
    found: dict[str, StepStatus] = {}
    for step in saga.steps.values():
        if step.topic in {REVERT_TOPIC, UNMERGE} and isinstance(step.args, dict) and step.attempts:
            is_over = step.status is StepStatus.SUCCEEDED
            found[str(step.args.get("child"))] = StepStatus.COMPENSATED if is_over else StepStatus.COMPENSATING
    return found


def _child_of(step: Step) -> str:
    said = step.args if step.topic == MERGE else step.result if step.topic == CALL_TOPIC else None
    return str(said.get("child")) if isinstance(said, dict) else ""


def at_work(saga: Saga, changeset: str) -> Step | None:
    """The step whose child works in this changeset now, as far as the journal knows."""
    for step in (*saga.live, *saga.doubts, *saga.waiting):
        state = saga.steps[step]
        if state.topic == CALL_TOPIC and state.status in _CALLED:
            place = place_in(state.args)
            if place is not None and place.changeset == changeset and not place.fork:
                return state
    return None


def _layers(step: Step) -> dict[int, str]:
    if step.topic == CALL_TOPIC:
        return numbered(step.result.get("layers")) if isinstance(step.result, dict) else {}
    number, _, digest = step.layer.partition(":")
    return {int(number): digest}


def numbered(named: Json) -> dict[int, str]:
    """Layers by number, as a record has them."""
    return {int(number): cast("str", digest) for number, digest in named.items()} if isinstance(named, dict) else {}
