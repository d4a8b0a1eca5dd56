"""An attempt that had been given up for lost took effect after all. Nothing that happened is forgotten."""

import pytest

from amends.core import commands as c, events as e
from amends.core.effects import CallPerson, Compensate, End, GiveUp, Probe
from amends.core.events import IncidentKind
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.contracts import Reversibility
from amends.core.words.outcomes import Failed, Found, FoundNothing, Lost, Succeeded
from tests.core.story import (
    CAR,
    DONE,
    FLIGHT,
    GOES_ON,
    HOTEL,
    IDEMPOTENT,
    LOST,
    NOW,
    PIVOT,
    PROBED,
    READ,
    UNDECLARED,
    Story,
    contract,
)

_S = StepStatus
FATAL = Failed(error="no", fatal=True)
LATE_AND_COMPENSATED = "its attempt reported late, after its compensation; whether the effect stands is not known"


def keys_of_compensations(story: Story) -> list[str]:
    return [fact.key for fact in story.events if isinstance(fact, e.CompensationStarted)]


# -- while it goes forward --------------------------------------------------------------------------------------------


def test_a_late_success_of_a_step_that_is_still_wanted_is_its_success() -> None:
    story = Story().does(FLIGHT, IDEMPOTENT, LOST).lands(FLIGHT)
    assert story.facts == (e.LateSuccessEnrolled(step=FLIGHT, attempt=1, result="late"),)
    assert (story.needs(FLIGHT), story.step(FLIGHT).result, story.step(FLIGHT).error) == (None, "late", "")
    assert story.finishes().phase is SagaStatus.COMPLETED


def test_a_late_success_of_a_step_that_was_given_up_is_taken_back_in_the_end() -> None:
    """And the definition is told the same as before when it is called again."""
    story = Story().does(FLIGHT, outcome=LOST).lands(FLIGHT)
    assert (story.needs(FLIGHT), story.step(FLIGHT).error) == (GiveUp(FLIGHT), "no answer")
    assert story.finishes().due() == Compensate(FLIGHT)


@pytest.mark.parametrize("step", [Story().does(FLIGHT), Story().does(FLIGHT, READ, LOST)])
def test_what_is_done_anyway_or_changes_nothing_is_no_news(step: Story) -> None:
    assert step.lands(FLIGHT).facts == ()


def test_an_irreversible_step_that_lands_late_is_the_pivot() -> None:
    assert Story().does(FLIGHT, PIVOT, LOST).lands(FLIGHT).saga.pivot == FLIGHT


# -- while it goes back -----------------------------------------------------------------------------------------------


def test_a_late_success_makes_a_compensation_certain() -> None:
    assert Story().does(FLIGHT, outcome=LOST).fails().lands(FLIGHT).due() == Compensate(FLIGHT)


def test_a_step_that_had_failed_and_lands_late_is_owed_though_the_rollback_was_past_it() -> None:
    story = Story().does(FLIGHT).does(HOTEL, outcome=FATAL).fails(HOTEL).starts_back(FLIGHT).lands(HOTEL)
    assert story.ends_back(FLIGHT).due() == Compensate(HOTEL)


def test_what_lands_after_its_compensation_is_in_doubt_and_never_compensated_blindly() -> None:
    story = Story().does(FLIGHT, outcome=LOST).fails().takes_back(FLIGHT).lands(FLIGHT)
    assert story.due() == CallPerson(IncidentKind.OUTCOME_UNKNOWN, FLIGHT, LATE_AND_COMPENSATED)


def test_it_is_asked_about_and_compensated_again_under_another_key_if_it_stands() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).fails().hears(FLIGHT, Found()).takes_back(FLIGHT).lands(FLIGHT)
    assert story.due() == Probe(FLIGHT)
    assert story.hears(FLIGHT, Found()).due() == Compensate(FLIGHT)
    first, second = keys_of_compensations(story.takes_back(FLIGHT))
    assert first != second
    assert story.comes_to_its_end().phase is SagaStatus.ROLLED_BACK


