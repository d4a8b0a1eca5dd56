"""A verdict is kept for the next step of the same contract only where nothing that may differ could change it."""

import pytest

from amends.core.events import SagaStarted
from amends.gate.load import parse_policy
from amends.gate.policy import PolicyGate
from tests.gate.support import facts

HEAD = "version: v1\ndefault: deny\nrules:\n"
BEGUN = SagaStarted(definition="trip.book", version=1, input=None, actor="agent:desk", env="development", labels={})

SETTLED = {
    "by topic": "  - {id: a, when: {topic: payments.*}, decision: allow}\n",
    "by environment and actor": "  - {id: a, when: {env: development, actor: agent:desk}, decision: allow}\n",
    "by what the contract says": "  - {id: a, when: {side_effect: true, idempotent: false}, decision: allow}\n",
    "by none": "  - {id: a, when: {topic: mail.*}, decision: allow}\n",
}
OPEN = {
    "arguments": "  - {id: a, when: {args.cents: {gt: 5}}, decision: deny}\n",
    "labels": "  - {id: a, when: {labels.tenant: x}, decision: allow}\n",
    "the number of steps": "  - {id: a, when: {saga.steps: {gt: 3}}, decision: deny}\n",
    "the definition": "  - {id: a, when: {saga.definition: trip.*}, decision: allow}\n",
    "an exemption": "  - {id: a, when: {topic: payments.*}, unless: {args.cents: 1}, decision: deny}\n",
    "an approval": "  - {id: a, when: {approval_present: false}, decision: allow}\n",
    "a rate": ("  - {id: a, when: {topic: payments.*}, rate: {max: 2, per: 60s, by: [topic]}, decision: throttle}\n"),
}


def gate(rules: str) -> PolicyGate:
    return PolicyGate(parse_policy(HEAD + rules, name="policy.yaml"))


@pytest.mark.parametrize("rules", SETTLED.values(), ids=SETTLED)
def test_it_is_the_verdict_that_a_fresh_look_gives(rules: str) -> None:
    judge, asked = gate(rules), facts(args={"cents": 1})
    assert judge.kept(asked.contract, BEGUN, back=False) is None
    judge.keep(asked, BEGUN, judge.judge(asked))
    kept = judge.kept(asked.contract, BEGUN, back=False)
    other = facts(args={"cents": 900})
    assert kept is not None
    assert kept == judge.judge(asked) == judge.judge(other)


@pytest.mark.parametrize("rules", OPEN.values(), ids=OPEN)
def test_it_is_not_kept_where_a_rule_asks_for_more(rules: str) -> None:
    judge, asked = gate(rules), facts(args={"cents": 1})
    judge.keep(asked, BEGUN, judge.judge(asked))
    assert judge.kept(asked.contract, BEGUN, back=False) is None


def test_it_is_kept_for_that_contract_that_way_and_that_saga_s_actor_alone() -> None:
    judge, asked = gate(SETTLED["by topic"]), facts()
    judge.keep(asked, BEGUN, judge.judge(asked))
    assert judge.kept(facts(topic="mail.send").contract, BEGUN, back=False) is None
    assert judge.kept(asked.contract, BEGUN, back=True) is None
    somebody = SagaStarted(definition="trip.book", version=1, input=None, actor="agent:x", env="development", labels={})
    assert judge.kept(asked.contract, somebody, back=False) is None
