"""What rules say together: the strictest speaks, needs and rates add up, exemptions exempt."""

from typing import Any, cast

import pytest

from amends.core.words.contracts import Reversibility
from amends.core.words.verdict import Decision, Need, Verdict
from amends.gate.facts import Facts
from amends.gate.policy import PolicyGate, judge, spoken
from tests.gate.support import facts, policy, rule, verdict

D = Decision

LADDER = """
- {id: yes, decision: allow}
- {id: slowly, decision: throttle, rate: {max: 1, per: 1s}}
- {id: ask, decision: require_human}
- {id: no, decision: deny}
- {id: never, decision: deny}
"""


def test_the_strictest_matching_rule_speaks_and_the_others_are_listed() -> None:
    found = verdict(LADDER, facts())
    assert (found.decision, found.rule, found.matched) == (D.DENY, "no", ("yes", "slowly", "ask", "never"))


@pytest.mark.parametrize(
    ("left", "decision", "name"), [(3, D.REQUIRE_HUMAN, "ask"), (2, D.THROTTLE, "slowly"), (1, D.ALLOW, "yes")]
)
def test_each_decision_is_stricter_than_the_one_before(left: int, decision: Decision, name: str) -> None:
    found = verdict("\n".join(LADDER.strip().splitlines()[:left]), facts(), "deny")
    assert (found.decision, found.rule) == (decision, name)


def test_the_first_in_the_file_speaks_among_equals() -> None:
    assert verdict(rule("deny", name="b") + "\n" + rule("deny", name="a"), facts()).rule == "b"


def test_all_conditions_have_to_hold() -> None:
    rules = rule("deny", "{topic: payments.charge, env: production}")
    assert verdict(rules, facts(env="production")).decision is D.DENY
    assert verdict(rules, facts(env="test")).decision is D.ALLOW
    assert verdict(rules, facts("mail.send", env="production")).decision is D.ALLOW


@pytest.mark.parametrize("when", ["  when: {}\n", "  when:\n", ""])
def test_a_rule_without_conditions_matches_everything(when: str) -> None:
    assert verdict(f"- id: one\n{when}  decision: deny", facts()).rule == "one"


@pytest.mark.parametrize(
    ("default", "decision"), [("allow", D.ALLOW), ("deny", D.DENY), ("require_human", D.REQUIRE_HUMAN)]
)
def test_the_default_speaks_where_no_rule_matches(default: str, decision: Decision) -> None:
    found = verdict(rule("deny", "{env: nowhere}"), facts(), default)
    assert (found.decision, found.rule) == (decision, "default")
    assert bool(found.needs) is (decision is D.REQUIRE_HUMAN)


def test_a_reason_is_told_and_without_one_the_conditions_are() -> None:
    assert verdict("- {id: a, decision: deny, reason: not today}", facts()).why == "not today"
    rules = rule("deny", "{topic: [payments.*, mail.send], args.cents: {gt: 5, exists: true}, risk: {not_in: [low]}}")
    found = verdict(rules, facts(args={"cents": 9}))
    assert found.why == "topic payments.* or mail.send, args.cents gt 5 and exists, risk not low"
    assert verdict(rule("deny"), facts()).why == "everything"


# People


def test_the_needs_of_all_rules_that_ask_people_add_up_and_the_shortest_time_counts() -> None:
    rules = """
    - {id: two, decision: require_human, approvals: 2, expires: 1h}
    - {id: boss, decision: require_human, approvers: ["person:*@example.org"], expires: 15m}
    - {id: day, decision: require_human}
    """
    found = verdict(rules, facts())
    assert (found.rule, found.expires_s) == ("two", 900)
    assert found.needs == (
        Need(rule="two", approvals=2),
        Need(rule="boss", approvals=1, approvers=("person:*@example.org",)),
        Need(rule="day", approvals=1),
    )


def test_who_is_denied_is_not_told_to_ask_people() -> None:
    found = verdict(LADDER, facts())
    assert (found.needs, found.rates) == ((), ())


# Rates

MAILS = (
    "- {id: mails, when: {topic: mail.*}, decision: throttle, rate: {max: 20, per: 60s, by: [topic, actor, args.to]}}"
)


