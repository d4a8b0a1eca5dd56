"""Power cuts on a real file system: its image is copied before each call, mounted again, and recovered from.

Needs root, a loop device and mkfs; runs in `make soak`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amends.changeset import Changeset, Landed, Terms
from amends.changeset.disk.disk import Disk, Sync
from amends.changeset.model.model import Life
from tests.changeset.shims import CALLS
from tests.changeset.test_crashes import TREE, more_work, work
from tests.changeset.trees import Seen, plant, seen

pytestmark = [
    pytest.mark.soak,
    pytest.mark.as_root,
]

API = Terms(provider="api")
MAKERS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"], "btrfs": ["mkfs.btrfs", "-q", "-f"]}
SIZES = {"ext4": 24, "xfs": 320, "btrfs": 128}


class Imaging(Disk):
    """Copies the image before each call."""

    def __init__(self, image: Path, forgets: Sync | None) -> None:
        self.image = image
        self.forgets = forgets
        self.count = 0

    def before(self) -> None:
        self.count += 1
        shutil.copyfile(self.image, self.image.with_suffix(f".{self.count}"))


def _imaged(name: str) -> Any:
    plain = getattr(Disk, name)

    def call(self: Imaging, *args: Any, **more: Any) -> Any:
        self.before()
        if name.startswith("sync") and args[1] is self.forgets:
            return None
        return plain(self, *args, **more)

    return call


for _name in CALLS:
    setattr(Imaging, _name, _imaged(_name))


@pytest.fixture
def place() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)
        subprocess.run(["umount", "-q", f"{name}/mounted"], check=False)


def mount(image: Path, at: Path) -> None:
    subprocess.run(["mount", "-o", "loop", image, at], check=True)


def without_folder_times(found: Seen) -> Seen:
    return {path: about[:2] if about[0] == "folder" else about for path, about in found.items()}


def cuts(place: Path, kind: str, forgets: Sync | None) -> tuple[int, list[str]]:
    """How many cuts were tried, and at which the tree was mixed or the recovery failed."""
    if shutil.which(MAKERS[kind][0]) is None:
        pytest.skip(f"needs {MAKERS[kind][0]}")
    image, at = place / "image", place / "mounted"
    at.mkdir()
    with image.open("wb") as file:
        file.truncate(SIZES[kind] << 20)
    subprocess.run([*MAKERS[kind], image], check=True)
    mount(image, at)
    tree = plant(at / "tree", TREE)
    with Changeset.open(tree, id="scene", terms=API) as changeset:
        for act in (work, more_work):
            with changeset.begin("work") as files:
                act(files)
    os.sync()
    before = seen(tree)
    disk = Imaging(image, forgets)
    with Changeset.open(tree, id="scene", terms=API, disk=disk) as changeset:
        assert isinstance(changeset.land(), Landed)
    disk.before()
    after = without_folder_times(seen(tree))
    subprocess.run(["umount", at], check=True)
    found: list[str] = []
    for number in range(1, disk.count + 1):
        cut = image.with_suffix(f".{number}")
        mount(cut, at)
        try:
            with Changeset.open(tree, id="scene", terms=API) as changeset:
                ended = {Life.ACTIVE: before, Life.LANDED: after}[changeset.life]
            now = seen(tree) if ended is before else without_folder_times(seen(tree))
            if now != ended:
                found.append(f"cut {number} of {disk.count}: a mixed tree")
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is a complaint
            found.append(f"cut {number} of {disk.count}: {exc!r}")
        finally:
            subprocess.run(["umount", at], check=True)
            cut.unlink()
    return disk.count, found


@pytest.mark.parametrize("kind", MAKERS)
def test_a_landing_survives_a_real_power_cut_before_any_call(kind: str, place: Path, record_property: Any) -> None:
    count, found = cuts(place, kind, None)
    record_property("power", {"cuts": count})
    assert found == []
    assert count > 60


@pytest.mark.parametrize("forgotten", [Sync.STAGED_FILES, Sync.PLAN_FILE])
def test_real_file_systems_catch_what_is_not_waited_for(place: Path, forgotten: Sync) -> None:
    _, found = cuts(place, "ext4", forgotten)
    assert found != []
