"""What is missing, secret or of the wrong type never makes a rule lenient: every operator, in every kind of rule."""

from typing import cast

import pytest

from amends.core.words.values import Json
from amends.core.words.verdict import Decision
from amends.gate.conditions import condition
from amends.gate.facts import Facts
from amends.gate.vocabulary import FACTS
from tests.gate.support import facts, rule, verdict

ABSENT = object()
RESTRICTING = (Decision.DENY, Decision.REQUIRE_HUMAN, Decision.THROTTLE)
SECRET: Json = {"$secret": "sha256:0"}

NUMERIC = ("{gt: 5}", "{gte: 5}", "{lt: 5}", "{lte: 5}", "5", "[5, 6]", "{in: [5]}", "{not_in: [5]}", "{gt: 5, lt: 9}")
TEXTUAL = ("word", "'w*'", "[word, other]", "{in: [word]}", "{not_in: [word]}", "{not_in: ['w*']}")
FLAGS = ("true", "false", "{in: [true]}", "{not_in: [false]}")

NOT_NUMBERS: tuple[Json, ...] = ("5", "", True, [5], {"n": 5})
NOT_TEXTS: tuple[Json, ...] = (5, False, ["word"], {"word": "word"})
NOT_FLAGS: tuple[Json, ...] = (1, 0, "true", "", [True])

UNTOLD: list[tuple[str, object]] = [
    *((when, value) for when in NUMERIC for value in (ABSENT, None, SECRET, *NOT_NUMBERS)),
    *((when, value) for when in TEXTUAL for value in (ABSENT, None, SECRET, *NOT_TEXTS)),
    *((when, value) for when in FLAGS for value in (ABSENT, None, SECRET, *NOT_FLAGS)),
]


def having(value: object) -> Facts:
    return facts(args={} if value is ABSENT else {"n": cast("Json", value)})


@pytest.mark.parametrize(("when", "value"), UNTOLD)
def test_what_cannot_be_told_counts_as_holding_in_a_rule_that_restricts(when: str, value: object) -> None:
    for decision in RESTRICTING:
        assert verdict(rule(decision, f"{{args.n: {when}}}"), having(value)).rule == "one"


@pytest.mark.parametrize(("when", "value"), UNTOLD)
def test_and_as_not_holding_in_a_rule_that_allows(when: str, value: object) -> None:
    assert verdict(rule("allow", f"{{args.n: {when}}}"), having(value), "deny").rule == "default"


@pytest.mark.parametrize(("when", "value"), UNTOLD)
def test_it_exempts_nothing_from_a_rule_that_restricts(when: str, value: object) -> None:
    for decision in RESTRICTING:
        assert verdict(rule(decision, unless=f"{{args.n: {when}}}"), having(value)).rule == "one"


@pytest.mark.parametrize(("when", "value"), UNTOLD)
def test_and_exempts_from_a_rule_that_allows(when: str, value: object) -> None:
    assert verdict(rule("allow", unless=f"{{args.n: {when}}}"), having(value), "deny").rule == "default"


# Presence


@pytest.mark.parametrize("decision", Decision)
@pytest.mark.parametrize(("value", "is_there"), [(ABSENT, False), (None, False), (0, True), ("", True), (SECRET, True)])
def test_exists_always_has_an_answer(decision: Decision, value: object, is_there: bool) -> None:
    default = "allow" if decision is not Decision.ALLOW else "deny"
    for asked, holds in (("true", is_there), ("false", not is_there)):
        found = verdict(rule(decision, f"{{args.n: {{exists: {asked}}}}}"), having(value), default)
        assert found.rule == ("one" if holds else "default")


@pytest.mark.parametrize("decision", Decision)
def test_exists_with_another_operator_is_plainly_false_for_what_is_not_there(decision: Decision) -> None:
    default = "allow" if decision is not Decision.ALLOW else "deny"
    assert verdict(rule(decision, "{args.n: {exists: true, gt: 5}}"), having(ABSENT), default).rule == "default"
    assert verdict(rule(decision, "{args.n: {exists: true, gt: 5}}"), having(6), default).rule == "one"


# Joined


def test_a_condition_that_certainly_does_not_hold_settles_a_rule_whatever_is_missing() -> None:
    assert verdict(rule("deny", "{args.n: {gt: 5}, env: nowhere}"), having(ABSENT)).decision is Decision.ALLOW
    assert verdict(rule("deny", "{args.n: {gt: 5}, args.m: 7}"), facts(args={"m": 8})).decision is Decision.ALLOW


