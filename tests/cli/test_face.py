"""new, action, doctor, watch, retry, completion and schema: what they say, and that it is true."""

import json
import subprocess
import sys

import pytest

from tests.cli.shell import PATIENCE_S, Shell

BARE = """\
from amends import action, saga

@action("mail.send")
def send(to: str) -> None: ...

@action("mail.read", read_only=True)
def read() -> None: ...

@saga("mail.all")
async def all_mail(s) -> None:
    await s.do(send, "ann")
"""


# new


def test_the_starter_runs_is_tested_and_passes_its_drill(amends: Shell) -> None:
    said = amends("new", "mine", "--name", "cupboard")
    assert (said.code, said.err) == (0, "")
    inside = Shell.__new__(Shell)
    inside.place = amends.place / "mine"
    assert inside("run", "cupboard:stock", "--input", '{"thing": "a cup"}').code == 0
    assert inside("run", "cupboard:stock", "--input", '{"thing": "a grand piano"}').code == 3
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    tested = subprocess.run(words, cwd=inside.place, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "3 passed" in tested.stdout, tested.stdout + tested.stderr
    assert inside("drill", "cupboard:stock", "--input", '{"thing": "a cup"}', "--strict").code == 0
    check = checks(inside, "--module", "cupboard")["drills"]
    assert check["state"] == "ok"
    assert check["found"].startswith("all 1 were drilled, the oldest ")


def test_nothing_that_exists_is_overwritten(amends: Shell) -> None:
    assert amends("new", ".").code == 0
    assert "has shelf.py already" in amends("new", ".").complaint
    assert "is not a module's name" in amends("new", "x", "--name", "A b").complaint


# action


def test_actions_that_say_nothing_are_found(amends: Shell) -> None:
    (amends.place / "bare.py").write_text(BARE, encoding="utf-8")
    listed = amends("action", "list", "bare", "--undeclared", "--json")
    assert (listed.code, [each["topic"] for each in listed.of_type("action")]) == (1, ["mail.send"])
    checked = amends("action", "check", "bare", "--json")
    assert checked.code == 1
    assert [each["what"] for each in checked.of_type("advice")] == ["undeclared", "unprobed"]
    assert "did you mean mail.send?" in amends("action", "show", "mail.sent", "bare").complaint
    assert "undeclared" in amends("action", "show", "mail.send", "bare").out


def test_what_says_everything_passes(amends: Shell) -> None:
    assert amends("new", ".").code == 0
    assert amends("action", "list", "shelf", "--undeclared").code == 0
    assert amends("action", "check", "shelf").out == "shelf: 2 actions\n"


def test_all_mistakes_of_a_file_are_told_at_once(amends: Shell) -> None:
    text = "version: v1\nsaga: x\nsteps:\n  - {id: a, rum: [b]}\n  - {id: a, run: c}\n"
    (amends.place / "s.yaml").write_text(text, encoding="utf-8")
    said = amends("action", "check", "s.yaml")
    assert said.code == 1
    assert said.out.splitlines() == [
        "s.yaml:4: unknown key 'rum' in a step; did you mean run?",
        "s.yaml:4: step a has no run, no shell and no http; say what it does",
        "s.yaml:5: id 'a' twice; the first is in line 4",
        "s.yaml:5: run has to be a list, as in [c]; a text for a shell is `shell:`",
    ]
    first = "s.yaml:4: unknown key 'rum' in a step; did you mean run? (and more: amends action check s.yaml)"
    assert amends("run", "s.yaml").complaint == first
    assert not (amends.place / "amends.db").exists()


# doctor


def checks(amends: Shell, *words: str) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in amends("doctor", "--json", *words).of_type("check")}


def test_a_healthy_journal_has_nothing_wrong(amends: Shell) -> None:
    assert amends("run", "shop:chat").code == 0
    found = checks(amends)
    assert {each["state"] for each in found.values()} <= {"ok", "look"}
    assert amends("doctor").code == 0


def test_what_is_wrong_is_told_with_what_to_do(amends: Shell) -> None:
    assert amends("run", "shop:chat").code == 0
    amends.incident()
    (amends.place / "amends.db.key").chmod(0o644)
    (amends.place / "bare.py").write_text(BARE, encoding="utf-8")
    found = checks(amends, "--module", "bare")
    assert (found["incidents"]["state"], found["incidents"]["do"]) == ("look", "amends incident list")
    assert (found["rights"]["state"], found["rights"]["do"]) == ("wrong", f"chmod 600 {amends.place}/amends.db.key")
    assert found["actions"]["found"] == "undeclared: mail.send"
    assert found["drills"]["found"] == "never drilled: mail.send"
    assert amends("doctor", "--module", "bare").code == 1


def test_a_saga_whose_process_is_dead_is_found_at_once_and_one_that_goes_is_left_alone(amends: Shell) -> None:
    with amends.awaiting_lorry("deliver", "--id", "d-1") as process:
        found = checks(amends)["leases"]
        assert (found["state"], found["found"]) == ("ok", "1 going, each driven by a living process")
        process.kill()
        process.wait(PATIENCE_S)
        found = checks(amends)["leases"]
    assert found["state"] == "wrong"
    assert found["found"].startswith("no living process drives d-1 (shop.deliver); nothing new for")
    assert found["do"].startswith("amends resume")


