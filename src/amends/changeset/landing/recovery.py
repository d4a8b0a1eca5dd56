"""Bringing a landing to one of its two ends, whoever began it and wherever it was interrupted.

A landing has two bits, each a file that appears by a rename. `plan.json`: it is decided, and will be done. `aborted`:
somebody else was faster, and it will be taken back. What is on disk says what is left to do:

    no plan           nothing was touched        the staged files are thrown away
    plan              all or part of it is done  the rest is done; if somebody was faster meanwhile, it is aborted
    plan, aborted     part of it is undone       the rest is undone, and it is thrown away
    plan, in the log  all of it is done          it is moved out of the way
    in landed/        it is over                 nothing

A landing in several trees has one plan, in the home of the first; the others' folders say where. It is over when the
first one's folder has moved, which it does last.

Whoever opens a changeset, seals a layer or lands does this first. A landing whose process is alive holds the lock.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence

from amends.changeset.disk.disk import Disk, Sync, opened, spot
from amends.changeset.disk.read import content_at
from amends.changeset.landing.apply import Applying
from amends.changeset.landing.displaced import holds_held
from amends.changeset.model import codec
from amends.changeset.model.codec import number, text
from amends.changeset.model.landing_plan import Plan, TreePlan, log_fields, plan_fields
from amends.changeset.model.model import Life
from amends.changeset.model.paths import spell, unspell
from amends.changeset.store.home import Home, landed_folder, landing_folder, throw_away, write_record
from amends.changeset.store.plans import ABORTED, first_folder, landing_room, load_plan
from amends.changeset.store.records import ChangesetFolder
from amends.errors import ChangesetBusyError, LandingStuckError


def recover(homes: Sequence[Home], disk: Disk, *, wait: bool) -> None:
    """Settle every landing that a dead process left in these trees. Those of living ones are left to them."""
    for home in homes:
        for name in _names(home.within(b"landings")):
            folder = home.within(b"landings", name)
            try:
                with contextlib.ExitStack() as locks:
                    for each in _involved(home, folder):
                        locks.enter_context(each.locked(wait=wait))
                    settle(home, codec.name_of(os.fsdecode(name)), disk)
            except ChangesetBusyError:
                continue


def _names(folder: bytes) -> list[bytes]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _involved(home: Home, folder: bytes) -> list[Home]:
    """The homes that a landing takes part in, in the order in which everybody locks them."""
    plan = load_plan(home, folder)
    trees = () if plan is None else plan.trees
    found = {home.path: home} | {tree.home: Home(tree.root, tree.home) for tree in trees}
    return [found[path] for path in sorted(found)]


def settle(home: Home, id: str, disk: Disk) -> None:
    """Bring one landing to its end. The locks of its trees are held."""
    folder = landing_folder(home.path, id)
    if not os.path.isdir(folder):
        return
    first = first_folder(folder)
    if first != folder and not os.path.isdir(os.path.dirname(first)):
        raise LandingStuckError(
            f"landing {id} in {spell(home.root)} is not finished, and its plan is in {spell(first)}, which is not "
            "there; bring that directory back"
        )
    plan = load_plan(home, folder)
    if plan is None:
        discard_folder(home, id, disk)
        return
    try:
        if is_logged(plan):
            retire(plan, disk)
        elif os.path.exists(first + b"/aborted") or carry_out(plan, disk) is not None:
            abort(plan, disk)
        else:
            retire(plan, disk)
    except OSError as exc:
        raise LandingStuckError(
            f"landing {id} in {spell(home.root)} can be brought neither forward nor back: {exc.strerror} "
            f"({exc.filename}); what it replaced is in {spell(folder)}/undo"
        ) from exc


def carry_out(plan: Plan, disk: Disk) -> bytes | None:
    """Do what the plan says, in all trees. The answer is a path where somebody else was faster."""
    for tree in plan.trees:
        if not _is_retired(plan, tree):
            with Applying(tree, disk) as applying:
                raced = applying.forward()
                if raced is not None:
                    return raced
    for tree in plan.trees:
        if not _is_retired(plan, tree):
            with Applying(tree, disk) as applying:
                applying.sync()
    for tree in plan.trees:
        if not _is_retired(plan, tree):
            with Applying(tree, disk) as applying:
                late = applying.touched_late()
                if late is not None:
                    return late
    return None


def abort(plan: Plan, disk: Disk) -> tuple[bytes, ...]:
    """Take everything back. The answer: paths that somebody wrote over ours meanwhile, and which stay theirs."""
    first = landing_folder(plan.trees[0].home, plan.id)
    if not os.path.exists(first + b"/aborted"):
        syncs = (Sync.PLAN_FILE, Sync.PLAN_FOLDER)
        write_record(disk, first, b"aborted", {"id": plan.id}, syncs=syncs)
    left: list[bytes] = []
    is_settled = True
    for tree in reversed(plan.trees):
        if os.path.isdir(landing_folder(tree.home, plan.id)):
            with Applying(tree, disk) as applying:
                applying.back()
                applying.sync()
                left += applying.left
                is_settled &= applying.is_settled()
    for tree in reversed(plan.trees):
        discard_folder(Home(tree.root, tree.home), plan.id, disk, keep=bool(left) or not is_settled)
    return tuple(left)


def discard_folder(home: Home, id: str, disk: Disk, *, keep: bool = False) -> None:
    """Throw a landing's folder away, and its room if that is in the tree.

    One that met other people's work on its way back, or whose files somebody still has open, is kept beside those that
    landed: see late_writes.py.
    """
    folder = landing_folder(home.path, id)
    if not os.path.isdir(folder):
        return
    room, time = _room_of(home, id, folder)
    if room != folder and os.path.isdir(room):
        if keep and holds_held(room):
            return
        if keep:
            _bring_home(room, folder, disk)
        disk.remove_all(room)
    if time is not None:
        disk.set_time(spot(os.path.dirname(room)), time)
    if keep:
        disk.rename(spot(folder), spot(landed_folder(home.path, id + ABORTED.decode())))
    else:
        throw_away(disk, home, folder, b"landing." + id.encode())
    disk.sync_folder(spot(home.within(b"landings")), Sync.ABORTED)


def _room_of(home: Home, id: str, folder: bytes) -> tuple[bytes, int | None]:
    """Where a landing has its room, and, if that is in the tree, the time that the tree's root had before."""
    path = folder + b"/begun.json"
    try:
        said = codec.loads(content_at(path), spell(path))
    except FileNotFoundError:
        return folder, None
    room = landing_room(home, id, unspell(text(said["room"])))
    return room, None if room == folder else number(said["time"])


