"""Making a plan's changes in a tree, so that they can be made twice, and taken back.

Nothing is overwritten. A file changes places with the new one, and what came out is looked at: if it is not what was
validated, somebody was faster, and the landing is taken back. What was removed lies in undo/ until the landing is over.
So whatever somebody else writes into the tree, at any moment, is there afterwards.

    act           is done when                        undone by
    take          undo/<n> is there                   moving it back, unless something new is there
    take-folder   undo/<n> is there                   the same
    make, put     staged/<n> is not there             moving it out again, if it is still what we put there
    swap          undo/<n> is there, or staged/<n>    changing places again, if what is there is still ours
                  is not what we staged
    chmod         the mode is the new one             the old mode, if the mode is ours
    finish        (is done again)                     a mode that lets the folder be emptied

What somebody wrote over ours before we could take it back stays: it is theirs. Where both are text, our lines are
taken out of it again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator
from typing import Final, Self

from amends.changeset.disk import syscalls
from amends.changeset.disk.disk import FOLDER, Disk, DiskName, Sync, opened, spot
from amends.changeset.disk.read import about_at, content_of, open_root, reached
from amends.changeset.landing.displaced import at_rest, is_settled, look, settled_by_name, short, weave
from amends.changeset.model.landing_plan import Act, Do, TreePlan, touched_folders
from amends.changeset.model.model import PathState, same
from amends.changeset.model.paths import name, parent
from amends.changeset.store.home import Home
from amends.changeset.store.objects import Objects
from amends.changeset.text.merge import take_out

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOVED: Final = (FileNotFoundError, NotADirectoryError)
"""Somebody took the path, or a folder above it, away."""


class Applying:
    """One tree's part of a plan, on its way. Use as a context: it holds the tree and the room open."""

    def __init__(self, plan: TreePlan, disk: Disk) -> None:
        self.plan = plan
        self._disk = disk
        self._stack = contextlib.ExitStack()
        self._objects = Objects(Home(plan.root, plan.home))
        self.left: list[bytes] = []
        """Paths that somebody wrote over ours before it was taken back."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._root = open_root(self.plan.root)
            stack.callback(os.close, self._root)
            self._staged = stack.enter_context(opened(spot(self.plan.room + b"/staged"), FOLDER))
            self._undo = stack.enter_context(opened(spot(self.plan.room + b"/undo"), FOLDER))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def forward(self) -> bytes | None:
        """Do all that is not done yet. The answer is a path that somebody changed meanwhile; there it has stopped."""
        for act in self.plan.acts:
            try:
                if not self._do(act):
                    return act.path
            except _MOVED:
                return act.path
        return None

    def back(self) -> None:
        """Take back all that was done, newest first."""
        for act in reversed(self.plan.acts):
            with contextlib.suppress(*_MOVED):
                self._undone(act)
        left = {parent(path) for path in self.left}
        for folder, time in self.plan.times:
            if folder not in left:
                with contextlib.suppress(*_MOVED), self._at(folder) as at:
                    self._disk.set_time(at, time)

    def sync(self) -> None:
        """Wait until the tree's folders are on disk."""
        for folder in touched_folders(self.plan.acts):
            with contextlib.suppress(*_MOVED), reached(self._root, folder) as held:
                try:
                    self._disk.sync_folder(DiskName(held, b"."), Sync.TREE_FOLDERS)
                except PermissionError:  # a folder that we may change and not read
                    os.sync()

    def _do(self, act: Act) -> bool:
        """False: somebody was faster. What was done before is not looked for in the tree: it may have moved on."""
        if act.do in {Do.TAKE, Do.TAKE_FOLDER} and about_at(self._undo_spot(act)) is not None:
            return self._is_as_expected(act)
        if act.do in {Do.MAKE, Do.PUT} and about_at(self._staged_spot(act)) is None:
            return True
        if act.do is Do.SWAP and about_at(self._staged_spot(act)) is None:
            return self._is_as_expected(act)
        if act.do is Do.FINISH:
            with contextlib.suppress(*_MOVED), self._at(act.path) as at:
                self._finish(act, at)
            return True
        with self._at(act.path) as at:
            match act.do:
                case Do.TAKE:
                    return self._take(act, at)
                case Do.TAKE_FOLDER:
                    return self._take_folder(act, at)
                case Do.MAKE | Do.PUT:
                    return self._put(act, at)
                case Do.SWAP:
                    return self._swap(act, at)
                case _:
                    return self._chmod(at, act.old, act.new)

    def _is_as_expected(self, act: Act) -> bool:
        """Whether what lies in undo is what was validated."""
        undo = self._undo_spot(act)
        return self._is_empty_folder(undo) if act.do is Do.TAKE_FOLDER else same(at_rest(undo), act.old)

    def _take(self, act: Act, at: DiskName) -> bool:
        self._disk.rename(at, self._undo_spot(act))
        return self._is_as_expected(act)

    def _take_folder(self, act: Act, at: DiskName) -> bool:
        about = about_at(at)
        if about is None or not self._is_empty_folder(at):
            return False
        if not self._may_move(about):
            self._disk.chmod_folder(at, stat.S_IMODE(about.st_mode) | stat.S_IRWXU)
        self._disk.rename(at, self._undo_spot(act))
        return self._is_as_expected(act)

    @staticmethod
    def _may_move(about: os.stat_result) -> bool:
        """A folder's own mode stands in the way of moving it, for all but root."""
        return os.geteuid() == 0 or about.st_mode & stat.S_IRWXU == stat.S_IRWXU

    def _is_empty_folder(self, at: DiskName) -> bool:
        try:
            with opened(at, FOLDER) as folder:
                return not os.listdir(folder)
        except NotADirectoryError:
            return False

    def _put(self, act: Act, at: DiskName) -> bool:
        try:
            self._disk.rename_new(self._staged_spot(act), at)
        except FileExistsError:
            return False
        return True

    def _swap(self, act: Act, at: DiskName) -> bool:
        staged, undo = self._staged_spot(act), self._undo_spot(act)
        if about_at(undo) is not None:  # by linking: the old one is safe, the new one is not there yet
            return self._is_as_expected(act) and self._replace(staged, at)
        if same(look(staged), act.new):
            try:
                self._disk.exchange(staged, at)
            except OSError as exc:
                if not syscalls.is_unsupported(exc):
                    raise
                return self._swap_by_linking(act, at)
        is_expected = same(at_rest(staged), act.old)
        self._disk.rename(staged, undo)
        return is_expected

    def _swap_by_linking(self, act: Act, at: DiskName) -> bool:
        """Where names cannot change places: between the last look and the rename there are some microseconds."""
        self._disk.link(at, self._undo_spot(act))
        return self._is_as_expected(act) and self._replace(self._staged_spot(act), at)

    def _replace(self, staged: DiskName, at: DiskName) -> bool:
        self._disk.rename(staged, at)
        return True

    def _chmod(self, at: DiskName, old: PathState | None, new: PathState | None) -> bool:
        about = about_at(at)
        if about is None or not stat.S_ISDIR(about.st_mode) or old is None or new is None:
            return False
        mode = stat.S_IMODE(about.st_mode)
        if mode == new.mode:
            return True
        if mode != old.mode:
            return False
        self._disk.chmod_folder(at, new.mode)
        return True

    def _finish(self, act: Act, at: DiskName) -> None:
        about = about_at(at)
        if about is not None and stat.S_ISDIR(about.st_mode) and act.new is not None:
            self._disk.chmod_folder(at, act.new.mode)
            self._disk.set_time(at, act.new.mtime_ns)

    def touched_late(self) -> bytes | None:
        """A path whose old file somebody still wrote to, by a handle from before it was taken out.

        Asked last, when nothing is left but to say that it has landed: whoever writes later still by such a handle
        writes to a file that has been replaced, as with any rename.
        """
        for act in self.plan.acts:
            undo = self._undo_spot(act)
            if act.do in {Do.TAKE, Do.SWAP} and not same(look(undo), act.old):
                return act.path
            if act.do is Do.TAKE_FOLDER and not self._is_empty_folder(undo):
                return act.path
        return None

    def _undone(self, act: Act) -> None:
        with self._at(act.path) as at:
            match act.do:
                case Do.TAKE:
                    self._give_back(act, at)
                case Do.TAKE_FOLDER:
                    self._give_folder_back(act, at)
                case Do.MAKE:
                    self._unmake(act, at)
                case Do.PUT:
                    self._take_out(act, at)
                case Do.SWAP:
                    self._swap_back(act, at)
                case Do.CHMOD:
                    self._chmod(at, act.new, act.old)
                case Do.FINISH:
                    self._unfinish(act, at)

    def _give_back(self, act: Act, at: DiskName) -> None:
        undo = self._undo_spot(act)
        if about_at(undo) is None:
            return
        try:
            self._disk.rename_new(undo, at)
        except FileExistsError:
            self.left.append(act.path)

    def _give_folder_back(self, act: Act, at: DiskName) -> None:
        self._give_back(act, at)
        about = about_at(at)
        mode = act.old.mode if act.old is not None else 0
        if about is not None and stat.S_ISDIR(about.st_mode) and stat.S_IMODE(about.st_mode) == mode | stat.S_IRWXU:
            self._disk.chmod_folder(at, mode)

    def _unmake(self, act: Act, at: DiskName) -> None:
        if about_at(self._staged_spot(act)) is not None:
            return
        try:
            self._disk.remove_folder(at)
        except OSError as exc:
            if exc.errno not in {errno.ENOTEMPTY, errno.ENOTDIR, errno.ENOENT, errno.EEXIST}:
                raise
            if exc.errno != errno.ENOENT:
                self.left.append(act.path)

    def _take_out(self, act: Act, at: DiskName) -> None:
        staged = self._staged_spot(act)
        if about_at(staged) is not None:
            return
        if not same(look(at), act.new):
            self.left.append(act.path)
            return
        self._disk.rename(at, staged)
        if not same(at_rest(staged), act.new):
            with contextlib.suppress(FileExistsError):  # somebody made another one meanwhile: both are kept
                self._disk.rename_new(staged, at)
            self.left.append(act.path)

    def _swap_back(self, act: Act, at: DiskName) -> None:
        staged, undo = self._staged_spot(act), self._undo_spot(act)
        if about_at(undo) is None:
            if about_at(staged) is None or same(look(staged), act.new):
                return
            self._disk.rename(staged, undo)
        if same(at_rest(undo), act.new) or about_at(staged) is not None:
            return
        if same(look(at), act.new):
            try:
                self._disk.exchange(undo, at)
            except OSError as exc:
                if not syscalls.is_unsupported(exc):
                    raise
                self._disk.rename(undo, at)
                return
            if same(at_rest(undo), act.new):
                return
        if not self._unmix(act, at):
            self.left.append(act.path)

    def _unmix(self, act: Act, at: DiskName) -> bool:
        """Somebody edited ours before it could be taken back: leave theirs, and take ours out of it, line by line.

        Ours is what both have grown from: one is in the tree and the other in undo, whichever is which.
        """
        new = None if act.new is None else self._objects.get(act.new.digest)
        undo = self._undo_spot(act)
        if new is None:
            return False
        try:
            with opened(undo, _READ) as file:
                other = content_of(file)
        except OSError:
            return False
        room, number = self._staged, act.number
        if not weave(at, lambda now: take_out(new, now, other), why=other, room=room, number=number, disk=self._disk):
            return False
        self._disk.rename(undo, DiskName(self._undo, b"%d." % act.number + short(other)))
        return True

    def is_settled(self) -> bool:
        """After `back`: whether nothing that was in the tree, and is not, can hold what nobody has seen yet."""
        for act in self.plan.acts:
            if act.do is Do.SWAP and not is_settled(self._undo_spot(act), state=act.new):
                return False
            if act.do is Do.PUT and not is_settled(self._staged_spot(act), state=act.new):
                return False
            if act.do in {Do.TAKE, Do.TAKE_FOLDER} and about_at(self._undo_spot(act)) is not None:
                return False
        return all(
            settled_by_name(folder, name)
            for folder in (self._staged, self._undo)
            for name in map(os.fsencode, os.listdir(folder))
            if b"." in name
        )

    def _unfinish(self, act: Act, at: DiskName) -> None:
        about = about_at(at)
        if about is not None and stat.S_ISDIR(about.st_mode) and not self._may_move(about):
            self._disk.chmod_folder(at, stat.S_IMODE(about.st_mode) | stat.S_IRWXU)

    @contextlib.contextmanager
    def _at(self, path: bytes) -> Generator[DiskName]:
        if not path:
            yield DiskName(self._root, b".")
            return
        with reached(self._root, parent(path)) as folder:
            yield DiskName(folder, name(path))

    def _staged_spot(self, act: Act) -> DiskName:
        return DiskName(self._staged, b"%d" % act.number)

    def _undo_spot(self, act: Act) -> DiskName:
        return DiskName(self._undo, b"%d" % act.number)
