"""A newcomer's diary: each message and each page that once was wrong or confusing, as it reads now.

The program is theirs: an agent that takes on customers, with a CRM in SQLite and a mail that cannot be unsent.
"""

import inspect
import json
import re
import signal
from pathlib import Path

import pytest

from amends import Coordinator, SagaStatus
from amends.types import IncidentKind
from tests.cli.shell import Shell

ROOT = Path(__file__).resolve().parents[2]
AGENT = """
import os
import signal
import sqlite3
from contextlib import closing
from dataclasses import dataclass

import amends
from amends import Done, Work, action, saga


@dataclass
class Contact:
    name: str
    age: int = 0


@action("crm.create_contact", atomic=True)
def create_contact(contact: Contact) -> Contact:
    '''Add a contact to the CRM.'''
    with closing(sqlite3.connect("crm.db")) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS contacts (key, name)")
        db.execute("INSERT INTO contacts VALUES (?, ?)", (amends.key(), contact.name))
    if contact.name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return contact


@create_contact.compensation
def delete_contact(done: Done[Contact]) -> None:
    with closing(sqlite3.connect("crm.db")) as db, db:
        db.execute("DELETE FROM contacts WHERE key = ?", (done.action_key,))


@action("mail.send", no_rollback="a mail cannot be unsent")
def mail(to: str) -> str:
    with open("outbox.txt", "a") as outbox:
        outbox.write(to)
    return to


@saga("customer.contract")
async def contract(s: Work, contact: Contact) -> str:
    await s.do(create_contact, contact)
    return await s.wait_for("signed")


@saga("customer.greet")
async def greet(s: Work, name: str) -> str:
    return mail(name)


@saga("customer.write")
async def write(s: Work, name: str) -> str:
    return await s.do(mail, name)
"""


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    return Shell(tmp_path)


def declared(amends: Shell, text: str) -> str:
    """What is said of a module that declares this."""
    head = "from amends import Work, action, saga\n\n"
    (amends.place / "mine.py").write_text(head + text, encoding="utf-8")
    return amends.here("action", "check", "mine").complaint.partition(" (")[0]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# -- input ------------------------------------------------------------------------------------------------------------


def test_a_missing_input_is_not_null_and_nobody_is_made_of_it(amends: Shell) -> None:
    said = amends.here("run", "agent:contract")
    assert said.complaint == "saga customer.contract needs contact; give it with --input '{\"contact\": …}'"
    assert not (amends.place / "crm.db").exists()


def test_a_mistyped_input_is_not_taken_for_another(amends: Shell) -> None:
    said = amends.here("run", "agent:contract", "--input", '{"contcat": {"name": "ann"}}')
    assert said.complaint == "saga customer.contract has no input 'contcat'; did you mean contact?"
    assert not (amends.place / "crm.db").exists()


def test_what_a_model_chooses_is_held_against_the_annotations(amends: Shell) -> None:
    said = amends.here("run", "agent:contract", "--input", '{"contact": {"name": "ann", "age": "not an int"}}')
    assert said.complaint == "saga customer.contract: contact.age has to be a whole number, not 'not an int'"


def test_a_dataclass_goes_in_and_comes_out(amends: Shell) -> None:
    said = amends.here("run", "agent:contract", "--id", "c-1", "--input", '{"contact": {"name": "ann"}}')
    assert said.code == 6
    assert 'create_contact contact={"age": 0, "name": "ann"} (attempt 1)' in said.out
    assert "  waits for signed: amends saga signal c-1 signed" in said.out + said.err


def test_an_action_is_a_tools_schema(amends: Shell) -> None:
    program = "import agent, json; print(json.dumps(agent.create_contact.schema()))"
    found = json.loads(amends.python("-c", program).out)
    assert (found["name"], found["description"]) == ("crm_create_contact", "Add a contact to the CRM.")
    assert found["parameters"]["required"] == ["contact"]


# -- declarations -----------------------------------------------------------------------------------------------------

ACTION = '@action("a.b")\ndef a(x: int) -> int: ...\n\n\n'


