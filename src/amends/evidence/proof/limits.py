"""How much the runtime may allow a saga by itself: as much again where a limit has it go back to a checkpoint. Pure.

It is worked out from the entries alone: the limits that the saga began with, how often each was reached, and the most
that it can have used. Steps that are built in are counted too, so this is never less than what it has used.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from amends.core.state.limits import Budget, LimitName, Response, begun
from amends.errors import JournalDamagedError

BEGUN: Final = "saga.started/1"
REACHED: Final = "limit.reached/1"
RAISED: Final = "limit.raised/1"
GOES_BACK: Final = Response.TO_CHECKPOINT.value
_ONE_MORE: Final[Mapping[str, str]] = {
    "step.proposed/1": "steps",
    "action.dispatched/1": "steps",
    "attempt.failed/1": "failures",
    "attempt.lost/1": "failures",
}
_STARTED: Final = "attempt.started/1"
_SPENT: Final = "budget.spent/1"
_CHILD: Final = "child.spent/1"
COUNTED: Final = frozenset({*_ONE_MORE, _STARTED, _SPENT, _CHILD})
"""Entries that say what a saga uses up; only needed of one that began with such a limit."""
_LONGEST_NUMBER: Final = 16
_CLOCKS_APART_MS: Final = 60_000
"""How far the clock that a decision goes by may be from the one that dates its entry."""


@dataclass(slots=True)
class Allowance:
    """`limits`: as the saga began with them; None where that is not here, and then nothing is known."""

    limits: Budget | None = None
    most: dict[str, int] = field(default_factory=dict[str, int])
    reached: Counter[str] = field(default_factory=Counter[str])
    used: Counter[str] = field(default_factory=Counter[str])
    children: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    before: int = 0
    """What the limit was that was raised last."""

    def note(self, name: str, fields: Mapping[str, str]) -> None:
        """Take up one entry, with its fields as they are spelled."""
        if name == BEGUN:
            self._begin(fields.get("limits", "{}"))
        elif name == REACHED:
            self.reached[_text(fields, "limit")] += 1
        elif name == RAISED:
            limit = _text(fields, "limit")
            self.before, self.most[limit] = self.most.get(limit, 0), _number(fields, "most")
        elif name in _ONE_MORE:
            self.used[_ONE_MORE[name]] += 1
        elif name == _STARTED:
            self.used["retries"] += _number(fields, "attempt") > 1
        elif name == _SPENT:
            self.used.update(_amounts(fields))
        elif name == _CHILD:
            self.children[_text(fields, "step")] = _amounts(fields)

    def _begin(self, limits: str) -> None:
        try:
            self.limits = begun(json.loads(limits))
        except JournalDamagedError:  # it is told where the entry is read; until then it has none
            self.limits = begun({})
        amounts = [amount for bound in self.limits.bounds.values() for amount in (bound.most, bound.times)]
        if any(type(amount) is not int for amount in (*amounts, self.limits.since_at)):
            self.limits = begun({})
        self.most = {name: bound.most for name, bound in self.limits.bounds.items()}

    def allow(self, fields: Mapping[str, str], at: int) -> bool:
        """Whether as much again may be as much as this raise says, which was noted last, at that time."""
        if self.limits is None:
            return True
        limit, most = _text(fields, "limit"), _number(fields, "most")
        bound = next((bound for name, bound in self.limits.bounds.items() if name == limit), None)
        if bound is None or bound.then is not Response.TO_CHECKPOINT or self.reached[limit] > bound.times:
            return False
        if limit == LimitName.SPIN:
            return most <= self.before
        is_time = limit == LimitName.SECONDS
        used = at - self.limits.since_at + _CLOCKS_APART_MS if is_time else self._used(limit)
        return most <= max(self.before, used) + bound.measure

    def _used(self, limit: str) -> int:
        return self.used[limit] + sum(child[limit] for child in self.children.values())


def _amounts(fields: Mapping[str, str]) -> Counter[str]:
    """The amounts that an entry says were used, by the names of the limits."""
    named = {"usd": "usd_micros", "tokens": "tokens", "steps": "steps", "failures": "failures", "retries": "retries"}
    return Counter({limit: _number(fields, name) for limit, name in named.items()})


def _number(fields: Mapping[str, str], name: str) -> int:
    """An amount; 0 for what is none, as somebody may have written it."""
    spelled = fields.get(name, "0")
    return int(spelled) if spelled.isdecimal() and len(spelled) <= _LONGEST_NUMBER else 0


def _text(fields: Mapping[str, str], name: str) -> str:
    return str(json.loads(fields.get(name, '""')))
