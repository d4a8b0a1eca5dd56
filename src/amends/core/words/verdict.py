"""Verdicts: the answers of a gate."""

from __future__ import annotations

from enum import StrEnum

from amends.core.words.values import Json
from amends.dataclass import dataclass


class Decision(StrEnum):
    """From the mildest to the strictest."""

    ALLOW = "allow"
    THROTTLE = "throttle"
    REQUIRE_HUMAN = "require_human"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A rule's demand on people: so many distinct ones, each named by one of `approvers`, as globs; none: anyone.

    `proof`: how each of them proves their name; '' where it is believed.
    """

    rule: str
    approvals: int = 1
    approvers: tuple[str, ...] = ()
    proof: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """At most so many dispatches in any such span, over all that share the key."""

    rule: str
    key: str
    most: int
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A decision, the rule that spoke, and the digest of the policy that it stands in.

    `matched` names the other rules that matched. Where people are asked, all needs have to be met within `expires_s`;
    whatever the decision but deny, all rates have to be kept. `told` is what the gate was told of other sagas.
    """

    decision: Decision
    rule: str
    policy: str
    why: str = ""
    matched: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    expires_s: float = 86_400.0
    rates: tuple[Rate, ...] = ()
    told: Json = None
