"""Somebody's directory is open to everybody: each refusal says the command that mends it, and after these it works."""

import os
import re
import subprocess
from pathlib import Path

from tests.cli.shell import Shell

SAGA = "version: v1\nsaga: s\nsteps: [{id: a, run: ['true'], read_only: true}]\n"
POLICY = "version: v1\ndefault: allow\nrules: []\n"


def mend(complaint: str) -> str:
    found = re.search(r"run: (.*?)(; if |$)", complaint)
    assert found is not None, complaint
    subprocess.run(["/bin/sh", "-c", found[1]], check=True)
    return found[1]


def test_whoever_runs_the_commands_that_the_refusals_say_can_go_on(tmp_path: Path) -> None:
    place = tmp_path / "a project"
    place.mkdir()
    amends = Shell(place)
    (place / "saga.yaml").write_text(SAGA)
    (place / "policy.yaml").write_text(POLICY)
    (place / "amends.toml").write_text('policy = "policy.yaml"\n')
    assert amends("run", "saga.yaml").code == 0
    (place / "amends.db-wal").touch()
    for name in ("amends.db", "amends.db-wal", "amends.db.key", "amends.toml", "policy.yaml", "saga.yaml"):
        (place / name).chmod(0o666)
    place.chmod(0o777)
    done = list[str]()
    while (said := amends("run", "saga.yaml")).code == 2:
        done.append(mend(said.complaint))
        assert len(done) == len(set(done)), "a command that mends nothing"
    assert said.code == 0, said
    assert [line.split(" ")[1] for line in done] == ["go-w", "go-w", "go-w", "go-w", "600", "600", "600"]
    assert amends("doctor").out.count("rights") == 2
    assert {path.stat().st_uid for path in place.iterdir()} == {os.geteuid()}


def test_a_policy_that_changed_is_adopted_by_the_command_that_the_refusal_says(tmp_path: Path) -> None:
    amends = Shell(tmp_path)
    (tmp_path / "saga.yaml").write_text(SAGA)
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "amends.toml").write_text('policy = "policy.yaml"\n')
    assert amends("run", "saga.yaml").code == 0
    (tmp_path / "policy.yaml").write_text(POLICY.replace("[]", "[{id: no, when: {topic: x.y}, decision: deny}]"))
    complaint = amends("run", "saga.yaml").complaint
    found = re.search(r"saying why: amends (policy adopt .*?); or leave it out", complaint)
    assert found is not None, complaint
    assert amends(*found[1].replace("REASON", "soon").split(), "--by", "person:kim").code == 0
    assert amends("run", "saga.yaml").code == 0