def test_it_is_asked_about_and_let_be_if_it_does_not_stand() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).fails().hears(FLIGHT, Found()).takes_back(FLIGHT).lands(FLIGHT)
    assert story.hears(FLIGHT, FoundNothing()).due() == End()


def test_what_landed_late_and_is_said_to_have_landed_again_is_asked_about() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).fails().fails_to_answer(FLIGHT)
    story.starts_back(FLIGHT, certain=False).ends_back(FLIGHT).lands(FLIGHT).lands(FLIGHT)
    error = "it took effect, and nobody knows when"
    assert story.facts == (e.LateLossEnrolled(step=FLIGHT, attempt=1, error=error),)
    assert story.due() == Probe(FLIGHT)


def test_a_second_late_report_does_not_make_a_doubt_a_certainty() -> None:
    """Both attempts of a step landed, after its compensation: still nobody knows which came first."""
    story = Story().does(FLIGHT, IDEMPOTENT, LOST).later(1).tries(FLIGHT).ends(FLIGHT, LOST).fails()
    story.starts_back(FLIGHT, certain=False).ends_back(FLIGHT).lands(FLIGHT, 1).lands(FLIGHT, 2)
    assert story.facts == ()
    assert story.due() == CallPerson(IncidentKind.OUTCOME_UNKNOWN, FLIGHT, LATE_AND_COMPENSATED)


def test_what_lands_during_its_compensation_is_in_doubt_once_that_has_succeeded() -> None:
    story = Story().does(FLIGHT, outcome=LOST).fails().starts_back(FLIGHT).lands(FLIGHT)
    assert story.status(FLIGHT) is _S.RECOMPENSATING
    assert story.lands(FLIGHT, 2).facts == ()
    assert story.ends_back(FLIGHT).due() == CallPerson(IncidentKind.OUTCOME_UNKNOWN, FLIGHT, LATE_AND_COMPENSATED)


@pytest.mark.parametrize("crashed", [False, True])
def test_what_lands_during_a_compensation_that_is_lost_is_compensated_under_another_key(crashed: bool) -> None:
    """Under the first key the provider may have found nothing to do, and would do nothing again."""
    story = Story().does(FLIGHT, outcome=LOST).fails().starts_back(FLIGHT, certain=False).lands(FLIGHT)
    story = (story.crashes() if crashed else story.ends_back(FLIGHT, LOST)).later(1)
    assert story.due() == Compensate(FLIGHT, certain=False)
    first, second = keys_of_compensations(story.takes_back(FLIGHT))
    assert first != second


def test_what_lands_after_a_compensation_was_lost_is_compensated_under_another_key() -> None:
    story = Story().does(FLIGHT, outcome=LOST).fails().takes_back(FLIGHT, LOST).lands(FLIGHT).later(1)
    assert story.due() == Compensate(FLIGHT, certain=False)
    first, second = keys_of_compensations(story.takes_back(FLIGHT))
    assert first != second


def test_what_a_person_vouched_for_is_in_doubt_again_when_it_lands_late() -> None:
    story = Story().does(FLIGHT, UNDECLARED, LOST).fails().calls_person(FLIGHT).resolves().lands(FLIGHT)
    assert story.due() == CallPerson(IncidentKind.OUTCOME_UNKNOWN, FLIGHT, LATE_AND_COMPENSATED)


# -- after the end ----------------------------------------------------------------------------------------------------


def test_a_rolled_back_saga_rolls_back_what_lands_late() -> None:
    story = Story().does(FLIGHT, outcome=FATAL).fails().comes_to_its_end().lands(FLIGHT)
    assert story.facts == (
        e.LateSuccessEnrolled(step=FLIGHT, attempt=1, result="late"),
        e.RollbackResumed(by="system:runtime", deadline_at=NOW + 900_000),
    )
    assert story.due() == Compensate(FLIGHT)


def test_a_completed_saga_halts_when_something_lands_that_it_had_gone_on_without() -> None:
    story = Story().does(FLIGHT).does(HOTEL, outcome=FATAL).finishes("all").lands(HOTEL)
    assert story.phase is SagaStatus.INCIDENT
    incident = story.incident
    assert (incident.kind, incident.step, incident.left) == (IncidentKind.OUTCOME_UNKNOWN, HOTEL, (HOTEL,))
    assert incident.why == "it took effect after the saga had gone on without it and completed"
    assert story.retries().due() == Compensate(HOTEL)
    assert story.takes_back(HOTEL).comes_to_its_end().saga.result == "all"