def key(asked: Facts) -> str:
    (rate,) = verdict(MAILS, asked).rates
    return rate.key


def test_a_rate_is_counted_apart_for_each_combination_of_its_facts() -> None:
    found = verdict(MAILS, facts("mail.send", {"to": "ann"}))
    (rate,) = found.rates
    assert (found.decision, rate.rule, rate.most, rate.per_s) == (D.THROTTLE, "mails", 20, 60)
    assert rate.key == 'mails,topic="mail.send",actor="agent:desk",args.to="ann"'
    assert key(facts("mail.send", {"to": "bob"})) != rate.key
    assert key(facts("mail.send", {"to": "ann", "cc": "bob"})) == rate.key


def test_what_is_missing_or_secret_shares_one_count() -> None:
    shared = key(facts("mail.send"))
    assert key(facts("mail.send", {"to": None})) == shared
    assert key(facts("mail.send", {"to": {"$secret": "sha256:1"}})) == shared
    assert key(facts("mail.send", {"to": {"$secret": "sha256:2"}})) == shared


def test_no_value_can_pass_for_another_rule_s_count() -> None:
    assert key(facts("mail.send", {"to": 'a",args.to="b'})) != key(facts("mail.send", {"to": "a"}))
    assert key(facts("mail.send", {"to": "1"})) != key(facts("mail.send", {"to": 1}))


def test_a_key_stays_short_however_long_the_value() -> None:
    long, longer = (key(facts("mail.send", {"to": "x" * length})) for length in (5000, 5001))
    assert long != longer
    assert len(long) < 100


def test_all_rates_are_kept_where_people_are_asked_too() -> None:
    rules = MAILS + "\n- {id: all, decision: throttle, rate: {max: 5, per: 1h}}\n- {id: ask, decision: require_human}"
    found = verdict(rules, facts("mail.send"))
    assert (found.decision, [rate.rule for rate in found.rates]) == (D.REQUIRE_HUMAN, ["mails", "all"])


# Exemptions


def test_any_one_of_the_maps_in_unless_exempts() -> None:
    rules = rule("deny", unless="[{env: test}, {actor: person:*, args.ticket: {exists: true}}]")
    assert verdict(rules, facts()).decision is D.DENY
    assert verdict(rules, facts(env="test")).decision is D.ALLOW
    assert verdict(rules, facts(actor="person:ann")).decision is D.DENY
    assert verdict(rules, facts(args={"ticket": "T-1"}, actor="person:ann")).decision is D.ALLOW


def test_a_single_map_is_enough() -> None:
    rules = rule("allow", unless="{risk: money}")
    assert verdict(rules, facts(), "deny").decision is D.ALLOW
    assert verdict(rules, facts(risk=("money",)), "deny").decision is D.DENY


# Facts


@pytest.mark.parametrize(
    ("when", "asked"),
    [
        ("{env: production}", facts(env="production")),
        ("{topic: payments.charge}", facts()),
        ("{side_effect: false}", facts(side_effect=False)),
        ("{reversibility: irreversible}", facts(kind=Reversibility.IRREVERSIBLE)),
        ("{compensation_declared: true, rollback_supported: true}", facts()),
        ("{compensation_declared: false, rollback_supported: false}", facts(kind=Reversibility.IRREVERSIBLE)),
        ("{compensation_declared: false, rollback_supported: false}", facts(side_effect=False)),
        ("{approval_present: true}", facts(approval_present=True)),
        ("{idempotent: true}", facts(idempotent=True)),
        ("{risk: money}", facts(risk=("access", "money"))),
        ("{risk: {not_in: [money, access]}}", facts(risk=("low",))),
        ("{risk: {not_in: [money]}}", facts()),
        ("{risk: {exists: false}}", facts()),
        ("{risk: {exists: true}}", facts(risk=("low",))),
        ("{actor: 'agent:*'}", facts()),
        ("{tenant: acme}", facts(labels={"tenant": "acme"})),
        ("{labels.app.io/name: web}", facts(labels={"app.io/name": "web"})),
        ("{args.order.lines.1.price: 5}", facts(args={"order": {"lines": [{}, {"price": 5}]}})),
        ("{args.0: x}", facts(args={"0": "x"})),
        ("{saga.definition: trip.*}", facts()),
        ("{saga.steps: {gte: 3}}", facts(steps=3)),
        ("{saga.spent.usd: {gt: 1.5}}", facts(spent={"usd": 1.75})),
        ("{saga.spent.usd: 0}", facts()),
        ("{drill.age_days: {lt: 30}}", facts(drill_age_days=2.5)),
        ("{phase: compensation}", facts(phase="compensation")),
    ],
)
def test_a_rule_can_speak_of_every_fact(when: str, asked: Facts) -> None:
    assert verdict(rule("allow", when), asked, "deny").decision is D.ALLOW


