"""A saga's changeset and a person: it is landed through the saga or not at all, and never stands after a rollback."""

import re
from pathlib import Path

import pytest

from amends.changeset import Changeset, Life, show
from amends.errors import ChangesetLifeError
from tests.cli.shell import Shell

LANDS = """
version: v1
saga: f
files: {root: tree, land: put}
steps:
  - {id: w, shell: "echo 1 > n", files: true}
"""
ASKS = """
version: v1
default: allow
rules:
  - {id: ask, when: {topic: amends.changeset.land, phase: forward}, decision: require_human}
"""
DENIES = ASKS.replace("require_human", "deny")
PYTHON = """
from amends import Work, action, saga
from amends.changeset import Files


@action("p.write")
def write(files: Files) -> None:
    files.write_text("n", "1\\n")


@saga("p")
async def p(s: Work) -> None:
    await s.do(write, s.files("tree"))
"""
BY = ("--by", "person:kim")


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "tree").mkdir()
    (tmp_path / "lands.yaml").write_text(LANDS)
    (tmp_path / "leaves.yaml").write_text(LANDS.replace(", land: put", ""))
    (tmp_path / "asks.yaml").write_text(ASKS)
    (tmp_path / "denies.yaml").write_text(DENIES)
    (tmp_path / "mod.py").write_text(PYTHON)
    return shell


def changeset_of(amends: Shell) -> str:
    (row,) = amends.here("changeset", "list", "--root", "tree", "--json").records
    assert row["saga"] == "k"
    return str(row["id"])


def land(amends: Shell, changeset: str, *more: str) -> tuple[int, str]:
    said = amends("changeset", "land", changeset, "--root", "tree", *more)
    return said.code, said.out + said.err


def has_landed(amends: Shell) -> bool:
    return (amends.place / "tree" / "n").exists()


def status(amends: Shell, saga: str) -> str:
    return str(amends.here("saga", "show", saga, "--json").records[0]["status"])


# -- its saga is not over ---------------------------------------------------------------------------------------------


def test_a_landing_that_waits_for_approval_is_not_landed_behind_its_saga(amends: Shell) -> None:
    assert amends("run", "lands.yaml", "--id", "k", "--policy", "asks.yaml").code == 6
    code, said = land(amends, changeset_of(amends))
    assert code == 2
    assert "amends approval show k/3" in said
    assert not has_landed(amends)
    assert amends("approval", "refuse", "k/3", *BY, "--why", "no").code == 0
    assert "saga k rolled back" in amends("resume").out
    assert not has_landed(amends)


def test_nothing_else_is_done_to_it_behind_its_saga_either(amends: Shell) -> None:
    amends("run", "lands.yaml", "--id", "k", "--policy", "asks.yaml")
    changeset = changeset_of(amends)
    at = ("--root", "tree")
    assert "amends saga cancel k" in amends("changeset", "drop", changeset, *at).complaint
    assert "amends saga rollback k" in amends("changeset", "drop", changeset, "--step", "1", *at).complaint
    assert "amends saga rollback k" in amends("changeset", "rewind", changeset, "--to", "0", *at).complaint
    with Changeset.open(amends.place / "tree", id=changeset) as opened:
        assert "+1" in opened.diff()
        for change in (opened.land, opened.drop, opened.begin, lambda: opened.rewind(0), lambda: opened.drop_step(1)):
            with pytest.raises(ChangesetLifeError, match="belongs to saga k"):
                change()
    assert amends("approval", "grant", "k/3", "--yes", *BY).code == 0
    assert "saga k completed" in amends("resume").out
    assert has_landed(amends)


# -- its saga has completed, and left it in review --------------------------------------------------------------------

LEFT = {"yaml": ("leaves.yaml", ()), "python": ("mod:p", ("--module", "mod"))}
left = pytest.mark.parametrize(("target", "modules"), LEFT.values(), ids=LEFT)


@left
def test_it_is_landed_on_record_and_goes_back_with_its_saga(
    amends: Shell, target: str, modules: tuple[str, ...]
) -> None:
    assert amends("run", target, "--id", "k").code == 0
    changeset = changeset_of(amends)
    code, said = land(amends, changeset, *BY)
    assert (code, said.splitlines()[0]) == (0, "landed: 1 paths")
    assert f"amends saga cancel land-{changeset}" in said
    assert has_landed(amends)
    timeline = amends.here("saga", "show", f"land-{changeset}").out
    assert re.search(r"amends.changeset.land/1 started by person:kim", timeline)
    assert amends("saga", "cancel", "k", *modules).code == 0
    assert not has_landed(amends)
    assert (status(amends, "k"), status(amends, f"land-{changeset}")) == ("rolled_back", "rolled_back")
    assert show(amends.place / "tree", changeset).life is Life.DROPPED


