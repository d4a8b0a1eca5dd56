"""Layers over a tree, read as one: what is at a path, what is in a folder, where a link leads.

The newest layer that has something to say of a path is right. A whiteout says that it is gone; an opaque folder hides
what the layers below it have in that folder; a file hides a folder below it, with all that is in it.

A workspace is a stack of one: nothing below, nothing to hide.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final

from amends.changeset.disk import whiteouts
from amends.changeset.disk.disk import spot
from amends.changeset.disk.read import about_path, content_at, state_at
from amends.changeset.model.model import PathState
from amends.changeset.model.paths import beneath, join, spell
from amends.changeset.store.home import Home
from amends.dataclass import dataclass
from amends.errors import PathError

_LINKS: Final = 40


@dataclass(frozen=True, slots=True)
class FoundPath:
    """Where a path is on disk, and, if it is a folder, every folder that has a part of it, newest first."""

    where: bytes
    about: os.stat_result
    folders: tuple[bytes, ...] = ()

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.about.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.about.st_mode)

    @property
    def mode(self) -> int:
        return stat.S_IMODE(self.about.st_mode)


class Stack:
    """`parts` are folders, newest first; the last may be the tree itself. Absolute links are taken by `root`.

    What is in `hidden`, by its place on disk, is not there: see hidden.py.
    """

    def __init__(self, parts: Sequence[bytes], root: bytes, hidden: frozenset[bytes] = frozenset()) -> None:
        self.parts = tuple(parts)
        self.root = root
        self.hidden = hidden

    def below(self) -> Stack:
        """The stack without its newest part."""
        return Stack(self.parts[1:], self.root, self.hidden)

    def find(self, path: bytes) -> FoundPath | None:
        """Find a path, links not followed. None: nothing, or something above it is no folder."""
        found = self._merged(self.parts, b"")
        for name in path.split(b"/") if path else ():
            if found is None or not found.is_folder:
                return None
            found = self._merged(found.folders, name)
        return found

    def _merged(self, folders: Sequence[bytes], name: bytes) -> FoundPath | None:
        first: FoundPath | None = None
        parts: list[bytes] = []
        for folder in folders:
            where = folder + b"/" + name if name else folder
            about = None if where in self.hidden else about_path(where)
            if about is None:
                continue
            if name and whiteouts.is_whiteout(where, about):
                break
            if not stat.S_ISDIR(about.st_mode):
                if first is None:
                    return FoundPath(where, about)
                break
            first = first or FoundPath(where, about)
            parts.append(where)
            if name and whiteouts.is_opaque(where):
                break
        return first and FoundPath(first.where, first.about, tuple(parts))

    def names(self, found: FoundPath) -> dict[bytes, FoundPath]:
        """Contents of a folder, by name."""
        seen: dict[bytes, FoundPath | None] = {}
        for folder in found.folders:
            with os.scandir(folder) as inside:
                fresh = [each.name for each in inside if each.name not in seen]
            for name in fresh:
                seen[name] = self._merged(found.folders, name)
        return {name: each for name, each in sorted(seen.items()) if each is not None}

    def walk(self, path: bytes) -> Iterator[tuple[bytes, FoundPath]]:
        """All that is below a folder, a folder before what is in it; links are not followed."""
        found = self.find(path)
        left = [] if found is None or not found.is_folder else [(path, iter(self.names(found).items()))]
        while left:
            folder, inside = left[-1]
            for name, inner in inside:
                yield join(folder, name), inner
                if inner.is_folder:
                    left.append((join(folder, name), iter(self.names(inner).items())))
                    break
            else:
                left.pop()

    def state(self, path: bytes) -> PathState | None:
        found = self.find(path)
        return None if found is None else state_at(spot(found.where))

    def content(self, path: bytes) -> bytes:
        found = self.find(path)
        if found is None:
            raise FileNotFoundError(2, "No such file or directory", spell(path))
        return content_at(found.where)

    def resolve(self, path: bytes, *, follow_last: bool = True) -> bytes:
        """Where a path leads once its links are followed. Raises PathError if that is out of the tree."""
        done, links = b"", 0
        rest: list[bytes] = path.split(b"/") if path else []
        while rest:
            name, *rest = rest
            if name == b"..":
                if not done:
                    raise PathError(f"{spell(path)} leads out of the tree by a link")
                done = done.rpartition(b"/")[0]
                continue
            if name in {b"", b"."}:
                continue
            here = join(done, name)
            found = self.find(here)
            if found is None or not found.is_link or (not rest and not follow_last):
                done = here
                continue
            links += 1
            if links > _LINKS:
                raise OSError(errno.ELOOP, "Too many levels of symbolic links", spell(path))
            target = os.readlink(found.where)
            if target.startswith(b"/"):
                inside = beneath(os.path.normpath(target), self.root)
                if inside is None:
                    raise PathError(f"{spell(here)} is a link to {spell(target)}, out of the tree")
                done, target = b"", inside
            rest = [*target.split(b"/"), *rest]
        return done


def leads_out(path: bytes, target: bytes, root: bytes) -> bool:
    """Whether a link at a path leads out of the tree by its own words; links on its way are not looked at."""
    if target.startswith(b"/"):
        return beneath(os.path.normpath(target), root) is None
    level = path.count(b"/")
    for part in target.split(b"/"):
        if part == b"..":
            level -= 1
            if level < 0:
                return True
        elif part not in {b"", b"."}:
            level += 1
    return False


def stack_over(home: Home, lowers: Sequence[bytes]) -> Stack:
    """A tree under these folders, newest first, without what is amends' own."""
    return Stack((*lowers, home.root), home.root, home.hidden.places)
