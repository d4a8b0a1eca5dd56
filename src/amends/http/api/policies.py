"""Policies over HTTP: the one that judges, and what it makes of facts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from amends.core.words.verdict import Verdict
from amends.gate.described import described_facts
from amends.gate.environments import placed
from amends.gate.explain import heard
from amends.gate.load import parse_policy
from amends.gate.policy import judge
from amends.http.api.operations import At, Operation, get, post
from amends.http.api.shapes import SOME_OBJECT, many, record, shape
from amends.http.callers import Scope
from amends.operate.judging import InForce, heard_fields, in_force, policy_in_force

POLICY: Final = shape(InForce)


async def show_policy(at: At) -> object:
    """Show the policy that judges now: its digest, who adopted it, when and why, and its text."""
    return asdict(await in_force(at.journal))


async def explain_policy(at: At, *, facts: dict[str, Any], text: str | None = None) -> object:
    """Say what a policy makes of some facts, and why. Nothing is changed.

    The facts are named as in rules, flat or nested. `text`: a policy to try; without it, the one that judges now.
    """
    policy = await policy_in_force(at.journal) if text is None else parse_policy(text, name="text")
    described = described_facts(facts)
    described = placed(described, described.env, policy, at.served.environments)
    rules = [heard_fields(each) for each in heard(policy, described)]
    return {"verdict": asdict(judge(policy, described)), "rules": rules}


def operations() -> tuple[Operation, ...]:
    explained = record(verdict=shape(Verdict), rules=many(SOME_OBJECT))
    return (
        get("/policy", show_policy, POLICY),
        post("/policy/explain", explain_policy, explained, scope=Scope.VIEW),
    )