# -- while a person is waited for -------------------------------------------------------------------------------------


def test_what_the_open_incident_names_already_only_changes_what_is_known() -> None:
    story = Story().does(FLIGHT, UNDECLARED, LOST).fails().calls_person(FLIGHT).lands(FLIGHT)
    assert [type(fact) for fact in story.facts] == [e.LateSuccessEnrolled]
    assert story.incident.number == 1
    assert story.resolves().comes_to_its_end().phase is SagaStatus.ROLLED_BACK


def test_a_halted_rollback_sees_to_what_lands_newer_than_where_it_stopped() -> None:
    story = Story().does(FLIGHT, UNDECLARED).does(HOTEL, PROBED, LOST).fails()
    story.hears(HOTEL, Found()).takes_back(HOTEL).calls_person(FLIGHT).lands(HOTEL)
    assert story.due() == Probe(HOTEL)
    assert story.hears(HOTEL, FoundNothing()).due() == End()
    assert story.comes_to_its_end().facts == (e.SagaHalted(),)
    assert story.incident.left == (FLIGHT,)


def test_a_halted_rollback_names_what_lands_older_than_where_it_stopped() -> None:
    """It cannot be taken back before what stopped the rollback; so the person has to know of it."""
    story = Story().does(FLIGHT, outcome=FATAL).does(HOTEL, UNDECLARED).fails().calls_person(HOTEL).lands(FLIGHT)
    assert story.due() == End()
    assert story.comes_to_its_end().phase is SagaStatus.INCIDENT
    assert (story.incident.number, story.incident.step, story.incident.left) == (2, HOTEL, (HOTEL, FLIGHT))
    closed, opened, _ = story.facts
    reason = "incident 2 takes its place: an attempt landed late, so more is left"
    assert closed == e.IncidentResolved(incident=1, by="system:runtime", reason=reason, settled=())
    assert opened == e.IncidentOpened(
        incident=2,
        kind=IncidentKind.COMPENSATION_FAILED,
        step=HOTEL,
        why="it does not work",
        left=(HOTEL, FLIGHT),
    )
    assert story.resolves(2).due() == Compensate(FLIGHT)


def test_a_rollback_that_halted_only_for_what_it_had_passed_takes_it_up() -> None:
    story = Story().does(FLIGHT, outcome=FATAL).does(CAR, GOES_ON).fails()
    story.takes_back(CAR, LOST).calls_person(CAR).comes_to_its_end().lands(FLIGHT)
    assert story.due() == Compensate(FLIGHT)
    assert story.takes_back(FLIGHT).comes_to_its_end().incident.left == (CAR,)


def test_a_saga_that_halted_on_its_way_forward_names_it_too() -> None:
    story = Story().does(FLIGHT, outcome=FATAL).does(HOTEL, PIVOT).begins(CAR).fails().ends(CAR, FATAL).lands(FLIGHT)
    assert (story.incident.number, story.incident.kind, story.incident.left) == (
        2,
        IncidentKind.PAST_PIVOT,
        (HOTEL, FLIGHT),
    )
    assert story.resolves(2).phase is SagaStatus.COMPLETED
    assert story.status(FLIGHT) is _S.SETTLED


def test_what_lands_late_is_named_beside_the_step_at_which_the_saga_stopped() -> None:
    story = Story().does(HOTEL, PIVOT).does(FLIGHT, outcome=FATAL).does(CAR, outcome=LOST).fails(CAR)
    assert story.incident.left == (CAR, HOTEL)
    assert story.lands(FLIGHT).incident.left == (CAR, FLIGHT, HOTEL)


def test_what_lands_late_after_the_work_is_named_beside_what_had_stopped_the_saga() -> None:
    story = Story().does(FLIGHT, outcome=FATAL).does(HOTEL, UNDECLARED, LOST).finishes().calls_person(HOTEL)
    assert story.incident.left == (HOTEL,)
    assert story.lands(FLIGHT).incident.left == (HOTEL, FLIGHT)


