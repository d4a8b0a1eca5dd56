"""`amends approval`: what people are asked, what they are shown, and what their answer does, from the outside."""

import json
from typing import IO, cast

import pytest

from amends.clock import SystemClock
from amends.runtime.declare.names import login
from tests.cli.shell import PATIENCE_S, Shell

TWO = "{id: two, when: {topic: account.delete}, decision: require_human, approvals: 2, approvers: ['person:*@office']}"
ONE = "{id: one, when: {topic: account.delete}, decision: require_human, reason: it is for good, expires: 1h}"
TO_COMPLETE = ("--input", '{"name": "Ann"}', "--env", "production", "--actor", "agent:desk")
TRICKS = "all \u202ednif\x1b[2J is\ufe0f \u3164 well\nreally"


@pytest.fixture(autouse=True)
def _office(amends: Shell) -> None:
    amends.give("office")


# -- asking -----------------------------------------------------------------------------------------------------------


def test_a_saga_that_waits_for_people_ends_with_6_and_says_for_whom_and_how_to_answer(amends: Shell) -> None:
    said = amends.here("run", "office:leave", "--id", "l-1", *TO_COMPLETE)
    assert said.code == 6
    assert said.out.splitlines()[-5:] == [
        "saga l-1 waiting",
        "  account.delete waits for 1 person; time left: 24 h",
        "    amends approval show l-1/2",
        "    amends approval grant l-1/2",
        "  once they have answered: amends resume office",
    ]
    assert amends.world == ["+ cleared"]


def test_as_json_what_is_asked_comes_before_the_end(amends: Shell) -> None:
    said = amends.here("run", "office:leave", "--id", "l-1", *TO_COMPLETE, "--json")
    *_, asked, end = said.records
    assert (asked["type"], asked["id"], asked["topic"], asked["lacking"]) == (
        "approval",
        "l-1/2",
        "account.delete",
        "1 person",
    )
    assert (end["type"], end["status"]) == ("ended", "waiting")


def test_the_commands_that_are_shown_are_about_the_same_journal_and_cannot_be_made_others(amends: Shell) -> None:
    said = amends.here("run", "office:leave", "--id", "l;reboot", *TO_COMPLETE, "--journal", "my own.db")
    assert "amends approval grant 'l;reboot/2' --journal 'my own.db'\n" in said.out
    assert "amends resume office --journal 'my own.db'\n" in said.out


def test_a_journal_in_memory_leaves_nobody_to_answer(amends: Shell) -> None:
    said = amends.here("run", "office:leave", *TO_COMPLETE, "--journal", ":memory:")
    assert said.code == 6
    assert said.out.splitlines()[-1] == "  nobody can answer any more: a journal in memory is gone with its process"
    assert "amends approval" not in said.out


def test_a_saga_that_waits_in_another_process_is_joined_and_told_of(amends: Shell) -> None:
    with amends.started("run", "office:leave", "--id", "l-1", "--wait", *TO_COMPLETE) as process:
        while "approval requested" not in cast("IO[str]", process.stdout).readline():
            assert process.poll() is None
        joined = amends("run", "office:leave", "--id", "l-1", *TO_COMPLETE)
        assert (joined.code, joined.out.splitlines()[-3]) == (6, "    amends approval show l-1/2")
        assert amends("resume", "office").err.endswith("waits for people: amends approval show l-1/2\n")
        process.kill()
        process.wait(PATIENCE_S)


def test_a_waiting_saga_is_shown_and_listed_as_such(amends: Shell) -> None:
    asked = amends.approval()
    (row,) = amends.here("saga", "list", "--status", "waiting", "--json").records
    assert (row["id"], row["open_approvals"]) == ("l-1", 1)
    assert amends.here("saga", "list").out.rstrip().endswith("open approvals: 1")
    assert amends.here("saga", "show", "l-1").out.splitlines()[-1] == f"waits for people: amends approval show {asked}"


# -- looking ----------------------------------------------------------------------------------------------------------


def test_open_approvals_are_listed_and_all_of_them_if_wanted(amends: Shell) -> None:
    asked = amends.approval()
    head, row = amends.here("approval", "list").out.splitlines()
    assert head.split() == ["ID", "STATUS", "SAGA", "TOPIC", "ASKED", "LEFT", "RULE"]
    assert row.split()[:4] == [asked, "requested", "office.leave", "account.delete"]
    assert row.endswith("24 h     builtin-irreversible")
    assert amends.here("approval", "refuse", asked, "--why", "no").code == 0
    assert amends.here("approval", "list").out == "no open approvals\n"
    (refused,) = amends.here("approval", "list", "--all", "--json").records
    assert (refused["type"], refused["id"], refused["status"]) == ("approval", asked, "refused")


