"""Landing: the one moment at which a changeset touches a tree. All of it is there afterwards, or nothing.

turn       wait in the tree's line
verify     run the user's command in the view, on the tree of now, with what would be merged merged
lock       the trees, and settle whatever a dead process left
validate   each path against the tree of now; any conflict, and nothing more is done
stage      everything new, on the tree's file system, and wait until it is on disk
seal       the plan: the decision
apply      by changing places; what came out has to be what was validated, or all is taken back and tried again
sync       the tree's folders, and only then say that it landed
retire     into the log; what was replaced is kept, for the inverse

killed or powered off before the seal     the tree was not touched
killed or powered off after it            whoever comes next finishes it, or takes it back: see recovery.py
somebody edits a path meanwhile           their edit stays; the landing is taken back, validated and tried again
a system call fails (full, not allowed)   it is taken back, and the error says so
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final, TypeAlias

from amends.changeset.disk.access import access_of, give_access
from amends.changeset.disk.disk import Disk, DiskName, Sync, opened, spot
from amends.changeset.disk.os_errors import raise_ours, said
from amends.changeset.disk.read import about_at, folder_of, open_root, readable
from amends.changeset.landing.recovery import abort, carry_out, is_logged, recover, retire, seal_plan, stage_log
from amends.changeset.landing.validate import TreeNow, Validated, Validation, strict_conflicts
from amends.changeset.layers import limits
from amends.changeset.layers.net import Net, net_changes
from amends.changeset.layers.report import Conflict, Conflicted, Landed, Unverified
from amends.changeset.model.landing_plan import STAGED, Act, Plan, TreePlan, acts_for, touched_folders
from amends.changeset.model.model import Isolation, Layer, Life, PathKind, Terms
from amends.changeset.model.paths import name as name_of, spell
from amends.changeset.store.home import Home, landed_folder, landing_folder, write_record
from amends.changeset.store.objects import Objects
from amends.changeset.store.plans import ABORTED, new_room
from amends.changeset.store.queue import turn
from amends.changeset.store.records import ChangesetFolder, as_sealed, content_in, damaged, sealed_content
from amends.clock import Clock
from amends.dataclass import dataclass
from amends.errors import ChangesetBusyError, LandingStuckError, LimitError
from amends.process.running import Ran

Ended: TypeAlias = "Landed | Conflicted | Unverified"
Verify: TypeAlias = Callable[[Sequence[Validated]], Ran]

TRIES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingRequest:
    """A changeset that is to land."""

    shelf: ChangesetFolder
    name: str
    homes: tuple[Home, ...]
    layers: tuple[Layer, ...]
    terms: Terms
    clock: Clock
    landing: str | None = None
    """The id that its landing shall have."""

    @property
    def disk(self) -> Disk:
        return self.shelf.disk

    def since(self, tree: int) -> int:
        """The newest landing that the changeset's first layer had seen."""
        return self.layers[0].begun.landings[tree] if self.layers else self.homes[tree].newest_landing()

    def content(self, tree: int, net: Net) -> bytes:
        return sealed_content(self.shelf, net.layer, tree, net.path, net.ours)

    def opener(self, tree: int) -> Callable[[bytes], AbstractContextManager[int]]:
        """A function that opens what would land at a path. ChangesetDamagedError: its layer does not have it."""
        layers = {net.path: net.layer for net in net_changes(self.layers, tree)}

        @contextlib.contextmanager
        def opening(path: bytes) -> Generator[int]:
            where = content_in(self.shelf, layers[path], tree, path)
            with as_sealed(self.shelf, layers[path], path), readable(where) as file:
                yield file

        return opening


def check(case: LandingRequest) -> list[Validated]:
    """Validate a landing as if it were done now. Raises LimitError where it would land over files of amends."""
    found: list[Validated] = []
    for tree, home in enumerate(case.homes):
        _require_none_of_ours(home, net_changes(case.layers, tree))
        root = open_root(home.root)
        try:
            content = functools.partial(case.content, tree)
            changes = net_changes(case.layers, tree)
            validated = Validation(home, TreeNow(root), changes, content=content, since=case.since(tree)).result()
        finally:
            os.close(root)
        if case.terms.isolation is Isolation.STRICT:
            seen = {
                entry.path: entry.ancestor.state
                for layer in case.layers
                for entry in layer.trees[tree]
                if entry.is_rebased and not entry.clash
            }
            validated.conflicts += strict_conflicts(home, case.since(tree), case.shelf.id, case.terms.reads, seen)
        found.append(validated)
    return found


def _require_none_of_ours(home: Home, changes: Sequence[Net]) -> None:
    """Asked before anything of the tree is opened: a journal that is read here would lose its locks."""
    home.look_again()
    hidden = home.hidden
    said = [
        hidden.why_not(net.path, is_folder=net.ours is not None and net.ours.kind is PathKind.FOLDER) for net in changes
    ]
    broken = [each for each in said if each is not None] or list(hidden.why_not_over(net.path for net in changes))
    if broken:
        raise LimitError(f"it cannot land: {limits.said(broken)}", broken=tuple(broken))


