"""Files taken out of a tree, and who may still write to them. Knows inodes and contents, and no plan.

A file that has lost its name can be opened by nobody, but whoever had it open before can go on writing to it. So it is
never thrown away because it *was* as expected: only when nobody has it open to write any more, and it *is*. Anything
else is kept, and is told of.

    at rest     nobody can write to it any more, as far as the system says
    settled     at rest, and all that is in it is accounted for

What is accounted for is written in a file's name, so that it needs no record and survives any kill:

    <n>                 of act n: what the plan says
    <n>.<digest>        its whole content, of that digest, has gone into the tree
    <n>.<k>.<a>.<b>.w<c>    changed places with a file of digest a; had the digest b before, and was never in the
                        tree then; the change was made for the sake of a content of digest c
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from amends.changeset.disk import syscalls
from amends.changeset.disk.disk import FOLDER, Disk, DiskName, Sync, digest_of, opened, spot
from amends.changeset.disk.read import about_at, content_of, state_at
from amends.changeset.model.model import PathKind, PathState, same
from amends.changeset.text.merge import merge
from amends.errors import RootError

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIES: Final = 20
_WAIT_S: Final = 0.002
WAITS = 100
"""How often a writer is waited for, of those that had a file open when it was taken out."""

MOVING: Final = PathState(kind=PathKind.FILE, mode=0, digest="moving")
"""Of a file that somebody writes to without end: like nothing else."""


def look(at: DiskName) -> PathState | None:
    """The state of a spot; MOVING where that cannot be said."""
    try:
        return state_at(at)
    except RootError:
        return MOVING


def at_rest(at: DiskName) -> PathState | None:
    """The state of what was taken out of the tree, when nobody can write to it any more.

    Whoever had it open before can: they are given some time to finish. One who keeps it open for longer is looked for
    again when the landing ends, and what they write after that is kept.
    """
    try:
        with opened(at, _READ) as file:
            for _ in range(WAITS):
                if not syscalls.is_open_to_write(file):
                    break
                threading.Event().wait(_WAIT_S)
    except OSError:
        pass  # no file, or one that may not be read: it is as it is
    return look(at)


def is_held(at: DiskName) -> bool:
    """Whether somebody certainly can write to it."""
    try:
        with opened(at, _READ) as file:
            return syscalls.is_open_to_write(file) is True
    except OSError:
        return False


def holds_held(room: bytes) -> bool:
    """Whether somebody can write to a file that lies in a landing's room."""
    for part in (b"/staged", b"/undo"):
        if os.path.isdir(room + part):
            with opened(spot(room + part), FOLDER) as folder:
                if any(is_held(DiskName(folder, name)) for name in map(os.fsencode, os.listdir(folder))):
                    return True
    return False


def is_settled(at: DiskName, *digests: str, state: PathState | None = None) -> bool:
    """Whether it can go: nobody can write to it, and it is this state, or has one of these digests (or a part of it).

    A file about whose writers the system says nothing is not settled.
    """
    about = about_at(at)
    if about is None:
        return True
    if not stat.S_ISREG(about.st_mode):
        return state is not None and same(look(at), state)
    try:
        with opened(at, _READ) as file:
            if syscalls.is_open_to_write(file) is not False:
                return False
            digest = digest_of(file)
    except OSError:
        return False
    return digest == state.digest if state is not None else any(map(digest.startswith, digests))


def settled_by_name(folder: int, name: bytes) -> bool:
    """Of a file whose name says what is accounted for."""
    return is_settled(DiskName(folder, name), *(part.decode() for part in name.split(b".")[1:] if len(part) == SHORT))


SHORT: Final = 32


def short(content: bytes) -> bytes:
    """Enough of a digest for a name."""
    return sha256(content).hexdigest()[:SHORT].encode()


def weave(
    at: DiskName, change: Callable[[bytes], bytes | None], *, why: bytes, room: int, number: int, disk: Disk
) -> bool:
    """Change a file's text in a tree whose people write to it meanwhile; what they write stays. False: it cannot be.

    `why` is a content for whose sake it is changed: the same change is not made twice, whoever was killed in between.

    What changes places with the new text may have been written to in the last instant. The text in the tree is not
    taken out again for that, because somebody may be writing to it by now: it gets that late part as a change of its
    own, and so on, until what came out is what went into the change.
    """
    if _is_woven(room, number, why):
        return True
    came_late: list[tuple[DiskName, bytes]] = []
    for turn in range(_TRIES):
        now = _text_of(at)
        content = None if now is None else change(now)
        if now is None or content is None:
            return False
        if content == now:
            return _account_for(came_late, disk)
        about = about_at(at)
        if about is None:
            return False
        beside = _free(room, number, turn, now, content, why)
        disk.write(beside, content, stat.S_IMODE(about.st_mode), (about.st_uid, about.st_gid))
        disk.sync_file(beside, Sync.STAGED_FILES)
        try:
            disk.exchange(beside, at)
        except OSError as exc:
            if not syscalls.is_unsupported(exc):
                raise
            return False
        at_rest(beside)
        late = _text_of(beside)
        if late == now:
            return _account_for(came_late, disk)
        if late is None:
            return False
        came_late.append((beside, late))
        change = _later(now, late)
    return False


def _account_for(came_late: list[tuple[DiskName, bytes]], disk: Disk) -> bool:
    for beside, late in came_late:
        parts = beside.name.split(b".")
        disk.rename(beside, DiskName(beside.folder, b".".join((*parts[:2], short(late), *parts[3:]))))
    return True


def _later(before: bytes, after: bytes) -> Callable[[bytes], bytes | None]:
    def change(now: bytes) -> bytes | None:
        merged = merge(before, after, now)
        return None if merged is None or merged.hunks else merged.content

    return change


def _is_woven(room: int, number: int, why: bytes) -> bool:
    """Whether a text has changed places already, for the sake of this one."""
    for name in map(os.fsencode, os.listdir(room)):
        parts = name.split(b".")
        if parts[0] == b"%d" % number and parts[-1] == b"w" + short(why):
            content = _text_of(DiskName(room, name))
            if content is None or short(content) != parts[-2]:
                return True
    return False


def _free(room: int, number: int, turn: int, now: bytes, content: bytes, why: bytes) -> DiskName:
    """A name that nothing has: what a killed process left may hold what somebody wrote."""
    while True:
        parts = (b"%d" % number, b"%d" % turn, short(now), short(content), b"w" + short(why))
        beside = DiskName(room, b".".join(parts))
        if about_at(beside) is None:
            return beside
        turn += _TRIES


def _text_of(at: DiskName) -> bytes | None:
    """A whole content, read between two writes of whoever writes to it."""
    for _ in range(_TRIES):
        state = look(at)
        if state is None or state.kind is not PathKind.FILE:
            return None
        try:
            with opened(at, _READ) as file:
                content = content_of(file)
        except OSError:
            return None
        if sha256(content).hexdigest() == state.digest:
            return content
    return None
