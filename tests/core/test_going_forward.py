"""A step on its way: judged, tried, tried again, asked about, given up."""

import math

import pytest

from amends.core import commands as c, events as e
from amends.core.effects import Compensate, GiveUp, Judge, Perform, Probe, Wait
from amends.core.plan import PROBE_TRIES
from amends.core.state.saga import evolve
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.contracts import key_of
from amends.core.words.outcomes import Failed, Found, FoundNothing, Lost, NoAnswer, Succeeded
from amends.core.words.values import SagaId
from amends.core.words.verdict import Decision, Verdict
from tests.core.story import (
    ACT,
    ALLOW,
    CAR,
    DENY,
    DONE,
    FLIGHT,
    HOTEL,
    IDEMPOTENT,
    LOST,
    NOW,
    PROBED,
    READ,
    Story,
    contract,
    start,
)

_S = StepStatus
MISTAKE = Lost(error="KeyError: 'id'", final=True, where="shop.py:7, in book")


# -- its beginning ----------------------------------------------------------------------------------------------------


def test_a_step_is_judged_then_performed_then_counts() -> None:
    story = Story().proposes(FLIGHT)
    assert story.needs(FLIGHT) == Judge(FLIGHT)
    story.judges(FLIGHT)
    assert story.needs(FLIGHT) == Perform(FLIGHT)
    story.tries(FLIGHT)
    assert story.needs(FLIGHT) is None
    story.ends(FLIGHT, Succeeded({"seat": "2A"}))
    assert story.needs(FLIGHT) is None
    assert story.step(FLIGHT).result == {"seat": "2A"}


def test_nothing_is_due_for_a_saga_whose_definition_acts() -> None:
    assert Story().begins(FLIGHT).due() is None


def test_a_step_that_is_dispatched_at_once_is_as_one_that_was_proposed_allowed_and_tried() -> None:
    at_once = Story().begins(FLIGHT).step(FLIGHT)
    one_by_one = Story().proposes(FLIGHT).judges(FLIGHT).tries(FLIGHT).step(FLIGHT)
    assert at_once == one_by_one


def test_only_what_is_allowed_is_dispatched_at_once() -> None:
    Story().refuses(
        c.DispatchStep(step=FLIGHT, contract=ACT, args={}, digest="", verdict=DENY), "not allowed by r; propose it"
    )


def test_a_contract_is_on_record_once_for_each_topic_and_version() -> None:
    other = contract(version=2)
    story = Story().proposes(FLIGHT).begins(HOTEL).begins(CAR, other)
    proposed = [one.contract for one in story.events if isinstance(one, e.StepProposed | e.ActionDispatched)]
    assert proposed == [ACT, None, other]
    assert story.step(HOTEL).contract == ACT


def test_a_denied_step_is_given_up_and_nothing_is_owed() -> None:
    story = Story().proposes(FLIGHT).judges(FLIGHT, DENY)
    assert story.facts == (e.ActionDenied(step=FLIGHT, rule="r", policy="p", why="not today"),)
    assert story.needs(FLIGHT) == GiveUp(FLIGHT)
    assert story.step(FLIGHT).error == "not today"
    assert story.fails(FLIGHT).comes_to_its_end().phase is SagaStatus.ROLLED_BACK


@pytest.mark.parametrize(
    ("decision", "status"),
    [
        (Decision.DENY, _S.DENIED),
        (Decision.REQUIRE_HUMAN, _S.AWAITING),
        (Decision.THROTTLE, _S.READY),
        (Decision.ALLOW, _S.READY),
    ],
)
def test_a_verdict_decides_whether_a_step_may_start(decision: Decision, status: StepStatus) -> None:
    story = Story().proposes(FLIGHT).judges(FLIGHT, Verdict(decision=decision, rule="r", policy="p"))
    assert story.status(FLIGHT) is status


def test_a_before_image_is_kept_until_the_first_attempt() -> None:
    story = Story().proposes(FLIGHT).judges(FLIGHT).tell(c.KeepBefore(step=FLIGHT, before={"role": "reader"}))
    assert story.tries(FLIGHT).ends(FLIGHT, DONE).step(FLIGHT).before == {"role": "reader"}
    story.refuses(c.KeepBefore(step=FLIGHT, before={}), "flight of saga s1 is succeeded: it is too late for Before")


