"""A rollback: newest first, one at a time, within its window; and what it does where a compensation cannot be had."""

from collections.abc import Callable

import pytest

from amends.core import commands as c, events as e
from amends.core.effects import CallPerson, Compensate, End, GiveUp, Probe, Settle, TurnBack, Wait
from amends.core.events import IncidentKind
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.contracts import Contract
from amends.core.words.outcomes import Failed, Found, FoundNothing, Lost, NoAnswer
from amends.core.words.values import StepId
from amends.errors import PastPivotError
from tests.core.story import (
    ACT,
    ALLOW,
    CAR,
    DENY,
    DONE,
    FLIGHT,
    GOES_ON,
    HOTEL,
    LOST,
    NOW,
    PIVOT,
    PROBED,
    READ,
    UNDECLARED,
    WINDOW_S,
    Story,
    contract,
)

_S = StepStatus


# -- the order --------------------------------------------------------------------------------------------------------


def test_compensations_go_newest_first_and_each_waits_for_the_one_before() -> None:
    story = Story().does(FLIGHT).does(HOTEL).fails()
    assert story.due() == Compensate(HOTEL)
    assert story.starts_back(HOTEL).due() == Settle((HOTEL,))
    assert story.ends_back(HOTEL).due() == Compensate(FLIGHT)
    assert story.takes_back(FLIGHT).due() == End()
    assert story.comes_to_its_end().phase is SagaStatus.ROLLED_BACK
    assert story.due() is None


def test_the_order_is_that_of_the_intents_not_of_the_proposals_or_the_outcomes() -> None:
    story = Story().proposes(CAR).judges(CAR).begins(HOTEL).begins(FLIGHT).tries(CAR)
    story.ends(CAR, DONE).ends(FLIGHT, DONE).ends(HOTEL, DONE).fails()
    for step in (CAR, FLIGHT, HOTEL):
        assert story.due() == Compensate(step)
        story.takes_back(step)


def test_nothing_is_taken_back_while_an_attempt_is_in_flight() -> None:
    story = Story().does(FLIGHT).begins(HOTEL).begins(CAR).fails()
    assert story.due() == Settle((HOTEL, CAR))
    assert story.ends(HOTEL, DONE).due() == Settle((CAR,))
    assert story.ends(CAR, Failed(error="no")).due() == Compensate(HOTEL)


def test_what_never_began_or_certainly_failed_or_only_read_owes_nothing() -> None:
    story = Story().does(FLIGHT, READ).does(HOTEL, outcome=Failed(error="no", fatal=True)).proposes(CAR).fails(HOTEL)
    assert story.due() == End()


def test_what_was_taken_back_is_told_as_what_it_was() -> None:
    """A definition that is called again finds its success, though nothing of it stands."""
    story = Story().does(FLIGHT).does(HOTEL, outcome=LOST).fails()
    story.starts_back(HOTEL, certain=False).ends_back(HOTEL).takes_back(FLIGHT)
    assert (story.needs(FLIGHT), story.needs(HOTEL)) == (None, GiveUp(HOTEL))


def test_a_rollback_says_why_and_until_when() -> None:
    story = Story().does(FLIGHT, outcome=Lost(error="boom", fatal=True)).fails(FLIGHT, window_s=60)
    assert story.facts == (
        e.RollbackStarted(cause=e.Cause.FATAL, why="boom", step=FLIGHT, by="system:runtime", deadline_at=NOW + 60_000),
    )


@pytest.mark.parametrize("phase", ["rolling back", "finishing", "running"])
def test_a_compensation_out_of_its_turn_is_refused(phase: str) -> None:
    """Someone cancelled between the plan and the request: what was next a moment ago is not next any more."""
    story = Story().does(FLIGHT, outcome=LOST).does(HOTEL)
    if phase == "rolling back":
        story.fails()
    elif phase == "finishing":
        story.finishes().cancels()
    story.refuses(c.StartCompensation(step=FLIGHT, certain=False, verdict=ALLOW), "not the turn of step flight")
    story.refuses(
        c.OpenIncident(kind=IncidentKind.OUTCOME_UNKNOWN, step=FLIGHT, why="?"), "not the turn of step flight"
    )


def test_a_second_compensation_is_refused_while_one_is_in_flight() -> None:
    story = Story().does(FLIGHT).does(HOTEL).fails().starts_back(HOTEL)
    for step in (FLIGHT, HOTEL):
        story.refuses(c.StartCompensation(step=step, certain=True, verdict=ALLOW), "not the turn of step")


