"""A layer that others lie over is dropped alone, where they have not changed what it made; else nothing happens."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amends.changeset import Changeset, Conflicted, Dropped, Landed, Terms
from amends.changeset.disk.disk import Disk
from amends.changeset.files import Files
from amends.changeset.model.three_way import Clash
from amends.errors import ChangesetDamagedError, ChangesetLifeError
from tests.changeset.conftest import Opener
from tests.changeset.shims import NoExchange, Watched
from tests.changeset.test_crashes import reopen, world
from tests.changeset.trees import seen
from tests.changeset.worlds import Crashes, World

__all__ = ["world"]

LINES = "".join(f"line {number}\n" for number in range(12))


def edit(path: str, number: int, text: str) -> Callable[[Files], None]:
    """Change one line of a file."""

    def work(files: Files) -> None:
        lines = files.read_text(path).splitlines(keepends=True)
        lines[number] = text + "\n"
        files.write_text(path, "".join(lines))

    return work


def both(*works: Callable[[Files], None]) -> Callable[[Files], None]:
    def work(files: Files) -> None:
        for each in works:
            each(files)

    return work


def laid(changeset: Changeset, *steps: Callable[[Files], None]) -> None:
    for number, work in enumerate(steps, 1):
        with changeset.begin(f"step {number}") as files:
            work(files)


def shown(changeset: Changeset, *paths: str) -> dict[str, str | None]:
    with changeset.begin("look") as files:
        found = {path: files.read_text(path) if files.exists(path) else None for path in paths}
        files.drop()
    return found


@pytest.mark.parametrize("provider", ["overlay", "copy", "api"])
def test_a_step_that_nothing_lies_on_is_dropped_from_under_the_others(
    provider: str, tree: Path, opener: Opener
) -> None:
    (tree / "lines").write_text(LINES)
    before = seen(tree)
    changeset = opener(provider, tree)

    def first(files: Files) -> None:
        files.make_folder("mine")
        files.write_text("mine/deep", "1\n")
        files.remove("docs", recursive=True)
        files.rename("pkg/one.py", "pkg/moved.py")
        files.chmod("empty", 0o700)
        edit("lines", 1, "by the first")(files)

    def second(files: Files) -> None:
        files.write_text("other", "2\n")
        files.write_text("pkg/other.py", "2\n")
        edit("lines", 9, "by the second")(files)

    def third(files: Files) -> None:
        files.write_text("mine/theirs", "3\n")
        edit("lines", 11, "by the third")(files)

    laid(changeset, first, second, third)
    journal = {step.number: step.digest for step in changeset.steps()}
    assert changeset.drop_step(1) == Dropped(changeset=changeset.id, number=1, name="step 1")
    assert changeset.drop_step(1) == Dropped(changeset=changeset.id, number=1, name="step 1")
    assert [step.is_dropped for step in changeset.steps()] == [True, False, False]
    lines = LINES.replace("line 9\n", "by the second\n").replace("line 11\n", "by the third\n")
    wanted = {"lines": lines, "mine/deep": None, "mine/theirs": "3\n", "other": "2\n", "pkg/moved.py": None}
    assert shown(changeset, *wanted) == wanted
    if provider != "api":
        with changeset.begin("tool") as files:
            said = files.run(["sh", "-c", "ls mine docs; stat -c %a empty; cat lines pkg/one.py"]).stdout
            files.drop()
        assert said.startswith("docs:\n")
        assert "mine:\ntheirs\n" in said
        assert said.endswith("755\n" + lines + (tree / "pkg/one.py").read_text())
    changeset.close()
    again = opener(provider, tree, id=changeset.id, sealed={2: journal[2], 3: journal[3]})
    assert sorted(again.paths()) == ["lines", "mine", "mine/theirs", "other", "pkg/other.py"]
    assert seen(tree) == before
    assert isinstance(again.land(), Landed)
    assert (tree / "lines").read_text() == lines
    assert (sorted(os.listdir(tree / "mine")), (tree / "docs").is_dir()) == (["theirs"], True)


CLASHES: dict[str, tuple[Callable[[Files], None], Callable[[Files], None], str, Clash]] = {
    "the same line": (edit("lines", 3, "a"), edit("lines", 3, "b"), "lines", Clash.CONTENT),
    "what it had added": (
        lambda files: files.write_text("new", "1\n2\n"),
        lambda files: files.write_text("new", "1\n2\n3\n"),
        "new",
        Clash.MODIFY_DELETE,
    ),
    "what it had removed": (
        lambda files: files.remove("lines"),
        lambda files: files.write_text("lines", "anew"),
        "lines",
        Clash.ADD_ADD,
    ),
    "the folder that it had emptied": (
        lambda files: files.remove("docs/guide.md"),
        lambda files: files.remove("docs", recursive=True),
        "docs/guide.md",
        Clash.NOT_EMPTY,
    ),
    "a folder that it had put in a file's place": (
        both(lambda files: files.remove("lines"), lambda files: files.make_folder("lines")),
        lambda files: files.write_text("lines/inner", "x"),
        "lines",
        Clash.KIND,
    ),
    "a folder that it had removed": (
        lambda files: files.remove("docs", recursive=True),
        lambda files: files.make_folder("docs"),
        "docs",
        Clash.KIND,
    ),
}


@pytest.mark.parametrize("provider", ["overlay", "api"])
@pytest.mark.parametrize("what", CLASHES)
def test_a_step_whose_work_was_changed_since_is_not_dropped_and_the_paths_are_named(
    what: str, provider: str, tree: Path, opener: Opener
) -> None:
    (tree / "lines").write_text(LINES)
    (tree / "docs/guide.md").write_text("guide\n")
    first, second, path, clash = CLASHES[what]
    changeset = opener(provider, tree)
    laid(changeset, first, second)
    steps, digest = changeset.steps(), changeset.digest()
    said = changeset.drop_step(1)
    assert isinstance(said, Conflicted)
    assert [(each.path.decode(), each.clash) for each in said.conflicts if each.path.decode() == path] == [
        (path, clash)
    ]
    assert said.text().startswith(f"changeset {changeset.id} cannot drop step 1 alone: ")
    where = f"{path}, line 4: ours / theirs" if clash == "content" else f"{path}: {clash}"
    assert f"{where}: step 2 (step 2) worked on it since" in said.text()
    assert (changeset.steps(), changeset.digest()) == (steps, digest)


@pytest.mark.parametrize("provider", ["overlay", "api"])
def test_what_a_later_step_removed_of_it_stays_removed(provider: str, tree: Path, opener: Opener) -> None:
    changeset = opener(provider, tree)

    def first(files: Files) -> None:
        files.make_folder("made")
        files.write_text("made/new", "1\n")
        files.write_text("pkg/new.py", "1\n")

    def second(files: Files) -> None:
        files.remove("made", recursive=True)
        files.remove("pkg/new.py")

    laid(changeset, first, second)
    assert isinstance(changeset.drop_step(1), Dropped)
    assert changeset.paths() == ()
    assert shown(changeset, "made", "pkg/new.py") == {"made": None, "pkg/new.py": None}


def test_the_mode_by_one_and_the_content_by_another_are_told_apart(tree: Path) -> None:
    (tree / "lines").write_text(LINES)
    (tree / "lines").chmod(0o644)
    with Changeset.open(tree, terms=Terms(provider="api")) as changeset:
        laid(changeset, edit("lines", 1, "content"), lambda files: files.chmod("lines", 0o600))
        assert isinstance(changeset.drop_step(1), Dropped)
        assert isinstance(changeset.land(), Landed)
    assert ((tree / "lines").read_text(), (tree / "lines").stat().st_mode & 0o777) == (LINES, 0o600)


def test_a_cache_that_both_wrote_is_the_later_ones_and_a_repository_is_a_conflict(tree: Path) -> None:
    with Changeset.open(tree, terms=Terms(provider="api")) as changeset:

        def cached(text: str) -> Callable[[Files], None]:
            def work(files: Files) -> None:
                files.make_folder("pkg/__pycache__", exist_ok=True)
                files.write_text("pkg/__pycache__/one.pyc", text)

            return work

        laid(changeset, cached("1"), cached("2"))
        assert isinstance(changeset.drop_step(1), Dropped)
        assert shown(changeset, "pkg/__pycache__/one.pyc") == {"pkg/__pycache__/one.pyc": "2"}
    with Changeset.open(tree, terms=Terms(provider="api")) as changeset:
        laid(
            changeset,
            both(lambda files: files.make_folder(".git"), lambda files: files.write_text(".git/HEAD", "1")),
            lambda files: files.write_text(".git/index", "2"),
        )
        said = changeset.drop_step(1)
        assert isinstance(said, Conflicted)
        assert [each.path for each in said.conflicts] == [b".git"]


def test_only_a_sealed_step_of_an_open_changeset_can_be_dropped(tree: Path) -> None:
    with Changeset.open(tree, terms=Terms(provider="api")) as changeset:
        laid(changeset, lambda files: files.write_text("a", "1"), lambda files: files.write_text("b", "2"))
        for number in (0, 3):
            with pytest.raises(ChangesetLifeError, match=f"no sealed step {number}"):
                changeset.drop_step(number)
        assert isinstance(changeset.drop_step(2), Dropped)
        assert len(changeset.steps()) == 1
        changeset.land()
        with pytest.raises(ChangesetLifeError, match="landed"):
            changeset.drop_step(1)


def test_a_journal_that_still_counts_on_a_dropped_layer_is_told_that_it_is_gone(tree: Path) -> None:
    with Changeset.open(tree, id="x", terms=Terms(provider="api")) as changeset:
        laid(changeset, lambda files: files.write_text("a", "1"), lambda files: files.write_text("b", "2"))
        journal = {step.number: step.digest for step in changeset.steps()}
        changeset.drop_step(1)
    with pytest.raises(ChangesetDamagedError, match="layer 1"):
        Changeset.open(tree, id="x", sealed=journal)
    with Changeset.open(tree, id="x", sealed={2: journal[2]}) as changeset:
        assert len(changeset.steps()) == 2
    with Changeset.open(tree, id="x", sealed={}, doubtful={1: journal[1]}) as changeset:
        assert changeset.steps() == ()


@pytest.mark.parametrize("disk", [Watched, NoExchange])
def test_a_drop_from_under_others_killed_at_any_call_has_happened_or_not(world: World, disk: type[Watched]) -> None:
    with world.open() as changeset:
        laid(
            changeset,
            both(edit("edited.py", 0, "ONE"), lambda files: files.write_text("mine.py", "1\n")),
            both(edit("edited.py", 4, "FIVE"), lambda files: files.chmod("moded", 0o700)),
            lambda files: files.write_text("theirs.py", "3\n"),
        )
    world.keep()
    world.bring_back()
    before = world.seen()
    ends: set[bool] = set()

    def drop(world: World, disk: Disk) -> object:
        with world.open(disk) as changeset:
            return changeset.drop_step(1)

    def check(world: World, story: str) -> list[str]:
        with world.open(seed="check") as changeset:
            is_dropped = changeset.steps()[0].is_dropped
            ends.add(is_dropped)
            found = shown(changeset, "edited.py", "mine.py", "theirs.py")
        left = {"rebased", "rebased.json"} & set(os.listdir(world.path / ".tree.changesets/changesets/scene"))
        first, mine = ("one", None) if is_dropped else ("ONE", "1\n")
        wanted = {"edited.py": f"{first}\ntwo\nthree\nfour\nFIVE\n", "mine.py": mine, "theirs.py": "3\n"}
        is_right = found == wanted and not left and world.seen() == before
        return [] if is_right else [f"{story}: {found}, {left}"]

    crashes = Crashes(world, drop, reopen, check, disk=disk).run()
    assert crashes.complaints == []
    assert ends == {True, False}
    assert crashes.points > 20