@pytest.mark.parametrize(
    ("when", "yes", "no"),
    [
        ("{gt: 5}", [6, 5.01], [5, 4, -6]),
        ("{gte: 5}", [5, 5.0, 6], [4.99]),
        ("{lt: 5}", [4, -5], [5, 6]),
        ("{lte: 5}", [5, 4], [5.01]),
        ("{gt: 1, lt: 3}", [2], [1, 3]),
        ("{in: [5, 7]}", [5, 7.0], [6]),
        ("{not_in: [5, 7]}", [6], [5, 7]),
        ("{in: [5, five]}", [5, "five"], [6, "six"]),
        ("{in: ['a*']}", ["a", "abc"], ["b"]),
        ("{not_in: ['a*', b]}", ["c"], ["abc", "b"]),
        ("5", [5, 5.0], [6]),
        ("[5, 6]", [5, 6], [7]),
        ("true", [True], [False]),
        ("false", [False], [True]),
        ("word", ["word"], ["Word", "words", ""]),
        ("''", [""], ["x"]),
        ("{exists: true}", [0, "", False, [1], {"a": 1}], [None]),
        ("{exists: false}", [None], [0, "", False, [1], {"a": 1}]),
    ],
)
def test_operators_mean_what_they_say(when: str, yes: list[object], no: list[object]) -> None:
    for decision in Decision:
        made = policy(rule(decision, f"{{args.n: {when}}}"), "require_human" if decision is D.ALLOW else "allow")
        for value in yes:
            assert judge(made, facts(args=cast("Any", {"n": value}))).rule == "one", (decision, value)
        for value in no:
            assert judge(made, facts(args=cast("Any", {"n": value}))).rule == "default", (decision, value)


# Breaking


def test_what_cannot_be_judged_is_denied_and_says_what_broke() -> None:
    broken = cast("Facts", None)
    found = PolicyGate(policy(rule("allow"))).judge(broken)
    assert (found.decision, found.rule) == (D.DENY, "error")
    assert found.why == "the policy could not be judged: AttributeError: 'NoneType' object has no attribute 'contract'"
    assert found.policy == policy(rule("allow")).digest


def test_a_fact_that_cannot_be_read_denies_too() -> None:
    found = verdict(rule("allow", "{labels.team: x}"), facts(labels=cast("Any", 5)))
    assert (found.decision, found.rule) == (D.DENY, "error")


@pytest.mark.parametrize("asked", [facts(env=cast("Any", None)), facts(actor=cast("Any", 5)), facts(cast("Any", 5))])
def test_what_the_index_goes_by_has_to_be_text(asked: Facts) -> None:
    found = verdict(rule("allow", "{env: '*', actor: '*', topic: '**'}"), asked)
    assert (found.decision, found.rule) == (D.DENY, "error")


def test_a_policy_that_nothing_matches_denies() -> None:
    bare = policy()
    object.__setattr__(bare, "last", type(bare.last)(()))
    assert judge(bare, facts()).decision is D.DENY


