"""The gate that stands where no policy is given."""

import pytest

from amends.core.words.contracts import Reversibility
from amends.core.words.verdict import Decision, Need
from amends.gate.facts import Gate
from amends.gate.load import BuiltinGate, builtin_policy
from tests.gate.support import facts, policy, verdict

HARMLESS = (Reversibility.REVERSIBLE, Reversibility.COMPENSATABLE)


@pytest.fixture
def gate() -> Gate:
    return BuiltinGate()


def test_an_action_that_nobody_declared_how_to_take_back_is_denied_in_production(gate: Gate) -> None:
    found = gate.judge(facts(kind=Reversibility.UNDECLARED, env="production"))
    assert (found.decision, found.rule) == (Decision.DENY, "builtin-undeclared")
    assert found.why.startswith("it declares neither a compensation nor a no-rollback reason; give the action a ")


def test_one_that_cannot_be_taken_back_needs_a_person_in_production(gate: Gate) -> None:
    found = gate.judge(facts(kind=Reversibility.IRREVERSIBLE, env="production"))
    assert (found.decision, found.rule) == (Decision.REQUIRE_HUMAN, "builtin-irreversible")
    assert found.needs == (Need(rule="builtin-irreversible", approvals=1),)
    assert found.expires_s == 86_400


@pytest.mark.parametrize("kind", HARMLESS)
def test_one_that_can_be_taken_back_is_allowed_in_production(gate: Gate, kind: Reversibility) -> None:
    assert gate.judge(facts(kind=kind, env="production")).decision is Decision.ALLOW


@pytest.mark.parametrize("kind", Reversibility)
def test_one_that_changes_nothing_is_allowed_in_production(gate: Gate, kind: Reversibility) -> None:
    assert gate.judge(facts(kind=kind, env="production", side_effect=False)).decision is Decision.ALLOW


@pytest.mark.parametrize("env", ["development", "drill"])
@pytest.mark.parametrize("kind", Reversibility)
def test_everything_is_allowed_in_development_and_in_drills(gate: Gate, kind: Reversibility, env: str) -> None:
    assert gate.judge(facts(kind=kind, env=env)).decision is Decision.ALLOW


@pytest.mark.parametrize("env", ["staging", "qa", "Production", "production ", "dev", "test", ""])
def test_anywhere_else_it_is_as_strict_as_in_production(gate: Gate, env: str) -> None:
    assert gate.judge(facts(kind=Reversibility.UNDECLARED, env=env)).decision is Decision.DENY
    assert gate.judge(facts(kind=Reversibility.IRREVERSIBLE, env=env)).decision is Decision.REQUIRE_HUMAN


@pytest.mark.parametrize("kind", Reversibility)
def test_a_compensation_is_always_allowed(gate: Gate, kind: Reversibility) -> None:
    assert gate.judge(facts(kind=kind, env="production", phase="compensation")).decision is Decision.ALLOW


def test_every_verdict_names_the_same_policy_and_a_rule(gate: Gate) -> None:
    found = [gate.judge(facts(kind=kind, env=env)) for kind in Reversibility for env in ("production", "test")]
    assert {each.policy for each in found} == {builtin_policy().digest}
    assert all(each.rule.startswith("builtin-") for each in found)


def test_it_judges_what_a_policy_without_a_default_leaves_open() -> None:
    asked = facts("mail.send", kind=Reversibility.UNDECLARED, env="production")
    found = verdict("- {id: pay, when: {topic: payments.*}, decision: deny}", asked, None)
    assert (found.decision, found.rule) == (Decision.DENY, "builtin-undeclared")


def test_such_a_policy_has_a_digest_that_covers_the_built_in_one_too() -> None:
    alone, closed = policy("[]", None), policy("[]", "deny")
    assert alone.digest not in {closed.digest, builtin_policy().digest}
    assert verdict("[]", facts(), None).policy == alone.digest
