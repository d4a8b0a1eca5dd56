"""`amends incident`: what needs a person, and what a person can do about it."""

import pytest

from amends.cli.show.incident import _WAYS
from amends.core.events import IncidentKind
from amends.evidence.report import HAPPENED
from tests.cli.shell import Shell

JAMMED = "RuntimeError: the robot is jammed (shop.py:48, in move_back)"


def test_open_incidents_are_listed_with_what_stopped(amends: Shell) -> None:
    incident = amends.incident()
    head, row = amends.here("incident", "list").out.splitlines()
    assert head.split() == ["ID", "STATUS", "OWNER", "SAGA", "OPENED", "KIND", "WHY"]
    assert row.split()[:4] == [incident, "open", "-", "shop.tidy"]
    assert row.endswith(f"compensation failed     {JAMMED}")


def test_json_is_one_object_for_each(amends: Shell) -> None:
    incident = amends.incident()
    (row,) = amends.here("incident", "list", "--json").records
    assert (row["type"], row["id"], row["saga"], row["kind"]) == ("incident", incident, "tidy", "compensation_failed")
    assert row["left"] == ["2", "1"]
    assert amends.here("incident", "show", incident, "--json").records == [row]


def test_no_incident_is_said(amends: Shell) -> None:
    assert amends.here("run", "shop:chat").code == 0
    assert amends.here("incident", "list").out == "no open incidents\n"
    assert amends.here("incident", "list", "--all").out == "no incidents\n"


def test_show_says_what_happened_what_may_stand_what_was_tried_and_what_can_be_done(amends: Shell) -> None:
    incident = amends.incident()
    facts, happened, left, tried, ways = amends.here("incident", "show", incident).out.split("\n\n")
    assert facts.splitlines()[-2:] == ["kind        compensation failed", "owner       nobody yet"]
    assert happened.splitlines() == [
        "what happened",
        "  the compensation failed, and is not tried again by itself",
        f"  {JAMMED}",
    ]
    assert left.splitlines() == [
        "what may stand, newest first",
        "  step 2  robot.move  to=A  uncompensated; it stopped here",
        "  step 1  stock.reserve  item=ladder  succeeded",
    ]
    assert [line[16:] for line in tried.splitlines()[1:]] == [
        "forward   2  robot.move        move to=A (attempt 1)",
        "forward   2  robot.move        succeeded: A",
        "back      2  robot.move        compensation began (attempt 1)",
        f"back      2  robot.move        compensation lost: {JAMMED}",
    ]
    assert [line.strip() for line in ways.splitlines() if line.startswith("    ")] == [
        f"amends incident retry {incident} --module shop",
        f"amends incident resolve {incident} --reason TEXT --proof TEXT --module shop",
        f"amends incident assign {incident} --owner person:NAME",
        "amends saga show tidy",
    ]


def test_every_kind_says_what_happened_and_what_can_be_done() -> None:
    assert set(HAPPENED) == set(_WAYS) == set(IncidentKind)


def test_an_effect_that_may_stand_twice_has_nothing_to_try_again() -> None:
    verbs = {words[1] for _, words in _WAYS[IncidentKind.EFFECT_DOUBLED]}
    assert verbs == {"resolve", "assign"}


def test_a_long_story_is_cut_to_what_came_last(amends: Shell) -> None:
    shop = amends.place / "shop.py"
    source = shop.read_text(encoding="utf-8").replace("Retries(attempts=1)", "Retries(attempts=8, first_s=0)")
    shop.write_text(source, encoding="utf-8")
    shown = amends.here("incident", "show", amends.incident()).out
    assert "  … 6 lines before: amends saga show tidy\n" in shown
    assert "compensation began (attempt 8)" in shown
    assert "compensation began (attempt 2)" not in shown


# -- whose it is, and what was said -----------------------------------------------------------------------------------


