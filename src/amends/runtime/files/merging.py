"""The merge of a child's branch into its parent's changeset: a step of the parent's, after the call.

`amends.changeset.merge` has a layer like any step that works on files, and all that goes with one: it is sealed with
the outcome, dropped with the step, and begun again after a kill. `amends.changeset.unmerge` drops that layer while the
saga goes on, from under others if need be: it is what a group does of which one child failed.

Nothing of changesets is imported before it is needed: these actions are known to every engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.core.words.values import Json, SagaId
from amends.errors import Fatal
from amends.runtime.declare.action import Action, Asked, Done, NotHappened
from amends.runtime.files import topics

if TYPE_CHECKING:
    from amends.changeset import Changeset, Files

MOST_PATHS: Final = 1000


def _merge(files: Files, child: str, branch: Mapping[str, Json]) -> dict[str, Json]:
    """Bring what a child has made in its branch into the parent's changeset."""
    from amends.changeset import Conflicted
    from amends.runtime.files.branches import opened_branch
    from amends.runtime.files.errors import certain

    with certain(f"what child {child} made cannot be merged"), opened_branch(branch, SagaId(child)) as opened:
        ended = files.merge(opened)
    if isinstance(ended, Conflicted):
        raise Fatal(
            f"what child {child} made is in conflict with what its parent has by now, and nothing of it is merged\n"
            f"{ended.text()}",
            happened=False,
        )
    return {
        "layer": files.number,
        "applied": list(ended.applied[:MOST_PATHS]),
        "merged": list(ended.merged[:MOST_PATHS]),
        "already": list(ended.already[:MOST_PATHS]),
    }


async def _nothing(_asked: Asked) -> NotHappened:
    """A layer that is on no record is dropped before anything else is done: certainly nothing has happened."""
    return NotHappened()


def _unmerge(files: Changeset, child: str, branch: Mapping[str, Json], layer: int) -> None:
    """Take a child's work out of the parent's changeset again, while the saga goes on."""
    from amends.changeset import Conflicted
    from amends.runtime.files.branches import give_up, place_of
    from amends.runtime.files.errors import certain

    with certain(f"what child {child} made cannot be taken out again"):
        ended = files.drop_step(layer) if layer <= files.newest else None
        if not isinstance(ended, Conflicted):
            give_up(place_of(branch), SagaId(child))
    if isinstance(ended, Conflicted):
        raise Fatal(
            f"what child {child} made cannot be taken out again: it was worked on since\n{ended.text()}", happened=False
        )


async def _stays_out(_done: Done) -> None:
    """Nothing: what was taken out stays so."""


def _merging() -> Action[..., Any]:
    exact = Contract(
        topic=Topic(topics.MERGE), reversibility=Reversibility.REVERSIBLE, atomic=True, idempotent=True, timeout_s=None
    )
    merge: Action[..., Any] = Action(_merge, exact)
    merge.parts.on_files = "layer"
    merge.probe(_nothing)
    return merge


def _unmerging() -> Action[..., Any]:
    plain = Contract(
        topic=Topic(topics.UNMERGE), reversibility=Reversibility.COMPENSATABLE, idempotent=True, timeout_s=None
    )
    unmerge: Action[..., Any] = Action(_unmerge, plain)
    unmerge.compensation(_stays_out)
    unmerge.parts.on_files = "changeset"
    return unmerge


MERGE: Final = _merging()
UNMERGE: Final = _unmerging()
