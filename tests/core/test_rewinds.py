"""A part of the work goes back: what is set aside, what is forgotten, and when a rewind is at its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from amends.core import commands as c, events as e
from amends.core.effects import CallPerson, Compensate, End, GiveUp, Probe, Settle
from amends.core.plan import rewinding
from amends.core.state.saga import evolve, open_waits
from amends.core.state.step import Told
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.outcomes import Failed, Found
from amends.core.words.values import StepId
from amends.core.words.verdict import Decision, Verdict
from tests.core.story import ALLOW, CAR, DONE, FLIGHT, HOTEL, LOST, NOW, PROBED, READ, WINDOW_S, Story, contract

_G, _S = SagaStatus, StepStatus
ASK = Verdict(decision=Decision.REQUIRE_HUMAN, rule="ask", policy="p", expires_s=60)
BUS = StepId("bus")
INSIDE = StepId("r")
END = c.EndRewind(place=INSIDE)


def rewind(*steps: StepId, place: StepId = INSIDE) -> c.Rewind:
    return c.Rewind(place=place, steps=steps, why="again")


def back_to(to: str | None = None, last: int | None = None) -> c.RollBackTo:
    return c.RollBackTo(to=to, last=last, by="person:ann", why="wrong")


def marked() -> Story:
    """One step, a checkpoint, and one step since."""
    return Story().does(FLIGHT).tell(c.MakeCheckpoint(place=StepId("mark"), name="a")).does(HOTEL)


def outside(story: Story) -> StepId:
    """The rewind that was just asked for from outside, by its entry."""
    return StepId(f"@{story.saga.head}")


# -- set aside --------------------------------------------------------------------------------------------------------


def test_what_was_to_be_tried_again_is_set_aside_and_not_tried_again() -> None:
    story = Story().does(FLIGHT, outcome=Failed(error="busy")).does(HOTEL, PROBED, LOST)
    assert set(story.saga.waiting) == {FLIGHT, HOTEL}
    story.tell(rewind(FLIGHT, HOTEL))
    for step in (FLIGHT, HOTEL):
        found = story.step(step)
        assert (found.retry_at, found.given_up, found.forgotten, found.rewind) == (None, True, False, INSIDE)
        assert story.needs(step) == GiveUp(step)
    assert not story.saga.waiting


def test_what_had_not_begun_is_not_judged_any_more() -> None:
    story = Story().proposes(FLIGHT).tell(rewind(FLIGHT))
    assert (story.step(FLIGHT).told, story.needs(FLIGHT)) == (None, GiveUp(FLIGHT))


def test_a_compensation_that_is_to_be_tried_again_is_when_another_rewind_takes_it_over() -> None:
    story = Story().does(FLIGHT).tell(rewind(FLIGHT)).takes_back(FLIGHT, LOST)
    again_at = story.step(FLIGHT).retry_at
    story.tell(rewind(FLIGHT, place=StepId("r2")))
    assert (story.step(FLIGHT).retry_at, story.step(FLIGHT).rewind) == (again_at, "r2")
    assert again_at is not None
    story.tell(END)
    assert story.facts == (e.RewindEnded(place=INSIDE, taken_back=()),)


def test_what_ends_after_it_was_set_aside_is_told_as_it_ended() -> None:
    story = Story().begins(FLIGHT, PROBED).tell(rewind(FLIGHT)).ends(FLIGHT, LOST)
    assert story.step(FLIGHT).told == Told(_S.UNKNOWN, "no answer", fatal=False)
    assert story.hears(FLIGHT, Found()).needs(FLIGHT) == GiveUp(FLIGHT)


# -- the end ----------------------------------------------------------------------------------------------------------


def test_a_rewind_waits_for_what_only_reads_too() -> None:
    """Nothing is owed for it, and yet the definition is not to go on while its attempt is on its way."""
    story = Story().begins(FLIGHT, READ).tell(rewind(FLIGHT))
    story.refuses(END, "its rewind at r is not at its end")
    assert story.ends(FLIGHT, DONE).tell(END).facts == (e.RewindEnded(place=INSIDE, taken_back=()),)


def test_a_rewind_does_not_end_while_its_saga_is_paused() -> None:
    story = (
        Story().begins(FLIGHT, READ).tell(rewind(FLIGHT)).tell(c.PauseSaga(by="person:a", why="")).ends(FLIGHT, DONE)
    )
    story.refuses(END, "^saga s1 is paused, and its rewind at r is not at its end$")


def test_another_rewind_s_attempt_is_not_waited_for() -> None:
    story = Story().does(FLIGHT).does(HOTEL).tell(rewind(FLIGHT)).tell(rewind(HOTEL, place=StepId("r2")))
    story.starts_back(HOTEL).starts_back(FLIGHT)
    assert story.ends_back(FLIGHT).tell(END).facts == (e.RewindEnded(place=INSIDE, taken_back=(FLIGHT,)),)
    assert story.saga.rewinding == (StepId("r2"),)


def test_a_rewind_does_not_wait_for_what_goes_on_beside_it() -> None:
    story = Story().does(FLIGHT).begins(HOTEL).tell(rewind(FLIGHT))
    assert rewinding(story.saga, story.saga.rewinds[INSIDE], story.now) == Compensate(FLIGHT)
    assert story.takes_back(FLIGHT).tell(END).facts == (e.RewindEnded(place=INSIDE, taken_back=(FLIGHT,)),)


def test_what_lands_late_in_a_rewind_is_taken_back_again_before_it_goes_on() -> None:
    story = Story().does(FLIGHT).does(HOTEL, PROBED, LOST).tell(rewind(HOTEL, FLIGHT))
    story.starts_back(HOTEL, certain=False).ends_back(HOTEL).lands(HOTEL)
    assert rewinding(story.saga, story.saga.rewinds[INSIDE], story.now) == Probe(HOTEL)


def test_a_step_of_no_rewind_has_no_turn_while_the_definition_acts() -> None:
    story = Story().does(FLIGHT).does(HOTEL).tell(rewind(HOTEL))
    told = "^saga s1 is running: it is not the turn of step flight to be taken back$"
    story.refuses(c.StartCompensation(step=FLIGHT, certain=True, verdict=ALLOW), told)


def test_a_rewind_that_is_under_way_when_the_work_ends_goes_on() -> None:
    story = Story().does(FLIGHT).tell(rewind(FLIGHT)).finishes()
    assert (story.saga.rewinding, story.due()) == ((INSIDE,), Compensate(FLIGHT))
    story.takes_back(FLIGHT).comes_to_its_end()
    assert story.comes_to_its_end().phase is _G.COMPLETED


def test_a_saga_that_a_person_has_brought_to_its_end_has_no_rewind_under_way() -> None:
    story = Story().does(FLIGHT).tell(rewind(FLIGHT)).diverges().resolves()
    assert (story.phase, story.saga.rewinding) == (_G.COMPLETED, ())


def test_work_that_goes_on_stops_at_the_end_of_a_rewind_that_an_incident_keeps() -> None:
    story = Story().does(FLIGHT).tell(rewind(FLIGHT)).calls_person(FLIGHT)
    story.saga = evolve(story.saga, e.WorkResumed(by="person:ann"))
    assert story.tell(END).facts == (e.SagaHalted(),)


def test_a_rewind_names_the_step_that_failed_only_where_it_is_of_this_saga() -> None:
    for step, named in ((FLIGHT, FLIGHT), (StepId("of another saga"), None)):
        (fact,) = Story().does(FLIGHT).tell(replace(rewind(FLIGHT), step=step)).facts
        assert isinstance(fact, e.RewindStarted)
        assert fact.step == named


# -- from outside -----------------------------------------------------------------------------------------------------


def test_going_back_to_a_checkpoint_forgets_the_rewinds_since_but_those_from_outside() -> None:
    story = marked().tell(back_to("a"))
    first = outside(story)
    story.takes_back(HOTEL).comes_to_its_end().does(CAR).tell(rewind(CAR)).takes_back(CAR).tell(END).does(BUS)
    assert set(story.saga.rewinds) == {first, INSIDE}
    story.tell(back_to("a"))
    assert set(story.saga.rewinds) == {first, outside(story)}
    story.takes_back(BUS).comes_to_its_end()
    assert story.tell(rewind(place=INSIDE)).saga.rewinding == (INSIDE,), "the place is free again"


def test_going_back_to_a_checkpoint_ends_the_rewinds_under_way_since_and_no_others() -> None:
    story = marked().tell(rewind(HOTEL)).tell(back_to("a"))
    assert (set(story.saga.rewinds), story.saga.rewinding) == ({outside(story)}, (outside(story),))
    before = Story().does(FLIGHT).does(BUS).tell(rewind(BUS)).tell(c.MakeCheckpoint(place=StepId("mark"), name="a"))
    before.does(HOTEL).tell(back_to("a"))
    assert before.saga.rewinding == (INSIDE, outside(before))
    assert before.due() == Compensate(HOTEL), "that from outside comes first"
    before.refuses(c.StartCompensation(step=BUS, certain=True, verdict=ALLOW), "not the turn of step bus")
    assert before.takes_back(HOTEL).comes_to_its_end().saga.rewinding == (INSIDE,)


def test_a_rewind_waits_for_its_own_steps_that_are_on_their_way() -> None:
    story = Story().does(FLIGHT).does(HOTEL).tell(rewind(HOTEL)).starts_back(HOTEL)
    assert rewinding(story.saga, story.saga.rewinds[INSIDE], NOW) == Settle((HOTEL,))


def test_who_goes_on_without_a_new_time_keeps_the_old_one() -> None:
    story = Story().does(FLIGHT).does(HOTEL).tell(rewind(HOTEL))
    paused = evolve(story.saga.copy(), e.SagaPaused(by="person:ann", why="wait"))
    resumed = evolve(paused, e.WorkResumed(by="person:ann"))
    assert resumed.rewinds[INSIDE].deadline_at == story.saga.rewinds[INSIDE].deadline_at > 0


def test_a_rewind_that_began_just_before_what_is_taken_back_goes_on() -> None:
    story = Story().does(FLIGHT).tell(rewind(FLIGHT)).does(HOTEL).tell(back_to(last=1))
    assert story.saga.rewinding == (INSIDE, outside(story))


def test_going_back_from_the_end_of_the_work_forgets_how_it_had_ended() -> None:
    story = marked().begins(CAR).tell(c.FinishWork(result="all", early="enough")).tell(back_to("a"))
    saga = story.saga
    assert (saga.finished, saga.early, saga.result, saga.works) == (False, "", None, False)
    assert story.due() == Settle((CAR,))


def test_going_back_says_to_each_that_is_void_or_dropped_why() -> None:
    why = "the part of the work that it belongs to is taken back"
    held = contract("act.held", hold=True)
    for asked in (back_to("a"), rewind(CAR)):
        story = marked().proposes(CAR, held).judges(CAR).tell(asked)
        assert story.facts[0] == e.StepDropped(step=CAR, why=why)
        story = marked().proposes(CAR).judges(CAR, ASK).tell(asked)
        assert story.facts[0] == e.ApprovalVoided(step=CAR, why=why)


def test_a_wait_since_is_forgotten_and_the_signal_that_it_had_taken_is_there_again() -> None:
    wait = c.StartWait(place=StepId("w"), name="go", until=NOW + 5)
    story = marked().tell(wait).tell(replace(wait, place=StepId("v"))).tell(c.SendSignal("go", "x", "ann"))
    story.tell(back_to("a"))
    waits = story.saga.waits
    assert waits is not None
    assert (dict(waits.places), dict(waits.open), list(waits.unread)) == ({}, {}, [1])
    assert not open_waits(story.saga)
    before = Story().does(FLIGHT).tell(wait).does(HOTEL).tell(back_to(last=1)).saga
    assert [one.place for one in open_waits(before)] == [StepId("w")]


def test_a_checkpoint_since_is_forgotten_and_that_to_which_it_goes_back_is_not() -> None:
    story = marked().tell(c.MakeCheckpoint(place=StepId("since"), name="b")).does(CAR).tell(back_to("a"))
    assert set(story.saga.checkpoints) == {StepId("mark")}


def test_so_many_steps_cannot_be_taken_back_across_what_was_taken_back_since() -> None:
    story = Story().does(FLIGHT).does(HOTEL).tell(rewind(FLIGHT)).takes_back(FLIGHT).tell(END)
    story.refuses(back_to(last=1), "^saga s1: that place lies in a part of the work that was taken back since; ")


def test_what_was_proposed_just_before_what_is_taken_back_goes_on() -> None:
    story = Story().does(FLIGHT).proposes(CAR).does(HOTEL).proposes(BUS).tell(back_to(last=1))
    (fact,) = story.facts
    assert isinstance(fact, e.RewindStarted)
    assert fact.steps == (HOTEL, BUS)


def test_what_was_proposed_before_a_checkpoint_and_begun_since_is_taken_back() -> None:
    story = Story().proposes(CAR).judges(CAR).tell(c.MakeCheckpoint(place=StepId("mark"), name="a")).tries(CAR)
    (fact,) = story.tell(back_to("a")).facts
    assert isinstance(fact, e.RewindStarted)
    assert fact.steps == (CAR,)


def test_going_back_closes_the_incident_that_kept_the_saga() -> None:
    story = marked().diverges().tell(back_to("a"))
    assert story.facts[0] == e.IncidentResolved(incident=1, by="person:ann", reason="the saga goes back", settled=())
    assert (story.phase, story.due()) == (_G.RUNNING, Compensate(HOTEL))


def test_what_had_been_taken_back_before_is_not_told_again_as_taken_back() -> None:
    story = marked().does(CAR).tell(rewind(HOTEL)).takes_back(HOTEL).tell(END).tell(back_to("a")).takes_back(CAR)
    assert story.comes_to_its_end().facts == (e.RewindEnded(place=None, taken_back=(CAR,)),)


def test_a_place_before_what_was_taken_back_since_can_be_gone_back_to() -> None:
    """A step that never had an intent was nowhere in the order, and is in nobody's way."""
    story = marked().proposes(CAR).tell(rewind(CAR)).tell(END)
    (fact,) = story.tell(back_to("a")).facts
    assert isinstance(fact, e.RewindStarted)
    assert fact.steps == (HOTEL, CAR)


def test_past_its_window_a_rewind_calls_a_person_and_goes_on_with_a_new_one() -> None:
    story = Story().does(FLIGHT).tell(back_to(last=1)).later(WINDOW_S)
    due = story.due()
    assert isinstance(due, CallPerson)
    assert (due.kind, due.step, due.stops) == (e.IncidentKind.COMPENSATION_TIMED_OUT, FLIGHT, False)
    story.tell(c.OpenIncident(kind=due.kind, step=due.step, why=due.why))
    assert story.phase is _G.INCIDENT
    assert story.retries().due() == Compensate(FLIGHT)
    assert story.takes_back(FLIGHT).due() == End()


@pytest.mark.parametrize("status", [_S.SUCCEEDED, _S.FAILED])
def test_what_the_definition_was_told_is_told_again(status: StepStatus) -> None:
    story = Story().does(FLIGHT, outcome=DONE if status is _S.SUCCEEDED else Failed(error="no", fatal=True))
    story.tell(rewind(FLIGHT))
    told = story.step(FLIGHT).told
    assert told is not None
    assert told.status is status
    assert story.needs(FLIGHT) == (None if status is _S.SUCCEEDED else GiveUp(FLIGHT))
