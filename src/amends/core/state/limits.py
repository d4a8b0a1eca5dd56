"""Limits of a saga, and what it has used: the bounds that it began with, folded with what was spent. Pure.

Bounds are journaled with the saga's start as `{name: {most, then, …}}`, so that they hold after a restart, whatever the
code says by then. A bound is a whole number: tokens, millionths of a dollar, milliseconds, steps, failed
attempts, retries, near-identical steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, cast

from amends.core.events.limits import BudgetSpent, ChildSpent, LimitEvent, LimitRaised, LimitReached
from amends.core.words.values import BUILT_IN, Json, StepId
from amends.dataclass import altered, dataclass
from amends.errors import JournalDamagedError

SPENDING: Final = "a spending"
WITHIN: Final = "within"
"""The entry of a child's limits that says that its parent has some, or runs within some."""
TRIED: Final = "tried"
"""The value of that entry where one above counts failures or retries too; else it is true."""
MICROS: Final = 1_000_000
_ONE: Final = {"failures": "failure", "retries": "retry", "steps": "step", "tokens": "token"}


class LimitName(StrEnum):
    """Names of limits."""

    TOKENS = "tokens"
    USD = "usd"
    SECONDS = "seconds"
    STEPS = "steps"
    FAILURES = "failures"
    RETRIES = "retries"
    SPIN = "spin"


class Response(StrEnum):
    """Responses to a limit that is reached."""

    ROLLBACK = "rollback"
    TO_CHECKPOINT = "to_checkpoint"
    PAUSE = "pause"
    CALL = "call"


@dataclass(frozen=True, kw_only=True)
class Bound:
    """`measure` is the limit as it was first set: what one more helping is. `times`: how often it may go back.

    `children`: those that run are stopped too.
    """

    most: int
    measure: int
    then: Response = Response.ROLLBACK
    to: str = ""
    guidance: str = ""
    times: int = 1
    reached: int = 0
    children: bool = False


class Spending(NamedTuple):
    """A spending, and the number of the entry that says so."""

    fact: BudgetSpent
    entry: int


@dataclass(frozen=True, kw_only=True)
class Budget:
    """`places` are where the definition has spent. `newest` are the last own steps, as many as spin looks at.

    `tokens`, `usd_micros`, `steps`, `failures` and `retries` are sums, with those of the children. `within`: it tells
    its parent what it uses, and with `tells_tries` what failed and was tried again.
    """

    places: dict[StepId, Spending]
    bounds: Mapping[LimitName, Bound]
    since_at: int = 0
    tokens: int = 0
    usd_micros: int = 0
    steps: int = 0
    failures: int = 0
    retries: int = 0
    newest: tuple[StepId, ...] = ()
    reached: LimitName | None = None
    why: str = ""
    children: dict[StepId, ChildSpent] | None = None
    within: bool = False
    tells_tries: bool = False

    def copy(self) -> Budget:
        children = None if self.children is None else dict(self.children)
        return altered(self, places=dict(self.places), children=children)

    def of_child(self, step: StepId) -> ChildSpent:
        """The use that the child of a step has made, as far as is known."""
        found = None if self.children is None else self.children.get(step)
        return found or ChildSpent(step=step)

    def used(self, name: LimitName, now: int = 0) -> int:
        """How much of it is used up; of spin, which has no amount, none."""
        match name:
            case LimitName.TOKENS:
                return self.tokens
            case LimitName.USD:
                return self.usd_micros
            case LimitName.STEPS:
                return self.steps
            case LimitName.FAILURES:
                return self.failures
            case LimitName.RETRIES:
                return self.retries
            case LimitName.SECONDS:
                return max(0, now - self.since_at)
            case LimitName.SPIN:
                return 0

    @property
    def until_at(self) -> int | None:
        """When its time is up; None where it has all the time."""
        bound = self.bounds.get(LimitName.SECONDS)
        return None if bound is None else self.since_at + bound.most


def begun(limits: Json) -> Budget:
    """The budget of a saga that starts with these limits. Raises JournalDamagedError."""
    if not isinstance(limits, dict):
        raise JournalDamagedError("a saga's limits are not an object")
    bounds: dict[LimitName, Bound] = {}
    since_at = 0
    try:
        for name, limit in limits.items():
            if name == WITHIN:
                continue
            said = cast("dict[str, Json]", limit)
            since_at = max(since_at, cast("int", said.get("since_at", 0)))
            most = cast("int", said["most"])
            bounds[LimitName(name)] = Bound(
                most=most,
                measure=most,
                then=Response(cast("str", said.get("then", Response.ROLLBACK))),
                to=cast("str", said.get("to", "")),
                guidance=cast("str", said.get("guidance", "")),
                times=cast("int", said.get("times", 1)),
                children=cast("bool", said.get("children", False)),
            )
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise JournalDamagedError(f"a saga's limits cannot be read: {exc!r}") from None
    within = limits.get(WITHIN)
    return Budget(places={}, bounds=bounds, since_at=since_at, within=within is not None, tells_tries=within == TRIED)