def test_no_approval_is_said(amends: Shell) -> None:
    assert amends.here("run", "shop:chat").code == 0
    assert amends.here("approval", "list").out == "no open approvals\n"
    assert amends.here("approval", "list", "--all").out == "no approvals\n"


def test_a_person_is_shown_everything_and_whose_words_it_is(amends: Shell) -> None:
    asked = amends.approval()
    digest = amends.here("approval", "show", asked, "--json").records[0]["digest"]
    shown = amends.here("approval", "show", asked).out
    assert shown.splitlines()[:2] == ["approval    l-1/2", "status      requested"]
    for line in (
        "saga        l-1, office.leave, in production",
        "asked for   by agent:desk, ",
        "agreed      nobody so far",
        "lacking     1 person",
        "time left   24 h, until ",
        "  account.delete, version 1",
        "  irreversible; risk: data",
        '  its author says: "Delete an account for good."',
        "  arguments, as the agent gave them:",
        '  nothing; its author says why: "what is deleted is gone"',
        "  rule builtin-irreversible of policy ",
        "  it cannot be taken back",
        "saga         office.leave/1 started by agent:desk in production: name=Ann note_to_all=bye",
        "forward   1  desk.clear        clear name=Ann (attempt 1)",
        f"digest      {digest}",
        f"grant       amends approval grant {asked} --digest {digest}",
        f"refuse      amends approval refuse {asked} --why TEXT",
    ):
        assert line in shown


def test_what_would_take_it_back_is_shown_where_something_would(amends: Shell) -> None:
    rule = "{id: ask, when: {topic: desk.clear}, decision: require_human}"
    said = amends.here("run", "office:leave", "--id", "l-1", *TO_COMPLETE, "--policy", amends.policy(rule))
    assert said.code == 6
    shown = amends.here("approval", "show", "l-1/1").out
    assert '  its compensation; its author says: "Put everything back where it was."' in shown
    assert "its author says: nothing" in shown


def test_the_arguments_are_canonical_json_that_hides_nothing_and_cannot_paint_the_terminal(amends: Shell) -> None:
    given = json.dumps({"name": "Ann", "note_to_all": TRICKS + "x" * 5000})
    assert amends.here("run", "office:leave", "--id", "l-1", "--env", "production", "--input", given).code == 6
    shown = amends.here("approval", "show", "l-1/2").out
    begun = shown.index("    {\n")
    lines = shown[begun : shown.index("    }\n", begun) + 6].splitlines()
    escaped = "all \\u202ednif\\u001b[2J is\\ufe0f \\u3164 well\\nreally" + "x" * 5000
    assert lines == ["    {", '      "name": "Ann",', f'      "note_to_all": "{escaped}"', "    }"]
    assert json.loads("".join(lines)) == json.loads(given)
    assert shown.replace("\n", "").isprintable()


def test_show_as_json_is_one_object_with_all_that_the_digest_binds(amends: Shell) -> None:
    asked = amends.approval()
    (shown,) = amends.here("approval", "show", asked, "--json").records
    assert (shown["type"], shown["args"]) == ("approval", {"name": "Ann", "note_to_all": "bye"})
    assert shown["shown"]["contract"]["no_rollback"] == "what is deleted is gone"
    assert (shown["requester"], shown["signers"], shown["lacking"]) == ("agent:desk", [], "1 person")
    assert shown["compensation"] == "none: what is deleted is gone"
    assert [line["topic"] for line in shown["so_far"]] == ["", "desk.clear", "desk.clear", "account.delete"]


@pytest.mark.parametrize("verb", [["show"], ["grant", "--yes"], ["refuse", "--why", "no"]], ids=lambda verb: verb[0])
def test_an_id_that_nothing_was_asked_under(amends: Shell, verb: list[str]) -> None:
    amends.approval()
    for unknown in ("l-1/1", "l-1/9", "nope/2"):
        complaint = amends.here("approval", verb[0], unknown, *verb[1:]).complaint
        assert complaint.startswith(f"nobody was asked about {unknown}; `amends approval list --all` shows ")
    assert "'l-1' is not an approval's id" in amends.here("approval", verb[0], "l-1", *verb[1:]).complaint


def test_looking_and_answering_make_no_journal(amends: Shell) -> None:
    for words in (["list"], ["show", "x/1"], ["grant", "x/1", "--yes"], ["refuse", "x/1", "--why", "no"]):
        assert amends.here("approval", *words).complaint.startswith("there is no journal amends.db")
    assert not (amends.place / "amends.db").exists()


# -- answering --------------------------------------------------------------------------------------------------------