def test_how_the_world_looked_after_it_is_kept() -> None:
    story = Story().does(FLIGHT, contract(before=True)).tell(c.KeepAfter(step=FLIGHT, after={"n": 1}))
    assert story.facts == (e.AfterCaptured(step=FLIGHT, after={"n": 1}),)
    assert story.step(FLIGHT).seen == ({"n": 1},)


def test_the_key_is_the_same_on_each_attempt_and_no_other_step_has_it() -> None:
    story = Story().does(FLIGHT, IDEMPOTENT, LOST).later(1).tries(FLIGHT).ends(FLIGHT, DONE).begins(HOTEL)
    keys = [fact.key for fact in story.events if isinstance(fact, e.ActionDispatched | e.AttemptStarted)]
    assert keys[0] == keys[1] == key_of(SagaId("s1"), FLIGHT, IDEMPOTENT.topic, "do")
    assert keys[2] != keys[0]


# -- trying again -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempts", [1, 2, 3, 50])
def test_a_step_is_tried_as_often_as_its_contract_says_and_not_once_more(attempts: int) -> None:
    story = Story().begins(FLIGHT, contract(attempts=attempts))
    for attempt in range(1, attempts + 1):
        story.ends(FLIGHT, Failed(error="busy"))
        assert (story.needs(FLIGHT) == GiveUp(FLIGHT)) == (attempt == attempts)
        if attempt < attempts:
            story.later(30).tries(FLIGHT)
    assert story.step(FLIGHT).attempts == attempts
    assert story.step(FLIGHT).given_up


def test_it_waits_before_it_tries_again() -> None:
    story = Story().does(FLIGHT, outcome=Failed(error="busy"))
    assert story.needs(FLIGHT) == Wait(NOW + 1000)
    assert story.saga.status is SagaStatus.WAITING
    assert story.later(1).needs(FLIGHT) == Perform(FLIGHT)


def test_it_waits_as_long_as_the_action_asks() -> None:
    assert Story().does(FLIGHT, outcome=Failed(error="busy", after_s=7.5)).needs(FLIGHT) == Wait(NOW + 7500)


def test_for_ever_is_ten_years() -> None:
    story = Story().does(FLIGHT, outcome=Failed(error="busy", after_s=math.inf))
    assert story.needs(FLIGHT) == Wait(NOW + 10 * 365 * 24 * 3600 * 1000)
    assert story.fails(window_s=math.inf).saga.deadline_at == NOW + 10 * 365 * 24 * 3600 * 1000


@pytest.mark.parametrize("outcome", [Failed(error="no", fatal=True), Failed(error="no", final=True)])
def test_what_is_final_is_not_tried_again(outcome: Failed) -> None:
    story = Story().does(FLIGHT, outcome=outcome)
    assert story.needs(FLIGHT) == GiveUp(FLIGHT)
    assert story.step(FLIGHT).fatal is outcome.fatal


def test_a_result_that_cannot_be_kept_has_happened_all_the_same() -> None:
    story = Story().does(FLIGHT, outcome=Succeeded(None, opaque="the result is a set"))
    assert story.status(FLIGHT) is _S.SUCCEEDED
    assert story.step(FLIGHT).error == "the result is a set"


# -- nobody knows -----------------------------------------------------------------------------------------------------


def test_a_lost_attempt_of_an_idempotent_action_is_made_again() -> None:
    assert Story().does(FLIGHT, IDEMPOTENT, LOST).later(1).needs(FLIGHT) == Perform(FLIGHT)


def test_a_lost_attempt_of_a_read_only_action_is_made_again_and_is_never_owed() -> None:
    story = Story().does(FLIGHT, READ, LOST).later(1)
    assert story.needs(FLIGHT) == Perform(FLIGHT)
    assert story.tries(FLIGHT).ends(FLIGHT, LOST).needs(FLIGHT) == GiveUp(FLIGHT)
    assert story.finishes().phase is SagaStatus.COMPLETED


