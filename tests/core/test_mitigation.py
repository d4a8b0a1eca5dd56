"""Past the pivot nothing goes back by itself; a person may have it go back, and then the record says mitigated."""

from dataclasses import replace

import pytest

from amends.core import commands as c, events as e
from amends.core.effects import CallPerson, Compensate, End, Mitigate
from amends.core.transitions import IncidentStatus, SagaStatus, StepStatus
from amends.core.words.contracts import Reversibility, described
from amends.core.words.outcomes import Failed, FoundNothing, Lost, Succeeded
from amends.core.words.values import CALL, MITIGATED, StepId
from amends.core.words.verdict import Decision, Verdict
from amends.errors import PastPivotError, RefusedError
from tests.core.story import ACT, DENY, FLIGHT, HOTEL, LOST, NOW, PIVOT, Story, contract

_G, _S, _K = SagaStatus, StepStatus, e.IncidentKind
MAIL, LETTER = StepId("mail"), StepId("letter")
SORRY = contract("act.sorry", reversibility=Reversibility.IRREVERSIBLE, mitigation=True)
PERSON = "person:bob"


def back(*, by: str = PERSON, below: tuple[str, ...] = (), counted_on: str = "") -> c.CancelSaga:
    return c.CancelSaga(by=by, why="rain", mitigate=True, unmitigated=below, counted_on=counted_on)


def again(number: int = 1, *, by: str = PERSON) -> c.RetryIncident:
    return c.RetryIncident(incident=number, by=by, mitigate=True)


def sent() -> Story:
    """Completed past its pivot, with something older and something newer that can be taken back."""
    return Story().does(FLIGHT).does(MAIL, SORRY).does(HOTEL).finishes()


# -- asking -----------------------------------------------------------------------------------------------------------


def test_newest_first_compensations_and_mitigations_and_the_record_says_mitigated() -> None:
    story = sent().tell(back())
    assert story.due() == Compensate(HOTEL)
    assert story.takes_back(HOTEL).due() == Mitigate(MAIL)
    assert story.takes_back(MAIL).due() == Compensate(FLIGHT)
    assert story.takes_back(FLIGHT).due() == End()
    story.comes_to_its_end()
    assert story.facts == (e.SagaMitigated(),)
    assert [story.status(one) for one in (FLIGHT, MAIL, HOTEL)] == [_S.COMPENSATED, _S.MITIGATED, _S.COMPENSATED]
    assert story.phase is _G.MITIGATED
    assert story.phase.ended


def test_without_being_asked_for_it_nothing_goes_back_past_the_pivot() -> None:
    story = sent()
    story.refuses(c.CancelSaga(by=PERSON, why=""), "--mitigate", PastPivotError)
    failed = Story().does(MAIL, SORRY).does(HOTEL, outcome=Failed(error="no", fatal=True)).fails(HOTEL)
    assert (failed.phase, failed.incident.kind) == (_G.INCIDENT, _K.PAST_PIVOT)
    assert failed.all_due() == ()


@pytest.mark.parametrize("by", ["agent:bot", "system:local", "bob"])
def test_only_a_person_asks_for_it(by: str) -> None:
    sent().refuses(back(by=by), "is not a person")
    failed = Story().does(MAIL, SORRY).fails()
    failed.refuses(again(by=by), "is not a person")


def test_refused_with_the_list_where_a_standing_irreversible_step_declares_none() -> None:
    story = Story().does(LETTER, PIVOT).does(MAIL, SORRY).finishes()
    below = ("step 1 of child s1~2 (fax.send: on paper)",)
    story.refuses(back(), r"letter \(act.pivot: it cannot be unsent\) took effect, and declares none", PastPivotError)
    story.refuses(back(below=below), r"letter .*, step 1 of child s1~2 \(fax.send", PastPivotError)
    sent().refuses(back(below=below), "step 1 of child", PastPivotError)


def test_one_that_has_no_pivot_is_rolled_back_whatever_was_asked_for() -> None:
    story = Story().does(FLIGHT).tell(back()).takes_back(FLIGHT).comes_to_its_end()
    assert story.phase is _G.ROLLED_BACK


def test_a_child_goes_back_with_its_parent_and_not_alone() -> None:
    sent().refuses(back(counted_on="its parent counts on it"), "counts on it")