def test_a_saga_does_not_end_while_something_is_owed() -> None:
    """The driver had asked for the end of a finished saga when somebody cancelled it."""
    story = Story().does(FLIGHT).begins(HOTEL).finishes().ends(HOTEL, DONE)
    assert story.due() == End()
    story.cancels().refuses(c.EndSaga(), "s1 is rolling_back, and not at its end")
    assert story.due() == Compensate(HOTEL)


# -- certain or not ---------------------------------------------------------------------------------------------------


def test_an_outcome_that_nobody_knows_is_compensated_as_uncertain() -> None:
    story = Story().does(FLIGHT, outcome=LOST).fails(FLIGHT)
    assert story.due() == Compensate(FLIGHT, certain=False)
    story.starts_back(FLIGHT, certain=False).ends_back(FLIGHT, LOST).later(1)
    assert story.due() == Compensate(FLIGHT, certain=False)


def test_it_is_asked_about_first_where_there_is_a_probe() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).fails(FLIGHT)
    assert story.due() == Probe(FLIGHT)
    assert story.hears(FLIGHT, Found("seat")).due() == Compensate(FLIGHT)
    assert story.step(FLIGHT).result == "seat"


def test_what_a_probe_does_not_find_is_not_owed() -> None:
    assert Story().does(FLIGHT, PROBED, LOST).fails(FLIGHT).hears(FLIGHT, FoundNothing()).due() == End()


def test_a_probe_that_does_not_answer_is_asked_three_times_then_it_is_compensated_as_uncertain() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).fails(FLIGHT)
    for wait_s in (1, 2):
        story.hears(FLIGHT, NoAnswer("busy"))
        assert story.due() == Wait(story.now + wait_s * 1000)
        assert story.later(wait_s).due() == Probe(FLIGHT)
    assert story.hears(FLIGHT, NoAnswer("busy")).due() == Compensate(FLIGHT, certain=False)


def test_an_unknown_outcome_without_a_compensation_is_a_person_s() -> None:
    story = Story().does(FLIGHT, UNDECLARED, LOST).fails(FLIGHT)
    why = "no answer; there is no compensation for an outcome that nobody knows"
    assert story.due() == CallPerson(IncidentKind.OUTCOME_UNKNOWN, FLIGHT, why)


def test_a_step_without_a_compensation_is_a_person_s() -> None:
    story = Story().does(FLIGHT, UNDECLARED).fails()
    assert story.due() == CallPerson(IncidentKind.COMPENSATION_MISSING, FLIGHT, "no compensation is declared")


# -- trying again -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempts", [1, 2, 5])
@pytest.mark.parametrize("outcome", [Failed(error="busy"), Lost(error="busy")])
def test_a_compensation_is_tried_as_often_as_its_contract_says_and_not_once_more(
    attempts: int, outcome: Failed | Lost
) -> None:
    story = Story().does(FLIGHT, contract(undo_attempts=attempts)).fails()
    for attempt in range(1, attempts + 1):
        assert story.due() == Compensate(FLIGHT)
        story.takes_back(FLIGHT, outcome)
        if attempt < attempts:
            assert story.due() == Wait(story.now + 1000 * 2 ** (attempt - 1))
            story.later(30)
    assert story.due() == CallPerson(IncidentKind.COMPENSATION_FAILED, FLIGHT, "busy")
    assert story.step(FLIGHT).undo_attempts == attempts


def test_the_key_of_a_compensation_is_the_same_on_each_attempt_and_not_the_action_s() -> None:
    story = Story().does(FLIGHT).fails().takes_back(FLIGHT, LOST).later(1).takes_back(FLIGHT)
    done = [fact.key for fact in story.events if isinstance(fact, e.ActionDispatched)]
    undone = [fact.key for fact in story.events if isinstance(fact, e.CompensationStarted)]
    assert undone[0] == undone[1] != done[0]


