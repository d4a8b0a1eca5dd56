"""What people are asked, who may answer, and what their answer allows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from amends.core import commands as c, events as e
from amends.core.decide.approvals import digest_of, is_met, shown_of
from amends.core.effects import Await, CallPerson, Expire, GiveUp, Judge, Perform
from amends.core.transitions import ApprovalStatus, SagaStatus, StepStatus
from amends.core.words.values import Json
from amends.core.words.verdict import Decision, Need, Verdict
from tests.core.story import ACT, ALLOW, DENY, DONE, FLIGHT, HOTEL, PIVOT, Story, contract

_S = StepStatus
MINUTE = 60_000
ONE = Verdict(decision=Decision.REQUIRE_HUMAN, rule="ask", policy="p", why="it is risky", expires_s=60)
TWO = replace(ONE, needs=(Need(rule="two", approvals=2),))
FINANCE = replace(ONE, needs=(Need(rule="money", approvers=("person:fin-*",)), Need(rule="two", approvals=2)))


def asked(verdict: Verdict = ONE) -> Story:
    story = Story().proposes(FLIGHT)
    return story.tell(c.RecordVerdict(step=FLIGHT, verdict=verdict))


def answers(story: Story, by: str, *, granted: bool = True, now: int | None = None, **changes: Any) -> Story:
    return story.tell(answer(story, by, granted=granted, **changes), now=now)


def answer(story: Story, by: str = "person:bob", *, granted: bool = True, **changes: Any) -> c.AnswerApproval:
    said = c.AnswerApproval(step=FLIGHT, by=by, granted=granted, why="because")
    return replace(said, **changes)


def starts(story: Story, *, now: int | None = None, **changes: Any) -> Story:
    return story.tell(replace(c.StartAttempt(step=FLIGHT, policy="p", contract=ACT), **changes), now=now)


def kinds(story: Story) -> list[type[e.Event]]:
    return [type(fact) for fact in story.facts]


# -- asking -----------------------------------------------------------------------------------------------------------


def test_people_are_asked_and_nothing_starts_before_they_answer() -> None:
    story = asked()
    assert story.status(FLIGHT) is _S.AWAITING
    assert story.needs(FLIGHT) == Await(FLIGHT, story.now + MINUTE)
    assert story.saga.status is SagaStatus.WAITING
    story.refuses(c.StartAttempt(step=FLIGHT, policy="p"), "is awaiting")


def test_nobody_is_asked_about_a_step_of_a_saga_that_goes_back() -> None:
    """A branch that waited for an answer, now void, judges its step again before it is stopped."""
    story = asked().cancels()
    assert story.saga.asked == {}
    story.refuses(c.RecordVerdict(step=FLIGHT, verdict=ONE), "nobody is asked about it any more")


def test_what_they_are_shown_is_on_record_and_bound_by_its_digest() -> None:
    approval = asked().step(FLIGHT).approval
    assert approval is not None
    assert isinstance(approval.shown, dict)
    assert approval.digest == digest_of(approval.shown)
    assert set(approval.shown) == {
        *("topic", "version", "args", "contract", "saga", "step", "definition", "requester", "env"),
        *("policy", "rule", "needs", "expires_at", "request"),
    }


def test_a_definition_can_ask_ahead_even_where_the_gate_would_allow_it() -> None:
    story = Story().proposes(FLIGHT).tell(c.RecordVerdict(step=FLIGHT, verdict=ALLOW, ahead=True))
    assert story.status(FLIGHT) is _S.AWAITING


def test_what_the_gate_denies_is_denied_even_ahead() -> None:
    story = Story().proposes(FLIGHT).tell(c.RecordVerdict(step=FLIGHT, verdict=DENY, ahead=True))
    assert story.status(FLIGHT) is _S.DENIED


# -- who may answer ---------------------------------------------------------------------------------------------------


def test_one_person_is_enough_where_one_is_asked_for() -> None:
    story = answers(asked(), "person:bob")
    approval = story.step(FLIGHT).approval
    assert approval is not None
    assert story.facts == (e.ApprovalGranted(step=FLIGHT, by="person:bob", digest=approval.digest, why="because"),)
    assert story.needs(FLIGHT) == Perform(FLIGHT)


def test_two_have_to_be_two_people() -> None:
    story = answers(asked(TWO), "person:bob")
    approval = story.step(FLIGHT).approval
    assert approval is not None
    assert story.facts == (e.ApprovalSigned(step=FLIGHT, by="person:bob", digest=approval.digest, why="because"),)
    assert story.status(FLIGHT) is _S.AWAITING
    story.refuses(answer(story, "person:bob"), "has approved step flight of saga s1 already")
    story.refuses(answer(story, "person:Bob"), "already")
    assert kinds(answers(story, "person:eve")) == [e.ApprovalGranted]


def test_every_rule_that_asked_has_to_be_content() -> None:
    story = answers(asked(FINANCE), "person:bob")
    assert kinds(answers(story, "person:eve")) == [e.ApprovalSigned]
    assert kinds(answers(story, "person:fin-ann")) == [e.ApprovalGranted]


def test_only_those_who_are_named_may_approve() -> None:
    named = replace(ONE, needs=(Need(rule="money", approvers=("person:fin-*", "person:cfo")),))
    asked(named).refuses(
        answer(asked(named)), "person:bob is not among those who may approve .*: person:cfo, person:fin-"
    )


@pytest.mark.parametrize(
    ("pattern", "named", "others"),
    [
        ("person:[ab]", ["person:[ab]", "person:[AB]"], ["person:a", "person:b"]),
        ("person:[!a]", ["person:[!a]"], ["person:b", "person:!"]),
        ("person:[*]", ["person:*"], ["person:a", "person:[*]"]),
        ("person:*@Example.org", ["person:kim@example.ORG", "person:a.b@example.org"], ["person:kim@example.orgs"]),
        ("person:k?m", ["person:kim", "person:K.M"], ["person:km", "person:kiim"]),
    ],
)
def test_who_is_named_is_read_as_a_policy_reads_any_pattern(pattern: str, named: list[str], others: list[str]) -> None:
    """Brackets are no set of letters: nobody is let in whom the policy's own words do not name."""
    by_rule = replace(ONE, needs=(Need(rule="money", approvers=(pattern,)),))
    for one in named:
        assert kinds(answers(asked(by_rule), one)) == [e.ApprovalGranted]
    for one in others:
        asked(by_rule).refuses(answer(asked(by_rule), one), "is not among those who may approve")