# -- from an incident -------------------------------------------------------------------------------------------------


def test_a_person_has_it_go_back_from_its_incident() -> None:
    story = Story().does(FLIGHT).does(MAIL, SORRY).does(HOTEL, outcome=Failed(error="no", fatal=True)).fails(HOTEL)
    story.tell(again())
    begun = story.facts[-1]
    assert isinstance(begun, e.RollbackStarted)
    assert (begun.mitigate, begun.by, begun.cause, begun.step) == (True, PERSON, e.Cause.FATAL, HOTEL)
    assert [one.status for one in story.saga.incidents] == [IncidentStatus.RESOLVED]
    (over,) = [fact for fact in story.facts if isinstance(fact, e.IncidentResolved)]
    assert over.mitigate, "a person may sign that; it is not to read as if they vouched for something"
    story.takes_back(MAIL).takes_back(FLIGHT).comes_to_its_end()
    assert story.phase is _G.MITIGATED


def test_a_rollback_that_found_a_pivot_on_its_way_goes_on_from_there() -> None:
    probed = replace(SORRY, probe=True)
    story = Story().does(FLIGHT).does(MAIL, probed, LOST).fails_to_answer(MAIL).does(HOTEL)
    story.tell(c.CancelSaga(by="person:bob", why=""))
    story.takes_back(HOTEL)
    story.lands(MAIL)
    assert isinstance(story.due(), CallPerson)
    story.tell(c.OpenIncident(kind=_K.PAST_PIVOT, step=MAIL, why="it took effect"))
    story.refuses(c.RetryIncident(incident=1, by=PERSON), "incident retry s1/1 --mitigate")
    story.tell(again(), now=NOW)
    assert story.facts[-1] == e.RollbackResumed(by=PERSON, deadline_at=NOW + 900_000, mitigate=True)
    story.takes_back(MAIL).takes_back(FLIGHT).comes_to_its_end()
    assert story.phase is _G.MITIGATED


def test_one_whose_outcome_nobody_knows_is_shown_to_a_person_and_not_mitigated() -> None:
    """To be sorry for a mail that nobody got is an effect of its own."""
    story = Story().does(MAIL, SORRY).does(LETTER, SORRY, LOST).tell(back())
    due = story.due()
    assert isinstance(due, CallPerson)
    assert (due.kind, due.step) == (_K.OUTCOME_UNKNOWN, LETTER)


# -- when it does not work --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Failed(error="no", fatal=True), _K.MITIGATION_FAILED),
        (Lost(error="?", fatal=True), _K.MITIGATION_FAILED),
        (Lost(error="late", fatal=True, timed_out=True), _K.MITIGATION_TIMED_OUT),
        (Failed(error="other", changed_since=True), _K.CHANGED_SINCE),
    ],
)
def test_a_mitigation_that_does_not_work_calls_a_person(outcome: Failed | Lost, kind: e.IncidentKind) -> None:
    story = sent().tell(back()).takes_back(HOTEL).takes_back(MAIL, outcome)
    assert story.status(MAIL) is _S.UNMITIGATED
    due = story.due()
    assert isinstance(due, CallPerson)
    assert (due.kind, due.step) == (kind, MAIL)
    story.tell(c.OpenIncident(kind=due.kind, step=due.step, why=due.why))
    assert (story.phase, story.incident.left) == (_G.INCIDENT, (MAIL, FLIGHT))
    story.retries().takes_back(MAIL).takes_back(FLIGHT).comes_to_its_end()
    assert story.phase is _G.MITIGATED


def test_it_is_tried_again_under_the_same_key_which_is_its_own() -> None:
    story = sent().tell(back()).takes_back(HOTEL).starts_back(MAIL)
    first = story.facts[0]
    story.ends_back(MAIL, Failed(error="busy")).later(60)
    assert story.due() == Mitigate(MAIL)
    second = story.starts_back(MAIL).facts[0]
    assert isinstance(first, e.MitigationStarted)
    assert isinstance(second, e.MitigationStarted)
    assert (second.attempt, second.key) == (2, first.key)
    dispatched = [one.key for one in story.events if isinstance(one, e.ActionDispatched)]
    assert first.key not in dispatched
    crashed = story.crashes()
    assert isinstance(crashed.facts[0], e.MitigationLost)


