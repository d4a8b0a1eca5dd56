"""A person is called: what they see, and what comes of trying again, of vouching, and of cancelling."""

import pytest

from amends.core import commands as c, events as e
from amends.core.effects import CallPerson, Compensate, End, GiveUp, Perform, Settle, Wait
from amends.core.events import IncidentKind
from amends.core.transitions import IncidentStatus, SagaStatus, StepStatus
from amends.core.words.outcomes import Failed, FoundNothing, Lost
from amends.errors import PastPivotError, UnknownIncidentError
from tests.core.story import (
    CAR,
    DENY,
    DONE,
    FLIGHT,
    GOES_ON,
    HOTEL,
    IDEMPOTENT,
    LOST,
    PIVOT,
    PROBED,
    UNDECLARED,
    WINDOW_S,
    Story,
    contract,
)

_S = StepStatus
FATAL = Failed(error="no", fatal=True)
STUBBORN = contract("stubborn", undo_attempts=1)


def halted_in_rollback() -> Story:
    """The hotel's compensation does not work, and the flight waits behind it."""
    story = Story().does(FLIGHT).does(HOTEL, STUBBORN).fails()
    return story.takes_back(HOTEL, LOST).calls_person(HOTEL)


def one_passed_one_stopping() -> Story:
    """The car's compensation failed and the rollback went on; then the hotel's did, and it stopped."""
    story = Story().does(FLIGHT).does(HOTEL, STUBBORN).does(CAR, GOES_ON).fails()
    story.takes_back(CAR, LOST).calls_person(CAR)
    return story.takes_back(HOTEL, LOST).calls_person(HOTEL)


# -- trying again -----------------------------------------------------------------------------------------------------


def test_a_retry_resumes_the_rollback_where_it_stopped_with_a_new_window() -> None:
    story = halted_in_rollback().later(3600).retries()
    assert story.facts == (
        e.IncidentRetried(incident=1, by="person:ann"),
        e.RollbackResumed(by="person:ann", deadline_at=story.now + round(WINDOW_S * 1000)),
    )
    assert story.due() == Compensate(HOTEL)
    assert story.takes_back(HOTEL).takes_back(FLIGHT).comes_to_its_end().phase is SagaStatus.ROLLED_BACK


def test_a_retry_brings_a_full_measure_of_attempts() -> None:
    story = halted_in_rollback().retries().takes_back(HOTEL, LOST)
    assert isinstance(story.due(), CallPerson)
    assert story.calls_person(HOTEL).retries(2).due() == Compensate(HOTEL)
    assert story.step(HOTEL).undo_attempts == 2


def test_after_a_retry_the_waits_begin_anew_too() -> None:
    story = Story().does(FLIGHT).fails()
    for _ in range(2):
        story.takes_back(FLIGHT, LOST).later(9)
    story.calls_person(FLIGHT).retries().takes_back(FLIGHT, LOST)
    assert story.due() == Wait(story.now + 1000)


def test_after_a_retry_a_lost_attempt_is_asked_about_as_soon_as_after_the_first() -> None:
    story = Story().does(HOTEL, PIVOT).does(FLIGHT, PROBED, Lost(error="no", fatal=True)).fails(FLIGHT).retries()
    story.hears(FLIGHT, FoundNothing()).tries(FLIGHT).ends(FLIGHT, LOST)
    assert story.step(FLIGHT).retry_at == story.now + 1000


def test_a_denied_compensation_is_judged_again_on_a_retry() -> None:
    story = Story().does(FLIGHT).fails().starts_back(FLIGHT, verdict=DENY).calls_person(FLIGHT).retries()
    assert story.due() == Compensate(FLIGHT)


def test_a_step_that_has_no_compensation_calls_a_person_again_on_a_retry() -> None:
    story = Story().does(FLIGHT, UNDECLARED).fails().calls_person(FLIGHT).retries()
    assert isinstance(story.due(), CallPerson)


def test_a_retry_while_the_rollback_still_goes_on_is_not_lost() -> None:
    """The rollback had already gone past that step; it has to go back up to it."""
    story = Story().does(FLIGHT).does(HOTEL).does(CAR, GOES_ON).fails()
    story.takes_back(CAR, LOST).calls_person(CAR).takes_back(HOTEL).retries()
    assert story.facts == (e.IncidentRetried(incident=1, by="person:ann"),)
    assert story.due() == Compensate(CAR)
    assert story.takes_back(CAR).due() == Compensate(FLIGHT)