def test_what_changes_nothing_has_failed_where_nobody_knows_what_became_of_it() -> None:
    story = Story().does(FLIGHT, READ, LOST)
    assert (story.status(FLIGHT), story.step(FLIGHT).unsure) == (_S.FAILED, False)
    story.later(1).tries(FLIGHT).ends(FLIGHT, Failed(error="flawed", final=True))
    assert (story.status(FLIGHT), story.step(FLIGHT).error) == (_S.FAILED, "flawed")


def test_a_probe_gives_no_more_tries_to_what_changes_nothing() -> None:
    asked = contract("act.read_probed", side_effect=False, probe=True, attempts=1)
    assert Story().does(FLIGHT, asked, LOST).needs(FLIGHT) == GiveUp(FLIGHT)


def test_a_process_that_ends_during_a_read_only_call_leaves_no_doubt() -> None:
    story = Story().begins(FLIGHT, READ).tell(c.Recover())
    assert [type(fact) for fact in story.facts] == [e.AttemptFailed]
    assert story.later(1).needs(FLIGHT) == Perform(FLIGHT)


def test_an_old_journal_in_which_it_was_lost_goes_on_without_the_doubt() -> None:
    story = Story().begins(FLIGHT, READ)
    story.saga = evolve(story.saga, e.AttemptLost(step=FLIGHT, attempt=1, error="gone", fatal=False, retry_at=NOW))
    assert story.step(FLIGHT).unsure
    story.tries(FLIGHT).ends(FLIGHT, Failed(error="flawed", fatal=True))
    assert story.status(FLIGHT) is _S.FAILED


def test_a_lost_attempt_of_any_other_action_is_not_made_again() -> None:
    story = Story().does(FLIGHT, outcome=LOST)
    assert story.needs(FLIGHT) == GiveUp(FLIGHT)
    assert story.status(FLIGHT) is _S.UNKNOWN


def test_a_lost_attempt_is_asked_about_where_there_is_a_probe() -> None:
    story = Story().does(FLIGHT, PROBED, LOST)
    assert story.needs(FLIGHT) == Wait(NOW + 1000)
    assert story.later(1).needs(FLIGHT) == Probe(FLIGHT)


def test_a_lost_attempt_is_asked_about_even_when_it_was_the_last() -> None:
    story = Story().does(FLIGHT, contract(probe=True, attempts=1), LOST).later(1)
    assert story.needs(FLIGHT) == Probe(FLIGHT)
    assert story.hears(FLIGHT, Found("seat")).needs(FLIGHT) is None
    assert story.step(FLIGHT).result == "seat"


def test_a_fatal_loss_is_left_to_the_rollback() -> None:
    assert Story().does(FLIGHT, PROBED, Lost(error="boom", fatal=True)).needs(FLIGHT) == GiveUp(FLIGHT)


def test_a_final_loss_is_not_repeated_though_that_would_be_safe() -> None:
    story = Story().does(FLIGHT, IDEMPOTENT, MISTAKE)
    assert (story.status(FLIGHT), story.needs(FLIGHT)) == (_S.UNKNOWN, GiveUp(FLIGHT))
    assert story.fails(FLIGHT).due() == Compensate(FLIGHT, certain=False)


def test_a_final_loss_of_what_changes_nothing_has_failed() -> None:
    story = Story().does(FLIGHT, READ, MISTAKE)
    assert (story.status(FLIGHT), story.needs(FLIGHT)) == (_S.FAILED, GiveUp(FLIGHT))


def test_a_final_loss_is_asked_about_and_goes_on_where_it_had_happened() -> None:
    story = Story().does(FLIGHT, PROBED, MISTAKE).later(1)
    assert story.needs(FLIGHT) == Probe(FLIGHT)
    story.hears(FLIGHT, Found("seat"))
    assert (story.status(FLIGHT), story.step(FLIGHT).why) == (_S.SUCCEEDED, "")


def test_a_final_loss_that_had_not_happened_is_given_up_also_by_another_process() -> None:
    story = Story().does(FLIGHT, PROBED, MISTAKE).later(1).hears(FLIGHT, FoundNothing())
    assert (story.status(FLIGHT), story.needs(FLIGHT)) == (_S.FAILED, GiveUp(FLIGHT))
    assert story.step(FLIGHT).why == "KeyError: 'id' (shop.py:7, in book)"


