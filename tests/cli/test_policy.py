"""`amends policy`: check, explain, test, replay, coverage, adopt, show."""

import json
import re
from typing import Any

import pytest

from amends.runtime.declare.names import login
from tests.cli.shell import Said, Shell

MONEY = """\
version: v1
default: allow
rules:
  - id: two-people-for-big-money
    when: {topic: "payments.*", args.cents: {gt: 100000}}
    decision: require_human
    approvals: 2
    approvers: [person:ann, person:bob]
    expires: 1h
  - id: at-most-20-a-minute
    when: {topic: "payments.*"}
    unless: {actor: "person:*"}
    decision: throttle
    rate: {max: 20, per: 60s, by: [topic]}
"""


@pytest.fixture
def money(amends: Shell) -> Shell:
    write(amends, "money.yaml", MONEY)
    return amends


def write(shell: Shell, name: str, text: str) -> None:
    (shell.place / name).write_text(text, encoding="utf-8")


def explain(shell: Shell, *words: str, **facts: Any) -> Said:
    return shell.here("policy", "explain", "money.yaml", "--facts", json.dumps(facts), *words)


# check


def test_a_policy_that_can_be_used_is_told_with_its_digest(money: Shell) -> None:
    said = money.here("policy", "check", "money.yaml")
    assert (said.code, said.err) == (0, "")
    assert re.fullmatch(r"money\.yaml: ok, 2 rules, default allow, digest [0-9a-f]{64}\n", said.out)
    (record,) = money.here("policy", "check", "money.yaml", "--json").records
    assert (record["type"], record["rules"], record["default"], record["warnings"]) == ("policy", 2, "allow", [])


def test_every_mistake_is_told_with_its_line(amends: Shell) -> None:
    write(amends, "bad.yaml", "version: v1\nrules:\n  - id: a\n    decison: deny\n    when: {enf: x}\n")
    said = amends.here("policy", "check", "bad.yaml")
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines() == [
        "bad.yaml:3: a rule without decision",
        "bad.yaml:4: unknown key 'decison' in a rule; did you mean decision?",
        "bad.yaml:5: unknown fact 'enf'; did you mean env?",
    ]
    records = amends.here("policy", "check", "bad.yaml", "--json").of_type("mistake")
    assert [record["text"] for record in records] == said.err.splitlines()


def test_a_rule_that_can_never_speak_is_warned_of(amends: Shell) -> None:
    rules = "  - {id: shut, decision: deny}\n  - {id: open, when: {env: test}, decision: allow}\n"
    write(amends, "shut.yaml", f"version: v1\nrules:\n{rules}")
    said = amends.here("policy", "check", "shut.yaml")
    assert said.code == 0
    assert said.out.startswith("shut.yaml: ok, 2 rules, default built in, digest ")
    (warning,) = said.err.splitlines()
    assert warning.startswith("amends: warning: shut.yaml:4: rule open can never speak: where it matches, ")
    assert warning.endswith("shut (line 3) does too and says deny")


def test_a_file_that_is_not_there_is_an_error(amends: Shell) -> None:
    said = amends.here("policy", "check", "none.yaml")
    assert (said.code, said.err) == (2, "none.yaml: cannot be read: No such file or directory\n")


# explain


def test_a_verdict_is_explained_rule_by_rule(money: Shell) -> None:
    said = explain(money, topic="payments.charge", actor="agent:a", **{"args.cents": 200_000})
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[:6] == [
        "verdict  require_human",
        "rule     two-people-for-big-money",
        "why      topic payments.*, args.cents gt 100000",
        "needs    2 people of person:ann, person:bob, for two-people-for-big-money",
        "within   60 min",
        'rate     20 in 60 s for at-most-20-a-minute,topic="payments.charge"',
    ]
    assert [line.split() for line in lines[8:]] == [
        ["matched", "two-people-for-big-money", "require_human"],
        ["matched", "at-most-20-a-minute", "throttle"],
    ]


def test_a_rule_that_did_not_match_says_what_it_saw(money: Shell) -> None:
    said = explain(money, topic="payments.charge", actor="person:ann", **{"args.cents": 5})
    assert said.out.splitlines()[0] == "verdict  allow"
    assert said.out.splitlines()[-3:] == [
        "-        two-people-for-big-money  require_human  args.cents gt 100000; saw 5",
        "-        at-most-20-a-minute       throttle       exempt: actor person:*; saw person:ann",
        "matched  default                   allow",
    ]


