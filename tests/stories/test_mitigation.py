"""A mail cannot be unsent; a person may have the saga taken back all the same, and the record says mitigated."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from amends import Coordinator, Done, Work, register, saga
from amends.errors import PastPivotError
from tests.cli.shell import Shell

MODULE = """
from pathlib import Path

from amends import Done, Fatal, NotDone, Work, action, saga


def log(line):
    with open("world.txt", "a") as file:
        file.write(line + "\\n")


@action("seat.take")
def take(seat: str) -> str:
    log(f"take {seat}")
    return seat


@take.compensation
def give_back(done: Done) -> None:
    log(f"give back {done.args['seat']}")


@action("mail.send", no_rollback="a mail cannot be unsent", compensation_retries=1)
def send(to: str) -> str:
    log(f"send {to}")
    return f"<{to}>"


@send.mitigation
def apologise(done: Done) -> None:
    "Send a mail that says that the first one was wrong."
    if Path("down").exists():
        raise NotDone("the mail server is away")
    log(f"sorry {done.args['to']} for {done.result}")


@action("fax.send", no_rollback="on paper")
def fax(to: str) -> None:
    log(f"fax {to}")


@saga("trip")
async def trip(s: Work, to: str) -> None:
    await s.do(take, "12a")
    await s.do(send, to)
    await s.do(take, "12b")


@saga("broken")
async def broken(s: Work) -> None:
    await s.do(take, "12a")
    await s.do(send, "ann")
    raise Fatal("no room")


@saga("paper")
async def paper(s: Work) -> None:
    await s.do(send, "ann")
    await s.do(fax, "bob")


@saga("family")
async def family(s: Work) -> None:
    await s.do(take, "1c")
    await s.call(trip, "ann")


@saga("paper.family")
async def paper_family(s: Work) -> None:
    await s.call(paper)
"""


def trips(tmp_path: Path) -> Shell:
    (tmp_path / "trips.py").write_text(MODULE)
    return Shell(tmp_path)


def evidence(amends: Shell, saga: str) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(amends("evidence", "record", saga).out))


def world(tmp_path: Path) -> list[str]:
    return (tmp_path / "world.txt").read_text().splitlines()


def test_a_person_takes_a_completed_saga_back_with_mitigation(tmp_path: Path) -> None:
    amends = trips(tmp_path)
    assert amends("run", "trips:trip", "--id", "t", "--input", '{"to": "ann"}').code == 0
    refused = amends("saga", "cancel", "t", "--module", "trips")
    assert refused.code == 2
    assert "amends saga cancel t --mitigate" in refused.err
    planned = amends("saga", "rollback", "t", "--plan", "--mitigate", "--module", "trips")
    assert planned.code == 0, planned
    assert "2 steps would be taken back, 1 mitigated" in planned.out
    assert "mitigated: Send a mail that says that the first one was wrong." in planned.out
    done = amends("saga", "cancel", "t", "--mitigate", "--module", "trips", "--by", "person:eve", "--why", "wrong day")
    assert done.code == 0, done
    assert world(tmp_path)[3:] == ["give back 12b", "sorry ann for <ann>", "give back 12a"]
    assert "mitigated" in amends("saga", "list", "--status", "mitigated").out
    shown = amends("saga", "show", "t").out
    assert "rollback began, with mitigation (asked for by person:eve): wrong day" in shown
    assert "mitigated; its effect stands" in shown
    assert "rolled back" not in shown


def test_the_evidence_says_mitigated_and_verifies_alone(tmp_path: Path) -> None:
    amends = trips(tmp_path)
    amends("run", "trips:trip", "--id", "t", "--input", '{"to": "ann"}')
    amends("saga", "cancel", "t", "--mitigate", "--module", "trips", "--by", "person:eve")
    record = evidence(amends, "t")
    assert (record["status"], record["rollback_triggered"]) == ("MITIGATED", True)
    assert (record["compensation_jobs_dispatched"], record["compensation_jobs_skipped"]) == (3, 0)
    ours = record["amends"]
    assert (ours["status"], ours["mitigated_by"], ours["mitigated"]) == ("mitigated", "person:eve", ["2"])
    assert [step["outcome"] for step in ours["steps"]] == ["compensated", "mitigated", "compensated"]
    assert amends("evidence", "tree-head").code == 0
    assert amends("evidence", "export", "t", "--output", "bundle").code == 0
    key = amends("evidence", "key").out.split()[0]
    assert amends("evidence", "verify", "bundle", "--key", key).code == 0
    (tmp_path / "verify.py").write_text(amends("evidence", "verifier").out)
    alone = [sys.executable, "-I", "verify.py", "bundle", "--key", key]
    assert subprocess.run(alone, cwd=tmp_path, check=False, capture_output=True).returncode == 0


def test_from_the_incident_at_which_it_stopped(tmp_path: Path) -> None:
    amends = trips(tmp_path)
    assert amends("run", "trips:broken", "--id", "b").code == 4
    shown = amends("incident", "show", "b/1").out
    assert "take the saga back, and mitigate what cannot be taken back:" in shown
    assert "incident retry b/1 --mitigate" in shown
    (tmp_path / "down").touch()
    again = amends("incident", "retry", "b/1", "--mitigate", "--module", "trips", "--by", "person:eve")
    assert again.code == 4, again
    assert "mitigation failed" in amends("incident", "show", "b/2").out
    (tmp_path / "down").unlink()
    assert amends("incident", "retry", "b/2", "--module", "trips", "--by", "person:eve").code == 0
    assert world(tmp_path) == ["take 12a", "send ann", "sorry ann for <ann>", "give back 12a"]
    assert evidence(amends, "b")["status"] == "MITIGATED"


def test_refused_with_the_list_of_what_declares_none_in_children_too(tmp_path: Path) -> None:
    amends = trips(tmp_path)
    amends("run", "trips:paper", "--id", "p")
    refused = amends("saga", "cancel", "p", "--mitigate", "--module", "trips", "--by", "person:eve")
    assert "step 2 (fax.send: on paper) took effect, and declares none" in refused.complaint
    amends("run", "trips:paper_family", "--id", "f")
    refused = amends("saga", "cancel", "f", "--mitigate", "--module", "trips", "--by", "person:eve")
    assert "step 2 of child f~1 (fax.send: on paper) took effect, and declares none" in refused.complaint
    by_agent = amends("saga", "cancel", "p", "--mitigate", "--module", "trips", "--by", "agent:bot")
    assert "only people take saga p back with mitigation: any person may" in by_agent.complaint


def test_a_child_past_its_pivot_is_mitigated_with_its_parent(tmp_path: Path) -> None:
    amends = trips(tmp_path)
    assert amends("run", "trips:family", "--id", "f").code == 0
    stopped = amends("saga", "cancel", "f", "--module", "trips", "--by", "person:eve")
    assert stopped.code == 4, stopped
    again = amends("incident", "retry", "f/1", "--mitigate", "--module", "trips", "--by", "person:eve")
    assert again.code == 0, again
    assert world(tmp_path)[4:] == ["give back 12b", "sorry ann for <ann>", "give back 12a", "give back 1c"]
    assert [row["status"] for row in amends("saga", "list", "--json").of_type("saga")] == ["mitigated", "mitigated"]


YAML = """
version: v1
saga: door
steps:
  - id: lock
    shell: echo lock >> world.txt
    compensate: {shell: echo unlock >> world.txt}
  - id: ring
    shell: echo ring >> world.txt; echo loud
    no_rollback: a bell cannot be unrung
    mitigate:
      shell: echo "sorry for $SOUND" >> world.txt
      env: {SOUND: "${result.stdout}"}
      does: Says sorry to the neighbours.
