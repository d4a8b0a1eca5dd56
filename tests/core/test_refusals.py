"""What is refused says which saga, which step, and why; what comes of an answer, a rewind or a lock is told in full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from amends.core import commands as c, events as e
from amends.core.decide.require import later
from amends.core.effects import Queue
from amends.core.state.saga import replay
from amends.core.state.waits import Signal
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.contracts import key_of
from amends.core.words.outcomes import Failed, FoundNothing, Lost, NoAnswer, Succeeded
from amends.core.words.values import Json, SagaId, StepId
from amends.core.words.verdict import Decision, Need, Verdict
from amends.errors import (
    JournalDamagedError,
    PastPivotError,
    TooLargeError,
    UnknownCheckpointError,
    UnknownIncidentError,
)
from tests.core.story import (
    ACT,
    ALLOW,
    CAR,
    DENY,
    FLIGHT,
    HOTEL,
    LOST,
    NOW,
    PIVOT,
    PROBED,
    Story,
    contract,
    start,
)

_G, _S = SagaStatus, StepStatus
HELD = contract("act.held", hold=True)
ASK = Verdict(decision=Decision.REQUIRE_HUMAN, rule="ask", policy="p", why="big", expires_s=60)
HERE = StepId("here")


def rewind(*steps: StepId, place: StepId = HERE) -> c.Rewind:
    return c.Rewind(place=place, steps=steps, why="again")


def back_to(to: str | None = None, last: int | None = None) -> c.RollBackTo:
    return c.RollBackTo(to=to, last=last, by="person:ann", why="wrong")


def checkpoint(name: str, place: StepId = HERE) -> c.MakeCheckpoint:
    return c.MakeCheckpoint(place=place, name=name)


# -- the work ---------------------------------------------------------------------------------------------------------


def test_a_saga_is_started_once_and_works_until_its_end() -> None:
    Story().refuses(start(), "^saga s1 has been started already$")
    Story(started=False).refuses(c.FinishWork(result=None), "^saga s1 has not been started$")
    Story().finishes().refuses(c.FinishWork(result=None), "^saga s1 is completed$")
    Story().begins(FLIGHT).finishes().refuses(c.FinishWork(result=None), "^saga s1 is finished with its work$")
    going_back = Story().does(FLIGHT).tell(checkpoint("a")).does(HOTEL).tell(back_to("a"))
    going_back.refuses(c.FinishWork(result=None), "^saga s1 is going back$")


def test_a_step_is_proposed_and_dispatched_once_and_only_where_it_may() -> None:
    story = Story().does(FLIGHT)
    propose = c.ProposeStep(step=FLIGHT, contract=ACT, args={}, digest="")
    story.refuses(propose, "^saga s1 has a step flight already$")
    story.refuses(c.DispatchStep(FLIGHT, ACT, {}, "", ALLOW), "^saga s1 has a step flight already$")
    story.refuses(
        c.DispatchStep(HOTEL, HELD, {}, "", ALLOW),
        "^step hotel is held until everything that could fail has passed; propose it$",
    )
    story.refuses(c.DispatchStep(HOTEL, ACT, {}, "", DENY), "^step hotel is not allowed by r; propose it instead$")
    story.refuses(c.StartAttempt(step=HOTEL), "^saga s1 has no step hotel$")
    story.refuses(
        c.StartAttempt(step=FLIGHT), "^step flight of saga s1 is succeeded: it is too late for AttemptStarted$"
    )


def test_what_is_dispatched_at_once_says_all_that_a_proposal_says() -> None:
    story = Story().tell(c.DispatchStep(FLIGHT, ACT, {"n": 1}, "dig", ALLOW, after=(HOTEL,)))
    (fact,) = story.facts
    assert isinstance(fact, e.ActionDispatched)
    assert (fact.step, fact.topic, fact.version, fact.args, fact.digest) == (FLIGHT, "act", 1, {"n": 1}, "dig")
    assert (fact.rule, fact.policy, fact.contract, fact.after) == ("r", "p", ACT, (HOTEL,))
    (other,) = story.tell(c.ProposeStep(HOTEL, ACT, {"n": 2}, "dug", after=(FLIGHT,))).facts
    assert other == e.StepProposed(
        step=HOTEL, topic=ACT.topic, version=1, args={"n": 2}, digest="dug", contract=None, after=(FLIGHT,)
    )


def test_the_start_says_all_that_was_asked() -> None:
    limits: Json = {"tokens": {"most": 5}}
    asked = c.StartSaga("trip", 2, {"a": 1}, "ann", "test", {"tenant": "acme"}, limits, "files")
    (fact,) = Story(started=False).tell(asked).facts
    assert fact == e.SagaStarted(
        definition="trip", version=2, input={"a": 1}, actor="ann", env="test", labels={"tenant": "acme"},
        limits=limits, files="files",
    )  # fmt: skip


def test_how_it_ended_is_told_with_why_it_ended_early() -> None:
    done = Story().tell(c.FinishWork(result="all", early="enough"))
    assert done.facts == (e.SagaCompleted(result="all", early="enough"),)
    assert (done.saga.finished, done.saga.result, done.saga.early) == (True, "all", "enough")
    later_on = Story().begins(FLIGHT).tell(c.FinishWork(result="all", early="enough"))
    assert later_on.facts == (e.WorkFinished(result="all", early="enough"),)
    later_on.ends(FLIGHT, Succeeded(None)).comes_to_its_end()
    assert later_on.events[-1] == e.SagaCompleted(result="all", early="enough")


def test_what_people_were_asked_is_void_when_the_work_ends_without_it() -> None:
    story = Story().proposes(FLIGHT).judges(FLIGHT, ASK).finishes()
    assert story.facts[0] == e.ApprovalVoided(step=FLIGHT, why="the work has finished without it")
    gone = Story().proposes(FLIGHT).judges(FLIGHT, ASK).fails()
    assert gone.facts[0] == e.ApprovalVoided(step=FLIGHT, why="the saga is rolled back")


def test_a_step_that_was_taken_back_is_not_started_again() -> None:
    story = Story().proposes(FLIGHT).judges(FLIGHT).tell(rewind(FLIGHT))
    story.refuses(
        c.StartAttempt(step=FLIGHT),
        "^step flight of saga s1 was taken back, with the part of the work it belongs to$",
    )
    lost = Story().does(FLIGHT, ACT, LOST)
    lost.refuses(
        c.StartAttempt(step=FLIGHT), "^step flight of saga s1 is not repeatable, and nobody knows its outcome$"
    )


def test_an_outcome_is_told_with_all_that_it_brought() -> None:
    story = Story().begins(FLIGHT).ends(FLIGHT, Succeeded("r", opaque="set", layer="l1"))
    assert story.facts == (e.AttemptSucceeded(step=FLIGHT, attempt=1, result="r", opaque="set", layer="l1"),)
    held_up = Story().begins(FLIGHT, PROBED).ends(FLIGHT, LOST)
    assert held_up.facts == (
        e.AttemptLost(step=FLIGHT, attempt=1, error="no answer", fatal=False, retry_at=NOW + 1000),
    )
    held_up.later(9).hears(FLIGHT, FoundNothing(), reports=-1)
    why = "an attempt reported late, after the question was put"
    assert held_up.events[-1] == e.ProbeUnanswered(step=FLIGHT, error=why, retry_at=held_up.now + 1000)


def test_who_fails_after_a_loss_may_have_taken_effect_and_says_when_to_try_again() -> None:
    story = Story().begins(FLIGHT, contract("again", idempotent=True, attempts=5)).ends(FLIGHT, LOST).later(9)
    story.tries(FLIGHT).ends(FLIGHT, Failed(error="busy", after_s=7))
    assert story.facts == (
        e.AttemptLost(
            step=FLIGHT,
            attempt=2,
            error="busy; an earlier attempt was lost, and may have taken effect",
            fatal=False,
            retry_at=story.now + 7000,
        ),
    )
    probed = (
        Story().begins(FLIGHT, contract("ask", probe=True, idempotent=True, attempts=5)).ends(FLIGHT, LOST).later(9)
    )
    probed.hears(FLIGHT, FoundNothing())
    assert probed.status(FLIGHT) is _S.FAILED
    unsure = Story().begins(FLIGHT, contract("ask", probe=True, idempotent=True, attempts=5)).ends(FLIGHT, LOST)
    unsure.fails_to_answer(FLIGHT).tries(FLIGHT).ends(FLIGHT, Failed(error="busy", after_s=7))
    assert (type(unsure.facts[0]), unsure.step(FLIGHT).retry_at) == (e.AttemptLost, unsure.now + 7000)


def test_an_answer_that_came_too_soon_does_not_keep_what_can_be_repeated_from_being_tried_again() -> None:
    story = Story().does(FLIGHT, contract("ask", probe=True, idempotent=True, attempts=5), LOST)
    for _ in range(2):
        story.later(9).hears(FLIGHT, NoAnswer("busy"))
    assert story.later(9).hears(FLIGHT, FoundNothing(), reports=-1).step(FLIGHT).retry_at == story.now + 1000


def test_a_lock_that_is_not_had_voids_what_people_agreed_to() -> None:
    story = Story().proposes(FLIGHT).judges(FLIGHT)
    wait = c.AwaitLock(step=FLIGHT, resources=("a", "b"), holder="s9", until=NOW + 5)
    assert story.tell(wait).facts == (e.LockAwaited(step=FLIGHT, resources=("a", "b"), holder="s9", until=NOW + 5),)
    assert story.needs(FLIGHT) == Queue(FLIGHT, NOW + 5)
    refuse = c.RefuseLock(step=FLIGHT, error="held by s9", deadlock=True)
    assert story.tell(refuse).facts == (e.LockRefused(step=FLIGHT, error="held by s9", deadlock=True),)
    asked = Story().proposes(FLIGHT).tell(c.RecordVerdict(step=FLIGHT, verdict=ASK))
    asked.tell(c.AnswerApproval(FLIGHT, "person:bob", granted=True, why="")).tell(wait).tell(refuse)
    assert asked.facts == (
        e.LockRefused(step=FLIGHT, error="held by s9", deadlock=True),
        e.ApprovalVoided(step=FLIGHT, why="its step did not get what it needs for itself"),
    )
    Story().finishes().refuses(c.TakeLock(step=FLIGHT), "^saga s1 is completed$")
    assert Story().proposes(FLIGHT).judges(FLIGHT).tell(wait).tell(c.TakeLock(step=FLIGHT)).facts == (
        e.LockTaken(step=FLIGHT),
    )


def test_for_ever_is_ten_years() -> None:
    assert later(5, 1.5) == 1505
    assert later(0, float("inf")) == later(0, 10 * 365 * 24 * 3600) == 315_360_000_000


# -- approvals --------------------------------------------------------------------------------------------------------


def test_what_people_are_asked_is_shown_whole() -> None:
    story = Story().proposes(FLIGHT).judges(FLIGHT, ASK)
    (fact,) = story.facts
    assert isinstance(fact, e.ApprovalRequested)
    assert (fact.rule, fact.policy, fact.why, fact.needs) == ("ask", "p", "big", (Need(rule="ask"),))
    assert isinstance(fact.shown, dict)
    shown = {name: fact.shown[name] for name in fact.shown if name != "contract"}
    assert shown == {
        "topic": "act", "version": 1, "args": {}, "saga": "s1", "step": "flight", "definition": "trip",
        "requester": "ann", "env": "test", "policy": "p", "rule": "ask",
        "needs": [{"rule": "ask", "approvals": 1, "approvers": []}], "expires_at": fact.expires_at, "request": 1,
    }  # fmt: skip


def test_who_asks_ahead_asks_under_a_name_of_its_own() -> None:
    story = Story().proposes(FLIGHT).tell(c.RecordVerdict(step=FLIGHT, verdict=ALLOW, ahead=True))
    (fact,) = story.facts
    assert isinstance(fact, e.ApprovalRequested)
    assert (fact.rule, fact.policy, fact.needs) == ("asked-ahead", "p", (Need(rule="asked-ahead"),))


def test_an_approval_of_what_is_held_may_run_out_meanwhile() -> None:
    story = Story().proposes(FLIGHT, HELD).tell(c.RecordVerdict(step=FLIGHT, verdict=ASK))
    story.tell(c.AnswerApproval(FLIGHT, "person:bob", granted=True, why="")).finishes()
    story.tell(c.StartAttempt(step=FLIGHT, policy="p"), now=NOW + 60_000)
    assert story.facts == (e.ApprovalVoided(step=FLIGHT, why="it expired while the step was held"),)


def test_what_is_held_starts_after_the_work_when_nothing_is_in_flight_and_in_its_turn() -> None:
    told = "of saga s1 is held until everything that could fail has passed$"
    start = c.StartAttempt(step=FLIGHT)
    story = Story().proposes(FLIGHT, HELD).judges(FLIGHT).proposes(HOTEL, HELD).judges(HOTEL).begins(CAR)
    story.refuses(start, f"^step flight {told}")
    story.finishes().refuses(start, f"^step flight {told}")
    story.ends(CAR, Succeeded(None)).refuses(c.StartAttempt(step=HOTEL), f"^step hotel {told}")
    story.tries(FLIGHT).ends(FLIGHT, Failed(error="no", fatal=True))
    story.tell(c.OpenIncident(kind=e.IncidentKind.RELEASE_FAILED, step=FLIGHT, why="no"))
    assert story.phase is _G.INCIDENT
    story.refuses(start, f"^step flight {told}")
    assert story.retries().tries(FLIGHT).status(FLIGHT) is _S.RUNNING


def test_what_is_released_and_is_to_be_tried_again_is_though_something_else_has_landed_since() -> None:
    story = Story().does(CAR, ACT, Failed(error="no", fatal=True)).proposes(FLIGHT, HELD).judges(FLIGHT).finishes()
    story.tries(FLIGHT).ends(FLIGHT, Failed(error="busy")).lands(CAR).later(1)
    assert story.tries(FLIGHT).status(FLIGHT) is _S.RUNNING


def test_who_resolves_that_a_release_is_denied_drops_that_one_alone() -> None:
    story = Story()
    for step in (FLIGHT, HOTEL):
        story.proposes(step, HELD).tell(c.RecordVerdict(step=step, verdict=ASK))
        story.tell(c.AnswerApproval(step, "person:bob", granted=True, why=""))
    story.finishes().judges(FLIGHT, DENY)
    story.tell(c.OpenIncident(kind=e.IncidentKind.RELEASE_FAILED, step=FLIGHT, why="not today")).resolves()
    assert story.facts == (
        e.IncidentResolved(incident=1, by="person:ann", reason="by hand", settled=()),
        e.StepDropped(step=FLIGHT, why="by hand"),
        e.WorkResumed(by="person:ann"),
    )


def test_what_people_were_asked_is_void_when_a_person_ends_the_saga() -> None:
    story = Story().does(CAR, PIVOT).proposes(FLIGHT).judges(FLIGHT, ASK).fails().resolves()
    assert story.facts[1] == e.ApprovalVoided(step=FLIGHT, why="the saga is rolled back")


def test_what_is_held_when_a_person_ends_the_saga_is_dropped_with_the_reason() -> None:
    story = Story().does(CAR, PIVOT).proposes(FLIGHT, HELD).judges(FLIGHT).fails().resolves()
    assert story.facts == (
        e.IncidentResolved(incident=1, by="person:ann", reason="by hand", settled=()),
        e.StepDropped(step=FLIGHT, why="its saga was brought to an end by hand"),
        e.SagaCompleted(result=None),
    )


def test_who_may_not_answer_is_told_why() -> None:
    story = Story().proposes(FLIGHT).tell(c.RecordVerdict(step=FLIGHT, verdict=ASK))

    def answers(by: str, digest: str | None = None) -> c.AnswerApproval:
        return c.AnswerApproval(FLIGHT, by, granted=True, why="", digest=digest)

    story.refuses(
        answers("agent:x"),
        "^'agent:x' is not a person, and only people grant step flight of saga s1: "
        "any person but ann may, as person:<name>$",
    )
    story.refuses(
        answers("person:bob", "other"),
        "^what you were shown of step flight of saga s1 is not what is asked now; look at it again$",
    )
    Story().does(FLIGHT).refuses(
        answers("person:bob"), "^step flight of saga s1 does not wait for an approval: it is succeeded$"
    )
    story.tell(answers("person:bob")).refuses(
        answers("person:eve"),
        "^step flight of saga s1 does not wait for an approval: it is ready, and its approval granted$",
    )


# -- what another saga counts on --------------------------------------------------------------------------------------

ASKS_ELSEWHERE = "its parent p counts on it; cancel p"
OF_A_CHILD: dict[str, c.CancelSaga | c.RollBackTo] = {
    "all": c.CancelSaga(by="person:bob", why="rain", counted_on=ASKS_ELSEWHERE),
    "the last": c.RollBackTo(to=None, last=1, by="person:bob", why="rain", counted_on=ASKS_ELSEWHERE),
}


def halted_after_its_end() -> Story:
    """An attempt that had been given up lands when all is over."""
    story = Story().begins(HOTEL, PROBED).ends(HOTEL, LOST).hears(HOTEL, FoundNothing()).does(FLIGHT)
    return story.finishes().lands(HOTEL)


BEGINNINGS: dict[str, Callable[[], Story]] = {
    "under way": lambda: Story().does(FLIGHT),
    "waiting": lambda: Story().does(FLIGHT).tell(c.StartWait(place=HERE, name="go", until=NOW + 1)),
    "stopped at an incident": lambda: Story().does(FLIGHT).diverges(),
    "completed": lambda: Story().does(FLIGHT).finishes(),
    "stopped after it had completed": halted_after_its_end,
}


@pytest.mark.parametrize(
    ("how_it_stands", "may_go_back"),
    [
        ("under way", ["the last"]),
        ("waiting", ["the last"]),
        ("stopped at an incident", ["all", "the last"]),
        ("completed", []),
        ("stopped after it had completed", []),
    ],
)
def test_what_another_saga_counts_on_goes_back_only_where_that_one_still_hears_of_it(
    how_it_stands: str, may_go_back: list[str]
) -> None:
    for how, command in OF_A_CHILD.items():
        story = BEGINNINGS[how_it_stands]()
        if how in may_go_back:
            assert story.tell(command).facts
        else:
            story.refuses(command, f"^{ASKS_ELSEWHERE}$")
        assert BEGINNINGS[how_it_stands]().tell(replace(command, counted_on="")).facts, "where nobody counts on it"


def test_what_goes_back_already_is_not_refused_for_those_who_count_on_it() -> None:
    story = Story().does(FLIGHT).cancels()
    assert story.tell(OF_A_CHILD["all"]).facts == ()


# -- checkpoints and rewinds ------------------------------------------------------------------------------------------


def test_a_place_is_used_once() -> None:
    story = Story().does(FLIGHT).tell(checkpoint("a"))
    story.refuses(checkpoint("b"), "^saga s1 has something at place here already$")
    story.refuses(rewind(FLIGHT), "^saga s1 has something at place here already$")
    story.refuses(checkpoint("b", FLIGHT), "^saga s1 has something at place flight already$")
    waits = Story().tell(c.StartWait(place=HERE, name="go", until=NOW))
    waits.refuses(checkpoint("b"), "^saga s1 has something at place here already$")
    waits.refuses(c.StartWait(place=HERE, name="", until=0), "^saga s1 has something at place here already$")


def test_going_back_to_nowhere_is_refused_with_the_places_that_there_are() -> None:
    kind = UnknownCheckpointError
    told = r"^saga s1 has no checkpoint 'x'; it has made none; see s.checkpoint\(name\)$"
    Story().refuses(back_to("x"), told, kind)
    story = Story().tell(checkpoint("b")).tell(checkpoint("a", StepId("2"))).tell(checkpoint("b", StepId("3")))
    story.refuses(back_to("x"), "^saga s1 has no checkpoint 'x'; there are: 'b', 'a'$", kind)


def test_of_two_checkpoints_of_one_name_the_newest_counts() -> None:
    story = Story().tell(checkpoint("a", StepId("z"))).does(FLIGHT).tell(checkpoint("a", StepId("b"))).does(HOTEL)
    (fact,) = story.tell(back_to("a")).facts
    assert fact == e.RewindStarted(
        place=None, steps=(HOTEL,), why="wrong", by="person:ann", deadline_at=NOW + 900_000, to=StepId("b"), above=5
    )
    assert set(story.saga.checkpoints) == {"z", "b"}


def test_so_many_steps_are_taken_back_and_no_more_than_stand() -> None:
    failed = Story().does(FLIGHT).does(HOTEL, ACT, Failed(error="no", fatal=True))
    failed.refuses(back_to(last=2), "^last=2: only 1 step stands that could be taken back; ask for fewer$")
    story = Story().does(FLIGHT).does(HOTEL).does(CAR)
    story.refuses(back_to(last=0), "^last=0: at least 1 step has to be taken back$")
    story.refuses(back_to(last=4), "^last=4: only 3 steps stand that could be taken back; ask for fewer$")
    (fact,) = story.tell(back_to(last=2)).facts
    assert isinstance(fact, e.RewindStarted)
    assert (fact.steps, fact.to, fact.above) == ((CAR, HOTEL), None, 3)
    story.refuses(back_to(last=1), "^saga s1 is going back already; wait for that, then ask again$")
    one = Story().does(FLIGHT).does(HOTEL).tell(back_to()).facts[0]
    assert isinstance(one, e.RewindStarted)
    assert one.steps == (HOTEL,)


def test_who_goes_back_under_a_pause_is_paused_again_where_it_has_come_to() -> None:
    story = Story().does(FLIGHT).tell(c.PauseSaga(by="person:a", why="a look")).tell(back_to(last=1))
    story.takes_back(FLIGHT).comes_to_its_end()
    assert story.facts[-1] == e.SagaPaused(by="person:a", why="a look")
    assert story.phase is SagaStatus.PAUSED
    assert story.tell(c.UnpauseSaga(by="person:a")).saga.works


def test_who_goes_back_under_a_wide_pause_finds_it_by_itself() -> None:
    story = Story().does(FLIGHT).tell(c.PauseSaga(by="person:a", why="a look", pause=7)).tell(back_to(last=1))
    assert story.takes_back(FLIGHT).comes_to_its_end().saga.works


def test_a_place_in_what_was_taken_back_since_cannot_be_gone_back_to() -> None:
    story = Story().does(FLIGHT).tell(checkpoint("a")).does(HOTEL).tell(rewind(HOTEL, FLIGHT, place=StepId("r")))
    story.takes_back(HOTEL).takes_back(FLIGHT).tell(c.EndRewind(place=StepId("r"))).does(CAR)
    story.refuses(
        back_to("a"),
        "^saga s1: checkpoint 'a' lies in a part of the work that was taken back since; roll back further",
    )


def test_a_rewind_is_at_its_end_when_nothing_of_it_is_owed() -> None:
    story = Story().does(FLIGHT).does(HOTEL).tell(rewind(FLIGHT, HOTEL, FLIGHT))
    assert story.facts == (
        e.RewindStarted(place=HERE, steps=(HOTEL, FLIGHT), why="again", by="system:runtime", deadline_at=NOW + 900_000),
    )
    end = c.EndRewind(place=HERE)
    story.refuses(end, "^saga s1 is running, and its rewind at here is not at its end$")
    story.refuses(c.EndRewind(place=CAR), "^saga s1 has no rewind under way at place car$")
    story.refuses(
        c.StartCompensation(step=FLIGHT, certain=True, verdict=ALLOW),
        "^saga s1 is running: it is not the turn of step flight to be taken back$",
    )
    story.takes_back(HOTEL).takes_back(FLIGHT).tell(end)
    assert story.events[-1] == e.RewindEnded(place=HERE, taken_back=(HOTEL, FLIGHT))


def test_a_rewind_that_crosses_the_pivot_is_refused_and_names_it() -> None:
    story = Story().does(FLIGHT).does(HOTEL, PIVOT)
    told = (
        r"^saga s1 cannot go back that far: step hotel \(act.pivot\) took effect and is irreversible "
        r"\(it cannot be unsent\), so it goes forward only$"
    )
    story.refuses(rewind(FLIGHT, HOTEL), told, PastPivotError)
    story.refuses(back_to(last=2), told, PastPivotError)
    cancelled = told.replace("cannot go back that far", "cannot be cancelled")
    story.refuses(c.CancelSaga(by="person:a", why=""), cancelled, PastPivotError)


# -- incidents --------------------------------------------------------------------------------------------------------


def stuck() -> Story:
    return Story().does(FLIGHT).fails().calls_person(FLIGHT)


def test_an_incident_has_an_owner_and_comments() -> None:
    story = stuck()
    assert story.tell(c.AssignIncident(incident=1, owner="ann", by="person:bob")).facts == (
        e.IncidentAssigned(incident=1, owner="ann", by="person:bob"),
    )
    assert (story.incident.owner, story.phase) == ("ann", _G.INCIDENT)
    assert story.tell(c.AssignIncident(incident=1, owner="ann", by="person:eve")).facts == ()
    assert story.tell(c.CommentIncident(incident=1, by="person:bob", text="looking")).facts == (
        e.IncidentCommented(incident=1, by="person:bob", text="looking"),
    )
    assert (story.incident.owner, story.saga.head) == ("ann", len(story.events))
    story.refuses(c.CommentIncident(incident=1, by="person:b", text=" "), "^a comment on incident s1/1 needs a text$")
    story.refuses(
        c.AssignIncident(incident=2, owner="a", by="person:b"), "^saga s1 has no incident 2$", UnknownIncidentError
    )
    story.resolves().refuses(
        c.CommentIncident(incident=1, by="person:b", text="x"), "^incident s1/1 is not open: it is resolved$"
    )


def test_resolving_needs_a_reason_and_letting_run_a_refusal_and_a_person() -> None:
    story = stuck()
    resolve = c.ResolveIncident(incident=1, by="person:ann", reason=" ")
    story.refuses(resolve, "^incident s1/1 needs a reason: say what was done by hand$")
    let_run = c.RetryIncident(incident=1, by="person:bob", let_run=True)
    story.refuses(
        let_run,
        "^incident s1/1 is compensation_failed: the gate has not refused anything that could be let run$",
    )
    denied = Story().does(FLIGHT).fails().starts_back(FLIGHT, verdict=DENY)
    denied.tell(c.OpenIncident(kind=e.IncidentKind.COMPENSATION_DENIED, step=FLIGHT, why="no"))
    denied.refuses(
        replace(let_run, by="agent:x"),
        "^'agent:x' is not a person, and only people let run what the gate refused: "
        "any person but ann may, as person:<name>$",
    )
    denied.tell(let_run, window_s=1)
    assert denied.facts == (
        e.IncidentRetried(incident=1, by="person:bob", let_run=True),
        e.RollbackResumed(by="person:bob", deadline_at=NOW + 1000),
    )


def test_a_resolution_may_carry_a_proof_and_settles_the_step() -> None:
    story = stuck()
    story.tell(c.ResolveIncident(incident=1, by="person:ann", reason="by hand", proof="photo"), window_s=1)
    assert story.facts == (
        e.IncidentResolved(incident=1, by="person:ann", reason="by hand", settled=(FLIGHT,), proof="photo"),
        e.RollbackResumed(by="person:ann", deadline_at=NOW + 1000),
    )
    assert (story.status(FLIGHT), story.step(FLIGHT).named) == (_S.SETTLED, False)


def test_a_late_loss_says_which_attempt_it_was() -> None:
    story = Story().does(FLIGHT, ACT, LOST).fails().starts_back(FLIGHT, certain=False).ends_back(FLIGHT)
    story.ends_late(FLIGHT, Lost(error="hm"))
    assert e.LateLossEnrolled(step=FLIGHT, attempt=1, error="hm") in story.facts


def test_a_definition_may_call_a_person() -> None:
    story = Story().does(FLIGHT)
    story.tell(c.FailWork(cause=e.Cause.ERROR, why="help", step=HOTEL, calls=True))
    assert story.facts == (
        e.IncidentOpened(incident=1, kind=e.IncidentKind.CALLED, step=None, why="help", left=(FLIGHT,)),
        e.SagaHalted(),
    )


def test_cancelling_closes_what_a_person_was_called_for() -> None:
    story = Story().does(FLIGHT).diverges().cancels()
    assert story.facts == (
        e.IncidentResolved(incident=1, by="person:bob", reason="the saga was cancelled", settled=()),
        e.RollbackStarted(cause=e.Cause.CANCELLED, why="rain", step=None, by="person:bob", deadline_at=NOW + 900_000),
    )


def test_who_asked_for_a_saga_does_not_let_its_refused_compensation_run() -> None:
    begun = c.StartSaga("trip", 1, {}, "agent:a", "test", {"owner": "person:ann"})
    story = Story(started=False).tell(begun).does(FLIGHT).fails().starts_back(FLIGHT, verdict=DENY)
    story.tell(c.OpenIncident(kind=e.IncidentKind.COMPENSATION_DENIED, step=FLIGHT, why="no"))
    story.refuses(
        c.RetryIncident(incident=1, by="person:Ann", let_run=True),
        "^person:Ann may not let run what the gate refused: they asked for it, own it, or act for who did, and outside "
        "development another person decides; any other person may$",
    )


def test_each_direction_has_a_key_of_its_own_that_never_changes() -> None:
    story = Story().begins(FLIGHT)
    assert [getattr(fact, "key", "") for fact in story.facts] == [key_of(SagaId("s1"), FLIGHT, ACT.topic, "do")]
    story.ends(FLIGHT, Succeeded("r")).fails().starts_back(FLIGHT)
    assert story.facts == (
        e.CompensationStarted(
            step=FLIGHT,
            attempt=1,
            key=key_of(SagaId("s1"), FLIGHT, ACT.topic, "undo", 0),
            certain=True,
            rule="r",
            policy="p",
        ),
    )
    story.ends_back(FLIGHT, Failed(error="busy"))
    assert story.events[-1] == e.CompensationFailed(
        step=FLIGHT, attempt=1, error="busy", changed_since=False, retry_at=NOW + 1000
    )


# -- signals ----------------------------------------------------------------------------------------------------------


def signal(name: str = "go", *, early: bool = False, payload: str = "x") -> c.SendSignal:
    return c.SendSignal(name=name, payload=payload, by="person:ann", early=early)


def test_a_signal_that_nobody_waits_for_is_refused_with_what_is_waited_for() -> None:
    kept = "check the name, or send it early, which keeps it until the saga waits for it$"
    Story(started=False).refuses(signal(), "^saga s1 has not been started$")
    Story().refuses(signal(), f"^saga s1 does not wait for 'go': it waits for no signal now; {kept}")
    story = Story().tell(c.StartWait(StepId("1"), "a", NOW)).tell(c.StartWait(StepId("2"), "b", NOW))
    story.tell(c.StartWait(StepId("3"), "a", NOW)).tell(c.StartWait(StepId("4"), "", NOW))
    story.refuses(signal(), f"^saga s1 does not wait for 'go': it waits for 'a', 'b'; {kept}")
    gone = "nothing in it will wait for 'go' any more$"
    Story().finishes().refuses(signal(), f"^saga s1 is completed: {gone}")
    Story().begins(FLIGHT).finishes().refuses(signal(), f"^saga s1 has finished its work: {gone}")
    Story().does(FLIGHT).fails().refuses(signal(), f"^saga s1 is rolling_back: {gone}")


def test_a_payload_has_a_size() -> None:
    Story().refuses(
        signal(early=True, payload="x" * (1024 * 1024)),
        "^the payload of signal 'go' takes more than 1 MB as JSON; store it elsewhere and send a reference$",
        TooLargeError,
    )
    assert len(Story().tell(signal(early=True, payload="x" * (1024 * 1024 - 2))).facts) == 1


def test_waits_are_numbered_ended_by_time_and_answered_in_order() -> None:
    story = Story().tell(c.StartWait(StepId("1"), "go", NOW + 5)).tell(c.StartWait(StepId("2"), "go", NOW + 9))
    assert story.saga.waits is not None
    assert [(wait.number, wait.entry, wait.until) for wait in story.saga.waits.opened()] == [
        (1, 2, NOW + 5),
        (2, 3, NOW + 9),
    ]
    told = "^saga s1 does not wait at place 1, or not until now$"
    story.refuses(c.EndWait(place=StepId("1")), told, now=NOW + 4)
    assert story.tell(signal()).facts == (
        e.SignalReceived(number=1, name="go", payload="x", by="person:ann"),
        e.WaitEnded(place=StepId("1"), signal=1),
    )
    assert dict(story.saga.waits.signals) == {1: Signal(number=1, name="go", payload="x", by="person:ann")}
    story.refuses(c.EndWait(place=StepId("1")), told, now=NOW + 5)
    assert story.tell(c.EndWait(place=StepId("2")), now=NOW + 9).facts == (e.WaitEnded(place=StepId("2"), signal=None),)


# -- what cannot follow -----------------------------------------------------------------------------------------------

WAIT = e.WaitStarted(place=HERE, name="go", until=5)


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([WAIT, WAIT], r"WaitStarted cannot follow entry 2 \(place here is waited at twice\)$"),
        (
            [e.SignalReceived(number=2, name="go", payload=None, by="person:a")],
            r"SignalReceived cannot follow entry 1 \(signal 2 follows signal 0\)$",
        ),
        (
            [e.WaitEnded(place=HERE, signal=None)],
            r"\(place here is not waited at, or signal None is not there to be read\)$",
        ),
        (
            [WAIT, e.WaitEnded(place=HERE, signal=None), e.WaitEnded(place=HERE, signal=None)],
            r"WaitEnded cannot follow entry 3 \(place here is not waited at",
        ),
        ([WAIT, e.WaitEnded(place=HERE, signal=1)], "or signal 1 is not there to be read"),
        (
            [e.ActionAllowed(step=FLIGHT, rule="r", policy="p")],
            r"ActionAllowed cannot follow entry 1 \(step flight was never proposed\)$",
        ),
        (
            [e.SagaStarted(definition="t", version=1, input=None, actor="a", env="", labels={})],
            r"SagaStarted cannot follow entry 1 \(a second start\)$",
        ),
        ([e.SagaRolledBack()], r"SagaRolledBack cannot follow entry 1 \(the saga is running\)$"),
        (
            [e.RewindStarted(place=HERE, steps=(CAR,), why="", by="", deadline_at=1)],
            r"RewindStarted cannot follow entry 1 \(it names steps that were never proposed\)$",
        ),
        (
            [e.RewindEnded(place=HERE, taken_back=())],
            r"RewindEnded cannot follow entry 1 \(no such rewind is under way\)$",
        ),
        (
            [e.IncidentOpened(incident=1, kind=e.IncidentKind.CALLED, step=FLIGHT, why="", left=())],
            r"IncidentOpened cannot follow entry 1 \(step flight was never proposed\)$",
        ),
        (
            [
                e.IncidentOpened(incident=1, kind=e.IncidentKind.CALLED, step=None, why="", left=()),
                e.IncidentResolved(incident=1, by="person:a", reason="b", settled=(FLIGHT,)),
            ],
            r"IncidentResolved cannot follow entry 2 \(step flight was never proposed\)$",
        ),
        (
            [e.StepProposed(step=FLIGHT, topic=ACT.topic, version=1, args={}, digest="", contract=None)],
            r"StepProposed cannot follow entry 1 \(step flight twice, or without its contract\)$",
        ),
        (
            [e.IncidentCommented(incident=1, by="person:a", text="b")],
            r"IncidentCommented cannot follow entry 1 \(no such open incident\)$",
        ),
    ],
)
def test_an_entry_that_cannot_follow_is_damage_and_says_why(events: list[e.Event], told: str) -> None:
    begun = e.SagaStarted(definition="trip", version=1, input=None, actor="a", env="", labels={})
    with pytest.raises(JournalDamagedError, match=told):
        replay(SagaId("s1"), [begun, *events])


def test_an_entry_before_the_start_is_damage() -> None:
    with pytest.raises(
        JournalDamagedError, match=r"^saga s1: SagaHalted cannot follow entry 0 \(it has not started\)$"
    ):
        replay(SagaId("s1"), [e.SagaHalted()])
