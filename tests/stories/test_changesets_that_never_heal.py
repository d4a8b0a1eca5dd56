"""A changeset that is spoilt for good, from outside: the saga says so once, with what to do, and waits for nobody."""

import shutil
from pathlib import Path

import pytest

from amends.changeset import Changeset, list_changesets
from tests.cli.shell import Shell

LANDS = """
version: v1
saga: f
files: {root: tree, land: put}
steps:
  - {id: w, shell: "echo 1 > n", files: true}
  - {id: y, shell: "echo 1 > m", files: true}
"""
ASKS = """
version: v1
default: allow
rules:
  - {id: ask, when: {topic: amends.changeset.land, phase: forward}, decision: require_human}
"""
BY = ("--by", "person:kim")


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "tree").mkdir()
    (tmp_path / "lands.yaml").write_text(LANDS)
    (tmp_path / "asks.yaml").write_text(ASKS)
    return shell


def waits_to_land(amends: Shell) -> Path:
    """A saga's landing waits for people. The answer is its tree."""
    assert amends("run", "lands.yaml", "--id", "k", "--policy", "asks.yaml").code == 6
    return amends.place / "tree"


def granted(amends: Shell) -> str:
    assert amends("approval", "grant", "k/4", "--yes", *BY).code == 0
    amends("resume")
    return amends("saga", "show", "k").out


def test_a_tree_that_was_moved_away_is_missed_once_and_taken_back_when_it_is_there_again(amends: Shell) -> None:
    tree = waits_to_land(amends)
    tree.rename(amends.place / "elsewhere")
    said = granted(amends)
    assert said.count("failed for good: there is no folder") == said.count("compensation began") == 1
    assert "bring it back" in said
    (amends.place / "elsewhere").rename(tree)
    assert "rolled back" in amends("incident", "retry", "k/1", *BY).out
    assert not list(tree.iterdir())


def test_a_changeset_that_was_rewound_behind_its_saga_does_not_land_and_is_not_waited_for(amends: Shell) -> None:
    tree = waits_to_land(amends)
    with Changeset.open(tree, id=list_changesets(tree)[0].id, saga="somebody") as opened:
        opened.rewind(1)
    said = granted(amends)
    assert "failed for good" in said
    assert "bring that back from a backup" in said
    assert "rolled back" in said


def test_a_landing_whose_undo_is_gone_is_an_incident_at_once(amends: Shell) -> None:
    assert amends("run", "lands.yaml", "--id", "k").code == 0
    shutil.rmtree(amends.place / ".tree.changesets" / "landed")
    said = amends("saga", "cancel", "k", *BY)
    assert said.code == 4
    shown = amends("saga", "show", "k").out
    assert shown.count("compensation began") == 1
    assert "put back by hand what it changed" in shown
