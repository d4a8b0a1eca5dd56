"""`amends changeset`: what a person can see of file work, and decide about it."""

import os
import sys
from pathlib import Path

import pytest

from amends.changeset import Changeset, Terms
from amends.changeset.store.home import Home
from amends.changeset.store.queue import turn
from amends.clock import SystemClock
from tests.cli.shell import Shell


def given(place: Path, *, id: str = "work", text: str = "changed\n") -> None:
    (place / "tree").mkdir(exist_ok=True)
    if not (place / "tree/file").exists():
        (place / "tree/file").write_text("as it was\n")
    with Changeset.open(place / "tree", id=id, name="the work", terms=Terms(provider="api")) as changeset:
        with changeset.begin("edit") as files:
            files.write_text("file", text)
        with changeset.begin("add") as files:
            files.write_text("new", "new\n", mode=0o644)


def test_open_changesets_are_listed_and_shown(amends: Shell) -> None:
    given(amends.place)
    head, row = amends.here("changeset", "list", "--root", "tree").out.splitlines()
    assert head.split() == ["ID", "LIFE", "STEPS", "FILES", "OPENED", "NAME"]
    assert row.split()[:4] == ["work", "active", "2", "2"]
    shown = amends.here("changeset", "show", "work", "--root", "tree").out
    assert "step 1      edit  1 file  +1 -1\n" in shown
    assert "step 2      add  1 file  +1 -0\n" in shown
    (record,) = amends.here("changeset", "show", "work", "--root", "tree", "--json").records
    assert (record["type"], record["life"], record["files"]) == ("changeset", "active", 2)


def test_a_diff_is_what_git_would_print(amends: Shell) -> None:
    given(amends.place)
    assert amends.here("changeset", "diff", "work", "--step", "2", "--root", "tree").out.splitlines() == [
        "diff --git a/new b/new",
        "new file mode 100644",
        "--- /dev/null",
        "+++ b/new",
        "@@ -0,0 +1 @@",
        "+new",
    ]
    whole = amends.here("changeset", "diff", "work", "--root", "tree").out
    assert "-as it was\n+changed\n" in whole


def test_it_lands_and_is_no_longer_open(amends: Shell) -> None:
    given(amends.place)
    assert amends.here("changeset", "land", "work", "--root", "tree").out == "landed: 2 paths\n"
    assert (amends.place / "tree/file").read_text() == "changed\n"
    assert amends.here("changeset", "list", "--root", "tree").out == "no open changesets\n"
    (row,) = amends.here("changeset", "list", "--all", "--root", "tree", "--json").records
    assert row["life"] == "landed"
    assert "landed" in amends.here("changeset", "land", "work", "--root", "tree").complaint


def test_a_conflict_is_told_and_ends_with_4(amends: Shell) -> None:
    given(amends.place)
    (amends.place / "tree/file").write_text("someone else's\n")
    said = amends.here("changeset", "land", "work", "--root", "tree")
    assert said.code == 4
    assert "file: content" in said.out
    said = amends.here("changeset", "land", "work", "--root", "tree", "--json")
    assert said.records[0]["type"] == "conflicted"
    assert (amends.place / "tree/file").read_text() == "someone else's\n"


def test_a_command_can_verify_it_first(amends: Shell) -> None:
    given(amends.place)
    (amends.place / "tree/check.py").write_text(
        "import sys; sys.exit('no' if 'changed' in open('file').read() else 0)\n"
    )
    said = amends.here("changeset", "land", "work", "--root", "tree", "--verify", f"{sys.executable} check.py")
    assert said.code in {2, 4}
    assert (amends.place / "tree/file").read_text() == "as it was\n"


def test_rewind_drop_keep_and_prune(amends: Shell) -> None:
    given(amends.place)
    assert amends.here("changeset", "rewind", "work", "--to", "1", "--root", "tree").out == "dropped step 2  add\n"
    assert amends.here("changeset", "drop", "work", "--root", "tree").out == "dropped: work\n"
    assert amends.here("changeset", "prune", "--root", "tree").out == "nothing to prune\n"
    assert amends.here("changeset", "keep", "work", "--root", "tree").out == "kept: work\n"
    assert amends.here("changeset", "prune", "--older", "0", "--root", "tree").out == "nothing to prune\n"
    given(amends.place, id="other")
    assert amends.here("changeset", "drop", "other", "--root", "tree").code == 0
    assert amends.here("changeset", "prune", "--older", "0", "--root", "tree").out == "pruned: other\n"


