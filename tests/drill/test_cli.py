"""`amends drill`: the matrix, the reports, the exit code, what goes on record, and what it refuses."""

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from tests.cli.shell import Shell


def test_a_good_saga_passes_and_says_so(amends: Shell) -> None:
    said = amends.here("drill", "desk:good", "--input", '{"room": "B"}')
    assert said.code == 0
    lines = said.out.splitlines()
    assert "  fails for good                    passed" in [line.rstrip() for line in lines]
    assert re.fullmatch(r"15 cells, \d+ runs: 15 passed, 0 not proven, 0 failed", lines[-1])


def test_what_failed_is_named_with_its_places(amends: Shell) -> None:
    said = amends.here("drill", "desk:bad", "--fresh", "desk:fresh")
    assert said.code == 1
    assert (
        "failed      step 2 (desk.forget): its compensation returned success, and its effect still stands" in said.out
    )
    assert "            in taken-back, 1:" in said.out or "            in as-it-is, taken-back, " in said.out


def test_what_cannot_be_seen_is_not_proven_and_no_failure(amends: Shell) -> None:
    said = amends.here("drill", "desk:unseen", "--fresh", "desk:fresh")
    assert said.code == 0
    assert "not proven  step 2 (desk.tell): it has no probe, so nobody can tell whether its effect stands" in said.out
    assert amends.here("drill", "desk:unseen", "--fresh", "desk:fresh", "--strict").code == 1
    assert amends.here("drill", "desk:unseen", "--world", "desk:seen", "--strict").code == 0


def test_json_has_an_object_for_each_cell(amends: Shell) -> None:
    said = amends.here("drill", "desk:bad", "--json", "--only", "2:unknown-done", "--fresh", "desk:fresh")
    assert said.code == 1
    (cell,) = said.of_type("cell")
    (finding,) = cell.pop("findings")
    assert cell == {
        "type": "cell",
        "step": "2",
        "topic": "desk.forget",
        "fault": "unknown-done",
        "outcome": "failed",
        "runs": 1,
        "ended": "rolled_back",
    }
    assert (finding["step"], finding["topic"], finding["outcome"]) == ("2", "desk.forget", "failed")
    (summary,) = said.of_type("summary")
    assert (summary["outcome"], summary["failed"], summary["runs"]) == ("failed", 1, 3)


def test_only_some_places(amends: Shell) -> None:
    said = amends.here("drill", "desk:bad", "--json", "--only", "fatal", "--only", "2:crash")
    places = [(cell["step"], cell["fault"]) for cell in said.of_type("cell")]
    assert places == [("1", "fatal"), ("2", "fatal"), ("2", "crash")]
    unknown = amends.here("drill", "desk:bad", "--only", "x")
    assert "no fault; they are as-it-is, taken-back, mitigated, fatal" in unknown.complaint


def test_junit_has_a_case_for_each_cell(amends: Shell) -> None:
    amends.here("drill", "desk:bad", "--fresh", "desk:fresh", "--junit", "drill.xml")
    suite = ET.parse(amends.place / "drill.xml").getroot()
    assert (suite.tag, suite.get("name")) == ("testsuite", "amends drill desk.bad")
    cases = suite.findall("testcase")
    assert int(suite.get("tests", 0)) == len(cases)
    assert int(suite.get("failures", 0)) == sum(case.find("failure") is not None for case in cases) > 0
    failure = next(case for case in cases if case.get("name", "").startswith("taken-back")).find("failure")
    assert failure is not None
    assert "its effect still stands" in failure.get("message", "")
    amends.here("drill", "desk:unseen", "--fresh", "desk:fresh", "--junit", "unseen.xml")
    unseen = ET.parse(amends.place / "unseen.xml").getroot()
    assert int(unseen.get("skipped", 0)) > 0
    assert "not proven: " in (unseen.findall("testcase/skipped")[0].get("message") or "")


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_nothing_else(amends: Shell) -> None:
    amends.here("drill", "desk:bad", "--fresh", "desk:fresh", "--html", "drill.html", "--input", '{"room": "<b>&"}')
    page = Page()
    page.feed((amends.place / "drill.html").read_text(encoding="utf-8"))
    assert page.addresses == []
    assert not {"script", "link", "img"} & set(page.tags)
    assert "b" not in page.tags
    assert "Drill of desk.bad: failed" in page.text
    assert '{"room": "<b>&"}' in page.text
    assert "its compensation returned success, and its effect still stands" in page.text