def test_what_is_missing_is_named(money: Shell) -> None:
    said = explain(money, topic="payments.charge")
    assert "matched  two-people-for-big-money  require_human  in doubt, which counts: args.cents" in said.out


def test_an_explanation_is_a_verdict_and_rules_for_a_program(money: Shell) -> None:
    said = explain(money, "--json", topic="mail.send")
    verdict, one, two, default = said.records
    assert (verdict["type"], verdict["decision"], verdict["rule"]) == ("verdict", "allow", "default")
    assert (one["matched"], one["condition"], one["saw"]) == (
        False,
        {"fact": "topic", "in": ["payments.*"]},
        "mail.send",
    )
    assert (two["id"], default["id"], default["matched"]) == ("at-most-20-a-minute", "default", True)


def test_the_facts_may_come_from_a_file_or_from_stdin(money: Shell) -> None:
    write(money, "facts.json", '{"topic": "payments.charge", "args": {"cents": 200000}}')
    said = money.here("policy", "explain", "money.yaml", "--facts", "@facts.json")
    assert said.out.startswith("verdict  require_human\n")
    piped = money("policy", "explain", "money.yaml", "--facts", "-", stdin=b'{"topic": "mail.send"}')
    assert piped.out.startswith("verdict  allow\n")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("[]", '--facts is an object, such as {"env": "production", "topic": "mail.send"}'),
        ("{", "--facts is not JSON: line 1, column 2"),
        ('{"enf": 1}', "there is no fact 'enf'; did you mean env?"),
        ("@none.json", "--facts @none.json: No such file or directory"),
    ],
)
def test_facts_that_are_none_are_refused(money: Shell, given: str, told: str) -> None:
    assert money.here("policy", "explain", "money.yaml", "--facts", given).complaint.startswith(told)


def test_a_bad_policy_is_one_line_elsewhere(amends: Shell) -> None:
    write(amends, "bad.yaml", "version: v1\nrules:\n  - id: a\n    decison: deny\n")
    complaint = amends.here("policy", "explain", "bad.yaml", "--facts", "{}").complaint
    assert complaint == "bad.yaml:3: a rule without decision (and more: amends policy check bad.yaml)"


# test

CASES = """\
- name: big money needs two people
  facts: {topic: payments.charge, args.cents: 200000}
  expect: {decision: require_human, rule: two-people-for-big-money}
- name: mails are free
  facts: {topic: mail.send}
  expect: {decision: %s}
"""


def test_cases_that_all_pass(money: Shell) -> None:
    write(money, "cases.yaml", CASES % "allow")
    said = money.here("policy", "test", "money.yaml", "cases.yaml")
    assert (said.code, said.out) == (0, "2 cases, all passed\n")


def test_a_case_that_fails_is_told_and_counts(money: Shell) -> None:
    write(money, "cases.yaml", CASES % "deny")
    said = money.here("policy", "test", "money.yaml", "cases.yaml")
    assert said.code == 1
    assert said.out.splitlines() == [
        "failed  cases.yaml:4: mails are free: expected deny, got allow by default",
        "2 cases, 1 failed",
    ]
    *cases, summary = money.here("policy", "test", "money.yaml", "cases.yaml", "--json").records
    assert [(case["type"], case["passed"]) for case in cases] == [("case", True), ("case", False)]
    assert cases[1]["got"] == {"decision": "allow", "rule": "default"}
    assert summary == {"type": "summary", "cases": 2, "failed": 1}


def test_cases_that_are_none_are_an_error(money: Shell) -> None:
    write(money, "cases.yaml", "[]")
    assert money.here("policy", "test", "money.yaml", "cases.yaml").complaint.startswith(
        "cases.yaml:1: cases has to be"
    )


# replay