@pytest.mark.parametrize("by", ["agent:bot", "system:local", "bob", "Person:bob"])
def test_only_people_answer(by: str) -> None:
    asked().refuses(answer(asked(), by), "is not a person")


@pytest.mark.parametrize("by", ["person:ann", "person:ANN", "person:owner", "person:second", "person:first"])
def test_who_asks_cannot_approve_nor_who_owns_them_nor_who_acts_for_them(by: str) -> None:
    labels = {"owner": "person:owner", "delegates": "person:first, person:second"}
    story = Story(started=False).tell(
        c.StartSaga(definition="d", version=1, input=None, actor="person:ann", env="e", labels=labels)
    )
    story.proposes(FLIGHT).tell(c.RecordVerdict(step=FLIGHT, verdict=ONE))
    story.refuses(answer(story, by), "may not grant step flight of saga s1: they asked for it, own it, or act for who")
    story.refuses(answer(story, by, granted=False), "may not refuse step flight of saga s1")
    assert kinds(answers(story, "person:zoe")) == [e.ApprovalGranted]


def test_a_refusal_denies_the_step_and_the_definition_hears_why() -> None:
    story = answers(asked(), "person:bob", granted=False)
    assert (story.needs(FLIGHT), story.step(FLIGHT).error) == (GiveUp(FLIGHT), "person:bob refused it: because")


def test_what_a_person_saw_has_to_be_what_is_asked() -> None:
    asked().refuses(answer(asked(), digest="0" * 64), "is not what is asked now; look at it again")
    approval = asked().step(FLIGHT).approval
    assert approval is not None
    assert kinds(answers(asked(), "person:bob", digest=approval.digest)) == [e.ApprovalGranted]


def test_nobody_answers_what_was_not_asked_or_is_answered() -> None:
    Story().proposes(FLIGHT).refuses(answer(Story()), "does not wait for an approval: it is proposed")
    granted = answers(asked(), "person:bob")
    granted.refuses(answer(granted, "person:eve"), "it is ready, and its approval granted")


# -- in time ----------------------------------------------------------------------------------------------------------


def test_the_last_instant_is_in_time_and_the_next_is_not() -> None:
    story = asked()
    last = story.now + MINUTE - 1
    assert kinds(answers(asked(), "person:bob", now=last)) == [e.ApprovalGranted]
    assert kinds(answers(asked(), "person:bob", now=last + 1)) == [e.ApprovalExpired]


