"""Branches: a changeset that stands on another's layers, and whose work becomes one layer of that.

    fork     the layers that the other has sealed, linked file by file: what either does from now on, the other's are
             as they were. The record comes last; without it there is no branch, and whoever asks again makes it anew
    work     layers of its own, over these and the tree
    merge    in an open step of the other changeset: each path that the branch changed, from what it started from, held
             against what the other shows now, by the rules of a landing (validate.py). All of it is written into the
             step, or, with any conflict, nothing

What a branch started from is, for a path that the forked layers have, what the newest of them says; else the tree, as
its own layers know it. The seal of the step proves what the merged paths started from in the tree, as of any step.
A branch does not land: the changeset that it was merged into does.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from amends.changeset.disk.disk import Sync, spot
from amends.changeset.landing.validate import Validated, Validation, strict_conflicts
from amends.changeset.layers.contents import Contents
from amends.changeset.layers.delta import Delta
from amends.changeset.layers.net import Net, net_changes
from amends.changeset.layers.rebase import link_layer
from amends.changeset.layers.report import BranchMerged, Conflict, Conflicted
from amends.changeset.layers.stack import FoundPath, Stack
from amends.changeset.layers.writing import Writing
from amends.changeset.model.landing_plan import Act, Do, acts_for
from amends.changeset.model.model import Ancestor, ChangesetRecord, Isolation, Layer, Life, PathKind, PathState, Terms
from amends.changeset.model.paths import beneath, join, spell
from amends.changeset.store.home import Home
from amends.changeset.store.records import ChangesetFolder, as_sealed, content_in, damaged, sealed_content
from amends.changeset.views.protocol import View
from amends.dataclass import dataclass


def fork(source: ChangesetFolder, layers: Sequence[Layer], *, id: str, name: str, now: int) -> ChangesetFolder:
    """Make a branch of these layers, on the terms of the changeset that has them. One that exists is left as it is."""
    shelf, disk = ChangesetFolder(source.home, id, source.disk), source.disk
    if shelf.is_there:
        return shelf
    above = source.record()
    disk.remove_all(shelf.folder)  # what a kill left of the same
    for folder in (shelf.folder, shelf.layers_folder):
        disk.make_folder(spot(folder))
    for layer in layers:
        link_layer(disk, source.layer_folder(layer.number), shelf.layer_folder(layer.number), len(above.roots))
    disk.sync_folder(spot(shelf.layers_folder), Sync.LAYER_FOLDERS)
    shelf.make(
        ChangesetRecord(
            id=id,
            name=name,
            roots=above.roots,
            life=Life.ACTIVE,
            terms=above.terms,
            opened_at=now,
            branch_of=above.id,
            forked_at=len(layers),
            saga=above.saga,
        )
    )
    return shelf


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch that is to be merged."""

    shelf: ChangesetFolder
    layers: tuple[Layer, ...]
    forked_at: int

    def content(self, tree: int, net: Net) -> bytes:
        return sealed_content(self.shelf, net.layer, tree, net.path, net.ours)

    def where(self, tree: int, net: Net) -> bytes:
        return content_in(self.shelf, net.layer, tree, net.path)

    def since(self, tree: int) -> int | None:
        """The newest landing that its own first layer had seen; None: it has no layer of its own."""
        own = self.layers[self.forked_at :]
        return own[0].begun.landings[tree] if own else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Into:
    """The open step that a branch is merged into."""

    changeset: str
    view: View
    layer: bytes
    homes: tuple[Home, ...]
    layers: tuple[Layer, ...]
    terms: Terms

    def writing(self, tree: int) -> Writing:
        return self.view.writing(self.layer, tree)


def merge_branch(branch: Branch, into: Into) -> BranchMerged | Conflicted:
    """Write what a branch changed into an open step; with any conflict, nothing."""
    found = [_validated(branch, into, tree) for tree in range(len(into.homes))]
    conflicts = tuple(_explained(each, into) for one in found for each in one.conflicts)
    if conflicts:
        return Conflicted(changeset=branch.shelf.id, conflicts=conflicts, into=into.changeset)
    for tree, validated in enumerate(found):
        _write(branch, into, tree, validated)
    return BranchMerged(
        changeset=branch.shelf.id,
        into=into.changeset,
        applied=tuple(spell(wanted.path) for each in found for wanted in each.wanted),
        merged=tuple(spell(path) for each in found for path in sorted(each.merged)),
        already=tuple(spell(path) for each in found for path in each.already),
    )