# -- where it may run -------------------------------------------------------------------------------------------------


def test_production_is_refused_unless_it_is_allowed(amends: Shell) -> None:
    refused = amends.here("drill", "desk:good", "--env", "production")
    assert "it is refused in production" in refused.complaint
    assert not (amends.place / "amends.db").exists()
    assert amends.here("drill", "desk:good", "--env", "production", "--allow-production").code == 0


def test_the_gate_is_told_that_it_is_a_drill(amends: Shell) -> None:
    rules = (
        "version: v1\ndefault: allow\nrules: [{id: not-here, when: {env: drill, topic: desk.book}, decision: deny}]\n"
    )
    (amends.place / "policy.yaml").write_text(rules, encoding="utf-8")
    denied = amends.here("drill", "desk:good", "--json", "--policy", "policy.yaml", "--only", "as-it-is")
    assert denied.of_type("cell")[0]["ended"] == "rolled_back"
    allowed = amends.here(
        "drill", "desk:good", "--json", "--policy", "policy.yaml", "--env", "staging", "--only", "as-it-is"
    )
    assert allowed.of_type("cell")[0]["ended"] == "completed"
    amends.here("policy", "adopt", "policy.yaml", "--why", "a test")
    adopted = amends.here("drill", "desk:good", "--json", "--only", "as-it-is")
    assert adopted.of_type("cell")[0]["ended"] == "rolled_back"


# -- on record --------------------------------------------------------------------------------------------------------


def test_a_drill_goes_on_record_and_counts_for_coverage(amends: Shell) -> None:
    amends.here("drill", "desk:unseen", "--fresh", "desk:fresh")
    (row,) = amends.here("saga", "list", "--all", "--json").records
    assert (row["definition"], row["labels"]) == ("amends.drill", {"saga": "desk.unseen", "outcome": "not proven"})
    actions = amends.here("policy", "coverage", "desk", "--json").of_type("action")
    drilled = {action["topic"]: action["drilled"] for action in actions if action["topic"].startswith("desk.")}
    assert drilled["desk.book"] is not None
    assert (drilled["desk.tell"], drilled["desk.forget"]) == (None, None)
    assert amends.here("drill", "desk:good", "--no-record").code == 0
    assert len(amends.here("saga", "list", "--all", "--json").records) == 1


def test_changed_drills_what_is_not_the_same_any_more(amends: Shell) -> None:
    nothing = "nothing to drill: no saga on record has changed since its last drill\n"
    amends.here("drill", "desk:good", "--input", '{"room": "B"}')
    amends.here("drill", "desk:unseen", "--fresh", "desk:fresh")
    assert amends.here("drill", "--changed").out == nothing
    assert amends.here("drill", "desk:good", "--changed").out.startswith("nothing to drill: desk:good has not changed")
    text = (amends.place / "desk.py").read_text(encoding="utf-8")
    again = text.replace("    sent.append(text)", "    sent.append(str(text))")
    (amends.place / "desk.py").write_text(again, encoding="utf-8")
    assert [each["saga"] for each in amends.here("drill", "--changed", "--json").of_type("summary")] == ["desk.unseen"]
    assert amends.here("drill", "--changed").out == nothing
    changed = again.replace('"""Free the room."""', '"""Free it."""')
    (amends.place / "desk.py").write_text(changed, encoding="utf-8")
    names = [each["saga"] for each in amends.here("drill", "--changed", "--json").of_type("summary")]
    assert sorted(names) == ["desk.good", "desk.unseen"]


def test_changed_goes_by_the_input_and_the_doubles_of_the_last_drill_and_writes_one_file_for_all(amends: Shell) -> None:
    (amends.place / "out").mkdir()
    (amends.place / "touch.yaml").write_text(TOUCH, encoding="utf-8")
    amends.here("drill", "touch.yaml", "--input", '{"name": "out/a"}', "--world", "out")
    amends.here("drill", "desk:unseen", "--fresh", "desk:fresh", "--world", "desk:seen")
    (amends.place / "touch.yaml").write_text(TOUCH.replace("rm, -f,", "rm, --force,"), encoding="utf-8")
    text = (amends.place / "desk.py").read_text(encoding="utf-8")
    (amends.place / "desk.py").write_text(text.replace("(text)", "(str(text))"), encoding="utf-8")
    said = amends.here("drill", "--changed", "--json", "--strict", "--junit", "all.xml", "--html", "all.html")
    assert said.code == 0
    assert sorted(each["saga"] for each in said.of_type("summary")) == ["desk.unseen", "touch"]
    suites = ET.parse(amends.place / "all.xml").getroot()
    assert suites.tag == "testsuites"
    names = sorted(each.get("name", "") for each in suites)
    assert names == ["amends drill desk.unseen", "amends drill touch"]
    page = (amends.place / "all.html").read_text(encoding="utf-8")
    assert page.count("<h1>Drill of ") == 2
    assert page.count("<html") == 1


