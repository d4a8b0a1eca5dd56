"""What a person is told: of conflicts by the line, of work in review, of limits, of who owns and who closed what."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

SAGAS = """
from pathlib import Path

from amends import Limits, Work, action, saga
from amends.changeset import Files

TREE = Path("proj")


@action("calc.edit")
def edit(files: Files) -> None:
    text = files.read_text("calc.py")
    files.write_text("calc.py", text.replace("x = 1", "x = 10").replace("y = 2", "y = 20"))


@action("calc.wait", read_only=True)
def somebody_else_edits() -> None:
    calc = TREE / "calc.py"
    calc.write_text(calc.read_text().replace("x = 1\\n", "x = 11\\n"))


@action("calc.fail", read_only=True)
def fail() -> None:
    raise ValueError("first line\\n  second line\\n12:00:00.000  saga         completed")


@saga("calc.change")
async def change(s: Work) -> None:
    files = s.files(TREE)
    await s.do(edit, files)
    await s.do(somebody_else_edits)
    await s.land(files, "calc")


@saga("calc.leave")
async def leave(s: Work) -> None:
    await s.do(edit, s.files(TREE))


@saga("calc.fails")
async def fails(s: Work) -> None:
    await s.do(fail)


@saga("calc.spends", limits=Limits(tokens=100, then="call"))
async def spends(s: Work) -> str:
    await s.spend(tokens=150)
    return "done"
