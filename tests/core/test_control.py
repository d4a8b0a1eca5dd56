"""Pausing one saga and letting it go on; the sagas that only keep policies, pauses and holds."""

import pytest

from amends.core import commands as c, events as e
from amends.core.transitions import SagaStatus
from amends.core.words.values import CONTROL, POLICIES, StepId
from amends.errors import RefusedError
from tests.core.story import FLIGHT, NOW, Story

_G = SagaStatus
PAUSE = c.PauseSaga(by="person:ann", why="lunch")
GO_ON = c.UnpauseSaga(by="person:bob")
HOLD = e.HoldPlaced(saga="s9", by="person:ann", why="audit")


def test_a_pause_is_on_record_once() -> None:
    story = Story().does(FLIGHT).tell(PAUSE)
    assert story.facts == (e.SagaPaused(by="person:ann", why="lunch", pause=0),)
    assert story.phase is _G.PAUSED
    assert story.tell(PAUSE).facts == ()
    assert story.tell(c.PauseSaga(by="person:bob", why="wide", pause=4)).facts == ()


def test_a_wide_pause_may_become_a_saga_s_own_and_not_the_other_way_round() -> None:
    story = Story().tell(c.PauseSaga(by="person:bob", why="wide", pause=4))
    assert story.facts == (e.SagaPaused(by="person:bob", why="wide", pause=4),)
    assert story.tell(c.PauseSaga(by="person:bob", why="wider", pause=5)).facts == ()
    assert story.tell(PAUSE).facts == (e.SagaPaused(by="person:ann", why="lunch"),)
    assert story.tell(PAUSE).facts == ()


def test_what_dispatches_nothing_cannot_be_paused() -> None:
    nothing = "nothing is dispatched for it, so there is nothing to pause"
    Story().finishes().refuses(PAUSE, f"^saga s1 is completed: {nothing}$")
    Story().diverges().refuses(PAUSE, f"^saga s1 is incident: {nothing}$")
    Story(started=False).refuses(PAUSE, "^saga s1 is running: it has not been started, so there is nothing to pause$")


def test_a_rollback_goes_on_unless_it_is_said_that_it_stops_too() -> None:
    story = Story().does(FLIGHT).fails()
    story.refuses(PAUSE, "^saga s1 is rolling back, which goes on; say that rollbacks stop too to pause it$")
    story.tell(c.PauseSaga(by="person:ann", why="", rollbacks=True)).tell(GO_ON, now=NOW + 5)
    assert story.facts == (e.RollbackResumed(by="person:bob", deadline_at=NOW + 5 + 900_000),)
    assert (story.phase, story.saga.deadline_at) == (_G.ROLLING_BACK, NOW + 5 + 900_000)


def test_who_is_not_paused_is_not_let_go_on() -> None:
    Story().refuses(GO_ON, "^saga s1 is running, and not paused$")


def test_the_work_goes_on_and_a_rewind_in_it_has_a_full_window() -> None:
    assert Story().tell(PAUSE).tell(GO_ON).facts == (e.WorkResumed(by="person:bob", deadline_at=0),)
    story = Story().does(FLIGHT)
    story.tell(c.Rewind(place=StepId("r"), steps=(FLIGHT,), why="")).tell(PAUSE)
    assert story.tell(GO_ON, now=NOW + 5).facts == (e.WorkResumed(by="person:bob", deadline_at=NOW + 5 + 900_000),)
    assert story.saga.rewinds[StepId("r")].deadline_at == NOW + 5 + 900_000


# -- what holds for every saga ----------------------------------------------------------------------------------------


def test_a_control_is_kept_in_a_saga_that_has_ended_as_soon_as_it_began() -> None:
    story = Story(started=False).tell(c.KeepControl(HOLD))
    assert story.facts == (
        e.SagaStarted(definition=CONTROL, version=1, input=None, actor="person:ann", env="", labels={}),
        e.SagaCompleted(result=None),
        HOLD,
    )
    assert story.tell(c.KeepControl(HOLD)).facts == (HOLD,)
    Story().refuses(c.KeepControl(HOLD), "^saga s1 is trip, and controls nothing$")


def test_a_policy_is_kept_the_same_way() -> None:
    adopt = c.AdoptPolicy(digest="d", text="t", by="person:ann", why="new")
    adopted = e.PolicyAdopted(digest="d", text="t", by="person:ann", why="new")
    story = Story(started=False).tell(adopt)
    assert story.facts == (
        e.SagaStarted(definition=POLICIES, version=1, input=None, actor="person:ann", env="", labels={}),
        e.SagaCompleted(result=None),
        adopted,
    )
    assert story.tell(adopt).facts == (adopted,)
    Story().refuses(adopt, "^saga s1 is trip, and keeps no policies$")


@pytest.mark.parametrize("asked", [c.KeepControl(HOLD), c.AdoptPolicy(digest="d", text="t", by="person:ann", why="")])
def test_what_is_kept_there_is_not_taken_back(asked: c.Command) -> None:
    story = Story(started=False).tell(asked)
    cancel = c.CancelSaga(by="person:ann", why="")
    with pytest.raises(RefusedError) as refused:
        story.tell(cancel)
    assert str(refused.value).endswith(
        "the policies, pauses and holds stay on record; adopt another policy, unpause, or lift the hold"
    )
