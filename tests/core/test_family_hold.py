"""What a child holds: until its family has settled, then in the order of asking, or not at all."""

from __future__ import annotations

from dataclasses import replace

from amends.core import commands as c, events as e
from amends.core.effects import Compensate, End, Perform, Probe, Release
from amends.core.state.saga import evolve
from amends.core.transitions import SagaStatus
from amends.core.words.outcomes import FoundNothing, Succeeded
from amends.errors import PastPivotError
from tests.core.story import CAR, DONE, FLIGHT, HOTEL, LOST, PIVOT, PROBED, Story, contract, start

MAIL = contract("mail", reversibility=PIVOT.reversibility, hold=True)
CALL = contract("amends.call", idempotent=True, probe=True)
HOLDS = Succeeded({"child": "s1~1", "result": None, "holds": True})


def kid() -> Story:
    """A child that holds a mail."""
    story = Story(started=False)
    story.tell(replace(start(), labels={"amends.parent": "top"}))
    return story.proposes(HOTEL, MAIL).judges(HOTEL)


def test_a_child_that_has_done_its_work_rests_until_its_family_has_settled() -> None:
    story = kid().finishes()
    assert (story.saga.rests, story.saga.status, story.due()) == (True, SagaStatus.WAITING, None)
    story.refuses(c.StartAttempt(step=HOTEL), "is held until everything that could fail has passed")
    story.tell(c.SettleFamily(by="saga:top"))
    assert (story.saga.rests, story.due()) == (False, Perform(HOTEL))
    assert story.tell(c.SettleFamily(by="saga:top")).facts == ()
    assert story.tries(HOTEL).ends(HOTEL, DONE).comes_to_its_end().phase is SagaStatus.COMPLETED


def test_one_that_is_nobody_s_child_or_still_works_holds_nothing_for_others() -> None:
    Story().proposes(HOTEL, MAIL).judges(HOTEL).finishes().refuses(c.SettleFamily(by="person:a"), "holds nothing")
    kid().refuses(c.SettleFamily(by="person:a"), "holds nothing")


def test_what_is_in_doubt_comes_before_a_child_rests() -> None:
    story = kid().does(FLIGHT, PROBED, LOST).finishes()
    assert (story.saga.rests, story.due()) == (False, Probe(FLIGHT))
    assert story.hears(FLIGHT, FoundNothing()).saga.rests


def test_a_child_that_had_begun_to_release_before_this_was_so_goes_on_with_it() -> None:
    """Of an older journal: there is no fact that says that its family has settled."""
    story = kid().finishes()
    story.saga = evolve(story.saga, e.AttemptStarted(step=HOTEL, attempt=1, key="k"))
    story.crashes()
    assert not story.saga.holds_for_family
    assert story.due() is not None


def test_a_resting_child_that_is_taken_back_drops_what_it_holds() -> None:
    story = kid().does(FLIGHT).finishes().cancels()
    assert e.StepDropped(step=HOTEL, why="the saga is rolled back") in story.facts
    assert story.takes_back(FLIGHT).comes_to_its_end().phase is SagaStatus.ROLLED_BACK


def test_a_parent_is_not_complete_before_its_child_has_released_what_it_holds() -> None:
    story = Story().does(FLIGHT, CALL, HOLDS).does(CAR).finishes()
    assert (story.phase, story.due()) == (SagaStatus.RUNNING, Release(FLIGHT))
    story.tell(c.StartRelease(step=FLIGHT))
    assert (story.saga.pivot, story.saga.status) == (FLIGHT, SagaStatus.WAITING)
    story.refuses(c.CancelSaga(by="person:bob", why=""), "held goes out by now", PastPivotError)
    assert story.tell(c.StartRelease(step=FLIGHT)).facts == ()
    assert story.tell(c.EndRelease(step=FLIGHT)).due() == End()


def test_what_is_held_here_and_below_goes_out_in_the_order_of_asking() -> None:
    story = Story().does(FLIGHT, CALL, HOLDS).proposes(HOTEL, MAIL).judges(HOTEL).does(CAR, CALL, HOLDS).finishes()
    assert story.due() == Release(FLIGHT)
    story.refuses(c.EndRelease(step=CAR), "not the turn")
    assert story.tell(c.EndRelease(step=FLIGHT)).due() == Perform(HOTEL)
    assert story.tries(HOTEL).ends(HOTEL, DONE).due() == Release(CAR)


def test_a_parent_that_fails_before_that_takes_the_child_back() -> None:
    story = Story().does(FLIGHT, CALL, HOLDS).fails()
    assert story.due() == Compensate(FLIGHT)


def test_a_parent_brought_to_its_end_by_hand_releases_what_its_children_hold() -> None:
    story = Story().does(FLIGHT, CALL, HOLDS).does(HOTEL, PIVOT).fails().resolves()
    assert (story.phase, story.due()) == (SagaStatus.RUNNING, Release(FLIGHT))


def test_a_user_s_result_that_looks_like_that_of_a_call_holds_nothing() -> None:
    assert Story().does(FLIGHT, outcome=HOLDS).finishes().phase is SagaStatus.COMPLETED


def test_a_child_with_a_pivot_of_its_own_rests_too_and_completes_without_what_is_dropped() -> None:
    story = kid().does(FLIGHT, PIVOT).does(CAR, CALL, HOLDS).finishes()
    assert story.saga.rests
    story.tell(c.DropHeld(why="its parent goes back"))
    assert story.facts == (e.StepDropped(step=HOTEL, why="its parent goes back"), e.ReleaseEnded(step=CAR))
    assert story.comes_to_its_end().phase is SagaStatus.COMPLETED
    story.refuses(c.DropHeld(why=""), "holds nothing")
