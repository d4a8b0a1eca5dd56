"""One suite for all providers: the same work leaves the same layer behind, and a drop leaves nothing."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from amends.changeset.files import Files
from amends.errors import ViewError
from tests.changeset.conftest import PROVIDERS, WITH_VIEW, Opener
from tests.changeset.trees import Said, plant, said, seen
from tests.parts import sampled

pytestmark = pytest.mark.usefixtures("tree")


def a_file(content: str, mode: int = 0o644) -> tuple[object, ...]:
    return ("file", mode, hashlib.sha256(content.encode()).hexdigest())


def edit_create_remove(files: Files) -> None:
    files.write_text("pkg/one.py", "def one():\n    return 11\n")
    files.write_text("pkg/new.py", "new = 1\n", mode=0o644)
    files.remove("pkg/two.py")


def move_file_and_folder(files: Files) -> None:
    files.rename("pkg/one.py", "pkg/uno.py")
    files.rename("pkg/sub", "pkg/moved")


def replace_folder_by_an_empty_one(files: Files) -> None:
    files.remove("pkg/sub", recursive=True)
    files.make_folder("pkg/sub")
    files.chmod("pkg/sub", 0o755)


def turn_kinds_around(files: Files) -> None:
    files.remove("docs", recursive=True)
    files.write_text("docs", "a file now\n", mode=0o644)
    files.remove("secret")
    files.make_folder("secret")
    files.chmod("secret", 0o755)
    files.write_text("secret/inside", "in\n", mode=0o644)
    files.remove("to_page")
    files.symlink("to_page", "run.sh")
    files.remove("run.sh")
    files.symlink("run.sh", "pkg/one.py")


def modes_only(files: Files) -> None:
    files.chmod("run.sh", 0o644)
    files.chmod("pkg/one.py", 0o444)
    files.chmod("empty", 0o700)


def folders_only(files: Files) -> None:
    files.make_folder("a/b/c", parents=True)
    for folder in ("a", "a/b", "a/b/c"):
        files.chmod(folder, 0o755)
    files.remove("empty")


def nothing_in_the_end(files: Files) -> None:
    files.write_text("pkg/one.py", "changed\n")
    files.write_text("pkg/one.py", "def one():\n    return 1\n")
    files.write_text("passing", "by\n")
    files.remove("passing")
    files.chmod("run.sh", 0o700)
    files.chmod("run.sh", 0o755)


def swap_two_files(files: Files) -> None:
    files.rename("pkg/one.py", "pkg/tmp.py")
    files.rename("pkg/two.py", "pkg/one.py")
    files.rename("pkg/tmp.py", "pkg/two.py")


def rename_and_recreate(files: Files) -> None:
    files.rename("pkg/one.py", "pkg/uno.py")
    files.write_text("pkg/one.py", "again = 1\n", mode=0o644)


def rename_folder_and_edit_child(files: Files) -> None:
    files.rename("pkg", "lib")
    files.write_text("lib/one.py", "lib = 1\n")


def write_through_links(files: Files) -> None:
    files.write_text("to_page", "through the link\n")
    files.symlink("here", "pkg/sub")
    files.write_text("here/deep.py", "by way of here\n")


def rename_over_a_folder_that_went(files: Files) -> None:
    files.make_folder("other/sub", parents=True)
    files.write_text("other/sub/new.py", "new\n", mode=0o644)
    for folder in ("other", "other/sub"):
        files.chmod(folder, 0o755)
    files.remove("pkg", recursive=True)
    files.rename("other", "pkg")


def rename_over_a_file(files: Files) -> None:
    files.rename("pkg/one.py", "pkg/two.py")


def a_link_becomes_a_folder(files: Files) -> None:
    files.remove("to_page")
    files.make_folder("to_page")
    files.chmod("to_page", 0o755)
    files.write_bytes("to_page/empty", b"", mode=0o644)


def odd_names(files: Files) -> None:
    for name in ("new\nline", "ta\tb", "back\\slash", "co:lon", "com,ma", "-dash", ".wh.x", "caf\u00e9", "n" * 255):
        files.write_text("pkg/" + name, name, mode=0o644)
    files.write_bytes(b"pkg/\xff\xfe", b"not UTF-8", mode=0o644)


ONE, TWO = "def one():\n    return 1\n", "def two():\n    return 2\n"
SCRIPTS: list[tuple[Callable[[Files], None], Said]] = [
    (
        edit_create_remove,
        {
            "pkg/one.py": a_file("def one():\n    return 11\n"),
            "pkg/new.py": a_file("new = 1\n"),
            "pkg/two.py": None,
        },
    ),
    (
        move_file_and_folder,
        {
            "pkg/one.py": None,
            "pkg/uno.py": a_file(ONE),
            "pkg/sub": None,
            "pkg/sub/deep.py": None,
            "pkg/sub/other.py": None,
            "pkg/moved": ("folder", 0o755),
            "pkg/moved/deep.py": a_file("deep = True\n"),
            "pkg/moved/other.py": a_file("other = True\n"),
        },
    ),
    (replace_folder_by_an_empty_one, {"pkg/sub/deep.py": None, "pkg/sub/other.py": None}),
    (
        turn_kinds_around,
        {
            "docs": a_file("a file now\n"),
            "docs/page.md": None,
            "secret": ("folder", 0o755),
            "secret/inside": a_file("in\n"),
            "to_page": ("link", b"run.sh"),
            "run.sh": ("link", b"pkg/one.py"),
        },
    ),
    (
        modes_only,
        {
            "run.sh": a_file("#!/bin/sh\necho ran\n"),
            "pkg/one.py": a_file(ONE, 0o444),
            "empty": ("folder", 0o700),
        },
    ),
    (folders_only, {"a": ("folder", 0o755), "a/b": ("folder", 0o755), "a/b/c": ("folder", 0o755), "empty": None}),
    (nothing_in_the_end, {}),
    (swap_two_files, {"pkg/one.py": a_file(TWO), "pkg/two.py": a_file(ONE)}),
    (rename_and_recreate, {"pkg/one.py": a_file("again = 1\n"), "pkg/uno.py": a_file(ONE)}),
    (
        rename_folder_and_edit_child,
        {
            "pkg": None,
            "pkg/__init__.py": None,
            "pkg/one.py": None,
            "pkg/two.py": None,
            "pkg/sub": None,
            "pkg/sub/deep.py": None,
            "pkg/sub/other.py": None,
            "lib": ("folder", 0o755),
            "lib/__init__.py": a_file(""),
            "lib/one.py": a_file("lib = 1\n"),
            "lib/two.py": a_file(TWO),
            "lib/sub": ("folder", 0o755),
            "lib/sub/deep.py": a_file("deep = True\n"),
            "lib/sub/other.py": a_file("other = True\n"),
        },
    ),
    (
        rename_over_a_folder_that_went,
        {
            "pkg/__init__.py": None,
            "pkg/one.py": None,
            "pkg/two.py": None,
            "pkg/sub/deep.py": None,
            "pkg/sub/other.py": None,
            "pkg/sub/new.py": a_file("new\n"),
        },
    ),
    (rename_over_a_file, {"pkg/one.py": None, "pkg/two.py": a_file(ONE)}),
    (a_link_becomes_a_folder, {"to_page": ("folder", 0o755), "to_page/empty": a_file("")}),
    (
        write_through_links,
        {
            "docs/page.md": a_file("through the link\n"),
            "here": ("link", b"pkg/sub"),
            "pkg/sub/deep.py": a_file("by way of here\n"),
        },
    ),
    (
        odd_names,
        {
            **{
                f"pkg/{name}": a_file(name)
                for name in (
                    "new\nline",
                    "ta\tb",
                    "back\\slash",
                    "co:lon",
                    "com,ma",
                    "-dash",
                    ".wh.x",
                    "caf\u00e9",
                    "n" * 255,
                )
            },
            "pkg/\\xff\\xfe": a_file("not UTF-8"),
        },
    ),
]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("script", "expected"), SCRIPTS, ids=[script.__name__ for script, _ in SCRIPTS])
def test_the_same_script_gives_the_same_changes(
    provider: str, script: Callable[[Files], None], expected: Said, tree: Path, opener: Opener
) -> None:
    before = seen(tree)
    changeset = opener(provider, tree)
    with changeset.begin("work") as files:
        script(files)
    assert said(changeset._layers[0]) == expected
    assert seen(tree) == before


SHELL: list[tuple[str, str, Said]] = [
    (
        "edits in place and by replacement",
        "printf 'x\\n' >> docs/page.md; sed -i s/1/7/ pkg/one.py; cp run.sh copy.sh; rm pkg/two.py",
        {
            "docs/page.md": a_file("# A page\n\none\ntwo\nthree\nfour\nfive\nx\n"),
            "pkg/one.py": a_file("def one():\n    return 7\n"),
            "copy.sh": a_file("#!/bin/sh\necho ran\n", 0o755),
            "pkg/two.py": None,
        },
    ),
    (
        "removes a folder and makes it again: old files do not come back",
        "rm -r pkg/sub; mkdir pkg/sub; echo new > pkg/sub/new.py",
        {"pkg/sub/deep.py": None, "pkg/sub/other.py": None, "pkg/sub/new.py": a_file("new\n")},
    ),
    (
        "replaces a folder by one with the same folders in it: old files do not come back there either",
        "rm -r pkg; mkdir -p pkg/sub; echo new > pkg/sub/new.py",
        {
            "pkg/__init__.py": None,
            "pkg/one.py": None,
            "pkg/two.py": None,
            "pkg/sub/deep.py": None,
            "pkg/sub/other.py": None,
            "pkg/sub/new.py": a_file("new\n"),
        },
    ),
    (
        "makes a folder again, with one of its files as it was",
        "cp pkg/sub/deep.py kept; rm -r pkg/sub; mkdir pkg/sub; mv kept pkg/sub/deep.py",
        {"pkg/sub/other.py": None},
    ),
    (
        "moves a folder by mv",
        "mv pkg/sub pkg/moved",
        {
            "pkg/sub": None,
            "pkg/sub/deep.py": None,
            "pkg/sub/other.py": None,
            "pkg/moved": ("folder", 0o755),
            "pkg/moved/deep.py": a_file("deep = True\n"),
            "pkg/moved/other.py": a_file("other = True\n"),
        },
    ),
    ("touches a file", "touch pkg/one.py; touch empty", {}),
    (
        "rewrites with the same size and time",
        "sed s/1/9/ pkg/one.py > new; touch -r pkg/one.py new; cat new > pkg/one.py; touch -r new pkg/one.py; rm new",
        {"pkg/one.py": a_file("def one():\n    return 9\n")},
    ),
    (
        "uses the absolute path of the tree",
        'echo absolute > "$TREE/pkg/abs.py"; rm "$TREE/secret"',
        {"pkg/abs.py": a_file("absolute\n"), "secret": None},
    ),
    ("leaves a sparse file", "truncate -s 100000 sparse", {"sparse": a_file("\0" * 100000)}),
]


@pytest.mark.parametrize("provider", [each for each in WITH_VIEW if each != "copy-plain"])
@pytest.mark.parametrize(("story", "script", "expected"), sampled(SHELL, each=3), ids=[story for story, _, _ in SHELL])
def test_the_same_commands_give_the_same_changes(
    provider: str, story: str, script: str, expected: Said, tree: Path, opener: Opener
) -> None:
    before = seen(tree)
    changeset = opener(provider, tree)
    with changeset.begin(story) as files:
        ran = files.run(["sh", "-euc", f"umask 022; {script}; find . | sort"], env={"TREE": str(tree)}, timeout_s=60)
        assert ran.ok, ran.stderr
    assert said(changeset._layers[0]) == expected
    assert seen(tree) == before
    with changeset.begin("look") as files:
        assert files.run(["sh", "-c", "find . | sort"]).stdout == ran.stdout
        files.drop()


@pytest.mark.parametrize("provider", WITH_VIEW)
def test_python_and_tools_see_each_others_work(provider: str, tree: Path, opener: Opener) -> None:
    changeset = opener(provider, tree)
    with changeset.begin("first") as files:
        files.write_text("pkg/one.py", "by python\n")
        files.remove("pkg/two.py")
        assert files.run(["cat", "pkg/one.py"]).stdout == "by python\n"
        assert not files.run(["cat", "pkg/two.py"]).ok
        files.run(["sh", "-c", "echo by a tool > made; rm secret"])
        assert files.read_text("made") == "by a tool\n"
        assert not files.exists("secret")
    with changeset.begin("second") as files:
        assert files.read_text("made") == "by a tool\n"
        assert files.run(["cat", "made", "pkg/one.py"]).stdout == "by a tool\nby python\n"
        assert not files.run(["cat", "secret"]).ok
        assert sorted(files.names("pkg")) == ["__init__.py", "one.py", "sub"]
        assert files.glob("**/*.py") == ["pkg/__init__.py", "pkg/one.py", "pkg/sub/deep.py", "pkg/sub/other.py"]


def shown(files: Files, tree: Path, place: Path) -> dict[bytes, tuple[object, ...]]:
    """The view as a tool sees it, whole."""
    place.mkdir()
    ran = files.run(["cp", "-a", ".", str(place)], confine=False)
    assert ran.ok, ran.stderr
    found = seen(place)
    found.pop(b"")
    return found


@pytest.mark.parametrize("provider", WITH_VIEW)
@pytest.mark.parametrize(
    "script", sampled([script for script, _ in SCRIPTS], each=3), ids=[script.__name__ for script, _ in SCRIPTS]
)
def test_a_dropped_layer_leaves_the_view_as_it_was(
    provider: str, script: Callable[[Files], None], tree: Path, opener: Opener, tmp_path: Path
) -> None:
    changeset = opener(provider, tree)
    with changeset.begin("stays") as files:
        files.write_text("stays", "here\n")
        files.remove("pkg/sub/other.py")
    with changeset.begin("look") as files:
        before = shown(files, tree, tmp_path / "before")
        files.drop()
    with changeset.begin("goes") as files:
        script(files)
        files.write_text("goes", "away\n")
    changeset.drop_last()
    with changeset.begin("look again") as files:
        after = shown(files, tree, tmp_path / "after")
        files.drop()
    assert without_folder_times(after) == without_folder_times(before)


def without_folder_times(found: dict[bytes, tuple[object, ...]]) -> dict[bytes, tuple[object, ...]]:
    """In a copy, a folder that something was put into and taken out of again may have another time."""
    return {path: about[:2] if about[0] == "folder" else about for path, about in found.items()}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_open_step_that_is_dropped_was_never_there(provider: str, tree: Path, opener: Opener) -> None:
    before = seen(tree)
    changeset = opener(provider, tree)
    with contextlib.suppress(ZeroDivisionError), changeset.begin("fails") as files:
        files.write_text("pkg/one.py", "half done\n")
        files.remove("docs", recursive=True)
        raise ZeroDivisionError
    with changeset.begin("next") as files:
        assert files.read_text("pkg/one.py") == ONE
        assert files.exists("docs/page.md")
    assert changeset.steps()[0].totals.files == 0
    assert seen(tree) == before


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_landing_makes_the_tree_what_the_view_was(provider: str, tree: Path, opener: Opener, tmp_path: Path) -> None:
    changeset = opener(provider, tree)
    with changeset.begin("one") as files:
        move_file_and_folder(files)
    with changeset.begin("two") as files:
        turn_kinds_around(files)
    with changeset.begin("three") as files:
        modes_only_left(files)
    changeset.land()
    expected = plant(tmp_path / "expected", {})
    assert seen(tree, times=False) == by_hand(tree, expected)


def modes_only_left(files: Files) -> None:
    files.chmod("empty", 0o700)
    files.chmod("pkg/two.py", 0o600)


def by_hand(tree: Path, place: Path) -> dict[bytes, tuple[object, ...]]:
    """The same changes, made by hand in a fresh tree."""
    from tests.changeset.trees import PACKAGE

    plant(place, PACKAGE)
    os.rename(place / "pkg/one.py", place / "pkg/uno.py")
    os.rename(place / "pkg/sub", place / "pkg/moved")
    os.unlink(place / "docs/page.md")
    os.rmdir(place / "docs")
    (place / "docs").write_text("a file now\n")
    os.unlink(place / "secret")
    (place / "secret").mkdir(0o755)
    (place / "secret/inside").write_text("in\n")
    for name, target in (("to_page", "run.sh"), ("run.sh", "pkg/one.py")):
        os.unlink(place / name)
        os.symlink(target, place / name)
    (place / "empty").chmod(0o700)
    (place / "pkg/two.py").chmod(0o600)
    return seen(place, times=False)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ephemeral_files_are_in_the_view_and_never_land(provider: str, tree: Path, opener: Opener) -> None:
    changeset = opener(provider, tree)
    with changeset.begin("one") as files:
        files.make_folder(".git/objects", parents=True)
        files.write_text(".git/objects/aa", "object")
        files.make_folder("pkg/__pycache__")
        files.write_text("pkg/__pycache__/one.pyc", "compiled")
        files.write_text("pkg/one.py", "real\n")
    with changeset.begin("two") as files:
        assert files.read_text(".git/objects/aa") == "object"
        files.write_text(".git/HEAD", "ref")
    assert changeset.steps()[0].totals.files == 1
    changeset.land()
    assert not (tree / ".git").exists()
    assert not (tree / "pkg/__pycache__").exists()
    assert (tree / "pkg/one.py").read_text() == "real\n"


def test_the_api_has_no_view_and_says_so(tree: Path, opener: Opener) -> None:
    changeset = opener("api", tree)
    with pytest.raises(ViewError, match="doctor"), changeset.begin("one") as files:
        files.run(["true"])


@pytest.mark.parametrize("provider", ["overlay", "overlay-userns"])
def test_promote_lets_a_tool_rename_a_folder_of_the_tree(provider: str, tree: Path, opener: Opener) -> None:
    changeset = opener(provider, tree)
    rename = ["python3", "-c", "import os; os.rename('pkg/sub', 'pkg/moved')"]
    with changeset.begin("one") as files:
        assert not files.run(rename).ok
        files.promote("pkg/sub")
        ran = files.run(rename)
        assert ran.ok, ran.stderr
    assert said(changeset._layers[0]) == {
        "pkg/sub": None,
        "pkg/sub/deep.py": None,
        "pkg/sub/other.py": None,
        "pkg/moved": ("folder", 0o755),
        "pkg/moved/deep.py": a_file("deep = True\n"),
        "pkg/moved/other.py": a_file("other = True\n"),
    }


@pytest.mark.parametrize("provider", ["overlay", "copy", "api"])
def test_what_was_promoted_and_stayed_as_it_was_is_in_the_view_of_the_next_step(
    provider: str, tree: Path, opener: Opener
) -> None:
    changeset = opener(provider, tree)
    with changeset.begin("one") as files:
        names = files.names("pkg")
        files.promote("pkg")
        files.write_text("pkg/one.py", "changed\n")
    assert list(said(changeset._layers[0])) == ["pkg/one.py"]
    with changeset.begin("two") as files:
        assert (files.names("pkg"), files.names("pkg/sub")) == (names, ["deep.py", "other.py"])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_two_trees_are_changed_and_landed_together(provider: str, tree: Path, opener: Opener, tmp_path: Path) -> None:
    other = plant(tmp_path / "other", {"lib.py": "lib = 1\n"})
    changeset = opener(provider, tree, other)
    with changeset.begin("both") as files:
        files.write_text("pkg/one.py", "first\n")
        files.write_text(other / "lib.py", "second\n")
        files.write_text(other / "new.py", "third\n")
        if provider not in {"api", "copy-plain"}:
            assert files.run(["cat", str(other / "lib.py")], cwd=other).stdout == "second\n"
    landed = changeset.land()
    assert landed.data()["applied"] == ["pkg/one.py", "lib.py", "new.py"]
    assert (tree / "pkg/one.py").read_text() == "first\n"
    assert (other / "lib.py").read_text() == "second\n"
    assert stat.S_IMODE((other / "new.py").stat().st_mode) & 0o600 == 0o600
