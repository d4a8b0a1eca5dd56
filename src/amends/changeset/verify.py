"""Running a command over what a landing would make of the trees: their present state, the layers, and what is merged.

Two changesets that touch no common file can still break each other. The command sees them together before anything is
applied, and whatever it writes is thrown away.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from amends.changeset.tools import Launch, Ran
from amends.changeset.validate import Validated
from amends.changeset.views.probe import named
from amends.changeset.views.protocol import Ground, room_of, upper_of
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Verification:
    command: Sequence[str | bytes]
    ground: Ground
    provider: str
    folder: bytes
    """The changeset's own; a folder in it is used, and removed."""
    timeout_s: float | None = None
    env: Mapping[str, str] | None = None
    """All that the command sees of the environment; None: that of this process."""

    def run(self, found: Sequence[Validated]) -> Ran:
        place = self.folder + b"/verify"
        self.ground.disk.remove_all(place)
        try:
            return self._run(found, place)
        finally:
            self.ground.disk.remove_all(place)

    def _run(self, found: Sequence[Validated], place: bytes) -> Ran:
        merged, layer = place + b"/merged", place + b"/layer"
        for each in (place, merged, layer, room_of(layer)):
            os.mkdir(each, 0o700)
        for tree, validated in enumerate(found):
            for folder in (upper_of(merged, tree), upper_of(layer, tree)):
                os.mkdir(folder, 0o700)
                os.chmod(folder, os.stat(validated.home.root).st_mode & 0o7777)
            _lay_out(validated, upper_of(merged, tree))
        below = self.ground.lowers

        def lowers(tree: int) -> tuple[bytes, ...]:
            return (upper_of(merged, tree), *below(tree))

        ground = replace(self.ground, folder=place, lowers=lowers, layers=lambda: ())
        view = named(self.provider, ground)
        view.begin()
        running = view.start(layer, Launch(command=self.command, cwd=found[0].home.root, env=self.env))
        return running.wait(self.timeout_s)


def _lay_out(validated: Validated, upper: bytes) -> None:
    """Write what would be merged as a layer of its own."""
    for wanted in validated.wanted:
        content = validated.merged.get(wanted.path)
        if content is None or wanted.new is None:
            continue
        target = upper + b"/" + wanted.path
        _have_folders(wanted.path, upper, validated.home.root)
        with open(target, "wb") as file:
            file.write(content)
        os.chmod(target, wanted.new.mode)


def _have_folders(path: bytes, upper: bytes, root: bytes) -> None:
    """The folders above a merged file are in the tree: a file is merged only where there is one already."""
    parts = path.split(b"/")[:-1]
    for number in range(len(parts)):
        folder = b"/".join(parts[: number + 1])
        if not os.path.isdir(upper + b"/" + folder):
            os.mkdir(upper + b"/" + folder)
            os.chmod(upper + b"/" + folder, os.stat(root + b"/" + folder).st_mode & 0o7777)
