"""The gate that stands when no policy is given."""

from typing import Literal

import pytest

from amends.core.contracts import Contract, Reversibility, Topic
from amends.core.values import SagaId, StepId
from amends.core.verdict import Decision
from amends.gate.builtin import BuiltinGate
from amends.gate.protocol import Facts, Gate


def facts(kind: Reversibility, env: str, phase: Literal["forward", "compensation"] = "forward") -> Facts:
    contract = Contract(topic=Topic("payments.charge"), reversibility=kind)
    return Facts(
        env=env,
        actor="ann",
        saga=SagaId("s1"),
        definition="trip",
        step=StepId("1"),
        contract=contract,
        args={"cents": 100},
        phase=phase,
    )


@pytest.fixture
def gate() -> Gate:
    return BuiltinGate()


def test_an_action_that_nobody_declared_how_to_take_back_is_refused_in_production(gate: Gate) -> None:
    verdict = gate.judge(facts(Reversibility.UNDECLARED, "production"))
    assert (verdict.decision, verdict.rule) == (Decision.DENY, "builtin-undeclared-in-production")
    assert verdict.why.startswith("payments.charge declares neither a compensation nor a no-rollback reason; ")


@pytest.mark.parametrize("env", ["development", "test", ""])
def test_it_is_allowed_anywhere_else(gate: Gate, env: str) -> None:
    assert gate.judge(facts(Reversibility.UNDECLARED, env)).decision is Decision.ALLOW


@pytest.mark.parametrize("kind", [kind for kind in Reversibility if kind is not Reversibility.UNDECLARED])
def test_an_action_that_says_how_or_why_not_is_allowed_in_production(gate: Gate, kind: Reversibility) -> None:
    assert gate.judge(facts(kind, "production")).decision is Decision.ALLOW


@pytest.mark.parametrize("kind", Reversibility)
def test_a_compensation_is_always_allowed(gate: Gate, kind: Reversibility) -> None:
    assert gate.judge(facts(kind, "production", "compensation")).decision is Decision.ALLOW


def test_every_verdict_names_the_same_policy_and_a_rule(gate: Gate) -> None:
    verdicts = [gate.judge(facts(kind, env)) for kind in Reversibility for env in ("production", "test")]
    assert len({verdict.policy for verdict in verdicts}) == 1
    assert all(verdict.rule for verdict in verdicts)