def conflicts_of(found: Sequence[Validated]) -> tuple[Conflict, ...]:
    return tuple(conflict for each in found for conflict in each.conflicts)


def land(case: LandingRequest, *, verify: Verify | None, wait_s: float | None) -> Ended:
    """Land it, in its turn."""
    for home in case.homes:
        home.require_root()
    with raise_ours("the landing was not begun"), contextlib.ExitStack() as line:
        for home in _in_order(case.homes):
            line.enter_context(turn(home, changeset=case.shelf.id, name=case.name, clock=case.clock, wait_s=wait_s))
        recover(case.homes, case.disk, wait=True)
        for _ in range(TRIES):
            ended = _try(case, verify)
            if ended is not None:
                return ended
    raise ChangesetBusyError(
        f"{', '.join(spell(home.root) for home in case.homes)}: others change the same files all the time; "
        f"{TRIES} tries were taken back. Try again when they are done"
    )


def _in_order(homes: Sequence[Home]) -> list[Home]:
    return sorted(homes, key=lambda home: home.path)


def _try(case: LandingRequest, verify: Verify | None) -> Ended | None:
    """None: somebody was faster, and nothing was changed."""
    looked: list[Validated] | None = None
    numbers = [home.newest_landing() for home in case.homes]
    if verify is not None:
        looked = check(case)
        _require_no_powers(case, looked)
        if not conflicts_of(looked):
            ran = verify(looked)
            if not ran.ok:
                return Unverified(changeset=case.shelf.id, ran=ran)
    with contextlib.ExitStack() as locks:
        for home in _in_order(case.homes):
            locks.enter_context(home.locked())
        found = check(case)
        _require_no_powers(case, found)
        if conflicts := conflicts_of(found):
            return Conflicted(changeset=case.shelf.id, conflicts=conflicts)
        if looked is not None and _has_moved(looked, found, numbers, case):
            return None
        if not any(each.wanted for each in found):
            case.shelf.move_on(Life.LANDED, case.clock.now())
            return _landed(case, found, id="", sequences=())
        return _applied(case, found)


def _require_no_powers(case: LandingRequest, found: Sequence[Validated]) -> None:
    """Raise LimitError for new content in a file that runs with its owner's powers; what is put back had them."""
    if case.shelf.record().inverse_of is not None:
        return
    for each in found:
        for wanted in each.wanted:
            if broken := limits.power_broken(wanted.path, wanted.old, wanted.new):
                raise LimitError(f"it cannot land: {broken}", broken=(broken,))


def _has_moved(looked: list[Validated], found: list[Validated], numbers: list[int], case: LandingRequest) -> bool:
    moved = [one.seen() != other.seen() for one, other in zip(looked, found, strict=True)]
    return any(moved) or numbers != [home.newest_landing() for home in case.homes]


def _applied(case: LandingRequest, found: list[Validated]) -> Ended | None:
    plan = _planned(case, found)
    with raise_ours("the landing could not be staged"):
        _stage(case, plan, found)
        seal_plan(plan, case.disk)
    try:
        raced = carry_out(plan, case.disk)
    except OSError as exc:
        _abort(plan, case.disk)
        raise said(exc, "the landing was taken back") from exc
    if raced is not None:
        _abort(plan, case.disk)
        return None
    _retire(plan, case.disk)
    return _landed(case, found, id=plan.id, sequences=tuple(tree.sequence for tree in plan.trees))


def _retire(plan: Plan, disk: Disk) -> None:
    try:
        retire(plan, disk)
    except OSError as exc:
        if not is_logged(plan):
            _abort(plan, disk)
            raise said(exc, "the landing was taken back") from exc
        raise LandingStuckError(
            f"landing {plan.id} is in the trees, and could not be written down everywhere: {exc.strerror}; "
            "whoever opens the tree next does that"
        ) from exc


def _abort(plan: Plan, disk: Disk) -> None:
    try:
        abort(plan, disk)
    except OSError as exc:
        raise LandingStuckError(
            f"landing {plan.id} can be brought neither forward nor back: {exc.strerror} ({exc.filename}); "
            "it is tried again by whoever opens the tree next"
        ) from exc


def _landed(case: LandingRequest, found: list[Validated], *, id: str, sequences: tuple[int, ...]) -> Landed:
    merged = {(each.home.path, path) for each in found for path in each.merged}
    return Landed(
        id=id,
        changeset=case.shelf.id,
        sequences=sequences,
        applied=tuple(spell(wanted.path) for each in found for wanted in each.wanted),
        merged=tuple(sorted(spell(path) for _, path in merged)),
        already=tuple(spell(path) for each in found for path in each.already),
    )


