"""What a verdict costs: policies of a few rules and of many, judged over and over."""

from __future__ import annotations

import time

from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.core.words.values import SagaId, StepId
from amends.gate.facts import Facts
from amends.gate.load import parse_policy
from amends.gate.policy import Policy, judge

TOPICS = 50
TIMES = 2000
ROUNDS = 5


def policy(rules: int) -> Policy:
    """Of ten rules, nine are about a team's topics, and one is about everything."""
    lines = ["version: v1", "default: deny", "rules:"]
    for number in range(rules):
        team = f"team{number // 10 % TOPICS}"
        kind = number % 10
        if kind == 0:
            rule = f"when: {{actor: 'agent:{number}*', labels.tier: gold}}, decision: deny"
        elif kind in {1, 2, 3}:
            rule = f"when: {{topic: '{team}.**', env: production, args.cents: {{gt: {1000 + number}}}}}, decision: deny"
        elif kind in {4, 5}:
            rule = (
                f"when: {{topic: [{team}.charge, {team}.refund], drill.age_days: {{gt: 30}}}}, decision: require_human"
            )
        elif kind == 6:
            rule = (
                f"when: {{topic: '{team}.mail'}}, decision: throttle, rate: {{max: 20, per: 60s, by: [topic, actor]}}"
            )
        else:
            rule = f"when: {{topic: '{team}.*'}}, unless: {{args.to: '*@competitor{number}.example'}}, decision: allow"
        lines.append(f"  - {{id: r{number}, {rule}}}")
    return parse_policy("\n".join(lines))


def situations() -> list[Facts]:
    return [
        Facts(
            env="production",
            actor="agent:desk",
            saga=SagaId("saga-1"),
            definition="trip.book",
            step=StepId("1"),
            contract=Contract(topic=Topic(topic), reversibility=Reversibility.COMPENSATABLE, risk=("money",)),
            args={"cents": 500, "to": "ann@example.org", "order": "o-1"},
            labels={"tier": "basic"},
            drill_age_days=3.0,
        )
        for topic in ("team0.charge", "team1.refund", "team1.mail", "team2.look")
    ]


def cost_s(rules: int) -> float:
    """Seconds of CPU for one verdict, the best of a few rounds."""
    made, asked = policy(rules), situations()
    best = 9.9
    for _ in range(ROUNDS):
        since = time.process_time()
        for _ in range(TIMES // len(asked)):
            for facts in asked:
                judge(made, facts)
        best = min(best, (time.process_time() - since) / TIMES)
    if judge(made, asked[0]).rule == "error":
        raise AssertionError(judge(made, asked[0]))
    return best