def test_a_final_loss_of_which_nobody_can_tell_is_not_repeated() -> None:
    story = Story().does(FLIGHT, contract(probe=True, idempotent=True), MISTAKE).later(1).fails_to_answer(FLIGHT)
    assert (story.status(FLIGHT), story.needs(FLIGHT)) == (_S.UNKNOWN, GiveUp(FLIGHT))


def test_where_it_was_raised_is_beside_what_was_said() -> None:
    story = Story().does(FLIGHT, ACT, MISTAKE)
    (lost,) = (fact for fact in story.facts if isinstance(fact, e.AttemptLost))
    assert (lost.error, lost.where, lost.final) == ("KeyError: 'id'", "shop.py:7, in book", True)
    assert story.step(FLIGHT).reasons == ("KeyError: 'id'",)


def test_an_earlier_place_is_not_told_of_a_later_error() -> None:
    story = Story().does(FLIGHT, contract(idempotent=True, attempts=3), Lost(error="KeyError", where="shop.py:7"))
    story.later(1).tries(FLIGHT).ends(FLIGHT, LOST)
    assert story.step(FLIGHT).why == LOST.error
    assert story.later(2).tries(FLIGHT).ends(FLIGHT, DONE).step(FLIGHT).why == ""


def test_a_probe_that_finds_the_effect_settles_it() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).later(1).hears(FLIGHT, Found("seat"))
    assert (story.status(FLIGHT), story.step(FLIGHT).result, story.step(FLIGHT).error) == (_S.SUCCEEDED, "seat", "")


def test_a_probe_that_finds_nothing_has_it_tried_again_at_once() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).later(1).hears(FLIGHT, FoundNothing())
    assert story.needs(FLIGHT) == Perform(FLIGHT)


def test_a_probe_that_finds_nothing_after_the_last_attempt_gives_it_up() -> None:
    story = Story().does(FLIGHT, contract(probe=True, attempts=1), LOST).later(1).hears(FLIGHT, FoundNothing())
    assert story.needs(FLIGHT) == GiveUp(FLIGHT)
    assert story.status(FLIGHT) is _S.FAILED


def test_a_probe_that_does_not_answer_is_asked_three_times_further_and_further_apart() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).later(1)
    for wait_s in (1, 2):
        assert story.needs(FLIGHT) == Probe(FLIGHT)
        story.hears(FLIGHT, NoAnswer("busy"))
        assert story.needs(FLIGHT) == Wait(story.now + wait_s * 1000)
        story.later(wait_s)
    assert story.hears(FLIGHT, NoAnswer("busy")).step(FLIGHT).probes == PROBE_TRIES
    assert story.needs(FLIGHT) == GiveUp(FLIGHT)


def test_why_a_probe_did_not_answer_is_on_record() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).later(1).hears(FLIGHT, NoAnswer("busy"))
    assert story.facts == (e.ProbeUnanswered(step=FLIGHT, error="busy", retry_at=story.now + 1000),)


def test_what_a_probe_cannot_tell_is_repeated_where_that_is_safe() -> None:
    story = Story().does(FLIGHT, contract(probe=True, idempotent=True), LOST).later(1)
    for _ in range(PROBE_TRIES):
        story.hears(FLIGHT, NoAnswer("busy")).later(2)
    assert story.needs(FLIGHT) == Perform(FLIGHT)
    assert story.tries(FLIGHT).step(FLIGHT).probes == 0


@pytest.mark.parametrize(
    "later", [Failed(error="busy"), Failed(error="no", fatal=True), Failed(error="no", final=True)]
)
def test_that_a_later_attempt_certainly_failed_does_not_settle_a_lost_one(later: Failed) -> None:
    """The first attempt may have charged the card; that the second did not says nothing of the first."""
    story = Story().does(FLIGHT, contract(idempotent=True, attempts=3), LOST).later(1).tries(FLIGHT).ends(FLIGHT, later)
    assert story.status(FLIGHT) is _S.UNKNOWN
    assert "an earlier attempt was lost" in story.step(FLIGHT).error
    assert story.step(FLIGHT).fatal is later.fatal
    assert story.step(FLIGHT).given_up is (later.fatal or later.final)
    assert story.fails(FLIGHT).starts_back(FLIGHT, certain=False).status(FLIGHT) is _S.COMPENSATING