def test_a_compensation_waits_as_long_as_it_asks() -> None:
    story = Story().does(FLIGHT).fails().takes_back(FLIGHT, Failed(error="busy", after_s=9))
    assert story.due() == Wait(NOW + 9000)
    story.later(9).takes_back(FLIGHT, Failed(error="busy", after_s=9))
    assert story.due() == CallPerson(IncidentKind.COMPENSATION_FAILED, FLIGHT, "busy"), "it was the last attempt"


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Failed(error="why", fatal=True), IncidentKind.COMPENSATION_FAILED),
        (Failed(error="why", changed_since=True), IncidentKind.CHANGED_SINCE),
        (Lost(error="why", fatal=True), IncidentKind.COMPENSATION_FAILED),
        (Lost(error="why", fatal=True, timed_out=True), IncidentKind.COMPENSATION_TIMED_OUT),
    ],
)
def test_what_is_final_calls_a_person_at_once(outcome: Failed | Lost, kind: IncidentKind) -> None:
    story = Story().does(FLIGHT).fails().takes_back(FLIGHT, outcome)
    assert story.due() == CallPerson(kind, FLIGHT, "why")


def test_a_denied_compensation_calls_a_person_and_is_never_skipped() -> None:
    story = Story().does(FLIGHT).fails().starts_back(FLIGHT, verdict=DENY)
    assert story.facts == (e.CompensationDenied(step=FLIGHT, rule="r", policy="p", why="not today"),)
    assert story.due() == CallPerson(IncidentKind.COMPENSATION_DENIED, FLIGHT, "not today")


@pytest.mark.parametrize("kind", [Failed, Lost])
def test_a_final_end_of_a_compensation_calls_a_person_with_the_place(kind: type[Failed | Lost]) -> None:
    story = Story().does(FLIGHT).fails().takes_back(FLIGHT, kind(error="KeyError", final=True, where="shop.py:9"))
    assert story.due() == CallPerson(e.IncidentKind.COMPENSATION_FAILED, FLIGHT, "KeyError (shop.py:9)")


def test_a_person_s_retry_forgets_that_it_was_final() -> None:
    final = Lost(error="KeyError", final=True)
    story = Story().does(FLIGHT).fails().takes_back(FLIGHT, final).calls_person(FLIGHT).retries()
    assert story.due() == Compensate(FLIGHT)


def test_a_compensation_that_a_crash_cut_off_is_lost_and_tried_again() -> None:
    story = Story().does(FLIGHT).fails().starts_back(FLIGHT).crashes()
    assert story.status(FLIGHT) is _S.UNCOMPENSATED
    assert story.later(1).due() == Compensate(FLIGHT)


# -- the window -------------------------------------------------------------------------------------------------------


def test_what_is_left_when_the_window_closes_is_a_person_s() -> None:
    story = Story().does(FLIGHT).does(HOTEL).fails(window_s=60).takes_back(HOTEL).later(60)
    why = "the rollback's window has passed with work left"
    assert story.due() == CallPerson(IncidentKind.COMPENSATION_TIMED_OUT, FLIGHT, why)


def test_no_wait_outlasts_the_window() -> None:
    story = Story().does(FLIGHT).fails(window_s=60).takes_back(FLIGHT, Failed(error="busy", after_s=86_400))
    assert story.due() == Wait(NOW + 60_000)


def test_a_compensation_in_flight_is_waited_for_even_past_the_window() -> None:
    assert Story().does(FLIGHT).fails(window_s=60).starts_back(FLIGHT).later(60).due() == Settle((FLIGHT,))


def test_a_rollback_that_has_nothing_left_ends_well_even_past_its_window() -> None:
    assert Story().does(FLIGHT).fails(window_s=60).takes_back(FLIGHT).later(60).due() == End()


# -- where it cannot go on --------------------------------------------------------------------------------------------


def test_a_rollback_stops_at_an_incident_which_names_all_that_is_left() -> None:
    story = Story().does(FLIGHT).does(HOTEL).does(CAR).fails().takes_back(CAR).calls_person(HOTEL)
    assert story.incident.left == (HOTEL, FLIGHT)
    assert story.phase is SagaStatus.INCIDENT
    assert story.due() is None


def test_a_rollback_goes_on_past_an_action_that_says_so_and_still_ends_as_an_incident() -> None:
    story = Story().does(FLIGHT).does(HOTEL, GOES_ON).fails().takes_back(HOTEL, LOST).calls_person(HOTEL)
    assert story.phase is SagaStatus.ROLLING_BACK
    kind, why = IncidentKind.COMPENSATION_FAILED, "it does not work"
    assert story.events[-1] == e.IncidentOpened(incident=1, kind=kind, step=HOTEL, why=why, left=(HOTEL,))
    assert story.due() == Compensate(FLIGHT)
    assert story.takes_back(FLIGHT).comes_to_its_end().phase is SagaStatus.INCIDENT
    assert story.facts == (e.SagaHalted(),)


