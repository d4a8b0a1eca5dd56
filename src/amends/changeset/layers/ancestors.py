"""Which state a step started from: the part that everybody gets wrong when the tree is alive.

A step sees the tree as it is, and others change it meanwhile: agents by landings, people by their editors. What the
tree has when the layer is sealed is therefore not what the step started from, unless that can be proven:

    a landing since the step began changed the path   its pre-image, if that was there before the step began
    the inode has not changed since the step began    what is there now
    nothing is there                                  nothing, unless the layer shows that something was copied up
                                                      and the folder has changed since the step began
    anything else                                     unknown: someone changed it while the step worked on it

An inode's change time is the proof: no program can set it, and every write, rename and chmod moves it. Replacing a
folder above the file does not, so a folder that was itself renamed since makes all below it unknown.

An unknown ancestor is reported by the seal, and the step can be dropped and done again. At a landing it is a conflict
unless both sides came to the same.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Final

from amends.changeset.disk.disk import opened, spot
from amends.changeset.disk.read import about_path
from amends.changeset.layers.delta import Change
from amends.changeset.model import codec
from amends.changeset.model.codec import items, number, state_of
from amends.changeset.model.model import UNKNOWN, Ancestor, PathKind, PathState
from amends.changeset.model.paths import parents
from amends.changeset.store.home import Home, kept_at
from amends.changeset.store.objects import Objects

_PATIENCE: Final = 1_000_000


class Ancestry:
    """Of one tree, for one step: `since_ns` and `landing` are from its beginning, `earlier` from its layers below."""

    def __init__(
        self, home: Home, objects: Objects, *, since_ns: int, landing: int, earlier: Mapping[bytes, Ancestor]
    ) -> None:
        self._home = home
        self._objects = objects
        self._since_ns = since_ns
        self._earlier = earlier
        self._landed = _first_changes(home, landing)
        self._steady: dict[bytes, bool] = {}

    def of(self, change: Change) -> Ancestor:
        known = self._earlier.get(change.path)
        if known is not None:
            return known
        landed = self._landed.get(change.path)
        if landed is not None:
            return self._before_landing(*landed)
        where = self._home.root + b"/" + change.path
        about = about_path(where)
        if about is None:
            left = change.before is not None or (change.was_there and not self._was_missing(change.path))
            return UNKNOWN if left else Ancestor(state=None)
        if about.st_ctime_ns >= self._since_ns or not self._is_reached_as_before(change.path):
            return UNKNOWN
        if change.before is None:
            return UNKNOWN
        if change.after is not None and change.before.kind is PathKind.FILE:
            self._objects.keep(change.before.digest, where, change.before.size)
        return Ancestor(state=change.before)

    def _before_landing(self, before: PathState | None, ctime_ns: int, kept: bytes | None) -> Ancestor:
        if before is not None and ctime_ns >= self._since_ns:
            return UNKNOWN
        if before is not None and kept is not None:
            self._objects.keep(before.digest, kept, before.size)
        return Ancestor(state=before)

    def _was_missing(self, path: bytes) -> bool:
        """Whether the nearest folder that is there proves that nothing has left this path since the step began.

        Only to a privileged process does a kernel say where a file was copied up from. For everybody else a file that
        a tool renamed looks like one that was there before; that no name has left its folder says that it was not.
        """
        for folder in (*parents(path), b""):
            about = about_path(self._home.root + b"/" + folder)
            if about is not None:
                is_same = stat.S_ISDIR(about.st_mode) and about.st_ctime_ns < self._since_ns
                return is_same and self._is_reached_as_before(path)
        return False

    def _is_reached_as_before(self, path: bytes) -> bool:
        """Whether no folder above was put in another's place: renamed since, without anything in it being changed."""
        return all(self._is_steady(folder) for folder in parents(path))

    def _is_steady(self, folder: bytes) -> bool:
        if folder not in self._steady:
            about = about_path(self._home.root + b"/" + folder)
            moved = about is not None and about.st_ctime_ns >= self._since_ns > about.st_mtime_ns
            self._steady[folder] = not moved
        return self._steady[folder]


def _first_changes(home: Home, since: int) -> dict[bytes, tuple[PathState | None, int, bytes | None]]:
    """Each path as it was before the first of these landings changed it: state, change time, where its content is."""
    found: dict[bytes, tuple[PathState | None, int, bytes | None]] = {}
    for landing in home.log_after(since):
        for value in items(landing["paths"]):
            fields = codec.fields_of(value)
            found.setdefault(
                codec.path_of(fields["path"]),
                (state_of(fields["old"]), number(fields["old_ctime_ns"]), kept_at(home, landing, fields)),
            )
    return found


def moment(folder: bytes) -> int:
    """A change time that is later than that of anything changed before this call, on the file system of `folder`.

    Clocks of file systems tick, some in steps of milliseconds: a marker is touched until its time moves on. 0: the
    clock went back or stands still, and no time proves anything.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    with opened(spot(folder + b"/.moment"), flags) as marker:
        last = os.fstat(marker).st_ctime_ns
        os.fchmod(marker, 0o600)
        first = os.fstat(marker).st_ctime_ns
        if first < last:
            return 0
        for turn in range(_PATIENCE):
            os.fchmod(marker, 0o400 if turn % 2 else 0o600)
            if (now := os.fstat(marker).st_ctime_ns) > first:
                return now
    return 0
