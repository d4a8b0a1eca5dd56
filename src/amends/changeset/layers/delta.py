"""Changes of a layer: its folder on disk, held against what is below it.

A whiteout over a folder, and an opaque folder, hide things that the layer itself does not name. Here they are spelled
out, path by path: a landing removes only what was there when the layer was sealed, and is stopped by anything else.
In the layer, too: an opaque folder gets a whiteout for each thing that it hides, in all folders below it, and is no
longer opaque.

What was copied up and then not changed, or made again as it was, is taken out of the layer: the layer holds what it
says, and no more.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import replace

from amends.changeset.disk import whiteouts
from amends.changeset.disk.access import drop_access
from amends.changeset.disk.disk import Disk, digest_of, spot
from amends.changeset.disk.read import kind_of, readable, state_at
from amends.changeset.layers.stack import FoundPath, Stack
from amends.changeset.model.model import PathKind, PathState, same
from amends.changeset.model.paths import Patterns, join
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    path: bytes
    before: PathState | None
    after: PathState | None
    is_ephemeral: bool
    was_there: bool = False
    """The layer itself shows that something was copied up from below, whatever is there by now."""


class Delta:
    """The changes of one tree's part of a layer."""

    def __init__(self, upper: bytes, below: Stack, ephemeral: Patterns, disk: Disk) -> None:
        self._upper = upper
        self._below = below
        self._ephemeral = ephemeral
        self._disk = disk

    def changes(self) -> list[Change]:
        """All of them, by path. What the layer repeats from below is removed from it on the way."""
        root = self._below.find(b"")
        found = sorted(self._inside(b"", root, hides=False), key=lambda change: change.path)
        return [self._renamed(change, found) if change.was_there else change for change in found]

    def _renamed(self, change: Change, found: list[Change]) -> Change:
        """A file that was copied up from under another name, which the layer hides, was not there under this one."""
        for other in found:
            gone = self._below.find(other.path) if other.before is not None and other.after is None else None
            if gone is not None and whiteouts.is_from(self._up(change.path), gone.where):
                return replace(change, was_there=False)
        return change

    def _inside(self, folder: bytes, below: FoundPath | None, *, hides: bool) -> Iterator[Change]:
        """Changes in a folder of the layer; `hides`: it shows nothing of what is below."""
        with os.scandir(self._up(folder)) as inside:
            names = sorted(each.name for each in inside)
        for name in names:
            yield from self._at(join(folder, name), hides=hides)
        if hides and below is not None and below.is_folder:
            hidden = [name for name in self._below.names(below) if name not in names]
            for name in hidden:
                yield from self._gone(join(folder, name))
            self._white_out(folder, hidden)

    def _white_out(self, folder: bytes, names: list[bytes]) -> None:
        where = self._up(folder)
        about = os.lstat(where)
        with contextlib.ExitStack() as after:
            if about.st_mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(where, stat.S_IMODE(about.st_mode) | stat.S_IRWXU)
                after.callback(os.chmod, where, stat.S_IMODE(about.st_mode))
            for name in names:
                whiteouts.make_whiteout(where + b"/" + name)
        os.utime(where, ns=(about.st_atime_ns, about.st_mtime_ns))

    def _at(self, path: bytes, *, hides: bool) -> Iterator[Change]:
        where = self._up(path)
        below = self._below.find(path)
        drop_access(where, is_new=below is None)
        about = os.lstat(where)
        if whiteouts.is_whiteout(where, about):
            yield from self._gone(path)
            return
        if below is not None and below.is_folder and not stat.S_ISDIR(about.st_mode):
            yield from self._gone_inside(path)
        if stat.S_ISDIR(about.st_mode):
            yield from self._folder(path, about, below, hides=hides)
            return
        is_ephemeral = path in self._ephemeral
        after = _light(where, about) if is_ephemeral else self.file_state(where)
        before = None if below is None or is_ephemeral else state_at(spot(below.where))
        if below is not None and same(before, after):
            self._disk.remove(spot(where))
        else:
            yield Change(path, before, after, is_ephemeral, below is None and whiteouts.came_from_below(where))

    def _folder(self, path: bytes, about: os.stat_result, below: FoundPath | None, *, hides: bool) -> Iterator[Change]:
        after = PathState(kind=PathKind.FOLDER, mode=stat.S_IMODE(about.st_mode), mtime_ns=about.st_mtime_ns)
        before = None if below is None else state_at(spot(below.where))
        is_same = same(before, after)
        if not is_same:
            yield Change(path, before, after, path in self._ephemeral)
        is_opaque = whiteouts.is_opaque(self._up(path))
        yield from self._inside(path, below, hides=hides or is_opaque)
        if is_opaque:
            whiteouts.clear_opaque(self._up(path))
        if is_same and not os.listdir(self._up(path)):
            self._disk.remove_folder(spot(self._up(path)))

    def _gone(self, path: bytes) -> Iterator[Change]:
        below = self._below.find(path)
        if below is None:
            return
        yield from self._gone_inside(path)
        yield Change(path, state_at(spot(below.where)), None, path in self._ephemeral)

    def _gone_inside(self, path: bytes) -> Iterator[Change]:
        for inner, found in self._below.walk(path):
            yield Change(inner, state_at(spot(found.where)), None, inner in self._ephemeral)

    def _up(self, path: bytes) -> bytes:
        return self._upper + b"/" + path if path else self._upper

    @staticmethod
    def file_state(where: bytes) -> PathState:
        """Of a file in the layer, also of one whose mode would not let us read it."""
        state = state_at(spot(where))
        if state is None:
            raise FileNotFoundError(2, "No such file or directory", os.fsdecode(where))
        if state.digest.startswith("stat:") and state.kind is PathKind.FILE:
            with readable(where) as file:
                return replace(state, digest=digest_of(file))
        return state


def _light(where: bytes, about: os.stat_result) -> PathState:
    """A state without its digest: of what never lands, and need not be compared."""
    kind = kind_of(about)
    target = os.readlink(where) if kind is PathKind.LINK else b""
    mode = 0o777 if kind is PathKind.LINK else stat.S_IMODE(about.st_mode)
    return PathState(kind=kind, mode=mode, size=about.st_size, mtime_ns=about.st_mtime_ns, target=target)
