"""A saga and all that it called are pruned as one: none of them as long as one has to stay."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

FAMILY = """
from amends import Work, action, saga

@action("desk.note")
def note(text: str) -> str:
    return text

@note.compensation
def unnote(done) -> None: ...

@saga("desk.child")
async def child(s: Work, n: int) -> str:
    return await s.do(note, str(n))

@saga("desk.parent")
async def parent(s: Work) -> list[str]:
    return [await s.call(child, n) for n in (1, 2)]

@saga("desk.alone")
async def alone(s: Work) -> str:
    return await s.do(note, "x")
"""


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "desk.py").write_text(FAMILY, encoding="utf-8")
    amends = Shell(tmp_path)
    assert amends.here("run", "desk:alone", "--id", "a").code == 0
    assert amends.here("run", "desk:parent", "--id", "p").code == 0
    return amends


def pruned(amends: Shell) -> set[str]:
    return {row["id"] for row in amends.here("saga", "list", "--json").of_type("saga") if row["pruned"]}


def children(amends: Shell) -> list[str]:
    return sorted(row["id"] for row in amends.here("saga", "list", "--parent", "p", "--json").of_type("saga"))


def test_all_of_it_goes_at_once_and_the_command_says_so(amends: Shell) -> None:
    first, second = children(amends)
    said = amends.here("prune", "--older-than", "0s", "--limit", "3", "--yes")
    assert said.out.startswith("pruned 1 saga, ")
    assert said.out.endswith("; left for the next time: 3\n")
    assert pruned(amends) == {"a"}
    said = amends.here("prune", "--older-than", "0s", "--limit", "1", "--yes")
    assert said.out.startswith("pruned 3 sagas, 1 family among them, ")
    assert pruned(amends) == {"a", "p", first, second}
    assert amends.here("evidence", "verify").code == 0


def test_a_child_that_is_held_keeps_its_whole_family(amends: Shell) -> None:
    first, second = children(amends)
    assert amends.here("saga", "retain", second, "--why", "a lawyer asks").code == 0
    assert "sagas that would be pruned: 1\n" in amends.here("prune", "--older-than", "0s", "--dry-run").out
    assert amends.here("prune", "--older-than", "0s", "--yes").out.startswith("pruned 1 saga, ")
    assert pruned(amends) == {"a"}
    assert amends.here("saga", "retain", second, "--lift", "--why", "it is over").code == 0
    assert amends.here("prune", "--older-than", "0s", "--yes").out.startswith("pruned 3 sagas, 1 family among them, ")
    assert pruned(amends) == {"a", "p", first, second}


def test_lists_show_whose_child_it_is_and_no_labels_of_amends_own(amends: Shell) -> None:
    first, _ = children(amends)
    listed = amends.here("saga", "list").out
    assert "child of p" in listed
    assert "amends.depth" not in listed
    shown = amends.here("saga", "show", first).out
    assert "child of    p\n" in shown
    assert "amends." not in shown
