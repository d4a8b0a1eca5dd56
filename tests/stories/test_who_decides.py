"""Somebody tries a saga alone, in development: they decide themselves, and whoever looks later sees that they did."""

from pathlib import Path

import pytest

from amends.runtime.declare.names import login
from tests.cli.shell import Shell

STEPS = """version: v1
saga: clean
steps:
  - {id: wipe, shell: "echo wiped >> world.txt", compensate: {shell: "test -e mended"}}
  - {id: check, run: ["false"], read_only: true}
"""


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    amends = Shell(tmp_path)
    (tmp_path / "clean.yaml").write_text(STEPS, encoding="utf-8")
    amends.policy("{id: ask, when: {topic: clean.wipe, phase: forward}, decision: require_human}")
    return amends


def run(amends: Shell, *words: str) -> None:
    given = ("--id", "c-1", "--policy", "policy.yaml", "--compensation-attempts", "1", *words)
    assert amends("run", "clean.yaml", *given).code == 6


def test_in_development_alone_and_on_record_as_their_own(amends: Shell) -> None:
    run(amends, "--env", "dev")
    granted = amends("approval", "grant", "c-1/1", "--yes")
    assert f"approval c-1/1 granted by {login()} (own decision)" in granted.out
    assert f"agreed      {login()} (own decision)" in amends("approval", "show", "c-1/1").out
    assert amends("resume").code == 4
    resolved = amends("incident", "resolve", "c-1/1", "--reason", "by hand")
    assert (resolved.code, "(own decision)" in resolved.out) == (0, True)
    assert f"by {login()} (own decision), who vouches for it: by hand" in amends("incident", "show", "c-1/1").out
    told = amends("evidence", "show", "c-1", "--json").out
    assert told.count('"own": true') == 2


def test_elsewhere_it_takes_somebody_else(amends: Shell) -> None:
    run(amends, "--env", "staging")
    assert "any other person may" in amends("approval", "grant", "c-1/1", "--yes").complaint
    assert "any other person may" in amends("approval", "refuse", "c-1/1", "--why", "w").complaint
    assert amends("approval", "grant", "c-1/1", "--yes", "--by", "person:kim").code == 0
    assert amends("resume").code == 4
    assert "any other person may" in amends("incident", "resolve", "c-1/1", "--reason", "by hand").err
    assert amends("incident", "resolve", "c-1/1", "--reason", "by hand", "--by", "person:kim").code == 0
    assert "own decision" not in amends("saga", "show", "c-1").out
