"""Verdicts are judged again from the evidence alone, with how old a drill was when the gate was told."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from amends import Coordinator
from amends.core import events as e
from amends.core.words.values import SagaId
from amends.journal.codec import decode
from amends.journal.port.journal import Entry
from amends.runtime.coordinator.recompute import Again, Held, recomputed
from tests.cli.shell import Shell
from tests.stories.test_drills import GOOD

_VERDICTS = (e.ActionDispatched, e.ActionAllowed, e.ActionDenied)
RULES = """version: v1
rules:
  - {id: drilled, when: {topic: n.put, drill.age_days: {lt: 30}}, decision: allow}
  - {id: not-drilled, when: {topic: n.put, phase: forward, drill.age_days: {exists: false}}, decision: deny}
"""


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "n.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(RULES, encoding="utf-8")
    amends = Shell(tmp_path)
    assert amends.here("policy", "adopt", "policy.yaml", "--why", "drills first").code == 0
    assert amends.here("run", "n:good", "--id", "before").code == 5
    assert amends.here("drill", "n:good").code == 0
    assert amends.here("run", "n:good", "--id", "after").code == 0
    return amends


def exported(amends: Shell, *sagas: str) -> tuple[str, ...]:
    assert amends.here("evidence", "export", *sagas, "--output", "bundle").code == 0
    return ("bundle", "--key", amends.here("evidence", "key").out.strip())


def test_a_whole_journal_and_its_bundle_say_that_every_verdict_is_what_its_policy_says(amends: Shell) -> None:
    for words in ((), exported(amends)):
        said = amends.here("evidence", "verify", *words, "--recompute")
        assert (said.code, said.out.splitlines()[-1]) == (0, "2 verdicts as the policy says, 0 not, 0 unknown")


def test_a_bundle_without_the_drill_says_that_its_age_is_not_known(amends: Shell) -> None:
    said = amends.here("evidence", "verify", *exported(amends, "after"), "--recompute")
    assert said.code == 0
    *_, unknown, counts = said.out.splitlines()
    assert unknown == "? 1 verdict: drill.age_days was 0.00, and no drill of it is in the evidence"
    assert counts == "0 verdicts as the policy says, 0 not, 1 unknown"


def test_a_bundle_with_the_drill_holds_its_age_against_it(amends: Shell) -> None:
    (drill,) = amends.here("saga", "list", "--definition", "amends.drill", "--json").of_type("saga")
    said = amends.here("evidence", "verify", *exported(amends, "after", drill["id"]), "--recompute")
    assert (said.code, said.out.splitlines()[-1]) == (0, "1 verdict as the policy says, 0 not, 0 unknown")


def read(journal: Path) -> dict[SagaId, list[Entry]]:
    async def whole() -> dict[SagaId, list[Entry]]:
        async with Coordinator.open(str(journal)) as on:
            return {row.id: list((await on.show(row.id)).entries) async for row in on.list()}

    return asyncio.run(whole())


def told(sagas: dict[SagaId, list[Entry]], saga: str, **told: object) -> list[Again]:
    """What is found where the gate of this saga was told something else, or its rule is another."""
    changed = list[Entry]()
    for entry in sagas[SagaId(saga)]:
        body, is_verdict = json.loads(entry.body), isinstance(entry.event, _VERDICTS)
        event = decode(entry.name, json.dumps({**body, **told})) if is_verdict else entry.event
        changed.append(entry._replace(event=event))
    return [one for one in recomputed({**sagas, SagaId(saga): changed}, is_whole=True) if one.saga == saga]


def test_a_verdict_that_is_not_its_policy_s_is_found_and_so_is_a_drill_that_was_not(amends: Shell) -> None:
    sagas = read(amends.place / "amends.db")
    (fine,) = told(sagas, "after")
    assert fine.held is Held.SAME
    (other,) = told(sagas, "after", rule="not-drilled")
    assert other.held is Held.OTHER
    assert other.why == "it says allow by not-drilled, and its policy allow by drilled"
    (older,) = told(sagas, "after", told={"drill.age_days": 7.5})
    assert (older.held, older.why) == (
        Held.OTHER,
        "drill.age_days was told as 7.50, and by the drills it was 0.00",
    )
    (unknown,) = told(sagas, "after", policy="0" * 64)
    assert (unknown.held, unknown.why) == (Held.UNKNOWN, "policy 000000000000 is not in the evidence")


def test_a_withdrawn_drill_counted_until_then(amends: Shell) -> None:
    (drill,) = amends.here("saga", "list", "--definition", "amends.drill", "--json").of_type("saga")
    assert amends.here("saga", "cancel", drill["id"], "--by", "person:kim").code == 0
    said = amends.here("evidence", "verify", "--recompute")
    assert said.out.splitlines()[-1] == "2 verdicts as the policy says, 0 not, 0 unknown"


def test_what_is_not_as_it_was_signed_is_not_judged_again(amends: Shell) -> None:
    with sqlite3.connect(amends.place / "amends.db") as database:
        database.execute("UPDATE entry SET body = replace(body, 'not-drilled', 'drilled')")
    said = amends.here("evidence", "verify", "--recompute")
    assert said.code == 8
    assert "as the policy says" not in said.out