def test_what_a_policy_would_have_changed_is_shown_with_saga_and_step(amends: Shell) -> None:
    amends.incident()
    write(amends, "new.yaml", 'version: v1\nrules:\n  - {id: still, when: {topic: "robot.*"}, decision: deny}\n')
    said = amends.here("policy", "replay", "new.yaml", "--since", "1h")
    assert said.code == 0
    head, *changes, empty, summary = said.out.splitlines()
    assert head.split() == ["SAGA", "ENTRY", "TOPIC", "PHASE", "WAS", "NOW", "RULE"]
    assert [change.split()[2:6] for change in changes] == [
        ["robot.move", "forward", "allow", "deny"],
        ["robot.move", "compensation", "allow", "deny"],
    ]
    assert all(change.endswith("still (was builtin-allow)") for change in changes)
    assert (empty, summary) == ("", "4 verdicts of 1 saga: 2 stricter, 0 laxer, 2 unchanged")
    *records, total = amends.here("policy", "replay", "new.yaml", "--since", "1h", "--json").records
    assert [(record["saga"], record["step"], record["change"]) for record in records] == [("tidy", "2", "stricter")] * 2
    assert (total["verdicts"], total["stricter"], total["unchanged"]) == (4, 2, 2)


def test_what_was_denied_and_would_be_allowed_is_laxer(amends: Shell) -> None:
    assert amends.here("run", "shop:paint", "--env", "production").code == 5
    write(amends, "open.yaml", "version: v1\ndefault: allow\nrules: []\n")
    (change, total) = amends.here("policy", "replay", "open.yaml", "--since", "1h", "--json").records
    assert (change["change"], change["was"]["decision"], change["now"]["decision"]) == ("laxer", "deny", "allow")
    assert total["laxer"] == 1


def test_the_policy_that_judged_changes_nothing(amends: Shell) -> None:
    amends.incident()
    write(amends, "same.yaml", "version: v1\nrules: []\n")
    said = amends.here("policy", "replay", "same.yaml", "--since", "2020-01-01")
    assert said.out == "4 verdicts of 1 saga: 0 stricter, 0 laxer, 4 unchanged\n"


def test_only_sagas_of_the_time_given_are_judged(amends: Shell) -> None:
    amends.incident()
    write(amends, "same.yaml", "version: v1\nrules: []\n")
    for since, until in (("2999-01-01", None), ("2020-01-01", "2020-02-01T10:00:00Z")):
        words = ["--since", since, *(["--until", until] if until else [])]
        said = amends.here("policy", "replay", "same.yaml", *words)
        assert said.out == "0 verdicts of 0 sagas: 0 stricter, 0 laxer, 0 unchanged\n"


def test_a_time_that_is_none_is_refused(money: Shell) -> None:
    complaint = money.here("policy", "replay", "money.yaml", "--since", "yesterday").complaint
    assert complaint.startswith("--since 'yesterday' is no time; write 7d or 12h for so long ago")


def test_replay_makes_no_journal(money: Shell) -> None:
    assert "there is no journal" in money.here("policy", "replay", "money.yaml", "--since", "1d").complaint
    assert not (money.place / "amends.db").exists()


# coverage


def test_coverage_names_what_cannot_be_taken_back(amends: Shell) -> None:
    write(
        amends,
        "post.py",
        "from amends import action\n"
        '@action("mail.send", no_rollback="a mail cannot be unsent")\ndef send(): ...\n'
        '@action("mail.list", read_only=True)\ndef look(): ...\n',
    )
    said = amends("policy", "coverage", "shop", "post")
    assert said.code == 0
    lines = [line.split(maxsplit=4) for line in said.out.splitlines()]
    assert ["mail.list", "1", "read-only", "-"] in lines
    assert ["mail.send", "1", "irreversible", "never", "a mail cannot be unsent"] in lines
    assert ["shelf.repaint", "1", "undeclared", "never"] in lines
    assert said.out.splitlines()[-1] == "9 actions: 2 undeclared, 1 irreversible, 8 never drilled"
    records = amends("policy", "coverage", "post", "--json").records
    assert [(record["topic"], record["reversibility"]) for record in records[:2]] == [
        ("mail.list", "reversible"),
        ("mail.send", "irreversible"),
    ]
    assert records[-1] == {"type": "summary", "actions": 2, "undeclared": 0, "irreversible": 1, "never_drilled": 1}


def test_without_modules_there_is_nothing_to_list(amends: Shell) -> None:
    assert amends("policy", "coverage").out == "no actions; name the modules that declare them\n"


def test_a_group_alone_shows_its_commands(amends: Shell) -> None:
    said = amends.here("policy")
    assert said.code == 2
    assert "coverage" in said.err


# adopt, show


def adopted(shell: Shell) -> list[dict[str, Any]]:
    entries = shell.here("saga", "show", "amends.policy", "--json").of_type("entry")
    return [entry["body"] for entry in entries if entry["name"] == "policy.adopted/1"]


