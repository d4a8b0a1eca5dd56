"""Pruning from outside: a saga's words are gone from the journal, and from beside the tree that it worked on."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

SECRET = "the secret word"
LANDS = f"""
version: v1
saga: f
files: {{root: tree, land: put}}
steps:
  - {{id: w, shell: "echo new, {SECRET} > note", files: true}}
"""
BY = ("--by", "person:kim")


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "note").write_text(f"old, {SECRET}\n")
    (tmp_path / "lands.yaml").write_text(LANDS)
    (tmp_path / "leaves.yaml").write_text(LANDS.replace(", land: put", ""))
    return Shell(tmp_path)


def holders(amends: Shell) -> list[Path]:
    """The files that hold the word, but for the tree and the saga's own."""
    found = [*(amends.place / ".tree.changesets").rglob("*"), *amends.place.glob("amends.db*")]
    return [each for each in found if each.is_file() and SECRET.encode() in each.read_bytes()]


def test_what_a_saga_landed_and_replaced_goes_with_it(amends: Shell) -> None:
    assert amends("run", "lands.yaml", "--id", "k").code == 0
    assert holders(amends)
    assert amends("prune", "--older-than", "0s", "--yes").out.startswith("pruned 1 saga,")
    assert holders(amends) == []
    assert (amends.place / "tree" / "note").read_text() == f"new, {SECRET}\n"
    assert amends("changeset", "list", "--all", "--root", "tree", "--json").records[0]["life"] == "pruned"


def test_work_in_review_keeps_its_saga_until_somebody_has_decided(amends: Shell) -> None:
    assert amends("run", "leaves.yaml", "--id", "k").code == 0
    assert "would be pruned: 0" in amends("prune", "--older-than", "0s", "--dry-run").out
    assert amends("prune", "--older-than", "0s", "--yes").out.startswith("pruned 0 sagas")
    assert amends("saga", "cancel", "k", *BY).code == 0
    assert amends("prune", "--older-than", "0s", "--yes").out.startswith("pruned 1 saga,")
    assert holders(amends) == []