def test_an_approval_that_was_granted_in_time_is_not_used_too_late() -> None:
    story = answers(asked(), "person:bob")
    assert kinds(starts(answers(asked(), "person:bob"), now=story.now + MINUTE - 1)) == [
        e.ApprovalUsed,
        e.AttemptStarted,
    ]
    assert kinds(starts(story, now=story.now + MINUTE)) == [e.ApprovalExpired]
    assert story.needs(FLIGHT) == GiveUp(FLIGHT)


def test_who_stands_in_line_does_not_start_whatever_became_of_the_approval() -> None:
    story = answers(asked(), "person:bob")
    story.tell(c.AwaitLock(step=FLIGHT, resources=("r",), holder="s9", until=story.now + 5))
    start = c.StartAttempt(step=FLIGHT, policy="p", contract=ACT)
    story.refuses(start, "^step flight of saga s1 is queued: it is too late for AttemptStarted$")


def test_what_nobody_answers_expires() -> None:
    story = asked().later(60)
    assert story.needs(FLIGHT) == Expire(FLIGHT)
    assert kinds(story.tell(c.ExpireApproval(step=FLIGHT))) == [e.ApprovalExpired]
    assert story.tell(c.ExpireApproval(step=FLIGHT)).facts == ()
    assert asked().tell(c.ExpireApproval(step=FLIGHT)).facts == ()


# -- using ------------------------------------------------------------------------------------------------------------


def test_it_is_used_in_the_same_append_as_the_intent_and_once() -> None:
    story = starts(answers(asked(), "person:bob"))
    approval = story.step(FLIGHT).approval
    assert kinds(story) == [e.ApprovalUsed, e.AttemptStarted]
    assert approval is not None
    assert approval.status is ApprovalStatus.USED
    story.refuses(c.StartAttempt(step=FLIGHT, policy="p", contract=ACT), "too late for AttemptStarted")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"policy": "another"}, "policy"),
        ({"contract": replace(ACT, risk=("money",))}, "contract"),
        ({"contract": replace(ACT, tool="another")}, "contract"),
        ({"contract": replace(ACT, undoes="something else")}, "contract"),
        ({"contract": replace(ACT, version=2)}, "version, contract"),
    ],
)
def test_any_drift_voids_it_and_the_gate_is_asked_again(changes: dict[str, Any], what: str) -> None:
    story = starts(answers(asked(), "person:bob"), **changes)
    assert story.facts == (e.ApprovalVoided(step=FLIGHT, why=f"changed since it was approved: {what}"),)
    assert story.needs(FLIGHT) == Judge(FLIGHT)
    story.tell(c.RecordVerdict(step=FLIGHT, verdict=ONE))
    story.refuses(c.StartAttempt(step=FLIGHT, policy="p", contract=ACT), "is awaiting")


def test_every_field_that_was_shown_is_bound() -> None:
    story = asked()
    step, approval = story.step(FLIGHT), story.step(FLIGHT).approval
    assert approval is not None
    shown = shown_of(story.saga, step, approval, ACT)
    assert isinstance(shown, dict)
    other: Json = "another"
    digests = {digest_of({**shown, name: other}) for name in shown}
    assert len(digests | {approval.digest}) == len(shown) + 1


def test_asking_again_is_another_question() -> None:
    """An answer to the first does not answer the second, though nothing else has changed."""
    story = asked()
    first = story.step(FLIGHT).approval
    story.tell(c.VoidApproval(step=FLIGHT, why="w")).tell(c.RecordVerdict(step=FLIGHT, verdict=ONE))
    second = story.step(FLIGHT).approval
    assert first is not None
    assert second is not None
    assert (first.number, second.number, first.digest == second.digest) == (1, 2, False)
    assert isinstance(second.shown, dict)
    assert second.shown["request"] == 2
    story.refuses(answer(story, digest=first.digest), "look at it again")


def test_allowed_after_all_it_starts_without_anybody() -> None:
    story = asked().tell(c.VoidApproval(step=FLIGHT, why="another policy"))
    assert story.facts == (e.ApprovalVoided(step=FLIGHT, why="another policy"),)
    story.judges(FLIGHT)
    assert kinds(starts(story)) == [e.AttemptStarted]


def test_denied_when_it_was_to_start_it_is_denied() -> None:
    story = answers(asked(), "person:bob").tell(c.RecordVerdict(step=FLIGHT, verdict=DENY))
    assert kinds(story) == [e.ApprovalVoided, e.ActionDenied]
    assert story.needs(FLIGHT) == GiveUp(FLIGHT)


