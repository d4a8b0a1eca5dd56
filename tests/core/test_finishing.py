"""Done is not complete: what nobody knows, and what the definition went on without, is settled first."""

from amends.core import commands as c, events as e
from amends.core.effects import CallPerson, Compensate, End, GiveUp, Probe, Settle, Wait
from amends.core.events import IncidentKind
from amends.core.state.saga import replay
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.outcomes import Failed, Found, FoundNothing, Lost, NoAnswer
from amends.core.words.values import SagaId
from tests.core.samples import EVENT, PROPOSED, STARTED, STEP_ID
from tests.core.story import CAR, DONE, FLIGHT, HOTEL, LOST, PROBED, UNDECLARED, Story, contract

_S = StepStatus


def test_a_saga_with_nothing_in_doubt_is_complete_at_once() -> None:
    story = Story().does(FLIGHT).does(HOTEL, outcome=Failed(error="no", fatal=True)).finishes("booked")
    assert story.facts == (e.SagaCompleted(result="booked"),)
    assert (story.phase, story.saga.result, story.due()) == (SagaStatus.COMPLETED, "booked", None)


def test_a_saga_with_something_in_flight_waits_for_it() -> None:
    story = Story().begins(FLIGHT).finishes("booked")
    assert story.facts == (e.WorkFinished(result="booked"),)
    assert story.due() == Settle((FLIGHT,))
    assert story.ends(FLIGHT, DONE).due() == End()
    assert story.comes_to_its_end().facts == (e.SagaCompleted(result="booked"),)


def test_what_nobody_knows_is_taken_back_before_the_saga_is_complete_newest_first() -> None:
    story = Story().does(FLIGHT, outcome=LOST).does(HOTEL).does(CAR, outcome=LOST).finishes()
    assert story.due() == Compensate(CAR, certain=False)
    assert story.starts_back(CAR, certain=False).due() == Settle((CAR,))
    assert story.ends_back(CAR).due() == Compensate(FLIGHT, certain=False)
    assert story.takes_back(FLIGHT).comes_to_its_end().phase is SagaStatus.COMPLETED
    assert story.status(HOTEL) is _S.SUCCEEDED


def test_a_step_that_was_given_up_and_did_happen_is_taken_back() -> None:
    story = Story().does(FLIGHT, contract(probe=True, attempts=1), LOST).fails_to_answer(FLIGHT).finishes()
    assert story.needs(FLIGHT) == GiveUp(FLIGHT)
    assert story.due() == Compensate(FLIGHT, certain=False)


def test_a_step_that_was_given_up_and_did_not_happen_is_let_be() -> None:
    story = Story().begins(FLIGHT, PROBED).finishes().ends(FLIGHT, LOST)
    assert story.due() == Probe(FLIGHT)
    assert story.hears(FLIGHT, FoundNothing()).due() == End()


def test_what_was_to_be_tried_again_is_given_up_when_the_work_is_finished() -> None:
    """The function returned without waiting for its branches: nobody is left who would want them tried again."""
    story = Story().does(FLIGHT, PROBED, LOST).does(HOTEL, outcome=Failed(error="busy")).finishes()
    assert not story.saga.waiting
    assert story.saga.status is SagaStatus.WAITING  # for the answer about the one that was lost
    assert (story.needs(FLIGHT), story.needs(HOTEL)) == (GiveUp(FLIGHT), GiveUp(HOTEL))
    assert (story.step(FLIGHT).wake_at, story.step(HOTEL).wake_at) == (None, None)
    assert story.hears(FLIGHT, Found()).due() == Compensate(FLIGHT)


def test_what_fails_after_the_work_is_finished_or_goes_back_is_not_tried_again() -> None:
    held = contract("act.held", hold=True)
    story = Story().begins(FLIGHT).finishes().ends(FLIGHT, Failed(error="busy"))
    assert story.step(FLIGHT).retry_at is None
    story = Story().proposes(FLIGHT, held).judges(FLIGHT).finishes().tries(FLIGHT)
    assert story.cancels().ends(FLIGHT, Failed(error="busy")).step(FLIGHT).retry_at is None