def test_one_step_is_dropped_from_under_later_ones_or_it_is_said_why_not(amends: Shell) -> None:
    given(amends.place)
    assert amends.here("changeset", "drop", "work", "--step", "1", "--root", "tree").out == "dropped step 1  edit\n"
    assert "step 1      edit  dropped\n" in amends.here("changeset", "show", "work", "--root", "tree").out
    assert amends.here("changeset", "land", "work", "--root", "tree").out == "landed: 1 paths\n"
    assert (amends.place / "tree/file").read_text() == "as it was\n"
    given(amends.place, id="other")
    with Changeset.open(amends.place / "tree", id="other") as changeset, changeset.begin("more") as files:
        files.write_text("file", "changed\nmore\n")
    said = amends.here("changeset", "drop", "other", "--step", "1", "--root", "tree")
    assert (said.code, "theirs: step 3 (more) worked on it since" in said.out) == (4, True)
    (record,) = amends.here("changeset", "drop", "other", "--step", "1", "--root", "tree", "--json").records
    assert (record["type"], record["step"], record["conflicts"][0]["path"]) == ("conflicted", 1, "file")
    assert "no sealed step 9" in amends.here("changeset", "drop", "other", "--step", "9", "--root", "tree").complaint


def test_a_branch_shows_its_own_work_and_is_landed_by_what_it_is_merged_into(amends: Shell) -> None:
    given(amends.place)
    root = amends.place / "tree"
    with Changeset.open(root, id="work") as work, work.branch(id="aside") as branch, branch.begin("more") as files:
        files.write_text("new", "newer\n")
    shown = amends.here("changeset", "show", "aside", "--root", "tree").out
    assert ("branch of   work\n" in shown, "step 3      more" in shown, "edit" in shown) == (True, True, False)
    assert "-new\n+newer\n" in amends.here("changeset", "diff", "aside", "--root", "tree").out
    said = amends.here("changeset", "land", "aside", "--root", "tree")
    assert "changeset aside is a branch: merge it into work, which lands it" in said.complaint


@pytest.mark.parametrize("state", [None, "state"])
def test_a_changeset_of_two_trees_is_shown_and_landed_whole(amends: Shell, state: str | None) -> None:
    for name in ("one", "two"):
        (amends.place / name).mkdir()
    roots = [amends.place / "one", amends.place / "two"]
    where = None if state is None else amends.place / state
    terms = Terms(provider="api")
    with Changeset.open(*roots, id="both", state=where, terms=terms) as changeset, changeset.begin("edit") as files:
        files.write_text("a", "a\n")
        files.write_text(roots[1] / "b", "b\n")
    place = ["--root", "one", *([] if state is None else ["--state", f"{state}/0"])]
    assert "+++ b/a" in amends.here("changeset", "diff", "both", *place).out
    assert amends.here("changeset", "show", "both", *place).out.count("tree  ") == 2
    assert amends.here("changeset", "land", "both", *place).out == "landed: 2 paths\n"
    assert [(root / name).exists() for root, name in zip(roots, "ab", strict=True)] == [True, True]


def test_the_line_says_who_lands_and_who_waits_and_a_report_who_was_first(amends: Shell) -> None:
    given(amends.place)
    given(amends.place, id="later", text="changed by another\n")
    home = Home.of(os.fsencode(amends.place / "tree"))
    with turn(home, changeset="ahead", name="the one ahead", clock=SystemClock(), wait_s=0):
        assert "ahead  the one ahead" in amends.here("changeset", "queue", "--root", "tree").out
        busy = amends.here("changeset", "land", "work", "--wait", "0", "--root", "tree")
        assert "the one ahead" in busy.complaint
    assert amends.here("changeset", "land", "work", "--root", "tree").code == 0
    said = amends.here("changeset", "land", "later", "--root", "tree")
    assert "  landed first: changeset work (the work)\n" in said.out
    (record,) = amends.here("changeset", "land", "later", "--root", "tree", "--json").records
    (conflict,) = [each for each in record["conflicts"] if each["path"] == "file"]
    assert conflict["landed_first"]["changeset"] == "work"
    assert conflict["hunks"] == [{"ancestor": [1, 2], "ours": [1, 2], "theirs": [1, 2]}]


def test_what_is_unknown_or_no_tree_is_one_line(amends: Shell) -> None:
    (amends.place / "tree").mkdir()
    assert "no changeset" in amends.here("changeset", "show", "nothing", "--root", "tree").complaint
    assert "no folder" in amends.here("changeset", "list", "--root", "nowhere").complaint


def test_the_doctor_and_the_queue_answer(amends: Shell) -> None:
    given(amends.place)
    assert amends.here("changeset", "queue", "--root", "tree").out == "nobody lands\n"
    assert "api      works  always there" in amends.here("changeset", "doctor", "--root", "tree").out
