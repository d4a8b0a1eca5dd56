"""Killed at every call that changes the disk, and again at every call of the recovery: no tree is ever mixed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amends.changeset import Changeset
from amends.changeset.disk.disk import Disk
from amends.changeset.files import Files
from amends.changeset.layers.report import Landed
from amends.changeset.model.model import Life
from amends.changeset.store.home import Home
from tests.changeset.shims import NoExchange, Watched
from tests.changeset.trees import Folder, Plants, Seen, plant
from tests.changeset.worlds import ID, Crashes, World
from tests.parts import rest, sampled

MEMORY = Path("/dev/shm")

TREE: Plants = {
    "edited.py": "one\ntwo\nthree\nfour\nfive\n",
    "gone.py": "gone = 1\n",
    "folder": Folder(),
    "folder/gone.py": "gone = 2\n",
    "folder/inner": Folder(),
    "folder/inner/gone.py": "gone = 3\n",
    "becomes_file": Folder(),
    "becomes_file/inside.py": "inside\n",
    "becomes_folder": "a file\n",
    "moded": Folder(),
    "moded/stays.py": "stays\n",
    "untouched.py": "untouched\n",
    "empty": Folder(),
}
OTHER: Plants = {"lib.py": "lib = 1\n", "old.py": "old\n"}


def work(files: Files) -> None:
    """Something of every kind that a landing can do."""
    files.write_text("edited.py", "ONE\ntwo\nthree\nfour\nfive\n")
    files.remove("gone.py")
    files.remove("folder", recursive=True)
    files.remove("becomes_file", recursive=True)
    files.write_text("becomes_file", "a file now\n", mode=0o600)
    files.remove("becomes_folder")
    files.make_folder("becomes_folder/deep", parents=True)
    files.write_text("becomes_folder/deep/new.py", "new\n")
    files.chmod("moded", 0o700)
    files.make_folder("fresh")
    files.write_text("fresh/new.py", "fresh\n")
    files.symlink("link", "edited.py")
    files.write_text("added.py", "added\n", mode=0o755)


def more_work(files: Files) -> None:
    files.write_text("added.py", "added twice\n")
    files.write_text("moded/stays.py", "changed\n")


@pytest.fixture
def world() -> Iterator[World]:
    place = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    made = World(place)
    plant(made.tree(), TREE)
    yield made
    shutil.rmtree(place, ignore_errors=True)


def sealed(world: World) -> None:
    """Two layers, ready to land."""
    with world.open() as changeset:
        with changeset.begin("one") as files:
            work(files)
        with changeset.begin("two") as files:
            more_work(files)
    world.keep()


def land(world: World, disk: Disk) -> object:
    with world.open(disk) as changeset:
        return changeset.land()


def reopen(world: World, disk: Disk) -> object:
    with world.open(disk) as changeset:
        return changeset.life


def no_folder_times(found: dict[str, Seen]) -> dict[str, Seen]:
    return {
        tree: {path: about[:2] if about[0] == "folder" else about for path, about in things.items()}
        for tree, things in found.items()
    }


class BeforeOrAfter:
    """The trees are as before, to the last time of the last folder, or as after; the changeset knows which."""

    def __init__(self, world: World) -> None:
        world.bring_back()
        self.before = world.seen()
        with world.open() as changeset:
            assert isinstance(changeset.land(), Landed)
        self.after = no_folder_times(world.seen())
        self.ends: set[str] = set()

    def __call__(self, world: World, story: str) -> list[str]:
        found = world.seen()
        with world.open(seed="check") as changeset:
            life = changeset.life
            if found == self.before and life is Life.ACTIVE:
                self.ends.add("before")
                assert isinstance(changeset.land(), Landed)
                found = world.seen()
                life = changeset.life
            else:
                self.ends.add("after")
            if no_folder_times(found) != self.after or life is not Life.LANDED:
                return [f"{story}: a mixed tree: {different(no_folder_times(found), self.after)}"]
        left = [path for tree in world.trees() for path in (world.path / f".{tree.name}.changesets/landings").iterdir()]
        return [f"{story}: left {path}" for path in left]


def different(one: dict[str, Seen], other: dict[str, Seen]) -> list[Any]:
    return [
        (tree, path, one[tree].get(path), other[tree].get(path))
        for tree in one
        for path in sorted({*one[tree], *other[tree]})
        if one[tree].get(path) != other[tree].get(path)
    ]


@pytest.mark.parametrize("disk", sampled([Watched, NoExchange], each=2))
def test_a_landing_killed_at_any_call_is_all_or_nothing(
    world: World, disk: type[Watched], record_property: Any
) -> None:
    sealed(world)
    check = BeforeOrAfter(world)
    crashes = Crashes(world, land, reopen, check, disk=disk).run()
    assert crashes.complaints == []
    assert check.ends == {"before", "after"}
    assert crashes.points > 60
    record_property("landings", {"points": crashes.points, "deaths": crashes.deaths, "states": crashes.states})


def test_a_landing_killed_in_the_middle_of_a_write_is_all_or_nothing(world: World) -> None:
    sealed(world)
    crashes = Crashes(world, land, reopen, BeforeOrAfter(world), torn=True, twice=False).run()
    assert crashes.complaints == []


@rest
def test_a_landing_in_two_trees_killed_at_any_call_is_all_or_nothing_in_both(world: World) -> None:
    plant(world.tree("other"), OTHER)
    with world.open() as changeset, changeset.begin("both") as files:
        files.write_text("lib.py", "lib = 2\n")
        files.remove("old.py")
        files.write_text(world.tree() / "edited.py", "ONE\n")
        files.remove(world.tree() / "gone.py")
        files.write_text(world.tree() / "added.py", "added\n")
    world.keep()
    check = BeforeOrAfter(world)
    assert [tree.name for tree in world.trees()] == ["other", "tree"]
    crashes = Crashes(world, land, reopen, check).run()
    assert crashes.complaints == []
    assert check.ends == {"before", "after"}


@rest
def test_a_landing_with_its_room_in_the_tree_killed_at_any_call_is_all_or_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the state directory is on another file system."""

    def cannot(_: Home) -> bool:
        return False

    monkeypatch.setattr(Home, "can_move_into", cannot)
    sealed(world)
    check = BeforeOrAfter(world)
    crashes = Crashes(world, land, reopen, check).run()
    assert crashes.complaints == []
    assert check.ends == {"before", "after"}


