"""What an action promises, and the keys under which it is done and taken back."""

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from amends.core.words.contracts import (
    BACK,
    FORWARD,
    Contract,
    OnIncident,
    Retries,
    Reversibility,
    Topic,
    described,
    key_of,
)
from amends.core.words.values import SagaId, StepId
from amends.core.words.verdict import Decision, Verdict

R = Reversibility


def declared(**promises: Any) -> Contract:
    return Contract(topic=Topic("act"), **promises)


def test_the_defaults_are_those_that_the_product_promises() -> None:
    """50 dispatch attempts, backoff from 1 s doubling to 30 s, 30 s for a compensation's attempt."""
    contract = declared()
    assert (contract.retries, contract.undo_retries) == (FORWARD, BACK)
    assert (FORWARD.attempts, FORWARD.first_s, FORWARD.cap_s) == (50, 1, 30)
    assert (contract.undo_timeout_s, contract.reversibility, contract.side_effect) == (30, R.UNDECLARED, True)


@pytest.mark.parametrize(("attempt", "delay_s"), [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (50, 30), (10**9, 30)])
def test_the_wait_doubles_up_to_its_cap_less_up_to_half_by_chance(attempt: int, delay_s: float) -> None:
    assert Retries().delay_s(attempt, 0) == delay_s
    assert Retries().delay_s(attempt, 1) == delay_s / 2


def test_it_doubles_thirty_two_times_whatever_the_cap() -> None:
    assert Retries(cap_s=math.inf).delay_s(33, 0) == Retries(cap_s=math.inf).delay_s(1000, 0) == 2.0**32


@given(attempt=st.integers(1, 1000), jitter=st.floats(0, 1))
def test_a_wait_is_never_longer_than_the_cap_nor_shorter_than_half_the_first(attempt: int, jitter: float) -> None:
    assert 0.5 <= Retries().delay_s(attempt, jitter) <= 30


@pytest.mark.parametrize("kind", Reversibility)
@pytest.mark.parametrize("side_effect", [True, False])
def test_only_what_changes_something_and_can_be_taken_back_has_a_compensation(kind: R, side_effect: bool) -> None:
    contract = declared(reversibility=kind, side_effect=side_effect)
    assert contract.compensation_declared == (side_effect and kind in {R.REVERSIBLE, R.COMPENSATABLE})


@pytest.mark.parametrize(
    ("idempotent", "side_effect", "repeatable"), [(True, True, True), (False, True, False), (False, False, True)]
)
def test_what_is_idempotent_or_only_reads_may_be_repeated(
    idempotent: bool, side_effect: bool, repeatable: bool
) -> None:
    assert declared(idempotent=idempotent, side_effect=side_effect).repeatable is repeatable


@pytest.mark.parametrize("kind", Reversibility)
def test_a_rollback_never_goes_on_past_what_may_be_the_pivot(kind: R) -> None:
    assert declared(reversibility=kind, on_incident=OnIncident.GO_ON).goes_on == (kind is not R.IRREVERSIBLE)
    assert not declared(reversibility=kind).goes_on


def test_a_person_is_shown_all_of_a_contract() -> None:
    retries = Retries(attempts=3, first_s=2.0, cap_s=9.0)
    promises = declared(
        reversibility=R.COMPENSATABLE, idempotent=True, risk=("money", "mail"), retries=retries, does="books", tool="t1"
    )
    assert described(promises) == {
        "topic": "act", "version": 1, "side_effect": True, "reversibility": "compensatable", "no_rollback": None,
        "idempotent": True, "atomic": False, "probe": False, "before": False, "reread": False, "resources": [],
        "lock_wait_s": None, "risk": ["money", "mail"], "timeout_s": 300.0,
        "retries": {"attempts": 3, "first_s": 2.0, "cap_s": 9.0}, "undo_timeout_s": 30.0,
        "undo_retries": {"attempts": 5, "first_s": 1.0, "cap_s": 30.0}, "on_incident": "stop", "hold": False,
        "does": "books", "undoes": "", "tool": "t1",
    }  # fmt: skip


IDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=4)
PARTS = st.tuples(IDS, IDS, IDS, st.sampled_from(["do", "undo"]), st.integers(0, 3))


@given(one=PARTS, other=PARTS)
def test_two_keys_are_the_same_only_where_everything_is(
    one: tuple[str, str, str, str, int], other: tuple[str, str, str, str, int]
) -> None:
    assert (key(*one) == key(*other)) == (one == other)


def key(saga: str, step: str, topic: str, phase: str, turn: int) -> str:
    return key_of(SagaId(saga), StepId(step), Topic(topic), "do" if phase == "do" else "undo", turn)


def test_a_key_never_changes() -> None:
    """Providers remember keys: a release that spelled them otherwise would do things twice."""
    assert key("s1", "flight", "act", "do", 0) == "de85f039a7c90c88404842f59208bae5"
    assert key_of(SagaId("s1"), StepId("flight"), Topic("act"), "do") == "de85f039a7c90c88404842f59208bae5"
    assert key("s1", "flight", "act", "undo", 0) == "d7493164d8d89e32e4e7c5c4c72bdb65"
    assert key("s1", "flight", "act", "undo", 1) == "2028860e58164f24aa9db5f880963c3e"


def test_a_verdict_says_which_rule_of_which_policy_spoke() -> None:
    verdict = Verdict(decision=Decision.DENY, rule="no-deletes", policy="3f2a")
    assert (verdict.decision, verdict.rule, verdict.policy, verdict.why) == ("deny", "no-deletes", "3f2a", "")
    assert [*Decision] == ["allow", "throttle", "require_human", "deny"]
