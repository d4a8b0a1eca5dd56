"""Every call by which a changeset changes a disk, in one place, and every reason for which it waits for one.

Tests put another Disk in this one's place: it dies before the n-th call, leaves out one class of waiting, lets someone
else edit a file in between, or remembers the calls to build what a power cut could have left of them. So nothing in
this package that has to survive a crash may change a file by any other way.

Names are pairs of an open folder and a name in it: between two calls on one folder nobody can slip a link in its place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Generator
from enum import StrEnum
from typing import Final, NamedTuple

from amends.changeset.disk import syscalls

FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
REACH: Final = FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
_PIECE: Final = 1 << 20
_OPEN_AT_ONCE: Final = 32
"""How many folders are held open while a tree is removed."""


class DiskName(NamedTuple):
    """A name in an open folder, or a whole path."""

    folder: int
    name: bytes

    @property
    def at(self) -> int | None:
        """As Python's own calls want it."""
        return None if self.folder == syscalls.HERE else self.folder


def spot(path: bytes) -> DiskName:
    return DiskName(syscalls.HERE, path)


class Sync(StrEnum):
    """Syncs to wait for, and what would be lost without."""

    LAYER_FILES = "layer files"
    LAYER_FOLDERS = "layer folders"
    RECORD_FILE = "record file"
    RECORD_FOLDER = "record folder"
    STAGED_FILES = "staged files"
    STAGED_FOLDER = "staged folder"
    PLAN_FILE = "plan file"
    PLAN_FOLDER = "plan folder"
    TREE_FOLDERS = "tree folders"
    ABORTED = "aborted"