def test_the_gate_judges_it_and_a_person_may_let_it_run() -> None:
    story = sent().tell(back()).takes_back(HOTEL).starts_back(MAIL, verdict=DENY)
    assert isinstance(story.facts[0], e.MitigationDenied)
    due = story.due()
    assert isinstance(due, CallPerson)
    assert due.kind is _K.MITIGATION_DENIED
    story.tell(c.OpenIncident(kind=due.kind, step=due.step, why=due.why))
    story.tell(c.RetryIncident(incident=1, by="person:cat", let_run=True))
    started = story.starts_back(MAIL, verdict=DENY).facts[0]
    assert isinstance(started, e.MitigationStarted)
    assert started.let_run_by == "person:cat"


def test_who_did_not_approve_the_step_did_not_approve_its_mitigation() -> None:
    ask = Verdict(decision=Decision.REQUIRE_HUMAN, rule="ask", policy="p")
    story = sent().tell(back()).takes_back(HOTEL).starts_back(MAIL, verdict=ask)
    assert isinstance(story.facts[0], e.MitigationDenied)


def test_what_a_person_saw_to_by_hand_is_not_called_rolled_back() -> None:
    story = sent().tell(back()).takes_back(HOTEL).takes_back(MAIL, Failed(error="no", fatal=True))
    story.tell(c.OpenIncident(kind=_K.MITIGATION_FAILED, step=MAIL, why="no")).resolves(reason="said sorry by phone")
    story.takes_back(FLIGHT).comes_to_its_end()
    assert (story.status(MAIL), story.phase) == (_S.SETTLED, _G.MITIGATED)


def test_the_window_of_a_rollback_that_passed_says_of_what() -> None:
    story = sent().tell(back()).takes_back(HOTEL).later(1_000)
    due = story.due()
    assert isinstance(due, CallPerson)
    assert due.kind is _K.MITIGATION_TIMED_OUT


def test_an_earlier_attempt_that_lands_after_the_end_says_that_it_may_stand_twice() -> None:
    probed = replace(SORRY, probe=True)
    story = Story().begins(MAIL, probed).ends(MAIL, LOST)
    story.hears(MAIL, FoundNothing()).tries(MAIL).ends(MAIL, Succeeded("b"))
    story.finishes().tell(back()).takes_back(MAIL).comes_to_its_end()
    assert story.phase is _G.MITIGATED
    story.lands(MAIL, attempt=1)
    assert (story.phase, story.incident.kind) == (_G.INCIDENT, _K.EFFECT_DOUBLED)
    story.resolves().comes_to_its_end()
    assert story.phase is _G.MITIGATED


# -- families ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True])
def test_a_call_whose_child_could_only_be_mitigated_is_mitigated(late: bool) -> None:
    call = contract(CALL, idempotent=True)
    story = Story().does(FLIGHT, call, LOST) if late else Story().does(FLIGHT, call)
    story.fails() if late else story.finishes().tell(back())
    story.starts_back(FLIGHT, certain=not late)
    if late:
        story.lands(FLIGHT)
        assert story.status(FLIGHT) is _S.RECOMPENSATING
    story.ends_back(FLIGHT, Succeeded({MITIGATED: True})).comes_to_its_end()
    assert (story.status(FLIGHT), story.phase) == (_S.MITIGATED, _G.MITIGATED)


def test_a_compensation_of_ones_own_cannot_claim_to_be_one() -> None:
    story = Story().does(FLIGHT, ACT).cancels().takes_back(FLIGHT, Succeeded({MITIGATED: True})).comes_to_its_end()
    assert (story.status(FLIGHT), story.phase) == (_S.COMPENSATED, _G.ROLLED_BACK)


# -- the contract -----------------------------------------------------------------------------------------------------


def test_declared_and_supported_differ_and_a_contract_without_one_is_shown_as_before() -> None:
    assert (SORRY.compensation_declared, SORRY.rollback_supported) == (True, False)
    assert (PIVOT.compensation_declared, PIVOT.rollback_supported) == (False, False)
    assert described(SORRY)["mitigation"] is True
    assert "mitigation" not in described(PIVOT)


def test_nothing_irreversible_is_compensated() -> None:
    story = Story().does(MAIL, SORRY, LOST)
    story.cancels()
    with pytest.raises(RefusedError, match="nobody asked for its mitigation"):
        story.starts_back(MAIL)
