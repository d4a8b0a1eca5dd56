"""A policy before a real saga: what it denies is not done, and a file with a mistake starts nothing."""

import asyncio
from pathlib import Path

import pytest

from amends import Coordinator, SagaStatus, StepDeniedError, Work, saga
from amends.errors import PolicyError
from amends.gate.load import builtin_policy, load_policy
from tests.runtime.support import World

POLICY = """
version: v1
default: allow
rules:
  - {id: not-twice, when: {saga.steps: {gte: 1}, phase: forward}, decision: deny, reason: once is enough}
"""


def opened(journal: str, policy: Path | None) -> tuple[list[str], list[str], list[str]]:
    """Run two steps; what the world saw, what the function was told, and the policies on record."""
    world, told = World(), list[str]()
    act = world.action("act")

    @saga("policy.in_use")
    async def twice(s: Work) -> None:
        for n in (1, 2):
            try:
                await s.do(act, n)
            except StepDeniedError as exc:
                told.append(exc.reason)

    async def whole() -> list[str]:
        async with Coordinator.open(journal, policy=policy, signals=False) as coordinator:
            ended = await coordinator.run(twice)
            assert ended.status is SagaStatus.COMPLETED
            history = await coordinator.show(ended.id)
        return [getattr(entry.event, "policy", "") for entry in history.entries]

    policies = asyncio.run(whole())
    return world.seen, told, [digest for digest in policies if digest]


def test_what_a_policy_denies_is_not_done_and_its_digest_is_on_record(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    seen, told, policies = opened(":memory:", path)
    assert (seen, told) == (["act(1)"], ["once is enough"])
    assert set(policies) == {load_policy(path).digest}


def test_without_one_the_built_in_policy_judges() -> None:
    seen, told, policies = opened(":memory:", None)
    assert (seen, told) == (["act(1)", "act(2)"], [])
    assert set(policies) == {builtin_policy().digest}


def test_a_file_with_a_mistake_starts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY.replace("deny", "dney"), encoding="utf-8")
    with pytest.raises(PolicyError, match="did you mean deny"):
        opened(str(tmp_path / "amends.db"), path)
    assert not (tmp_path / "amends.db").exists()