def test_a_probe_that_found_nothing_settles_the_lost_attempt_before() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).hears(FLIGHT, FoundNothing()).tries(FLIGHT)
    assert story.ends(FLIGHT, Failed(error="busy")).status(FLIGHT) is _S.FAILED


def test_an_attempt_that_lands_while_the_next_one_runs_is_not_forgotten_when_that_one_fails() -> None:
    story = Story().does(FLIGHT, PROBED, LOST).hears(FLIGHT, FoundNothing()).tries(FLIGHT).lands(FLIGHT)
    assert story.status(FLIGHT) is _S.RUNNING
    assert story.ends(FLIGHT, Failed(error="busy")).status(FLIGHT) is _S.UNKNOWN


def test_after_a_crash_everything_in_flight_is_lost_the_oldest_first() -> None:
    story = Story().begins(FLIGHT).begins(HOTEL).begins(CAR).ends(HOTEL, DONE).crashes()
    lost = [(fact.step, fact.error) for fact in story.facts if isinstance(fact, e.AttemptLost)]
    assert lost == [(step, "the process ended before the outcome was recorded") for step in (FLIGHT, CAR)]
    assert story.crashes().facts == ()


# -- requests that do not fit -----------------------------------------------------------------------------------------


def test_nothing_is_asked_of_a_saga_that_has_not_started() -> None:
    story = Story(started=False)
    story.refuses(c.ProposeStep(step=FLIGHT, contract=ACT, args={}, digest=""), "s1 has not been started")
    story.refuses(c.CancelSaga(by="person:bob", why=""), "s1 has not been started")
    story.refuses(c.RecordVerdict(step=FLIGHT, verdict=ALLOW), "s1 has no step flight")
    story.refuses(c.EndSaga(), "s1 is running, and not at its end")


def test_a_saga_starts_once() -> None:
    Story().refuses(start(), "s1 has been started already")


def test_a_step_is_proposed_once() -> None:
    story = Story().does(FLIGHT)
    story.refuses(c.ProposeStep(step=FLIGHT, contract=ACT, args={}, digest=""), "has a step flight already")
    story.refuses(
        c.DispatchStep(step=FLIGHT, contract=ACT, args={}, digest="", verdict=ALLOW), "has a step flight already"
    )


def test_nothing_new_begins_once_the_work_is_finished_or_rolls_back() -> None:
    finished = Story().proposes(CAR).judges(CAR).begins(FLIGHT).finishes()
    failed = Story().proposes(CAR).judges(CAR).begins(FLIGHT).fails()
    for story, says in ((finished, "s1 is finished with its work"), (failed, "s1 is rolling_back")):
        story.refuses(c.ProposeStep(step=HOTEL, contract=ACT, args={}, digest=""), says)
        story.refuses(c.DispatchStep(step=HOTEL, contract=ACT, args={}, digest="", verdict=ALLOW), says)
        story.refuses(c.StartAttempt(step=CAR), says)
        story.refuses(c.FinishWork(result=None), says)
        story.refuses(c.FailWork(cause=e.Cause.ERROR, why="", step=None), says)


def test_an_outcome_needs_an_attempt() -> None:
    story = Story().proposes(FLIGHT)
    too_late = "step flight of saga s1 is proposed: it is too late for"
    story.refuses(c.RecordOutcome(step=FLIGHT, outcome=DONE), f"{too_late} AttemptSucceeded")
    story.refuses(c.RecordOutcome(step=FLIGHT, outcome=LOST), f"{too_late} AttemptLost")
    story.refuses(c.RecordAnswer(step=FLIGHT, answer=Found(), reports=0), f"{too_late} ProbeFound")
    story.refuses(c.StartAttempt(step=FLIGHT), f"{too_late} AttemptStarted")
    story.refuses(c.RecordCompensation(step=FLIGHT, outcome=DONE), f"{too_late} CompensationSucc")
    story.refuses(c.EnrolLate(step=FLIGHT, attempt=1, outcome=Succeeded()), f"{too_late} LateSucc")