def _is_retired(plan: Plan, tree: TreePlan) -> bool:
    return not os.path.isdir(landing_folder(tree.home, plan.id)) and os.path.isdir(landed_folder(tree.home, plan.id))


def is_logged(plan: Plan) -> bool:
    """Whether it is over in the trees, for good."""
    leading = plan.trees[0]
    return os.path.exists(_log_of(leading))


def _log_of(tree: TreePlan) -> bytes:
    return tree.home + b"/log/%d.json" % tree.sequence


def retire(plan: Plan, disk: Disk) -> None:
    """Write down that it landed, and move it out of the way, the first tree's folder last.

    Its log was written when it was staged, so that a full disk cannot keep it from being moved into its place. That is
    waited for, and is what counts: a landing that is in the log is never done or undone again. The move of the folder
    need not be waited for.
    """
    for tree in plan.trees:
        if not os.path.exists(_log_of(tree)):
            disk.rename(spot(landing_folder(tree.home, plan.id) + b"/log.json"), spot(_log_of(tree)))
            disk.sync_folder(spot(tree.home + b"/log"), Sync.RECORD_FOLDER)
    first = plan.trees[0]
    shelf = ChangesetFolder(Home(first.root, first.home), plan.changeset, disk)
    if shelf.is_there and shelf.record().life is not Life.LANDED:
        shelf.mark_landed(plan.at, plan.id)
    for tree in reversed(plan.trees):
        if _is_retired(plan, tree):
            continue
        folder = landing_folder(tree.home, plan.id)
        if tree.room != folder:
            if holds_held(tree.room):
                return  # what they write now would be lost with the room: it is moved by whoever comes next
            _bring_home(tree.room, folder, disk)
        disk.rename(spot(folder), spot(landed_folder(tree.home, plan.id)))


def _bring_home(room: bytes, folder: bytes, disk: Disk) -> None:
    """Copy what was replaced out of the tree, to where it is kept; then the room can go."""
    if not os.path.isdir(folder + b"/undo"):
        _copy_home(room + b"/undo", folder + b"/undo.new", disk)
        disk.rename(spot(folder + b"/undo.new"), spot(folder + b"/undo"))
    disk.remove_all(room)


def _copy_home(undo: bytes, kept: bytes, disk: Disk) -> None:
    disk.remove_all(kept)
    disk.make_folder(spot(kept))
    for name in os.listdir(undo):
        source, target = undo + b"/" + name, spot(kept + b"/" + name)
        about = os.lstat(source)
        if stat.S_ISREG(about.st_mode):
            with opened(spot(source), os.O_RDONLY | os.O_CLOEXEC) as file:
                disk.copy(file, target, stat.S_IMODE(about.st_mode))
            disk.set_time(target, about.st_mtime_ns)
        elif stat.S_ISLNK(about.st_mode):
            disk.symlink(os.readlink(source), target)


def stage_log(plan: Plan, tree: TreePlan, disk: Disk) -> None:
    kept = landed_folder(tree.home, plan.id) + b"/undo"
    syncs = (Sync.PLAN_FILE, Sync.STAGED_FOLDER)
    write_record(disk, landing_folder(tree.home, plan.id), b"log.json", log_fields(plan, tree, kept), syncs=syncs)


def seal_plan(plan: Plan, disk: Disk) -> None:
    """The decision: from here on the landing will be done."""
    folder = landing_folder(plan.trees[0].home, plan.id)
    write_record(disk, folder, b"plan.json", plan_fields(plan), syncs=(Sync.PLAN_FILE, Sync.PLAN_FOLDER))
