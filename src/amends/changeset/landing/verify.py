"""Running a command over what a landing would make of the trees: their present state, with just what would land.

Two changesets that touch no common file can still break each other. The command sees them together before anything is
applied, and whatever it writes is thrown away. It sees nothing else: what the layers hold and never lands, a cache for
one, would make a check pass that fails in the tree.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import TypeAlias

from amends.changeset.disk import whiteouts
from amends.changeset.disk.disk import Disk, spot
from amends.changeset.disk.read import about_path, readable
from amends.changeset.landing.validate import Validated
from amends.changeset.model.landing_plan import WantedChange
from amends.changeset.model.model import PathKind, PathState, Terms
from amends.changeset.model.paths import parents, spell
from amends.changeset.store.home import room_of, upper_of
from amends.changeset.views.probe import make_view
from amends.changeset.views.protocol import ViewGround
from amends.dataclass import dataclass
from amends.errors import ChangesetDamagedError
from amends.process.running import Launch, Ran

_Opened: TypeAlias = Callable[[bytes], AbstractContextManager[int]]


@dataclass(frozen=True, slots=True)
class LandingVerification:
    command: Sequence[str | bytes]
    ground: ViewGround
    provider: str
    folder: bytes
    """The changeset's own; a folder in it is used, and removed."""
    opener: Callable[[int], _Opened]
    """Of a tree: what opens that which would land at a path of it."""
    timeout_s: float | None = None
    env: Mapping[str, str] | None = None
    """All that the command sees of the environment; None: what commands in a view see of it."""
    terms: Terms = field(default_factory=Terms)

    def run(self, found: Sequence[Validated]) -> Ran:
        place = self.folder + b"/verify"
        self.ground.disk.remove_all(place)
        try:
            return self._run(found, place)
        finally:
            self.ground.disk.remove_all(place)

    def _run(self, found: Sequence[Validated], place: bytes) -> Ran:
        net, layer = place + b"/net", place + b"/layer"
        for each in (place, net, layer, room_of(layer)):
            os.mkdir(each, 0o700)
        for tree, validated in enumerate(found):
            for folder in (upper_of(net, tree), upper_of(layer, tree)):
                os.mkdir(folder, 0o700)
                os.chmod(folder, os.stat(validated.home.root).st_mode & 0o7777)
            _Laid(validated, upper_of(net, tree), self.opener(tree)).lay_out()

        def lowers(tree: int) -> tuple[bytes, ...]:
            return (upper_of(net, tree),)

        ground = replace(self.ground, folder=place, lowers=lowers, layers=lambda: ())
        view = make_view(self.provider, ground)
        view.begin()
        asked = Launch(command=self.command, cwd=found[0].home.root, env=self.env, inherits=self.env is None)
        running = view.start(layer, replace(asked, confine=self.terms.confine, network=self.terms.network))
        return running.wait(self.timeout_s)


class _Laid:
    """The landing in one tree, as a layer of its own."""

    def __init__(
        self, validated: Validated, upper: bytes, opened: Callable[[bytes], AbstractContextManager[int]]
    ) -> None:
        self._validated = validated
        self._upper = upper
        self._opened = opened
        self._root = validated.home.root
        self._folders: dict[bytes, tuple[int, int]] = {}
        """Mode and time of each folder, for when all is in it."""

    def lay_out(self) -> None:
        wanted = sorted(self._validated.wanted, key=lambda each: each.path)
        hiding = {each.path for each in wanted if each.new is None or each.new.kind is not PathKind.FOLDER}
        for each in wanted:
            if hiding.isdisjoint(parents(each.path)):
                self._have_folders(each.path)
                self._lay(each)
        for path, (mode, time) in reversed(self._folders.items()):
            os.chmod(self._upper + b"/" + path, mode)
            os.utime(self._upper + b"/" + path, ns=(time, time))

    def _lay(self, wanted: WantedChange) -> None:
        target, new = self._upper + b"/" + wanted.path, wanted.new
        if new is None:
            whiteouts.make_whiteout(target)
            return
        if new.kind is PathKind.FOLDER:
            os.mkdir(target, 0o700)
            self._folders[wanted.path] = (new.mode, new.mtime_ns)
            return
        if new.kind is PathKind.LINK:
            os.symlink(new.target, target)
        else:
            self._lay_file(wanted.path, target, new)
        os.utime(target, ns=(new.mtime_ns, new.mtime_ns), follow_symlinks=False)

    def _lay_file(self, path: bytes, target: bytes, new: PathState) -> None:
        about = about_path(self._root + b"/" + path)
        owner = None if about is None else (about.st_uid, about.st_gid)
        merged = self._validated.merged.get(path)
        if merged is not None:
            Disk().write(spot(target), merged, new.mode, owner)
            return
        is_theirs = path in self._validated.from_tree
        with readable(self._root + b"/" + path) if is_theirs else self._opened(path) as file:
            digest = Disk().copy(file, spot(target), new.mode, owner)
        if digest != new.digest and not is_theirs:
            raise ChangesetDamagedError(f"{spell(path)} is not what was sealed; rewind, and do it again")

    def _have_folders(self, path: bytes) -> None:
        """The folders above that are not made by the landing are in the tree."""
        for folder in reversed(list(parents(path))):
            if not os.path.isdir(self._upper + b"/" + folder):
                about = os.stat(self._root + b"/" + folder)
                os.mkdir(self._upper + b"/" + folder, 0o700)
                self._folders[folder] = (about.st_mode & 0o7777, about.st_mtime_ns)