# -- the pivot --------------------------------------------------------------------------------------------------------


def test_a_failure_past_the_pivot_is_an_incident_that_names_it_and_all_that_stands() -> None:
    story = Story().does(FLIGHT).does(HOTEL, PIVOT).does(CAR, outcome=Failed(error="no", fatal=True)).fails(CAR)
    assert story.phase is SagaStatus.INCIDENT
    assert story.incident.kind is IncidentKind.PAST_PIVOT
    assert story.incident.step == CAR
    assert story.incident.left == (HOTEL, FLIGHT)
    assert story.incident.why == (
        "boom; step hotel (act.pivot) took effect and is irreversible (it cannot be unsent), so it goes forward only"
    )


def test_a_failure_past_the_pivot_may_come_from_elsewhere() -> None:
    """The function let an error out that speaks of another saga's step."""
    story = Story().does(HOTEL, PIVOT).fails(StepId("of another saga"))
    assert (story.incident.step, story.incident.left) == (None, (HOTEL,))
    assert story.retries().phase is SagaStatus.RUNNING


def test_the_first_irreversible_step_that_took_effect_is_the_pivot() -> None:
    story = Story().does(FLIGHT, PIVOT, Failed(error="no", fatal=True)).does(HOTEL, PIVOT).does(CAR, PIVOT)
    assert story.saga.pivot == HOTEL


def test_a_pivot_that_comes_to_light_in_a_rollback_is_not_passed() -> None:
    """Not even where its action says that a rollback may go on: older steps belong to what cannot be undone."""
    story = come_to_light()
    says = "step hotel (mail) took effect and is irreversible (it cannot be unsent), so it goes forward only"
    assert story.due() == CallPerson(IncidentKind.PAST_PIVOT, HOTEL, says)
    assert story.calls_person(HOTEL).phase is SagaStatus.INCIDENT
    assert story.incident.left == (HOTEL, FLIGHT)


def come_to_light() -> Story:
    """A mail that nobody knew of lands in the middle of the rollback."""
    pivot = contract("mail", reversibility=PIVOT.reversibility, on_incident=GOES_ON.on_incident)
    story = Story().does(FLIGHT).does(HOTEL, pivot, LOST).does(CAR).fails(HOTEL).takes_back(CAR)
    return story.lands(HOTEL)


def test_a_saga_with_a_pivot_is_never_rolled_back_not_even_on_a_person_s_word() -> None:
    """It ends as it stands: the mail is out, and so what came before it stays."""
    story = come_to_light().calls_person(HOTEL)
    story.refuses(c.RetryIncident(incident=1, by="person:ann"), "nothing to try again")
    story.resolves(reason="it is out")
    assert [type(fact) for fact in story.facts] == [e.IncidentResolved, e.SagaCompleted]
    assert story.phase is SagaStatus.COMPLETED
    assert (story.status(FLIGHT), story.saga.pivot) == (StepStatus.SUCCEEDED, HOTEL)
    story.refuses(c.CancelSaga(by="person:bob", why=""), "goes forward only", PastPivotError)


def test_an_incident_of_an_old_journal_that_a_pivot_opened_does_not_end_as_rolled_back_either() -> None:
    story = come_to_light()
    missing = IncidentKind.COMPENSATION_MISSING
    story.tell(c.OpenIncident(kind=missing, step=HOTEL, why="it cannot be unsent")).resolves()
    assert story.phase is SagaStatus.COMPLETED


def test_where_a_pivot_ends_a_saga_other_incidents_come_first() -> None:
    story = Story().does(FLIGHT).does(HOTEL, PIVOT, LOST).does(CAR, GOES_ON).fails(HOTEL)
    story.takes_back(CAR, LOST).calls_person(CAR).lands(HOTEL).calls_person(HOTEL)
    ends = c.ResolveIncident(incident=2, by="person:ann", reason="out")
    story.refuses(ends, "see to s1/1 first")
    assert story.resolves(1).comes_to_its_end().tell(ends).phase is SagaStatus.COMPLETED


# -- a pivot on its way -----------------------------------------------------------------------------------------------


def on_its_way(promised: Contract = PIVOT) -> Story:
    return Story().does(FLIGHT).begins(HOTEL, promised)