def test_an_incident_is_given_to_somebody(amends: Shell) -> None:
    incident = amends.incident()
    said = amends.here("incident", "assign", incident, "--owner", "person:kim", "--by", "person:ann")
    assert (said.code, said.out) == (0, "incident tidy/1 given to person:kim\n")
    assert "open      person:kim" in amends.here("incident", "list").out
    assert "owner       person:kim\n" in amends.here("incident", "show", incident).out
    assert "incident 1 given to person:kim by person:ann" in amends.here("saga", "show", "tidy").out
    (row,) = amends.here("incident", "assign", incident, "--owner", "person:bob", "--json").records
    assert (row["type"], row["owner"], row["status"]) == ("incident", "person:bob", "open")


def test_remarks_are_kept_for_whoever_looks_next(amends: Shell) -> None:
    incident = amends.incident()
    said = amends.here("incident", "comment", incident, "--text", "a spare\x1b part is due", "--by", "person:ann")
    assert (said.code, said.out) == (0, "incident tidy/1 has the remark\n")
    shown = amends.here("incident", "show", incident).out
    assert "what was said\n" in shown
    assert "  person:ann: a spare\\x1b part is due\n" in shown
    row, remark = amends.here("incident", "show", incident, "--json").records
    assert row["type"] == "incident"
    assert (remark["type"], remark["incident"], remark["by"]) == ("comment", incident, "person:ann")
    assert amends.here("incident", "comment", incident, "--text", " ").complaint.endswith("needs a text")


@pytest.mark.parametrize("words", [["assign", "--owner", "person:kim"], ["comment", "--text", "x"]], ids=lambda w: w[0])
def test_only_an_open_incident_takes_more(amends: Shell, words: list[str]) -> None:
    incident = amends.incident()
    verb, *rest = words
    assert "no incident has the id tidy/9" in amends.here("incident", verb, "tidy/9", *rest).complaint
    assert "is not an actor" in amends.here("incident", verb, incident, *rest, "--by", "kim").complaint
    (amends.place / "unjammed").touch()
    assert amends.here("incident", "retry", incident, "--module", "shop").code == 0
    assert "is not open: it is retried" in amends.here("incident", verb, incident, *rest).complaint


def test_an_owner_has_to_be_somebody(amends: Shell) -> None:
    said = amends.here("incident", "assign", amends.incident(), "--owner", "kim")
    assert said.complaint.startswith("'kim' is not an actor: write agent:<name>, person:<name> or system:<name>")


# -- a compensation that the gate refuses -----------------------------------------------------------------------------


def test_a_compensation_that_the_gate_refuses_is_an_incident_with_its_own_ways_out(amends: Shell) -> None:
    incident = amends.denied()
    shown = amends.here("incident", "show", incident).out
    assert "  the step has to be taken back, and the gate does not let its compensation run\n" in shown
    assert "desk.clear        compensation denied by hands-off: not at night\n" in shown
    for way in ("retry p-1/1 --let-run --module", "retry p-1/1 --module", "resolve p-1/1 --reason", "assign p-1/1"):
        assert f"    amends incident {way} " in shown
    assert amends.world == ["+ cleared"]


def test_a_person_can_let_it_run_in_their_own_name(amends: Shell) -> None:
    incident = amends.denied()
    said = amends.here("incident", "retry", incident, "--let-run", "--by", "person:ann", "--module", "office")
    assert said.code == 0
    assert "incident 1 retried by person:ann, who has it run against the gate" in said.out
    assert "compensation began (attempt 1, let run by person:ann)" in said.out
    assert amends.world == ["+ cleared", "- cleared"]
    shown = amends.here("incident", "show", incident).out
    assert " by person:ann, who had it tried again, against the gate\n" in shown
    assert "what can be done" not in shown


def test_only_a_person_who_did_not_ask_for_the_saga_can_let_it_run(amends: Shell) -> None:
    incident = amends.denied("--env", "staging")
    words = ("incident", "retry", incident, "--let-run", "--module", "office", "--by")
    assert "only people let run what the gate refused" in amends.here(*words, "agent:desk").complaint
    assert "another person decides; any other person may" in amends.here(*words, "person:olga").complaint
    assert amends.world == ["+ cleared"]


def test_what_the_gate_did_not_refuse_cannot_be_let_run(amends: Shell) -> None:
    incident = amends.incident()
    complaint = amends.here("incident", "retry", incident, "--let-run", "--module", "shop").complaint
    assert complaint.endswith("the gate has not refused anything that could be let run")


