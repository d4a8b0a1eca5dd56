"""Someone who knows nothing of us edits the tree at every point of a landing: no edit is lost, no tree is mixed.

The same with a kill after the edit, at every call (with AMENDS_SOAK; else at some), and a recovery.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from amends.changeset.disk.disk import Disk
from amends.changeset.landing import displaced
from amends.changeset.layers.report import Landed
from tests.changeset.shims import NoExchange, Watched
from tests.changeset.test_crashes import different, land, no_folder_times, reopen, sealed, world
from tests.changeset.trees import Seen
from tests.changeset.worlds import SOAK, Crashes, World, died
from tests.parts import rest, sampled

__all__ = ["world"]

TOKEN = "FOREIGN"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever keeps a file open here does so on purpose, and is not waited for."""
    monkeypatch.setattr(displaced, "WAITS", 1)


@dataclass
class Edit:
    """What somebody does to a path. It may fail, as it would for anybody: then nothing was edited."""

    path: str
    act: Callable[[Path], None]
    removes: bool = False
    happened: bool = False
    handle: int = -1
    held: bool = False
    """By a file that they have had open since before the landing."""
    blind: str = ""
    """A call before which an edit cannot be seen any more: a mode has nothing that it could change places with."""

    def prepare(self, world: World) -> None:
        self.happened = False
        if self.held:
            self.handle = os.open(world.tree() / self.path, os.O_RDWR)

    def __call__(self, world: World) -> None:
        with contextlib.suppress(OSError):
            if self.held:
                os.pwrite(self.handle, b"FOREIGN\n", os.fstat(self.handle).st_size)
                os.close(self.handle)
            else:
                self.act(world.tree() / self.path)
            self.happened = True

    def is_lost(self, world: World) -> bool:
        place = world.tree() / self.path
        if not self.happened:
            return False
        if self.removes:
            return os.path.lexists(place)
        if place.is_dir():
            return place.stat().st_mode & 0o777 != 0o711
        found = [place] if place.is_file() else []
        if self.held:
            found += [each for each in world.path.glob(".tree.changesets/landed/*/undo/*") if each.is_file()]
        return not any(TOKEN in each.read_text() for each in found)