REFUSED = {
    f"{ACTION}@a.compensation\ndef undo(): ...\n": (
        "a.b: its compensation mine:undo, line 7 could never be called: it is called with one argument, a Done: "
        "undo(done); too many positional arguments"
    ),
    f"{ACTION}@a.compensation\ndef undo(done): ...\n@a.compensation\ndef again(done): ...\n": (
        "a.b has a compensation already, mine:undo, line 7, and mine:again, line 9 would take its place unseen; "
        "keep one of them, or declare another action with a topic or a version of its own"
    ),
    'class Tools:\n    @action("a.b", read_only=True)\n    def a(self, x: int) -> int: ...\n': (
        "a.b: mine:Tools.a, line 4 is a method, and no step would give it its object; put @staticmethod above "
        "@action, move it out of the class, or register('a.b', an_object.a)"
    ),
    '@saga("a.b")\nasync def f(s: Work, id: str) -> None: ...\n': (
        "saga a.b: its parameter id is called as an option of amends.run; rename it, or, to have both, declare "
        "@saga('a.b', options=\"apart\"): then id= is the saga's own, and the option is given as options={'id': …}"
    ),
}


@pytest.mark.parametrize(
    ("text", "told"), REFUSED.items(), ids=["no parameter", "a second one", "a method", "a name that collides"]
)
def test_what_cannot_work_is_refused_where_it_is_declared(amends: Shell, text: str, told: str) -> None:
    assert declared(amends, text) == f"module mine cannot be imported: DeclarationError: {told}"


def test_forgetting_s_do_sends_nothing(amends: Shell) -> None:
    said = amends.here("run", "agent:greet", "--env", "production", "--input", '{"name": "ann"}')
    assert said.code == 3
    told = "mail.send was called directly in the function of saga customer.greet, where the gate and the journal"
    assert told in said.out + said.err
    assert "write `await s.do(mail, …)`" in said.out + said.err
    assert not (amends.place / "outbox.txt").exists()


# -- running ----------------------------------------------------------------------------------------------------------


def test_a_saga_whose_process_is_dead_is_not_called_running(amends: Shell) -> None:
    words = ("run", "agent:contract", "--id", "c-1", "--input", '{"contact": {"name": "killed"}}')
    assert amends(*words).code == -signal.SIGKILL
    assert re.search(
        r"^c-1 +driver gone +customer.contract/1 .* go on with: amends resume",
        amends.here("saga", "list").out,
        re.MULTILINE,
    )
    assert "driver gone" in amends.here("saga", "show", "c-1").out


def test_a_script_whose_saga_waits_for_people_gets_it_back(amends: Shell) -> None:
    program = "import agent, amends; print(amends.run(agent.contract, agent.Contact('ann')).status)"
    assert amends.python("-c", program).out == "waiting\n"


def test_one_step_is_one_step(amends: Shell) -> None:
    amends.here("run", "agent:contract", "--id", "c-1", "--input", '{"contact": {"name": "ann"}}')
    plan = amends.here("saga", "rollback", "c-1", "--plan", "--module", "agent")
    assert plan.out.splitlines()[0] == "saga c-1, back to its beginning: 1 step would be taken back"


# -- deciding ---------------------------------------------------------------------------------------------------------


def test_times_are_told_as_people_tell_them(amends: Shell) -> None:
    rules = "version: v1\nrules: [{id: ask, when: {topic: mail.send}, decision: require_human, expires: 2h}]\n"
    (amends.place / "policy.yaml").write_text(rules, encoding="utf-8")
    said = amends.here("run", "agent:write", "--policy", "policy.yaml", "--input", '{"name": "ann"}')
    assert "approval requested from 1 person by ask, within 2 h" in said.out


def test_an_approval_that_nobody_asked_for_is_told_before_anything_else(amends: Shell) -> None:
    amends.here("run", "agent:contract", "--id", "c-1", "--input", '{"contact": {"name": "ann"}}')
    assert amends.here("approval", "grant", "zzz").complaint.startswith("'zzz' is not an approval's id; they look like")
    assert amends.here("approval", "grant", "c-1/9").complaint.startswith("nobody was asked about c-1/9")


def test_nobody_is_told_to_change_the_rights_of_a_file_that_is_no_journal(amends: Shell) -> None:
    (amends.place / "agent.py").chmod(0o644)
    complaint = amends.here("saga", "list", "--journal", "agent.py").complaint
    assert complaint.endswith("agent.py is no journal, and no database at all; name another file")


# -- help -------------------------------------------------------------------------------------------------------------


def test_the_help_of_completion_has_a_line_for_each_shell(amends: Shell) -> None:
    said = amends.here("completion", "--help").out
    assert "\\b" not in said
    assert re.findall(r"^    (bash|zsh|fish)   .*completion", said, re.MULTILINE) == ["bash", "zsh", "fish"]