def _planned(case: LandingRequest, found: list[Validated]) -> Plan:
    landing = _free_id(case)
    trees: list[TreePlan] = []
    for each in found:
        home = each.home
        acts = acts_for(each.wanted)
        room = new_room(home, landing)
        times = tuple(_times(home.root, touched_folders(acts)))
        number = home.newest_landing() + 1
        trees.append(TreePlan(root=home.root, home=home.path, room=room, sequence=number, acts=acts, times=times))
    return Plan(id=landing, changeset=case.shelf.id, name=case.name, at=case.clock.now(), trees=tuple(trees))


def _free_id(case: LandingRequest) -> str:
    if case.landing is None:
        return case.clock.new_id()
    number, free = 1, case.landing
    while any(_is_taken(home, free) for home in case.homes):
        number += 1
        free = f"{case.landing}.{number}"
    return free


def _is_taken(home: Home, id: str) -> bool:
    kept = landed_folder(home.path, id)
    return any(map(os.path.lexists, (kept, kept + ABORTED, landing_folder(home.path, id))))


def _times(root: bytes, folders: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
    for folder in folders:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            yield folder, os.stat(root + b"/" + folder, follow_symlinks=False).st_mtime_ns


def _stage(case: LandingRequest, plan: Plan, found: list[Validated]) -> None:
    disk = case.disk
    leading = plan.trees[0]
    first = landing_folder(leading.home, plan.id)
    for number, (tree, validated) in enumerate(zip(plan.trees, found, strict=True)):
        folder = landing_folder(tree.home, plan.id)
        disk.make_folder(spot(folder))
        if tree.room != folder or len(plan.trees) > 1:
            time = os.stat(tree.root).st_mtime_ns
            write_record(disk, folder, b"begun.json", {"first": spell(first), "room": spell(tree.room), "time": time})
        disk.sync_folder(spot(os.path.dirname(folder)), Sync.STAGED_FOLDER)
        if tree.room != folder:
            disk.make_folder(spot(tree.room))
            disk.sync_folder(spot(tree.root), Sync.STAGED_FOLDER)
        for each in (b"/staged", b"/undo"):
            disk.make_folder(spot(tree.room + each))
        stage_log(plan, tree, disk)
        _stage_tree(case, number, tree, validated)
        disk.sync_folder(spot(tree.room + b"/staged"), Sync.STAGED_FOLDER)
        if tree.room != folder or tree is not leading:
            disk.sync_folder(spot(tree.room), Sync.STAGED_FOLDER)


def _stage_tree(case: LandingRequest, number: int, tree: TreePlan, validated: Validated) -> None:
    nets = {net.path: net for net in net_changes(case.layers, number)}
    with opened(spot(tree.root), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as root:
        for act in tree.acts:
            if act.do not in STAGED or act.new is None:
                continue
            at = spot(tree.room + b"/staged/%d" % act.number)
            if act.new.kind is PathKind.FOLDER:
                case.disk.make_folder(at)
                continue
            if act.new.kind is PathKind.LINK:
                case.disk.symlink(act.new.target, at)
            else:
                _stage_file(case, number, act, at, nets[act.path], validated, root)
                Objects(validated.home).keep(act.new.digest, at.name, act.new.size)
            case.disk.set_time(at, act.new.mtime_ns)
            if act.new.kind is PathKind.FILE:
                case.disk.sync_file(at, Sync.STAGED_FILES)


def _stage_file(
    case: LandingRequest, tree: int, act: Act, at: DiskName, net: Net, validated: Validated, root: int
) -> None:
    """Have the new file beside the tree: its content, and whose it is, and who may use it, as the tree has that."""
    if act.new is None:
        return
    layered = content_in(case.shelf, net.layer, tree, act.path)
    is_there = act.old is not None and act.old.kind is PathKind.FILE
    with folder_of(root, act.path) if act.old is not None else contextlib.nullcontext(-1) as folder:
        there = DiskName(folder, name_of(act.path))
        about = about_at(there) if folder >= 0 else None
        owner = None if about is None else (about.st_uid, about.st_gid)
        access = access_of(there if is_there else spot(layered))
        is_theirs = act.path in validated.from_tree
        if act.path in validated.merged:
            case.disk.write(at, validated.merged[act.path], act.new.mode, owner)
            digest = act.new.digest
        else:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            intact = contextlib.nullcontext() if is_theirs else as_sealed(case.shelf, net.layer, act.path)
            with intact, opened(there, flags) if is_theirs else readable(layered) as file:
                digest = case.disk.copy(file, at, act.new.mode, owner)
    if access is not None:
        give_access(at, access, act.new.mode)
    if digest != act.new.digest and not is_theirs:
        raise damaged(case.shelf, net.layer, act.path)
