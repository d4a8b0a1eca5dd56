"""Laws of judging, held on policies and facts that nobody would write.

HYPOTHESIS_PROFILE=night tries a hundred times as many.
"""

import json
import os
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from amends.core.words.contracts import Reversibility
from amends.core.words.verdict import Decision, Verdict
from amends.gate.facts import Facts
from amends.gate.load import parse_policy
from amends.gate.policy import Policy, judge, spoken, strictness
from tests.gate.support import facts

SCALE = {"": 1, "night": 100, "release": 500}[os.environ.get("HYPOTHESIS_PROFILE", "")]
many = settings(max_examples=250 * SCALE, deadline=None, suppress_health_check=[HealthCheck.too_slow])

RESTRICTING = (Decision.THROTTLE, Decision.REQUIRE_HUMAN, Decision.DENY)
NAMES = ("n", "t", "deep.inner", "list.1")

numbers = st.integers(0, 4)
words = st.sampled_from(["a", "ab", "b", "a*", "*b", "?"])
flags = st.booleans()
scalars = numbers | words | flags


def operators(*, presence: bool) -> st.SearchStrategy[Any]:
    optional: dict[str, st.SearchStrategy[Any]] = {
        "in": st.lists(scalars, min_size=1, max_size=3),
        "not_in": st.lists(scalars, min_size=1, max_size=3),
    }
    bounds = st.sampled_from([{"gt": 1}, {"gte": 2, "lte": 3}, {"lt": 3}])
    maps = st.fixed_dictionaries({}, optional=optional).filter(bool)
    kinds = scalars | st.lists(scalars, min_size=1, max_size=3) | maps | bounds
    return (
        kinds | st.sampled_from([{"exists": True}, {"exists": False}, {"exists": True, "gt": 1}]) if presence else kinds
    )


def conditions(*, presence: bool) -> st.SearchStrategy[dict[str, Any]]:
    anything = operators(presence=presence)
    texts = words | st.lists(words, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "env": st.sampled_from(["production", "test", "t*", ["production", "test"]]),
            "topic": st.sampled_from(["a.b", "a.*", "**", "*.b", {"not_in": ["a.b"]}, ["c", "a.b"]]),
            "phase": st.sampled_from(["forward", "compensation"]),
            "actor": st.sampled_from(["agent:*", ["person:a", "person:b"], {"not_in": ["agent:a"]}]),
            "risk": st.sampled_from(["money", {"not_in": ["money", "access"]}]),
            "labels.team": texts,
            "tenant": texts,
            "drill.age_days": st.sampled_from([2, {"gt": 1}, {"lte": 3}]),
            **{f"args.{name}": anything for name in NAMES},
        },
    )


def rules(decisions: tuple[Decision, ...], *, presence: bool) -> st.SearchStrategy[dict[str, Any]]:
    asked = conditions(presence=presence)
    made = st.fixed_dictionaries(
        {"id": st.just("new"), "when": asked, "decision": st.sampled_from([str(each) for each in decisions])},
        optional={"unless": st.lists(asked.filter(bool), min_size=1, max_size=2)},
    )
    return made.map(lambda rule: rule | {"rate": {"max": 1, "per": "1s"}} if rule["decision"] == "throttle" else rule)


def documents(*, presence: bool) -> st.SearchStrategy[dict[str, Any]]:
    listed = st.lists(rules(tuple(Decision), presence=presence), max_size=5)
    return st.fixed_dictionaries(
        {
            "version": st.just("v1"),
            "rules": listed.map(lambda made: [rule | {"id": f"r{place}"} for place, rule in enumerate(made)]),
        },
        optional={"default": st.sampled_from(["allow", "deny", "require_human"])},
    )


DOCUMENTS = documents(presence=True)
WITHOUT_EXISTS = documents(presence=False)
RESTRICTING_RULES = rules(RESTRICTING, presence=True)
ALLOWING_RULES = rules((Decision.ALLOW,), presence=True)


def policy(document: dict[str, Any]) -> Policy:
    return parse_policy(json.dumps(document))


VALUES: st.SearchStrategy[Any] = (
    scalars | st.none() | st.just({"$secret": "env:X"}) | st.just([1, "a"]) | st.just({"inner": 2})
)
SITUATIONS: st.SearchStrategy[Facts] = st.builds(
    facts,
    st.sampled_from(["a.b", "a.c", "c", "a.b.c"]),
    st.dictionaries(st.sampled_from(["n", "t", "deep", "list"]), VALUES),
    env=st.sampled_from(["production", "test"]),
    actor=st.sampled_from(["agent:a", "agent:b", "person:a"]),
    phase=st.sampled_from(["forward", "compensation"]),
    kind=st.sampled_from(list(Reversibility)),
    risk=st.sampled_from([(), ("money",), ("access", "money"), ("low",)]),
    labels=st.dictionaries(st.sampled_from(["team", "tenant"]), st.sampled_from(["a", "ab", "c"])),
    drill_age_days=st.sampled_from([None, 1.0, 2.0, 5.0]),
)


