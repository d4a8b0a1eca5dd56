"""Texts and names: merges, diffs, patterns, and how a path is spelled."""

from __future__ import annotations

import random
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from amends.changeset import Changeset, Terms
from amends.changeset.model.model import UNKNOWN, Ancestor, PathKind, PathState
from amends.changeset.model.paths import Patterns, matcher, relative, spell, unspell
from amends.changeset.model.three_way import Clash, Ruling, judge
from amends.changeset.text.diff import Shown, quoted, unified
from amends.changeset.text.lines import LARGEST_TEXT, changed_lines, is_text, lines_in, lines_of, widest_in
from amends.changeset.text.merge import merge
from amends.errors import PathError
from tests.changeset.trees import seen

# Names


@given(st.binary(max_size=40))
def test_a_path_as_text_leads_back(path: bytes) -> None:
    text = spell(path)
    assert unspell(text) == path
    assert "\n" not in text
    text.encode("utf-8")


def test_a_plain_path_is_spelled_as_it_is() -> None:
    assert spell("src/caf\u00e9/a b.py".encode()) == "src/caf\u00e9/a b.py"
    assert spell(b"a\\b\xff\n") == "a\\\\b\\xff\\x0a"


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        (".git", [b".git", b"a/.git", b".git/config", b"a/.git/x/y"], [b".gitignore", b"a.git", b"git"]),
        ("*.lock", [b"uv.lock", b"a/b/uv.lock", b"x.lock/inside"], [b"uv.lock2", b"lock"]),
        ("docs/**", [b"docs", b"docs/a", b"docs/a/b"], [b"a/docs", b"a/docs/b", b"docs2/a"]),
        ("docs/**/**/", [b"docs", b"docs/a/b"], [b"a/docs"]),
        ("a/**/b/**", [b"a/b", b"a/x/b", b"a/x/b/c"], [b"a", b"b"]),
        ("**", [b"a", b"a/b"], []),
        ("/**", [b"a", b"a/b"], []),
        (".git", [b".GIT/hooks/x", b"a/.Git", b"GIT~1/x", b".git. /x", ".g\u200cit/x".encode()], [b"digit", b".gitx"]),
        ("**/build", [b"build", b"a/build", b"a/b/build/x"], [b"builds", b"a/rebuild"]),
        ("src/*/gen", [b"src/a/gen", b"src/b/gen/x"], [b"src/gen", b"src/a/b/gen"]),
        ("/only", [b"only", b"only/x"], [b"a/only"]),
        ("f?[ab]", [b"fxa", b"d/fyb"], [b"fa", b"fxc", b"f/a"]),
        ("[!x]y", [b"ay"], [b"xy", b"/y"]),
        ("caf\u00e9", ["caf\u00e9".encode()], [b"cafe"]),
    ],
)
def test_a_pattern_covers(pattern: str, covered: list[bytes], not_covered: list[bytes]) -> None:
    patterns = Patterns([pattern])
    assert [path for path in covered if path not in patterns] == []
    assert [path for path in not_covered if path in patterns] == []


def test_where_case_does_not_count_it_does_not_in_patterns() -> None:
    blind = Patterns(["Secrets/**", "*.KEY", "caf\u00e9"], is_case_blind=True)
    covered = [b"secrets", b"SECRETS/a", b"x/my.key", "CAFE\u0301".encode(), "caf\u00c9/x".encode()]
    assert [path for path in covered if path not in blind] == []
    assert blind.covering(b"SECRETS/a") == "Secrets/**"
    assert b"secrets/a" not in Patterns(["Secrets/**"])


def test_a_glob_matches_whole_paths() -> None:
    assert [path for path in (b"a.py", b"d/b.py", b"d/e/c.py", b"a.pyc") if matcher("**/*.py")(path)] == [
        b"a.py",
        b"d/b.py",
        b"d/e/c.py",
    ]
    assert not matcher("*.py")(b"d/b.py")
    with pytest.raises(PathError, match="not a pattern"):
        Patterns(["/"]).covering(b"x")


def test_relative_paths_are_normal() -> None:
    assert relative("/tree/a/./b//c/", b"/tree") == b"a/b/c"
    assert relative("/tree", b"/tree") == b""
    with pytest.raises(PathError):
        relative("/treetop/x", b"/tree")


# Texts


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"", True), (b"a\r\nb", True), ("\ufeffbom".encode(), True), (b"\0", False), (b"\xff\xfe", False)],
)
def test_what_is_text(content: bytes, text: bool) -> None:
    assert is_text(content) is text


def test_only_a_newline_ends_a_line() -> None:
    content = b"a\r\nb\x0cc\x1d\xe2\x80\xa8d\ne"
    assert lines_of(content) == [b"a\r\n", b"b\x0cc\x1d\xe2\x80\xa8d\n", b"e"]
    assert b"".join(lines_of(content)) == content


