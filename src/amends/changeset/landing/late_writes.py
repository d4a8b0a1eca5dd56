"""Writes to a file after a landing had taken it out of the tree, by whoever still had it open. Only looks.

Nothing is written down about it when it happens, because nobody is there to do that: it is found by looking. What a
landing replaced lies in its folder, and the plan says what that was; where it is something else by now, somebody wrote
to it by a handle from before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from amends.changeset.disk.disk import FOLDER, DiskName, opened, spot
from amends.changeset.disk.read import about_at
from amends.changeset.landing.displaced import SHORT, look
from amends.changeset.model.codec import Fields
from amends.changeset.model.landing_plan import Act, Do, TreePlan
from amends.changeset.model.model import PathKind, same
from amends.changeset.model.paths import spell
from amends.changeset.store.home import Home
from amends.changeset.store.plans import ABORTED, load_plan
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LateWrite:
    """Text of somebody's that is not in the tree. It is kept until it is asked to go: see `prune`."""

    root: str
    path: str
    kept: str
    """Where it is."""
    landing: str
    changeset: str
    name: str
    at: int
    """When the landing was."""

    def data(self) -> Fields:
        return {
            "root": self.root,
            "path": self.path,
            "kept": self.kept,
            "landing": self.landing,
            "changeset": self.changeset,
            "name": self.name,
            "at": self.at,
        }


def late_in(home: Home) -> Iterator[LateWrite]:
    """All that is kept in this tree's home, oldest landing first."""
    if not home.is_made:
        return
    for name in sorted(os.listdir(home.within(b"landed"))):
        yield from late_of(home, home.within(b"landed", name))


def late_of(home: Home, folder: bytes) -> Iterator[LateWrite]:
    """In one landing's folder."""
    plan = load_plan(home, folder)
    tree = None if plan is None else next((tree for tree in plan.trees if tree.home == home.path), None)
    if plan is None or tree is None:
        return
    found = _in_aborted(tree, folder) if folder.endswith(ABORTED) else _in_landed(tree, folder)
    for act, kept in found:
        yield LateWrite(
            root=spell(tree.root),
            path=spell(act.path),
            kept=spell(kept),
            landing=plan.id,
            changeset=plan.changeset,
            name=plan.name,
            at=plan.at,
        )


def _in_landed(tree: TreePlan, folder: bytes) -> Iterator[tuple[Act, bytes]]:
    for act in tree.acts:
        kept = folder + b"/undo/%d" % act.number
        if act.do in {Do.TAKE, Do.SWAP} and os.path.lexists(kept) and not same(look(spot(kept)), act.old):
            yield act, kept
        if act.do is Do.TAKE_FOLDER and _holds(kept):
            yield act, kept


def _holds(folder: bytes) -> bool:
    try:
        return bool(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False


def _in_aborted(tree: TreePlan, folder: bytes) -> Iterator[tuple[Act, bytes]]:
    acts = {act.number: act for act in tree.acts}
    for part in (b"/staged", b"/undo"):
        if not os.path.isdir(folder + part):
            continue
        with opened(spot(folder + part), FOLDER) as held:
            for name in sorted(map(os.fsencode, os.listdir(held))):
                act = acts[int(name.split(b".")[0])]
                if _is_of_interest(act, DiskName(held, name)):
                    yield act, folder + part + b"/" + name


def _is_of_interest(act: Act, at: DiskName) -> bool:
    state = look(at)
    if state is None or same(state, act.new) or (state.kind is PathKind.FOLDER and act.do is Do.MAKE):
        return False
    said = [part.decode() for part in at.name.split(b".")[1:] if len(part) == SHORT]
    return about_at(at) is not None and not any(map(state.digest.startswith, said))