class Disk:
    """The machine's own."""

    def make_folder(self, at: DiskName, mode: int = 0o700) -> None:
        os.mkdir(at.name, mode, dir_fd=at.at)

    def remove_folder(self, at: DiskName) -> None:
        os.rmdir(at.name, dir_fd=at.at)

    def remove(self, at: DiskName) -> None:
        os.unlink(at.name, dir_fd=at.at)

    def rename(self, old: DiskName, new: DiskName) -> None:
        os.rename(old.name, new.name, src_dir_fd=old.at, dst_dir_fd=new.at)

    def rename_new(self, old: DiskName, new: DiskName) -> None:
        """Rename where nothing has the new name; FileExistsError otherwise."""
        try:
            syscalls.rename_new(old.folder, old.name, new.folder, new.name)
        except OSError as exc:
            if not syscalls.is_unsupported(exc):
                raise
            if self._is_there(new):
                raise FileExistsError(17, "File exists", os.fsdecode(new.name)) from None
            self.rename(old, new)

    def exchange(self, one: DiskName, other: DiskName) -> None:
        syscalls.exchange(one.folder, one.name, other.folder, other.name)

    def link(self, old: DiskName, new: DiskName) -> None:
        os.link(old.name, new.name, src_dir_fd=old.at, dst_dir_fd=new.at, follow_symlinks=False)

    def symlink(self, target: bytes, at: DiskName) -> None:
        os.symlink(target, at.name, dir_fd=at.at)

    def chmod_folder(self, at: DiskName, mode: int) -> None:
        with opened(at, REACH) as folder:
            os.chmod(f"/proc/self/fd/{folder}" if REACH != FOLDER else folder, mode)

    def set_time(self, at: DiskName, mtime_ns: int) -> None:
        os.utime(at.name, ns=(mtime_ns, mtime_ns), dir_fd=at.at, follow_symlinks=False)

    def write(self, at: DiskName, content: bytes, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
        """Make a new file."""
        with opened(at, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600) as file:
            _write_all(file, content)
            _give_to(file, owner)
            os.fchmod(file, mode)

    def copy(self, source: int, at: DiskName, mode: int, owner: tuple[int, int] | None = None) -> str:
        """Make a new file with an open one's content, and say its digest. Blocks are shared where that can be."""
        with opened(at, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600) as file:
            said = digest_of(file) if syscalls.share_blocks(source, file) else _copy_bytes(source, file)
            _give_to(file, owner)
            os.fchmod(file, mode)
        return said

    def sync_file(self, at: DiskName, why: Sync) -> None:
        with opened(at, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC) as file:
            os.fsync(file)

    def sync_folder(self, at: DiskName, why: Sync) -> None:
        with opened(at, FOLDER | os.O_RDONLY) as folder:
            os.fsync(folder)

    def remove_all(self, path: bytes) -> None:
        """A whole tree of ours, read-only folders too, however deep it goes. What is not there need not go.

        Nothing is named by a path, and few folders are open at a time: one that lies deeper is moved to the top first.
        """
        at = spot(path)
        with contextlib.suppress(FileNotFoundError):
            if not self._is_opened_up(at):
                self.remove(at)
                return
            self._empty(at)
            self.remove_folder(at)

    def _empty(self, top: DiskName) -> None:
        open_ones, moved = [_Emptied.held(top)], 0
        try:
            while len(open_ones) > 1 or open_ones[0].names:
                here = open_ones[-1]
                if not here.names:
                    os.close(open_ones.pop().folder)
                    with contextlib.suppress(FileNotFoundError):  # another process removes it too
                        self.remove_folder(here.at)
                    continue
                at = DiskName(here.folder, here.names.pop())
                with contextlib.suppress(FileNotFoundError):
                    if not self._is_opened_up(at):
                        self.remove(at)
                    elif len(open_ones) < _OPEN_AT_ONCE:
                        open_ones.append(_Emptied.held(at))
                    else:
                        moved += 1
                        open_ones[0].names.append(self._moved_up(at, open_ones[0].folder, moved))
        finally:
            for each in open_ones:
                os.close(each.folder)

    def _moved_up(self, at: DiskName, top: int, number: int) -> bytes:
        while True:
            name = b"deep.%d.%d" % (os.getpid(), number)
            try:
                self.rename_new(at, DiskName(top, name))
            except FileExistsError:
                number += 1
            else:
                return name

    def _is_opened_up(self, at: DiskName) -> bool:
        """Whether it is a folder; one that is can be emptied then."""
        mode = os.stat(at.name, dir_fd=at.at, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            self.chmod_folder(at, 0o700)
        return stat.S_ISDIR(mode)

    @staticmethod
    def _is_there(at: DiskName) -> bool:
        try:
            os.lstat(at.name) if at.at is None else os.stat(at.name, dir_fd=at.at, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True


class _Emptied(NamedTuple):
    """A folder that is being emptied: where it is, and what is left in it."""

    at: DiskName
    folder: int
    names: list[bytes]

    @classmethod
    def held(cls, at: DiskName) -> _Emptied:
        folder = os.open(at.name, FOLDER | os.O_RDONLY, dir_fd=at.at)
        return cls(at, folder, [os.fsencode(name) for name in os.listdir(folder)])


@contextlib.contextmanager
def opened(at: DiskName, flags: int, mode: int = 0o600) -> Generator[int]:
    file = os.open(at.name, flags, mode, dir_fd=at.at)
    try:
        yield file
    finally:
        os.close(file)


def digest_of(file: int) -> str:
    hashed, at = hashlib.sha256(), 0
    while piece := os.pread(file, _PIECE, at):
        hashed.update(piece)
        at += len(piece)
    return hashed.hexdigest()


def copy_content(source: int, target: int) -> None:
    """Copy an open file's content into an empty one; share its blocks where that can be."""
    if not syscalls.share_blocks(source, target):
        _copy_bytes(source, target)


def _copy_bytes(source: int, target: int) -> str:
    """Copy, leaving holes as holes."""
    hashed, at = hashlib.sha256(), 0
    while piece := os.pread(source, _PIECE, at):
        hashed.update(piece)
        if piece.count(0) == len(piece):
            os.ftruncate(target, at + len(piece))
        else:
            _write_all(target, piece, at)
        at += len(piece)
    return hashed.hexdigest()


def _give_to(file: int, owner: tuple[int, int] | None) -> None:
    if owner is not None and (os.fstat(file).st_uid, os.fstat(file).st_gid) != owner:
        with contextlib.suppress(PermissionError):
            os.fchown(file, *owner)


def _write_all(file: int, content: bytes, at: int = 0) -> None:
    view = memoryview(content)
    while view:
        done = os.pwrite(file, view, at)
        view, at = view[done:], at + done