def test_changed_lines_are_counted() -> None:
    assert changed_lines(b"a\nb\nc\n", b"a\nB\nc\nd\n") == (2, 1)
    assert changed_lines(b"", b"a\nb\n") == (2, 0)
    assert changed_lines(b"same", b"same") == (0, 0)


@pytest.mark.parametrize(
    ("before", "after", "counted"),
    [
        (b"", b"\0", (1, 0)),
        (b"\0", b"a\n", (2, 1)),
        (b"a\n\0\n", b"a\n\0\nb\n", (4, 3)),
        (b"\xff" * 800, b"", (0, 10)),
        (b"", b"\0;" * 4000, (100, 0)),
    ],
)
def test_what_is_no_text_counts_as_all_of_its_lines(before: bytes, after: bytes, counted: tuple[int, int]) -> None:
    assert changed_lines(before, after) == counted


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        (b"x" * 200, 1),
        (b"x" * 240, 3),
        (("\u00e9" * 199).encode(), 1),
        (b"one\r\n", 1),
        (b"one\rtwo\rthree\n", 3),
        ("a\u2028b\x85c\x0cd\x0be".encode(), 5),
        (b"x=1;" * 5000, 250),
    ],
)
def test_a_line_counts_by_its_width_and_by_what_others_take_for_its_end(line: bytes, counts: int) -> None:
    assert changed_lines(b"", line) == (counts, 0)


def test_pieces_of_a_large_content_count_as_the_whole() -> None:
    content = b"a\n" * 1000 + b"b" * 5000 + b"\n\0"
    cut = [content[at : at + 7] for at in range(0, len(content), 7)]
    assert lines_in(cut) == lines_in([content])
    assert (widest_in(cut), widest_in([content])) == (5000, 5000)


# Merges

OLD = b"1\n2\n3\n4\n5\n6\n7\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        (b"ONE\n2\n3\n4\n5\n6\n7\n", b"1\n2\n3\n4\n5\n6\nSEVEN\n", b"ONE\n2\n3\n4\n5\n6\nSEVEN\n"),
        (OLD, b"x\n", b"x\n"),
        (b"x\n", OLD, b"x\n"),
        (b"0\n" + OLD, OLD + b"8\n", b"0\n" + OLD + b"8\n"),
        (b"1\n2\n4\n5\n6\n7\n", b"1\n2\n3\n4\n5\n6\n", b"1\n2\n4\n5\n6\n"),
        (b"1\nA\nB\n3\n4\n5\n6\n7\n", b"1\nA\nB\n3\n4\n5\n6\n7\n", b"1\nA\nB\n3\n4\n5\n6\n7\n"),
        (b"1\r\n2\n3\n4\n5\n6\n7\n", b"1\n2\n3\n4\n5\n6\n7", b"1\r\n2\n3\n4\n5\n6\n7"),
        (b"\xef\xbb\xbf1\n2\n3\n4\n5\n6\n7\n", b"1\n2\n3\n4\n5\n6\n7\n8\n", b"\xef\xbb\xbf1\n2\n3\n4\n5\n6\n7\n8\n"),
        (
            b"<<<<<<< ours\n2\n3\n4\n5\n6\n7\n",
            b"1\n2\n3\n4\n5\n6\n>>>>>>> x\n",
            b"<<<<<<< ours\n2\n3\n4\n5\n6\n>>>>>>> x\n",
        ),
    ],
)
def test_a_clean_merge_has_both(ours: bytes, theirs: bytes, merged: bytes) -> None:
    answer = merge(OLD, ours, theirs)
    assert answer is not None
    assert (answer.content, answer.hunks) == (merged, ())


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (OLD.replace(b"4", b"a"), OLD.replace(b"4", b"b")),
        (OLD.replace(b"4", b"a"), OLD.replace(b"5", b"b")),
        (OLD.replace(b"4\n", b""), OLD.replace(b"4", b"b")),
        (OLD + b"a", OLD + b"b"),
        (b"a\n", b"b\n"),
    ],
)
def test_changes_that_touch_are_in_conflict(ours: bytes, theirs: bytes) -> None:
    answer = merge(OLD, ours, theirs)
    assert answer is not None
    assert answer.hunks
    assert b"<<<<<<< ours\n" in answer.content


def test_an_empty_ancestor_and_what_is_no_text() -> None:
    answer = merge(b"", b"a\n", b"b\n")
    assert answer is not None
    assert len(answer.hunks) == 1
    assert merge(b"\0", b"a", b"b") is None