@pytest.mark.parametrize("answered", [False, True])
def test_a_rollback_voids_what_was_asked(answered: bool) -> None:
    story = answers(asked(), "person:bob") if answered else asked()
    assert kinds(story.fails()) == [e.ApprovalVoided, e.RollbackStarted]
    assert kinds(asked().cancels()) == [e.ApprovalVoided, e.RollbackStarted]
    completed: list[type[e.Event]] = [e.ApprovalVoided, e.SagaCompleted]
    assert kinds(asked().finishes()) == completed


def test_a_rollback_voids_and_drops_what_is_held_too() -> None:
    """What is held keeps its approval only where the work has come to its end."""
    ways: list[tuple[Callable[[Story], Story], list[type[e.Event]]]] = [
        (Story.fails, [e.ApprovalVoided, e.StepDropped, e.RollbackStarted]),
        (Story.cancels, [e.ApprovalVoided, e.StepDropped, e.RollbackStarted]),
        (Story.finishes, [e.WorkFinished]),
    ]
    for ends, said in ways:
        story = Story().proposes(FLIGHT, contract("act.held", hold=True))
        story.tell(c.RecordVerdict(step=FLIGHT, verdict=ONE))
        assert kinds(ends(answers(story, "person:bob"))) == said


def test_enough_is_counted_for_each_rule() -> None:
    needs = (Need(rule="a", approvals=2, approvers=("person:a*",)), Need(rule="b"))
    assert not is_met(needs, ("person:a1", "person:b"))
    assert not is_met(needs, ("person:a1", "person:A1"))
    assert is_met(needs, ("person:a1", "person:a2"))
    assert is_met((), ())


# -- compensations ----------------------------------------------------------------------------------------------------


def test_who_approved_a_step_approved_its_compensation() -> None:
    story = starts(answers(asked(), "person:bob")).ends(FLIGHT, DONE).fails()
    assert kinds(story.starts_back(FLIGHT, verdict=ONE)) == [e.CompensationStarted]


@pytest.mark.parametrize("verdict", [ONE, DENY])
def test_a_compensation_that_the_gate_does_not_allow_is_denied(verdict: Verdict) -> None:
    story = Story().does(FLIGHT).fails().starts_back(FLIGHT, verdict=verdict)
    assert kinds(story) == [e.CompensationDenied]
    due = story.due()
    assert isinstance(due, CallPerson)
    assert (due.kind, due.step) == (e.IncidentKind.COMPENSATION_DENIED, FLIGHT)
    assert due.why


def test_a_person_can_let_a_denied_compensation_run() -> None:
    story = Story().does(FLIGHT).fails().starts_back(FLIGHT, verdict=DENY)
    story.tell(c.OpenIncident(kind=e.IncidentKind.COMPENSATION_DENIED, step=FLIGHT, why="not today"))
    let_run = c.RetryIncident(incident=1, by="person:bob", let_run=True)
    story.refuses(replace(let_run, by="agent:bot"), "is not a person")
    story.tell(let_run).starts_back(FLIGHT, verdict=DENY)
    (started,) = story.facts
    assert isinstance(started, e.CompensationStarted)
    assert started.let_run_by == "person:bob"


def test_only_what_the_gate_refused_can_be_let_run() -> None:
    story = Story().does(FLIGHT).does(HOTEL, PIVOT).fails()
    let_run = c.RetryIncident(incident=1, by="person:bob", let_run=True)
    story.refuses(let_run, "the gate has not refused anything that could be let run")


# -- another policy is adopted ----------------------------------------------------------------------------------------


def test_what_is_asked_under_another_policy_is_void_and_judged_again() -> None:
    story = asked().tell(c.VoidOutlived(policy="newer"))
    assert kinds(story) == [e.ApprovalVoided]
    assert story.needs(FLIGHT) == Judge(FLIGHT)


def test_what_is_asked_under_the_policy_in_force_stays_and_so_does_what_was_answered() -> None:
    story = asked().tell(c.VoidOutlived(policy="p"))
    assert story.facts == ()
    answers(story, "person:bob").tell(c.VoidOutlived(policy="newer"))  # that is looked at when it starts
    assert story.facts == ()


@pytest.mark.parametrize("granted", [True, False])
def test_an_answer_under_another_policy_is_no_answer(granted: bool) -> None:
    assert kinds(answers(asked(), "person:bob", granted=granted, policy="newer")) == [e.ApprovalVoided]


def test_what_does_not_count_any_more_cannot_expire() -> None:
    story = answers(asked(), "person:bob")
    starts(story, now=story.now + MINUTE, policy="newer")
    assert kinds(story) == [e.ApprovalVoided]