def test_an_exemption_in_doubt_does_not_exempt_and_a_certain_one_does() -> None:
    rules = rule("deny", unless="[{args.n: 5}, {args.m: 6}]")
    assert verdict(rules, having(ABSENT)).decision is Decision.DENY
    assert verdict(rules, facts(args={"m": 6})).decision is Decision.ALLOW


def test_a_condition_in_doubt_beside_one_that_does_not_hold_exempts_nothing_from_what_is_allowed() -> None:
    rules = rule("allow", unless="{args.n: 5, args.m: 6}")
    assert verdict(rules, facts(args={"m": 7}), "deny").decision is Decision.ALLOW
    assert verdict(rules, facts(args={"m": 6}), "deny").decision is Decision.DENY


# The default


def test_a_rule_that_matches_only_for_lack_of_knowledge_does_not_get_around_a_stricter_default() -> None:
    rules = rule("throttle", "{args.n: {lt: 5}}")
    assert verdict(rules, having(9), "deny").decision is Decision.DENY
    found = verdict(rules, having(ABSENT), "deny")
    assert (found.decision, found.rule, found.matched) == (Decision.DENY, "default", ("one",))
    assert verdict(rules, having(1), "deny").decision is Decision.THROTTLE


def test_it_speaks_where_it_is_the_stricter_one() -> None:
    found = verdict(rule("deny", "{args.n: {lt: 5}}"), having(ABSENT), "require_human")
    assert (found.decision, found.rule, found.matched) == (Decision.DENY, "one", ("default",))


def test_the_default_s_own_need_is_added_to_a_rule_s_that_is_in_doubt() -> None:
    found = verdict(rule("require_human", "{args.n: 5}"), having(ABSENT), "require_human")
    assert [need.rule for need in found.needs] == ["one", "default"]


def test_where_another_rule_certainly_matches_the_default_is_not_asked() -> None:
    rules = rule("allow", name="fine") + "\n" + rule("throttle", "{args.n: {lt: 5}}")
    assert verdict(rules, having(ABSENT), "deny").decision is Decision.THROTTLE


# Other facts that may be missing


@pytest.mark.parametrize(
    "when",
    [
        "{labels.team: x}",
        "{tenant: x}",
        "{drill.age_days: {lt: 30}}",
        "{args.a.b: 1}",
        "{args.list.0: 1}",
        "{args.list.x: 1}",
        "{args.list.01: 1}",
        "{args.secret.inner: 1}",
        "{args.text.0: x}",
    ],
)
def test_any_fact_that_is_not_there_is_missing(when: str) -> None:
    asked = facts(args={"list": [], "secret": SECRET, "text": "xyz"})
    assert verdict(rule("deny", when), asked).decision is Decision.DENY
    assert verdict(rule("allow", when), asked, "deny").decision is Decision.DENY


def test_a_number_that_is_none_cannot_be_compared() -> None:
    asked = facts(spent={"usd": float("nan")})
    for when in ("{gt: 5}", "{lt: 5}", "5"):
        assert verdict(rule("deny", f"{{saga.spent.usd: {when}}}"), asked).decision is Decision.DENY


def test_a_secret_s_digest_cannot_be_asked_for() -> None:
    from amends.errors import PolicyError
    from tests.gate.support import policy

    with pytest.raises(PolicyError, match=r"unknown fact 'args\.card\.\$secret'"):
        policy(rule("allow", "{args.card.$secret: 'sha256:*'}"))


def test_arguments_that_are_no_map_have_nothing_in_them() -> None:
    assert verdict(rule("deny", "{args.n: 5}"), facts(args=[5])).decision is Decision.DENY


def test_an_exemption_that_does_not_apply_makes_no_doubt_a_certainty() -> None:
    allows = rule("allow", "{args.n: {gt: 5}}", unless="{env: other}")
    assert verdict(allows, facts(args={"n": 6}), default="deny").decision is Decision.ALLOW
    assert verdict(allows, facts(args={}), default="deny").decision is Decision.DENY


def test_of_tags_that_are_not_there_nothing_can_be_told() -> None:
    asked = condition(FACTS["risk"], {"in": ["money"]})
    assert (asked.match(None), asked.match(()), asked.match(("money",))) == (None, False, True)
