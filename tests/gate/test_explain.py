"""Why a verdict is as it is, facts that a person describes, and a policy's own tests."""

from typing import Any

import pytest

from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.core.words.values import Json, SagaId, StepId
from amends.errors import InputError, PolicyError
from amends.gate.cases import parse_cases
from amends.gate.described import described_facts
from amends.gate.explain import Heard, heard, never_speaking
from amends.gate.facts import Facts
from amends.gate.load import builtin_policy
from tests.gate.support import facts, policy, rule


def only(rules: str, *, default: str | None = "allow", **args: Any) -> Heard:
    return heard(policy(rules, default), facts(args=args, env="test"))[0]


# Explaining


def test_a_rule_that_did_not_match_names_the_first_condition_against_it_and_what_that_saw() -> None:
    found = only(rule("deny", "{env: test, args.n: {gt: 5}, args.m: 1}"), n=3, m=2)
    assert not found.matched
    assert (str(found.condition), found.saw, found.exempt, found.holds) == ("args.n gt 5", 3, False, False)


def test_what_cannot_be_told_does_not_stand_against_a_rule_that_restricts() -> None:
    found = only(rule("deny", "{args.m: 1, args.n: {gt: 5}}"), n=3)
    assert (str(found.condition), found.saw, found.in_doubt) == ("args.n gt 5", 3, ("args.m",))


def test_a_condition_says_in_words_what_it_wants() -> None:
    asks = "{args.a: {exists: false}, args.b: {exists: true}, args.c: [x, 5], args.d: {not_in: [y]}, args.e: {gt: 1}}"
    (found, *_) = policy(rule("deny", asks)).rules
    assert list(map(str, found.when)) == [
        "args.a does not exist", "args.b exists", "args.c x or 5", "args.d not y", "args.e gt 1"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "saw"), [({}, "missing"), ({"n": {"$secret": "env:X"}}, "a secret"), ({"n": "5"}, "5"), ({"n": [1]}, [1])]
)
def test_an_allow_rule_names_what_could_not_be_told(args: dict[str, Json], saw: Json) -> None:
    found = only(rule("allow", "{args.n: {gt: 5}}"), default="deny", **args)
    assert (found.matched, found.holds, found.saw, found.in_doubt) == (False, None, saw, ("args.n",))


def test_a_restricting_rule_that_matched_in_doubt_names_the_doubt() -> None:
    found = only(rule("deny", "{env: test, args.n: {gt: 5}}"))
    assert (found.matched, found.holds, found.in_doubt, found.condition) == (True, None, ("args.n",), None)


def test_an_exempt_rule_names_the_exemption() -> None:
    found = only(rule("deny", unless="[{args.n: 1}, {args.m: 2}]"), m=2)
    assert (found.matched, found.exempt, str(found.condition), found.saw) == (False, True, "args.m 2", 2)
    found = only(rule("allow", unless="[{args.n: 1}, {args.m: 2}]"), default="deny", n=5, m=2)
    assert (found.matched, found.exempt, str(found.condition), found.saw) == (False, True, "args.m 2", 2)
    found = only(rule("allow", unless="{args.n: 1}"), default="deny")
    assert (found.matched, found.exempt, str(found.condition), found.saw) == (False, True, "args.n 1", "missing")


def test_tags_and_reversibility_can_be_shown() -> None:
    made = policy(rule("deny", "{risk: money}") + "\n" + rule("deny", "{reversibility: undeclared}", name="two"))
    one, two, _ = heard(made, facts(risk=("low",), kind=Reversibility.IRREVERSIBLE))
    assert (one.saw, two.saw) == (["low"], "irreversible")
    assert type(two.saw) is str


def test_the_default_is_heard_only_where_no_rule_certainly_matches() -> None:
    made = policy(rule("allow", "{env: test}"), "deny")
    assert [each.rule.id for each in heard(made, facts(env="test"))] == ["one"]
    assert [each.rule.id for each in heard(made, facts(env="production"))] == ["one", "default"]
    in_doubt = policy(rule("deny", "{args.n: 1}"), "deny")
    assert [each.rule.id for each in heard(in_doubt, facts())] == ["one", "default"]


def test_without_a_default_the_built_in_rules_are_heard_with_what_they_saw() -> None:
    asked = facts(env="production")
    _, *built_in = heard(policy(rule("deny", "{env: test}"), None), asked)
    assert tuple(built_in) == heard(builtin_policy(), asked)
    assert len(built_in) == len(builtin_policy().rules)


# Rules without effect


