"""Reading: what is at a path of a tree now, without ever being led out of the tree by a link.

A file is read between two looks at its times. If someone wrote to it meanwhile, it is read again; if that never ends,
it is said to be moving, and the caller decides what that means.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator, Iterator
from typing import Final

from amends.changeset.disk.disk import FOLDER, REACH, DiskName, digest_of, opened
from amends.changeset.model.model import PathKind, PathState
from amends.changeset.model.paths import name, parent, spell
from amends.errors import RootError

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIES: Final = 20


@contextlib.contextmanager
def folder_of(root: int, path: bytes) -> Generator[int]:
    """The folder that holds a path, reached part by part from an open root; no part may be a link."""
    with reached(root, parent(path)) as folder:
        yield folder


@contextlib.contextmanager
def reached(root: int, folder: bytes) -> Generator[int]:
    """A folder below an open root. NotADirectoryError: some part of it is not one (a link is not)."""
    held = os.dup(root)
    try:
        for part in folder.split(b"/") if folder else ():
            try:
                inner = os.open(part, REACH, dir_fd=held)
            except OSError as exc:
                if exc.errno == errno.ELOOP:
                    raise NotADirectoryError(errno.ENOTDIR, "a link, not a folder", os.fsdecode(folder)) from None
                raise
            os.close(held)
            held = inner
        yield held
    finally:
        os.close(held)


def open_root(root: bytes) -> int:
    try:
        return os.open(root, FOLDER | os.O_RDONLY)
    except FileNotFoundError:
        raise RootError(f"there is no folder {spell(root)}; if it was moved, bring it back") from None
    except OSError as exc:
        raise RootError(f"{spell(root)} cannot be opened as a folder: {exc.strerror}") from None


def state_below(root: int, path: bytes) -> PathState | None:
    """The state of a path below an open root. NotADirectoryError if something above it is no folder."""
    try:
        with folder_of(root, path) as folder:
            return state_at(DiskName(folder, name(path)))
    except FileNotFoundError:
        return None


def state_at(at: DiskName) -> PathState | None:
    about = about_at(at)
    if about is None:
        return None
    mode, kind = stat.S_IMODE(about.st_mode), kind_of(about)
    if kind is PathKind.FOLDER:
        return PathState(kind=kind, mode=mode, mtime_ns=about.st_mtime_ns)
    if kind is PathKind.LINK:
        try:
            target = os.readlink(at.name, dir_fd=at.at)
        except FileNotFoundError:
            return None
        return PathState(kind=kind, mode=0o777, mtime_ns=about.st_mtime_ns, target=target)
    if kind is PathKind.OTHER:
        said = f"stat:{stat.S_IFMT(about.st_mode):o}:{about.st_rdev}"
        return PathState(kind=kind, mode=mode, mtime_ns=about.st_mtime_ns, digest=said)
    return _file_at(at)


def about_at(at: DiskName) -> os.stat_result | None:
    try:
        return os.stat(at.name, dir_fd=at.at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def about_path(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def kind_of(about: os.stat_result) -> PathKind:
    mode = about.st_mode
    if stat.S_ISREG(mode):
        return PathKind.FILE
    if stat.S_ISDIR(mode):
        return PathKind.FOLDER
    return PathKind.LINK if stat.S_ISLNK(mode) else PathKind.OTHER


def _file_at(at: DiskName) -> PathState | None:
    for _ in range(_TRIES):
        try:
            with opened(at, _READ) as file:
                before = os.fstat(file)
                if not stat.S_ISREG(before.st_mode):
                    return state_at(at)
                digest = digest_of(file)
                after = os.fstat(file)
        except FileNotFoundError:
            return None
        except PermissionError:
            return _unreadable(at)
        except OSError as exc:
            if exc.errno == errno.ELOOP:  # a link has taken its place
                return state_at(at)
            raise
        if is_unchanged(before, after):
            return PathState(
                kind=PathKind.FILE,
                mode=stat.S_IMODE(after.st_mode),
                size=after.st_size,
                mtime_ns=after.st_mtime_ns,
                digest=digest,
            )
    raise RootError(f"{spell(at.name)} is being written all the time; nothing certain can be said of it")


def is_unchanged(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether no byte of a file can have been written between two looks at it."""
    return (one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) == (
        other.st_ino,
        other.st_size,
        other.st_mtime_ns,
        other.st_ctime_ns,
    )


def _unreadable(at: DiskName) -> PathState | None:
    """A file that may not be read is known by its size and time: enough to see whether it was changed."""
    about = about_at(at)
    if about is None:
        return None
    return PathState(
        kind=PathKind.FILE,
        mode=stat.S_IMODE(about.st_mode),
        size=about.st_size,
        mtime_ns=about.st_mtime_ns,
        digest=f"stat:{about.st_size}:{about.st_mtime_ns}",
    )


def content_below(root: int, path: bytes) -> bytes:
    with folder_of(root, path) as folder, opened(DiskName(folder, name(path)), _READ) as file:
        return content_of(file)


def content_at(path: bytes) -> bytes:
    with readable(path) as file:
        return content_of(file)


def content_by_pieces(path: bytes) -> Iterator[bytes]:
    with readable(path) as file:
        yield from _pieces_of(file)


@contextlib.contextmanager
def readable(path: bytes) -> Generator[int]:
    """Open a file to read; one of our own whose mode forbids it is opened all the same, and its mode put back."""
    try:
        file = os.open(path, _READ)
    except PermissionError:
        about = os.lstat(path)
        if about.st_uid != os.geteuid() or not stat.S_ISREG(about.st_mode):
            raise
        os.chmod(path, stat.S_IMODE(about.st_mode) | stat.S_IRUSR, follow_symlinks=True)
        try:
            file = os.open(path, _READ)
        finally:
            os.chmod(path, stat.S_IMODE(about.st_mode), follow_symlinks=True)
    try:
        yield file
    finally:
        os.close(file)


def content_of(file: int) -> bytes:
    return b"".join(_pieces_of(file))


def _pieces_of(file: int) -> Iterator[bytes]:
    at = 0
    while piece := os.pread(file, 1 << 20, at):
        yield piece
        at += len(piece)
