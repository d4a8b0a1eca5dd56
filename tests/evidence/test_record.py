"""A saga's record has the nine fields that others know, letter for letter."""

import asyncio
import json
from dataclasses import replace

import pytest

from amends.core import events as e
from amends.core.state.saga import replay
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Contract, OnIncident, Reversibility, Topic
from amends.core.words.values import SagaId, StepId
from amends.core.words.verdict import Need
from amends.errors import PayloadRemovedError
from amends.evidence.record import record
from amends.journal.memory import MemoryJournal
from amends.journal.port.evidence import TreeHead
from amends.journal.port.journal import Entry, SagaRow, Summary
from amends.testing.clock import ManualClock

FINISHED = 1_774_964_418_000  # 2026-03-31T13:40:18Z
RULE = "require-compensation-for-prod-writes"
# Word for word from the guide that fixes these fields.
GIVEN = """{
  "run_id": "run_9c2a",
  "job_id": "job_42",
  "status": "FAILED_FATAL",
  "matched_policy_id": "require-compensation-for-prod-writes",
  "rollback_triggered": true,
  "rollback_mode": "lifo_stack",
  "compensation_jobs_dispatched": 3,
  "compensation_jobs_skipped": 1,
  "rollback_finished_at": "2026-03-31T13:40:18Z"
}"""

JOBS = [StepId(f"job_{number}") for number in range(38, 42)]
FAILED = StepId("job_42")


def contract(topic: str) -> Contract:
    return Contract(topic=Topic(topic), reversibility=Reversibility.COMPENSATABLE, on_incident=OnIncident.GO_ON)


def dispatched(step: StepId, rule: str = "builtin-allow") -> e.ActionDispatched:
    topic = f"topic.{step}"
    return e.ActionDispatched(
        step=step,
        topic=Topic(topic),
        version=1,
        args=None,
        digest="",
        rule=rule,
        policy="",
        key=step,
        contract=contract(topic),
    )


def stood(step: StepId) -> list[e.Event]:
    return [dispatched(step), e.AttemptSucceeded(step=step, attempt=1, result=None)]


def compensated(step: StepId) -> list[e.Event]:
    return [
        e.CompensationStarted(step=step, attempt=1, key="", certain=True, rule="builtin-allow", policy=""),
        e.CompensationSucceeded(step=step, attempt=1),
    ]


def awaited(step: StepId) -> list[e.Event]:
    """A step that a person had to allow."""
    topic = f"topic.{step}"
    return [
        e.StepProposed(step=step, topic=Topic(topic), version=1, args=None, digest="", contract=contract(topic)),
        e.ApprovalRequested(
            step=step, digest="", shown={}, rule=RULE, policy="", needs=(Need(rule=RULE),), expires_at=2**50
        ),
        e.ApprovalGranted(step=step, by="ann", digest=""),
        e.AttemptStarted(step=step, attempt=1, key=""),
    ]


STARTED = e.SagaStarted(definition="trip.book", version=1, input=None, actor="agent:a", env="production", labels={})
FATAL = e.AttemptFailed(step=FAILED, attempt=1, error="no", fatal=True, retry_at=None)
ROLLBACK = e.RollbackStarted(cause=e.Cause.FATAL, why="no", step=FAILED, by="system:runtime", deadline_at=2**50)
DENIED = e.CompensationDenied(step=JOBS[1], rule="not-on-sundays", policy="", why="it is Sunday")
INCIDENT = e.IncidentOpened(
    incident=1, kind=e.IncidentKind.COMPENSATION_DENIED, step=JOBS[1], why="it is Sunday", left=(JOBS[1],)
)
HISTORY: list[e.Event] = [
    STARTED,
    *(event for job in JOBS for event in stood(job)),
    *awaited(FAILED),
    FATAL,
    ROLLBACK,
    *compensated(JOBS[3]),
    *compensated(JOBS[2]),
    DENIED,
    INCIDENT,
    *compensated(JOBS[0]),
    e.SagaHalted(),
]


def told(events: list[e.Event], saga: str = "run_9c2a") -> tuple[SagaRow, list[Entry], MemoryJournal]:
    """As a journal has it, with all of it written at the one time."""

    async def live() -> tuple[SagaRow, list[Entry]]:
        status = replay(SagaId(saga), events).status
        await journal.append(SagaId(saga), events, after=0, summary=Summary(status=status))
        row = await journal.saga(SagaId(saga))
        assert row is not None
        return row, [entry async for entry in journal.read(SagaId(saga))]

    journal = MemoryJournal(ManualClock(now=FINISHED + 123))
    return *asyncio.run(live()), journal


def made(events: list[e.Event]) -> dict[str, object]:
    row, entries, _ = told(events)
    return dict(record(row, replay(row.id, events), entries))


