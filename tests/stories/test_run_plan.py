"""A dry run: what a saga would do, and what the gate makes of it, without a thing being done or written."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell

SAGAS = """
from pathlib import Path

from amends import Done, Limits, SagaDefinition, Secret, Step, Work, action, given, result_of, saga


def note(what: str) -> None:
    with Path("world.txt").open("a") as world:
        world.write(what)


@action("price.find", read_only=True)
def price(item: str) -> dict[str, int]:
    note("asked")
    return {"cents": 5}


@action("stock.reserve", idempotent=True)
def reserve(item: str, shelf: str = "A") -> str:
    note("reserved")
    return item


@reserve.compensation
def unreserve(done: Done) -> None: ...


@action("card.charge")
def charge(cents: int, key: Secret) -> str:
    note("charged")
    return "paid"


@charge.compensation
def refund(done: Done) -> None: ...


@action("mail.send", no_rollback="a mail cannot be unsent")
def send(to: str) -> None:
    note("sent")


@action("log.write")
def log(text: str) -> None:
    note("logged")


PAY = {"cents": result_of("price", "cents"), "key": Secret("hunter2")}
order = SagaDefinition(
    "shop.order",
    [
        Step(price),
        Step(reserve, after=["price"]),
        Step(log, {"text": "hello"}, after=["price"]),
        Step(charge, PAY, after=["reserve"], on_failure=Step(log, {"text": "no"}, name="tell")),
        Step(send, {"to": given("mail")}, after=["charge"]),
    ],
)


def is_fine(result: object) -> bool:
    return True


@saga("shop.talk", limits=Limits(tokens=100), verify=[is_fine])
async def talk(s: Work, item: str) -> None:
    await s.do(reserve, item)
"""
POLICY = """version: v1
default: allow
rules:
  - id: much-money
    when: {topic: card.charge, phase: forward, args.cents: {gt: 100}}
    decision: require_human
    approvals: 2
  - id: other-shelves
    when: {topic: stock.reserve, phase: forward, args.shelf: {not_in: [A]}}
    decision: deny
  - id: few-mails
    when: {topic: mail.send}
    rate: {max: 20, per: 60s}
    decision: throttle
  - id: no-refunds
    when: {topic: card.charge, phase: compensation}
    decision: deny
"""
FILE = """
version: v1
saga: publish
inputs: {page: {type: text}}
steps:
  - {id: build, run: [build, "${input.page}"], read_only: true}
  - id: upload
    run: [upload, "${steps.build.stdout}"]
    compensate: {run: [unload, "${result.stdout}"]}
    idempotent: true
  - {id: tell, run: [mail, me], no_rollback: it is out}