def append(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(0, 2)
        file.write(b"FOREIGN\n")


def rewrite(path: Path) -> None:
    """As editors do that write in place: cut it to nothing, then write."""
    old = path.read_bytes()
    with open(path, "r+b") as file:
        file.truncate()
        file.write(b"FOREIGN\n" + old)


def replace(path: Path) -> None:
    """As editors do that write beside: the old inode goes."""
    beside = path.with_name(".beside")
    beside.write_bytes(path.read_bytes() + b"FOREIGN\n")
    os.rename(beside, path)


def create(path: Path) -> None:
    with open(path, "xb") as file:
        file.write(b"FOREIGN\n")


def chmod(path: Path) -> None:
    path.chmod(0o711)


def nothing(path: Path) -> None:
    raise AssertionError(path)


EDITS = {
    "appends to a file that is exchanged": Edit("edited.py", append),
    "rewrites a file that is exchanged": Edit("edited.py", rewrite),
    "replaces a file that is exchanged": Edit("edited.py", replace),
    "removes a file that is exchanged": Edit("edited.py", os.unlink, removes=True),
    "writes by an open file to one that is exchanged": Edit("edited.py", nothing, held=True),
    "rewrites a file that is exchanged last": Edit("moded/stays.py", rewrite),
    "creates a file where one is put": Edit("added.py", create),
    "creates a file where a link is put": Edit("link", create),
    "appends to a file that is removed": Edit("gone.py", append),
    "writes by an open file to one that is removed": Edit("gone.py", nothing, held=True),
    "replaces a file deep in a folder that is removed": Edit("folder/inner/gone.py", replace),
    "adds to a folder that is removed": Edit("folder/inner/theirs.py", create),
    "adds to a folder that becomes a file": Edit("becomes_file/theirs.py", create),
    "appends to a file that becomes a folder": Edit("becomes_folder", append),
    "adds to a folder that is made": Edit("becomes_folder/theirs.py", create),
    "adds to a folder deep in one that is made": Edit("becomes_folder/deep/theirs.py", create),
    "changes the mode of a folder whose mode changes": Edit("moded", chmod, blind="chmod_folder"),
    "appends to a file that nobody touches": Edit("untouched.py", append),
}


class Judge:
    """The trees as they would be before and after, had nobody meddled."""

    def __init__(self, world: World) -> None:
        world.bring_back()
        self.before = world.seen()
        assert isinstance(land(world, Watched()), Landed)
        self.after = no_folder_times(world.seen())

    def complaints(self, world: World, edit: Edit, story: str) -> Iterator[str]:
        if edit.is_lost(world):
            yield f"{story}: the edit of {edit.path} is lost"
        concerned = {edit.path.encode()}
        found = without(no_folder_times(world.seen()), concerned)
        before, after = without(no_folder_times(self.before), concerned), without(self.after, concerned)
        if found not in (before, after):
            yield f"{story}: a mixed tree: {different(found, before)} and {different(found, after)}"


def without(found: dict[str, Seen], paths: set[bytes]) -> dict[str, Seen]:
    """Leave out what was meddled with, and the folders that it keeps from coming and going."""
    above = {path[:place] for path in paths for place, letter in enumerate(path) if letter == ord("/")}
    return {
        tree: {
            path: about
            for path, about in things.items()
            if path not in paths | above and not any(path.startswith(each + b"/") for each in paths)
        }
        for tree, things in found.items()
    }


def calls(world: World) -> list[str]:
    world.bring_back()
    counted = Watched()
    land(world, counted)
    return counted.names


@pytest.mark.parametrize("disk", [Watched, NoExchange] if SOAK else [Watched])
@pytest.mark.parametrize("story", EDITS)
def test_no_edit_is_lost_at_any_point_of_a_landing(world: World, story: str, disk: type[Watched]) -> None:
    edit = EDITS[story]
    sealed(world)
    judge = Judge(world)
    found: list[str] = []
    happened = 0
    shift = 0 if SOAK else list(EDITS).index(story) % 2
    for point, call in enumerate(calls(world), start=1):
        if call == edit.blind or (not SOAK and point < 25 and point % 5) or (point + shift) % 2 * (not SOAK):
            continue
        world.bring_back()
        edit.prepare(world)
        land(world, disk(meddles_at=point, meddle=lambda: edit(world)))
        happened += edit.happened
        if disk is Watched or not edit.happened:
            found += judge.complaints(world, edit, f"{story} before call {point}")
    assert found == []
    assert happened > 3


@pytest.mark.parametrize("story", sampled(EDITS, each=6))
def test_no_edit_is_lost_if_the_landing_is_killed_too(world: World, story: str) -> None:
    edit = EDITS[story]
    sealed(world)
    judge = Judge(world)
    found: list[str] = []
    names = calls(world)
    whole = len(names)
    met: set[str] = set()
    for point in range(25, whole + 1):
        if names[point - 1] == edit.blind:
            continue
        for after in range(point, whole + 40) if SOAK else range(point + point % 31, whole + 40, 41):
            world.bring_back()
            edit.prepare(world)
            if not died(land, world, Watched(meddles_at=point, meddle=lambda: edit(world), dies_at=after)):
                break
            mark = world.fingerprint()
            if mark in met:
                continue
            met.add(mark)
            reopen(world, Watched())
            found += judge.complaints(world, edit, f"{story} before call {point}, killed at {after}")
    assert found == []


@rest
@pytest.mark.parametrize(
    "story",
    list(EDITS)
    if SOAK
    else [
        "rewrites a file that is exchanged last",
        "creates a file where a link is put",
        "adds to a folder that is made",
    ],
)
def test_a_landing_on_its_way_back_killed_at_any_call_and_again_leaves_what_was_there(world: World, story: str) -> None:
    edit = EDITS[story]
    sealed(world)
    judge = Judge(world)
    names = calls(world)
    late = max(place for place, name in enumerate(names, start=1) if name == "exchange")

    def check(world: World, told: str) -> list[str]:
        return list(judge.complaints(world, edit, told))

    def scene(world: World, disk: Disk) -> object:
        edit.prepare(world)
        return land(world, disk)

    crashes = Crashes(world, scene, reopen, check).run(meddles_at=late, meddle=lambda: edit(world))
    assert crashes.complaints == []
    assert crashes.points > len(names) - 20