def test_the_record_is_the_given_one_letter_for_letter() -> None:
    found = made(HISTORY)
    assert list(found)[-1] == "amends"
    del found["amends"]
    assert json.dumps(found, indent=2) == GIVEN


def test_ours_comes_under_one_key() -> None:
    row, entries, _ = told(HISTORY)
    state = replay(row.id, HISTORY)
    ours = record(row, state, entries, TreeHead(20, FINISHED, "note"))["amends"]
    assert isinstance(ours, dict)
    steps, timeline = ours.pop("steps"), ours.pop("timeline")
    assert isinstance(timeline, list)
    assert len(timeline) == len(entries)
    assert ours == {
        "definition": "trip.book",
        "version": 1,
        "env": "production",
        "actor": "agent:a",
        "labels": {},
        "status": "incident",
        "started_at": "2026-03-31T13:40:18Z",
        "ended_at": None,
        "cause": "fatal",
        "why": "no",
        "open_incidents": 1,
        "entries": len(HISTORY),
        "head": entries[-1].hash.hex(),
        "checkpoint": {"size": 20, "at": "2026-03-31T13:40:18Z"},
    }
    assert isinstance(steps, list)
    assert [(one["step"], one["outcome"], one["rule"]) for one in steps if isinstance(one, dict)] == [
        ("job_38", "compensated", "builtin-allow"),
        ("job_39", "uncompensated", "builtin-allow"),
        ("job_40", "compensated", "builtin-allow"),
        ("job_41", "compensated", "builtin-allow"),
        ("job_42", "failed", RULE),
    ]


def short(events: list[e.Event]) -> tuple[object, ...]:
    found = made(events)
    return tuple(found[name] for name in list(found)[1:-1])


STAND: list[e.Event] = [STARTED, *stood(JOBS[0])]
CANCELLED = replace(ROLLBACK, cause=e.Cause.CANCELLED, step=None, by="ann")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([STARTED], ("", "RUNNING", "", False, None, 0, 0, None)),
        (STAND, ("job_38", "RUNNING", "builtin-allow", False, None, 0, 0, None)),
        (
            [*STAND, e.SagaCompleted(result=None)],
            ("job_38", "COMPLETED", "builtin-allow", False, None, 0, 0, None),
        ),
        (
            [*STAND, dispatched(FAILED), FATAL, ROLLBACK],
            ("job_42", "FAILED_FATAL", "builtin-allow", True, "lifo_stack", 0, 1, None),
        ),
        (
            [*STAND, CANCELLED, *compensated(JOBS[0]), e.SagaRolledBack()],
            ("job_38", "ROLLED_BACK", "builtin-allow", True, "lifo_stack", 1, 0, "2026-03-31T13:40:18Z"),
        ),
        (
            [*STAND, dispatched(FAILED), FATAL, replace(INCIDENT, step=FAILED, left=()), e.SagaHalted()],
            ("job_42", "FAILED_FATAL", "builtin-allow", False, None, 0, 0, None),
        ),
        (
            [*STAND, replace(INCIDENT, step=None, kind=e.IncidentKind.DIVERGED, left=()), e.SagaHalted()],
            ("job_38", "INCIDENT", "builtin-allow", False, None, 0, 0, None),
        ),
        (
            [*HISTORY, e.IncidentResolved(incident=1, by="ann", reason="by hand", settled=(JOBS[1],))],
            ("job_42", "FAILED_FATAL", RULE, True, "lifo_stack", 3, 1, "2026-03-31T13:40:18Z"),
        ),
    ],
    ids=["begun", "running", "completed", "going back", "cancelled", "past the pivot", "diverged", "settled by hand"],
)
def test_every_way_a_saga_can_be_has_its_record(events: list[e.Event], expected: tuple[object, ...]) -> None:
    assert short(events) == expected


def test_a_rollback_that_goes_on_again_is_not_finished() -> None:
    resumed: list[e.Event] = [e.IncidentRetried(incident=1, by="ann"), e.RollbackResumed(by="ann", deadline_at=2**50)]
    assert made([*HISTORY, *resumed])["rollback_finished_at"] is None


def test_of_what_was_removed_there_is_no_record() -> None:
    events: list[e.Event] = [*STAND, e.SagaCompleted(result=None)]
    row, _, journal = told(events)
    assert row.status is SagaStatus.COMPLETED

    async def live() -> list[Entry]:
        await journal.remove_payloads(by="person:ann", why="it is old", ended_before=2**50)
        return [entry async for entry in journal.read(row.id)]

    entries = asyncio.run(live())
    with pytest.raises(PayloadRemovedError, match="what it held was removed"):
        record(row, replay(row.id, events), entries)
