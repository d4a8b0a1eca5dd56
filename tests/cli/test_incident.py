"""`amends incident`: what needs a person, and what a person can do about it."""

from tests.cli.shell import Shell


def test_open_incidents_are_listed_with_what_stopped(amends: Shell) -> None:
    incident = amends.incident()
    head, row = amends.here("incident", "list").out.splitlines()
    assert head.split() == ["ID", "STATUS", "SAGA", "OPENED", "KIND", "WHY"]
    assert row.split()[:3] == [incident, "open", "shop.tidy"]
    assert row.endswith("compensation failed     RuntimeError: the robot is jammed")


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


def test_show_names_what_is_left_and_what_can_be_done(amends: Shell) -> None:
    incident = amends.incident()
    shown = amends.here("incident", "show", incident).out
    assert "stopped at  step 2  robot.move  to=A  uncompensated" in shown
    assert "left        step 1  stock.reserve  item=ladder  succeeded" in shown
    assert f"amends incident retry {incident} --module MODULE" in shown
    assert f"amends incident resolve {incident} --reason TEXT" in shown
    assert "amends saga show tidy" in shown


def test_a_retry_that_works_ends_the_rollback(amends: Shell) -> None:
    incident = amends.incident()
    (amends.place / "unjammed").touch()
    said = amends.here("incident", "retry", incident, "--module", "shop", "--by", "person:ann")
    assert said.code == 0
    assert "person       incident 1 retried by person:ann" in said.out
    assert "robot.move        compensation succeeded" in said.out
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
    said = amends.here(
        "incident", "resolve", incident, "--reason", "carried back", "--by", "person:ann", "--module", "shop"
    )
    assert said.code == 0
    assert "incident 1 resolved by person:ann: carried back; settled: step 2" in said.out
    assert amends.world == ["+ ladder", "+ robot", "- ladder"]


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
