"""The power goes at every call: what was waited for is enough, and each thing that is waited for is needed."""

from __future__ import annotations

import pytest

from amends.changeset.disk.disk import Disk, Sync
from amends.changeset.model.model import Life
from tests.changeset.power import PowerCuts, Recorder
from tests.changeset.test_crashes import BeforeOrAfter, land, reopen, sealed, world
from tests.changeset.worlds import World
from tests.parts import sampled

__all__ = ["world"]

LANDING = [Sync.STAGED_FILES, Sync.STAGED_FOLDER, Sync.PLAN_FILE, Sync.PLAN_FOLDER, Sync.TREE_FOLDERS]
SEALING = [Sync.LAYER_FILES, Sync.LAYER_FOLDERS, Sync.RECORD_FILE]


def test_a_landing_survives_a_power_cut_after_any_call(world: World) -> None:
    sealed(world)
    cuts = PowerCuts(world, land, reopen, BeforeOrAfter(world)).run()
    assert cuts.complaints == []
    assert cuts.states > 100


def acknowledged(world: World, story: str) -> list[str]:
    """It was said to have landed: so it has, whatever the disk had not yet got."""
    with world.open(seed="check") as changeset:
        life = changeset.life
    content = (world.tree() / "edited.py").read_text()
    return [] if life is Life.LANDED and content.endswith("edited since\n") else [f"{story}: {life}, {content!r}"]


def edit_since(world: World) -> None:
    with (world.tree() / "edited.py").open("a") as file:
        file.write("edited since\n")


def test_what_was_said_to_have_landed_has_and_later_edits_stay(world: World) -> None:
    sealed(world)
    cuts = PowerCuts(world, land, reopen, acknowledged).run(then=edit_since, only_last=True)
    assert cuts.complaints == []


@pytest.mark.parametrize("forgotten", sampled(LANDING, each=5))
def test_a_landing_that_does_not_wait_is_caught(world: World, forgotten: Sync) -> None:
    sealed(world)
    cuts = PowerCuts(world, land, reopen, BeforeOrAfter(world), forgets=forgotten, stops_early=True).run()
    assert cuts.complaints != []


@pytest.mark.parametrize("forgotten", [None, Sync.ABORTED])
def test_a_landing_that_was_taken_back_is_not_taken_back_again_later(world: World, forgotten: Sync | None) -> None:
    """Someone was faster, it was said to be in conflict, and they went on: an empty folder is theirs now."""
    sealed(world)
    edited = world.tree() / "edited.py"

    def meddle() -> None:
        edited.write_text("theirs\n")

    def make_their_own(world: World) -> None:
        (world.tree() / "fresh").mkdir(exist_ok=True)

    def check(world: World, story: str) -> list[str]:
        return [] if (world.tree() / "fresh").is_dir() else [f"{story}: their folder is gone"]

    cuts = PowerCuts(world, land, reopen, check, forgets=forgotten)
    cuts.run(then=make_their_own, only_last=True, meddle=meddle)
    assert (cuts.complaints == []) == (forgotten is None)


class SealedOrNot:
    """The tree is untouched; the layer is there and whole, or it is not there."""

    def __init__(self, world: World) -> None:
        world.bring_back()
        self.before = world.seen()

    def __call__(self, world: World, story: str) -> list[str]:
        complaints = [] if world.seen() == self.before else [f"{story}: the tree was touched"]
        with world.open(seed="check") as changeset:
            steps = len(changeset.steps())
            with changeset.begin("look") as files:
                is_there = all(
                    files.exists(name) and files.read_text(name) == "third\n" for name in ("third.py", "deep/third.py")
                )
                is_gone = not files.exists("untouched.py")
                files.drop()
        if (steps, is_there, is_gone) not in {(2, False, False), (3, True, True)}:
            complaints.append(f"{story}: {steps} layers; {is_there=}, {is_gone=}")
        return complaints


def writing_a_third(world: World, disk: Disk) -> object:
    with world.open(disk) as changeset, changeset.begin("three") as files:
        files.write_text("third.py", "third\n")
        files.make_folder("deep")
        files.write_text("deep/third.py", "third\n")
        files.remove("untouched.py")
        if isinstance(disk, Recorder):
            disk.notice(world)
        return files.seal()


def test_a_seal_survives_a_power_cut_after_any_call(world: World) -> None:
    sealed(world)
    cuts = PowerCuts(world, writing_a_third, reopen, SealedOrNot(world)).run()
    assert cuts.complaints == []


@pytest.mark.parametrize("forgotten", [None, Sync.RECORD_FOLDER])
def test_what_was_said_to_be_sealed_is(world: World, forgotten: Sync | None) -> None:
    sealed(world)

    def check(world: World, story: str) -> list[str]:
        with world.open(seed="check") as changeset:
            return [] if len(changeset.steps()) == 3 else [f"{story}: {changeset.steps()}"]

    cuts = PowerCuts(world, writing_a_third, reopen, check, forgets=forgotten).run(only_last=True)
    assert (cuts.complaints == []) == (forgotten is None)


@pytest.mark.parametrize("forgotten", SEALING)
def test_a_seal_that_does_not_wait_is_caught(world: World, forgotten: Sync) -> None:
    sealed(world)
    cuts = PowerCuts(world, writing_a_third, reopen, SealedOrNot(world), forgets=forgotten, stops_early=True).run()
    assert cuts.complaints != []


def test_every_class_of_waiting_is_needed_by_some_test() -> None:
    """A class that could be left out without a failure should not be there."""
    caught = {*LANDING, Sync.ABORTED, Sync.RECORD_FOLDER, *SEALING}
    assert caught == set(Sync)
