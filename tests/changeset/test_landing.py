"""Landing beside others: what conflicts, what merges, what is said about it, and who goes first."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amends.changeset import Changeset, Conflicted, Isolation, Landed, Life, Terms, Unverified, queue
from amends.changeset.disk.disk import Disk, DiskName
from amends.changeset.files import Files
from amends.errors import ChangesetBusyError, ChangesetLifeError, RootError
from tests.changeset.conftest import Opener
from tests.changeset.trees import PACKAGE, Plants, plant, seen

API = Terms(provider="api")
PAGE = "# A page\n\none\ntwo\nthree\nfour\nfive\n"


def opened(tree: Path, **more: Any) -> Changeset:
    return Changeset.open(tree, terms=API, **more)


def changed(tree: Path, work: Callable[[Files], None], **more: Any) -> Changeset:
    changeset = opened(tree, **more)
    with changeset.begin("work") as files:
        work(files)
    return changeset


def landed(changeset: Changeset) -> Landed:
    ended = changeset.land()
    changeset.close()
    assert isinstance(ended, Landed), ended
    return ended


def conflicted(changeset: Changeset) -> Conflicted:
    ended = changeset.land()
    changeset.close()
    assert isinstance(ended, Conflicted), ended
    return ended


def write(path: str, text: str) -> Callable[[Files], None]:
    return lambda files: files.write_text(path, text)


def remove(path: str) -> Callable[[Files], None]:
    return lambda files: files.remove(path, recursive=True)


def both(*works: Callable[[Files], None]) -> Callable[[Files], None]:
    def work(files: Files) -> None:
        for each in works:
            each(files)

    return work


# Two changesets, one after the other: what each does, and how the second ends

Case = tuple[Callable[[Files], None], Callable[[Files], None], str | None, Plants]

CASES: dict[str, Case] = {
    "disjoint paths": (
        write("pkg/one.py", "a\n"),
        write("pkg/two.py", "b\n"),
        None,
        {"pkg/one.py": "a\n", "pkg/two.py": "b\n"},
    ),
    "the same file, disjoint hunks": (
        write("docs/page.md", PAGE.replace("one", "ONE")),
        write("docs/page.md", PAGE.replace("five", "FIVE")),
        None,
        {"docs/page.md": PAGE.replace("one", "ONE").replace("five", "FIVE")},
    ),
    "the same hunk": (
        write("docs/page.md", PAGE.replace("three", "a")),
        write("docs/page.md", PAGE.replace("three", "b")),
        "content",
        {"docs/page.md": PAGE.replace("three", "a")},
    ),
    "the identical change": (write("pkg/one.py", "x\n"), write("pkg/one.py", "x\n"), None, {"pkg/one.py": "x\n"}),
    "both delete": (remove("pkg/one.py"), remove("pkg/one.py"), None, {}),
    "one modified what the other deletes": (
        write("pkg/one.py", "x\n"),
        remove("pkg/one.py"),
        "delete-modify",
        {"pkg/one.py": "x\n"},
    ),
    "one deleted what the other modifies": (remove("pkg/one.py"), write("pkg/one.py", "x\n"), "modify-delete", {}),
    "both add the same": (write("new.py", "x\n"), write("new.py", "x\n"), None, {"new.py": "x\n"}),
    "both add, differently": (write("new.py", "x\n"), write("new.py", "y\n"), "add-add", {"new.py": "x\n"}),
    "one added to the folder that the other deletes": (
        write("docs/more.md", "x\n"),
        remove("docs"),
        "not-empty",
        {"docs/more.md": "x\n"},
    ),
    "one deleted the folder that the other adds to": (remove("docs"), write("docs/more.md", "x\n"), "no-folder", {}),
    "one changes the mode, the other the content": (
        lambda files: files.chmod("pkg/one.py", 0o755),
        write("pkg/one.py", "x\n"),
        None,
        {"pkg/one.py": "x\n"},
    ),
    "one changes the content, the other the mode": (
        write("pkg/one.py", "x\n"),
        lambda files: files.chmod("pkg/one.py", 0o755),
        None,
        {"pkg/one.py": "x\n"},
    ),
    "both change the mode, differently": (
        lambda files: files.chmod("pkg/one.py", 0o755),
        lambda files: files.chmod("pkg/one.py", 0o600),
        "mode",
        {},
    ),
    "both rename the same file": (
        lambda files: files.rename("pkg/one.py", "pkg/a.py"),
        lambda files: files.rename("pkg/one.py", "pkg/b.py"),
        None,
        {"pkg/a.py": "def one():\n    return 1\n", "pkg/b.py": "def one():\n    return 1\n"},
    ),
    "both change a link": (
        both(remove("to_page"), lambda files: files.symlink("to_page", "run.sh")),
        both(remove("to_page"), lambda files: files.symlink("to_page", "secret")),
        "link",
        {},
    ),
    "both change a binary file": (
        lambda files: files.write_bytes("data.bin", b"\0one"),
        lambda files: files.write_bytes("data.bin", b"\0two"),
        "binary",
        {},
    ),
    "one makes a folder of the file that the other edits": (
        both(remove("secret"), lambda files: files.make_folder("secret")),
        write("secret", "x\n"),
        "kind",
        {},
    ),
    "one makes a file of the folder that the other adds to": (
        both(remove("empty"), write("empty", "a file\n")),
        write("empty/new.py", "x\n"),
        "no-folder",
        {"empty": "a file\n"},
    ),
}


@pytest.mark.parametrize("story", CASES)
def test_two_changesets_meet(tree: Path, story: str) -> None:
    first, second, clash, expected = CASES[story]
    one, other = changed(tree, first, name="one"), changed(tree, second, name="other")
    landed(one)
    before = seen(tree)
    ended = other.land()
    other.close()
    if clash is None:
        assert isinstance(ended, Landed), ended
    else:
        assert isinstance(ended, Conflicted)
        assert [str(each.clash) for each in ended.conflicts] == [clash]
        assert seen(tree) == before
        if clash != "no-ancestor":
            winner = ended.conflicts[0].winner
            assert (winner is not None and winner.name == "one") or clash in {"not-empty", "no-folder"}
    for path, content in expected.items():
        assert (tree / path).read_text() == content


def test_content_and_mode_are_both_taken(tree: Path) -> None:
    one = changed(tree, lambda files: files.chmod("pkg/one.py", 0o755))
    other = changed(tree, write("pkg/one.py", "x\n"))
    landed(one)
    landed(other)
    assert stat.S_IMODE((tree / "pkg/one.py").stat().st_mode) == 0o755


def test_a_merge_keeps_what_both_did_and_says_so(tree: Path) -> None:
    one = changed(tree, write("docs/page.md", PAGE.replace("one", "ONE")))
    other = changed(tree, write("docs/page.md", PAGE.replace("five", "FIVE")))
    landed(one)
    assert landed(other).merged == ("docs/page.md",)


def test_a_report_says_per_path_kind_hashes_hunks_and_who_landed_first(tree: Path) -> None:
    one = changed(tree, write("docs/page.md", PAGE.replace("three", "a")), name="the first")
    other = changed(tree, write("docs/page.md", PAGE.replace("three", "b")), name="the second")
    assert other.check() is None
    landed(one)
    assert other.check() is not None
    report = conflicted(other)
    (conflict,) = json.loads(json.dumps(report.data()))["conflicts"]
    assert conflict["path"] == "docs/page.md"
    assert conflict["kind"] == "content"
    assert len({conflict[side] for side in ("ancestor", "ours", "theirs")}) == 3
    assert conflict["hunks"] == [{"ancestor": [5, 6], "ours": [5, 6], "theirs": [5, 6]}]
    assert conflict["landed_first"]["name"] == "the first"
    assert "\ndocs/page.md, line 5: ours / theirs\n" in report.text()
    assert not any(conflict[side] in report.text() for side in ("ancestor", "ours", "theirs"))
    assert "landed first: changeset" in report.text()
    marked = report.conflicts[0].marked
    assert marked is not None
    assert b"<<<<<<< ours\nb\n||||||| ancestor\nthree\n=======\na\n>>>>>>> theirs\n" in marked


def test_a_changeset_in_conflict_is_still_active_and_can_be_rewound(tree: Path) -> None:
    one = changed(tree, write("pkg/one.py", "a\n"))
    other = changed(tree, write("pkg/one.py", "b\n"))
    landed(one)
    assert isinstance(other.land(), Conflicted)
    assert other.life is Life.ACTIVE
    other.rewind(0)
    with other.begin("again") as files:
        assert files.read_text("pkg/one.py") == "a\n"
        files.write_text("pkg/one.py", "a\nb\n")
    landed(other)
    assert (tree / "pkg/one.py").read_text() == "a\nb\n"


# People edit too, and know nothing of us


def test_an_edit_before_the_step_is_part_of_it(tree: Path) -> None:
    (tree / "pkg/one.py").write_text("edited\n")
    changeset = changed(tree, lambda files: files.write_text("pkg/one.py", files.read_text("pkg/one.py") + "more\n"))
    assert changeset.steps()[0].moved == ()
    landed(changeset)
    assert (tree / "pkg/one.py").read_text() == "edited\nmore\n"


def test_an_edit_during_the_step_makes_the_ancestor_unknown_and_is_never_overwritten(tree: Path) -> None:
    changeset = opened(tree)
    files = changeset.begin("slow")
    text = files.read_text("docs/page.md")
    (tree / "docs/page.md").write_text(PAGE.replace("one", "EDITED"))
    files.write_text("docs/page.md", text.replace("five", "FIVE"))
    assert files.seal().moved == ("docs/page.md",)
    report = conflicted(changeset)
    assert [str(each.clash) for each in report.conflicts] == ["no-ancestor"]
    assert report.conflicts[0].data()["ancestor"] == "unknown"
    assert (tree / "docs/page.md").read_text() == PAGE.replace("one", "EDITED")


def test_an_edit_after_the_step_is_merged(tree: Path) -> None:
    changeset = changed(tree, write("docs/page.md", PAGE.replace("five", "FIVE")))
    (tree / "docs/page.md").write_text(PAGE.replace("one", "EDITED"))
    landed(changeset)
    assert (tree / "docs/page.md").read_text() == PAGE.replace("one", "EDITED").replace("five", "FIVE")


def test_a_landing_during_the_step_gives_its_pre_image_as_the_ancestor(tree: Path) -> None:
    slow = opened(tree)
    files = slow.begin("slow")
    text = files.read_text("docs/page.md")
    landed(changed(tree, write("docs/page.md", PAGE.replace("one", "ONE"))))
    files.write_text("docs/page.md", text.replace("five", "FIVE"))
    assert files.seal().moved == ()
    landed(slow)
    assert (tree / "docs/page.md").read_text() == PAGE.replace("one", "ONE").replace("five", "FIVE")


def test_a_pre_image_from_during_the_step_proves_nothing(tree: Path) -> None:
    """Someone edits, then somebody lands over it, all while the step runs: what the step started from is gone."""
    slow = opened(tree)
    files = slow.begin("slow")
    text = files.read_text("docs/page.md")
    (tree / "docs/page.md").write_text(PAGE + "a line of theirs\n")
    quick = opened(tree)
    with quick.begin("quick") as others:
        others.write_text("docs/page.md", others.read_text("docs/page.md").replace("one", "ONE"))
    landed(quick)
    files.write_text("docs/page.md", text.replace("five", "FIVE"))
    assert files.seal().moved == ("docs/page.md",)
    conflicted(slow)
    assert "a line of theirs" in (tree / "docs/page.md").read_text()


def test_a_file_deleted_by_someone_during_the_step_is_not_quietly_brought_back(tree: Path, opener: Opener) -> None:
    changeset = opener("copy", tree)
    files = changeset.begin("slow")
    files.write_text("pkg/one.py", "mine\n")
    (tree / "pkg/one.py").unlink()
    assert files.seal().moved == ("pkg/one.py",)
    assert isinstance(changeset.land(), Conflicted)


def test_a_folder_put_in_anothers_place_during_the_step_is_seen(tree: Path) -> None:
    plant(tree / "prepared", {"deep.py": "theirs\n", "other.py": "theirs\n"})
    changeset = opened(tree)
    files = changeset.begin("slow")
    os.rename(tree / "pkg/sub", tree / "pkg/old")
    os.rename(tree / "prepared", tree / "pkg/sub")
    files.write_text("pkg/sub/deep.py", "mine\n")
    assert files.seal().moved == ("pkg/sub/deep.py",)
    conflicted(changeset)
    assert (tree / "pkg/sub/deep.py").read_text() == "theirs\n"


def test_a_clock_that_went_back_proves_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from amends.changeset.layers import seal

    changeset = opened(tree)
    files = changeset.begin("slow")
    files.write_text("pkg/one.py", "mine\n")

    def first_moment(folder: bytes) -> int:
        return 1

    monkeypatch.setattr(seal, "moment", first_moment)
    assert files.seal().moved == ("pkg/one.py",)
    changeset.close()


def test_a_parent_replaced_by_a_link_between_seal_and_landing_leads_nowhere(tree: Path, tmp_path: Path) -> None:
    outside = plant(tmp_path / "outside", {"one.py": "outside\n"})
    changeset = changed(tree, both(write("pkg/one.py", "mine\n"), write("pkg/new.py", "mine\n")))
    os.rename(tree / "pkg", tree / "moved")
    os.symlink(outside, tree / "pkg")
    conflicted(changeset)
    assert seen(outside) == seen(plant(tmp_path / "same", {"one.py": "outside\n"}))


# Isolation


def test_strict_isolation_refuses_what_others_landed_anywhere(tree: Path) -> None:
    strict = Changeset.open(tree, terms=Terms(provider="api", isolation=Isolation.STRICT))
    with strict.begin("work") as files:
        files.write_text("pkg/one.py", "a\n")
    landed(changed(tree, write("pkg/two.py", "b\n"), name="other"))
    report = conflicted(strict)
    assert [str(each.clash) for each in report.conflicts] == ["isolation"]
    assert report.conflicts[0].path == b"pkg/two.py"


def test_strict_isolation_lets_pass_what_was_not_read(tree: Path) -> None:
    terms = Terms(provider="api", isolation=Isolation.STRICT, reads=("pkg/**",))
    strict = Changeset.open(tree, terms=terms)
    with strict.begin("work") as files:
        files.write_text("pkg/one.py", "a\n")
    landed(changed(tree, write("docs/page.md", "b\n")))
    landed(strict)


# Verify


def test_verify_runs_over_the_tree_of_now_with_the_merge(tree: Path, opener: Opener) -> None:
    changeset = opener("overlay", tree)
    with changeset.begin("work") as files:
        files.write_text("docs/page.md", PAGE.replace("five", "FIVE"))
    landed(changed(tree, both(write("docs/page.md", PAGE.replace("one", "ONE")), write("other.py", "x\n"))))
    ended = changeset.land(
        verify=["sh", "-c", "grep -q ONE docs/page.md && grep -q FIVE docs/page.md && test -f other.py"]
    )
    assert isinstance(ended, Landed)


@pytest.mark.parametrize("provider", ["overlay", "copy"])
def test_a_verify_that_fails_lands_nothing_and_its_writes_are_gone(provider: str, tree: Path, opener: Opener) -> None:
    before = seen(tree)
    changeset = opener(provider, tree)
    with changeset.begin("work") as files:
        files.write_text("pkg/one.py", "broken(\n")
    ended = changeset.land(verify=["sh", "-c", "echo written > pkg/by_verify; echo no >&2; exit 3"])
    assert isinstance(ended, Unverified)
    assert (ended.ran.returncode, ended.ran.stderr) == (3, "no\n")
    assert seen(tree) == before
    assert changeset.life is Life.ACTIVE
    assert isinstance(changeset.land(verify=["true"]), Landed)


def test_semantic_conflicts_are_caught_by_verify(tree: Path, opener: Opener) -> None:
    """One renames a function, the other adds a caller of it: no path in common, and yet."""
    renames = changed(tree, write("pkg/one.py", "def uno():\n    return 1\n"))
    calls = opener("overlay", tree)
    with calls.begin("call it") as files:
        files.write_text("main.py", "from pkg.one import one\nassert one() == 1\n")
        assert files.run(["python3", "main.py"]).ok
    landed(renames)
    assert isinstance(calls.land(verify=["python3", "main.py"]), Unverified)
    assert not (tree / "main.py").exists()


# The line


def test_landings_stand_in_a_visible_line_and_go_in_order(tree: Path) -> None:
    first = changed(tree, write("pkg/one.py", "a\n"), name="first")
    second = changed(tree, write("pkg/two.py", "b\n"), name="second")
    third = changed(tree, write("pkg/three.py", "c\n"), name="third")
    order: list[str] = []
    hold, at_work = threading.Event(), threading.Event()

    class Slow(Disk):
        def exchange(self, one: DiskName, other: DiskName) -> None:
            at_work.set()
            assert hold.wait(20)
            super().exchange(one, other)

    first._shelf.disk = Slow()

    def land(changeset: Changeset) -> None:
        assert isinstance(changeset.land(), Landed)
        order.append(changeset.name)

    threads = [threading.Thread(target=land, args=[first])]
    threads[0].start()
    assert at_work.wait(20)
    with pytest.raises(ChangesetBusyError, match="first"):
        third.land(wait_s=0)
    threads.append(threading.Thread(target=land, args=[second]))
    threads[1].start()
    while [ticket.name for ticket in queue(tree)] != ["first", "second"]:
        threading.Event().wait(0.01)
    threads.append(threading.Thread(target=land, args=[third]))
    threads[2].start()
    while len(queue(tree)) < 3:
        threading.Event().wait(0.01)
    assert [ticket.data()["name"] for ticket in queue(tree)] == ["first", "second", "third"]
    hold.set()
    for thread in threads:
        thread.join(20)
    assert order == ["first", "second", "third"]
    assert queue(tree) == ()
    for each in (first, second, third):
        each.close()


# Troubles


def test_a_landing_of_nothing_is_a_landing(tree: Path) -> None:
    changeset = changed(tree, both())
    assert landed(changeset).applied == ()


def test_what_has_landed_cannot_land_again_nor_be_rewound(tree: Path) -> None:
    changeset = changed(tree, write("pkg/one.py", "a\n"))
    assert isinstance(changeset.land(), Landed)
    with pytest.raises(ChangesetLifeError):
        changeset.land()
    with pytest.raises(ChangesetLifeError):
        changeset.rewind(0)
    with pytest.raises(ChangesetLifeError):
        changeset.begin("more")
    changeset.close()


def test_a_tree_that_was_replaced_by_another_is_refused(tree: Path) -> None:
    changeset = changed(tree, write("pkg/one.py", "a\n"))
    os.rename(tree, tree.with_name("moved"))
    with pytest.raises(RootError, match="moved"):
        changeset.land()
    plant(tree, PACKAGE)
    with pytest.raises(RootError, match="another folder"):
        changeset.land()
    changeset.close()


def test_a_tree_moved_together_with_its_home_still_lands(tmp_path: Path) -> None:
    tree = plant(tmp_path / "above" / "tree", PACKAGE)
    changed(tree, write("pkg/one.py", "a\n"), id="moving").close()
    os.rename(tmp_path / "above", tmp_path / "elsewhere")
    landed(opened(tmp_path / "elsewhere" / "tree", id="moving"))
    assert (tmp_path / "elsewhere" / "tree" / "pkg/one.py").read_text() == "a\n"


def test_a_tree_that_is_not_there_or_no_folder_is_refused(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(RootError, match="no folder"):
        Changeset.open(tmp_path / "nowhere")
    with pytest.raises(RootError, match="cannot be opened as a folder"):
        Changeset.open(tree / "run.sh")
    with pytest.raises(RootError, match="needs a tree"):
        Changeset.open()
    with pytest.raises(RootError, match="lies inside"):
        Changeset.open(tree, tree / "pkg")


def test_an_immutable_or_failing_file_in_the_middle_takes_everything_back(tree: Path) -> None:
    changeset = changed(tree, both(write("pkg/one.py", "a\n"), write("pkg/two.py", "b\n"), remove("docs")))
    before = seen(tree)
    calls: list[int] = []

    class Forbidding(Disk):
        def exchange(self, one: DiskName, other: DiskName) -> None:
            calls.append(1)
            if len(calls) == 2:
                raise PermissionError(1, "Operation not permitted", "pkg/two.py")
            super().exchange(one, other)

    changeset._shelf.disk = Forbidding()
    with pytest.raises(RootError, match=r"not permitted.*as it was"):
        changeset.land()
    assert seen(tree) == before
    changeset._shelf.disk = Disk()
    landed(changeset)
