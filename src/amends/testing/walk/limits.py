"""A walk's moves that have to do with limits: what a definition spends, and who raises a limit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from amends.core import commands as c
from amends.core.events.limits import ChildSpent
from amends.core.words.values import Json, StepId

if TYPE_CHECKING:
    from collections.abc import Callable

    from amends.testing.walk.walk import Walk

_MOST: Final = 4
START: Final = 1_700_000_000_000
_SPENDS: Final[Json] = {"usd": {"most": 2, "then": "call"}, "tokens": {"most": 3, "then": "rollback"}}
_PAUSES: Final[Json] = {"usd": {"most": 1, "then": "pause"}}
_STEPS: Final[Json] = {
    "steps": {"most": 2, "then": "call"},
    "seconds": {"most": 100_000, "since_at": START, "then": "call"},
}
LIMITS: Final[tuple[Json, ...]] = (*(None,) * 9, _SPENDS, _PAUSES, _STEPS)


def started(walk: Walk) -> c.StartSaga:
    """A saga, in some walks with limits."""
    limits = walk.tape.pick(LIMITS)
    return c.StartSaga("walk", version=1, input={}, actor="tester", env="test", labels={}, limits=limits)


def spendings(walk: Walk) -> list[Callable[[], object]]:
    """A saga with limits spends a few times."""
    budget = walk.saga.budget
    if budget is None or len(budget.places) >= _MOST:
        return []
    return [partial(spend, walk), partial(count_child, walk)]


def count_child(walk: Walk) -> None:
    """A child tells what it has used up: more, or the same once again."""
    budget, step = walk.saga.budget, StepId("child")
    known = ChildSpent(step=step) if budget is None else budget.of_child(step)
    tokens, usd, steps = walk.tape.pick(((0, 0, 1), (1, 1, 0), (0, 0, 0)))
    walk.tell(
        c.CountChild(
            step=step,
            tokens=known.tokens + tokens,
            usd_micros=known.usd_micros + usd,
            steps=known.steps + steps,
        )
    )


def spend(walk: Walk) -> None:
    budget = walk.saga.budget
    place = StepId(f"spent.{0 if budget is None else len(budget.places)}")
    tokens, usd = walk.tape.pick(((1, 0), (0, 1), (1, 2)))
    walk.tell(c.Spend(place=place, tokens=tokens, usd_micros=usd, what=""))


def keeping_limits(walk: Walk, propose: Callable[[], object]) -> None:
    """A saga asks for a step, unless a limit ends it first."""
    walk.tell(c.KeepLimits(topic="walk", args={}))
    if walk.saga.works:
        propose()


def raisings(walk: Walk) -> list[Callable[[], object]]:
    return [] if walk.saga.budget is None else [partial(raise_limits, walk)]


def raise_limits(walk: Walk) -> None:
    most = walk.tape.pick(({}, {"usd": 9}, {"tokens": 2}))
    walk.tell(c.RaiseLimits(most=most, by="person:ann", why=""))
