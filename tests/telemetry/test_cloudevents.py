"""CloudEvents: every fact, in order, with neither secrets nor keys."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import amends
from amends import Coordinator, SagaDefinition, Secret, Work, register
from amends.telemetry.cloudevents import lines
from tests.cli.shell import Shell
from tests.runtime.test_approvals import driven

CANARY = "canary-7777"


def definition(keys: list[str]) -> SagaDefinition:
    async def pay(order: str, card: Secret) -> str:
        keys.append(amends.key())
        return order

    paid = register("events.pay", pay, idempotent=True, no_rollback="it is only a test")

    async def body(s: Work, order: str, card: Secret) -> None:
        await s.do(paid, order, card)

    return SagaDefinition("events.saga", function=body)


@driven
async def test_every_fact_is_an_event_that_the_command_prints_too(tmp_path: Path) -> None:
    keys, told, path = list[str](), io.StringIO(), str(tmp_path / "amends.db")
    async with Coordinator.open(path) as coordinator:
        coordinator.observe(lines(told))
        ended = await coordinator.run(definition(keys), "o-1", Secret(CANARY), id="events-1")
        assert ended.status == "completed"
    assert CANARY not in told.getvalue()
    assert keys[0] not in told.getvalue()
    events = [json.loads(line) for line in told.getvalue().splitlines()]
    assert [event["type"] for event in events][0 :: len(events) - 1] == ["amends.saga.started", "amends.saga.completed"]
    for number, event in enumerate(events, 1):
        _is_a_cloud_event(event)
        assert event["id"] == f"events-1/{number}"
    shell = Shell(tmp_path)
    printed = [json.loads(line) for line in shell("evidence", "events", "events-1", "--journal", path).out.splitlines()]
    assert [{**event, "amendsposition": 0} for event in printed] == [{**event, "amendsposition": 0} for event in events]
    later = shell("evidence", "events", "--after", str(printed[0]["amendsposition"]), "--journal", path).out
    assert len(later.splitlines()) == len(events) - 1


def _is_a_cloud_event(event: dict[str, Any]) -> None:
    """What the specification requires, and how names of attributes may look."""
    assert event["specversion"] == "1.0"
    assert all(isinstance(event[name], str) and event[name] for name in ("id", "source", "type", "subject"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"])
    assert all(re.fullmatch(r"[a-z0-9]{1,20}", name) for name in event)