@pytest.mark.parametrize("ask", [Story.fails, Story.cancels], ids=["a failure", "a person"])
def test_what_goes_back_waits_until_it_is_known_whether_there_is_a_pivot(ask: Callable[[Story], Story]) -> None:
    story = ask(on_its_way())
    assert [type(fact) for fact in story.facts] == [e.RollbackAwaited]
    assert (story.saga.status, story.due()) == (SagaStatus.ROLLING_BACK, Settle((HOTEL,)))
    story.refuses(c.ProposeStep(step=CAR, contract=ACT, args={}, digest="d"), "going back")
    story.refuses(c.StartCompensation(step=FLIGHT, certain=True, verdict=ALLOW), "not the turn")
    story.ends(HOTEL, DONE)
    assert story.due() == TurnBack()
    story.tell(c.TurnBack())
    assert (story.phase, story.incident.kind) == (SagaStatus.INCIDENT, IncidentKind.PAST_PIVOT)
    assert "it cannot be unsent" in story.incident.why
    assert story.saga.rollback is None


@pytest.mark.parametrize("ask", [Story.fails, Story.cancels], ids=["a failure", "a person"])
def test_what_goes_back_does_so_where_it_turns_out_that_there_is_no_pivot(ask: Callable[[Story], Story]) -> None:
    story = ask(on_its_way()).ends(HOTEL, Failed(error="no", fatal=True)).later(3)
    story.tell(c.TurnBack())
    assert story.saga.deadline_at == story.now + WINDOW_S * 1000
    assert story.takes_back(FLIGHT).comes_to_its_end().phase is SagaStatus.ROLLED_BACK


def test_a_person_has_a_saga_go_on_that_was_cancelled_too_late() -> None:
    story = on_its_way().cancels().ends(HOTEL, DONE).tell(c.TurnBack())
    assert story.retries().saga.works
    assert story.does(CAR).finishes().phase is SagaStatus.COMPLETED


def test_what_may_be_the_pivot_is_asked_about_before_anything_is_taken_back() -> None:
    probed = contract("mail.probed", reversibility=PIVOT.reversibility, probe=True)
    story = Story().does(FLIGHT).does(HOTEL, probed, LOST).does(CAR).cancels()
    assert story.due() == Probe(HOTEL)
    story.hears(HOTEL, Found()).tell(c.TurnBack())
    assert (story.incident.kind, story.incident.left) == (IncidentKind.PAST_PIVOT, (CAR, HOTEL, FLIGHT))


def test_one_that_nobody_can_be_asked_about_does_not_keep_the_rollback() -> None:
    story = on_its_way().cancels().crashes().tell(c.TurnBack())
    assert story.phase is SagaStatus.ROLLING_BACK
    assert isinstance(due := story.due(), CallPerson)
    assert due.kind is IncidentKind.OUTCOME_UNKNOWN


def test_asked_twice_a_saga_waits_once_and_whoever_wants_all_of_it_back_is_heard() -> None:
    story = on_its_way().cancels()
    assert story.cancels().facts == ()
    story = on_its_way()
    story.tell(c.RollBackTo(to=None, last=1, by="person:ann", why="once more"))
    assert [type(fact) for fact in story.facts] == [e.RollbackAwaited]
    again = c.RollBackTo(to=None, last=1, by="person:ann", why="")
    story.refuses(again, "going back already")
    story.cancels().ends(HOTEL, Failed(error="no", fatal=True)).tell(c.TurnBack())
    assert story.phase is SagaStatus.ROLLING_BACK


def test_what_waits_to_go_back_is_not_paused_unless_rollbacks_are() -> None:
    story = on_its_way().cancels()
    story.refuses(c.PauseSaga(by="person:ann", why=""), "rolling back, which goes on")
    story.tell(c.PauseSaga(by="person:ann", why="", rollbacks=True)).ends(HOTEL, DONE)
    assert story.due() is None
    assert story.tell(c.UnpauseSaga(by="person:ann")).due() == TurnBack()


def test_nobody_turns_back_who_was_not_asked_to() -> None:
    Story().refuses(c.TurnBack(), "does not wait to go back")
    on_its_way().cancels().refuses(c.TurnBack(), "does not wait to go back")


def test_a_rollback_has_a_window_that_begins_with_it() -> None:
    assert Story().later(5).does(FLIGHT).fails().saga.deadline_at == NOW + 5000 + WINDOW_S * 1000