def test_the_commands_stand_in_groups(amends: Shell) -> None:
    said = amends.here("--help").out
    assert re.findall(r"^(\w[\w ]*):$", said, re.MULTILINE)[1:] == ["Begin", "Run", "Look", "Decide", "Set up", "Keep"]


# -- pages ------------------------------------------------------------------------------------------------------------


def test_the_readme_says_what_surprises_at_first() -> None:
    readme = page("README.md")
    for said in ("The command's exit code is 3", "amends.db.key", "LangGraph", "pip install path/to/this/repository"):
        assert said in readme


@pytest.mark.parametrize("name", ["docs/do/incidents.md", "docs/understand/concepts.md"])
def test_a_table_says_of_every_kind_of_incident_what_it_is(name: str) -> None:
    rows = [line.split("|")[1] for line in page(name).splitlines() if line.startswith("| `")]
    told = {kind for row in rows for kind in re.findall(r"`(\w+)`", row)}
    assert {kind.value for kind in IncidentKind} <= told


def test_the_page_on_incidents_begins_with_what_to_do() -> None:
    text = page("docs/do/incidents.md")
    asked = ["amends incident list", "amends incident show", "| kind |", "sudo -u", "When is a retry safe", "```python"]
    places = [text.index(one) for one in asked]
    assert places == sorted(places)
    first = text.partition("| kind |")[2].partition("\n\n")[0]
    assert {kind.value for kind in IncidentKind} <= set(re.findall(r"`(\w+)`", first))


def test_the_reference_has_every_status_and_every_parameter() -> None:
    text = page("docs/look-up/python.md")
    assert "not used yet" not in text
    statuses = text.partition("### `SagaStatus`")[2].partition("###")[0]
    assert {status.value for status in SagaStatus} <= set(re.findall(r"`(\w+)`", statuses))
    opening = text.partition("| parameter of `open` |")[2].partition("\n\n")[0]
    assert set(inspect.signature(Coordinator.open).parameters) <= set(
        re.findall(r"^\| `(\w+)` \|", opening, re.MULTILINE)
    )


def test_no_page_installs_from_an_index_that_does_not_have_it() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    installing = [
        line for one in pages for line in one.read_text(encoding="utf-8").splitlines() if "pip install" in line
    ]
    assert installing
    assert [line for line in installing if re.search(r"pip install (-e )?[\"']?amends\b(?!-)", line)] == []


def test_the_pages_name_rules_and_guides_that_there_are() -> None:
    builtin = (ROOT / "src/amends/gate/builtin.yaml").read_text(encoding="utf-8")
    named = set(re.findall(r"\bbuiltin-[a-z]+(?:-[a-z]+)*", page("docs/do/notices.md") + page("docs/do/approvals.md")))
    assert named
    assert named <= set(re.findall(r"id: (\S+)", builtin))
    for one in (ROOT / "docs").rglob("*.md"):
        assert "guide that this" not in one.read_text(encoding="utf-8").replace("\n", " ")
    assert "evidence record" in page("docs/do/operations.md").partition("## Backup")[2].partition("##")[0]


def test_what_is_compared_is_compared_with_us_and_with_engines() -> None:
    text = page("docs/understand/comparison.md")
    for system in (r"\*\*amends\*\*", "Temporal", "Restate", "DBOS", "LangGraph"):
        assert re.search(rf"^\| {system}.*\d", text, re.MULTILINE)


# -- told elsewhere ---------------------------------------------------------------------------------------------------

TOLD_ELSEWHERE = {
    "the traceback of one's own exception, and a bug that was retried fifty times": "test_mistakes_in_my_code",
    "Fatal in a read-only action, which was told as lost": "test_read_only",
    "--module MODULE in hints, and nothing to resume where something was": "test_which_module",
    "two numbers for one step": "test_one_number_per_step",
    "a throttled step that waited in silence": "test_throttled",
    "a doctor who saw no overdue retry, no missing key, no newer journal": "test_what_the_doctor_sees",
    "conflicts in one line, work in review, a limit's incident, prune that asked nobody": "test_what_waits_for_people",
    "a journal that grew with the square of an agent's history": "test_agent_loops",
    "columns that jumped, 120 minutes, one sagas": "test_small_words",
}


def test_what_is_told_elsewhere_is_told() -> None:
    stories = {each.stem for each in Path(__file__).parent.glob("test_*.py")}
    assert set(TOLD_ELSEWHERE.values()) <= stories
