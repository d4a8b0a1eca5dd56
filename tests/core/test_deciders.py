"""Names that two people could share are refused at the door, and a decision takes a person who did not ask for it."""

from collections.abc import Callable

import pytest

from amends.core import commands as c, events as e
from amends.core.decide import decide
from amends.core.events import SagaStarted
from amends.core.state.deciders import (
    asked_for,
    checked_name,
    mistake_in,
    normal,
    own_decision,
    requesters,
    require_person,
)
from amends.core.state.saga import unstarted
from amends.core.words.contracts import Reversibility
from amends.core.words.values import CONTROL, POLICIES, Json, SagaId
from amends.core.words.verdict import Decision, Verdict
from amends.errors import InputError, RefusedError
from amends.journal.codec import encode
from tests.core.story import DENY, FLIGHT, NOW, WINDOW_S, Story, contract

JOSE_COMPOSED, JOSE_APART = "person:jos\u00e9", "person:jose\u0301"


def begun(actor: str = "agent:support", env: str = "production", taken_for: str = "", **labels: str) -> SagaStarted:
    return SagaStarted(
        definition="d", version=1, input=None, actor=actor, env=env, labels=dict(labels), taken_for=taken_for
    )


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("person:Kim", "person:Kim"),
        ("agent:support/7", "agent:support/7"),
        ("system:cron", "system:cron"),
        ("person:kim@example.org", "person:kim@example.org"),
        ("person:[ab]", "person:[ab]"),
        (JOSE_APART, JOSE_COMPOSED),
        ("person:\ufb01nn", "person:finn"),
        ("person:\uff2bim", "person:Kim"),
        ("person:\u043e\u043b\u044c\u0433\u0430", "person:\u043e\u043b\u044c\u0433\u0430"),
        ("person:\u7530\u4e2d@example.org", "person:\u7530\u4e2d@example.org"),
        ("person:\u5c71\u7530\u3055\u3093", "person:\u5c71\u7530\u3055\u3093"),
    ],
)
def test_a_name_is_kept_in_one_form(name: str, kept: str) -> None:
    assert checked_name(name) == kept


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("person:olga ", "white space"),
        ("person:kim @example.org", "white space"),
        ("person:\u00a0olga", "white space"),
        ("person:a\nb", "white space"),
        ("person:ol\u200bga", r"'\\u200b', which cannot be seen"),
        ("person:ol\u202ega", "cannot be seen"),
        ("person:ol\u2800ga", "cannot be seen"),
        ("person:ol\u3164ga", "cannot be seen"),
        ("person:ol\ufe0fga", "cannot be seen"),
        ("person:\x07olga", "cannot be seen"),
        ("person:\u043elga", "CYRILLIC and LATIN"),
        ("person:\u0391lpha", "GREEK and LATIN"),
        ("person:\u0430\u03b1", "CYRILLIC and GREEK"),
        ("person:a\u0663", "ARABIC and LATIN"),
        ("person:a\u2010b", r"'\\u2010' in it"),
        ("PERSON:olga", "write agent:<name>, person:<name> or system:<name>"),
        ("olga", "write agent:<name>, person:<name> or system:<name>"),
        ("person:", "write agent:<name>"),
        ("person: ", "write agent:<name>"),
        ("person:" + "a" * 200, "at most 128 characters"),
    ],
)
def test_a_name_that_could_be_taken_for_another_is_refused(name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        checked_name(name)


@pytest.mark.parametrize(
    "other", ["person:olga ", "PERSON:Olga", "person: olga", "person:ol\u200bga", "person:\uff4flga", "person:olga\n"]
)
def test_old_names_are_compared_by_what_can_be_seen_of_them(other: str) -> None:
    assert normal(other) == normal("person:olga")


def test_composed_and_decomposed_letters_are_one_name() -> None:
    assert normal(JOSE_APART) == normal(JOSE_COMPOSED) == normal(JOSE_COMPOSED.upper().replace("PERSON", "person"))


def test_a_pattern_for_names_is_held_to_the_same() -> None:
    assert mistake_in("person:*@example.org") == ""
    assert "CYRILLIC and LATIN" in mistake_in("person:*@ex\u0430mple.org")


def test_actor_owner_and_delegates_have_asked() -> None:
    saga = begun(owner="person:olga", delegates="agent:b, person:Max")
    assert requesters(saga) == ("agent:support", "person:olga", "agent:b", "person:Max")
    assert asked_for(saga, "person:max")
    assert not asked_for(saga, "person:kim")
    assert requesters(None) == ()


@pytest.mark.parametrize("by", ["agent:support", "agent:other", "system:local", "system:runtime"])
@pytest.mark.parametrize("env", ["production", "development"])
def test_only_people_decide_and_the_refusal_says_who_may(by: str, env: str) -> None:
    anybody = "any person" if env == "development" else "any person but agent:support, person:olga"
    with pytest.raises(RefusedError, match=f"{anybody} may, as person:<name>"):
        own_decision(begun(env=env, owner="person:olga"), by, "raise its limits")
    with pytest.raises(RefusedError, match="only people adopt a policy: any person may"):
        require_person(by, "adopt a policy")


@pytest.mark.parametrize("by", ["person:olga", "person:OLGA", "person:max"])
@pytest.mark.parametrize("env", ["production", "staging", "drill", ""])
def test_who_asked_does_not_decide_outside_development(by: str, env: str) -> None:
    saga = begun(env=env, owner="person:olga", delegates="person:max")
    with pytest.raises(RefusedError, match=f"{by} may not grant it: .* any other person may"):
        own_decision(saga, by, "grant it")


def test_in_development_it_is_their_own_decision() -> None:
    assert own_decision(begun("person:olga", env="development"), "person:olga", "grant it")
    assert own_decision(begun("person:olga", env="dev"), "person:olga", "grant it", env="development")
    with pytest.raises(RefusedError):
        own_decision(begun("person:olga", env="development"), "person:olga", "grant it", env="production")


@pytest.mark.parametrize("env", ["production", "development"])
def test_another_persons_decision_is_nobodys_own(env: str) -> None:
    assert not own_decision(begun("person:olga", env=env), "person:kim", "grant it")


# -- every decision ---------------------------------------------------------------------------------------------------

MOMENT = c.Moment(now=NOW, jitter=0, window_s=WINDOW_S)
LIMITED: Json = {"tokens": {"most": 10, "then": "pause"}}
SORRY = contract("act.sorry", reversibility=Reversibility.IRREVERSIBLE, mitigation=True)
ASKS = Verdict(decision=Decision.REQUIRE_HUMAN, rule="r", policy="p")
DENIED = c.OpenIncident(kind=e.IncidentKind.COMPENSATION_DENIED, step=FLIGHT, why="no")


def saga_in(env: str, *, limits: Json = None) -> Story:
    asked = c.StartSaga("trip", 1, {}, "agent:bot", env, {"owner": "person:olga"}, limits)
    return Story(started=False).tell(asked)


def stopped(env: str) -> Story:
    return saga_in(env).does(FLIGHT).fails().starts_back(FLIGHT, verdict=DENY).tell(DENIED)


def awaiting(env: str) -> Story:
    return saga_in(env).proposes(FLIGHT).tell(c.RecordVerdict(step=FLIGHT, verdict=ASKS))


def past_pivot(env: str) -> Story:
    return saga_in(env).does(FLIGHT, SORRY).fails()


def paused(env: str) -> Story:
    return saga_in(env).tell(c.PauseSaga(by="person:kim", why="a look"))


def called(env: str) -> Story:
    story = saga_in(env).does(FLIGHT)
    return story.tell(c.FailWork(cause=e.Cause.FATAL, why="w", step=None, calls=True))


DECISIONS: dict[str, tuple[Callable[[str], Story], Callable[[str], c.Command], type[e.Event]]] = {
    "grant": (awaiting, lambda by: c.AnswerApproval(FLIGHT, by, granted=True, why=""), e.ApprovalGranted),
    "refuse": (awaiting, lambda by: c.AnswerApproval(FLIGHT, by, granted=False, why=""), e.ApprovalRefused),
    "retry": (stopped, lambda by: c.RetryIncident(1, by), e.IncidentRetried),
    "let run": (stopped, lambda by: c.RetryIncident(1, by, let_run=True), e.IncidentRetried),
    "resolve": (stopped, lambda by: c.ResolveIncident(1, by, "by hand"), e.IncidentResolved),
    "retry with mitigation": (past_pivot, lambda by: c.RetryIncident(1, by, mitigate=True), e.RollbackStarted),
    "cancel with mitigation": (
        past_pivot,
        lambda by: c.CancelSaga(by, "w", mitigate=True),
        e.RollbackStarted,
    ),
    "unpause": (paused, c.UnpauseSaga, e.WorkResumed),
    "raise a limit": (
        lambda env: saga_in(env, limits=LIMITED),
        lambda by: c.RaiseLimits({"tokens": 20}, by, ""),
        e.LimitRaised,
    ),
    "go on from an incident": (called, lambda by: c.RollBackTo(None, 1, by, "w"), e.RewindStarted),
}


@pytest.mark.parametrize("what", DECISIONS)
@pytest.mark.parametrize("by", ["agent:bot", "agent:other", "system:local"])
@pytest.mark.parametrize("env", ["production", "development"])
def test_no_agent_decides_it(what: str, by: str, env: str) -> None:
    state, asks, _ = DECISIONS[what]
    state(env).refuses(asks(by), "is not a person, and only people")


@pytest.mark.parametrize("what", DECISIONS)
@pytest.mark.parametrize("env", ["production", "staging"])
def test_who_asked_for_the_saga_does_not_decide_it(what: str, env: str) -> None:
    state, asks, _ = DECISIONS[what]
    state(env).refuses(asks("person:Olga"), "another person decides; any other person may")


@pytest.mark.parametrize("what", DECISIONS)
def test_in_development_they_do_and_the_fact_says_that_it_is_their_own(what: str) -> None:
    state, asks, fact = DECISIONS[what]
    (own,) = (each for each in state("development").tell(asks("person:olga")).facts if isinstance(each, fact))
    assert getattr(own, "own")  # noqa: B009 - each kind of fact has its own type


@pytest.mark.parametrize("what", DECISIONS)
@pytest.mark.parametrize("env", ["production", "development"])
def test_another_person_decides_it_and_nothing_more_is_on_record_than_before(what: str, env: str) -> None:
    state, asks, fact = DECISIONS[what]
    (other,) = (each for each in state(env).tell(asks("person:kim")).facts if isinstance(each, fact))
    assert '"own"' not in encode(other).body


def test_what_follows_from_a_decision_elsewhere_is_nobodys_decision() -> None:
    story = paused("production").tell(c.UnpauseSaga("system:family", follows=True))
    assert story.facts == (e.WorkResumed(by="system:family"),)


@pytest.mark.parametrize(
    "fact", [e.DispatchUnpaused(pause=1, by="agent:bot", why=""), e.HoldLifted(saga="s", by="agent:b", why="")]
)
def test_no_agent_lets_go_what_holds_for_all(fact: e.ControlEvent) -> None:
    with pytest.raises(RefusedError, match=r"only people (end a pause|lift a hold)"):
        decide(unstarted(SagaId(CONTROL)), c.KeepControl(fact=fact), MOMENT)


def test_no_agent_adopts_a_policy() -> None:
    with pytest.raises(RefusedError, match="only people adopt a policy"):
        decide(unstarted(SagaId(POLICIES)), c.AdoptPolicy(digest="d", text="t", by="agent:bot", why=""), MOMENT)
