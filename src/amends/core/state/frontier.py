"""Whose turn it is to be taken back: the newest owed step or, where a graph says so, several that are independent.

Steps stand in the order of their intents. One that was declared in a graph says what it is after; one that was not is
after everything before it, and everything since is after it. So the order falls into stretches: each undeclared step is
one, and so is each run of declared steps between two of those. Stretches go back newest first. Inside one, a step's
turn comes once nothing is owed that is after it, directly or through others; those that came to nothing count as links.

What the runtime itself puts back (a layer of files) lies on what was there before it, whatever was declared: such steps
of a stretch are after one another.

The fold keeps a stretch's frontier while the way back is in it. Each step and each link is passed once, so a rollback's
cost is linear in them; where something is owed again (an attempt lands late, a person has it tried again), the frontier
is made anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from amends.core.state.step import Step
from amends.core.words.contracts import Reversibility
from amends.core.words.values import StepId
from amends.dataclass import dataclass

if TYPE_CHECKING:
    from amends.core.state.saga import Saga


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """`floor` is the number of the newest step before the stretch. `after` has the links of each of its steps."""

    floor: int
    after: Mapping[StepId, tuple[StepId, ...]]
    awaited: dict[StepId, int]
    """How many of those that are after it have to go first, still."""
    turns: dict[StepId, None]

    def copy(self) -> Frontier:
        return Frontier(floor=self.floor, after=self.after, awaited=dict(self.awaited), turns=dict(self.turns))


def walk_back(saga: Saga, *, again: bool = False, moved: StepId | None = None) -> None:
    """Move a rollback's place past everything that is not owed. `again`: something may be owed that was not."""
    top = saga.top
    while top and not saga.steps[saga.order[top]].owed:
        top -= 1
    frontier = saga.frontier
    if not top or saga.steps[saga.order[top]].after is None:
        frontier = None
    elif again or frontier is None or top <= frontier.floor:
        frontier = _frontier(saga, top)
    elif moved is not None and moved in frontier.turns and not saga.steps[moved].owed:
        _pass(saga, frontier, (moved,))
    saga.top, saga.frontier = top, frontier


def _frontier(saga: Saga, top: int) -> Frontier:
    stretch: dict[StepId, tuple[StepId, ...]] = {}
    floor, stacked = top, None
    while floor and (step := saga.steps[saga.order[floor]]).after is not None:
        stretch[step.id] = step.after
        if _is_stacked(step):
            if stacked is not None:
                stretch[stacked] += (step.id,)
            stacked = step.id
        floor -= 1
    after = _with_links(saga, stretch)
    awaited = Counter(name for names in after.values() for name in names)
    frontier = Frontier(floor=floor, after=after, awaited=dict(awaited), turns={})
    _pass(saga, frontier, [name for name in after if name not in awaited])
    return frontier


def _is_stacked(step: Step) -> bool:
    return bool(step.layer) or step.contract.reversibility is Reversibility.REVERSIBLE


def _with_links(saga: Saga, stretch: dict[StepId, tuple[StepId, ...]]) -> dict[StepId, tuple[StepId, ...]]:
    """With those that never had an intent, as long as they lead on; without what lies before the stretch."""
    after: dict[StepId, tuple[StepId, ...]] = {}
    unseen = list(stretch.items())
    while unseen:
        name, said = unseen.pop()
        links = [link for link in dict.fromkeys(said) if link in stretch or _is_link(saga, link)]
        after[name] = tuple(links)
        for link in links:
            if link not in stretch and link not in after:
                after[link] = ()
                unseen.append((link, saga.steps[link].after or ()))
    return after


def _is_link(saga: Saga, name: StepId) -> bool:
    step = saga.steps.get(name)
    return step is not None and step.number == 0


def _pass(saga: Saga, frontier: Frontier, steps: Iterable[StepId]) -> None:
    """Go past these, for which nothing is waited any more, and past all that is then not owed either."""
    awaited, turns, unseen = frontier.awaited, frontier.turns, list(steps)
    while unseen:
        name = unseen.pop()
        if saga.steps[name].owed:
            turns[name] = None
            continue
        turns.pop(name, None)
        for link in frontier.after[name]:
            awaited[link] -= 1
            if not awaited[link]:
                unseen.append(link)


def held_back_by(saga: Saga, step: Step) -> tuple[Step, ...]:
    """The step, and every other that cannot be taken back before it; newest first."""
    numbers = range(len(saga.order), 0, -1)
    if step.after is None or saga.frontier is None:
        return tuple(saga.steps[saga.order[number]] for number in numbers if number <= step.number)
    links, unseen = {step.id}, [step.id]
    while unseen:
        for link in saga.frontier.after.get(unseen.pop(), ()):
            if link not in links:
                links.add(link)
                unseen.append(link)
    steps = (saga.steps[saga.order[number]] for number in numbers)
    return tuple(one for one in steps if one.id in links or one.number <= saga.frontier.floor)