def within_of(parent: Json) -> Json:
    """Words to a child on the limits that its parent began with; None where there is nothing to tell."""
    if not isinstance(parent, dict) or not parent:
        return None
    counts = {LimitName.FAILURES.value, LimitName.RETRIES.value} & parent.keys()
    return TRIED if counts or parent.get(WITHIN) == TRIED else True


UNLIMITED: Final[Mapping[LimitName, Bound]] = {}


def stepped(budget: Budget, step: StepId, topic: str) -> Budget:
    """One more step of the definition's own; what is built in is not counted."""
    if topic.startswith(BUILT_IN):
        return budget
    spin = budget.bounds.get(LimitName.SPIN)
    newest = () if spin is None else (*budget.newest, step)[-spin.most :]
    return altered(budget, steps=budget.steps + 1, newest=newest)


def tried(budget: Budget, topic: str, *, failed: bool) -> Budget:
    """One more attempt that failed, or that nobody saw the end of; else one more retry. Built-in steps do not count."""
    if topic.startswith(BUILT_IN):
        return budget
    if failed:
        return altered(budget, failures=budget.failures + 1)
    return altered(budget, retries=budget.retries + 1)


def spent(budget: Budget | None, event: LimitEvent, entry: int) -> Budget:
    """The budget after one more fact, which is that entry; of what was spent where, the same map, with one more."""
    budget = budget or Budget(places={}, bounds=UNLIMITED)
    counted = summed(budget, event)
    match event:
        case BudgetSpent(place=place):
            budget.places[place] = Spending(event, entry)
            return counted
        case ChildSpent(step=step):
            children = {} if budget.children is None else budget.children
            children[step] = event
            return altered(counted, children=children)
        case LimitReached() | LimitRaised():
            return counted


def summed(budget: Budget, event: LimitEvent) -> Budget:
    """The sums and bounds after one more fact: enough to tell whether it would be too much."""
    match event:
        case BudgetSpent(tokens=tokens, usd_micros=usd):
            return altered(budget, tokens=budget.tokens + tokens, usd_micros=budget.usd_micros + usd)
        case ChildSpent(step=step):
            known = budget.of_child(step)
            return altered(
                budget,
                tokens=budget.tokens + event.tokens - known.tokens,
                usd_micros=budget.usd_micros + event.usd_micros - known.usd_micros,
                steps=budget.steps + event.steps - known.steps,
                failures=budget.failures + event.failures - known.failures,
                retries=budget.retries + event.retries - known.retries,
            )
        case LimitReached(limit=limit, why=why):
            name = LimitName(limit)
            bound = _bound(budget, name)
            return altered(
                budget,
                bounds={**budget.bounds, name: altered(bound, reached=bound.reached + 1)},
                reached=name,
                why=why,
            )
        case LimitRaised(limit=limit, most=most):
            name = LimitName(limit)
            bounds = {**budget.bounds, name: altered(_bound(budget, name), most=most)}
            newest = () if name is LimitName.SPIN else budget.newest  # whoever is let go on begins a new row
            if budget.reached is not name:
                return altered(budget, bounds=bounds, newest=newest)
            return altered(budget, bounds=bounds, newest=newest, reached=None, why="")


def forget_places(budget: Budget, above: int) -> None:
    """After going back to that entry: what was spent since stays spent; the definition will say anew what it spends."""
    for place, spending in tuple(budget.places.items()):
        if spending.entry > above:
            del budget.places[place]


def _bound(budget: Budget, name: LimitName) -> Bound:
    found = budget.bounds.get(name)
    if found is None:
        raise JournalDamagedError(f"the limit {name} was reached or raised, and there is none")
    return found


def one_more(budget: Budget | None, by: str, why: str, now: int, *, own: bool = False) -> tuple[LimitRaised, ...]:
    """As much again as the limit that was reached allowed at first; for time, from now on."""
    if budget is None or budget.reached is None:
        return ()
    name = budget.reached
    bound = budget.bounds[name]
    most = bound.most if name is LimitName.SPIN else max(bound.most, budget.used(name, now)) + bound.measure
    return (LimitRaised(limit=name.value, most=most, by=by, why=why, own=own),)


def spent_words(spent: BudgetSpent) -> str:
    """The words said at a place; called again, the definition has to say the same."""
    return f"{spent.tokens} {spent.usd_micros} {spent.what}"


def spelled(name: str, amount: int) -> str:
    """An amount as people say it."""
    if name == LimitName.USD:
        whole, part = divmod(amount, MICROS)
        return f"{whole}.{part:06d}".rstrip("0").rstrip(".") + " USD"
    if name == LimitName.SECONDS:
        return f"{amount / 1000:g} s"
    word = "steps" if name == LimitName.SPIN else name
    return f"{amount} {_ONE[word] if amount == 1 and word in _ONE else word}"
