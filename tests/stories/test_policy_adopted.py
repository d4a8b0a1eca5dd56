"""A policy is adopted while an approval waits: the work goes on, or is taken back, as the policy of now says."""

import sqlite3
import time
from pathlib import Path

import pytest

from tests.cli.shell import PATIENCE_S, Shell

SAGAS = """
from amends import Done, Work, action, saga


@action("n.put")
def put(k: str) -> None:
    open(k, "w").close()


@put.compensation
def unput(done: Done) -> None:
    import os

    os.remove(done.args["k"])


@action("n.irr", no_rollback="it is out")
def irr(k: str) -> None:
    open(k + ".out", "w").close()


@saga("app")
async def app(s: Work) -> None:
    await s.do(put, "a")
    await s.do(irr, "a")
"""
RULES = "version: v1\ndefault: allow\nrules:\n  - {id: %s, when: {topic: n.irr, phase: forward}, decision: %s}\n"
ADOPT = ("--by", "person:b", "--why", "w")
ENDINGS: dict[str, tuple[str, list[str]]] = {"allow": ("completed", ["a", "a.out"]), "deny": ("rolled back", [])}


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "mod.py").write_text(SAGAS)
    for name, decision in {"a": "require_human, expires: 1h", "allow": "allow", "deny": "deny"}.items():
        (tmp_path / f"{name}.yaml").write_text(RULES % (name, decision))
    return shell


def made(place: Path) -> list[str]:
    return sorted(each.name for each in place.glob("a*") if each.name in {"a", "a.out"})


@pytest.mark.parametrize("decision", ENDINGS)
def test_after_adopt_resume_goes_by_the_new_policy(amends: Shell, decision: str) -> None:
    status, left = ENDINGS[decision]
    assert amends("run", "mod:app", "--id", "s", "--policy", "a.yaml").code == 6
    adopted = amends("policy", "adopt", f"{decision}.yaml", *ADOPT)
    assert adopted.code == 0, adopted
    assert "no open approvals" in amends("approval", "list").out
    assert "amends resume mod;" in amends("approval", "grant", "s/2", "--yes", "--by", "person:kim").complaint
    assert f"saga s {status}" in amends("resume", "mod").out
    assert made(amends.place) == left


@pytest.mark.parametrize("decision", ENDINGS)
def test_a_process_that_waits_takes_it_up_by_itself(amends: Shell, decision: str) -> None:
    status, left = ENDINGS[decision]
    with amends.started("run", "mod:app", "--id", "s", "--policy", "a.yaml", "--wait") as waits:
        until = time.monotonic() + PATIENCE_S
        while "s/2" not in asked(amends.place):
            assert time.monotonic() < until
            time.sleep(0.05)
        amends("policy", "adopt", f"{decision}.yaml", *ADOPT)
        out, _ = waits.communicate(timeout=20)
    assert f"saga s {status}" in out
    assert made(amends.place) == left


def asked(place: Path) -> list[str]:
    """What people are asked just now, by the journal's own table: a whole command for each look would take long."""
    try:
        with sqlite3.connect(f"file:{place / 'amends.db'}?mode=ro", uri=True) as database:
            rows = database.execute("SELECT step FROM approval WHERE status = 'requested'").fetchall()
    except sqlite3.OperationalError:
        return []
    return [f"s/{step}" for (step,) in rows]
