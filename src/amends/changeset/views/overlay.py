"""The kernel's overlayfs, mounted over the tree's own path in namespaces that only the tool is in.

Absolute paths, editable installs and the first lines of scripts in a venv lead into the view; outside, nothing is
mounted. Each command has a mount of its own, so the layer's folder is at rest between commands, and Python writes to it
directly. Opening, sealing and dropping do not depend on the size of the tree.

Known of overlayfs: a folder that is in the tree cannot be renamed by rename(2) (EXDEV; `mv` copies instead): see
`promote`. A file that someone changes in the tree while a command runs may be seen old or new: see ancestors.py.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

from amends.changeset.tools import Launch, Mount, Running
from amends.changeset.views.api import ApiView
from amends.changeset.views.protocol import room_of, upper_of
from amends.errors import ViewError

MOST_LAYERS: Final = 400


class OverlayView(ApiView):
    name = "overlay"

    def start(self, layer: bytes, asked: Launch) -> Running:
        room = room_of(layer) + b"/run%d" % len(os.listdir(room_of(layer)))
        os.mkdir(room)
        mounts = tuple(self._prepared(layer, room, tree) for tree in range(len(self.ground.homes)))
        tmp = room + b"/tmp"
        os.mkdir(tmp)
        env = asked.env
        if asked.confine:
            env = {**(os.environ if env is None else env), "TMPDIR": os.fsdecode(tmp)}
        whole = replace(asked, mounts=mounts, userns=self.ground.userns, tmp=tmp, env=env)
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
        return Mount(target=root, scratch=scratch, lowers=len(lowers))
