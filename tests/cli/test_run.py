"""`amends run`: a saga from the command line, its story as it happens, and its end as an exit code."""

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, cast

from tests.cli.shell import PATIENCE_S, Shell

LAMP = '{"item": "lamp", "cents": 900}'
DEAR_LAMP = '{"item": "lamp", "cents": 90000}'


def test_a_saga_that_completes_ends_with_0_and_its_story(amends: Shell) -> None:
    said = amends("run", "shop:buy", "--input", LAMP, "--id", "b-1", "--actor", "agent:ann")
    assert said.code == 0
    assert said.err == ""
    first, *story, end = said.out.splitlines()
    assert first == "saga b-1"
    assert [line[14:] for line in story] == [
        "saga         shop.buy/1 started by agent:ann in development: cents=900 item=lamp",
        "forward   1  stock.reserve     reserve item=lamp (attempt 1)",
        "forward   1  stock.reserve     succeeded: R-lamp",
        "forward   2  payments.charge   charge cents=900 (attempt 1)",
        'forward   2  payments.charge   succeeded: "paid 900"',
        'saga         completed: {"paid": "paid 900", "reserved": "R-lamp"}',
    ]
    assert end == 'saga b-1 completed: {"reserved": "R-lamp", "paid": "paid 900"}'


def test_a_saga_that_is_rolled_back_ends_with_3(amends: Shell) -> None:
    said = amends("run", "shop:buy", "--input", DEAR_LAMP)
    assert said.code == 3
    assert "back      1  stock.reserve     compensation succeeded" in said.out
    assert said.out.splitlines()[-1].endswith("rolled back: payments.charge: the bank declined the card")
    assert amends.world == ["+ lamp", "- lamp"]


def test_a_saga_that_needs_a_person_ends_with_4_and_says_where_to_look(amends: Shell) -> None:
    said = amends("run", "shop:tidy", "--id", "t-1")
    assert said.code == 4
    assert said.out.splitlines()[-2:] == [
        "saga t-1 incident: RuntimeError: the robot is jammed (shop.py:48, in move_back)",
        "  amends incident show t-1/1",
    ]


def test_a_saga_that_the_gate_stops_ends_with_5_rolled_back(amends: Shell) -> None:
    said = amends("run", "shop:paint", "--env", "production")
    assert said.code == 5
    assert "repaint colour=red denied by builtin-undeclared" in said.out
    assert amends.world == ["+ ladder", "- ladder"]
    assert amends("run", "shop:paint").code == 0


def test_a_saga_that_another_process_drives_is_joined_and_ends_with_6(amends: Shell) -> None:
    with amends.awaiting_lorry("deliver", "--id", "d-1") as first:
        second = amends("run", "shop:deliver", "--id", "d-1")
        assert second.code == 6
        assert "lorry.wait" in second.out
        assert second.out.splitlines()[-1] == "saga d-1 running"
        amends.let_lorry_come()
        assert first.wait(PATIENCE_S) == 0
    assert amends.world == ["+ ramp"]


def test_the_same_id_twice_is_one_saga(amends: Shell) -> None:
    first = amends("run", "shop:buy", "--input", LAMP, "--id", "b-1")
    second = amends("run", "shop:buy", "--input", LAMP, "--id", "b-1")
    assert second.code == 0
    assert second.out.splitlines()[:-1] == first.out.splitlines()[:-1]
    assert amends.world == ["+ lamp"]
    other = amends("run", "shop:buy", "--input", DEAR_LAMP, "--id", "b-1")
    assert "saga b-1 exists already" in other.complaint


def test_the_input_can_be_a_file_or_stdin(amends: Shell) -> None:
    (amends.place / "lamp.json").write_text(LAMP, encoding="utf-8-sig")
    assert amends("run", "shop:buy", "--input", "@lamp.json").code == 0
    assert amends("run", "shop:buy", "--input", "-", stdin=DEAR_LAMP.encode()).code == 3


def test_without_input_a_saga_takes_its_defaults_and_one_value_alone_where_that_is_asked_for(amends: Shell) -> None:
    (amends.place / "unjammed").touch()
    assert "shelf=A" in amends("run", "shop:tidy").out
    assert "shelf=B" in amends("run", "shop:tidy", "--input", '"B"', "--input-as", "shelf").out
    refused = amends.here("run", "shop:tidy", "--input", '"B"').complaint
    assert refused == "saga shop.tidy takes an object of inputs, not 'B'; write {\"shelf\": …}, or say --input-as shelf"


def test_json_is_each_entry_and_then_the_end(amends: Shell) -> None:
    said = amends("run", "shop:buy", "--input", DEAR_LAMP, "--id", "b-1", "--label", "team=a", "--json")
    assert said.code == 3
    *entries, end = said.records
    assert [entry["number"] for entry in entries] == list(range(1, len(entries) + 1))
    assert {entry["type"] for entry in entries} == {"entry"}
    assert entries[0]["name"] == "saga.started/1"
    assert entries[0]["body"]["labels"] == {"team": "a"}
    assert all(len(entry["hash"]) == 64 for entry in entries)
    assert (end["type"], end["id"], end["status"], end["cause"]) == ("ended", "b-1", "rolled_back", "fatal")