def test_huge_repetitive_texts_are_given_up_or_left_to_git() -> None:
    old = b"x\n" * 9000
    one, other = b"a\n" + b"y\n" * 9000, b"z\n" * 9000 + b"b\n"
    answer = merge(old, one, other)
    assert answer is None


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_merges_agree_with_git(tmp_path: Path) -> None:
    chance = random.Random(6)
    for _ in range(60):
        old = [f"{chance.randrange(8)}\n" for _ in range(chance.randrange(1, 25))]
        sides: list[bytes] = []
        for _ in range(2):
            side = list(old)
            for _ in range(chance.randrange(3)):
                place = chance.randrange(len(side) + 1)
                side[place : place + chance.randrange(3)] = [f"n{chance.randrange(9)}\n"] * chance.randrange(3)
            sides.append("".join(side).encode())
        for name, content in (("ours", sides[0]), ("old", "".join(old).encode()), ("theirs", sides[1])):
            (tmp_path / name).write_bytes(content)
        words = ["git", "merge-file", "-p", "-q", "ours", "old", "theirs"]
        git = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
        answer = merge("".join(old).encode(), *sides)
        assert answer is not None
        if not answer.hunks:
            assert git.returncode == 0, (old, sides)
            assert git.stdout == answer.content


# The table

FILE = PathState(kind=PathKind.FILE, mode=0o644, digest="a")
OURS = PathState(kind=PathKind.FILE, mode=0o644, digest="o")
THEIRS = PathState(kind=PathKind.FILE, mode=0o644, digest="t")
FOLDER = PathState(kind=PathKind.FOLDER, mode=0o755)
STATES = [None, FILE, OURS, THEIRS, FOLDER, PathState(kind=PathKind.LINK, mode=0o777, target=b"x")]


@pytest.mark.parametrize("ours", STATES)
@pytest.mark.parametrize("theirs", STATES)
@pytest.mark.parametrize("ancestor", [*STATES, "unknown"])
def test_the_table_never_loses_a_change(
    ancestor: PathState | str | None, ours: PathState | None, theirs: PathState | None
) -> None:
    """Whatever is not a conflict keeps each side's change; what is one changes nothing."""
    before = UNKNOWN if isinstance(ancestor, str) else Ancestor(state=ancestor)
    judged = judge(before, ours, theirs)
    match judged.ruling:
        case Ruling.ALREADY:
            assert ours == theirs
        case Ruling.APPLY:
            assert before.is_known
            assert theirs == before.state
            assert judged.outcome == ours
        case Ruling.STAY:
            assert before.is_known
            assert ours == before.state or (ours is not None and ours.kind is PathKind.FOLDER)
        case Ruling.MERGE:
            assert {ours and ours.kind, theirs and theirs.kind} == {PathKind.FILE}
        case Ruling.CONFLICT:
            assert judged.clash is not None
            assert ours != theirs
            assert (judged.clash is Clash.NO_ANCESTOR) == (not before.is_known)


# Diffs


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_applies_the_diff_and_comes_to_the_same(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree, tmp_path / "twin", symlinks=True)
    with Changeset.open(tree, terms=Terms(provider="api", ephemeral=())) as changeset:
        with changeset.begin("all sorts") as files:
            files.write_text("docs/page.md", "# A page\n\none\n2\nthree\nfour\nfive\nsix")
            files.write_text("pkg/new file.py", "new\n", mode=0o644)
            files.write_text("pkg/empty", "", mode=0o644)
            files.write_text("odd\tname", "odd\n", mode=0o755)
            files.remove("pkg/two.py")
            files.chmod("run.sh", 0o644)
            files.remove("to_page")
            files.symlink("to_page", "run.sh")
        with changeset.begin("then") as files:
            files.rename("pkg/one.py", "pkg/uno.py")
            files.remove("pkg/sub", recursive=True)
        text = changeset.diff()
        assert "deleted folder pkg/sub" in text
        changeset.land()
    applied = subprocess.run(
        ["git", "apply", "--unsafe-paths", "-p1"],
        cwd=tmp_path / "twin",
        input=text.encode(),
        capture_output=True,
        check=False,
    )
    assert applied.returncode == 0, applied.stderr.decode() + text
    twin, landed = seen(tmp_path / "twin", times=False), seen(tree, times=False)
    assert {path: about for path, about in twin.items() if about[0] != "folder"} == {
        path: about for path, about in landed.items() if about[0] != "folder"
    }