@pytest.mark.parametrize(
    ("one", "other", "silent"),
    [
        (rule("deny", name="a"), rule("allow", name="b"), "b"),
        (rule("deny", name="a"), rule("throttle", name="b"), "b"),
        (rule("deny", name="a"), rule("require_human", name="b"), "b"),
        (rule("deny", name="a"), rule("deny", "{env: x}", name="b"), "b"),
        (rule("allow", "{env: x}", name="a"), rule("deny", "{env: x}", name="b"), "a"),
        (rule("throttle", name="a"), rule("allow", name="b"), "b"),
        (rule("allow", name="a"), rule("allow", "{env: x}", name="b"), "b"),
        (rule("deny", "{env: x}", name="a"), rule("deny", "{env: x, args.n: 5}", name="b"), "b"),
        (rule("deny", "{env: x}", name="a"), rule("deny", name="b"), None),
        (rule("deny", unless="{env: x}", name="a"), rule("allow", name="b"), None),
        (rule("require_human", name="a"), rule("throttle", name="b"), None),
        (rule("require_human", name="a"), rule("require_human", name="b"), None),
        (rule("deny", "{env: x}", name="a"), rule("allow", "{env: y}", name="b"), None),
    ],
)
def test_a_rule_that_another_always_silences_is_found(one: str, other: str, silent: str | None) -> None:
    found = never_speaking(policy(f"{one}\n{other}"))
    assert [each.id for each, _ in found] == ([silent] if silent else [])


# Facts that a person describes


def test_flat_and_nested_are_the_same() -> None:
    flat = described_facts(
        {"args.cents": 5, "args.to.name": "ann", "labels.team": "x", "saga.steps": 3, "saga.spent.usd": 2}
    )
    nested = described_facts(
        {
            "args": {"cents": 5, "to": {"name": "ann"}},
            "labels": {"team": "x"},
            "saga": {"steps": 3, "spent": {"usd": 2}},
        }
    )
    assert flat == nested
    assert (flat.args, flat.labels, flat.steps, flat.spent) == (
        {"cents": 5, "to": {"name": "ann"}},
        {"team": "x"},
        3,
        {"usd": 2},
    )


def test_what_is_not_said_is_as_in_a_plain_beginning() -> None:
    found = described_facts({})
    assert (found.env, found.actor, found.phase, found.steps) == ("development", "person:somebody", "forward", 0)
    assert (found.approval_present, found.drill_age_days, found.tenant) == (False, None, None)
    assert found == described_facts({"env": None, "labels": {"team": None}, "args": {}})
    assert found == Facts(
        env="development",
        actor="person:somebody",
        saga=SagaId("described"),
        definition="described",
        step=StepId("1"),
        contract=Contract(topic=Topic("described"), reversibility=Reversibility.UNDECLARED),
        args={},
    )


def test_every_fact_can_be_described() -> None:
    found = described_facts(
        {
            "env": "production",
            "topic": "mail.send",
            "reversibility": "irreversible",
            "compensation_declared": False,
            "rollback_supported": False,
            "approval_present": True,
            "idempotent": True,
            "risk": ["b", "a"],
            "actor": "agent:a",
            "tenant": "acme",
            "saga": {"definition": "trip.book"},
            "drill.age_days": 2.5,
            "drill.whole_age_days": 30,
            "phase": "compensation",
            "args": {"x": None},
        }
    )
    assert found == Facts(
        env="production",
        actor="agent:a",
        saga=SagaId("described"),
        definition="trip.book",
        step=StepId("1"),
        contract=Contract(
            topic=Topic("mail.send"), reversibility=Reversibility.IRREVERSIBLE, idempotent=True, risk=("a", "b")
        ),
        args={"x": None},
        phase="compensation",
        labels={"tenant": "acme"},
        approval_present=True,
        drill_age_days=2.5,
        drill_whole_age_days=30,
    )


def test_arguments_may_be_said_both_ways_at_once_and_look_like_facts() -> None:
    found = described_facts({"args.a": 1, "args": {"saga": {"steps": 9}, "b": {"c": 2}}})
    assert (found.args, found.steps) == ({"a": 1, "saga": {"steps": 9}, "b": {"c": 2}}, 0)
    assert described_facts({"args": {"a.b": 1}, "args.c.d": 2}).args == {"a.b": 1, "c": {"d": 2}}
    with pytest.raises(InputError, match=r"^env is text, not \{'name': 'x'\}$"):
        described_facts({"env": {"name": "x"}})


