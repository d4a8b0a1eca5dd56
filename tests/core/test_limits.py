"""What a saga may use up: what is spent is counted once, and a limit has its response in the same breath."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from amends.core import commands as c, events as e
from amends.core.decide.limits import FAMILY, halts_child, near
from amends.core.state.limits import (
    TRIED,
    Bound,
    Budget,
    LimitName,
    Response,
    begun,
    one_more,
    spelled,
    spent,
    spent_words,
    within_of,
)
from amends.core.state.saga import replay
from amends.core.transitions import SagaStatus
from amends.core.words.outcomes import Failed, Succeeded
from amends.core.words.values import Json, SagaId, StepId
from amends.errors import JournalDamagedError
from tests.core.story import ALLOW, CAR, FLIGHT, HOTEL, LOST, NOW, PIVOT, Story, contract

_G = SagaStatus
UNTIL = NOW + 900_000


def limited(**limits: Json) -> Story:
    begins = c.StartSaga(definition="trip", version=1, input={}, actor="ann", env="test", labels={}, limits=limits)
    return Story(started=False).tell(begins)


def spend(place: str, tokens: int = 0, usd_micros: int = 0, what: str = "") -> c.Spend:
    return c.Spend(StepId(place), tokens, usd_micros, what)


def keep(topic: str = "", args: Json = None) -> c.KeepLimits:
    return c.KeepLimits(topic=topic, args=args)


def count(step: StepId, tokens: int = 0, usd_micros: int = 0, steps: int = 0, **more: Any) -> c.CountChild:
    return c.CountChild(step, tokens, usd_micros, steps, **more)


def raised(by: str = "person:ann", why: str = "", **most: int) -> c.RaiseLimits:
    return c.RaiseLimits(most=most, by=by, why=why)


def rollback(why: str) -> e.RollbackStarted:
    return e.RollbackStarted(cause=e.Cause.LIMIT, why=why, step=None, by="system:runtime", deadline_at=UNTIL)


def budget(story: Story) -> Budget:
    assert story.saga.budget is not None
    return story.saga.budget


# -- as it begins -----------------------------------------------------------------------------------------------------


def test_a_limit_says_as_little_as_it_can_or_all() -> None:
    made = begun({"tokens": {"most": 5}, "steps": {"most": 7, "then": "to_checkpoint", "to": "a", "guidance": "less",
                  "times": 3, "children": True, "since_at": 9}, "within": True})  # fmt: skip
    assert made.bounds == {
        LimitName.TOKENS: Bound(most=5, measure=5, then=Response.ROLLBACK, to="", guidance="", times=1),
        LimitName.STEPS: Bound(
            most=7, measure=7, then=Response.TO_CHECKPOINT, to="a", guidance="less", times=3, children=True
        ),
    }
    assert (made.since_at, made.within, made.tokens, made.steps, made.reached) == (9, True, 0, 0, None)
    assert not begun({"tokens": {"most": 5}}).within
    assert list(begun({"within": True, "tokens": {"most": 5}}).bounds) == [LimitName.TOKENS]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ([], "^a saga's limits are not an object$"),
        ({"tokens": 5}, "^a saga's limits cannot be read: AttributeError"),
        ({"tokens": {}}, "^a saga's limits cannot be read: KeyError"),
        ({"beer": {"most": 1}}, "^a saga's limits cannot be read: ValueError"),
    ],
)
def test_limits_that_cannot_be_read_are_damage(limits: Json, why: str) -> None:
    with pytest.raises(JournalDamagedError, match=why):
        begun(limits)


@pytest.mark.parametrize(
    ("name", "amount", "said"),
    [
        ("usd", 1_500_000, "1.5 USD"),
        ("usd", 20_000_000, "20 USD"),
        ("usd", 1, "0.000001 USD"),
        ("seconds", 1500, "1.5 s"),
        ("spin", 3, "3 steps"),
        ("steps", 4, "4 steps"),
        ("tokens", 10, "10 tokens"),
    ],
)
def test_an_amount_is_said_as_people_say_it(name: str, amount: int, said: str) -> None:
    assert spelled(name, amount) == said


# -- spending ---------------------------------------------------------------------------------------------------------


def test_what_is_spent_adds_up_and_is_found_at_its_place() -> None:
    story = limited(tokens={"most": 100}).tell(spend("1", 40, 3, "plan")).tell(spend("2", 60, 4))
    assert story.facts == (e.BudgetSpent(place=StepId("2"), tokens=60, usd_micros=4),)
    found = budget(story)
    assert [found.used(name, NOW) for name in LimitName] == [100, 7, NOW, 0, 0, 0, 0]
    first = found.places[StepId("1")]
    assert (first.fact, first.entry) == (e.BudgetSpent(place=StepId("1"), tokens=40, usd_micros=3, what="plan"), 2)
    assert spent_words(first.fact) == "40 3 plan"


def test_a_saga_without_limits_counts_too() -> None:
    story = Story().tell(spend("1", 40)).tell(spend("2", 2))
    assert (budget(story).tokens, budget(story).bounds, budget(story).until_at) == (42, {}, None)


def test_a_place_is_spent_at_once() -> None:
    story = limited(tokens={"most": 9}).does(FLIGHT).tell(spend("1", 1))
    story.refuses(spend("1", 1), "^saga s1 has something at place 1 already$")
    story.refuses(spend("flight", 1), "^saga s1 has something at place flight already$")
    story.finishes().refuses(spend("2", 1), "^saga s1 is completed$")


@pytest.mark.parametrize(
    ("limits", "crossing", "limit", "most", "used", "why"),
    [
        ({"tokens": {"most": 100}}, spend("2", 51), "tokens", 100, 101,
         "101 tokens spent, and the limit is 100 tokens"),
        ({"usd": {"most": 500_000}}, spend("2", 9, 1), "usd", 500_000, 500_001,
         "0.500001 USD spent, and the limit is 0.5 USD"),
        ({"tokens": {"most": 50}, "usd": {"most": 500_000}}, spend("2", 9, 1), "usd", 500_000, 500_001,
         "0.500001 USD spent, and the limit is 0.5 USD"),
    ],
)  # fmt: skip
def test_the_spending_that_crosses_a_limit_is_on_record_with_the_rollback_that_follows(
    limits: dict[str, Json], crossing: c.Spend, limit: str, most: int, used: int, why: str
) -> None:
    story = limited(**limits).tell(spend("1", 50, 500_000))
    before = len(story.events)
    story.tell(crossing)
    assert story.events[before + 1 :] == [
        e.LimitReached(limit=limit, most=most, used=used, then="rollback", why=why),
        rollback(f"limit {limit}: {why}"),
    ]
    assert (story.phase, budget(story).reached, budget(story).why) == (_G.ROLLING_BACK, limit, why)


# -- before a step, and by the time -----------------------------------------------------------------------------------


def test_as_many_steps_as_there_may_be_and_not_one_more() -> None:
    story = limited(steps={"most": 2, "then": "pause"}).tell(keep("act")).does(FLIGHT).does(HOTEL, contract("amends.x"))
    assert story.tell(keep("act")).facts == ()
    assert story.does(CAR).tell(keep()).facts == ()
    story.tell(keep("mail.send"))
    why = "mail.send would be step 3, and the limit is 2 steps"
    assert story.facts == (
        e.LimitReached(limit="steps", most=2, used=2, then="pause", why=why),
        e.SagaPaused(by="system:runtime", why=f"limit steps: {why}"),
    )


def test_the_time_is_up_at_its_end_and_not_before() -> None:
    story = limited(seconds={"most": 5000, "since_at": NOW - 1000, "children": True})
    assert (budget(story).until_at, story.tell(keep(), now=NOW + 3999).facts) == (NOW + 4000, ())
    story.tell(keep(), now=NOW + 4500)
    why = "5.5 s since it began, and the limit is 5 s"
    assert story.facts[0] == e.LimitReached(
        limit="seconds", most=5000, used=5500, then="rollback", why=why, children=True
    )
    assert limited(seconds={"most": 5, "since_at": NOW}).tell(keep(), now=NOW + 5).phase is _G.ROLLING_BACK
    assert budget(limited(seconds={"most": 5, "since_at": NOW})).used(LimitName.SECONDS, NOW - 7) == 0


def test_who_has_no_limits_keeps_all_of_them_and_only_while_it_works() -> None:
    assert Story().tell(keep("act")).facts == ()
    Story().finishes().refuses(keep(), "^saga s1 is completed$")


def test_going_round_in_circles_is_stopped() -> None:
    story = limited(spin={"most": 2, "then": "call"})

    def asks(name: str, text: str, result: Json) -> None:
        step = StepId(name)
        story.tell(c.DispatchStep(step, contract("find"), {"q": text}, "d", ALLOW)).ends(step, Succeeded(result))

    asks("1", "red shoes", None)
    assert story.tell(keep("find", {"q": "Red  shoes"})).facts == ()
    asks("2", "RED shoes ", None)
    assert story.tell(keep("buy", {"q": "red shoes"})).facts == ()
    assert story.tell(keep("find", {"q": "blue shoes"})).facts == ()
    assert story.tell(keep("", {"q": "red shoes"})).facts == ()
    story.tell(keep("find", {"q": "red shoes"}))
    why = "find is asked for again, and the last 2 such steps brought nothing new"
    assert story.facts == (
        e.LimitReached(limit="spin", most=2, used=2, then="call", why=why),
        e.IncidentOpened(
            incident=1,
            kind=e.IncidentKind.LIMIT_REACHED,
            step=None,
            why=f"limit spin: {why}",
            left=(StepId("2"), StepId("1")),
        ),
        e.SagaHalted(),
    )
    story.tell(raised(spin=3))
    assert (budget(story).newest, story.phase) == ((), _G.RUNNING)


def test_a_step_that_brought_something_new_or_is_not_over_is_no_circle() -> None:
    for last in (Succeeded("new"), Failed(error="busy")):
        story = limited(spin={"most": 2}).does(FLIGHT, contract(attempts=1)).begins(HOTEL).ends(HOTEL, last)
        assert story.tell(keep("act", {})).facts == ()
    again = limited(spin={"most": 2}).does(FLIGHT).does(HOTEL)
    assert again.tell(keep("act", {})).facts[0] == e.LimitReached(
        limit="spin", most=2, used=2, then="rollback",
        why="act is asked for again, and the last 2 such steps brought nothing new",
    )  # fmt: skip


def test_once_may_be_once_too_often() -> None:
    story = limited(spin={"most": 1}).does(FLIGHT, contract("act"))
    assert story.tell(keep("other", {})).facts == ()
    assert type(story.tell(keep("act", {})).facts[0]) is e.LimitReached


def test_what_is_to_be_tried_again_is_not_over() -> None:
    story = limited(spin={"most": 1}).does(FLIGHT, outcome=Failed(error="busy"))
    assert story.tell(keep("act", {})).facts == ()


def test_what_fails_the_same_way_each_time_is_a_circle_too() -> None:
    story = limited(spin={"most": 2})
    for step in (FLIGHT, HOTEL):
        story.does(step, outcome=Failed(error="no", fatal=True))
    assert type(story.tell(keep("act", {})).facts[0]) is e.LimitReached


TEN = "one two three four five six seven eight nine ten"


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("a  B", " A b", True),
        ("! ?", "!  ?", True),
        ("", "", True),
        ("!", "?", False),
        (TEN, TEN.removesuffix(" ten"), True),
        (TEN, TEN.replace("ten", "tenth"), False),
        (TEN, TEN.removesuffix(" nine ten"), False),
        ({"a": [1, "X y"]}, {"a": [1, "x  Y"]}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 2}, False),
        ([1], [1, 1], False),
        ([1, 2], [1, 3], False),
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        (None, None, True),
        ("1", 1, False),
        ({"a": 1}, 5, False),
        (5, {"a": 1}, False),
        ([1], "x", False),
        ("x", [1], False),
        ([], {}, False),
    ],
)
def test_near_is_each_leaf_on_its_own(one: Json, other: Json, alike: bool) -> None:
    assert near(one, other) is alike
    assert near(other, one) is alike


# -- the responses ----------------------------------------------------------------------------------------------------


def checked(**limit: Json) -> Story:
    story = limited(tokens={"most": 10, "then": "to_checkpoint", "to": "half", **limit}).does(FLIGHT)
    return story.tell(c.MakeCheckpoint(place=StepId("c"), name="half")).does(HOTEL)


def test_it_goes_back_to_the_checkpoint_so_many_times_with_as_much_again_and_then_all_the_way() -> None:
    story = checked(guidance="be brief", times=1).tell(spend("1", 12))
    why = "12 tokens spent, and the limit is 10 tokens"
    assert story.facts[1:] == (
        e.LimitReached(limit="tokens", most=10, used=12, then="to_checkpoint", why=why),
        e.LimitRaised(limit="tokens", most=22, by="system:runtime", why="it goes back to checkpoint 'half'"),
        e.RewindStarted(
            place=None,
            steps=(HOTEL,),
            why=f"be brief (limit tokens: {why})",
            by="system:runtime",
            deadline_at=UNTIL,
            to=StepId("c"),
            above=4,
        ),
    )
    story.takes_back(HOTEL).comes_to_its_end()
    assert (budget(story).tokens, budget(story).places.get(StepId("1")), budget(story).reached) == (12, None, None)
    story.tell(spend("1", 11))
    assert [type(fact) for fact in story.facts] == [e.BudgetSpent, e.LimitReached, e.RollbackStarted]


def test_going_back_to_the_checkpoint_because_of_the_time_gives_as_much_time_from_now() -> None:
    story = limited(seconds={"most": 5000, "since_at": NOW, "then": "to_checkpoint", "to": "half"})
    story.tell(c.MakeCheckpoint(place=StepId("c"), name="half")).does(HOTEL).tell(keep(), now=NOW + 7000)
    assert [type(fact) for fact in story.facts] == [e.LimitReached, e.LimitRaised, e.RewindStarted]
    assert story.facts[1] == e.LimitRaised(
        limit="seconds", most=12_000, by="system:runtime", why="it goes back to checkpoint 'half'"
    )


def test_without_guidance_the_limit_alone_is_why() -> None:
    *_, started = checked().tell(spend("1", 12)).facts
    assert isinstance(started, e.RewindStarted)
    assert started.why == "limit tokens: 12 tokens spent, and the limit is 10 tokens"


def test_where_there_is_no_way_back_a_person_is_called() -> None:
    story = checked(to="none").tell(spend("1", 12))
    assert [type(fact) for fact in story.facts[1:]] == [e.LimitReached, e.IncidentOpened, e.SagaHalted]
    assert story.incident.why == (
        "limit tokens: 12 tokens spent, and the limit is 10 tokens; it cannot go back to checkpoint 'none': "
        "saga s1 has no checkpoint 'none'; there are: 'half'"
    )


def test_past_its_pivot_a_rollback_is_a_call() -> None:
    story = limited(tokens={"most": 1}).does(FLIGHT, PIVOT).tell(spend("1", 2))
    assert story.incident.kind is e.IncidentKind.PAST_PIVOT


# -- raising ----------------------------------------------------------------------------------------------------------


def test_a_limit_is_raised_by_name_to_more_than_is_used() -> None:
    story = limited(tokens={"most": 10}).tell(spend("1", 7))
    told = "^saga s1 has used 7 tokens of 10 tokens; raise tokens to more than 10 tokens$"
    story.refuses(raised(tokens=10), told)
    story.refuses(raised(usd=10), "^saga s1 has no limit on usd; it has tokens$")
    assert story.tell(raised(tokens=11, why="go on")).facts == (
        e.LimitRaised(limit="tokens", most=11, by="person:ann", why="go on"),
    )
    assert budget(story).bounds[LimitName.TOKENS] == Bound(most=11, measure=10)
    story.refuses(raised(), "^saga s1 has reached no limit; say which one to raise, and to what$")
    Story().refuses(raised(), "^saga s1 has no limits$")
    within = limited(within=True)
    within.refuses(raised(tokens=1), "^saga s1 has no limit on tokens; it has none$")


def test_whoever_has_it_tried_again_grants_as_much_time_from_now() -> None:
    story = limited(seconds={"most": 5000, "since_at": NOW, "then": "call"}).tell(keep(), now=NOW + 5000).later(9)
    again = deepcopy(story).tell(raised())
    assert again.facts[0] == e.LimitRaised(limit="seconds", most=14_000, by="person:ann")
    paused = limited(seconds={"most": 5000, "since_at": NOW, "then": "pause"}).tell(keep(), now=NOW + 5000)
    paused.tell(c.UnpauseSaga(by="person:ann"), now=NOW + 9000)
    assert paused.facts[0] == e.LimitRaised(limit="seconds", most=14_000, by="person:ann")
    retried, resolved = deepcopy(story).retries(), story.resolves()
    assert retried.facts[1] == e.LimitRaised(limit="seconds", most=14_000, by="person:ann")
    assert resolved.facts[1] == e.LimitRaised(limit="seconds", most=14_000, by="person:ann", why="by hand")


def test_what_was_said_to_be_spent_before_what_is_taken_back_is_not_said_again() -> None:
    story = limited(tokens={"most": 9}).does(FLIGHT).tell(spend("1", 2)).does(HOTEL).tell(spend("2", 3))
    story.tell(c.RollBackTo(to=None, last=1, by="person:ann", why=""))
    assert (set(budget(story).places), budget(story).tokens) == ({StepId("1")}, 5)


def test_time_that_has_passed_is_used() -> None:
    story = limited(seconds={"most": 5000, "since_at": NOW})
    told = "^saga s1 has used 7 s of 5 s; raise seconds to more than 7 s$"
    story.refuses(raised(seconds=6000), told, now=NOW + 7000)


def test_raising_another_limit_leaves_the_row_of_like_steps_as_it_is() -> None:
    story = limited(spin={"most": 2}, tokens={"most": 9}).does(FLIGHT).does(HOTEL).tell(raised(tokens=10))
    assert budget(story).newest == (FLIGHT, HOTEL)
    assert budget(story.tell(raised(spin=3))).newest == ()


def test_what_a_child_spent_while_its_parent_stood_still_counts_when_that_goes_on() -> None:
    story = limited(tokens={"most": 9}).does(FLIGHT).tell(c.PauseSaga(by="person:bob", why=""))
    assert [type(fact) for fact in story.tell(count(FLIGHT, tokens=10)).facts] == [e.ChildSpent]
    story.tell(c.UnpauseSaga(by="person:bob")).tell(keep())
    assert story.facts == (
        e.LimitReached(
            limit="tokens", most=9, used=10, then="rollback", why="10 tokens spent, and the limit is 9 tokens"
        ),
        rollback("limit tokens: 10 tokens spent, and the limit is 9 tokens"),
    )


def test_who_uses_nothing_up_any_more_needs_no_more() -> None:
    for story in (Story(started=False), limited(tokens={"most": 1}).finishes(), limited(tokens={"most": 1}).fails()):
        story.refuses(raised(tokens=9), f"^saga s1 is {story.phase}: it uses nothing up any more$")


def test_a_paused_saga_goes_on_when_its_limit_is_raised() -> None:
    story = limited(tokens={"most": 10, "then": "pause"}).tell(spend("1", 12))
    assert story.phase is _G.PAUSED
    told = "^saga s1 has used 12 tokens of 10 tokens; raise tokens to more than 12 tokens$"
    story.refuses(raised(tokens=12), told)
    assert (budget(story).reached, budget(story).why) == (
        LimitName.TOKENS,
        "12 tokens spent, and the limit is 10 tokens",
    )
    story.tell(raised())
    assert story.facts == (
        e.LimitRaised(limit="tokens", most=22, by="person:ann"),
        e.WorkResumed(by="person:ann"),
    )
    assert (budget(story).reached, budget(story).why) == (None, "")


def test_who_was_paused_by_a_person_stays_so() -> None:
    story = limited(tokens={"most": 10}).tell(c.PauseSaga(by="person:bob", why="lunch"))
    assert story.tell(raised(tokens=20)).facts == (e.LimitRaised(limit="tokens", most=20, by="person:ann"),)


def test_who_resolves_a_limit_s_incident_vouches_for_no_step() -> None:
    story = limited(tokens={"most": 1, "then": "call"}).does(FLIGHT, outcome=LOST).tell(spend("1", 2))
    assert story.incident.left == (FLIGHT,)
    story.resolves()
    assert story.facts == (
        e.IncidentResolved(incident=1, by="person:ann", reason="by hand", settled=()),
        e.LimitRaised(limit="tokens", most=3, by="person:ann", why="by hand"),
        e.WorkResumed(by="person:ann"),
    )


def test_another_limit_does_not_let_it_go_on() -> None:
    story = limited(tokens={"most": 10, "then": "pause"}, steps={"most": 3}).tell(spend("1", 12))
    assert story.tell(raised(steps=5)).facts == (e.LimitRaised(limit="steps", most=5, by="person:ann"),)
    assert (story.phase, budget(story).reached) == (_G.PAUSED, "tokens")


def test_raising_resolves_the_incident_that_the_limit_opened_and_no_other() -> None:
    story = limited(tokens={"most": 10, "then": "call"}).tell(spend("1", 12)).tell(raised(tokens=20))
    assert story.facts == (
        e.LimitRaised(limit="tokens", most=20, by="person:ann"),
        e.IncidentResolved(incident=1, by="person:ann", reason="the limit was raised", settled=()),
        e.WorkResumed(by="person:ann"),
    )
    called = limited(tokens={"most": 10, "then": "call"}).tell(spend("1", 12)).tell(raised(why="fine"))
    assert e.IncidentResolved(incident=1, by="person:ann", reason="fine", settled=()) in called.facts
    other = limited(tokens={"most": 10}).diverges().tell(raised(tokens=20))
    assert other.facts == (e.LimitRaised(limit="tokens", most=20, by="person:ann"),)


@pytest.mark.parametrize("way", ["unpause", "retry", "resolve"])
def test_whoever_lets_it_go_on_another_way_grants_as_much_again(way: str) -> None:
    then = "pause" if way == "unpause" else "call"
    story = limited(tokens={"most": 10, "then": then}).tell(spend("1", 12))
    if way == "unpause":
        story.tell(c.UnpauseSaga(by="person:ann"))
    else:
        story = story.retries() if way == "retry" else story.resolves()
    raising = next(fact for fact in story.facts if isinstance(fact, e.LimitRaised))
    assert raising == e.LimitRaised(limit="tokens", most=22, by="person:ann", why="by hand" if way == "resolve" else "")
    assert (story.phase, budget(story).reached) == (_G.RUNNING, None)


def test_as_much_again_is_counted_from_what_is_used() -> None:
    timed = begun({"seconds": {"most": 5000, "since_at": 1000}, "spin": {"most": 3}})
    reached = spent(timed, e.LimitReached(limit="seconds", most=5000, used=9, then="pause", why="w"), 1)
    assert (reached.reached, reached.bounds[LimitName.SECONDS].reached) == (LimitName.SECONDS, 1)
    assert one_more(reached, "person:ann", "because", 9000) == (
        e.LimitRaised(limit="seconds", most=13_000, by="person:ann", why="because"),
    )
    spun = spent(timed, e.LimitReached(limit="spin", most=3, used=3, then="pause", why="w"), 1)
    assert one_more(spun, "person:ann", "", 9000) == (e.LimitRaised(limit="spin", most=3, by="person:ann"),)
    assert one_more(timed, "ann", "", 0) == one_more(None, "ann", "", 0) == ()
    with pytest.raises(JournalDamagedError, match=r"^the limit usd was reached or raised, and there is none$"):
        spent(timed, e.LimitRaised(limit="usd", most=5, by="person:ann"), 1)


# -- children ---------------------------------------------------------------------------------------------------------


def test_what_a_child_uses_up_is_its_parent_s_and_counted_once() -> None:
    story = limited(tokens={"most": 100}).begins(FLIGHT).begins(HOTEL)
    story.tell(count(FLIGHT, 40, 5, 2)).tell(count(HOTEL, 1, 1, 1)).tell(count(FLIGHT, 50, 5, 3))
    assert story.facts == (e.ChildSpent(step=FLIGHT, tokens=50, usd_micros=5, steps=3),)
    assert (budget(story).tokens, budget(story).usd_micros, budget(story).steps) == (51, 6, 6)
    assert story.tell(count(FLIGHT, 50, 4, 1)).facts == ()
    assert story.tell(count(FLIGHT, 10, 6)).facts == (e.ChildSpent(step=FLIGHT, tokens=50, usd_micros=6, steps=3),)
    assert budget(story).of_child(CAR) == e.ChildSpent(step=CAR)
    assert Story().begins(FLIGHT).tell(count(FLIGHT, 1)).facts == (e.ChildSpent(step=FLIGHT, tokens=1),)


def test_a_child_that_crosses_its_parent_s_limit_takes_the_parent_back() -> None:
    story = limited(tokens={"most": 10}).begins(FLIGHT).tell(count(FLIGHT, 11))
    why = "11 tokens spent, and the limit is 10 tokens"
    assert story.facts == (
        e.ChildSpent(step=FLIGHT, tokens=11),
        e.LimitReached(limit="tokens", most=10, used=11, then="rollback", why=why),
        rollback(f"limit tokens: {why}"),
    )
    late = limited(seconds={"most": 5, "since_at": NOW}).begins(FLIGHT).tell(count(FLIGHT, 1), now=NOW + 5)
    assert [type(fact) for fact in late.facts] == [e.ChildSpent, e.LimitReached, e.RollbackStarted]


def test_a_child_s_step_that_would_be_one_too_many_is_not_counted() -> None:
    story = limited(steps={"most": 3, "then": "pause"}).begins(FLIGHT)
    assert story.tell(count(FLIGHT, 0, 0, 2)).facts == (e.ChildSpent(step=FLIGHT, steps=2),)
    story.tell(count(FLIGHT, 7, 0, 3, topic="mail.send"))
    why = "mail.send would be step 4, and the limit is 3 steps"
    assert story.facts[:2] == (
        e.ChildSpent(step=FLIGHT, tokens=7, steps=2),
        e.LimitReached(limit="steps", most=3, used=3, then="pause", why=why),
    )
    again = limited(steps={"most": 1, "then": "pause"}).begins(FLIGHT).tell(count(FLIGHT, 0, 0, 1))
    assert again.facts[0] == e.LimitReached(
        limit="steps", most=1, used=1, then="pause",
        why="what the child of step flight did would be step 2, and the limit is 1 step",
    )  # fmt: skip


def test_a_child_s_step_that_would_be_one_too_many_takes_its_parent_back() -> None:
    story = limited(steps={"most": 1}).begins(FLIGHT).tell(count(FLIGHT, 0, 0, 1, topic="mail.send"))
    assert story.facts[1:] == (rollback("limit steps: mail.send would be step 2, and the limit is 1 step"),)


def test_a_parent_that_does_not_work_any_more_only_counts() -> None:
    story = limited(tokens={"most": 10}).begins(FLIGHT).fails().tell(count(FLIGHT, 99))
    assert story.facts == (e.ChildSpent(step=FLIGHT, tokens=99),)
    paused = limited(tokens={"most": 10}).begins(FLIGHT).tell(c.PauseSaga(by="person:ann", why="lunch"))
    assert paused.tell(count(FLIGHT, 99)).facts == (e.ChildSpent(step=FLIGHT, tokens=99),)
    assert Story(started=False).tell(count(FLIGHT, 1)).facts == ()
    assert Story().begins(FLIGHT).tell(count(FLIGHT)).facts == ()
    assert limited(tokens={"most": 10}).finishes().tell(count(FLIGHT, 1)).facts == ()


def test_what_a_child_is_told_to_do() -> None:
    story = limited(tokens={"most": 10, "then": "pause"}).begins(FLIGHT)
    assert halts_child(story.saga, FLIGHT) is None
    assert halts_child(story.tell(spend("1", 11)).saga, FLIGHT) is Response.PAUSE
    called = limited(tokens={"most": 10, "then": "call"}).begins(FLIGHT).tell(spend("1", 11))
    assert halts_child(called.saga, FLIGHT) is Response.PAUSE
    assert halts_child(Story().begins(FLIGHT).fails().saga, FLIGHT) is Response.ROLLBACK
    by_family = Story().begins(FLIGHT).tell(c.PauseSaga(by=FAMILY, why=""))
    assert halts_child(by_family.saga, FLIGHT) is Response.PAUSE
    by_person = Story().begins(FLIGHT).tell(c.PauseSaga(by="person:ann", why=""))
    assert halts_child(by_person.saga, FLIGHT) is None
    rewound = Story().begins(FLIGHT)
    rewound.tell(c.Rewind(place=StepId("r"), steps=(FLIGHT,), why=""))
    assert (halts_child(rewound.saga, FLIGHT), halts_child(rewound.saga, CAR)) == (Response.ROLLBACK, None)


def test_what_is_reached_folds_to_the_same_when_it_is_replayed() -> None:
    story = checked().begins(CAR).tell(spend("1", 12))
    assert replay(SagaId("s1"), story.events) == story.saga
    assert begun({}).places == {}


# -- what fails, and is tried again -----------------------------------------------------------------------------------

NOPE = Failed(error="nope")
FLAKY = contract("act.flaky", idempotent=True, attempts=9)


def again(topic: str = "act.flaky") -> c.KeepLimits:
    return c.KeepLimits(again=topic)


def test_attempts_that_fail_or_are_lost_count_and_one_too_many_has_its_response_with_it() -> None:
    story = limited(failures={"most": 2}).does(FLIGHT, FLAKY, NOPE).later(60).tell(keep())
    assert story.facts == ()
    story = story.tries(FLIGHT).ends(FLIGHT, LOST).tell(keep()).later(60)
    assert (budget(story).failures, budget(story).retries, story.facts) == (2, 1, ())
    story = story.tries(FLIGHT).ends(FLIGHT, NOPE).tell(keep(), now=NOW)
    why = "3 failures so far, and the limit is 2 failures"
    assert story.facts == (
        e.LimitReached(limit="failures", most=2, used=3, then="rollback", why=why),
        rollback(f"limit failures: {why}"),
    )


def test_a_retry_that_would_be_one_too_many_is_not_begun() -> None:
    story = limited(retries={"most": 1, "then": "call"}).does(FLIGHT, FLAKY, NOPE).later(60).tell(again())
    assert story.facts == ()
    story = story.tries(FLIGHT).ends(FLIGHT, NOPE).tell(keep("act.other"))
    assert story.facts == ()  # another step is no retry
    story = story.tell(again())
    why = "act.flaky would be retry 2, and the limit is 1 retry"
    assert story.facts[0] == e.LimitReached(limit="retries", most=1, used=1, then="call", why=why)
    assert story.phase is _G.INCIDENT
    story = story.tell(raised(retries=4))
    assert (story.phase, budget(story).bounds[LimitName.RETRIES].most) == (_G.RUNNING, 4)


def test_what_is_built_in_and_what_fails_on_the_way_back_do_not_count() -> None:
    story = limited(failures={"most": 1}).does(FLIGHT, contract("amends.call", idempotent=True), NOPE).later(60)
    assert (budget(story.tries(FLIGHT).ends(FLIGHT, NOPE)).failures, budget(story).retries) == (0, 0)
    story = limited(failures={"most": 1}).does(FLIGHT, FLAKY).begins(HOTEL, FLAKY).fails()
    assert budget(story.ends(HOTEL, NOPE)).failures == 0


def test_a_child_that_tells_its_failures_counts_for_its_parent_and_a_retry_too_many_does_not() -> None:
    story = limited(failures={"most": 5}, retries={"most": 2}).begins(FLIGHT)
    story = story.tell(count(FLIGHT, failures=2, retries=1)).tell(count(FLIGHT, failures=2, retries=1))
    assert (story.facts, budget(story).failures, budget(story).retries) == ((), 2, 1)
    story = story.tell(count(FLIGHT, failures=3, retries=2, again="act.flaky"))
    assert story.facts == (e.ChildSpent(step=FLIGHT, failures=3, retries=2),)
    story = story.tell(count(FLIGHT, failures=4, retries=3, again="act.flaky"))
    assert story.facts[0] == e.ChildSpent(step=FLIGHT, failures=4, retries=2)
    assert isinstance(story.facts[1], e.LimitReached)
    assert story.facts[1].why == "act.flaky would be retry 3, and the limit is 2 retries"


def test_a_child_tells_what_failed_only_where_somebody_above_counts_it() -> None:
    assert within_of(None) is None
    assert within_of({}) is None
    assert within_of({"usd": {"most": 1}}) is True
    assert within_of({"within": True}) is True
    assert within_of({"failures": {"most": 1}}) == within_of({"retries": {"most": 1}}) == TRIED
    assert within_of({"usd": {"most": 1}, "within": TRIED}) == TRIED
    assert begun({"within": TRIED}).tells_tries
    assert begun({"within": TRIED}).within
    assert not begun({"within": True}).tells_tries


# -- bounds of one saga -----------------------------------------------------------------------------------------------


def bound_to(**bounds: Any) -> Story:
    begins = c.StartSaga(definition="trip", version=1, input={}, actor="ann", env="test", labels={}, **bounds)
    return Story(started=False).tell(begins)


def test_a_sagas_own_window_takes_the_place_of_whoever_takes_it_back() -> None:
    assert bound_to(rollback_s=30).does(FLIGHT).fails().facts[-1] == e.RollbackStarted(
        cause=e.Cause.FATAL, why="boom", step=None, by="system:runtime", deadline_at=NOW + 30_000
    )


def test_no_step_is_tried_more_often_than_its_saga_says_and_none_more_often_than_its_action() -> None:
    story = bound_to(attempts=2).does(FLIGHT, FLAKY, NOPE).later(60)
    assert story.step(FLIGHT).retry_at is not None
    assert story.tries(FLIGHT).ends(FLIGHT, NOPE).step(FLIGHT).retry_at is None
    assert bound_to(attempts=9).does(FLIGHT, contract(attempts=1), NOPE).step(FLIGHT).retry_at is None


def test_no_compensation_is_tried_more_often_than_its_saga_says() -> None:
    promised = contract(undo_attempts=9)
    for most, is_due in ((1, False), (2, True)):
        story = bound_to(compensation_attempts=most).does(FLIGHT, promised).fails()
        story = story.takes_back(FLIGHT, NOPE)
        assert (story.step(FLIGHT).retry_at is not None) is is_due