"""


def test_the_same_from_a_yaml_file(tmp_path: Path) -> None:
    (tmp_path / "door.yaml").write_text(YAML)
    amends = Shell(tmp_path)
    ran = amends("run", "door.yaml", "--id", "d")
    assert ran.code == 0, ran
    done = amends("saga", "cancel", "d", "--mitigate", "--by", "person:eve")
    assert done.code == 0, done
    assert world(tmp_path) == ["lock", "ring", "sorry for loud", "unlock"]
    (tmp_path / "bad.yaml").write_text(YAML.replace("    no_rollback: a bell cannot be unrung\n", ""))
    assert "say why with no_rollback, or call it compensate" in amends("run", "bad.yaml").err


def test_from_python_with_a_key_of_its_own_and_facts_that_differ(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: v1\ndefault: allow\nrules:\n"
        "  - id: no-way-back-at-all\n    when: {compensation_declared: false, rollback_supported: false}\n"
        "    decision: deny\n"
    )
    keys: list[tuple[str, str]] = []

    def post(letter: str) -> str:
        return letter.upper()

    def sorry(done: Done) -> None:
        keys.append((done.key, done.action_key))
        if len(keys) == 1:
            raise TimeoutError
        assert (done.args, done.result, done.certain) == ({"letter": "a"}, "A", True)

    sent = register("post.send", post, no_rollback="it is in the box", mitigation=sorry)
    mute = register("post.mute", post, no_rollback="it is in the box")

    @saga("post")
    async def posts(s: Work, *, loud: bool) -> None:
        await s.do(sent if loud else mute, "a")

    async def whole() -> None:
        async with Coordinator.open(str(tmp_path / "a.db"), policy=policy) as coordinator:
            denied = await coordinator.run(posts, loud=False)
            assert (denied.status, denied.cause) == ("rolled_back", "denied")
            done = await coordinator.run(posts, loud=True)
            with pytest.raises(PastPivotError, match="--mitigate"):
                await coordinator.cancel(done.id)
            ended = await coordinator.cancel(done.id, mitigate=True, by="person:eve")
            assert ended.status == "mitigated"

    asyncio.run(whole())
    assert len(keys) == 2
    assert keys[0] == keys[1]
    assert keys[0][0] != keys[0][1]


def test_a_drill_takes_it_back_past_its_pivot(tmp_path: Path) -> None:
    amends = trips(tmp_path)
    wanted = ["--only", "mitigated", "--only", "2:undo-fails"]
    passed = amends("drill", "trips:trip", "--input", '{"to": "ann"}', *wanted, "--json").of_type("cell")
    ended = {cell["fault"]: cell["findings"] for cell in passed}
    assert {*ended} == {"mitigated", "undo-fails"}
    assert not [one for found in ended.values() for one in found if one["outcome"] == "failed"]
    (tmp_path / "down").touch()
    failed = amends("drill", "trips:trip", "--input", '{"to": "ann"}', *wanted)
    assert "step 2 (mail.send): its mitigation fails: the mail server is away" in failed.out
