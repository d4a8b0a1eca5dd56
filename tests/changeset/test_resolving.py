"""Conflicts that are resolved: ours, theirs or merged, in a layer that lands, merges again, and is dropped exactly."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amends.changeset import Changeset, Conflicted, Files, Isolation, Landed, Terms, doctor
from amends.changeset.model.three_way import Clash
from amends.errors import PathError
from tests.changeset.trees import plant, seen

Edit = Callable[[Path], None]
START = {"a.txt": "1\n2\n3\n", "b.bin": "\0one", "d/x": "x\n", "link": None}


def grown(place: Path) -> Path:
    root = plant(place / "tree", {name: text for name, text in START.items() if text is not None})
    (root / "link").symlink_to("a.txt")
    return root


def write(path: str, text: str) -> Edit:
    def edit(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)

    return edit


def remove(path: str) -> Edit:
    def edit(root: Path) -> None:
        (root / path).unlink()

    return edit


def remove_folder(path: str) -> Edit:
    def edit(root: Path) -> None:
        for each in (root / path).iterdir():
            each.unlink()
        (root / path).rmdir()

    return edit


def relink(target: str) -> Edit:
    def edit(root: Path) -> None:
        (root / "link").unlink()
        (root / "link").symlink_to(target)

    return edit


def chmod(path: str, mode: int) -> Edit:
    return lambda root: (root / path).chmod(mode)


def into_folder(path: str) -> Edit:
    def edit(root: Path) -> None:
        (root / path).unlink()
        write(f"{path}/inner", "inner\n")(root)

    return edit


def into_file(path: str) -> Edit:
    def edit(root: Path) -> None:
        remove_folder(path)(root)
        write(path, "a file now\n")(root)

    return edit


def both(*edits: Edit) -> Edit:
    def edit(root: Path) -> None:
        for each in edits:
            each(root)

    return edit


CASES: dict[str, tuple[Edit, Edit, Clash, str]] = {
    "content": (write("a.txt", "ours\n2\n3\n"), write("a.txt", "theirs\n2\n3\n"), Clash.CONTENT, "a.txt"),
    "delete-modify": (remove("a.txt"), write("a.txt", "theirs\n"), Clash.DELETE_MODIFY, "a.txt"),
    "modify-delete": (write("a.txt", "ours\n"), remove("a.txt"), Clash.MODIFY_DELETE, "a.txt"),
    "add-add": (write("new", "ours\n"), write("new", "theirs\n"), Clash.ADD_ADD, "new"),
    "binary": (write("b.bin", "\0ours"), write("b.bin", "\0theirs"), Clash.BINARY, "b.bin"),
    "link": (relink("b.bin"), relink("d/x"), Clash.LINK, "link"),
    "mode": (chmod("a.txt", 0o600), chmod("a.txt", 0o755), Clash.MODE, "a.txt"),
    "file-folder": (write("a.txt", "ours\n"), into_folder("a.txt"), Clash.KIND, "a.txt"),
    "no-folder": (write("d/y", "ours\n"), remove_folder("d"), Clash.NO_FOLDER, "d/y"),
    "no-folder-but-a-file": (write("d/y", "ours\n"), into_file("d"), Clash.NO_FOLDER, "d/y"),
    "not-empty": (remove_folder("d"), write("d/y", "theirs\n"), Clash.NOT_EMPTY, "d"),
    "rename": (
        both(remove("a.txt"), write("moved.txt", "1\n2\n3\n")),
        write("a.txt", "1\n2\nthree\n"),
        Clash.DELETE_MODIFY,
        "a.txt",
    ),
}
cases = pytest.mark.parametrize("case", CASES)
PROVIDERS = ("api", "overlay", "copy")


def begin(
    place: Path, case: str, provider: str = "api", **terms: object
) -> tuple[Path, Changeset, dict[bytes, object]]:
    """A changeset with our side, a tree with theirs, and what a tree looks like with ours alone."""
    ours, theirs, _, _ = CASES[case]
    tree = grown(place)
    if provider not in {each.provider for each in doctor(tree) if each.usable}:
        pytest.skip(f"no {provider} here")
    alone = grown(place / "alone")
    ours(alone)
    changeset = Changeset.open(tree, terms=Terms(provider=provider, **terms))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - each by its name
    with changeset.begin("ours") as files:
        replay(files, tree, alone)
    theirs(tree)
    return tree, changeset, at(alone, case)


def at(tree: Path, case: str) -> dict[bytes, object]:
    """What is at the path that is in conflict, and below it; but for what only we have removed; without times."""
    path = CASES[case][3].encode()
    found = {name: thing for name, thing in seen(tree).items() if name == path or name.startswith(path + b"/")}
    return {name: thing[:-1] for name, thing in found.items() if name != b"d/x"}


def replay(files: Files, tree: Path, other: Path) -> None:
    """Make of the view what the other tree is."""
    for each in sorted(tree.rglob("*"), reverse=True):
        at = str(each.relative_to(tree))
        there = other / at
        if not os.path.lexists(there) or (each.is_symlink() and each.readlink() != there.readlink()):
            files.remove(at, recursive=True)
    for each in sorted(other.rglob("*")):
        at = str(each.relative_to(other))
        if each.is_symlink():
            if not os.path.lexists(tree / at) or (tree / at).readlink() != each.readlink():
                files.symlink(at, str(each.readlink()))
        elif each.is_dir():
            files.make_folder(at, parents=True, exist_ok=True)
        elif not files.exists(at) or files.read_bytes(at) != each.read_bytes():
            files.write_bytes(at, each.read_bytes())
        if not each.is_symlink() and each.stat().st_mode & 0o777 != files.mode(at):
            files.chmod(at, each.stat().st_mode & 0o777)


def conflict(changeset: Changeset, case: str) -> Conflicted:
    ended = changeset.land()
    assert isinstance(ended, Conflicted), ended
    _, _, clash, path = CASES[case]
    assert (clash, path.encode()) in [(each.clash, each.path) for each in ended.conflicts], ended.text()
    return ended


def resolved(changeset: Changeset, take: str) -> None:
    """All of it, one after the other. A copy shows what others have removed since, which is then in conflict too."""
    for _ in range(3):
        found = changeset.check()
        if found is None:
            return
        changeset.resolve(os.fsdecode(found.conflicts[0].path), take)
    assert changeset.check() is None


@pytest.mark.parametrize("provider", PROVIDERS)
@cases
def test_ours_lands_over_whatever_others_did(tmp_path: Path, case: str, provider: str) -> None:
    tree, changeset, alone = begin(tmp_path, case, provider)
    with changeset:
        conflict(changeset, case)
        resolved(changeset, "ours")
        assert isinstance(changeset.land(), Landed)
    assert at(tree, case) == alone


@pytest.mark.parametrize("provider", PROVIDERS)
@cases
def test_theirs_stays_in_the_tree_and_is_what_the_next_step_sees(tmp_path: Path, case: str, provider: str) -> None:
    tree, changeset, _ = begin(tmp_path, case, provider)
    path = CASES[case][3]
    before = at(tree, case)
    with changeset:
        conflict(changeset, case)
        resolved(changeset, "theirs")
        with changeset.begin("look") as files:
            assert files.exists(path) == (tree / path).exists()
            if (tree / path).is_file():
                assert files.read_bytes(path) == (tree / path).read_bytes()
            if (tree / path).is_dir():
                assert files.names(path) == [each.name for each in (tree / path).iterdir() if each.name != "x"]
        assert isinstance(changeset.land(), Landed)
    assert at(tree, case) == before


@cases
def test_dropping_the_resolution_leaves_the_conflict_as_it_was(tmp_path: Path, case: str) -> None:
    _, changeset, _ = begin(tmp_path, case)
    with changeset:
        before = conflict(changeset, case).data()
        changeset.resolve(CASES[case][3], "ours")
        changeset.drop_last()
        assert conflict(changeset, case).data() == before


@pytest.mark.parametrize("provider", PROVIDERS)
def test_marks_are_a_layer_that_tools_see_and_nothing_lands_while_they_stand(tmp_path: Path, provider: str) -> None:
    tree, changeset, _ = begin(tmp_path, "content", provider)
    with changeset:
        with changeset.begin("marks") as files:
            assert [each.clash for each in files.mark_conflicts()] == [Clash.CONTENT]
            if provider != "api":
                assert ">>>>>>> theirs" in files.run(["cat", "a.txt"]).stdout
        ended = changeset.land()
        assert isinstance(ended, Conflicted)
        assert "it is not resolved" in ended.text()
        with changeset.begin("merge") as files:
            text = files.read_text("a.txt")
            assert text.splitlines()[:7] == [
                "<<<<<<< ours", "ours", "||||||| ancestor", "1", "=======", "theirs", ">>>>>>> theirs"
            ]  # fmt: skip
            with pytest.raises(PathError, match=r"a\.txt has marks of the conflict in lines 1, 3, 7"):
                files.resolve("a.txt", "merged")
            files.write_text("a.txt", "both\n2\n3\n")
        assert isinstance(changeset.land(), Conflicted)  # edited, and nobody has said that it is right
        with changeset.begin("yes") as files:
            files.resolve("a.txt", "merged")
        assert isinstance(changeset.land(), Landed)
    assert (tree / "a.txt").read_text() == "both\n2\n3\n"


@pytest.mark.parametrize("take", ["ours", "theirs"])
@cases
def test_what_was_marked_can_still_be_taken_from_either_side(tmp_path: Path, case: str, take: str) -> None:
    tree, changeset, alone = begin(tmp_path, case)
    before = at(tree, case)
    with changeset:
        with changeset.begin("marks") as files:
            files.mark_conflicts()
        resolved(changeset, take)
        assert isinstance(changeset.land(), Landed)
    assert at(tree, case) == (alone if take == "ours" else before)


@pytest.mark.parametrize("take", ["ours", "merged"])
def test_what_others_changed_after_the_marks_is_in_conflict_again(tmp_path: Path, take: str) -> None:
    tree, changeset, _ = begin(tmp_path, "content")
    with changeset:
        with changeset.begin("marks") as files:
            files.mark_conflicts()
        (tree / "a.txt").write_text("theirs, later\n2\n3\n")
        with changeset.begin("resolve") as files:
            files.write_text("a.txt", "both\n2\n3\n")
            files.resolve("a.txt", take)
        ended = changeset.land()
        assert isinstance(ended, Conflicted)
    assert (tree / "a.txt").read_text() == "theirs, later\n2\n3\n"


def test_what_others_change_elsewhere_after_a_resolution_is_merged_with_it(tmp_path: Path) -> None:
    tree, changeset, _ = begin(tmp_path, "content")
    with changeset:
        changeset.resolve("a.txt", "ours")
        (tree / "a.txt").write_text("theirs\n2\nthree\n")
        ended = changeset.land()
        assert isinstance(ended, Landed), ended
    assert (tree / "a.txt").read_text() == "ours\n2\nthree\n"


def test_a_person_edits_a_draft_and_takes_it(tmp_path: Path) -> None:
    tree, changeset, _ = begin(tmp_path, "content")
    with changeset:
        with pytest.raises(PathError, match="no draft to take"):
            changeset.resolve("a.txt", "merged")
        ((path, where),) = changeset.drafts()
        assert path == "a.txt"
        sides = {each: Path(where.replace("/merged/", f"/{each}/")).read_text() for each in ("ours", "theirs", "base")}
        assert sides == {"ours": "ours\n2\n3\n", "theirs": "theirs\n2\n3\n", "base": "1\n2\n3\n"}
        with pytest.raises(PathError, match="has marks"):
            changeset.resolve("a.txt", "merged")
        Path(where).write_text("both\n2\n3\n")
        changeset.drafts()  # asked again: the edit stays
        changeset.resolve("a.txt", "merged")
        assert isinstance(changeset.land(), Landed)
    assert (tree / "a.txt").read_text() == "both\n2\n3\n"


def test_a_path_that_is_not_in_conflict_is_refused_with_the_nearest(tmp_path: Path) -> None:
    _, changeset, _ = begin(tmp_path, "content")
    with changeset:
        with pytest.raises(PathError, match=r"a\.tx is not in conflict; did you mean a\.txt\?"):
            changeset.resolve("a.tx", "ours")
        with pytest.raises(PathError, match=r"d/x is not in conflict; in conflict are a\.txt"):
            changeset.resolve("d/x", "ours")
        with pytest.raises(PathError, match="'mine' is no way to resolve a conflict: say ours, theirs, merged"):
            changeset.resolve("a.txt", "mine")
        changeset.resolve("a.txt", "ours")
        with pytest.raises(PathError, match=r"a\.txt is not in conflict, and nothing else is"):
            changeset.resolve("a.txt", "ours")
        assert [step.name for step in changeset.steps()] == ["ours", "resolve a.txt: ours"]


def test_with_strict_isolation_what_somebody_landed_is_seen_and_then_it_lands(tmp_path: Path) -> None:
    tree = grown(tmp_path)
    strict = Changeset.open(tree, terms=Terms(provider="api", isolation=Isolation.STRICT))
    with strict:
        with strict.begin() as files:
            files.write_text("mine", "mine\n")
        with Changeset.open(tree, terms=Terms(provider="api")) as other:
            with other.begin() as files:
                files.write_text("a.txt", "another's\n")
            other.land()
        assert isinstance(strict.land(), Conflicted)
        strict.resolve("a.txt", "theirs")
        assert isinstance(strict.land(), Landed)
    assert (tree / "a.txt").read_text() == "another's\n"


def test_an_older_step_can_be_dropped_from_under_a_resolution(tmp_path: Path) -> None:
    tree, changeset, _ = begin(tmp_path, "content")
    with changeset:
        with changeset.begin("more") as files:
            files.write_text("more", "more\n")
        changeset.resolve("a.txt", "theirs")
        changeset.drop_step(2)
        assert isinstance(changeset.land(), Landed)
    assert (tree / "a.txt").read_text() == "theirs\n2\n3\n"
    assert not (tree / "more").exists()