def one_by_one(made: Policy, asked: Facts) -> Verdict:
    """Judging as it is told: no index, nothing remembered."""
    heard = [(rule, rule.holds(asked)) for rule in made.rules]
    if not any(holds for _, holds in heard):
        heard += [(rule, rule.holds(asked)) for rule in made.fallback]
    matched = [rule for rule, holds in heard if rule.matches(holds)]
    said = spoken(made.digest, matched)
    if said.decision is Decision.DENY:
        return said
    return replace(said, rates=tuple(rule.limit.rate(rule.id, asked) for rule in matched if rule.limit))


def how_strict(made: Policy, asked: Facts) -> int:
    found = judge(made, asked)
    assert found.rule != "error", found
    return strictness(found.decision)


@many
@given(document=DOCUMENTS, asked=st.lists(SITUATIONS, min_size=1, max_size=6))
def test_judging_with_the_index_is_judging_every_rule_one_by_one(document: dict[str, Any], asked: list[Facts]) -> None:
    made = policy(document)
    for each in [*asked, *asked]:
        assert judge(made, each) == one_by_one(made, each)


@many
@given(document=WITHOUT_EXISTS, asked=SITUATIONS, data=st.data())
def test_without_exists_taking_a_fact_away_never_makes_the_verdict_milder(
    document: dict[str, Any], asked: Facts, data: st.DataObject
) -> None:
    """Away is: an argument or a label that is not there, is null, or is a secret; a drill that nobody knows of."""
    made = policy(document)
    args = dict(asked.args) if isinstance(asked.args, dict) else {}
    kinds = [*(("args", name) for name in args), *(("labels", name) for name in asked.labels), ("drill", "")]
    what, name = data.draw(st.sampled_from(kinds))
    if what == "args":
        rest: dict[str, Any] = {key: value for key, value in args.items() if key != name}
        ways: list[dict[str, Any]] = [{}, {name: None}, {name: {"$secret": "env:Y"}}]
        instead = data.draw(st.sampled_from(ways))
        poorer = replace(asked, args=rest | instead)
    elif what == "labels":
        poorer = replace(asked, labels={key: value for key, value in asked.labels.items() if key != name})
    else:
        poorer = replace(asked, drill_age_days=None)
    assert how_strict(made, poorer) >= how_strict(made, asked)


@many
@given(document=DOCUMENTS, asked=SITUATIONS, more=RESTRICTING_RULES, data=st.data())
def test_a_restricting_rule_more_makes_a_verdict_milder_only_where_the_default_spoke(
    document: dict[str, Any], asked: Facts, more: dict[str, Any], data: st.DataObject
) -> None:
    """A default is for what no rule matches: the new rule then takes its place, and is never milder than itself."""
    before = policy(document)
    place = data.draw(st.integers(0, len(document["rules"])))
    after = policy(document | {"rules": [*document["rules"][:place], more, *document["rules"][place:]]})
    was, now = how_strict(before, asked), how_strict(after, asked)
    if any(rule.holds(asked) for rule in before.rules):
        assert now >= was
    assert now >= min(was, strictness(Decision(more["decision"])))


@many
@given(document=DOCUMENTS, asked=SITUATIONS, more=ALLOWING_RULES)
def test_a_rule_that_allows_never_overrules_one_that_certainly_matches(
    document: dict[str, Any], asked: Facts, more: dict[str, Any]
) -> None:
    before, after = policy(document), policy(document | {"rules": [*document["rules"], more]})
    if any(rule.holds(asked) for rule in before.rules):
        assert how_strict(after, asked) == how_strict(before, asked)


@many
@given(document=DOCUMENTS, asked=SITUATIONS, data=st.data())
def test_the_order_of_the_rules_changes_who_speaks_and_never_what_is_decided(
    document: dict[str, Any], asked: Facts, data: st.DataObject
) -> None:
    shuffled = document | {"rules": data.draw(st.permutations(document["rules"]))}
    one, other = judge(policy(document), asked), judge(policy(shuffled), asked)
    assert one.decision is other.decision
    assert {one.rule, *one.matched} == {other.rule, *other.matched}
    assert (set(one.needs), one.expires_s, set(one.rates)) == (set(other.needs), other.expires_s, set(other.rates))


@many
@given(document=DOCUMENTS, asked=SITUATIONS)
def test_a_verdict_s_parts_agree(document: dict[str, Any], asked: Facts) -> None:
    made = policy(document)
    found = judge(made, asked)
    known = {rule.id: rule for rule in (*made.rules, *made.fallback)}
    assert found.policy == made.digest
    assert found.rule not in found.matched
    assert known[found.rule].decision is found.decision
    assert all(strictness(known[name].decision) <= strictness(found.decision) for name in found.matched)
    assert bool(found.needs) is (found.decision is Decision.REQUIRE_HUMAN)
    assert not (found.rates and found.decision is Decision.DENY)