def test_what_a_saga_prints_does_not_come_between_the_lines_of_json(amends: Shell) -> None:
    said = amends("run", "shop:chat", "--json")
    assert said.code == 0
    assert said.records[-1]["result"].startswith("\x1b[31m")
    assert "a word on stdout" in said.err
    assert said.out.isascii()
    assert "a word on stdout" in amends("run", "shop:chat").out


def test_a_result_cannot_paint_the_terminal(amends: Shell) -> None:
    said = amends("run", "shop:chat")
    assert '"\\x1b[31mred\\x1b[0m \\u202ereversed"' in said.out
    assert said.out.replace("\n", "").isprintable()


def test_a_secret_is_never_shown(amends: Shell) -> None:
    told = amends("run", "shop:log_in", "--id", "l-1")
    assert "use password=secret (attempt 1)" in told.out
    for said in (told, amends.here("saga", "show", "l-1"), amends.here("saga", "show", "l-1", "--json")):
        assert "hunter2" not in said.out + said.err


def test_what_the_encoding_of_the_terminal_lacks_is_an_escape(amends: Shell) -> None:
    said = amends(
        "run", "shop:buy", "--input", json.dumps({"item": "Läufer 日本", "cents": 1}), PYTHONIOENCODING="ascii"
    )
    assert said.code == 0
    assert "L\\xe4ufer \\u65e5\\u672c" in said.out


def test_a_journal_in_memory_is_enough_for_one_run(amends: Shell) -> None:
    assert amends("run", "shop:buy", "--input", LAMP, "--journal", ":memory:").code == 0
    assert not (amends.place / "amends.db").exists()


def test_the_journal_can_be_named_by_the_environment(amends: Shell) -> None:
    assert amends("run", "shop:buy", "--input", LAMP, AMENDS_JOURNAL="other.db").code == 0
    assert (amends.place / "other.db").exists()


def test_the_journal_can_be_named_by_an_address(amends: Shell) -> None:
    for journal in (f"sqlite:///{amends.place}/other.db", "sqlite:///near.db"):
        assert "there is no journal" in amends.here("saga", "list", "--journal", journal).complaint
        assert amends.here("run", "shop:buy", "--input", LAMP, "--journal", journal).code == 0
        assert len(amends.here("saga", "list", "--json", "--journal", journal).records) == 1


def test_a_saga_goes_on_when_its_story_has_nowhere_to_go(amends: Shell) -> None:
    command = [sys.executable, "-m", "amends.cli.main", "run", "shop:buy", "--input", DEAR_LAMP]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            command, cwd=amends.place, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
        )
    assert (done.returncode, done.stderr) == (3, "amends: what follows cannot be shown: No space left on device\n")


def test_a_saga_goes_on_when_nobody_reads_its_story_any_more(amends: Shell) -> None:
    with amends.started("run", "shop:buy", "--input", DEAR_LAMP) as process:
        cast("IO[str]", process.stdout).close()
        assert process.wait(PATIENCE_S) == 3
        assert cast("IO[str]", process.stderr).read() == ""
    assert amends.world == ["+ lamp", "- lamp"]


def test_ctrl_c_lets_what_runs_finish_and_says_how_to_go_on(amends: Shell) -> None:
    with amends.awaiting_lorry("unload", "--id", "u-1", "--journal", "a.db") as process:
        stderr = cast("IO[str]", process.stderr)
        process.send_signal(signal.SIGINT)
        assert "stopping" in stderr.readline()
        amends.let_lorry_come()
        assert process.wait(PATIENCE_S) == 130
        told = stderr.read()
    assert told == "amends: interrupted; saga u-1 is unfinished; go on with: amends resume shop --journal a.db\n"
    assert amends.here("resume", "shop", "--journal", "a.db").out.endswith('saga u-1 completed: "it is here"\n')
    assert amends.world == ["+ shelf"]


def test_ctrl_c_during_the_last_step_still_ends_the_saga(amends: Shell) -> None:
    with amends.awaiting_lorry("deliver", "--id", "d-1") as process:
        stderr = cast("IO[str]", process.stderr)
        process.send_signal(signal.SIGINT)
        assert "stopping" in stderr.readline()
        amends.let_lorry_come()
        assert process.wait(PATIENCE_S) == 130
        assert stderr.read() == "amends: interrupted; saga d-1 is completed all the same\n"


def test_ctrl_c_again_does_not_wait(amends: Shell) -> None:
    with amends.awaiting_lorry("deliver", "--id", "d-1") as process:
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
        assert process.returncode in {130, -signal.SIGINT}
    assert amends.here("saga", "list", "--json").records[0]["status"] == "running"


def test_sigterm_keeps_the_outcome_of_what_was_running_and_then_ends_the_process(amends: Shell) -> None:
    with amends.awaiting_lorry("deliver", "--id", "d-1") as process:
        process.send_signal(signal.SIGTERM)
        amends.let_lorry_come()
        assert process.wait(PATIENCE_S) == -signal.SIGTERM
        assert "Traceback" not in cast("IO[str]", process.stderr).read()
    names = [entry["name"] for entry in amends.here("saga", "show", "d-1", "--json").of_type("entry")]
    assert names.count("attempt.succeeded/1") == 2
    assert "attempt.lost/1" not in names


def test_the_script_is_the_same_program(amends: Shell) -> None:
    script = f"{sys.exec_prefix}/bin/amends"
    done = subprocess.run(
        [script, "run", "shop:buy", "--input", LAMP, "--json"],
        cwd=amends.place,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "completed"