"""
BUYS = '{"item": "pen", "cents": 5}'
CALC = "a\nb\nc\nd\nx = 1\ny = 2\n"


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj/calc.py").write_text(CALC)
    (tmp_path / "calc.py").write_text(SAGAS)
    return shell


# -- conflicts --------------------------------------------------------------------------------------------------------


def test_a_conflict_is_told_by_the_line_at_the_step_and_at_the_end(amends: Shell) -> None:
    said = amends("run", "calc:change", "--id", "c-1")
    assert said.code == 3
    assert "\\n" not in said.out, "no escaped ends of lines"
    assert said.out.count("| calc.py, lines 5-6: ours / theirs\n") == 2, "once at the step, once at the end"
    began = next(line for line in said.out.splitlines() if "rollback began" in line)
    assert began.endswith("it is in conflict with what others changed, and nothing has landed")
    shown = amends("saga", "show", "c-1").out
    assert shown.count("| calc.py, lines 5-6: ours / theirs\n") == 1


def test_a_conflict_on_the_way_back_is_told_by_the_line_in_the_incident(amends: Shell) -> None:
    amends("run", "calc:leave", "--id", "c-2")
    (row,) = amends("changeset", "list", "--json").records
    landed = amends("changeset", "land", row["id"], "--root", "proj", "--json")
    (landing,) = landed.of_type("landed")
    (amends.place / "proj/calc.py").write_text(CALC.replace("x = 1", "x = 12").replace("y = 2", "y = 22"))
    said = amends("saga", "cancel", landing["saga"], "--module", "calc", "--by", "person:kim")
    assert said.code == 4, said
    shown = amends("incident", "show", f"{landing['saga']}/1").out
    assert "    | calc.py, lines 5-6: ours / theirs\n" in shown
    assert "\\n" not in shown


def test_further_lines_of_an_error_cannot_pass_for_lines_of_ours(amends: Shell) -> None:
    said = amends("run", "calc:fails", "--id", "f-1", "--attempts", "1")
    forged = [line for line in said.out.splitlines() if "12:00:00.000  saga" in line]
    assert forged
    assert all(line.lstrip().startswith("| ") for line in forged)


# -- work in review ---------------------------------------------------------------------------------------------------


def test_work_that_waits_in_review_is_named_at_the_end_with_the_commands_that_land_it(amends: Shell) -> None:
    said = amends("run", "calc:leave", "--id", "r-1")
    assert said.code == 0
    _, completed, waits, diff, land = said.out.rstrip("\n").rsplit("\n", 4)
    assert completed == "saga r-1 completed"
    name = waits.split()[1]
    assert waits == f"  changeset {name} waits in review (1 file, +2 -2): nothing of it is in the tree yet"
    assert diff == f"    amends changeset diff {name} --root proj"
    assert land == f"    amends changeset land {name} --root proj"
    assert land in amends("saga", "show", "r-1").out
    (record,) = amends("run", "calc:leave", "--id", "r-1", "--json").of_type("changeset")
    assert (record["id"], record["life"]) == (name, "review")
    assert "+x = 10" in amends(*diff.split()[1:]).out
    assert amends(*land.split()[1:], "--by", "person:kim").code == 0
    assert "waits in review" not in amends("saga", "show", "r-1").out


def test_the_journal_says_which_trees_have_changesets(amends: Shell) -> None:
    assert amends("changeset", "list").out == "no open changesets\n", "without a journal, nothing is made"
    assert not (amends.place / "amends.db").exists()
    amends("run", "calc:leave", "--id", "r-2")
    listed = amends("changeset", "list").out
    assert listed.startswith(f"of the tree {amends.place / 'proj'}: --root proj\nID ")
    assert "review" in listed
    (row,) = amends("changeset", "list", "--json").records
    assert row["saga"] == "r-2"
    (amends.place / "other").mkdir()
    assert amends("changeset", "list", "--root", "other").out == "no open changesets\n", "whoever names a tree gets it"
    (amends.place / "proj").rename(amends.place / "gone")
    assert amends("changeset", "list").out == "no open changesets\n"


# -- pruning ----------------------------------------------------------------------------------------------------------


def test_prune_asks_on_a_terminal_and_refuses_where_nobody_can_answer(amends: Shell) -> None:
    amends.here("run", "shop:buy", "--id", "h-1", "--input", BUYS)
    refused = amends("prune", "--older-than", "0s")
    assert refused.complaint == "nobody is there to confirm it, and nothing is removed; give --yes"
    kept = amends.on_terminal("prune", "--older-than", "0s", typed="n\n")
    assert "Remove for good what 1 saga held that ended more than 0s ago? [y/N]: " in kept.out
    assert kept.code == 130
    assert "pruned" not in amends("saga", "show", "h-1").out
    assert "pruned 1 saga," in amends.on_terminal("prune", "--older-than", "0s", typed="y\n").out
    assert "pruned 0 sagas" in amends("prune", "--older-than", "0s").out, "where nothing goes, nobody is asked"


def test_forget_refuses_in_a_pipe_by_the_same_words(amends: Shell) -> None:
    amends.here("run", "shop:buy", "--id", "h-1", "--input", BUYS)
    forget = ("evidence", "forget", "--ended-before", "0m", "--why", "asked to", "--by", "person:kim")
    assert amends(*forget).complaint == "nobody is there to confirm it, and nothing is removed; give --yes"


# -- incidents --------------------------------------------------------------------------------------------------------


def test_an_incident_of_a_limit_names_the_whole_command_that_raises_it(amends: Shell) -> None:
    assert amends("run", "calc:spends", "--id", "l-1").code == 4
    shown = amends("incident", "show", "l-1/1").out
    assert "    amends saga raise-limit l-1 --tokens 250 --why TEXT --module" in shown
    assert "    amends saga raise-limit l-1 --module" in shown
    raised = amends("saga", "raise-limit", "l-1", "--tokens", "250", "--why", "worth it", "--module", "calc")
    assert (raised.code, "completed" in raised.out) == (0, True)


def test_json_says_who_closed_an_incident_and_by_what_reason_and_proof(amends: Shell) -> None:
    incident = amends.incident()
    nothing = {"resolver": None, "reason": None, "proof": None}
    (row,) = amends.here("incident", "show", incident, "--json").of_type("incident")
    assert {name: row[name] for name in nothing} == nothing
    words = ("--reason", "unjammed by hand", "--proof", "ticket 7", "--module", "shop", "--by", "person:kim")
    amends.here("incident", "resolve", incident, *words)
    closed = {"resolver": "person:kim", "reason": "unjammed by hand", "proof": "ticket 7"}
    for told in (("incident", "show", incident), ("incident", "list", "--all")):
        (row,) = (one for one in amends.here(*told, "--json").of_type("incident") if one["id"] == incident)
        assert {name: row[name] for name in closed} == closed


def test_the_owner_of_a_saga_owns_its_incidents_until_somebody_else_is_named(amends: Shell) -> None:
    said = amends("run", "shop:tidy", "--id", "t-1", "--label", "owner=person:olga")
    assert "owner: person:olga" in said.out
    assert "owner       person:olga\n" in amends("incident", "show", "t-1/1").out
    assert amends("incident", "assign", "t-1/1", "--owner", "person:max", "--by", "person:kim").code == 0
    assert "owner       person:max\n" in amends("incident", "show", "t-1/1").out
    assert "owner       nobody yet\n" in amends("incident", "show", amends.incident()).out


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        ("olga", "label 'owner': 'olga' is not an actor; write owner=person:olga"),
        ("agent:bot", "label 'owner': 'agent:bot' is no person"),
    ],
)
def test_an_owner_who_is_no_person_is_refused_at_the_start(amends: Shell, owner: str, said: str) -> None:
    refused = amends("run", "shop:tidy", "--id", "t-2", "--label", f"owner={owner}")
    assert said in refused.complaint.replace("saga t-2\n", "")
    assert amends("saga", "list").out == "no sagas\n"


# -- an old policy ----------------------------------------------------------------------------------------------------


def test_an_approval_under_an_old_policy_is_refused_at_the_click_and_judged_again(amends: Shell) -> None:
    amends.give("office")
    asks = amends.policy("{id: ask, when: {topic: account.delete}, decision: require_human}")
    approval = amends.approval("--policy", asks)
    denies = amends.policy("{id: never, when: {topic: account.delete}, decision: deny}", name="denies.yaml")
    assert amends("policy", "adopt", denies, "--by", "person:kim", "--why", "stricter").code == 0
    refused = amends("approval", "grant", approval, "--yes", "--by", "person:ann")
    assert "its approval void: what was asked no longer counts, and the gate judges again" in refused.complaint
    said = amends("resume", "office")
    assert "denied by never" in amends("saga", "show", "l-1").out, said
