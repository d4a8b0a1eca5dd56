"""The kernel's overlayfs, mounted over the tree's own path in namespaces that only the tool is in.

Absolute paths, editable installs and the first lines of scripts in a venv lead into the view; outside, nothing is
mounted. Each command has a mount of its own, so the layer's folder is at rest between commands, and Python writes to it
directly. Opening, sealing and dropping do not depend on the size of the tree.

Known of overlayfs: a folder that is in the tree cannot be renamed by rename(2) (EXDEV; `mv` copies instead): see
`promote`. A file that someone changes in the tree while a command runs may be seen old or new: see ancestors.py.

Its base is no view at all: Python reads through the layers and writes into the newest. Works wherever files do.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import replace
from typing import Final

from amends.changeset.disk import whiteouts
from amends.changeset.disk.read import about_path
from amends.changeset.layers.ancestors import moment
from amends.changeset.layers.stack import Stack, stack_over
from amends.changeset.layers.writing import Writing
from amends.changeset.model.paths import join, parents
from amends.changeset.store.home import Home, room_of, upper_of
from amends.changeset.views.confining import kept_in
from amends.changeset.views.protocol import ViewGround
from amends.errors import ViewError
from amends.process.running import Launch, Mount, Running


class ApiView:
    name = "api"

    def __init__(self, ground: ViewGround) -> None:
        self.ground = ground

    def begin(self) -> tuple[tuple[int, int], ...]:
        return tuple((moment(home.path), home.newest_landing()) for home in self.ground.homes)

    def writing(self, layer: bytes, tree: int) -> Writing:
        return Writing(self.stack(layer, tree), room_of(layer))

    def stack(self, layer: bytes, tree: int) -> Stack:
        home = self.ground.homes[tree]
        return stack_over(home, (upper_of(layer, tree), *self.ground.lowers(tree)))

    def start(self, layer: bytes, asked: Launch) -> Running:
        raise ViewError("the provider `api` has no view that a tool could run in; `doctor` says what the others need")

    def collect(self, layer: bytes) -> tuple[frozenset[bytes], ...]:
        return tuple(frozenset() for _ in self.ground.homes)

    def settle(self) -> None:
        """It keeps nothing."""

    def restore(self, dropped: tuple[frozenset[bytes], ...]) -> None:
        """It keeps nothing."""


MOST_LAYERS: Final = 400


class OverlayView(ApiView):
    name = "overlay"

    def start(self, layer: bytes, asked: Launch) -> Running:
        room = room_of(layer) + b"/run%d" % len(os.listdir(room_of(layer)))
        os.mkdir(room)
        mounts = tuple(self._prepared(layer, room, tree) for tree in range(len(self.ground.homes)))
        whole = replace(kept_in(asked, self.ground), mounts=mounts, userns=self.ground.userns)
        return Running(whole, self.ground.clock)

    def _prepared(self, layer: bytes, room: bytes, tree: int) -> Mount:
        lowers = self.ground.lowers(tree)
        if len(lowers) > MOST_LAYERS:
            raise ViewError(f"{len(lowers)} layers are more than an overlay can have ({MOST_LAYERS}); land, or rewind")
        scratch = room + b"/%d" % tree
        os.mkdir(scratch)
        os.mkdir(scratch + b"/inner")
        root = self.ground.homes[tree].root
        os.symlink(upper_of(layer, tree), scratch + b"/u")
        for number, lower in enumerate(lowers):
            os.symlink(lower, scratch + b"/%d" % number)
        os.symlink(root, scratch + b"/b")
        mask = scratch + b"/m"
        os.mkdir(mask, 0o700)
        return Mount(target=root, scratch=scratch, lowers=len(lowers), masked=_white_out(self.ground.homes[tree], mask))


def _white_out(home: Home, mask: bytes) -> bool:
    """Have a layer that hides what is amends' own, to lie right over the tree. False: there is nothing to hide.

    Its folders look as the tree's do: of a folder in several layers the newest is what a tool sees.
    """
    for path in sorted(home.hidden.paths):
        above = list(reversed(list(parents(path))))
        folders = [about_path(join(home.root, each)) for each in above]
        if not all(about is not None and stat.S_ISDIR(about.st_mode) for about in folders):
            continue  # it is not there, or not there but by a link
        for each in above:
            if about_path(join(mask, each)) is None:
                os.mkdir(join(mask, each), 0o700)
        whiteouts.make_whiteout(join(mask, path))
    for folder, _, _ in os.walk(mask, topdown=False):
        about = os.lstat(join(home.root, folder[len(mask) + 1 :]))
        with contextlib.suppress(PermissionError):
            os.chown(folder, about.st_uid, about.st_gid)
        os.chmod(folder, stat.S_IMODE(about.st_mode))
        os.utime(folder, ns=(about.st_atime_ns, about.st_mtime_ns))
    return bool(os.listdir(mask))
