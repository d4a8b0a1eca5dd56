"""Files of amends in a tree, which are not part of the work: journals, keys, the state of changesets, landings' rooms.

In the views of a tree they are not there. A step that has one of them in its layer cannot be sealed, and a changeset
that has one cannot land: neither a file of that name, nor a folder above it that goes, or becomes something else.

Known are those that this process has claimed (see `amends.private`), and those that lie at the top of the tree, by what
they are. Deeper ones of other programs are seen in the views; they are recognised when something would land over them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from typing import Final

from amends import private
from amends.changeset.disk.disk import FOLDER, DiskName, opened, spot
from amends.changeset.disk.read import about_at, folder_of
from amends.changeset.model.paths import beneath, join, name, parents, spell

_STATE: Final = re.compile(rb"\.[^/]+\.changesets")
_IN_STATE: Final = re.compile(
    rb"(?:.*/)?\.[^/]+\.changesets/(?:root\.json|lock|changesets|landings|landed|log|queue|objects|trash)(?:/.*)?",
    re.DOTALL,
)
_ROOM: Final = re.compile(rb"\.amends-landing-[^/]+")
_ENDS: Final = (b"-wal", b"-shm", b"-journal", b".key", b".key.next")
_BESIDE: Final = re.compile(rb"(.+?)(?:%b)" % b"|".join(map(re.escape, _ENDS)))
_DATABASE: Final = (b".db", b".sqlite", b".sqlite3")
_MAGIC: Final = b"SQLite format 3\0"
_APPLICATION: Final = b"amnd"
_AT: Final = 68
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class HiddenPaths:
    """Of one tree: `paths` are from its root."""

    def __init__(self, root: bytes, paths: frozenset[bytes]) -> None:
        self._root = root
        self.paths = paths
        self.places = frozenset(root + b"/" + path for path in paths)

    def why_not(self, path: bytes, *, is_folder: bool) -> str | None:
        """Why a layer may not have this at a path; `is_folder`: it is a folder, and one that was there stays one."""
        ours = self._covering(path)
        if ours is not None:
            return f"{spell(path)} is {_called(ours)}, which is not part of the work"
        held = None if is_folder else next((each for each in sorted(self.paths) if each.startswith(path + b"/")), None)
        return None if held is None else f"{spell(path)} holds {spell(held)}, {_called(held)}, and has to stay a folder"

    def _covering(self, path: bytes) -> bytes | None:
        for each in (path, *parents(path)):
            if each in self.paths or _ROOM.fullmatch(each):
                return each
        return path if _IN_STATE.fullmatch(path) else None

    def why_not_over(self, paths: Iterable[bytes]) -> Iterator[str]:
        """Reasons against landing over these paths: journals that nobody claimed, and what lies beside them."""
        inodes = private.inodes()
        with opened(spot(self._root), FOLDER | os.O_RDONLY) as root:
            for path in paths:
                with_it = _BESIDE.fullmatch(path)
                for each in (path,) if with_it is None else (path, with_it[1]):
                    if _is_journal_below(root, each, inodes):
                        yield f"{spell(path)} belongs to the journal {spell(each)}, which is not part of the work"


def _called(path: bytes) -> str:
    if _STATE.fullmatch(name(path)) or _IN_STATE.fullmatch(path) or _ROOM.fullmatch(path):
        return "the state of changesets"
    return "a journal's key" if b".key" in name(path) else "a journal of amends"


def hidden_in(root: bytes, found: frozenset[bytes]) -> HiddenPaths:
    """The hidden parts of a tree now; `found` is what `look_for` has seen there."""
    claimed = (beneath(place, root) for place in private.claimed())
    return HiddenPaths(root, found | {path for path in claimed if path})


def look_for(root: bytes) -> frozenset[bytes]:
    """The journals, keys and state directories at the top of a tree, by what they are."""
    return frozenset(_look_for(root))


def _look_for(root: bytes) -> Iterator[bytes]:
    with os.scandir(root) as inside:
        names = {each.name for each in inside}
    yield from (each for each in names if _ROOM.fullmatch(each) or _is_state(root, each))
    maybe = [each for each in names if each.endswith(_DATABASE) or each + b".key" in names]
    if not maybe:
        return
    inodes = private.inodes()
    with opened(spot(root), FOLDER | os.O_RDONLY) as folder:
        for each in maybe:
            if _is_journal(DiskName(folder, each), inodes):
                yield from (each, *(each + end for end in _ENDS))


def state_directories(folder: bytes) -> list[bytes]:
    """The state directories that lie in a folder."""
    try:
        with os.scandir(folder) as inside:
            return [join(folder, each.name) for each in inside if _is_state(folder, each.name)]
    except OSError:
        return []


def _is_state(folder: bytes, each: bytes) -> bool:
    return bool(_STATE.fullmatch(each)) and os.path.lexists(join(join(folder, each), b"root.json"))


def _is_journal_below(root: int, path: bytes, inodes: frozenset[tuple[int, int]]) -> bool:
    try:
        with folder_of(root, path) as folder:
            return _is_journal(DiskName(folder, name(path)), inodes)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _is_journal(at: DiskName, inodes: frozenset[tuple[int, int]]) -> bool:
    """Whether it is one: by its inode, where this process has claimed it and must not open it; else by its head."""
    about = about_at(at)
    if about is None or not stat.S_ISREG(about.st_mode):
        return False
    if (about.st_dev, about.st_ino) in inodes:
        return True
    try:
        with opened(at, _READ) as file:
            head = os.pread(file, _AT + len(_APPLICATION), 0)
    except OSError:
        return False
    return head.startswith(_MAGIC) and head[_AT:] == _APPLICATION