def test_what_was_shown_is_granted_and_resuming_goes_on(amends: Shell) -> None:
    asked = amends.approval()
    waiting = amends.here("resume", "office")
    assert (waiting.code, waiting.out) == (0, "nothing to resume\n")
    assert waiting.err == f"amends: saga l-1 (office.leave) waits for people: amends approval show {asked}\n"
    digest = amends.here("approval", "show", asked, "--json").records[0]["digest"]
    granted = amends.here("approval", "grant", asked, "--by", "person:ann", "--why", "he has left", "--digest", digest)
    assert (granted.code, granted.err) == (0, "")
    assert granted.out.splitlines()[0] == "approval l-1/2 granted by person:ann"
    assert amends.world == ["+ cleared"]
    resumed = amends.here("resume", "office")
    assert (resumed.code, resumed.out.splitlines()[-1]) == (0, 'saga l-1 completed: "Ann is gone"')
    assert amends.world == ["+ cleared", "+ deleted"]
    assert "approval granted by person:ann: he has left" in amends.here("saga", "show", "l-1").out


def test_whoever_is_logged_in_answers_unless_said_otherwise(amends: Shell) -> None:
    asked = amends.approval()
    said = amends("approval", "grant", asked, "--yes", "--json", LOGNAME="kim", USER="kim")
    (granted,) = said.records
    assert (said.code, granted["type"], granted["status"]) == (0, "approval", "granted")
    assert granted["signers"] == [login()]


def test_a_refusal_is_told_and_takes_the_saga_back(amends: Shell) -> None:
    asked = amends.approval()
    said = amends.here("approval", "refuse", asked, "--by", "person:ann", "--why", "he stays")
    assert (said.code, said.out) == (0, "approval l-1/2 refused by person:ann: he stays\n")
    resumed = amends.here("resume", "office")
    assert resumed.out.endswith("\nsaga l-1 rolled back: account.delete: person:ann refused it: he stays\n")
    assert amends.world == ["+ cleared", "- cleared"]


def test_a_refusal_needs_a_reason(amends: Shell) -> None:
    asked = amends.approval()
    assert amends.here("approval", "refuse", asked, "--why", " ").complaint.startswith("--why is empty")
    assert amends.here("approval", "refuse", asked).complaint.startswith("missing option '--why'")


@pytest.mark.parametrize("by", ["ann", "person:", "person: ", "robot:x", "person:\x1b[2J", "person:" + "x" * 200])
def test_a_name_that_is_none(amends: Shell, by: str) -> None:
    asked = amends.approval()
    said = amends.here("approval", "grant", asked, "--yes", "--by", by)
    assert "is not an actor: " in said.complaint


def test_the_wrong_person_cannot_grant(amends: Shell) -> None:
    words = ("--label", "owner=person:olga", "--label", "delegates=person:dan, person:dora")
    asked = amends.approval(*words)
    for by in ("person:olga", "person:dan", "person:dora", "person:OLGA"):
        complaint = amends.here("approval", "grant", asked, "--yes", "--by", by).complaint
        assert complaint.startswith(
            f"{by} may not grant step 2 of saga l-1: they asked for it, own it, or act for who did"
        )
    for by in ("agent:desk", "system:cron"):
        assert (
            "is not a person, and only people grant" in amends.here("approval", "grant", asked, "--yes", "--by", by).err
        )
    assert amends.here("approval", "grant", asked, "--yes", "--by", "person:kim").code == 0


def test_who_is_not_named_as_an_approver_cannot_grant(amends: Shell) -> None:
    asked = amends.approval("--policy", amends.policy(TWO))
    complaint = amends.here("approval", "grant", asked, "--yes", "--by", "person:kim@home").complaint
    assert complaint.startswith(
        "person:kim@home is not among those who may approve step 2 of saga l-1: person:*@office"
    )


def test_two_people_are_two(amends: Shell) -> None:
    asked = amends.approval("--policy", amends.policy(TWO))
    first = amends.here("approval", "grant", asked, "--yes", "--by", "person:ann@office")
    assert (first.code, first.out) == (
        6,
        "approval l-1/2 has the agreement of person:ann@office; still lacking: 1 of person:*@office\n",
    )
    shown = amends.here("approval", "show", asked).out
    assert "agreed      person:ann@office\n" in shown
    assert "lacking     1 of person:*@office\n" in shown
    twice = amends.here("approval", "grant", asked, "--yes", "--by", "person:Ann@office").complaint
    assert twice.endswith("has approved step 2 of saga l-1 already; another person is needed")
    assert amends.here("approval", "grant", asked, "--yes", "--by", "person:bob@office").code == 0
    over = amends.here("approval", "grant", asked, "--yes", "--by", "person:cem@office").complaint
    assert over == "step 2 of saga l-1 does not wait for an approval: it is ready, and its approval granted"