def _validated(branch: Branch, into: Into, tree: int) -> Validated:
    home, now = into.homes[tree], StackNow(into.writing(tree).stack)
    contents = Contents(branch.shelf, home, branch.layers, tree)
    since = branch.since(tree)
    changes = [
        replace(net, ancestor=Ancestor(state=now.state(net.path))) if net.is_ephemeral else net
        for net in net_changes(branch.layers, tree, branch.forked_at)
    ]
    validated = Validation(
        home,
        now,
        changes,
        content=functools.partial(branch.content, tree),
        since=home.newest_landing() if since is None else since,
        before=lambda net: contents.of(net.path, net.ancestor.state),
    ).result()
    if into.terms.isolation is Isolation.STRICT and since is not None:
        validated.conflicts += strict_conflicts(home, since, into.changeset, into.terms.reads)
    return validated


def _explained(conflict: Conflict, into: Into) -> Conflict:
    """A conflict, with the step that was first, where it was one of the changeset that was to be merged into."""
    if conflict.detail or conflict.winner is not None:
        return conflict
    for layer in reversed(into.layers):
        for home, entries in zip(into.homes, layer.trees, strict=True):
            if home.root == conflict.root and any(entry.path == conflict.path for entry in entries):
                name = spell(layer.name.encode())
                return replace(conflict, detail=f"step {layer.number} ({name}) of {into.changeset} has changed it")
    return conflict


class StackNow:
    """The view of a changeset, its open step included."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def state(self, path: bytes) -> PathState | None:
        found = self._stack.find(path)
        state = self._stack.state(path)
        is_dark = state is not None and state.kind is PathKind.FILE and state.digest.startswith("stat:")
        if found is not None and is_dark and beneath(found.where, self._stack.root) is None:
            return Delta.file_state(found.where)
        return state

    def content(self, path: bytes) -> bytes:
        return self._stack.content(path)

    def change_time(self, path: bytes) -> int:
        """It is never landed by this: nobody asks for it."""
        return 0

    def inside(self, folder: bytes) -> Iterator[bytes]:
        found = self._stack.find(folder)
        if found is not None and found.is_folder:
            yield from (join(folder, name) for name in self._stack.names(found))


def _write(branch: Branch, into: Into, tree: int, validated: Validated) -> None:
    """Make the changes in the order in which a landing makes them."""
    writing = into.writing(tree)
    nets = {net.path: net for net in net_changes(branch.layers, tree, branch.forked_at)}
    for act in acts_for(validated.wanted):
        if act.do in {Do.TAKE, Do.TAKE_FOLDER}:
            writing.take_out(act.path)
        elif act.new is None:
            raise AssertionError(act)
        elif act.do is Do.MAKE:
            writing.lay_folder(act.path)
        elif act.do in {Do.PUT, Do.SWAP}:
            _put(branch, writing, tree, act, nets[act.path], validated)
        else:
            writing.finish_folder(act.path, act.new.mode, act.new.mtime_ns if act.do is Do.FINISH else None)


def _put(branch: Branch, writing: Writing, tree: int, act: Act, net: Net, validated: Validated) -> None:
    state = act.new
    if state is None:
        raise AssertionError(act)
    merged = validated.merged.get(act.path)
    if merged is not None:
        writing.put(act.path, merged, state.mode, state.mtime_ns)
    elif act.path in validated.from_tree:
        writing.chmod(act.path, state.mode)
    else:
        where = branch.where(tree, net)
        with as_sealed(branch.shelf, net.layer, act.path):
            if state.kind is PathKind.FILE and Delta.file_state(where).digest != state.digest:
                raise damaged(branch.shelf, net.layer, act.path)
            found = FoundPath(where, os.lstat(where))
        writing.put(act.path, found, state.mode, state.mtime_ns)