"""
GIVEN = ("--input", '{"item": "pen", "mail": "ann"}')


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "mod.py").write_text(SAGAS)
    (tmp_path / "rules.yaml").write_text(POLICY)
    (tmp_path / "publish.yaml").write_text(FILE)
    return shell


def planned(amends: Shell, *words: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    before = sorted(each.name for each in amends.place.iterdir() if each.name != "__pycache__")
    said = amends("run", *words, "--plan", "--json")
    assert said.code == 0, said
    after = sorted(each.name for each in amends.place.iterdir() if each.name != "__pycache__")
    assert after == before, "nothing is done, and nothing written"
    (summary,) = said.of_type("summary")
    return {one["step"]: one for one in said.of_type("step")}, summary


def test_a_graph_is_planned_in_turns_and_each_step_is_judged(amends: Shell) -> None:
    steps, summary = planned(amends, "mod:order", "--policy", "rules.yaml", *GIVEN)
    assert [(one, steps[one]["turn"]) for one in steps] == [
        ("price", 1),
        ("reserve", 2),
        ("log", 2),
        ("charge", 3),
        ("tell", 3),
        ("send", 4),
    ]
    assert (steps["tell"]["recovers"], steps["reserve"]["args"]) == ("charge", {"item": "pen", "shelf": "A"})
    assert (steps["reserve"]["decision"], steps["reserve"]["decided_when_known"]) == ("allow", [])
    assert (steps["send"]["decision"], steps["send"]["rule"], steps["send"]["line"]) == ("throttle", "few-mails", 11)
    assert (steps["send"]["pivot"], steps["send"]["no_rollback"]) == (True, "a mail cannot be unsent")
    assert (summary["pivot"], summary["throttled"], summary["irreversible"]) == ("send", ["send"], ["send"])
    assert "no compensation is declared" in steps["log"]["missing"][0]
    assert steps["reserve"]["missing"] == []


def test_what_depends_on_earlier_results_is_a_reference_and_its_rules_are_decided_when_known(amends: Shell) -> None:
    steps, summary = planned(amends, "mod:order", "--policy", "rules.yaml", *GIVEN)
    charge = steps["charge"]
    assert charge["args"] == {"cents": "{{steps.price.result.cents}}", "key": {"$secret": True}}
    (later,) = charge["decided_when_known"]
    assert later == {"rule": "much-money", "decision": "require_human", "line": 4, "facts": ["args.cents"]}
    assert (charge["decision"], charge["rule"], summary["needs_person"]) == ("allow", "default", ["charge"])
    assert "its compensation would not run by itself: deny by no-refunds" in charge["missing"]


def test_for_a_person_it_reads_as_lines_and_names_the_rule_and_its_line(amends: Shell) -> None:
    said = amends("run", "mod:order", "--plan", "--policy", "rules.yaml", *GIVEN)
    assert "reserve  stock.reserve  (turn 2, in parallel)\n" in said.out
    assert "decided when args.cents is known: require_human by much-money (rules.yaml:4)\n" in said.out
    assert "throttle by few-mails (rules.yaml:11)\n" in said.out
    assert "pivot: from here on, forward only; cannot be taken back: a mail cannot be unsent\n" in said.out
    assert "hunter2" not in said.out
    assert said.out.endswith("nothing was run, and nothing is written\n")


def test_a_file_is_planned_with_what_earlier_steps_print_left_open(amends: Shell) -> None:
    steps, summary = planned(amends, "publish.yaml", "--input", '{"page": "news"}', "--env", "production")
    assert steps["build"]["args"]["run"] == ["build", "news"]
    assert steps["upload"]["args"]["run"] == ["upload", "{{steps.build.stdout}}"]
    assert steps["upload"]["after"] == ["build"]
    assert (steps["tell"]["decision"], steps["tell"]["pivot"]) == ("require_human", True)
    assert summary["needs_person"] == ["tell"]


def test_of_a_function_it_says_honestly_what_is_known(amends: Shell) -> None:
    steps, summary = planned(amends, "mod:talk", "--input", '{"item": "pen"}', "--env", "production")
    assert (steps["log.write"]["decision"], steps["mail.send"]["decision"]) == ("deny", "require_human")
    assert (steps["stock.reserve"]["turn"], steps["stock.reserve"]["args"]) == (None, None)
    assert summary["pivot"] is None
    said = amends("run", "mod:talk", "--plan", "--input", '{"item": "pen"}')
    assert "it is a function, and decides its steps as it runs; the input fits" in said.out
    assert ("verify      is_fine\n" in said.out, "limits      tokens 100\n" in said.out) == (True, True)


def test_an_input_that_does_not_fit_is_refused_as_a_run_refuses_it(amends: Shell) -> None:
    for words in (("mod:order", "--input", '{"item": "pen"}'), ("mod:talk",), ("publish.yaml", "--input", "{}")):
        plan, run = amends("run", *words, "--plan"), amends("run", *words, "--journal", "other.db")
        assert plan.complaint == run.complaint


def test_the_policy_in_force_judges_and_another_one_is_said_to_be_another(amends: Shell) -> None:
    strict = amends.policy(
        "{id: none, when: {topic: stock.reserve}, decision: deny, reason: stocktaking}", name="s.yaml"
    )
    assert amends("policy", "adopt", strict, "--by", "person:kim", "--why", "stocktaking").code == 0
    steps, summary = planned(amends, "mod:order", *GIVEN)
    assert (steps["reserve"]["rule"], summary["denied"]) == ("none", ["reserve"])
    said = amends("run", "mod:order", "--plan", "--policy", "rules.yaml", *GIVEN)
    assert "rules.yaml is not the policy in force on amends.db" in said.err
    assert said.code == 0
