"""Branches of a saga's files, for its children: forked when a child is called, given up when it is taken back.

A branch is made before its child is on record, of what the parent's record knows then, and has an id that follows from
both: whoever repeats the call finds it again. From then on it is the child's, until the call's parent merges it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from amends.changeset import Changeset, Life, Summary, show
from amends.core.words.values import Json, SagaId
from amends.errors import ChangedSince, ChangesetBusyError, ChangesetDamagedError, UnknownChangesetError
from amends.process.threads import in_thread
from amends.runtime.files.given import PARAMETER, ChangesetPlace, place_in
from amends.runtime.files.sharing import branch_place, numbered

if TYPE_CHECKING:
    from amends.runtime.files.layers import Layers

_OVER: Final = frozenset({Life.DROPPED, Life.KEPT, Life.PRUNED})
_lender: ContextVar[Layers] = ContextVar("amends_lender")


def lends(layers: Layers) -> None:
    """The calling task calls a child next, which is to have a branch of these."""
    _lender.set(layers)


async def fork_for(child: SagaId, definition: str, files: Json) -> None:
    """Have the branch made that a child is to work in, where the step that calls it asks for one."""
    place = place_in({PARAMETER: files})
    if place is not None and place.fork:
        branch = branch_place(place, child)
        await _lender.get().fork(place, lambda changeset: _forked(changeset, branch, definition))


async def give_up_for(child: SagaId, files: Json) -> None:
    """Drop the branch of a child that was rolled back: one that never worked on files has not done so itself."""
    place = place_in({PARAMETER: files})
    if place is not None and place.fork:
        with contextlib.suppress(ChangesetBusyError):  # whoever has it open drops it
            await in_thread(child, lambda: give_up(branch_place(place, child), child))


def _forked(changeset: Changeset, branch: ChangesetPlace, name: str) -> None:
    if changeset.life is Life.DROPPED:  # all of it was taken back, and the work goes on
        changeset.reopen()
    try:
        changeset.branch(id=branch.changeset, name=name).close()
    except ChangesetBusyError:
        return  # it is there, and its child is at work


def life_of(place: ChangesetPlace) -> Life | None:
    """Where a changeset stands in its life; None: there is none."""
    seen = _seen(place)
    return None if seen is None else seen.life


def _seen(place: ChangesetPlace) -> Summary | None:
    state = place.state if place.state is None or len(place.roots) == 1 else f"{place.state}/0"
    try:
        return show(place.roots[0], place.changeset, state=state)
    except UnknownChangesetError:
        return None


def is_pruned(place: ChangesetPlace) -> bool:
    """Whether nothing is left of a changeset to take back. Raises ChangedSince for one that had landed."""
    seen = _seen(place)
    if seen is None or seen.life is not Life.PRUNED:
        return False
    if seen.landing is not None:
        raise ChangedSince(
            f"changeset {place.changeset} has landed (landing {seen.landing}), and was pruned since: what is in the "
            "tree stands. Put the tree right, and resolve this"
        )
    return True


def is_dropped(branch: ChangesetPlace) -> bool:
    """Whether a branch was given up as a whole. Raises ChangedSince for one that its parent has in a layer."""
    life = life_of(branch)
    if life is Life.MERGED:
        raise ChangedSince(
            f"what this saga did is merged (branch {branch.changeset}): take its parent back, and it goes with it"
        )
    return life is None or life in _OVER


def give_up(branch: ChangesetPlace, saga: SagaId) -> None:
    """Drop a branch that nobody needs any more, merged or not."""
    life = life_of(branch)
    if life is not None and life not in _OVER:
        with Changeset.open(*branch.roots, id=branch.changeset, state=branch.state, saga=saga) as opened:
            opened.drop()


def place_of(branch: Mapping[str, Json]) -> ChangesetPlace:
    place = place_in({PARAMETER: dict(branch)})
    if place is None:
        raise ChangesetDamagedError(f"no branch is named by {branch}")
    return place


def opened_branch(branch: Mapping[str, Json], saga: SagaId) -> Changeset:
    """A child's branch as its record knows it, ready to be merged, whatever an earlier attempt has said of it."""
    place = place_of(branch)
    if life_of(place) is None:
        raise ChangesetDamagedError(f"branch {place.changeset} is not there any more; bring its state directory back")
    sealed = numbered(branch.get("layers"))
    opened = Changeset.open(*place.roots, id=place.changeset, state=place.state, sealed=sealed, saga=saga)
    if opened.life is Life.MERGED:  # in a layer that never came to be on record
        opened.reopen()
    return opened
