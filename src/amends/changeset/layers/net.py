"""The net changes of a changeset: the newest word on each path, and what the changeset started from."""

from __future__ import annotations

from collections.abc import Sequence

from amends.changeset.layers.seal import earliest_ancestors
from amends.changeset.model.model import Ancestor, Layer, LayerEntry, PathKind, PathState, same
from amends.changeset.model.paths import parents
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    path: bytes
    ours: PathState | None
    ancestor: Ancestor
    layer: int
    """The layer whose folder has the content."""
    is_ephemeral: bool = False
    clash: str = ""
    """Marks stand in it: the conflict that nobody has resolved."""


def net_changes(layers: Sequence[Layer], tree: int, forked_at: int = 0) -> list[Net]:
    """By path; what comes to nothing is left out, and so is what never lands.

    Of a branch, what it made of the layers up to `forked_at`, which it started from like the tree below them.
    Of what is ephemeral, only this lands: that it is gone, below a folder that is gone with it.
    """
    newest: dict[bytes, tuple[LayerEntry, int]] = {}
    clashes: dict[bytes, str] = {}
    for layer in layers[forked_at:]:
        for entry in layer.trees[tree]:
            number = layer.number
            if entry.is_rebased:
                clashes[entry.path] = entry.clash
                if same(entry.before, entry.state) and entry.path in newest:
                    number = newest[entry.path][1]  # the content is where it was
            newest[entry.path] = (entry, number)
    ancestors = earliest_ancestors(layers[forked_at:], tree)
    for layer in layers[:forked_at]:
        ancestors |= {entry.path: Ancestor(state=entry.state) for entry in layer.trees[tree]}
    removed = {path for path, (entry, _) in newest.items() if not entry.is_ephemeral and _is_no_folder(entry.state)}
    found: list[Net] = []
    for path, (entry, number) in sorted(newest.items()):
        if entry.is_ephemeral and (entry.state is not None or removed.isdisjoint(parents(path))):
            continue
        ancestor = ancestors.get(path, entry.ancestor)
        is_cache_of_fork = entry.is_ephemeral and forked_at > 0
        clash = clashes.get(path, "")
        if ancestor.is_known and same(ancestor.state, entry.state) and not is_cache_of_fork and not clash:
            continue
        is_ephemeral = entry.is_ephemeral
        found.append(
            Net(path=path, ours=entry.state, ancestor=ancestor, layer=number, is_ephemeral=is_ephemeral, clash=clash)
        )
    return found


def _is_no_folder(state: PathState | None) -> bool:
    return state is None or state.kind is not PathKind.FOLDER
