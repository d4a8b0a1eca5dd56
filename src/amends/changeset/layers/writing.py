"""Changing an open layer from Python: what is below is copied up first, what goes is whited out.

Nothing here waits for the disk, and nothing has to survive a crash: an open layer that nobody sealed is dropped. A
workspace is written to in the same way; with nothing below it there is nothing to copy up or to white out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator

from amends.changeset.disk import syscalls, whiteouts
from amends.changeset.disk.disk import Disk, copy_content, opened, spot
from amends.changeset.disk.read import about_path, readable
from amends.changeset.layers.stack import FoundPath, Stack
from amends.changeset.model.paths import join, parent, parents as parents_of, spell

_TMP = b"new"


class Writing:
    """An open layer: `upper` takes the changes, `room` is a folder beside it for what is not finished yet."""

    def __init__(self, stack: Stack, room: bytes) -> None:
        self.stack = stack
        self.upper = stack.parts[0]
        self._below = stack.below()
        self._room = room

    def write(self, path: bytes, content: bytes, mode: int | None) -> None:
        """Replace or make a file. Links are followed; the mode stays what it was unless one is given."""
        at = self.stack.resolve(path)
        found = self.stack.find(at)
        if found is not None and found.is_folder:
            raise IsADirectoryError(errno.EISDIR, "Is a directory", spell(path))
        self._require_writable(self.stack.find(parent(at)) if found is None else found, path)
        self._copy_up_folders(at)
        fresh = self._fresh()
        with opened(spot(fresh), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666) as file:
            view = memoryview(content)
            while view:
                view = view[os.write(file, view) :]
            if mode is not None or found is not None:
                os.fchmod(file, found.mode if mode is None and found is not None else mode or 0)
        self._place(fresh, at)

    def symlink(self, path: bytes, target: bytes) -> None:
        at = self._unused(path)
        fresh = self._fresh()
        os.symlink(target, fresh)
        self._place(fresh, at)

    def make_folder(self, path: bytes, *, parents: bool, exist_ok: bool) -> None:
        at = self.stack.resolve(path)
        found = self.stack.find(at)
        if found is not None:
            if found.is_folder and exist_ok:
                return
            raise FileExistsError(errno.EEXIST, "File exists", spell(path))
        above = self.stack.find(parent(at))
        if above is None and parents:
            self.make_folder(parent(at), parents=True, exist_ok=True)
        self._copy_up_folders(at)
        self._make_folder(at)

    def _make_folder(self, at: bytes) -> None:
        """Make a folder in the layer, empty also where a folder below has the same name."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._up(at))
        os.mkdir(self._up(at), 0o777)
        hidden = self._below.find(at)
        if hidden is not None and hidden.is_folder:
            for name in self._below.names(hidden):
                whiteouts.make_whiteout(self._up(join(at, name)))

    def _cover(self, at: bytes) -> None:
        """Let nothing of what is below show through a folder that has come from elsewhere, nor through its folders."""
        left = [at]
        for folder in left:  # it grows on the way
            hidden = self._below.find(folder)
            for name in self._below.names(hidden) if hidden is not None and hidden.is_folder else ():
                about = about_path(self._up(join(folder, name)))
                if about is None:
                    with self._unlocked(folder):
                        whiteouts.make_whiteout(self._up(join(folder, name)))
                elif stat.S_ISDIR(about.st_mode):
                    left.append(join(folder, name))

    def remove(self, path: bytes, *, recursive: bool) -> None:
        """Links are not followed at the end of the path: a link goes, not what it leads to."""
        at = self.stack.resolve(path, follow_last=False)
        found = self.stack.find(at)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", spell(path))
        if not at:
            raise PermissionError(errno.EPERM, "the tree itself cannot be removed", spell(path))
        if found.is_folder and not recursive and self.stack.names(found):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", spell(path))
        self._copy_up_folders(at)
        self._remove(at)

    def _remove(self, at: bytes) -> None:
        where = self._up(at)
        about = about_path(where)
        if about is not None and stat.S_ISDIR(about.st_mode):
            Disk().remove_all(where)
        elif about is not None:
            os.unlink(where)
        if self._below.find(at) is not None:
            whiteouts.make_whiteout(where)

    def rename(self, old: bytes, new: bytes) -> None:
        """Rename, and replace what stands at the new name, a folder only if it is empty."""
        source, target = self.stack.resolve(old, follow_last=False), self.stack.resolve(new, follow_last=False)
        found, there = self.stack.find(source), self.stack.find(target)
        if found is None or not source:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", spell(old))
        if source == target:
            return
        if target.startswith(source + b"/") or not target:
            raise OSError(errno.EINVAL, "a folder cannot be moved into itself", spell(new))
        if there is not None:
            if there.is_folder and not found.is_folder:
                raise IsADirectoryError(errno.EISDIR, "Is a directory", spell(new))
            if found.is_folder and not there.is_folder:
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", spell(new))
            if there.is_folder and self.stack.names(there):
                raise OSError(errno.ENOTEMPTY, "Directory not empty", spell(new))
        self._copy_up_folders(source)
        self._copy_up_folders(target)
        fresh = self._fresh()
        self._copy(source, found, fresh)
        self._remove(source)
        if there is not None:
            self._remove(target)
        if found.is_folder and not self._below.parts:
            os.rename(fresh, self._up(target))
        elif found.is_folder:
            self._make_folder(target)
            self._merge_into(fresh, self._up(target), found)
            self._cover(target)
        else:
            self._place(fresh, target)

    def chmod(self, path: bytes, mode: int) -> None:
        at = self.stack.resolve(path)
        found = self.stack.find(at)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", spell(path))
        if not at:
            raise PermissionError(errno.EPERM, "the tree's own mode cannot be changed", spell(path))
        self._copy_up(at, found)
        os.chmod(self._up(at), mode)

    def put(self, path: bytes, source: FoundPath | bytes, mode: int, mtime_ns: int) -> None:
        """Have this file or link there, with its time, whatever was there but a folder. No link is followed."""
        self._copy_up_folders(path)
        fresh = self._fresh()
        if isinstance(source, bytes):
            with open(fresh, "xb") as file:
                file.write(source)
        else:
            copy_one(source, fresh)
        if isinstance(source, bytes) or not source.is_link:
            os.chmod(fresh, mode)
        os.utime(fresh, ns=(mtime_ns, mtime_ns), follow_symlinks=False)
        self._place(fresh, path)

    def lay_folder(self, path: bytes) -> None:
        """Make a folder, also in one that may not be written."""
        self._copy_up_folders(path)
        with self._unlocked(parent(path)):
            self._make_folder(path)

    def finish_folder(self, path: bytes, mode: int, mtime_ns: int | None) -> None:
        self.chmod(path, mode)
        if mtime_ns is not None:
            os.utime(self._up(path), ns=(mtime_ns, mtime_ns))

    def take_out(self, path: bytes) -> None:
        """Remove what is there, whatever may be written there."""
        self._copy_up_folders(path)
        with self._unlocked(parent(path)):
            self._remove(path)

    def promote(self, path: bytes) -> None:
        """Copy a whole folder up, so that a tool in an overlay can rename it."""
        at = self.stack.resolve(path)
        found = self.stack.find(at)
        if found is None or not found.is_folder or not at:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", spell(path))
        if not self._below.parts:
            return
        self._copy_up_folders(at)
        fresh = self._fresh()
        self._copy(at, found, fresh)
        Disk().remove_all(self._up(at))
        os.rename(fresh, self._up(at))
        whiteouts.make_opaque(self._up(at))

    def _up(self, path: bytes) -> bytes:
        return self.upper + b"/" + path

    def _fresh(self) -> bytes:
        """A name in the room that nothing has."""
        number = 0
        while about_path(fresh := self._room + b"/%s%d" % (_TMP, number)) is not None:
            number += 1
        return fresh

    def _unused(self, path: bytes) -> bytes:
        at = self.stack.resolve(path, follow_last=False)
        if self.stack.find(at) is not None:
            raise FileExistsError(errno.EEXIST, "File exists", spell(path))
        self._copy_up_folders(at)
        return at

    @staticmethod
    def _require_writable(found: FoundPath | None, path: bytes) -> None:
        if found is not None and not os.access(found.where, os.W_OK):
            raise PermissionError(errno.EACCES, "Permission denied", spell(path))

    def _place(self, fresh: bytes, at: bytes) -> None:
        with self._unlocked(parent(at)):
            os.rename(fresh, self._up(at))

    @contextlib.contextmanager
    def _unlocked(self, folder: bytes) -> Generator[None]:
        """A file in a folder that may not be written may be; copied up, it has to be put there all the same."""
        where = self._up(folder) if folder else self.upper
        mode = stat.S_IMODE(os.lstat(where).st_mode)
        if mode & stat.S_IRWXU == stat.S_IRWXU:
            yield
            return
        os.chmod(where, mode | stat.S_IRWXU)
        try:
            yield
        finally:
            os.chmod(where, mode)

    def _copy_up_folders(self, path: bytes) -> None:
        """Have the folders above a path in the layer, as they are below."""
        lacking: list[tuple[bytes, int]] = []
        for above in parents_of(path):
            found = self.stack.find(above)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", spell(above))
            if not found.is_folder:
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", spell(above))
            if found.where == self._up(above):
                break
            lacking.append((above, found.mode))
        for folder, mode in reversed(lacking):
            with self._unlocked(parent(folder)):
                os.mkdir(self._up(folder))
            os.chmod(self._up(folder), mode)

    def _copy_up(self, at: bytes, found: FoundPath) -> None:
        if found.where == self._up(at):
            return
        self._copy_up_folders(at)
        if found.is_folder:
            with self._unlocked(parent(at)):
                os.mkdir(self._up(at))
            os.chmod(self._up(at), found.mode)
            return
        fresh = self._fresh()
        copy_one(found, fresh)
        self._place(fresh, at)

    def _copy(self, path: bytes, found: FoundPath, target: bytes) -> None:
        """A copy of what is at a path, with all that is in it, at a place on disk."""
        if not found.is_folder:
            copy_one(found, target)
            return
        os.mkdir(target)
        folders = [(found, target)]
        for below, inner in self.stack.walk(path):
            place = target + below[len(path) :]
            if inner.is_folder:
                os.mkdir(place)
                folders.append((inner, place))
            else:
                copy_one(inner, place)
        for each, place in reversed(folders):
            copy_times(each, place)

    @staticmethod
    def _merge_into(fresh: bytes, target: bytes, found: FoundPath) -> None:
        """Move a folder's content into one that is there and visibly empty."""
        with os.scandir(fresh) as inside:
            names = [each.name for each in inside]
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(target + b"/" + name)
            os.rename(fresh + b"/" + name, target + b"/" + name)
        os.rmdir(fresh)
        copy_times(found, target)


def copy_one(found: FoundPath, target: bytes) -> None:
    """Copy a file or a link, with its mode and time. OSError for what is neither."""
    if found.is_link:
        os.symlink(os.readlink(found.where), target)
    elif stat.S_ISREG(found.about.st_mode):
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with readable(found.where) as source, opened(spot(target), flags) as file:
            copy_content(source, file)
            os.fchmod(file, found.mode)
    else:
        raise OSError(errno.EINVAL, "neither a file, a folder nor a link", spell(found.where))
    os.utime(target, ns=(found.about.st_mtime_ns, found.about.st_mtime_ns), follow_symlinks=False)


def copy_times(found: FoundPath, target: bytes) -> None:
    os.chmod(target, found.mode)
    os.utime(target, ns=(found.about.st_mtime_ns, found.about.st_mtime_ns))


def shares_blocks(folder: bytes) -> bool:
    """Whether files of this folder can share their blocks."""
    one, other = folder + b"/probe.%d.one" % os.getpid(), folder + b"/probe.%d.other" % os.getpid()
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        with opened(spot(one), flags) as source, opened(spot(other), flags) as target:
            os.write(source, b"x" * 4096)
            return syscalls.share_blocks(source, target)
    finally:
        for path in (one, other):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
