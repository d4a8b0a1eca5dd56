"""What the gate's tests share: facts in one line, and policies from the rules alone."""

from textwrap import dedent, indent
from typing import Any, Literal

from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.core.words.values import Json, SagaId, StepId
from amends.core.words.verdict import Verdict
from amends.gate.facts import Facts
from amends.gate.load import parse_policy
from amends.gate.policy import Policy, judge


def facts(  # noqa: PLR0913 - a judgement has that many facts, each by name
    topic: str = "payments.charge",
    args: Json = None,
    *,
    env: str = "development",
    kind: Reversibility = Reversibility.COMPENSATABLE,
    phase: Literal["forward", "compensation"] = "forward",
    actor: str = "agent:desk",
    definition: str = "trip.book",
    side_effect: bool = True,
    idempotent: bool = False,
    risk: tuple[str, ...] = (),
    **more: Any,
) -> Facts:
    contract = Contract(
        topic=Topic(topic), side_effect=side_effect, reversibility=kind, idempotent=idempotent, risk=risk
    )
    return Facts(
        env=env,
        actor=actor,
        saga=SagaId("s1"),
        definition=definition,
        step=StepId("1"),
        contract=contract,
        args={} if args is None else args,
        phase=phase,
        **more,
    )


def policy(rules: str = "[]", default: str | None = "allow") -> Policy:
    """A policy of these rules; None for a default leaves it out."""
    text = indent(dedent(rules).strip(), "  ")
    return parse_policy("version: v1\n" + ("" if default is None else f"default: {default}\n") + f"rules:\n{text}\n")


def rule(decision: str, when: str = "{}", unless: str = "", name: str = "one") -> str:
    """One rule as YAML, with what its decision needs."""
    rate = "\n  rate: {max: 5, per: 60s}" if decision == "throttle" else ""
    exemption = f"\n  unless: {unless}" if unless else ""
    return f"- id: {name}\n  when: {when}\n  decision: {decision}{rate}{exemption}"


def verdict(rules: str, asked: Facts, default: str | None = "allow") -> Verdict:
    return judge(policy(rules, default), asked)