def test_a_retry_of_what_the_rollback_had_passed_does_not_carry_it_past_what_stopped_it() -> None:
    story = one_passed_one_stopping().retries(1)
    assert story.due() == Compensate(CAR)
    assert story.takes_back(CAR).due() == End()
    assert story.comes_to_its_end().facts == (e.SagaHalted(),)
    assert story.incident.left == (HOTEL, FLIGHT)
    assert story.retries(2).due() == Compensate(HOTEL)


def test_a_retry_of_what_stopped_the_rollback_leaves_what_it_had_passed_to_its_own_incident() -> None:
    story = one_passed_one_stopping().retries(2).takes_back(HOTEL).takes_back(FLIGHT)
    assert story.due() == End()
    assert story.comes_to_its_end().phase is SagaStatus.INCIDENT
    assert story.incident.left == (CAR,)


def test_a_retry_past_the_pivot_has_the_failed_step_tried_again() -> None:
    story = Story().does(HOTEL, PIVOT).does(CAR, contract(attempts=1), FATAL).fails(CAR).retries()
    assert story.facts[1] == e.WorkResumed(by="person:ann")
    assert story.needs(CAR) == Perform(CAR)
    assert story.tries(CAR).ends(CAR, DONE).finishes().phase is SagaStatus.COMPLETED


def test_what_a_person_has_tried_again_is_waited_for() -> None:
    story = Story().does(HOTEL, PIVOT).does(CAR, outcome=FATAL).fails(CAR)
    assert not story.saga.waiting
    assert set(story.retries().saga.waiting) == {CAR}


def test_what_another_branch_had_left_to_try_is_not_lost_to_a_halt() -> None:
    story = Story().does(HOTEL, PIVOT).begins(FLIGHT, IDEMPOTENT).does(CAR, outcome=FATAL).fails(CAR)
    assert story.due() == Settle((FLIGHT,))
    assert story.ends(FLIGHT, LOST).due() is None
    assert story.retries().later(1).needs(FLIGHT) == Perform(FLIGHT)


def test_a_retry_without_a_step_has_the_definition_called_again() -> None:
    story = Story().does(FLIGHT).diverges()
    assert story.incident.left == (FLIGHT,)
    assert story.retries().phase is SagaStatus.RUNNING
    assert story.needs(FLIGHT) is None


def test_what_was_given_up_before_is_given_up_when_the_definition_is_called_again() -> None:
    story = Story().does(FLIGHT, outcome=LOST).diverges().retries()
    assert story.needs(FLIGHT) == GiveUp(FLIGHT)


# -- vouching ---------------------------------------------------------------------------------------------------------


def test_a_person_who_vouches_settles_the_step_and_the_rollback_goes_on() -> None:
    story = halted_in_rollback().resolves()
    assert story.status(HOTEL) is _S.SETTLED
    assert story.due() == Compensate(FLIGHT)
    assert story.takes_back(FLIGHT).comes_to_its_end().phase is SagaStatus.ROLLED_BACK


def test_vouching_for_what_stopped_the_rollback_resumes_it_though_another_incident_is_open() -> None:
    story = one_passed_one_stopping().resolves(2)
    assert story.due() == Compensate(FLIGHT)
    assert story.takes_back(FLIGHT).comes_to_its_end().phase is SagaStatus.INCIDENT
    assert story.resolves(1).comes_to_its_end().phase is SagaStatus.ROLLED_BACK


def test_vouching_while_the_rollback_still_goes_on_does_not_disturb_it() -> None:
    story = Story().does(FLIGHT).does(CAR, GOES_ON).fails().takes_back(CAR, LOST).calls_person(CAR).resolves()
    assert [type(fact) for fact in story.facts] == [e.IncidentResolved]
    assert story.takes_back(FLIGHT).comes_to_its_end().phase is SagaStatus.ROLLED_BACK


def test_nobody_vouches_for_what_was_found_not_to_have_happened_meanwhile() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).fails().calls_person(FLIGHT).hears(FLIGHT, FoundNothing()).resolves()
    assert story.facts[0] == e.IncidentResolved(incident=1, by="person:ann", reason="by hand", settled=())
    assert (story.status(FLIGHT), story.due()) == (_S.FAILED, End())


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_vouching_needs_a_reason(reason: str) -> None:
    command = c.ResolveIncident(incident=1, by="person:ann", reason=reason)
    halted_in_rollback().refuses(command, "incident s1/1 needs a reason: say what was done by hand")