def test_a_late_success_while_finishing_is_one_more_doubt() -> None:
    story = Story().does(FLIGHT, outcome=FATAL).begins(HOTEL).finishes().lands(FLIGHT).ends(HOTEL, DONE)
    assert story.due() == Compensate(FLIGHT)
    assert story.takes_back(FLIGHT).comes_to_its_end().phase is SagaStatus.COMPLETED


def test_a_step_s_attempts_to_compensate_are_not_renewed_by_a_late_success() -> None:
    story = Story().does(FLIGHT, contract(undo_attempts=1), LOST).fails().takes_back(FLIGHT, LOST).lands(FLIGHT)
    assert story.due() == CallPerson(IncidentKind.COMPENSATION_FAILED, FLIGHT, "no answer")


# -- when nobody knows what it did ------------------------------------------------------------------------------------

STILL_LOST = Lost(error="still no answer")


def test_a_late_loss_puts_a_step_that_had_failed_in_doubt() -> None:
    story = Story().does(FLIGHT, outcome=FATAL).fails().comes_to_its_end().ends_late(FLIGHT, STILL_LOST)
    assert [type(fact) for fact in story.facts] == [e.LateLossEnrolled, e.RollbackResumed]
    assert story.due() == Compensate(FLIGHT, certain=False)


def test_a_late_loss_puts_a_step_that_was_taken_back_in_doubt() -> None:
    story = Story().does(FLIGHT, outcome=LOST).fails().takes_back(FLIGHT).comes_to_its_end()
    story.ends_late(FLIGHT, STILL_LOST)
    assert story.due() == CallPerson(IncidentKind.OUTCOME_UNKNOWN, FLIGHT, LATE_AND_COMPENSATED)


def test_a_late_loss_during_the_compensation_is_probed_after_it() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).fails().hears(FLIGHT, Found()).starts_back(FLIGHT)
    story.ends_late(FLIGHT, STILL_LOST)
    assert story.status(FLIGHT) is _S.RECOMPENSATING
    assert story.ends_back(FLIGHT).due() == Probe(FLIGHT)


def test_taking_a_step_back_again_after_a_late_loss_has_another_key() -> None:
    story = Story().does(FLIGHT, outcome=LOST).fails().takes_back(FLIGHT, LOST)
    story.ends_late(FLIGHT, STILL_LOST).later(60).takes_back(FLIGHT)
    first, second = keys_of_compensations(story)
    assert first != second


def test_a_late_loss_of_a_step_that_cannot_be_repeated_ends_its_tries() -> None:
    story = Story().does(FLIGHT, outcome=Failed(error="busy")).ends_late(FLIGHT, STILL_LOST)
    assert story.needs(FLIGHT) == GiveUp(FLIGHT)
    assert story.finishes().due() == Compensate(FLIGHT, certain=False)


def test_a_late_loss_of_a_step_that_can_be_asked_about_has_it_asked() -> None:
    story = Story().does(FLIGHT, PROBED, Failed(error="busy")).ends_late(FLIGHT, STILL_LOST).later(60)
    assert story.needs(FLIGHT) == Probe(FLIGHT)


def test_a_late_loss_while_the_next_attempt_runs_keeps_its_certain_failure_from_settling_the_step() -> None:
    story = Story().does(FLIGHT, IDEMPOTENT, Failed(error="busy")).later(60).tries(FLIGHT)
    story.ends_late(FLIGHT, STILL_LOST).ends(FLIGHT, FATAL)
    assert story.status(FLIGHT) is _S.UNKNOWN


def test_a_late_loss_of_a_step_whose_outcome_nobody_knows_is_no_news() -> None:
    assert Story().does(FLIGHT, outcome=LOST).ends_late(FLIGHT, STILL_LOST).facts == ()