def test_whoever_opens_only_the_second_tree_recovers_the_first_too(world: World) -> None:
    plant(world.tree("other"), OTHER)
    with world.open() as changeset, changeset.begin("both") as files:
        files.write_text("lib.py", "lib = 2\n")
        files.write_text(world.tree() / "edited.py", "ONE\n")
    world.keep()

    def open_second(world: World, disk: Disk) -> object:
        with Changeset.open(world.tree(), disk=disk) as changeset:
            return changeset.life

    crashes = Crashes(world, land, open_second, BeforeOrAfter(world), twice=False).run()
    assert crashes.complaints == []


def seal_a_third(world: World, disk: Disk) -> object:
    with world.open(disk) as changeset, changeset.begin("three") as files:
        files.write_text("third.py", "third\n")
        files.remove("untouched.py")
        return files.seal()


def test_a_seal_killed_at_any_call_is_a_sealed_layer_or_none(world: World) -> None:
    sealed(world)
    world.bring_back()
    before = world.seen()
    ends: set[int] = set()

    def check(world: World, story: str) -> list[str]:
        complaints = [] if world.seen() == before else [f"{story}: the tree was touched"]
        with world.open() as changeset:
            count = len(changeset.steps())
            ends.add(count)
            with changeset.begin("look") as files:
                is_there = (files.exists("third.py"), not files.exists("untouched.py"))
                files.drop()
        if (count, is_there) not in {(2, (False, False)), (3, (True, True))}:
            complaints.append(f"{story}: {count} layers, and the view has {is_there}")
        return complaints

    crashes = Crashes(world, seal_a_third, reopen, check).run()
    assert crashes.complaints == []
    assert ends == {2, 3}


def test_a_rewind_killed_at_any_call_leaves_the_first_layers(world: World) -> None:
    sealed(world)
    world.bring_back()
    before = world.seen()

    def rewind(world: World, disk: Disk) -> object:
        with world.open(disk) as changeset:
            return changeset.rewind(0)

    def check(world: World, story: str) -> list[str]:
        with world.open() as changeset:
            names = [step.name for step in changeset.steps()]
        whole = ["one", "two"][: len(names)]
        return [] if names == whole and world.seen() == before else [f"{story}: {names}"]

    crashes = Crashes(world, rewind, reopen, check).run()
    assert crashes.complaints == []


def test_a_second_process_cannot_open_it_meanwhile_and_can_afterwards(world: World) -> None:
    from amends.errors import ChangesetBusyError

    with world.open(), pytest.raises(ChangesetBusyError, match=ID):
        world.open()
    world.open().close()
