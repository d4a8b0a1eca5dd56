"""A landing that met somebody's edit, from outside: shown with both sides, resolved, landed, and taken back whole."""

from pathlib import Path

import pytest

from amends.changeset import Changeset
from tests.cli.shell import Said, Shell

LEAVES = """
version: v1
saga: f
files: {root: tree}
steps:
  - {id: w, shell: "for n in a b; do echo ours > $n; done", files: true}
"""
LANDS = """
version: v1
saga: f
files: {root: tree, land: put, on_conflict: ask}
steps:
  - {id: w, shell: "echo ours > a", files: true}
  - {id: x, shell: "echo theirs > %s/a", read_only: true}
"""
PYTHON = """
from amends import Work, action, saga
from amends.changeset import Files


@action("p.write")
def write(files: Files, name: str) -> None:
    files.write_text(name, "ours\\n")


@action("p.mend")
def mend(files: Files) -> None:
    for each in files.mark_conflicts():
        assert ">>>>>>> theirs" in files.read_text(each.path)
        files.write_text(each.path, "both\\n")
        files.resolve(each.path, "merged")


@saga("p")
async def p(s: Work) -> dict:
    files = s.files("tree")
    await s.do(write, files, "a")
    open("tree/a", "w").write("theirs\\n")
    if not (await s.land(files, on_conflict="return"))["landed"]:
        await s.do(mend, files)
    return await s.land(files)
"""
BY = ("--by", "person:kim")
AT = ("--root", "tree")


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "tree").mkdir()
    start(tmp_path, "start\n")
    (tmp_path / "leaves.yaml").write_text(LEAVES)
    (tmp_path / "lands.yaml").write_text(LANDS % (tmp_path / "tree"))
    (tmp_path / "mod.py").write_text(PYTHON)
    return Shell(tmp_path)


def start(place: Path, text: str) -> None:
    for name in ("a", "b"):
        (place / "tree" / name).write_text(text)


def texts(amends: Shell) -> list[str]:
    return [(amends.place / "tree" / name).read_text().strip() for name in ("a", "b")]


def resolve(amends: Shell, path: str, *how: str) -> Said:
    return amends("changeset", "resolve", path, *how, *AT, *BY)


def drafts(said: str) -> list[Path]:
    return [Path(line.strip().removeprefix("edit ")) for line in said.splitlines() if line.strip().startswith("edit ")]


def test_a_persons_own_changeset(amends: Shell) -> None:
    with Changeset.open(amends.place / "tree", id="mine") as mine, mine.begin("work") as files:
        files.write_text("a", "ours\n")
        files.write_text("b", "ours\n")
    start(amends.place, "theirs\n")
    said = amends("changeset", "land", "mine", *AT)
    assert said.code == 4
    assert "amends changeset resolve a --ours | --theirs | --merged" in said.out
    assert "mine is in conflict with the tree" in amends("changeset", "list", *AT).out
    first, _ = drafts(said.out)
    assert "<<<<<<< ours" in first.read_text()
    assert "a has marks of the conflict in lines 1, 3, 7" in resolve(amends, "a", "--merged").complaint
    assert "aa is not in conflict; did you mean a?" in resolve(amends, "aa", "--ours").complaint
    assert "--ours, --theirs or --merged" in resolve(amends, "a").err
    first.write_text("both\n")
    assert "left in conflict: b" in resolve(amends, "a", "--merged").out
    assert "conflict    b: content" in amends("changeset", "show", "mine", *AT).out
    assert "amends changeset land mine" in resolve(amends, "b", "--theirs").out
    assert amends("changeset", "land", "mine", *AT).code == 0
    assert texts(amends) == ["both", "theirs"]


def test_a_path_in_conflict_in_several_changesets_is_asked_about(amends: Shell) -> None:
    for name in ("one", "two"):
        with Changeset.open(amends.place / "tree", id=name) as each, each.begin() as files:
            files.write_text("a", f"{name}\n")
    start(amends.place, "theirs\n")
    assert "one, two" in resolve(amends, "a", "--ours").complaint
    assert resolve(amends, "a", "--ours", "--changeset", "two").code == 0
    assert resolve(amends, "a", "--theirs").code == 0  # the other one is left


def test_what_a_saga_has_left_is_resolved_on_record_and_goes_back_with_it(amends: Shell) -> None:
    assert amends("run", "leaves.yaml", "--id", "k").code == 0
    start(amends.place, "theirs\n")
    (row,) = amends.here("changeset", "list", "--json", *AT).records
    changeset = str(row["id"])
    assert row["conflicts"] == 2
    assert amends("changeset", "land", changeset, *AT, *BY).code == 4
    assert resolve(amends, "a", "--ours").code == 0
    assert resolve(amends, "b", "--theirs").code == 0
    shown = amends("saga", "show", f"resolve-{changeset}").out
    assert "person:kim" in shown
    assert "succeeded: a: ours, 1 conflict left" in shown
    assert amends("changeset", "land", changeset, *AT, *BY).code == 0
    assert texts(amends) == ["ours", "theirs"]
    assert amends("saga", "cancel", "k", *BY).code == 0
    assert texts(amends) == ["theirs", "theirs"]


def test_a_yaml_saga_asks_and_lands_once_somebody_has_decided(amends: Shell) -> None:
    assert amends("run", "lands.yaml", "--id", "k").code == 6
    assert texts(amends)[0] == "theirs"
    said = resolve(amends, "a", "--ours")
    assert (said.code, "told saga k: a, ours" in said.out) == (0, True), said
    assert "saga k completed" in amends("resume").out
    assert texts(amends)[0] == "ours"
    assert amends("saga", "cancel", "k", *BY).code == 0
    assert texts(amends)[0] == "theirs"


def test_a_saga_in_python_resolves_in_a_step(amends: Shell) -> None:
    assert amends("run", "mod:p", "--id", "k").code == 0
    assert texts(amends)[0] == "both"
    assert amends("saga", "cancel", "k", "--module", "mod", *BY).code == 0
    assert texts(amends)[0] == "theirs"