def test_a_probe_that_was_asked_before_a_late_report_settles_nothing() -> None:
    """It found nothing, slept, and recorded that after the effect had landed: nobody knew of it any more."""
    story = Story().does(FLIGHT, PROBED, LOST).fails().ends_late(FLIGHT, STILL_LOST)
    assert story.facts == (e.LateLossEnrolled(step=FLIGHT, attempt=1, error=STILL_LOST.error),)
    told = story.hears(FLIGHT, FoundNothing(), reports=0).facts
    assert [type(fact) for fact in told] == [e.ProbeUnanswered]
    assert story.later(60).due() == Probe(FLIGHT)
    assert story.hears(FLIGHT, FoundNothing()).due() == End()


def test_a_probe_that_was_asked_before_a_second_late_report_settles_nothing() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).later(60).hears(FLIGHT, FoundNothing()).tries(FLIGHT).ends(FLIGHT, LOST)
    story.fails().hears(FLIGHT, Found()).takes_back(FLIGHT).lands(FLIGHT, 1).lands(FLIGHT, 2)
    assert story.step(FLIGHT).late
    story.hears(FLIGHT, FoundNothing(), reports=1)
    assert story.status(FLIGHT) is _S.UNKNOWN


def test_a_probe_that_finds_it_counts_whenever_it_was_asked() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).fails().ends_late(FLIGHT, STILL_LOST).hears(FLIGHT, Found(), reports=0)
    assert story.status(FLIGHT) is _S.SUCCEEDED


def test_the_end_of_an_attempt_that_counts_as_running_is_no_news() -> None:
    """Whoever drives it finds it lost, and asks, or takes it back, after this."""
    assert Story().begins(FLIGHT).lands(FLIGHT).facts == ()


# -- when the step was done again meanwhile ---------------------------------------------------------------------------


def done_again() -> Story:
    """Lost, not found, and done again; then the first attempt lands."""
    return Story().does(FLIGHT, PROBED, LOST).later(60).hears(FLIGHT, FoundNothing()).tries(FLIGHT)


@pytest.mark.parametrize("outcome", [STILL_LOST, DONE])
def test_an_effect_that_may_stand_twice_is_named_and_nothing_stops(outcome: Lost | Succeeded) -> None:
    story = done_again().ends(FLIGHT, DONE).ends_late(FLIGHT, outcome)
    assert (story.incident.kind, story.incident.left) == (IncidentKind.EFFECT_DOUBLED, (FLIGHT,))
    assert (story.phase, story.needs(FLIGHT), story.status(FLIGHT)) == (SagaStatus.RUNNING, None, _S.SUCCEEDED)
    assert story.ends_late(FLIGHT, outcome).facts == ()


def test_each_attempt_that_may_have_doubled_the_effect_is_named_once() -> None:
    story = Story().does(FLIGHT, contract("thrice", probe=True, attempts=3), LOST)
    for outcome in (LOST, DONE):
        story.later(60).hears(FLIGHT, FoundNothing()).tries(FLIGHT).ends(FLIGHT, outcome)
    for attempt in (1, 2, 2, 1):
        story.lands(FLIGHT, attempt)
    assert [incident.why for incident in story.saga.incidents] == [
        f"attempt {attempt} ended late, after attempt 3 had begun: the effect may stand twice" for attempt in (1, 2)
    ]


def test_a_saga_does_not_end_before_a_person_has_looked_at_a_doubled_effect() -> None:
    story = done_again().ends(FLIGHT, DONE).lands(FLIGHT).finishes("all")
    assert story.comes_to_its_end().phase is SagaStatus.INCIDENT
    assert story.resolves().comes_to_its_end().phase is SagaStatus.COMPLETED
    assert story.saga.result == "all"


def test_a_doubled_effect_can_be_seen_to_while_the_saga_goes_on() -> None:
    story = done_again().ends(FLIGHT, DONE).lands(FLIGHT).resolves()
    assert (story.phase, story.finishes().phase) == (SagaStatus.RUNNING, SagaStatus.COMPLETED)


def test_a_completed_saga_halts_for_a_doubled_effect() -> None:
    story = done_again().ends(FLIGHT, DONE).finishes("all").lands(FLIGHT)
    assert (story.phase, story.incident.kind) == (SagaStatus.INCIDENT, IncidentKind.EFFECT_DOUBLED)
    assert story.resolves().comes_to_its_end().saga.result == "all"


