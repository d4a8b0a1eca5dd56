"""A branch begins with what another changeset has sealed, and becomes one layer of it: all of it, or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amends.changeset import (
    BranchMerged,
    Changeset,
    Conflicted,
    Files,
    Isolation,
    Landed,
    Life,
    Limits,
    Terms,
    list_changesets,
    prune,
)
from amends.changeset.disk.disk import Disk
from amends.changeset.model.three_way import Clash
from amends.errors import ChangesetLifeError, LimitError
from tests.changeset.conftest import Opener
from tests.changeset.test_crashes import more_work, work, world
from tests.changeset.test_dropping import LINES, both, edit, laid, shown
from tests.changeset.trees import seen
from tests.changeset.worlds import ID, SOAK, Crashes, World

__all__ = ["world"]

PROVIDERS = ["overlay", "clone", "copy", "api"]
API = Terms(provider="api")


def put(path: str, text: str) -> Callable[[Files], None]:
    def work(files: Files) -> None:
        files.write_text(path, text)

    return work


def merged(changeset: Changeset, branch: Changeset) -> BranchMerged | Conflicted:
    """Merge it in a step of its own, which is dropped where that is in conflict."""
    with changeset.begin("merge") as files:
        ended = files.merge(branch)
        if isinstance(ended, Conflicted):
            files.drop()
    return ended


def reshape(files: Files) -> None:
    """Everything that can happen to a path, to the parent's own work as well as to the tree's."""
    files.remove("docs", recursive=True)
    files.rename("pkg/one.py", "pkg/moved.py")
    files.remove("pkg/sub", recursive=True)
    files.write_text("pkg/sub", "a file now\n")
    files.chmod("run.sh", 0o700)
    files.remove("to_page")
    files.symlink("to_page", "pkg/moved.py")
    files.remove("empty")
    files.make_folder("made/deep", parents=True)
    files.write_bytes("made/deep/data", bytes(range(256)), mode=0o600)
    files.chmod("made/deep", 0o500)
    files.write_text("mine/first", "the branch's\n")
    files.remove("mine/second")
    files.write_text("lines", LINES)


def mine(files: Files) -> None:
    files.make_folder("mine")
    files.write_text("mine/first", "the parent's\n")
    files.write_text("mine/second", "the parent's\n")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_branch_sees_what_was_sealed_and_its_work_becomes_one_layer(
    provider: str, tree: Path, opener: Opener
) -> None:
    before = seen(tree)
    changeset = opener(provider, tree)
    laid(changeset, mine)
    branch = changeset.branch(name="aside")
    assert shown(branch, "mine/first", "run.sh") == {"mine/first": "the parent's\n", "run.sh": "#!/bin/sh\necho ran\n"}
    laid(branch, put("made", "for a moment\n"), lambda files: files.remove("made"), reshape)
    laid(changeset, put("beside", "the parent's\n"))
    assert shown(branch, "beside") == {"beside": None}
    assert shown(changeset, "lines", "pkg/moved.py") == {"lines": None, "pkg/moved.py": None}
    assert [step.number for step in branch.steps()] == [2, 3, 4]
    assert "mine/second" in branch.paths()
    assert "beside" not in branch.paths()

    ended = merged(changeset, branch)
    assert isinstance(ended, BranchMerged), ended.text()
    assert changeset.newest == 3
    assert branch.life is Life.MERGED
    branch.close()
    assert shown(changeset, "mine/first", "mine/second", "beside", "pkg/moved.py") == {
        "mine/first": "the branch's\n",
        "mine/second": None,
        "beside": "the parent's\n",
        "pkg/moved.py": "def one():\n    return 1\n",
    }
    assert seen(tree) == before

    landed = changeset.land()
    assert isinstance(landed, Landed)
    assert (tree / "pkg/sub").read_text() == "a file now\n"
    assert os.readlink(tree / "to_page") == "pkg/moved.py"
    assert {(tree / "run.sh").stat().st_mode & 0o777, (tree / "made/deep").stat().st_mode & 0o777} == {0o700, 0o500}
    assert (tree / "made/deep/data").stat().st_mode & 0o777 == 0o600
    assert not (tree / "docs").exists()
    assert not (tree / "empty").exists()
    (tree / "made/deep").chmod(0o700)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_branches_side_by_side_are_merged_line_by_line_and_dropped_exactly(
    provider: str, tree: Path, opener: Opener
) -> None:
    changeset = opener(provider, tree)
    laid(changeset, put("lines", LINES))
    one, other = changeset.branch(id="one"), changeset.branch(id="other")
    laid(one, both(edit("lines", 1, "by one"), edit("docs/page.md", 2, "ONE")))
    laid(other, both(edit("lines", 10, "by other"), edit("docs/page.md", 6, "FIVE")))
    assert isinstance(merged(changeset, one), BranchMerged)
    ended = merged(changeset, other)
    assert isinstance(ended, BranchMerged)
    assert ended.merged == ("docs/page.md", "lines")
    wanted = LINES.replace("line 1\n", "by one\n").replace("line 10\n", "by other\n")
    page = "# A page\n\nONE\ntwo\nthree\nfour\nFIVE\n"
    assert shown(changeset, "lines", "docs/page.md") == {"lines": wanted, "docs/page.md": page}
    changeset.drop_last()
    without = LINES.replace("line 1\n", "by one\n")
    assert shown(changeset, "lines") == {"lines": without}
    assert isinstance(merged(changeset, other), BranchMerged)  # a merge whose layer went can be made again
    for each in (one, other):
        each.close()
    assert isinstance(changeset.land(), Landed)
    assert ((tree / "lines").read_text(), (tree / "docs/page.md").read_text()) == (wanted, page)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_with_any_conflict_nothing_of_a_branch_is_merged(provider: str, tree: Path, opener: Opener) -> None:
    changeset = opener(provider, tree)
    laid(changeset, put("lines", LINES))
    with changeset.branch(id="aside") as branch:
        laid(branch, both(edit("lines", 3, "the branch's"), put("new", "1\n"), put("pkg/two.py", "")))
        laid(changeset, edit("lines", 3, "the parent's"), lambda files: files.remove("pkg/two.py"))
        ended = merged(changeset, branch)
        assert isinstance(ended, Conflicted)
        assert {each.path: each.clash for each in ended.conflicts} == {
            b"lines": Clash.CONTENT,
            b"pkg/two.py": Clash.MODIFY_DELETE,
        }
        assert ended.text().startswith(f"changeset aside cannot be merged into {changeset.id}: 2 conflicts\n")
        assert f"step 2 (step 1) of {changeset.id} has changed it" in ended.text()
        assert ended.data()["into"] == changeset.id
        assert branch.life is Life.ACTIVE
    assert changeset.newest == 3
    assert shown(changeset, "new") == {"new": None}


@pytest.mark.parametrize("provider", ["overlay", "api"])
def test_what_others_landed_meanwhile_is_merged_with_or_in_conflict(provider: str, tree: Path, opener: Opener) -> None:
    changeset = opener(provider, tree)
    one, other = changeset.branch(), changeset.branch()
    laid(one, edit("docs/page.md", 2, "ONE"))
    laid(other, edit("docs/page.md", 3, "mine"))
    with Changeset.open(tree, name="else", terms=API) as landing:
        laid(landing, both(edit("docs/page.md", 6, "FIVE"), edit("docs/page.md", 3, "theirs")))
        landing.land()
    ended = merged(changeset, other)
    assert isinstance(ended, Conflicted)
    assert ended.conflicts[0].winner is not None
    with changeset.begin("one") as files:
        ended = files.merge(one)
        assert isinstance(ended, Conflicted)  # `ONE` and `theirs` are next to each other
        files.drop()
    with changeset.branch() as late:
        laid(late, edit("docs/page.md", 2, "ONE"))
        assert isinstance(merged(changeset, late), BranchMerged)
    for each in (one, other):
        each.close()
    assert isinstance(changeset.land(), Landed)
    assert (tree / "docs/page.md").read_text() == "# A page\n\nONE\ntheirs\nthree\nfour\nFIVE\n"


def test_with_strict_isolation_a_landing_since_the_branch_began_is_a_conflict(tree: Path, opener: Opener) -> None:
    changeset = opener("api", tree, terms=Terms(isolation=Isolation.STRICT, reads=("docs/**",)))
    with changeset.branch() as branch:
        laid(branch, put("new", "1\n"))
        with Changeset.open(tree, terms=API) as landing:
            laid(landing, put("docs/page.md", "another\n"))
            landing.land()
        ended = merged(changeset, branch)
    assert isinstance(ended, Conflicted)
    assert [each.clash for each in ended.conflicts] == [Clash.ISOLATION]


def test_a_branch_of_a_branch_is_merged_into_that(tree: Path, opener: Opener) -> None:
    changeset = opener("api", tree)
    laid(changeset, put("lines", LINES))
    with changeset.branch() as outer:
        laid(outer, edit("lines", 1, "outer"))
        with outer.branch() as inner:
            laid(inner, edit("lines", 8, "inner"))
            assert inner.paths() == ("lines",)
            with pytest.raises(ChangesetLifeError, match=f"no branch of {changeset.id}"):
                merged(changeset, inner)
            laid(outer, edit("lines", 5, "meanwhile"))
            assert isinstance(merged(outer, inner), BranchMerged)
        assert isinstance(merged(changeset, outer), BranchMerged)
    wanted = LINES.replace("line 1\n", "outer\n").replace("line 5\n", "meanwhile\n").replace("line 8\n", "inner\n")
    assert shown(changeset, "lines") == {"lines": wanted}


def test_a_branch_does_not_land_and_keeps_what_it_stands_on(tree: Path, opener: Opener) -> None:
    changeset = opener("api", tree, id="whole")
    laid(changeset, put("a", "1\n"), put("b", "2\n"))
    with changeset.branch(id="aside") as branch:
        laid(branch, put("a", "3\n"))
        with pytest.raises(ChangesetLifeError, match="aside is a branch: merge it into whole, which lands it"):
            branch.land()
        with pytest.raises(ChangesetLifeError, match="merge it into whole"):
            branch.check()
        with pytest.raises(ChangesetLifeError, match="no sealed step 2"):
            branch.drop_step(2)
        with pytest.raises(ChangesetLifeError, match="layers 3 to 3; it cannot rewind to 1"):
            branch.rewind(1)
        branch.rewind(2)
        with pytest.raises(ChangesetLifeError, match="no layer that could be dropped"):
            branch.drop_last()
        changeset.rewind(0)
        assert shown(branch, "a", "b") == {"a": "1\n", "b": "2\n"}
    with Changeset.open(tree, id="aside", sealed={}) as again:  # what it stands on is in no journal of its own
        assert (again.branch_of, again.forked_at, again.newest) == ("whole", 2, 2)


def test_the_limits_hold_for_what_is_merged_and_count_what_was_there(tree: Path, opener: Opener) -> None:
    changeset = opener("api", tree, terms=Terms(limits=Limits(files=3, denied=("*.lock",))))
    laid(changeset, put("a", "1\n"))
    one, other = changeset.branch(), changeset.branch()
    with pytest.raises(LimitError, match=r"uv\.lock is changed"):
        laid(one, put("uv.lock", ""))
    with pytest.raises(LimitError, match="4 files are changed, and 3 may be"):
        laid(one, both(put("b", ""), put("c", ""), put("d", "")))
    laid(one, both(put("b", ""), put("c", "")))
    laid(other, both(put("d", ""), put("e", "")))
    assert isinstance(merged(changeset, one), BranchMerged)
    with pytest.raises(LimitError, match="5 files are changed, and 3 may be"):
        merged(changeset, other)
    assert (changeset.newest, one.life, other.life) == (2, Life.MERGED, Life.ACTIVE)
    for each in (one, other):
        each.close()


def test_caches_go_with_the_folder_that_a_branch_removes_and_are_not_merged_else(tree: Path, opener: Opener) -> None:
    changeset = opener("api", tree)

    def cached(files: Files) -> None:
        for folder in ("made/__pycache__", "pkg/__pycache__"):
            files.make_folder(folder, parents=True)
            files.write_text(f"{folder}/one.pyc", "cached by the parent")

    laid(changeset, cached)
    with changeset.branch() as branch:
        laid(branch, both(put("made/__pycache__/one.pyc", "again"), put("pkg/__pycache__/two.pyc", "new")))
        laid(branch, lambda files: files.remove("made", recursive=True))
        assert isinstance(merged(changeset, branch), BranchMerged)
    assert shown(changeset, "made", "pkg/__pycache__/one.pyc", "pkg/__pycache__/two.pyc") == {
        "made": None,
        "pkg/__pycache__/one.pyc": "cached by the parent",
        "pkg/__pycache__/two.pyc": None,
    }


def test_a_merged_branch_is_listed_as_such_and_pruned(tree: Path, opener: Opener) -> None:
    changeset = opener("api", tree, id="whole")
    laid(changeset, put("a", "1\n"))
    with changeset.branch(id="aside") as branch:
        laid(branch, put("b", "2\n"))
        merged(changeset, branch)
    by_id = {each.id: each for each in list_changesets(tree)}
    assert (by_id["aside"].life, by_id["aside"].branch_of, by_id["aside"].files) == (Life.MERGED, "whole", 1)
    assert prune(tree, older_s=0) == ("aside",)
    assert shown(changeset, "a", "b") == {"a": "1\n", "b": "2\n"}


def fork_and_merge(world: World, disk: Disk) -> None:
    """What is done already is not done again; but a branch that is not marked as merged is merged, twice if need be."""
    with world.open(disk) as changeset, changeset.branch(id="aside") as branch:
        if branch.newest == branch.forked_at:
            with branch.begin() as files:
                more_work(files)
                files.remove("becomes_folder", recursive=True)
        if branch.life is not Life.MERGED:
            assert isinstance(merged(changeset, branch), BranchMerged)


def test_killed_at_any_call_a_fork_and_a_merge_are_done_again_to_the_same_end(
    world: World, record_property: Any
) -> None:
    with world.open() as changeset, changeset.begin("one") as files:
        work(files)
    world.keep()

    def check(world: World, story: str) -> list[str]:
        with world.open() as changeset:
            found = {path: shown(changeset, path)[path] for path in ("added.py", "moded/stays.py", "becomes_folder")}
            layers = [step.totals.files for step in changeset.steps()][1:]
        lives = {each.id: (each.life, each.branch_of) for each in list_changesets(world.tree())}
        wanted = {"added.py": "added twice\n", "moded/stays.py": "changed\n", "becomes_folder": None}
        is_right = found == wanted and layers in ([3], [3, 0]) and lives["aside"] == (Life.MERGED, ID)
        return [] if is_right else [f"{story}: {found} in layers of {layers} files, {lives}"]

    tried = Crashes(world, fork_and_merge, fork_and_merge, check, twice=SOAK).run()
    record_property("branch", f"{tried.points} points, {tried.deaths} deaths, {tried.states} states")
    assert tried.complaints == []
    assert tried.points > 60
