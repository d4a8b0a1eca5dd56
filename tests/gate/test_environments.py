"""Which words stand for which environment, and what rules make of a word and of what it stands for."""

from dataclasses import replace

import pytest

from amends.core.words.contracts import Reversibility
from amends.core.words.verdict import Decision
from amends.errors import InputError
from amends.gate.environments import checked_environments, mistake_in, taken_for
from amends.gate.load import builtin_policy, parse_policy
from amends.gate.policy import judge
from tests.gate.support import facts

PROD = facts(env="production", env_given="prod")


@pytest.mark.parametrize(
    ("word", "env", "named"),
    [
        ("production", "production", True),
        ("prod-eu", "production", True),
        (" Live", "production", True),
        ("ci", "development", True),
        ("staging-2", "staging", True),
        ("drill", "drill", True),
        ("prdo", "production", False),
    ],
)
def test_a_word_stands_for_an_environment_or_for_production(word: str, env: str, named: bool) -> None:
    taken = taken_for(word)
    assert (taken.env, taken.named) == (env, named)


def test_what_is_declared_first_counts_and_a_word_before_a_pattern() -> None:
    assert taken_for("live", {"staging": ("live",)}, {"qa": ("live",)}).env == "staging"
    assert taken_for("prod-eu", {"qa": ("prod-*",), "staging": ("prod-eu",)}).env == "staging"


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ("{env: production}", True),
        ("{env: prod}", True),
        ('{env: "prod*"}', True),
        ("{env: development}", False),
        ("{env: {not_in: [production]}}", False),
        ("{env: {not_in: [prod]}}", False),
        ("{env: {not_in: [development]}}", True),
    ],
)
def test_a_rule_may_speak_of_the_word_or_of_what_it_stands_for(when: str, holds: bool) -> None:
    text = f"version: v1\ndefault: allow\nrules: [{{id: r, when: {when}, decision: deny}}]\n"
    assert (judge(parse_policy(text), PROD).decision is Decision.DENY) is holds


def test_a_rate_counts_by_the_environment_and_not_by_its_spellings() -> None:
    rate = "{id: r, decision: throttle, rate: {max: 1, per: 60s, by: [env]}}"
    policy = parse_policy(f"version: v1\ndefault: allow\nrules: [{rate}]\n")
    assert judge(policy, PROD).rates == judge(policy, facts(env="production")).rates


def test_a_verdict_of_before_is_judged_by_the_word_as_it_was() -> None:
    old = facts(env="dev", kind=Reversibility.UNDECLARED)
    assert judge(builtin_policy(), old).decision is Decision.DENY
    assert judge(builtin_policy(), replace(old, env="development", env_given="dev")).decision is Decision.ALLOW


def test_a_declaration_with_a_word_in_two_places_is_refused() -> None:
    assert mistake_in({"qa": ("x",), "staging": ("x",)}) == (
        "'x' is listed under staging, and is qa already; leave it in one place"
    )
    with pytest.raises(InputError, match="environments maps each environment to its other words"):
        checked_environments({"qa": "x"})
