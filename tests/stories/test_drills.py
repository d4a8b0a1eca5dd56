"""Drills on a schedule, as an operator has them: a weekly one proves something, and a week without one is noticed."""

import asyncio
import json
from pathlib import Path

import pytest

from amends.addresses import open_journal
from amends.clock import SystemClock
from amends.evidence.drills import drills_on_record, record_drill
from amends.journal.port.journal import SagaQuery
from tests.cli.shell import Shell

GOOD = """
from pathlib import Path

import amends
from amends import Asked, Done, Happened, NotHappened, Work, action, saga


def place(key: str) -> Path:
    return Path(f"{key}.done")


def file(name: str, undo, **more):
    def make(k: str) -> None:
        place(amends.key()).touch()

    def find(asked: Asked) -> Happened | NotHappened:
        return Happened() if place(asked.key).exists() else NotHappened()

    return amends.register(name, make, compensation=undo, probe=find, **more)


def remove(done: Done) -> None:
    place(done.action_key).unlink(missing_ok=True)


def nothing(done: Done) -> None: ...


put = file("n.put", remove)


@saga("n.good")
async def good(s: Work, k: str = "x") -> None:
    await s.do(put, k)
"""
MORE = """
keep = file("n.keep", nothing)
mail = file("n.mail", None, no_rollback="it is out", hold=True)


@saga("n.lazy")
async def lazy(s: Work, k: str = "x") -> None:
    await s.do(put, k)
    await s.do(keep, k)


@saga("n.held")
async def held(s: Work, k: str = "x") -> None:
    await s.do(mail, k)
    await s.do(put, k)


@saga("n.family")
async def family(s: Work, k: str = "x") -> None:
    await s.call(held, k)
    await s.do(put, k)
"""
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
WEEKLY = """
version: v1
default: allow
drill_every: 7d
rules:
  - id: drilled-this-week
    when: {topic: "n.*", phase: forward, env: production, drill.age_days: {gt: 7}}
    decision: deny
"""
IN_PRODUCTION = ("--env", "production")


class LongAgo(SystemClock):
    """A clock that stopped being looked at 400 days ago."""

    def now(self) -> int:
        return super().now() - 400 * 86_400_000


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "mod.py").write_text(GOOD + MORE)
    (tmp_path / "one.py").write_text(GOOD)
    (tmp_path / "touch.yaml").write_text(TOUCH)
    (tmp_path / "weekly.yaml").write_text(WEEKLY)
    return shell


def age(amends: Shell) -> None:
    """Have the drill on record be 400 days old."""

    async def whole() -> None:
        journal = await open_journal(str(amends.place / "amends.db"), SystemClock())
        (drilled,) = [each async for each in drills_on_record(journal)]
        await journal.close()
        (amends.place / "amends.db").unlink()
        clock = LongAgo()
        journal = await open_journal(str(amends.place / "amends.db"), clock)
        await record_drill(journal, clock, drilled, by="system:ci", env="drill")
        assert len((await journal.sagas(SagaQuery())).rows) == 1
        await journal.close()

    asyncio.run(whole())


def states(amends: Shell) -> list[tuple[str, str]]:
    found = amends("doctor", "--module", "one", "--json").of_type("check")
    return [(each["state"], each["found"]) for each in found if each["name"] == "drills"]


def test_a_right_saga_that_holds_something_passes_its_drill_and_so_does_its_family(amends: Shell) -> None:
    for target in ("mod:held", "mod:family"):
        said = amends("drill", target, "--strict", "--json", "--no-record")
        assert said.code == 0, said
        cells = {(each["step"], each["fault"]): each for each in said.of_type("cell")}
        assert cells[None, "taken-back"]["ended"] == "rolled_back"
        assert ("2", "undo-fails") in cells


def test_the_rehearsal_of_failures_does_not_pass_a_last_compensation_that_does_nothing(amends: Shell) -> None:
    for how in (("--only", "fatal"), ("--quick",)):
        said = amends("drill", "mod:lazy", *how)
        assert said.code == 1, said
        assert "step 2 (n.keep): its compensation returned success, and its effect still stands" in said.out


def test_a_quick_drill_takes_three_runs_counts_for_its_age_and_is_on_record_as_quick(amends: Shell) -> None:
    assert amends("policy", "adopt", "weekly.yaml", "--by", "person:ann", "--why", "weekly").code == 0
    assert amends("run", "mod:good", *IN_PRODUCTION).code != 0, "never drilled"
    said = amends("drill", "mod:good", "--quick", "--json")
    (summary,) = said.of_type("summary")
    assert (said.code, summary["kind"], summary["runs"], summary["passed"]) == (0, "quick", 3, 3)
    (row,) = amends("saga", "list", "--definition", "amends.drill", "--json").records
    assert row["labels"] == {"saga": "n.good", "outcome": "passed", "kind": "quick"}
    assert amends("run", "mod:good", "--id", "r", *IN_PRODUCTION).code == 0
    record = json.loads(amends("evidence", "record", "r").out)
    assert record["amends"]["steps"][0]["drilled"]["kind"] == "quick"
    assert "whole drill" in amends("drill", "mod:good", "--quick", "--changed").complaint


def test_a_yaml_saga_has_a_quick_drill_too(amends: Shell) -> None:
    said = amends("drill", "touch.yaml", "--quick", "--input", '{"name": "a"}', "--json")
    assert (said.code, said.of_type("summary")[0]["runs"]) == (0, 3)


def test_a_drill_is_not_pruned_so_what_was_drilled_a_minute_ago_still_is(amends: Shell) -> None:
    amends("policy", "adopt", "weekly.yaml", "--by", "person:ann", "--why", "weekly")
    amends("drill", "mod:good", "--quick")
    assert amends("prune", "--older-than", "0d", "--yes").code == 0
    assert amends("run", "mod:good", *IN_PRODUCTION).code == 0


def test_a_missed_week_is_seen_by_doctor_notices_and_the_gate_until_it_is_drilled_again(amends: Shell) -> None:
    assert amends("drill", "mod:good", "--quick").code == 0
    age(amends)
    assert states(amends) == [("look", "all 1 were drilled, the oldest 400 d ago")]
    amends("policy", "adopt", "weekly.yaml", "--by", "person:ann", "--why", "weekly")
    assert states(amends) == [("wrong", "n.good was drilled 400 d ago, and has to be every 7 d")]
    assert amends("doctor").code == 1
    notify = ("notify", "--command", "tee told.json", "--once")
    assert amends(*notify).code == 0
    told = json.loads((amends.place / "told.json").read_text())
    assert (told["type"], told["data"]["drilled"], told["data"]["target"]) == ("drill.missed", "n.good", "mod:good")
    assert told["data"]["why"] == "n.good was not drilled in time: amends drill mod:good --quick"
    assert "told" not in amends(*notify).out, "once for each week"
    assert amends("run", "mod:good", *IN_PRODUCTION).code != 0
    assert "drill of n.good (mod:good) missed" in amends("saga", "show", "amends.control").out
    late = amends("notify", "--command", "cat", "--once", "--json").of_type("notice")
    assert [each["notice"] for each in late] == ["drill.missed"], "who is new is told what is still so"
    assert amends("drill", "mod:good", "--quick").code == 0
    assert amends("run", "mod:good", *IN_PRODUCTION).code == 0
    assert [state for state, _ in states(amends)] == ["ok"]
    assert amends("evidence", "verify").code == 0
