"""Is this legal? Every status is tried with every event: what the table has happens, and nothing else can."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import pytest

from amends.core import events as e
from amends.core.state import saga as saga_state
from amends.core.state.saga import evolve, replay, unstarted
from amends.core.transitions import (
    APPROVAL,
    INCIDENT,
    NEW_STEP,
    SAGA,
    STEP,
    WAIT,
    ApprovalStatus,
    IncidentStatus,
    SagaStatus,
    StepStatus,
    WaitStatus,
)
from amends.core.words.values import SagaId, StepId
from amends.errors import JournalDamagedError
from tests.core.samples import (
    EVENT,
    EVENTS,
    OPENED,
    PROPOSED,
    SAGA_EVENTS,
    STARTED,
    STEP_EVENTS,
    STEP_ID,
    to_incident,
    to_saga,
    to_step,
)

_S = StepStatus
SAGA_ID = SagaId("s1")
CLOSING = [e.IncidentRetried, e.IncidentResolved]
TABLES: list[Mapping[Any, Mapping[Any, Any]]] = [STEP, SAGA, APPROVAL, INCIDENT, WAIT]


@pytest.mark.parametrize(("status", "kind"), [*product(StepStatus, STEP_EVENTS)])
def test_a_step_moves_as_its_table_says_and_in_no_other_way(status: StepStatus, kind: type[e.Event]) -> None:
    history = to_step(status)
    if kind is e.StepPlaced:
        history[1] = replace(PROPOSED, ahead=True)
    if status is _S.SETTLED:
        history.append(e.IncidentOpened(incident=2, kind=e.IncidentKind.DIVERGED, step=STEP_ID, why="", left=()))
    saga = replay(SAGA_ID, history)
    assert saga.steps[STEP_ID].status is status
    event = EVENT[kind]
    if isinstance(event, e.IncidentResolved):
        event = e.IncidentResolved(incident=len(saga.incidents), by="person:a", reason="r", settled=(STEP_ID,))
    after = {one: to for one, to in STEP[status].items() if one is kind}
    if not after:
        with pytest.raises(JournalDamagedError, match=f"{kind.__name__} cannot follow entry {saga.head} .*{status}"):
            evolve(saga, event)
    else:
        assert [evolve(saga, event).steps[STEP_ID].status] == list(after.values())


@pytest.mark.parametrize(("status", "kind"), [*product(SAGA, SAGA_EVENTS)])
def test_a_saga_moves_as_its_table_says_and_in_no_other_way(status: SagaStatus, kind: type[e.Event]) -> None:
    history = to_saga(status)
    if kind is e.RewindEnded and status is SagaStatus.RUNNING:
        history.append(EVENT[e.RewindStarted])
    saga = replay(SAGA_ID, history)
    assert saga.phase is status
    after = [to for one, to in SAGA[status].items() if one is kind]
    if not after:
        with pytest.raises(JournalDamagedError, match=f"{kind.__name__} cannot follow .*the saga is {status}"):
            evolve(saga, EVENT[kind])
    else:
        assert [evolve(saga, EVENT[kind]).phase] == after


@pytest.mark.parametrize(("status", "kind"), [*product(IncidentStatus, CLOSING)])
def test_an_incident_is_closed_once(status: IncidentStatus, kind: type[e.IncidentRetried | e.IncidentResolved]) -> None:
    saga = replay(SAGA_ID, to_incident(status))
    assert [incident.status for incident in saga.incidents] == [status]
    event = e.IncidentRetried(incident=1, by="person:a")
    closed = (
        event if kind is e.IncidentRetried else e.IncidentResolved(incident=1, by="person:a", reason="r", settled=())
    )
    if kind in INCIDENT[status]:
        assert evolve(saga, closed).incidents[0].status is INCIDENT[status][kind]
    else:
        with pytest.raises(JournalDamagedError, match="no such open incident"):
            evolve(saga, closed)


# -- where nothing can be --------------------------------------------------------------------------------------------


def test_every_fact_has_its_place_in_the_fold() -> None:
    assert {*saga_state._FOLD} == {*get_args(e.Event)}


@pytest.mark.parametrize(
    "event", [event for event in EVENTS if event is not STARTED], ids=lambda one: type(one).__name__
)
def test_nothing_comes_before_the_start(event: e.Event) -> None:
    with pytest.raises(JournalDamagedError, match=r"cannot follow entry 0 \(it has not started\)"):
        evolve(unstarted(SAGA_ID), event)


def test_a_saga_does_not_start_twice() -> None:
    with pytest.raises(JournalDamagedError, match="a second start"):
        replay(SAGA_ID, [STARTED, STARTED])


@pytest.mark.parametrize("event", [PROPOSED, EVENT[e.ActionDispatched]])
def test_a_step_is_not_made_twice(event: e.Event) -> None:
    with pytest.raises(JournalDamagedError, match="step 1 twice, or without its contract"):
        replay(SAGA_ID, [STARTED, PROPOSED, event])


def test_a_step_is_not_made_without_a_contract() -> None:
    nameless = e.StepProposed(step=STEP_ID, topic=PROPOSED.topic, version=2, args={}, digest="", contract=None)
    with pytest.raises(JournalDamagedError, match="step 1 twice, or without its contract"):
        replay(SAGA_ID, [STARTED, PROPOSED, nameless])


def test_nothing_happens_to_a_step_that_was_never_proposed() -> None:
    with pytest.raises(JournalDamagedError, match="step 1 was never proposed"):
        replay(SAGA_ID, [STARTED, EVENT[e.AttemptSucceeded]])


def test_nobody_vouches_for_a_step_that_was_never_proposed() -> None:
    other = e.IncidentResolved(incident=1, by="person:a", reason="r", settled=(StepId("2"),))
    with pytest.raises(JournalDamagedError, match="step 2 was never proposed"):
        replay(SAGA_ID, [STARTED, PROPOSED, OPENED, other])


def test_no_incident_stops_at_a_step_that_was_never_proposed() -> None:
    with pytest.raises(JournalDamagedError, match="step 1 was never proposed"):
        replay(SAGA_ID, [STARTED, OPENED])


def test_no_incident_is_closed_that_was_never_opened() -> None:
    with pytest.raises(JournalDamagedError, match="no such open incident"):
        replay(SAGA_ID, [STARTED, EVENT[e.IncidentRetried]])


def test_no_rewind_ends_that_never_began_and_none_takes_back_what_was_never_proposed() -> None:
    with pytest.raises(JournalDamagedError, match="no such rewind is under way"):
        replay(SAGA_ID, [STARTED, EVENT[e.RewindEnded]])
    with pytest.raises(JournalDamagedError, match="steps that were never proposed"):
        replay(SAGA_ID, [STARTED, e.RewindStarted(place=None, steps=(STEP_ID,), why="", by="person:a", deadline_at=0)])


# -- what the tables promise ------------------------------------------------------------------------------------------


def test_every_status_has_a_row_and_every_event_a_cell() -> None:
    assert set(STEP) == set(StepStatus)
    assert set(SAGA) == set(SagaStatus) - {SagaStatus.WAITING}
    assert set(APPROVAL) == set(ApprovalStatus)
    assert set(INCIDENT) == set(IncidentStatus)
    assert set(WAIT) == set(WaitStatus)
    seen: set[type[e.Event]] = {*NEW_STEP, e.SagaStarted, e.IncidentOpened, e.WaitStarted, e.SignalReceived}
    for table in TABLES:
        seen.update(*table.values())
    assert seen == set(get_args(e.Event)) == set(EVENT)


def entered_by(status: StepStatus) -> set[type[e.Event]]:
    """The events that lead to a status from another one."""
    made: set[type[e.Event]] = {kind for kind, to in NEW_STEP.items() if to is status}
    made.update(kind for old, row in STEP.items() for kind, to in row.items() if to is status is not old)
    return made


def left_by(status: StepStatus) -> set[type[e.Event]]:
    return {kind for kind, to in STEP[status].items() if to is not status}


def test_a_call_is_made_only_after_an_intent() -> None:
    assert entered_by(_S.RUNNING) == {e.AttemptStarted, e.ActionDispatched}
    assert entered_by(_S.COMPENSATING) == {e.CompensationStarted}
    assert entered_by(_S.MITIGATING) == {e.MitigationStarted}


def test_nobody_knows_is_left_only_by_a_probe_a_repeat_a_compensation_a_late_success_or_a_person() -> None:
    probe: set[type[e.Event]] = {e.ProbeFound, e.ProbeFoundNothing}
    compensation: set[type[e.Event]] = {e.CompensationStarted, e.CompensationDenied}
    others: set[type[e.Event]] = {e.AttemptStarted, e.LateSuccessEnrolled, e.IncidentResolved}
    assert left_by(_S.UNKNOWN) == probe | compensation | others


def test_nothing_leaves_succeeded_but_a_compensation_a_mitigation_or_a_person() -> None:
    compensation: set[type[e.Event]] = {e.CompensationStarted, e.CompensationDenied}
    mitigation: set[type[e.Event]] = {e.MitigationStarted, e.MitigationDenied}
    assert left_by(_S.SUCCEEDED) == compensation | mitigation | {e.IncidentResolved}


def test_what_was_mitigated_never_becomes_compensated() -> None:
    """The effect stands, and the record says so for good."""
    assert left_by(_S.MITIGATED) == set()
    assert entered_by(_S.COMPENSATED) == {e.CompensationSucceeded}
    assert e.CompensationSucceeded not in {*STEP[_S.MITIGATING], *STEP[_S.UNMITIGATED]}


def test_what_was_taken_back_comes_back_only_by_its_own_late_end() -> None:
    late: set[type[e.Event]] = {e.LateSuccessEnrolled, e.LateLossEnrolled}
    assert left_by(_S.COMPENSATED) == left_by(_S.SETTLED) == late
    assert left_by(_S.DENIED) == {e.StepDropped}  # where it was held, and a person has seen to it
    assert left_by(_S.DROPPED) == set()


def test_an_approval_moves_the_step_that_it_is_about() -> None:
    """Each answer that a request can get is one that a step which awaits it knows, and the other way round."""
    assert set(APPROVAL[ApprovalStatus.REQUESTED]) == set(STEP[_S.AWAITING])
    assert set(APPROVAL[ApprovalStatus.GRANTED]) <= set(STEP[_S.READY])


def test_what_people_see_as_waiting_is_running_with_something_to_wait_for() -> None:
    awaiting = replay(SAGA_ID, [STARTED, PROPOSED, EVENT[e.ApprovalRequested]])
    assert (awaiting.phase, awaiting.status) == (SagaStatus.RUNNING, SagaStatus.WAITING)
    refused = replay(SAGA_ID, [STARTED, PROPOSED, EVENT[e.ApprovalRequested], EVENT[e.ApprovalExpired]])
    assert (refused.status, refused.steps[STEP_ID].error) == (
        SagaStatus.RUNNING,
        "its approval was not given, or not used, in time",
    )


@pytest.mark.parametrize("status", SagaStatus)
def test_a_saga_has_ended_when_it_is_completed_rolled_back_or_mitigated(status: SagaStatus) -> None:
    assert status.ended == (status in {SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK, SagaStatus.MITIGATED})