def test_who_stands_in_line_is_not_waited_for_when_the_work_is_finished() -> None:
    story = Story().does(HOTEL, PROBED, LOST).proposes(FLIGHT).judges(FLIGHT)
    story.tell(c.AwaitLock(step=FLIGHT, resources=("r",), holder="s9", until=story.now + 5)).finishes()
    assert (set(story.saga.waiting), story.due()) == (set(), Probe(HOTEL))


def test_what_nobody_can_settle_halts_the_saga_and_names_only_what_is_in_doubt() -> None:
    story = Story().does(FLIGHT).does(HOTEL, UNDECLARED, LOST).does(CAR, UNDECLARED, LOST).finishes()
    assert isinstance(story.due(), CallPerson)
    assert story.calls_person(CAR).phase is SagaStatus.INCIDENT
    assert story.incident.left == (CAR, HOTEL)


def test_a_person_who_vouches_for_it_lets_the_saga_go_on_to_its_end() -> None:
    story = Story().does(HOTEL, UNDECLARED, LOST).does(CAR, UNDECLARED, LOST).finishes().calls_person(CAR)
    story.resolves()
    assert story.status(CAR) is _S.SETTLED
    assert story.due() == CallPerson(IncidentKind.OUTCOME_UNKNOWN, HOTEL, story.step(HOTEL).error + _NO_COMPENSATION)
    assert story.calls_person(HOTEL).resolves(2).comes_to_its_end().phase is SagaStatus.COMPLETED


_NO_COMPENSATION = "; there is no compensation for an outcome that nobody knows"


def test_a_step_that_is_found_after_a_retry_is_taken_back_all_the_same() -> None:
    """The definition was told that it is over; that a person has it asked about again does not make it wished for."""
    story = Story().does(FLIGHT, contract("mail", probe=True, reversibility=UNDECLARED.reversibility), LOST)
    story.fails_to_answer(FLIGHT).finishes().calls_person(FLIGHT).retries()
    assert story.due() == Probe(FLIGHT)
    story.hears(FLIGHT, Found())
    assert story.due() == CallPerson(IncidentKind.COMPENSATION_MISSING, FLIGHT, "no compensation is declared")


def test_a_completed_saga_can_be_cancelled_and_is_taken_back_whole() -> None:
    story = Story().does(FLIGHT).does(HOTEL).finishes().cancels()
    assert story.facts[0] == e.RollbackStarted(
        cause=e.Cause.CANCELLED, why="rain", step=None, by="person:bob", deadline_at=story.saga.deadline_at
    )
    assert story.takes_back(HOTEL).takes_back(FLIGHT).comes_to_its_end().phase is SagaStatus.ROLLED_BACK


def test_a_release_that_is_lost_for_good_is_asked_about_and_then_taken_back() -> None:
    held = contract("act.held", hold=True, probe=True)
    story = Story().proposes(FLIGHT, held).judges(FLIGHT).finishes().tries(FLIGHT)
    assert story.ends(FLIGHT, Lost(error="no answer", fatal=True)).due() == Probe(FLIGHT)
    assert story.hears(FLIGHT, NoAnswer("busy")).due() == Wait(story.now + 1000)
    assert story.needs(FLIGHT) == GiveUp(FLIGHT), "nobody who goes forward waits for it"
    story.later(1).hears(FLIGHT, NoAnswer("busy")).later(2).hears(FLIGHT, NoAnswer("busy"))
    assert story.due() == Compensate(FLIGHT, certain=False)


def test_a_step_that_awaits_an_approval_goes_on_waiting_when_the_work_is_finished() -> None:
    saga = replay(SagaId("s1"), [STARTED, PROPOSED, EVENT[e.ApprovalRequested], e.WorkFinished(result=None)])
    assert saga.steps[STEP_ID].status is _S.AWAITING
    assert not saga.steps[STEP_ID].given_up