def test_vouching_past_the_pivot_completes_the_saga_and_settles_what_was_in_doubt() -> None:
    story = Story().does(FLIGHT).does(HOTEL, PIVOT).does(CAR, outcome=LOST).fails(CAR).resolves()
    assert story.phase is SagaStatus.COMPLETED
    assert [story.status(step) for step in (FLIGHT, HOTEL, CAR)] == [_S.SUCCEEDED, _S.SUCCEEDED, _S.SETTLED]


def test_vouching_for_a_diverged_saga_completes_it_and_it_can_still_be_cancelled() -> None:
    story = Story().does(FLIGHT).diverges().resolves()
    assert story.phase is SagaStatus.COMPLETED
    assert story.cancels().due() == Compensate(FLIGHT)


def test_a_saga_is_not_complete_while_an_attempt_is_in_flight_whatever_a_person_vouches_for() -> None:
    story = Story().does(HOTEL, PIVOT).begins(FLIGHT).does(CAR, outcome=FATAL).fails(CAR).resolves()
    assert story.facts[1:] == (e.WorkResumed(by="person:ann"), e.WorkFinished(result=None))
    assert story.phase is SagaStatus.RUNNING
    assert story.due() == Settle((FLIGHT,))
    assert story.crashes().due() == Compensate(FLIGHT, certain=False)


@pytest.mark.parametrize("request_of", ["retry", "resolve"])
def test_an_incident_is_dealt_with_once(request_of: str) -> None:
    command: c.Command = c.RetryIncident(incident=1, by="person:ann")
    if request_of == "resolve":
        command = c.ResolveIncident(incident=1, by="person:ann", reason="again")
    halted_in_rollback().retries().refuses(command, "incident s1/1 is not open: it is retried")
    halted_in_rollback().resolves().refuses(command, "incident s1/1 is not open: it is resolved")
    Story().refuses(command, "saga s1 has no incident 1", UnknownIncidentError)


def test_the_incidents_of_a_saga_are_numbered_and_remembered() -> None:
    story = one_passed_one_stopping().retries(1).takes_back(CAR)
    assert [(one.number, one.step, one.status) for one in story.saga.incidents] == [
        (1, CAR, IncidentStatus.RETRIED),
        (2, HOTEL, IncidentStatus.OPEN),
    ]


def test_a_saga_that_has_stopped_for_a_person_diverges_no_more() -> None:
    command = c.OpenIncident(kind=IncidentKind.DIVERGED, step=None, why="?")
    halted_in_rollback().refuses(command, "s1 is incident")
    Story().fails().refuses(command, "s1 is rolling_back")


# -- cancelling -------------------------------------------------------------------------------------------------------


def test_a_running_saga_is_cancelled_by_a_rollback() -> None:
    story = Story().does(FLIGHT).begins(HOTEL).cancels()
    assert story.due() == Settle((HOTEL,))
    assert story.ends(HOTEL, DONE).due() == Compensate(HOTEL)


def test_cancelling_a_rollback_is_no_news() -> None:
    assert Story().does(FLIGHT).fails().cancels().facts == ()


@pytest.mark.parametrize("story", [halted_in_rollback(), Story().fails().comes_to_its_end()])
def test_what_was_rolled_back_is_not_cancelled(story: Story) -> None:
    command = c.CancelSaga(by="person:bob", why="")
    story.refuses(command, "its rollback has begun already")


def test_cancelling_a_halted_saga_takes_back_the_step_that_halted_it_too() -> None:
    """The cancellation has it tried again, so nothing names that step any more: it is owed like all others."""
    story = Story().does(FLIGHT).does(HOTEL, STUBBORN, LOST).finishes()
    story.takes_back(HOTEL, LOST).calls_person(HOTEL).cancels()
    assert [type(fact) for fact in story.facts] == [e.IncidentRetried, e.RollbackStarted]
    assert story.due() == Compensate(HOTEL)
    story.takes_back(HOTEL, LOST)
    assert story.due() == CallPerson(IncidentKind.COMPENSATION_FAILED, HOTEL, "no answer")
    assert story.calls_person(HOTEL).incident.left == (HOTEL, FLIGHT)


def test_a_saga_past_its_pivot_cannot_be_cancelled_and_is_told_which_step_that_is() -> None:
    command = c.CancelSaga(by="person:bob", why="")
    says = r"s1 cannot be cancelled: step hotel \(act.pivot\) took effect and is irreversible \(it cannot be unsent\)"
    running = Story().does(FLIGHT).does(HOTEL, PIVOT).does(CAR, outcome=FATAL)
    running.refuses(command, says, PastPivotError)
    running.fails(CAR).refuses(command, says, PastPivotError)
    Story().does(HOTEL, PIVOT).finishes().refuses(command, says, PastPivotError)
