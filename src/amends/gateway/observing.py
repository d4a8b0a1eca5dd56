"""Observe mode: every call passes, and the verdict that stands on record says what the policy would have had."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from amends.bootstrap import Coordinator
from amends.core.words.verdict import Decision, Verdict
from amends.gate.facts import Facts, Gate
from amends.runtime.drive.policies import Policies

OBSERVED: Final = "observed"
"""How the rule of a verdict begins that let pass what the policy would not: `observed:deny:no-mail`."""


class ObservingGate:
    """A gate that allows everything and keeps what another one says."""

    def __init__(self, judging: Gate) -> None:
        self._judging = judging

    @property
    def policy(self) -> object:
        return getattr(self._judging, "policy", None)

    @property
    def digest(self) -> str:
        return str(getattr(self._judging, "digest", ""))

    async def refresh(self) -> None:
        """Take up a policy that was adopted since."""
        if isinstance(self._judging, Policies):
            await self._judging.refresh()

    def judge(self, facts: Facts) -> Verdict:
        verdict = self._judging.judge(facts)
        if verdict.decision is Decision.ALLOW and not verdict.rates:
            return verdict
        rule = f"{OBSERVED}:{verdict.decision}:{verdict.rule}"
        return replace(verdict, decision=Decision.ALLOW, rule=rule, needs=(), rates=())


class ObservingCoordinator(Coordinator):
    """A coordinator that lets everything pass."""

    def __init__(self, *, gate: Gate, **parts: Any) -> None:  # noqa: ANN401 - the parts of a coordinator
        super().__init__(gate=ObservingGate(gate), **parts)