TOUCH = """
version: v1
saga: touch
inputs: {name: {does: a file}}
steps:
  - id: make
    run: [touch, "${input.name}"]
    idempotent: true
    probe: [test, -e, "${input.name}"]
    compensate: [rm, -f, "${input.name}"]
"""


def test_a_directory_as_the_world_sees_what_is_left_in_it(amends: Shell) -> None:
    (amends.place / "out").mkdir()
    careless = TOUCH.replace('compensate: [rm, -f, "${input.name}"]', 'compensate: {shell: "mv out/a out/b"}')
    (amends.place / "touch.yaml").write_text(careless, encoding="utf-8")
    words = ("drill", "touch.yaml", "--input", '{"name": "out/a"}', "--only", "as-it-is")
    assert amends.here(*words).code == 0
    (amends.place / "out" / "b").unlink()
    said = amends.here(*words, "--world", "out")
    assert said.code == 1
    assert "the world does not come back: 'b' was not there and is 'sha256 e3b0c44298fc1c14'" in said.out


def test_a_part_of_a_drill_is_evidence_and_counts_for_nothing(amends: Shell) -> None:
    amends.here("drill", "desk:good", "--only", "fatal")
    (row,) = amends.here("saga", "list", "--all", "--json").records
    assert row["labels"] == {"saga": "desk.good", "outcome": "passed", "only": "fatal"}
    told = amends.here("saga", "show", row["id"]).out
    assert '"cells": {"1:fatal": "passed, rolled_back"}' in told
    actions = amends.here("policy", "coverage", "desk", "--json").of_type("action")
    assert {action["drilled"] for action in actions} == {None}
    assert amends.here("drill", "--changed").out.startswith("nothing to drill")
    assert amends.here("evidence", "verify").code == 0


def test_a_sagas_record_tells_the_last_drill_of_each_action(amends: Shell) -> None:
    amends.here("run", "desk:good", "--id", "early")
    amends.here("drill", "desk:good")
    (drill,) = amends.here("saga", "list", "--definition", "amends.drill", "--json").records
    amends.here("run", "desk:unseen", "--id", "late")
    early, late = (json.loads(amends.here("evidence", "record", saga).out)["amends"] for saga in ("early", "late"))
    assert [step["drilled"] for step in early["steps"]] == [None], "it was drilled after that"
    book, tell = (step["drilled"] for step in late["steps"])
    assert (book["drill"], book["outcome"], book["same_contract"]) == (drill["id"], "passed", True)
    assert tell is None


def test_where_people_are_asked_they_refuse_and_let_time_pass(amends: Shell) -> None:
    rule = "{id: two, when: {topic: desk.book}, decision: require_human, approvals: 2, expires: 1h}"
    (amends.place / "policy.yaml").write_text(f"version: v1\ndefault: allow\nrules: [{rule}]\n", encoding="utf-8")
    words = (
        "drill",
        "desk:good",
        "--json",
        "--policy",
        "policy.yaml",
        "--only",
        "refused",
        "--only",
        "expired",
        "--only",
        "crash",
    )
    cells = amends.here(*words).of_type("cell")
    assert [(cell["fault"], cell["ended"], cell["outcome"]) for cell in cells] == [
        ("refused", "rolled_back", "passed"),
        ("expired", "rolled_back", "passed"),
        ("crash", "completed", "passed"),
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["drill"], "name a saga to drill, as in trip:book_trip; or --changed for what was drilled before"),
        (["drill", "desk:good", "--fresh", "desk"], "--fresh 'desk' does not name a function"),
        (["drill", "desk:good", "--world", "desk:nobody"], "--world: module desk has no function 'nobody'"),
        (["drill", "desk:good", "--input", "{"], "--input is not JSON"),
        (["drill", "--changed"], "there is no journal amends.db"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(amends: Shell, words: list[str], complaint: str) -> None:
    assert complaint in amends.here(*words).complaint
