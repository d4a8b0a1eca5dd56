"""What a gate answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Decision(StrEnum):
    ALLOW = "allow"
    THROTTLE = "throttle"
    REQUIRE_HUMAN = "require_human"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A decision, the rule that spoke, and the digest of the policy that it stands in."""

    decision: Decision
    rule: str
    policy: str
    why: str = ""