def test_a_declared_compensation_is_enough_to_be_compensatable() -> None:
    assert described_facts({"compensation_declared": True}).contract.reversibility is Reversibility.COMPENSATABLE
    assert described_facts({"rollback_supported": True}).contract.reversibility is Reversibility.COMPENSATABLE


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"enf": "x"}, "there is no fact 'enf'; did you mean env?"),
        ({"cents": 5}, "there is no fact 'cents'; an argument is args.cents"),
        ({"env": 5}, "env is text, not 5"),
        ({"side_effect": "yes"}, "side_effect is true or false, not 'yes'"),
        ({"saga.steps": "3"}, "saga.steps is a number, not '3'"),
        ({"risk": "money"}, "risk is tags, not 'money' in a list"),
        ({"phase": "back"}, "phase is forward or compensation, not 'back'"),
        ({"args": 5}, "args is a map of the arguments by name"),
        ({"args": {"a": 5}, "args.a.b": 6}, "args.a.b goes into a, which is given as a value"),
        (
            {"compensation_declared": True, "reversibility": "undeclared"},
            (
                "compensation_declared cannot be true with reversibility undeclared and side_effect true: "
                "it is false then"
            ),
        ),
        (
            {"rollback_supported": True, "side_effect": False},
            (
                "rollback_supported cannot be true with reversibility compensatable and side_effect false: "
                "it is false then"
            ),
        ),
    ],
)
def test_facts_that_cannot_be_are_refused(document: dict[str, Json], told: str) -> None:
    with pytest.raises(InputError) as refused:
        described_facts(document)
    assert str(refused.value) == told


# Cases

CASES = """
- name: tests may do it
  facts: {env: test, topic: mail.send}
  expect: {decision: allow, rule: tests}
- name: nobody else
  facts: {args: {to: ann}}
  expect: {decision: deny}
"""


def test_cases_are_tried() -> None:
    made = policy(rule("allow", "{env: test}", name="tests"), "deny")
    assert [case.tried(made)[0] for case in parse_cases(CASES)] == [True, True]
    assert [(case.name, case.line, case.rule) for case in parse_cases(CASES)] == [
        ("tests may do it", 2, "tests"),
        ("nobody else", 5, ""),
    ]
    other = policy(rule("allow", "{env: test}", name="others"), "allow")
    found = [case.tried(other) for case in parse_cases(CASES)]
    assert [(passed, verdict.rule) for passed, verdict in found] == [(False, "others"), (False, "default")]


def test_cases_may_stand_under_a_key_of_their_own() -> None:
    indented = CASES.replace("\n", "\n  ")
    assert parse_cases(f"version: v1\ncases:{indented}") == tuple(
        type(case)(**{field: getattr(case, field) for field in case.__slots__ if field != "line"}, line=case.line + 1)
        for case in parse_cases(CASES)
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "cases has to be a list of at least one thing, not an empty list"),
        ("5", "a file of cases has to be a list of cases, not 5"),
        ("{cases: 5}", "a file of cases has to be a list of cases, not 5"),
        ("{version: v1}", "a file of cases has to be a list of cases, not a map"),
        ("{casses: [], cases: [x]}", "unknown key 'casses' in a file of cases; did you mean cases?"),
        ("{version: v2, cases: [x]}", "unknown version 'v2'; known: v1"),
        ("[x]", "a case has to be a map, not 'x'"),
        ("[{name: a}]", "a case without facts and expect"),
        (
            "[{name: a, fact: {}, facts: {}, expect: {decision: deny}}]",
            "unknown key 'fact' in a case; did you mean facts?",
        ),
        ("[{name: a, facts: 5, expect: {decision: deny}}]", "facts has to be a map, not 5"),
        ("[{name: a, facts: {enf: x}, expect: {decision: deny}}]", "there is no fact 'enf'; did you mean env?"),
        (
            "[{name: a, facts: {}, expect: {rule: a}}]",
            "expect says no decision; there are allow, throttle, require_human, deny",
        ),
        ("[{name: a, facts: {}, expect: deny}]", "expect has to be a map, not 'deny'"),
        (
            "[{name: a, facts: {}, expect: {decision: deny, role: a}}]",
            "unknown key 'role' in expect; did you mean rule?",
        ),
        ("[{name: a, facts: {}, expect: {decision: dney}}]", "unknown decision 'dney'; did you mean deny?"),
        ("[{name: a, facts: {}, expect: {decision: deny, rule: 5}}]", "rule has to be text, not 5"),
        ("[{name: 5, facts: {}, expect: {decision: deny}}]", "name has to be text, not 5"),
    ],
)
def test_cases_that_are_none_say_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(PolicyError) as refused:
        parse_cases(text, name="c.yaml")
    assert f"c.yaml:1: {told}" in refused.value.mistakes
    unlike = {
        "a case has to be a map, not 'x'",
        "expect says no decision; there are allow, throttle, require_human, deny",
    }
    allowed = {f"c.yaml:1: {each}" for each in (told, *unlike)}
    assert set(refused.value.mistakes) <= allowed


def test_cases_without_a_file_are_called_so() -> None:
    with pytest.raises(PolicyError, match=r"^cases:1: "):
        parse_cases("5")
