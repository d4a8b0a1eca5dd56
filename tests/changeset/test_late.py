"""Whoever writes to a file after a landing took it out of the tree: it is merged, or kept and named, never lost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amends.changeset import Changeset, Landed, Terms, late_writes, prune, take_back
from amends.changeset.disk.disk import Disk, DiskName
from amends.changeset.landing import displaced
from amends.changeset.text.merge import take_out
from amends.errors import ChangesetError
from tests.changeset.trees import seen

API = Terms(provider="api")
OLD = "".join(f"line {number}\n" for number in range(20))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(displaced, "WAITS", 1)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    for name in ("one", "two"):
        (tmp_path / "tree" / name).write_text(OLD)
    return tmp_path / "tree"


def changed(tree: Path, **more: Any) -> Changeset:
    changeset = Changeset.open(tree, terms=API, name="work", **more)
    with changeset.begin("work") as files:
        for name in ("one", "two"):
            files.write_text(name, OLD.replace("line 3\n", "line 3, ours\n"))
    return changeset


def append(file: int, text: str) -> None:
    os.pwrite(file, text.encode(), os.fstat(file).st_size)


def texts(tree: Path) -> list[str]:
    return [Path(late.kept).read_text() for late in late_writes(tree)]


def test_a_write_by_a_handle_from_before_the_landing_is_kept_and_named(tree: Path) -> None:
    held = os.open(tree / "one", os.O_RDWR)
    with changed(tree) as changeset:
        landed = changeset.land()
    assert isinstance(landed, Landed)
    assert late_writes(tree) == ()
    append(held, "theirs\n")
    (late,) = late_writes(tree)
    assert (late.path, late.landing, late.name) == ("one", landed.id, "work")
    assert Path(late.kept).read_text() == OLD + "theirs\n"
    os.close(held)


def test_what_was_written_late_is_not_pruned_unless_that_is_asked_for(tree: Path) -> None:
    held = os.open(tree / "one", os.O_RDWR)
    with changed(tree) as changeset:
        changeset.land()
    assert prune(tree, older_s=0) == (changeset.id,)
    append(held, "theirs\n")  # it was open all the time: what it writes to is still there
    assert texts(tree) == [OLD + "theirs\n"]
    os.close(held)
    prune(tree, older_s=0)
    assert texts(tree) == [OLD + "theirs\n"]
    prune(tree, older_s=0, late=True)
    assert texts(tree) == []
    assert list((tree.parent / ".tree.changesets/landed").iterdir()) == []


def test_a_landing_that_is_taken_back_brings_the_late_write_along(tree: Path) -> None:
    held = os.open(tree / "one", os.O_RDWR)
    with changed(tree) as changeset:
        landed = changeset.land()
    assert isinstance(landed, Landed)
    append(held, "theirs\n")
    os.close(held)
    with take_back(tree, landing=landed.id, terms=API) as inverse:
        assert isinstance(inverse.land(), Landed)
    assert (tree / "one").read_text() == OLD + "theirs\n"


class Meddling(Disk):
    """Lets somebody in after each exchange, and counts them."""

    def __init__(self, meddle: Callable[[int], None]) -> None:
        self._meddle = meddle
        self._exchanges = 0

    def exchange(self, one: DiskName, other: DiskName) -> None:
        super().exchange(one, other)
        self._exchanges += 1
        self._meddle(self._exchanges)


def test_edits_in_every_instant_of_a_landing_and_of_its_way_back_are_all_there_once(tree: Path) -> None:
    edits: list[str] = []

    def meddle(number: int) -> None:
        if number < 12:
            for name in ("one", "two"):
                edits.append(f"edit {number} of {name}\n")
                with open(tree / name, "a") as file:
                    file.write(edits[-1])

    changeset = changed(tree, disk=Meddling(meddle))
    assert isinstance(changeset.land(), Landed)
    changeset.close()
    there = "".join((tree / name).read_text() for name in ("one", "two"))
    assert [edit for edit in edits if there.count(edit) != 1] == []
    assert there.count("line 3, ours\n") == 2
    assert late_writes(tree) == ()


def test_a_write_to_what_an_aborted_landing_had_put_there_is_kept_and_named(tree: Path) -> None:
    handles: list[int] = []

    def meddle(number: int) -> None:
        handles.append(os.open(tree / "one", os.O_RDWR))  # of ours, which is there just now
        if number == 2:
            raise OSError(5, "Input/output error")

    before = seen(tree)
    changeset = changed(tree, disk=Meddling(meddle))
    with pytest.raises(ChangesetError, match="taken back"):
        changeset.land()
    changeset.close()
    assert seen(tree) == before
    append(handles[0], "very late\n")
    (late,) = late_writes(tree)
    assert (late.path, Path(late.kept).read_text()[-len("very late\n") :]) == ("one", "very late\n")
    prune(tree, older_s=0)
    assert len(late_writes(tree)) == 1
    for handle in handles:
        os.close(handle)
    prune(tree, older_s=0, late=True)
    assert late_writes(tree) == ()


def test_an_aborted_landing_that_nobody_wrote_to_leaves_nothing_behind(tree: Path) -> None:
    before = seen(tree)

    def meddle(number: int) -> None:
        if number == 2:
            raise OSError(5, "Input/output error")

    changeset = changed(tree, disk=Meddling(meddle))
    with pytest.raises(ChangesetError, match="taken back"):
        changeset.land()
    changeset.close()
    assert seen(tree) == before
    assert list((tree.parent / ".tree.changesets/landed").iterdir()) == []


def test_with_its_state_on_another_file_system_a_landing_waits_for_writers_before_it_clears_its_room(
    tree: Path,
) -> None:
    held = os.open(tree / "one", os.O_RDWR)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as state:
        with changed(tree, state=state) as changeset:
            assert isinstance(changeset.land(), Landed)
        assert [name for name in os.listdir(tree) if name.startswith(".amends-landing")]
        append(held, "theirs\n")
        os.close(held)
        Changeset.open(tree, terms=API, state=state).close()
        assert sorted(os.listdir(tree)) == ["one", "two"]
        (late,) = late_writes(tree, state=state)
        assert Path(late.kept).read_text() == OLD + "theirs\n"


def test_taking_ours_out_twice_is_taking_it_out_once() -> None:
    new, old = b"a\nours\nb\n", b"a\nb\nfirst\n"
    once = take_out(new, b"a\nours\nb\nsecond\n", old)
    assert once is not None
    assert sorted(once.split()) == [b"a", b"b", b"first", b"second"]
    assert take_out(new, once, old) == once