@left
def test_its_landing_is_cancelled_alone_and_can_be_made_again(
    amends: Shell, target: str, modules: tuple[str, ...]
) -> None:
    amends("run", target, "--id", "k")
    changeset = changeset_of(amends)
    land(amends, changeset)
    assert amends("saga", "cancel", f"land-{changeset}").code == 0
    assert not has_landed(amends)
    assert show(amends.place / "tree", changeset).life is Life.REVIEW
    assert land(amends, changeset)[0] == 0
    assert has_landed(amends)
    assert amends("saga", "cancel", "k", *modules).code == 0
    assert not has_landed(amends)


def test_it_is_judged_and_waits_for_people(amends: Shell) -> None:
    amends("run", "leaves.yaml", "--id", "k", "--policy", "asks.yaml", "--env", "staging")
    changeset = changeset_of(amends)
    code, said = land(amends, changeset, *BY)
    assert (code, has_landed(amends)) == (6, False)
    (asked,) = re.findall(r"amends approval grant (\S+)", said)
    assert land(amends, changeset, *BY)[0] == 6  # the same landing, and not another
    assert len(amends.here("approval", "list", "--json").records) == 1
    refused = amends("approval", "grant", asked, "--yes", *BY)
    assert "another person decides" in refused.complaint  # nobody approves their own wish
    assert amends("approval", "grant", asked, "--yes", "--by", "person:lee").code == 0
    assert f"saga land-{changeset} completed" in amends("resume").out
    assert has_landed(amends)


def test_it_waits_for_people_and_its_saga_is_taken_back_meanwhile(amends: Shell) -> None:
    amends("run", "leaves.yaml", "--id", "k", "--policy", "asks.yaml")
    changeset = changeset_of(amends)
    land(amends, changeset, *BY)
    assert amends("saga", "cancel", "k").code == 0
    assert (status(amends, "k"), status(amends, f"land-{changeset}")) == ("rolled_back", "rolled_back")
    assert not amends.here("approval", "list", "--json").out
    code, said = land(amends, changeset)
    assert (code, has_landed(amends)) == (2, False)
    assert "its files went with it" in said


def test_a_policy_can_deny_it(amends: Shell) -> None:
    amends("run", "leaves.yaml", "--id", "k", "--policy", "denies.yaml")
    assert land(amends, changeset_of(amends))[0] == 5
    assert not has_landed(amends)


def test_a_conflict_lands_nothing_and_can_be_tried_again(amends: Shell) -> None:
    amends("run", "leaves.yaml", "--id", "k")
    changeset = changeset_of(amends)
    (amends.place / "tree" / "n").write_text("mine\n")
    code, said = land(amends, changeset)
    assert (code, "conflict" in said) == (4, True)
    assert land(amends, changeset, "--verify", "false")[0] == 4
    (amends.place / "tree" / "n").unlink()
    assert land(amends, changeset, "--verify", "false")[0] == 4
    assert not has_landed(amends)
    assert land(amends, changeset, "--verify", "true")[0] == 0
    assert has_landed(amends)


def test_what_others_changed_since_keeps_its_saga_from_being_rolled_back(amends: Shell) -> None:
    amends("run", "leaves.yaml", "--id", "k")
    changeset = changeset_of(amends)
    land(amends, changeset)
    (amends.place / "tree" / "n").write_text("mine\n")
    assert amends("saga", "cancel", "k").code == 4
    assert (status(amends, "k"), status(amends, f"land-{changeset}")) == ("incident", "incident")
    assert (amends.place / "tree" / "n").read_text() == "mine\n"


# -- its journal is not at hand ---------------------------------------------------------------------------------------


def test_without_its_journal_it_is_refused_unless_that_is_gone_for_good(amends: Shell) -> None:
    amends("run", "leaves.yaml", "--id", "k")
    changeset = changeset_of(amends)
    code, said = land(amends, changeset, "--journal", "other.db")
    assert (code, "--journal" in said, has_landed(amends)) == (2, True, False)
    assert not (amends.place / "other.db").exists()
    assert "--orphan" in amends("changeset", "drop", changeset, "--root", "tree", "--journal", "other.db").complaint
    assert land(amends, changeset, "--journal", "other.db", "--orphan")[0] == 0
    assert has_landed(amends)
    assert amends("saga", "cancel", "k").code == 4  # it was not gone: its saga finds out
    assert status(amends, "k") == "incident"
    assert "changed_since" in amends.here("incident", "list", "--json").out


def test_the_word_orphan_does_not_help_where_its_journal_has_it(amends: Shell) -> None:
    amends("run", "lands.yaml", "--id", "k", "--policy", "asks.yaml")
    assert land(amends, changeset_of(amends), "--orphan")[0] == 2
    assert not has_landed(amends)


def test_a_changeset_that_is_no_sagas_is_landed_and_dropped_as_ever(amends: Shell) -> None:
    for name in ("one", "two"):
        with Changeset.open(amends.place / "tree", id=name) as changeset, changeset.begin() as files:
            files.write_text(name, name)
    assert land(amends, "one") == (0, "landed: 1 paths\n")
    assert amends("changeset", "drop", "two", "--root", "tree").code == 0
    assert not (amends.place / "amends.db").exists()
