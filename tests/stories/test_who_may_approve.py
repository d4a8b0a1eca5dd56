"""A policy names `person:[ab]`: the person of that name, and not everybody whom a shell would read into it."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

PROGRAM = """
import asyncio
import amends
import amends.errors

async def main():
    async with amends.Coordinator.open("amends.db") as coordinator:
        approval = (await coordinator.approvals())[0].id
        for who in ("person:a", "person:b", "person:[ab]"):
            try:
                await coordinator.grant(approval, by=who, why="it is time")
                print(who, "granted")
            except amends.errors.RefusedError as exc:
                print(exc)

asyncio.run(main())
"""
STEPS = """version: v1
saga: clean
steps: [{id: wipe, shell: "echo wiped >> world.txt", no_rollback: it is gone}]
"""


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    amends = Shell(tmp_path)
    (tmp_path / "clean.yaml").write_text(STEPS, encoding="utf-8")
    amends.policy('{id: two, when: {topic: "*.*"}, decision: require_human, approvers: ["person:[ab]"]}')
    return amends


def test_from_the_command_line_of_a_yaml_saga(amends: Shell) -> None:
    assert amends("run", "clean.yaml", "--id", "c-1", "--policy", "policy.yaml").code == 6
    refused = amends("approval", "grant", "c-1/1", "--yes", "--by", "person:a")
    assert refused.complaint == "person:a is not among those who may approve step 1 of saga c-1: person:[ab]"
    assert amends("approval", "grant", "c-1/1", "--yes", "--by", "person:[ab]").code == 0
    assert amends("resume", "--policy", "policy.yaml").code == 0
    assert amends.world == ["wiped"]


def test_from_python(amends: Shell) -> None:
    (amends.place / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert amends("run", "clean.yaml", "--id", "c-1", "--policy", "policy.yaml").code == 6
    said = amends.python("program.py")
    assert said.err == ""
    assert said.out.splitlines() == [
        "person:a is not among those who may approve step 1 of saga c-1: person:[ab]",
        "person:b is not among those who may approve step 1 of saga c-1: person:[ab]",
        "person:[ab] granted",
    ]
