"""A copy of the tree that tools may do anything with; what they changed is found by a scan of its stats.

`clone` shares the files' blocks with the tree, where the file system can; `copy` copies them, within a budget. With
namespaces the copy is bound over the tree's own path for each command; without, tools run at the copy's path.

The scan believes that a file is unchanged if its inode, size, mode and both times are. A file changed within a tick of
the scan could have the same times afterwards: such files are compared by content the next time.

The copy is of one moment. What others land in the tree later does not show in it, and a path's ancestor is what it was
at that moment: see `begin`.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeAlias, cast

from amends.changeset.disk import whiteouts
from amends.changeset.disk.disk import Disk
from amends.changeset.disk.read import about_path
from amends.changeset.layers.ancestors import moment
from amends.changeset.layers.limits import too_deep
from amends.changeset.layers.stack import FoundPath, Stack, stack_over
from amends.changeset.layers.writing import Writing, copy_one, copy_times
from amends.changeset.model.codec import path_of
from amends.changeset.model.paths import DEEPEST, LONGEST_PATH, depth, join, parent, parents, spell
from amends.changeset.store.home import room_of, upper_of
from amends.changeset.views.confining import kept_in
from amends.changeset.views.protocol import Budget, ViewGround
from amends.errors import ChangesetDamagedError, LimitError, ViewError
from amends.process.running import Launch, Mount, Running

Signature: TypeAlias = "tuple[int, ...] | None"
"""None: changed so lately that its times prove nothing."""

_TICK_NS: Final = 10_000_000


class Workspace:
    """The copy of one tree, and what its stats were when it was last known."""

    def __init__(self, ground: ViewGround, tree: int) -> None:
        self._ground = ground
        self._tree = tree
        self.path = ground.folder + b"/ws/%d" % tree
        self._record = self.path + b".json"
        self._known: dict[bytes, Signature] = {}
        self._collected: list[bytes] = []
        self.is_known = False
        self.since_ns = 0
        self.landing = 0

    @property
    def home(self) -> bytes:
        return self._ground.homes[self._tree].path

    def _source(self) -> Stack:
        return stack_over(self._ground.homes[self._tree], self._ground.lowers(self._tree))

    def have(self) -> None:
        """Have the copy, as the layers and the tree say; put right what a killed step left in it."""
        if self.is_known and not self._shows_ours():
            return
        if self._load() and not self._shows_ours():
            self.restore(frozenset())
        else:
            self.make()

    def _shows_ours(self) -> bool:
        """Whether it holds a copy of what is amends' own: of a journal that nobody knew of when it was made."""
        hidden = self._ground.homes[self._tree].hidden
        return any(about_path(self._at(path)) is not None for path in hidden.paths)

    def make(self) -> None:
        Disk().remove_all(self.path)
        self.since_ns, self.landing = moment(self.home), self._ground.homes[self._tree].newest_landing()
        os.makedirs(self.path, 0o700)
        source = self._source()
        folders: list[tuple[FoundPath, bytes]] = []
        budget = _Spent(self._ground.budget, source.root)
        for path, found in source.walk(b""):
            target = self.path + b"/" + path
            budget.spend(found)
            if found.is_folder:
                os.mkdir(target, 0o700)
                folders.append((found, target))
            elif found.is_link or stat.S_ISREG(found.about.st_mode):
                copy_one(found, target)
        for found, target in reversed(folders):
            copy_times(found, target)
        self.settle()

    def settle(self) -> None:
        """Believe what is there now. What was written and is the same again gets its old time back."""
        source = self._source()
        for path in self._collected:
            found = source.find(path)
            if found is not None and not found.is_folder and about_path(self._at(path)) is not None:
                time = found.about.st_mtime_ns
                os.utime(self._at(path), ns=(time, time), follow_symlinks=False)
        self._collected = []
        self._known, self.is_known = dict(self._scan()), True
        self._save()

    def _scan(self) -> Iterator[tuple[bytes, Signature]]:
        fresh = moment(self.home) - _TICK_NS
        yield from self._scan_folder(b"", fresh)

    def _scan_folder(self, folder: bytes, fresh: int) -> Iterator[tuple[bytes, Signature]]:
        left = [folder]
        while left:
            here = left.pop()
            with os.scandir(self._at(here)) as inside:
                found = [(each.name, each.stat(follow_symlinks=False)) for each in inside]
            for name, about in found:
                path = join(here, name)
                if stat.S_ISDIR(about.st_mode):
                    if path not in self._known and (depth(path) >= DEEPEST or len(self._at(path)) > LONGEST_PATH):
                        raise too_deep(path)
                    yield path, (about.st_mode,)
                    left.append(path)
                else:
                    times = (about.st_mode, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
                    yield path, None if about.st_ctime_ns >= fresh else times

    def changed(self) -> tuple[list[bytes], list[bytes]]:
        """Paths that may be new or different, and those that are gone; both with folders first."""
        now = dict(self._scan_exactly())
        different = [path for path, signature in now.items() if self._known.get(path) != signature]
        gone = [path for path in self._known if path not in now]
        return sorted(different), sorted(gone)

    def _scan_exactly(self) -> Iterator[tuple[bytes, Signature]]:
        """Signatures as they are; one that is not known cannot be equal to any."""
        return self._scan_folder(b"", 2**63)

    def collect(self, upper: bytes) -> frozenset[bytes]:
        """Write what was changed into a layer, in its format."""
        for name in os.listdir(upper):  # from a seal that a limit stopped
            Disk().remove_all(upper + b"/" + name)
        different, gone = self.changed()
        self._collected = different
        for path in different:
            found = Stack((self.path,), self.path).find(path)
            if found is not None:
                self._collect_one(path, found, upper)
        below = self._source()
        for path in gone:
            if below.find(path) is not None and not self._is_hidden(path, upper):
                self._have_folders(parent(path), upper)
                whiteouts.make_whiteout(upper + b"/" + path)
        return frozenset(path for path in (*different, *gone) if path in self._known)

    def _collect_one(self, path: bytes, found: FoundPath, upper: bytes) -> None:
        if found.is_folder:
            self._have_folders(path, upper)
            return
        self._have_folders(parent(path), upper)
        target = upper + b"/" + path
        if found.is_link or stat.S_ISREG(found.about.st_mode):
            copy_one(found, target)
        else:
            with contextlib.suppress(OSError):  # it is refused when the layer is sealed; a stand-in is enough for that
                os.mkfifo(target)

    def _have_folders(self, folder: bytes, upper: bytes) -> None:
        above = [folder, *parents(folder)] if folder else []
        for each in reversed(above):
            if not os.path.isdir(upper + b"/" + each):
                os.mkdir(upper + b"/" + each)
                about = os.lstat(self._at(each))
                os.chmod(upper + b"/" + each, stat.S_IMODE(about.st_mode))

    @staticmethod
    def _is_hidden(path: bytes, upper: bytes) -> bool:
        """Whether something above it in the layer is gone, or is no folder any more."""
        above = parent(path)
        while above:
            about = about_path(upper + b"/" + above)
            if about is not None and not stat.S_ISDIR(about.st_mode):
                return True
            above = parent(above)
        return False

    def restore(self, dropped: frozenset[bytes]) -> None:
        """Make the copy what the layers and the tree say, where it differs from what was last known, and in these."""
        try:
            self._restore(dropped)
        except (PermissionError, LimitError):  # it may not be written, or goes too deep: the whole copy is made anew
            self.make()

    def _restore(self, dropped: frozenset[bytes]) -> None:
        different, gone = self.changed()
        source = self._source()
        concerned = sorted({*different, *gone, *dropped})
        for path in reversed(concerned):
            self._take_out(path, source)
        for path in concerned:
            found = source.find(path)
            if found is not None and about_path(self._at(path)) is None:
                self._put_back(path, found)
        self._restore_folders(concerned, source)
        self.settle()

    def _take_out(self, path: bytes, source: Stack) -> None:
        """Remove what is at a path, but a folder that is to stay one."""
        if Stack((self.path,), self.path).find(path) is None:
            return  # nothing, or something above it is a link by now, and that is what goes
        about = os.lstat(self._at(path))
        wanted = source.find(path)
        if not stat.S_ISDIR(about.st_mode):
            os.unlink(self._at(path))
        elif wanted is None or not wanted.is_folder:
            Disk().remove_all(self._at(path))

    def _put_back(self, path: bytes, found: FoundPath) -> None:
        os.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
        if found.is_folder:
            os.mkdir(self._at(path))
            copy_times(found, self._at(path))
        elif found.is_link or stat.S_ISREG(found.about.st_mode):
            copy_one(found, self._at(path))

    def _restore_folders(self, paths: list[bytes], source: Stack) -> None:
        """Modes and times of folders, inner ones first: what was done in them has moved their times."""
        folders = {above for path in paths for above in (path, parent(path)) if above}
        for folder in sorted(folders, reverse=True):
            found = source.find(folder)
            if found is not None and found.is_folder and os.path.isdir(self._at(folder)):
                copy_times(found, self._at(folder))

    def _at(self, path: bytes) -> bytes:
        return self.path + b"/" + path if path else self.path

    def _save(self) -> None:
        known = {spell(path): None if each is None else list(each) for path, each in self._known.items()}
        layers = self._ground.layers()
        whole = {"since_ns": self.since_ns, "landing": self.landing, "layers": layers, "known": known}
        beside = self._record + b".new"
        with open(beside, "w", encoding="ascii") as file:
            json.dump(whole, file)
        os.rename(beside, self._record)

    def _load(self) -> bool:
        """False: there is no copy, it shows other layers, or nothing certain is known of it."""
        try:
            with open(self._record, encoding="ascii") as file:
                whole = json.load(file)
            known = cast("dict[str, list[int] | None]", whole["known"])
            self.since_ns, self.landing = int(whole["since_ns"]), int(whole["landing"])
            self._known = {path_of(path): None if each is None else tuple(each) for path, each in known.items()}
            shown = tuple(cast("list[str]", whole["layers"]))
        except (OSError, ValueError, KeyError, TypeError, ChangesetDamagedError):
            return False
        return shown == self._ground.layers() and os.path.isdir(self.path)


class _Spent:
    def __init__(self, budget: Budget | None, root: bytes) -> None:
        self._budget = budget
        self._root = root
        self._files = 0
        self._bytes = 0

    def spend(self, found: FoundPath) -> None:
        if self._budget is None:
            return
        self._files += 1
        self._bytes += found.about.st_size if stat.S_ISREG(found.about.st_mode) else 0
        if self._files > self._budget.files or self._bytes > self._budget.bytes:
            raise ViewError(
                f"{spell(self._root)} is larger than a copy may be ({self._budget.files} files, "
                f"{self._budget.bytes >> 20} MiB); raise the budget, or use another provider"
            )


class CopyView:
    """Works on copies of the trees; where blocks can be shared it is called `clone`, and is asked for by that name."""

    def __init__(self, ground: ViewGround, name: str = "copy") -> None:
        self.name = name
        self.ground = ground
        self.workspaces = tuple(Workspace(ground, tree) for tree in range(len(ground.homes)))

    def begin(self) -> tuple[tuple[int, int], ...]:
        os.makedirs(self.ground.folder + b"/ws", 0o700, exist_ok=True)
        for each in self.workspaces:
            each.have()
        return tuple((each.since_ns, each.landing) for each in self.workspaces)

    def writing(self, layer: bytes, tree: int) -> Writing:
        path = self.workspaces[tree].path
        return Writing(Stack((path,), self.ground.homes[tree].root), room_of(layer))

    def start(self, layer: bytes, asked: Launch) -> Running:
        trees = [(home.root, each.path) for home, each in zip(self.ground.homes, self.workspaces, strict=True)]
        whole = kept_in(asked, self.ground)
        if not self.ground.namespaces:
            return Running(replace(whole, namespaces=False, cwd=_moved(asked.cwd, trees)), self.ground.clock)
        mounts = tuple(Mount(target=root, bind=path) for root, path in trees)
        return Running(replace(whole, mounts=mounts, userns=self.ground.userns), self.ground.clock)

    def collect(self, layer: bytes) -> tuple[frozenset[bytes], ...]:
        return tuple(each.collect(upper_of(layer, tree)) for tree, each in enumerate(self.workspaces))

    def settle(self) -> None:
        for each in self.workspaces:
            each.settle()

    def restore(self, dropped: tuple[frozenset[bytes], ...]) -> None:
        for each, paths in zip(self.workspaces, dropped, strict=True):
            if each.is_known:
                each.restore(paths)


def _moved(cwd: bytes, trees: list[tuple[bytes, bytes]]) -> bytes:
    """The folder in the copy that stands for this one."""
    for root, path in trees:
        if cwd == root or cwd.startswith(root + b"/"):
            return path + cwd[len(root) :]
    return cwd