def test_a_doubled_effect_is_nothing_to_try_again() -> None:
    story = done_again().ends(FLIGHT, DONE).lands(FLIGHT)
    story.refuses(c.RetryIncident(incident=1, by="person:ann"), "^incident s1/1 has nothing to try again: look")


def test_a_cancelled_saga_keeps_the_incident_of_a_doubled_effect() -> None:
    """One compensation may have taken one of the two back."""
    story = done_again().ends(FLIGHT, DONE).lands(FLIGHT).cancels().takes_back(FLIGHT).comes_to_its_end()
    assert (story.phase, story.incident.left) == (SagaStatus.INCIDENT, (FLIGHT,))
    assert story.resolves().comes_to_its_end().phase is SagaStatus.ROLLED_BACK


def test_an_attempt_that_lands_while_the_next_one_runs_may_have_doubled_the_effect() -> None:
    story = done_again().lands(FLIGHT)
    assert [type(fact) for fact in story.facts] == [e.IncidentOpened, e.LateSuccessEnrolled]
    assert story.ends(FLIGHT, DONE).status(FLIGHT) is _S.SUCCEEDED


def test_seeing_to_a_doubled_effect_does_not_have_a_halted_saga_go_on() -> None:
    story = done_again().ends(FLIGHT, DONE).lands(FLIGHT).does(HOTEL, PIVOT).fails()
    assert story.resolves(1).phase is SagaStatus.INCIDENT
    assert story.resolves(2).phase is SagaStatus.COMPLETED


def test_what_lands_late_joins_the_incident_that_stopped_the_saga_and_not_the_doubled_one() -> None:
    story = done_again().ends(FLIGHT, DONE).lands(FLIGHT).does(CAR, outcome=FATAL).does(HOTEL, PIVOT).fails().lands(CAR)
    doubled, stopping = story.saga.open_incidents
    assert (doubled.kind, doubled.left) == (IncidentKind.EFFECT_DOUBLED, (FLIGHT,))
    assert (stopping.kind, stopping.left) == (IncidentKind.PAST_PIVOT, (HOTEL, CAR, FLIGHT))


def test_what_lands_while_the_other_attempt_is_taken_back_may_have_doubled_the_effect() -> None:
    """The compensation that ran was lost, and its repetition took one of the two back."""
    story = done_again().ends(FLIGHT, DONE).fails().starts_back(FLIGHT).lands(FLIGHT)
    assert [type(fact) for fact in story.facts] == [e.IncidentOpened, e.LateSuccessEnrolled]
    story.ends_back(FLIGHT, LOST).later(60).takes_back(FLIGHT).comes_to_its_end()
    assert (story.phase, story.incident.left) == (SagaStatus.INCIDENT, (FLIGHT,))


def test_a_step_that_may_have_happened_is_begun_again_only_where_it_can_be_repeated() -> None:
    """Its probe had found nothing, and before that was durable its attempt reported late."""
    story = Story().does(FLIGHT, PROBED, LOST)
    story.refuses(c.StartAttempt(step=FLIGHT), "is not repeatable, and nobody knows its outcome")


def test_what_was_held_until_the_end_and_landed_late_is_not_left_behind_by_an_incident() -> None:
    story = Story().does(FLIGHT, PROBED, LOST)
    held = contract("act.held", reversibility=Reversibility.IRREVERSIBLE, hold=True, probe=True)
    story.proposes(HOTEL, held).judges(HOTEL).finishes().hears(FLIGHT, FoundNothing())
    story.tries(HOTEL).ends(HOTEL, LOST).ends_late(FLIGHT, LOST).hears(HOTEL, FoundNothing())
    story.hears(FLIGHT, Found(None)).takes_back(FLIGHT, FATAL).calls_person(FLIGHT).lands(HOTEL)
    assert (story.status(HOTEL), story.phase) == (_S.SUCCEEDED, SagaStatus.INCIDENT)
    assert story.incident.left == (FLIGHT,)