def test_a_policy_is_adopted_on_record_and_judges_from_then_on(money: Shell) -> None:
    said = money.here("policy", "adopt", "money.yaml", "--why", "big money", "--by", "person:ann")
    assert said.code == 0
    assert re.fullmatch(r"policy [0-9a-f]{12} adopted by person:ann: big money\n", said.out)
    (record,) = adopted(money)
    assert (record["by"], record["why"], record["text"]) == ("person:ann", "big money", MONEY)
    (money.place / "money.yaml").unlink()
    asked = '{"item": "lamp", "cents": 200000}'
    assert money.here("run", "shop:buy", "--input", asked).code == 6
    assert money.here("approval", "list", "--json").records[0]["rule"] == "two-people-for-big-money"


def test_the_policy_in_force_is_not_adopted_again(money: Shell) -> None:
    assert money.here("policy", "adopt", "money.yaml", "--why", "big money", "--json").records[0]["adopted"] is True
    again = money.here("policy", "adopt", "money.yaml", "--why", "once more")
    assert (again.code, again.out.partition(" is ")[2]) == (0, "in force already; nothing is written\n")
    write(money, "money.yaml", f"# a remark changes nothing\n{MONEY}")
    assert money.here("policy", "adopt", "money.yaml", "--why", "x", "--json").records[0]["adopted"] is False
    assert len(adopted(money)) == 1


def test_what_cannot_be_adopted_is_refused_and_makes_no_journal(money: Shell) -> None:
    write(money, "bad.yaml", "version: v1\nrules:\n  - id: a\n    decison: deny\n")
    complaint = money.here("policy", "adopt", "bad.yaml", "--why", "x").complaint
    assert complaint == "bad.yaml:3: a rule without decision (and more: amends policy check bad.yaml)"
    assert "--why is empty" in money.here("policy", "adopt", "money.yaml", "--why", " ").complaint
    assert "is not an actor" in money.here("policy", "adopt", "money.yaml", "--why", "x", "--by", "ann").complaint
    in_memory = money.here("policy", "adopt", "money.yaml", "--why", "x", "--journal", ":memory:").complaint
    assert in_memory.startswith("a journal in memory is gone with its process")
    assert money.here("run", "shop:chat", "--policy", "bad.yaml").complaint == complaint
    assert not (money.place / "amends.db").exists()


def test_the_policy_in_force_is_shown_with_who_adopted_it_and_why(money: Shell) -> None:
    digest = money.here("policy", "check", "money.yaml", "--json").records[0]["digest"]
    money.here("policy", "adopt", "money.yaml", "--why", "big money", "--by", "person:ann")
    head, text = money.here("policy", "show").out.split("\n\n")
    facts = head.splitlines()
    assert (facts[0], facts[2]) == (f"policy      {digest}", "why         big money")
    assert re.fullmatch(r"adopted     \d{4}-\d\d-\d\d \d\d:\d\d:\d\d by person:ann", facts[1])
    assert text == MONEY
    (record,) = money.here("policy", "show", "--json").records
    assert (record["digest"], record["by"], record["text"]) == (digest, "person:ann", MONEY)
    assert money.here("policy", "adopt", "money.yaml", "--why", "x", "--journal", "other.db").code == 0


def test_where_none_was_adopted_the_built_in_one_is_shown(amends: Shell) -> None:
    assert amends.here("policy", "show").complaint.startswith("there is no journal amends.db")
    assert amends.here("run", "shop:chat").code == 0
    shown = amends.here("policy", "show").out
    assert "adopted     never: this is the built-in one" in shown
    assert "- id: builtin-irreversible" in shown
    assert amends.here("policy", "show", "--json").records[0]["adopted_at"] is None


def test_a_new_journal_begins_with_the_policy_that_is_named_and_no_other_is_adopted_by_that(money: Shell) -> None:
    assert money.here("run", "shop:chat", "--policy", "money.yaml").code == 0
    write(money, "other.yaml", MONEY.replace("100000", "5000"))
    assert "amends policy adopt other.yaml" in money.here("resume", "shop", "--policy", "other.yaml").complaint
    assert money.here("resume", "shop", "--policy", "money.yaml").code == 0
    assert [(one["by"], one["why"]) for one in adopted(money)] == [
        (login(), "the journal begins with money.yaml"),
    ]