def test_a_diff_of_one_step_is_against_what_was_below_it(tree: Path) -> None:
    with Changeset.open(tree, terms=Terms(provider="api")) as changeset:
        for text in ("first\n", "second\n"):
            with changeset.begin(text.strip()) as files:
                files.write_text("note", text, mode=0o644)
        assert changeset.diff(1) == (
            "diff --git a/note b/note\nnew file mode 100644\n--- /dev/null\n+++ b/note\n@@ -0,0 +1 @@\n+first\n"
        )
        assert changeset.diff(2) == ("diff --git a/note b/note\n--- a/note\n+++ b/note\n@@ -1 +1 @@\n-first\n+second\n")
        assert "+second\n" in changeset.diff()
        assert "first" not in changeset.diff()


def test_a_binary_file_is_named_measured_and_shown_as_far_as_it_can_be(tree: Path) -> None:
    with Changeset.open(tree, terms=Terms(provider="api")) as changeset:
        with changeset.begin("one") as files:
            files.write_bytes("data.bin", b"\0\1\2")
            files.write_bytes("new.bin", b"a\\\xff\n\0\n", mode=0o640)
        old, new = sha256((tree / "data.bin").read_bytes()), sha256(b"\0\1\2")
        odd = sha256(b"a\\\xff\n\0\n")
        told = changeset.diff()
        assert told.startswith(
            "diff --git a/data.bin b/data.bin\n"
            "Binary files a/data.bin and b/data.bin differ\n"
            f"| before: 1024 bytes, lines counted: 29, sha256 {old.hexdigest()}\n"
            f"| after: 3 bytes, lines counted: 1, sha256 {new.hexdigest()}\n"
            "|@@ -1,5 +1 @@\n"
        )
        assert told.endswith(
            "diff --git a/new.bin b/new.bin\n"
            "new file mode 100640\n"
            "Binary files /dev/null and b/new.bin differ\n"
            f"| after: 6 bytes, lines counted: 3, sha256 {odd.hexdigest()}\n"
            "|@@ -0,0 +1,2 @@\n"
            "|+a\\\\\\xff\n"
            "|+\\x00\n"
        )


def test_of_many_odd_bytes_a_part_is_shown_and_of_a_script_with_one_nearly_all() -> None:
    def told(content: bytes) -> str:
        after = PathState(kind=PathKind.FILE, mode=0o644, size=len(content), digest="d")
        return unified([Shown(path=b"x", before=None, after=after, new=content)])

    assert len(told(random.Random(1).randbytes(1 << 20))) < 100_000
    assert "lines of this file are not shown" in told(random.Random(1).randbytes(1 << 20))
    assert told(b"\0" + b"do this\n" * 5000).endswith("|+do this\n")


def test_of_a_file_too_large_to_compare_the_part_that_differs_is_shown(tree: Path) -> None:
    whole = b"a line of it\n" * (LARGEST_TEXT // 10)
    (tree / "large").write_bytes(whole)
    middle = len(whole) // 13 // 2 * 13
    with Changeset.open(tree, terms=Terms(provider="api")) as changeset:
        with changeset.begin("one") as files:
            files.write_bytes("large", whole[:middle] + b"EVIL\n" + whole[middle:])
        looked = changeset.overview()
        assert f"| + 5 bytes from byte {middle} on\n|+EVIL\n" in looked.diff
        assert (looked.binary_files, looked.widest_line) == (1, 12)
        lines = 2 * whole.count(b"\n") + 3
        assert looked.changed_lines == lines
        (step,) = changeset.steps()
        assert step.totals.added_lines + step.totals.removed_lines == lines


def test_modes_stand_in_full_and_count(tree: Path) -> None:
    (tree / "run.sh").chmod(0o700)
    with Changeset.open(tree, terms=Terms(provider="api")) as changeset:
        with changeset.begin("one") as files:
            files.chmod("run.sh", 0o777)
            files.chmod("pkg", 0o700)
        looked = changeset.overview()
        assert "old mode 100700\nnew mode 100777\n" in looked.diff
        assert "folder pkg: mode 755 to 700\n" in looked.diff
        assert (looked.modes_changed, looked.changed_lines, looked.binary_files) == (2, 4, 0)
        (step,) = changeset.steps()
        assert (step.totals.added_lines, step.totals.removed_lines) == (2, 2)


def test_odd_names_are_quoted_as_git_does() -> None:
    assert quoted(b"plain name") == "plain name"
    assert quoted(b'a"b\\c\n\xff') == '"a\\"b\\\\c\\n\\377"'


def test_an_approval_is_bound_to_exactly_these_layers(tree: Path) -> None:
    with Changeset.open(tree, terms=Terms(provider="api")) as changeset:
        empty = changeset.digest()
        with changeset.begin("one") as files:
            files.write_text("a", "a")
        one = changeset.digest()
        with changeset.begin("two") as files:
            files.write_text("a", "b")
        assert len({empty, one, changeset.digest()}) == 3
        changeset.drop_last()
        assert changeset.digest() == one
