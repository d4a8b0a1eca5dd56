"""Taking a landing back: a changeset that wants each path as it was, and knows each path as the landing left it.

It lands by the same rules as any other. What nobody touched since goes back; what somebody changed since is merged, or
is in conflict, and then nothing is taken back and a person is needed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from amends.changeset.disk import whiteouts
from amends.changeset.disk.access import access_of, give_access
from amends.changeset.disk.disk import Disk, Sync, spot
from amends.changeset.disk.read import about_path, state_at
from amends.changeset.layers.contents import Contents
from amends.changeset.layers.seal import sync_layer
from amends.changeset.layers.stack import FoundPath
from amends.changeset.layers.writing import copy_one
from amends.changeset.model import codec
from amends.changeset.model.landing_plan import Do, Plan, TreePlan
from amends.changeset.model.model import (
    Ancestor,
    ChangesetRecord,
    Layer,
    LayerEntry,
    LayerStart,
    Life,
    PathKind,
    PathState,
    Terms,
    Totals,
)
from amends.changeset.model.paths import parents, spell
from amends.changeset.store.home import Home, landed_folder, upper_of, write_record
from amends.changeset.store.objects import Objects
from amends.changeset.store.plans import load_plan
from amends.changeset.store.records import ChangesetFolder
from amends.clock import Clock
from amends.errors import ChangesetDamagedError, ChangesetLifeError


def plan_of_landing(home: Home, landing: str) -> Plan:
    """Raises ChangesetLifeError if the landing is not known here, or what it replaced is no longer kept."""
    plan = load_plan(home, landed_folder(home.path, codec.name_of(landing)))
    if plan is None:
        raise ChangesetLifeError(
            f"landing {landing} of {spell(home.root)} cannot be taken back: it is not known, or it was pruned; "
            "put back by hand what it changed"
        )
    return plan


def make_inverse(
    homes: Sequence[Home], plan: Plan, *, id: str, terms: Terms, clock: Clock, disk: Disk
) -> ChangesetFolder:
    """Write the inverse down as a changeset with one sealed layer. It is there when its record is, which comes last."""
    shelf = ChangesetFolder(homes[0], id, disk)
    now = clock.now()
    begun = LayerStart(
        changeset=id,
        number=1,
        name=f"take back {plan.name or plan.changeset}",
        at=now,
        since_ns=tuple(0 for _ in homes),
        landings=tuple(tree.sequence for tree in plan.trees),
    )
    record = ChangesetRecord(
        id=id,
        name=f"inverse of {plan.name or plan.changeset}",
        roots=tuple(home.root for home in homes),
        life=Life.ACTIVE,
        terms=terms,
        opened_at=now,
        inverse_of=plan.id,
    )
    disk.remove_all(shelf.folder)  # what a kill left of the same
    folder = shelf.layer_folder(1)
    for each in (shelf.folder, shelf.layers_folder, folder):
        disk.make_folder(spot(each))
    trees: list[tuple[LayerEntry, ...]] = []
    for number, tree in enumerate(plan.trees):
        upper = upper_of(folder, number)
        disk.make_folder(spot(upper))
        disk.chmod_folder(spot(upper), os.stat(tree.root).st_mode & 0o7777)
        trees.append(tuple(_entries(plan, tree, upper)))
        _keep_landed(homes, plan, number, trees[-1], disk)
        sync_layer(disk, upper)
    disk.sync_folder(spot(folder), Sync.LAYER_FOLDERS)
    totals = Totals(files=sum(len(entries) for entries in trees))
    layer = Layer(begun=begun, trees=tuple(trees), sealed_at=now, provider="inverse", totals=totals)
    write_record(disk, folder, b"sealed.json", codec.layer_fields(layer))
    shelf.make(record)
    return shelf


def _keep_landed(homes: Sequence[Home], plan: Plan, tree: int, entries: Sequence[LayerEntry], disk: Disk) -> None:
    """Have the contents that the landing left, where they can still be found: a merge needs them."""
    shelf = ChangesetFolder(homes[0], plan.changeset, disk)
    contents = Contents(shelf, homes[tree], shelf.layers(), tree)
    for entry in entries:
        if entry.before is not None and entry.before.kind is PathKind.FILE:
            content = contents.of(entry.path, entry.before)
            if content is not None:
                Objects(homes[tree]).put(content, entry.before.digest)


def _entries(plan: Plan, tree: TreePlan, upper: bytes) -> Iterator[LayerEntry]:
    undo = landed_folder(tree.home, plan.id) + b"/undo"
    kept: dict[bytes, bytes] = {}
    old: dict[bytes, PathState | None] = {}
    new: dict[bytes, PathState | None] = {}
    for act in tree.acts:
        if act.do is Do.FINISH:
            continue
        old.setdefault(act.path, act.old)
        new[act.path] = act.new
        if act.do in {Do.TAKE, Do.SWAP}:
            kept[act.path] = undo + b"/%d" % act.number
            old[act.path] = state_at(spot(kept[act.path])) or act.old
    for path in sorted(old):
        _lay(path, old[path], kept.get(path), upper)
        yield LayerEntry(path=path, state=old[path], before=new[path], ancestor=Ancestor(state=new[path]))


def _lay(path: bytes, state: PathState | None, kept: bytes | None, upper: bytes) -> None:
    """Put a path into the layer's folder, as a view would need it."""
    target = upper + b"/" + path
    if _is_hidden(path, upper):
        if state is None:
            return
        raise ChangesetDamagedError(f"a landing replaced {spell(path)}, and something above it that was no folder")
    for folder in reversed(list(parents(path))):
        if about_path(upper + b"/" + folder) is None:
            os.mkdir(upper + b"/" + folder, 0o755)
    if state is None:
        whiteouts.make_whiteout(target)
    elif state.kind is PathKind.FOLDER:
        if about_path(target) is None:
            os.mkdir(target)
        os.chmod(target, state.mode)
    elif kept is not None:
        copy_one(FoundPath(kept, os.lstat(kept)), target)
        access = access_of(spot(kept))
        if access is not None:  # as it was, if it has to be made anew
            give_access(spot(target), access, state.mode)


def _is_hidden(path: bytes, upper: bytes) -> bool:
    for folder in parents(path):
        about = about_path(upper + b"/" + folder)
        if about is not None and not stat.S_ISDIR(about.st_mode):
            return True
    return False