def test_what_is_paused_is_told_with_who_since_when_and_how_it_ends(amends: Shell) -> None:
    assert amends.here("run", "shop:chat").code == 0
    assert checks(amends)["pauses"]["found"] == "nothing is paused"
    asked = ("--topic", "shop.*", "--tenant", "acme", "--why", "it runs wild", "--by", "person:ann")
    assert amends.here("pause", *asked).code == 0
    found = checks(amends)["pauses"]
    assert found["state"] == "look"
    assert found["found"].startswith("topic shop.* and tenant acme, since 20")
    assert found["found"].endswith(" by person:ann: it runs wild")
    assert found["do"] == "amends unpause --topic 'shop.*' --tenant acme"
    assert amends.here(*found["do"].replace("'", "").split()[1:]).code == 0
    assert checks(amends)["pauses"]["state"] == "ok"


def test_what_was_run_from_a_file_can_be_gone_on_with_by_any_code(amends: Shell) -> None:
    assert amends("new", ".").code == 0
    kill = 'kill -9 "$(cut -d " " -f 4 /proc/$PPID/stat)"'  # the command's launcher is a child of amends
    text = f"version: v1\nsaga: x\nsteps:\n  - {{id: a, shell: '{kill}', no_rollback: none}}\n"
    (amends.place / "s.yaml").write_text(text, encoding="utf-8")
    assert amends("run", "s.yaml", "--id", "x-1").code != 0
    found = checks(amends, "--module", "shelf")
    assert found["leases"]["found"].startswith("no living process drives x-1 (x)")
    assert found["resume"]["state"] == "ok"
    assert amends("saga", "check", "shelf").code == 0
    assert "x.a (step 1)" in amends("saga", "rollback", "x-1", "--plan").out


def test_a_damaged_journal_is_wrong_and_no_error(amends: Shell) -> None:
    assert amends("run", "shop:chat").code == 0
    path = amends.place / "amends.db"
    path.write_bytes(b"not a journal at all" * 500)
    (amends.place / "amends.db-wal").unlink(missing_ok=True)
    said = amends("doctor", "--json")
    assert said.code == 1
    assert [each["state"] for each in said.of_type("check") if each["name"] == "settings"] == ["wrong"]


# watch, retry


def test_watch_shows_which_steps_went_back(amends: Shell) -> None:
    amends.incident()
    said = amends("saga", "watch", "tidy")
    assert said.code == 0
    assert said.out.startswith("tidy  incident  ")
    assert "!" in said.out
    entries = amends("saga", "watch", "tidy", "--json").of_type("entry")
    assert [each["number"] for each in entries] == list(range(1, len(entries) + 1))
    assert "no saga has the id nope" in amends("saga", "watch", "nope").complaint


def test_watch_ends_when_what_it_watches_has_ended(amends: Shell) -> None:
    with amends.awaiting_lorry("deliver", "--id", "d-1") as process, amends.started("saga", "watch", "d-1") as watcher:
        assert watcher.stdout is not None
        assert "running" in watcher.stdout.readline()
        amends.let_lorry_come()
        assert process.wait(PATIENCE_S) == 0
        assert watcher.wait(PATIENCE_S) == 0
        assert "completed" in watcher.stdout.read()


def test_watch_on_a_terminal_draws_marks_and_says_what_they_mean(amends: Shell) -> None:
    amends.incident()
    shown = amends.on_terminal("saga", "watch", "tidy").out
    assert "incident" in shown
    assert "! needs a person" in shown


def test_retry_tries_the_open_incident_again(amends: Shell) -> None:
    amends.incident()
    assert amends("incident", "retry", "tidy", "--module", "shop").code == 4, "a saga stands for its open incident"
    again = amends("saga", "retry", "tidy", "--module", "shop")
    assert again.code == 4
    assert "amends: `amends saga retry` is `amends incident retry` by now" in again.err
    assert len(amends("incident", "list", "--json", "--all").of_type("incident")) >= 1
    assert amends("run", "shop:chat", "--id", "c-1").code == 0
    for noun in ("saga", "incident"):
        assert "has no open incident to retry" in amends(noun, "retry", "c-1").complaint
    assert "is not an incident's id" in amends("incident", "retry", "nobody").complaint


# drill


def test_a_saga_from_a_file_can_be_drilled(amends: Shell) -> None:
    step = "{id: a, run: [mkdir, -p, d], probe: [test, -d, d], compensate: [rm, -rf, d]}"
    (amends.place / "s.yaml").write_text(f"version: v1\nsaga: x\nsteps:\n  - {step}\n", encoding="utf-8")
    said = amends("drill", "s.yaml", "--only", "fatal", "--only", "lost-done", "--json")
    assert said.code == 0, said
    assert not (amends.place / "d").exists()


# completion, schema


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(amends: Shell, shell: str) -> None:
    said = amends("completion", shell)
    assert (said.code, "_AMENDS_COMPLETE" in said.out) == (0, True)


def test_commands_and_options_are_completed(amends: Shell) -> None:
    said = amends(_AMENDS_COMPLETE="bash_complete", COMP_WORDS="amends saga w", COMP_CWORD="2")
    assert said.out.splitlines() == ["plain,watch"]


def test_the_schema_is_printed_as_json(amends: Shell) -> None:
    schema = json.loads(amends("schema").out)
    assert schema["properties"]["steps"]["items"]["properties"]["run"]["type"] == "array"


# the help


def test_the_commands_stand_in_groups_by_what_one_wants_to_do(amends: Shell) -> None:
    said = amends("--help").out
    headings = ["Begin:", "Run:", "Look:", "Decide:", "Set up:", "Keep:"]
    assert [line for line in said.split("\n") if line in headings] == headings
    assert "\nCommands:" not in said


def test_the_lines_of_an_example_in_a_help_stay_lines(amends: Shell) -> None:
    said = amends("completion", "--help").out
    assert '    bash   eval "$(amends completion bash)"        in ~/.bashrc\n' in said
    assert "\\b" not in said
