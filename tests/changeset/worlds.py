"""A world to die in: trees and their homes at one place on disk, brought back to how they were before each death.

`Crashes` runs a scene once for each call that it makes, dies there, lets another process recover, and again at each
call of the recovery. What a recovery does depends on what it finds, and on nothing else: what was recovered from once
is not again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amends.changeset import Changeset, Terms
from amends.changeset.disk.disk import Disk
from amends.changeset.model.paths import spell
from amends.changeset.store.home import Home, write_record
from amends.clock import SystemClock
from tests.changeset.shims import Died, Watched
from tests.changeset.trees import Seen, seen

ID = "scene"
SOAK = "AMENDS_SOAK" in os.environ
"""Whether everything is tried that `make test` has no time for."""
CHANGE_TIMES = re.compile(rb'"old_ctime_ns":\d+|^{"digest":"\w+"')


class StillClock(SystemClock):
    """It is always the same moment, and the same ids come again: what is not different looks the same."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._seed = seed
        self._count = 0

    def now(self) -> int:
        return 1_700_000_000_000

    def new_id(self) -> str:
        self._count += 1
        return f"{self._seed}-{self._count}"


Captured = list[tuple[bytes, os.stat_result, bytes | None]]


class World:
    """Everything below one folder, as it was when it was kept."""

    def __init__(self, place: Path) -> None:
        self.path = place / "world"
        self._kept: Captured = []
        self._kept_at = 0

    def tree(self, name: str = "tree") -> Path:
        return self.path / name

    def trees(self) -> list[Path]:
        return sorted(path for path in self.path.iterdir() if not path.name.startswith("."))

    def keep(self) -> None:
        self._kept = self.captured()
        self._kept_at = time.time_ns()

    def captured(self) -> Captured:
        top = os.fsencode(self.path)
        found: Captured = [(top, os.lstat(top), None)]
        for folder, folders, files in os.walk(top):
            found += [(path, *held(path)) for path in (folder + b"/" + name for name in (*folders, *files))]
        return found

    def bring_back(self, captured: Captured | None = None) -> None:
        """As kept, or as captured; the homes are told that their trees are these."""
        Disk().remove_all(os.fsencode(self.path))
        captured = captured or self._kept
        for path, about, content in captured:
            if stat.S_ISDIR(about.st_mode):
                os.mkdir(path, 0o700)
            elif stat.S_ISCHR(about.st_mode):
                os.mknod(path, about.st_mode, about.st_rdev)
            elif stat.S_ISLNK(about.st_mode):
                os.symlink(content or b"", path)
            else:
                with open(path, "wb") as file:
                    file.write(content or b"")
        for path, about, _ in reversed(captured):
            if not stat.S_ISLNK(about.st_mode):
                os.chmod(path, stat.S_IMODE(about.st_mode))
            os.utime(path, ns=(about.st_mtime_ns, about.st_mtime_ns), follow_symlinks=False)
        self.adopt()

    def adopt(self) -> None:
        """Tell the homes that these are their trees, whatever their inodes."""
        for tree in self.trees():
            home = Home.of(os.fsencode(tree))
            if home.is_made:
                inode = os.stat(tree).st_ino
                write_record(Watched(), home.path, b"root.json", {"root": spell(home.root), "inode": inode})

    def fingerprint(self) -> str:
        """What a process that starts now would find."""
        hashed = hashlib.sha256()
        for folder, folders, files in os.walk(os.fsencode(self.path)):
            folders.sort()
            for name in sorted((*files, *folders)):
                if name in {b".moment", b"lock", b"door", b"probe.json", b"root.json"}:
                    continue
                path = folder + b"/" + name
                about = os.lstat(path)
                moment = about.st_mtime_ns if about.st_mtime_ns <= self._kept_at else 0
                hashed.update(b"%s %o %d " % (path, about.st_mode, moment))
                if stat.S_ISREG(about.st_mode):
                    with open(path, "rb") as file:
                        hashed.update(CHANGE_TIMES.sub(b"", file.read()))
                elif stat.S_ISLNK(about.st_mode):
                    hashed.update(os.readlink(path))
        return hashed.hexdigest()

    def open(self, disk: Disk | None = None, *, seed: str = "first") -> Changeset:
        terms = Terms(provider="api")
        return Changeset.open(*self.trees(), id=ID, terms=terms, disk=disk or Watched(), clock=StillClock(seed))

    def seen(self) -> dict[str, Seen]:
        return {tree.name: seen(tree) for tree in self.trees()}


def held(path: bytes) -> tuple[os.stat_result, bytes | None]:
    about = os.lstat(path)
    if stat.S_ISLNK(about.st_mode):
        return about, os.readlink(path)
    if not stat.S_ISREG(about.st_mode):
        return about, None
    with open(path, "rb") as file:
        return about, file.read()


Scene = Callable[[World, Disk], object]
Check = Callable[[World, str], list[str]]


@dataclass
class Crashes:
    """Deaths at every call of a scene and of its recoveries; `complaints` is what was found wrong."""

    world: World
    scene: Scene
    recover: Scene
    check: Check
    twice: bool = True
    torn: bool = False
    disk: type[Watched] = Watched
    points: int = 0
    deaths: int = 0
    states: int = 0
    complaints: list[str] = field(default_factory=list[str])
    _met: set[str] = field(default_factory=set[str])

    def run(self, **more: Any) -> Crashes:
        point = 0
        while True:
            point += 1
            self.world.bring_back()
            disk = self.disk(dies_at=point, torn=self.torn, **more)
            if not died(self.scene, self.world, disk):
                self.complaints += self.check(self.world, "nobody died")
                return self
            self.points += 1
            self.deaths += 1
            story = f"died at call {point} ({disk.names[-1]})"
            if self._is_new():
                self._again(story)

    def _is_new(self) -> bool:
        found = self.world.fingerprint()
        if found in self._met:
            return False
        self._met.add(found)
        return True

    def _again(self, story: str) -> None:
        """Recover undisturbed; then once for each call of the recovery, dying there."""
        self.states += 1
        left = self.world.captured()
        self.recover(self.world, Watched())
        self.complaints += self.check(self.world, story)
        again = 0
        while self.twice:
            again += 1
            self.world.bring_back(left)
            disk = self.disk(dies_at=again)
            if not died(self.recover, self.world, disk):
                return
            self.deaths += 1
            if self._is_new():
                self.states += 1
                self.recover(self.world, Watched())
                self.complaints += self.check(self.world, f"{story}, and again at call {again} ({disk.names[-1]})")


def died(scene: Scene, world: World, disk: Disk) -> bool:
    """Whether the process that played the scene was killed in it. What it held open is closed, as a kernel does."""
    before = set(os.listdir("/proc/self/fd"))
    try:
        scene(world, disk)
    except Died:
        for each in set(os.listdir("/proc/self/fd")) - before:
            with contextlib.suppress(OSError):
                os.close(int(each))
        return True
    return False