def test_what_is_answered_too_late_has_expired(amends: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = amends.approval("--policy", amends.policy(ONE))
    later = SystemClock().now() + 3_600_000

    def in_an_hour(_: SystemClock) -> int:
        return later

    with monkeypatch.context() as patch:
        patch.setattr(SystemClock, "now", in_an_hour)
        assert "time left   expired, until" in amends.here("approval", "show", asked).out
        complaint = amends.here("approval", "grant", asked, "--yes", "--by", "person:ann").complaint
    assert complaint == "approval l-1/2 has expired: it had to be answered in time"
    again = amends.here("approval", "refuse", asked, "--why", "no").complaint
    assert again.endswith("it is denied, and its approval expired")
    assert "not given, or not used, in time" in amends.here("resume", "office").out
    assert amends.world == ["+ cleared", "- cleared"]


def test_what_has_changed_since_it_was_shown_is_not_granted(amends: Shell) -> None:
    asked = amends.approval()
    complaint = amends.here("approval", "grant", asked, "--digest", "0" * 64).complaint
    assert complaint == "what you were shown of step 2 of saga l-1 is not what is asked now; look at it again"
    assert amends.here("approval", "show", asked, "--json").records[0]["status"] == "requested"


def test_another_policy_voids_what_was_granted_and_people_are_asked_again(amends: Shell) -> None:
    asked = amends.approval()
    assert amends.here("approval", "grant", asked, "--yes", "--by", "person:ann").code == 0
    assert amends.here("policy", "adopt", amends.policy(ONE), "--why", "x", "--by", "person:ann").code == 0
    resumed = amends.here("resume", "office", "--policy", "policy.yaml")
    assert resumed.code == 6
    lines = resumed.out.splitlines()
    assert lines[lines.index("saga l-1 waiting") :][:3] == [
        "saga l-1 waiting",
        "  account.delete waits for 1 person; time left: 60 min",
        "    amends approval show l-1/2",
    ]
    shown = amends.here("approval", "show", asked).out
    assert "; asked 2 times, and only the last counts\n" in shown
    assert "agreed      nobody so far\n" in shown
    assert "approval no longer counts: changed since it was approved: policy" in shown
    assert amends.world == ["+ cleared"]


# -- confirming -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_without_a_terminal_somebody_has_to_say_what_they_saw(amends: Shell, more: list[str]) -> None:
    asked = amends.approval()
    complaint = amends.here("approval", "grant", asked, *more).complaint
    assert complaint == "nobody is there to confirm it; give the --digest that `amends approval show` shows, or --yes"


def test_on_a_terminal_it_is_shown_and_confirmed(amends: Shell) -> None:
    asked = amends.approval()
    said = amends.on_terminal("approval", "grant", asked, "--by", "person:ann", typed="y\n")
    assert said.code == 0
    assert '"note_to_all": "bye"' in said.out
    assert "grant this as person:ann? [y/N]: y\n" in said.out
    assert "approval l-1/2 granted by person:ann\n" in said.out


def test_whoever_does_not_confirm_grants_nothing(amends: Shell) -> None:
    asked = amends.approval()
    said = amends.on_terminal("approval", "grant", asked, typed="\n")
    assert (said.code, said.out.splitlines()[-1]) == (6, "nothing is granted")
    assert amends.here("approval", "show", asked, "--json").records[0]["signers"] == []


def test_what_is_not_asked_any_more_is_not_offered_for_confirmation(amends: Shell) -> None:
    asked = amends.approval()
    assert amends.here("approval", "refuse", asked, "--why", "no").code == 0
    said = amends.on_terminal("approval", "grant", asked)
    assert (said.code, said.out) == (2, "amends: approval l-1/2 is refused: nobody is asked any more\n")


# -- two processes ----------------------------------------------------------------------------------------------------


def test_one_process_waits_and_another_one_grants(amends: Shell) -> None:
    with amends.started("run", "office:leave", "--id", "l-1", "--wait", *TO_COMPLETE) as process:
        stdout = cast("IO[str]", process.stdout)
        while "approval requested" not in stdout.readline():
            assert process.poll() is None
        assert amends("approval", "grant", "l-1/2", "--yes", "--by", "person:ann").code == 0
        assert process.wait(PATIENCE_S) == 0
        told = stdout.read()
    assert "account.delete    approval granted by person:ann" in told
    assert told.splitlines()[-1] == 'saga l-1 completed: "Ann is gone"'
    assert amends.world == ["+ cleared", "+ deleted"]


def test_one_process_waits_and_another_one_refuses(amends: Shell) -> None:
    with amends.started("run", "office:leave", "--id", "l-1", "--wait", *TO_COMPLETE) as process:
        while "approval requested" not in cast("IO[str]", process.stdout).readline():
            assert process.poll() is None
        assert amends("approval", "refuse", "l-1/2", "--why", "no", "--by", "person:ann").code == 0
        assert process.wait(PATIENCE_S) == 5
    assert amends.world == ["+ cleared", "- cleared"]
