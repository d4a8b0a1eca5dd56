"""Which of two steps has to be taken back first, said without the core's own words for it: a judge, not a planner."""

from __future__ import annotations

from amends.core.contracts import Reversibility
from amends.core.saga import Saga, Step
from amends.core.values import StepId


def goes_first(saga: Saga, later: Step, earlier: Step) -> bool:
    """Whether a rollback has to have taken `later` back before it begins with `earlier`.

    It came later, and nothing declares the two independent: one of them, or something that came between them, is not
    part of a graph; or the graph says so, directly or through others; or both lie in the same layers.
    """
    if earlier.number >= later.number:
        return False
    between = (saga.steps[saga.order[number]] for number in range(earlier.number, later.number + 1))
    if any(step.after is None for step in between):
        return True
    return earlier.id in _before(saga, later.id)


def out_of_order(saga: Saga, undone: list[StepId]) -> bool:
    """Whether steps that were taken back in this order came before others that had to go first."""
    steps = [saga.steps[name] for name in undone]
    return any(goes_first(saga, after, before) for at, before in enumerate(steps) for after in steps[at + 1 :])


def _is_layered(step: Step) -> bool:
    return bool(step.layer) or step.contract.reversibility is Reversibility.REVERSIBLE


def _before(saga: Saga, step: StepId) -> set[StepId]:
    """All that it was declared to be after, or has its layer upon, directly or not."""
    found: set[StepId] = set()
    unseen = [step]
    while unseen:
        this = saga.steps[unseen.pop()]
        layers = filter(_is_layered, saga.steps.values()) if _is_layered(this) else ()
        below = {*(this.after or ()), *(one.id for one in layers if 0 < one.number < this.number)}
        unseen += [one for one in below if one not in found and one in saga.steps]
        found |= below
    return found
