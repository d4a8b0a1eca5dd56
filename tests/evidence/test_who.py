"""Every fact has somebody behind it."""

from dataclasses import replace

import pytest

from amends.core import events as e
from amends.core.words.values import RUNTIME
from amends.evidence.story.timeline import GATE, who
from amends.testing.journal_suite.samples import EVERY_EVENT

AGENT = "agent:bot"


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: type(event).__name__)
def test_each_fact_has_an_actor(event: e.Event) -> None:
    assert who(event, AGENT)


def test_people_sign_what_they_do() -> None:
    (granted,) = [event for event in EVERY_EVENT if isinstance(event, e.ApprovalGranted)]
    assert who(granted, AGENT) == "person:bob"
    (let_run, *_) = [event for event in EVERY_EVENT if isinstance(event, e.CompensationStarted)]
    assert who(let_run, AGENT) == RUNTIME
    assert who(replace(let_run, let_run_by="person:ann"), AGENT) == "person:ann"


def test_the_agent_asks_the_gate_judges_the_runtime_sees() -> None:
    seen = {type(event): who(event, AGENT) for event in EVERY_EVENT}
    assert seen[e.ActionDispatched] == seen[e.AttemptStarted] == seen[e.SagaCompleted] == AGENT
    assert seen[e.ActionDenied] == seen[e.ApprovalRequested] == GATE
    assert seen[e.AttemptSucceeded] == seen[e.CompensationSucceeded] == seen[e.IncidentOpened] == RUNTIME