def test_what_is_remembered_is_forgotten_before_it_grows_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amends.gate.policy._REMEMBERED", 8)
    made = policy(rule("deny", "{topic: a.*}"))
    found = [judge(made, facts(f"{'ab'[n % 2]}.t{n}")).decision for n in range(50)]
    assert found == [D.DENY, D.ALLOW] * 25
    many = policy("\n".join(rule("throttle", f"{{args.n{n}: {{exists: true}}}}", name=f"r{n}") for n in range(20)))
    for n in range(20):
        assert judge(many, facts(args={f"n{n}": 1})).rule == f"r{n}"
        assert len(many.verdicts) == n % 8 + 1


def test_a_star_in_a_topic_or_a_definition_stays_within_its_segment() -> None:
    for fact, deep, shallow in (
        ("topic", facts("payments.card.charge"), facts("payments.charge")),
        ("saga.definition", facts(definition="payments.card.charge"), facts(definition="payments.charge")),
    ):
        one, either = rule("deny", f"{{{fact}: payments.*}}"), rule("deny", f"{{{fact}: [other, payments.*]}}")
        for rules in (one, either, rule("deny", f"{{{fact}: {{in: [payments.*, x.*]}}}}")):
            assert verdict(rules, shallow).decision is D.DENY
            assert verdict(rules, deep).decision is D.ALLOW
        assert verdict(rule("deny", f"{{{fact}: payments.**}}"), deep).decision is D.DENY


def test_the_item_after_the_last_is_missing() -> None:
    asks = rule("allow", "{args.items.2: {exists: true}}")
    assert verdict(asks, facts(args={"items": [1, 2, 3]}), "deny").rule == "one"
    assert verdict(asks, facts(args={"items": [1, 2]}), "deny").rule == "default"


def test_who_asks_people_slowly_still_asks_them() -> None:
    rules = """
    - {id: ask, decision: require_human, approvals: 2, expires: 1h, reason: big}
    - {id: slowly, decision: throttle, rate: {max: 5, per: 60s}}
    """
    found = verdict(rules, facts())
    assert (found.decision, found.rule, found.why, found.expires_s) == (D.REQUIRE_HUMAN, "ask", "big", 3600)
    assert (found.needs, found.matched) == ((Need(rule="ask", approvals=2, approvers=()),), ("slowly",))
    assert [(rate.rule, rate.most, rate.per_s) for rate in found.rates] == [("slowly", 5, 60)]


def test_a_verdict_of_no_rule_at_all_is_a_denial_that_says_so() -> None:
    assert spoken("digest", []) == Verdict(
        decision=D.DENY, rule="default", policy="digest", why="no rule matches, and there is no default"
    )


def test_a_policy_speaks_of_what_its_rules_ask_about() -> None:
    made = policy(rule("throttle", "{args.n: 1}", unless="{labels.x: a}"))
    assert [made.speaks_of(fact) for fact in ("args.n", "labels.x", "drill.age_days")] == [True, True, False]
    assert policy("[]", None).speaks_of("reversibility")


@pytest.mark.parametrize(("length", "ends"), [(296, "x"), (297, "…")])
def test_a_rule_without_a_reason_tells_its_conditions_but_not_at_any_length(length: int, ends: str) -> None:
    env = "x" * length
    why = verdict(rule("deny", f"{{env: {env}}}"), facts(env=env)).why
    assert why == f"env {env}"[:300] + ("…" if ends == "…" else "")


def test_what_is_allowed_needs_no_reason() -> None:
    assert verdict(rule("allow", "{env: x}"), facts(env="x")).why == ""


def test_what_cannot_be_told_of_a_fact_that_is_always_there_is_an_error_that_names_it() -> None:
    found = verdict(rule("deny", "{env: x, phase: forward}"), facts(env=cast("str", 5)))
    assert (found.decision, found.why) == (
        D.DENY,
        "the policy could not be judged: TypeError: not a text: one of env, phase",
    )


@pytest.mark.parametrize(("length", "whole"), [(186, True), (187, False)])
def test_the_key_of_a_rate_is_short(length: int, whole: bool) -> None:
    limited = "- {id: one, decision: throttle, rate: {max: 5, per: 60s, by: [args.to]}}"
    (rate,) = verdict(limited, facts(args={"to": "x" * length})).rates
    key = f'one,args.to="{"x" * length}"'
    assert (len(key) <= 200, rate.key == key) == (whole, whole)
