"""Leftovers of pruned sagas on disk: the layers of their changesets, what their landings replaced, ancestors.

It goes before the record does: whoever is killed in between finds the saga again, and prunes the rest. A changeset goes
with the saga whose work it is, once every saga by which a person landed or resolved it goes too, or has gone.

| its changeset                  | the saga                          | the changeset                     |
|--------------------------------|-----------------------------------|-----------------------------------|
| landed, dropped or merged      | is pruned                         | its contents go                   |
| in review, with something in it| is not pruned: a person decides   | stays                             |
| kept for good                  | is pruned                         | stays, as somebody asked          |
| of a tree that is not there    | is pruned, and that is logged     | stays where it is                 |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

from amends.changeset import Changeset, Life, Summary, list_changesets
from amends.changeset.pruning import prune_some
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import ChangesetBusyError, ChangesetError
from amends.journal.port.journal import Journal
from amends.logs import logger
from amends.process.threads import in_thread
from amends.runtime.files.by_hand import by_hand
from amends.runtime.files.given import ChangesetPlace
from amends.runtime.files.reviewing import places_of, tree_of

_WAITS: Final = frozenset({Life.ACTIVE, Life.REVIEW})
_log = logger("amends.files")


class Leftovers:
    """Of sagas that are to be pruned together."""

    def __init__(self, journal: Journal, sagas: Collection[SagaId]) -> None:
        self._journal = journal
        self.sagas = frozenset(sagas)
        self._places: dict[SagaId, list[ChangesetPlace]] = {}
        self._trees: dict[tuple[tuple[str, ...], str | None], tuple[Summary, ...]] = {}

    async def look(self) -> frozenset[SagaId]:
        """Find what they have on disk. The answer: those whose work waits for a person, and which have to stay."""
        for saga in self.sagas:
            self._places[saga] = await places_of(self._journal, saga)
        for place in (place for places in self._places.values() for place in places):
            tree = (place.roots, place.state)
            if tree not in self._trees:
                self._trees[tree] = await in_thread("prune", partial(_listed, place))
        waiting: set[SagaId] = set()
        for saga, places in self._places.items():
            row = await self._journal.saga(saga) if places else None
            is_open = row is not None and row.status is SagaStatus.COMPLETED
            if is_open and any(_waits(each) for each in self._own(saga)):
                waiting.add(saga)
        return frozenset(waiting)

    async def remove(self) -> None:
        """Remove it."""
        for (roots, state), found in self._trees.items():
            named = {
                place.changeset
                for places in self._places.values()
                for place in places
                if (place.roots, place.state) == (roots, state)
            }
            going = [each for each in found if await self._goes(each, named)]
            if going:
                await in_thread("prune", partial(_remove, roots, state, going))

    def _own(self, saga: SagaId) -> Iterable[Summary]:
        """The changesets whose work is the saga's; of those that do not say so, the ones that it names."""
        named = {place.changeset for place in self._places[saga]}
        for found in self._trees.values():
            yield from (each for each in found if each.saga == saga or (not each.saga and each.id in named))

    async def _goes(self, changeset: Summary, named: Collection[str]) -> bool:
        if changeset.saga not in self.sagas and changeset.id not in named:
            return False
        done_by_hand = [row.id for row in await by_hand(self._journal, changeset.id)]
        owners = [SagaId(changeset.saga)] if changeset.saga else []
        return all([await self._has_gone(each) for each in (*owners, *done_by_hand)])

    async def _has_gone(self, saga: SagaId) -> bool:
        row = None if saga in self.sagas else await self._journal.saga(saga)
        return saga in self.sagas or (row is not None and row.pruned)


def _waits(changeset: Summary) -> bool:
    return changeset.life in _WAITS and changeset.branch_of is None and bool(changeset.steps)


def _listed(place: ChangesetPlace) -> tuple[Summary, ...]:
    tree = tree_of(place)
    try:
        return list_changesets(tree.root, state=tree.state)
    except (ChangesetError, OSError) as exc:
        _log.warning("what changeset %s holds could not be pruned: %s", place.changeset, exc)
        return ()


def _remove(roots: tuple[str, ...], state: str | None, going: list[Summary]) -> None:
    try:
        for each in going:
            if each.life in _WAITS:  # nothing that anybody waits for: see look
                with Changeset.open(*roots, id=each.id, state=state, saga=each.saga) as opened:
                    opened.drop()
        prune_some(*roots, ids=[each.id for each in going], state=state)
    except ChangesetBusyError as exc:
        _log.warning("it is pruned the next time: %s", exc)
    except (ChangesetError, OSError) as exc:
        _log.warning("what is left of the changesets of %s could not be pruned: %s", ", ".join(roots), exc)
