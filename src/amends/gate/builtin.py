"""The gate that stands when no policy is given: what nobody declared how to take back is refused in production."""

from __future__ import annotations

from typing import Final

from amends.core.contracts import Reversibility
from amends.core.values import digest
from amends.core.verdict import Decision, Verdict
from amends.gate.protocol import Facts

PRODUCTION: Final = "production"
_POLICY: Final = digest("builtin/1: deny undeclared in production; allow the rest")[:16]
_ALLOWED: Final = Verdict(decision=Decision.ALLOW, rule="builtin-allow", policy=_POLICY)


class BuiltinGate:
    """One rule, until a policy says more. A compensation is always allowed: its action was."""

    def judge(self, facts: Facts) -> Verdict:
        undeclared = facts.contract.reversibility is Reversibility.UNDECLARED
        if undeclared and facts.env == PRODUCTION and facts.phase == "forward":
            return Verdict(
                decision=Decision.DENY,
                rule="builtin-undeclared-in-production",
                policy=_POLICY,
                why=f"{facts.contract.topic} declares neither a compensation nor a no-rollback reason; "
                "give the action a .compensation, no_rollback=… or read_only=True",
            )
        return _ALLOWED
