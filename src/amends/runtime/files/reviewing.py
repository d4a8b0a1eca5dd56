"""Work that waits for a person: changesets that sagas have left in review, and the trees that a journal knows of."""

from __future__ import annotations

from functools import partial
from typing import Final

from amends.changeset import Life, Summary, list_changesets
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.dataclass import dataclass
from amends.errors import ChangesetError
from amends.journal.port.journal import Journal, SagaQuery
from amends.process.threads import in_thread
from amends.runtime.files.given import PARAMETER, ChangesetPlace, place_in

_KEPT: Final = tuple(status for status in SagaStatus if not status.has_gone_back)


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """A tree that sagas work on, and its state directory where that is not beside it: as commands take them."""

    root: str
    state: str | None


@dataclass(frozen=True, slots=True)
class InReview:
    tree: WorkingTree
    changeset: Summary


async def places_of(journal: Journal, saga: SagaId) -> list[ChangesetPlace]:
    """The changesets that a saga's entries name; none of those whose content was removed."""
    found: dict[ChangesetPlace, None] = {}
    async for entry in journal.read(saga):
        if entry.is_removed:
            continue
        given = {PARAMETER: files} if (files := getattr(entry.event, "files", None)) else None
        place = place_in(given if given is not None else getattr(entry.event, "args", None))
        if place is not None:
            found[place] = None
    return list(found)


def tree_of(place: ChangesetPlace) -> WorkingTree:
    """Where the changesets of a place are listed: at the first of its trees."""
    first, *others = place.roots
    return WorkingTree(first, f"{place.state}/0" if others and place.state is not None else place.state)


async def left_in_review(journal: Journal, saga: SagaId) -> tuple[InReview, ...]:
    """Changesets of a saga that nobody has decided about yet; nothing of a tree that cannot be read."""
    places = [place for place in await places_of(journal, saga) if place.roots]
    named = {place.changeset for place in places if not place.fork}
    found: list[InReview] = []
    for tree in dict.fromkeys(map(tree_of, places)):
        for each in await in_thread("review", partial(_listed, tree)):
            own = each.saga == saga or (not each.saga and each.id in named)
            if own and each.life is Life.REVIEW and each.branch_of is None and each.steps:
                found.append(InReview(tree, each))
    return tuple(found)


def _listed(tree: WorkingTree) -> tuple[Summary, ...]:
    try:
        return list_changesets(tree.root, state=tree.state)
    except (ChangesetError, OSError):
        return ()


async def trees_of(journal: Journal, most: int) -> tuple[WorkingTree, ...]:
    """The trees that the newest sagas of a journal work on; those of which nothing stands are left out."""
    page = await journal.sagas(SagaQuery(statuses=_KEPT, limit=most))
    found: dict[WorkingTree, None] = {}
    for row in page.rows:
        found |= dict.fromkeys(tree_of(place) for place in await places_of(journal, row.id) if place.roots)
    return tuple(found)