def test_tried_again_without_more_it_is_judged_again(amends: Shell) -> None:
    incident = amends.denied()
    assert amends.here("incident", "retry", incident, "--module", "office").code == 4
    allows = amends.policy("{id: anything, decision: allow}")
    assert amends.here("policy", "adopt", allows, "--why", "it is day").code == 0
    assert amends.here("incident", "retry", "p-1/2", "--module", "office").code == 0
    assert amends.world == ["+ cleared", "- cleared"]


def test_a_retry_that_works_ends_the_rollback(amends: Shell) -> None:
    incident = amends.incident()
    (amends.place / "unjammed").touch()
    said = amends.here("incident", "retry", incident, "--module", "shop", "--by", "person:ann")
    assert said.code == 0
    assert "person       incident 1 retried by person:ann" in said.out
    assert "robot.move compensation succeeded" in " ".join(said.out.split())
    assert said.out.splitlines()[-1] == "saga tidy rolled back: payments.charge: the bank declined the card"
    assert amends.world == ["+ ladder", "+ robot", "- robot", "- ladder"]
    assert amends.here("incident", "list", "--json").records == []
    assert amends.here("incident", "list", "--all", "--json").records[0]["status"] == "retried"


def test_a_retry_that_fails_is_a_new_incident(amends: Shell) -> None:
    incident = amends.incident()
    said = amends.here("incident", "retry", incident, "--module", "shop")
    assert said.code == 4
    assert said.out.splitlines()[-1] == "  amends incident show tidy/2"
    assert "is not open: it is retried" in amends.here("incident", "retry", incident, "--module", "shop").complaint


def test_a_person_can_vouch_for_what_was_done_by_hand(amends: Shell) -> None:
    incident = amends.incident()
    words = ("--reason", "carried back", "--proof", "photo 12", "--by", "person:ann", "--module", "shop")
    said = amends.here("incident", "resolve", incident, *words)
    assert said.code == 0
    assert "incident 1 resolved by person:ann: carried back (proof: photo 12); settled: step 2" in said.out
    assert amends.world == ["+ ladder", "+ robot", "- ladder"]
    shown = amends.here("incident", "show", incident).out
    assert " by person:ann, who vouches for it: carried back; proof: photo 12\n" in shown
    assert "what might have stood, newest first\n" in shown


def test_resolving_needs_the_modules_of_what_else_is_left(amends: Shell) -> None:
    incident = amends.incident()
    complaint = amends.here("incident", "resolve", incident, "--reason", "carried back").complaint
    assert "action stock.reserve version 1" in complaint
    assert "robot.move" not in complaint
    assert amends.here("incident", "list", "--json").records[0]["status"] == "open"


def test_resolving_needs_no_module_where_nothing_else_is_left(amends: Shell) -> None:
    shop = amends.place / "shop.py"
    source = shop.read_text(encoding="utf-8")
    shop.write_text(source.replace('await s.do(reserve, "ladder")\n    await s.do(move', "await s.do(move"), "utf-8")
    incident = amends.incident()
    said = amends.here("incident", "resolve", incident, "--reason", "carried back", "--json")
    assert said.code == 0
    assert said.records[-1]["status"] == "rolled_back"


def test_a_reason_of_nothing_is_refused(amends: Shell) -> None:
    incident = amends.incident()
    assert (
        "needs a reason" in amends.here("incident", "resolve", incident, "--reason", " ", "--module", "shop").complaint
    )


def test_retrying_needs_the_modules_that_know_how(amends: Shell) -> None:
    incident = amends.incident()
    (amends.place / "other.py").touch()
    complaint = amends.here("incident", "retry", incident, "--module", "other").complaint
    assert "action robot.move version 1" in complaint
    assert amends.here("incident", "list", "--json").records[0]["status"] == "open"


def test_who_names_the_saga_is_told_its_incident(amends: Shell) -> None:
    amends.incident()
    said = amends.here("incident", "show", "tidy").complaint
    assert said == "no incident has the id tidy; did you mean tidy/1?"
