"""Facts about limits: what was spent, which limit was reached, and who raised it. Amounts are whole numbers.

Tokens and steps are counted; money is in millionths of a dollar, time in milliseconds.
"""

from __future__ import annotations

from typing import TypeAlias

from amends.core.words.values import StepId
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpent:
    """`place` is where the definition said so: called again, it is not counted twice."""

    place: StepId
    tokens: int = 0
    usd_micros: int = 0
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpent:
    """All that the child of a step has used up so far, with its own children: told again, it is not counted twice."""

    step: StepId
    tokens: int = 0
    usd_micros: int = 0
    steps: int = 0
    failures: int = 0
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached:
    """`then` is the response, which follows in the same write. `children`: those that run are stopped too."""

    limit: str
    most: int
    used: int
    then: str
    why: str
    children: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRaised:
    """`most` takes the place of the one before.

    `raises`: other limits that are raised in the same go and were signed with it, as in `steps 20, tokens 900`.
    """

    limit: str
    most: int
    by: str
    why: str = ""
    own: bool = False
    signed: str = ""
    raises: str = ""


LimitEvent: TypeAlias = BudgetSpent | ChildSpent | LimitReached | LimitRaised
