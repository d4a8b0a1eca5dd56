"""Steps that take away what an earlier one did, and mean to: one opens what another has closed, one sets it anew.

Learnt in the run in which nothing goes wrong: an effect stood when its action had succeeded, and did not when a later
action of the same saga had. While the later step stands, the earlier need not. But when the later one is taken back,
the earlier one has to stand again, or it was not covered: it was destroyed.

The way back has the same in reverse: taking the earlier one back may bring about what the later one did (it is open
again). So of the later one only the moment after its own compensation counts: then it must not stand.
"""

from __future__ import annotations

from typing import TypeAlias

from amends.core.state.saga import Saga
from amends.core.transitions import StepStatus
from amends.core.words.values import SagaId, StepId

Spot: TypeAlias = tuple[str, StepId]
"""A step of a family, by a name that is the same in every run."""


class Covers:
    """Of all runs of a drill, for one saga and its children."""

    def __init__(self) -> None:
        self.by: dict[Spot, StepId] = {}
        self.given_back: set[Spot] = set()
        """Covered steps that stood again when the later one had been taken back."""
        self.went_away: set[Spot] = set()
        """Covering steps that did not stand when they had been taken back."""
        self._stood: set[Spot] = set()

    def spot(self, drilled: SagaId, saga: SagaId, step: StepId) -> Spot:
        return saga.removeprefix(drilled), step

    def stands(self, spot: Spot) -> None:
        self._stood.add(spot)

    def has_stood(self, spot: Spot) -> bool:
        return spot in self._stood

    def is_gone(self, spot: Spot, after: StepId) -> None:
        """It does not stand, now that the action of a later step has succeeded."""
        if spot in self._stood:
            self.by.setdefault(spot, after)

    def covered_by(self, spot: Spot) -> list[StepId]:
        """Steps whose effect a step takes away."""
        return [step for (saga, step), by in self.by.items() if (saga, by) == spot]

    def hides(self, spot: Spot, saga: Saga) -> bool:
        """Whether another step accounts for what is seen of this one: a later that stands, or an earlier taken back."""
        by = self.by.get(spot)
        if by is not None and _is(saga, by, StepStatus.SUCCEEDED):
            return True
        return spot in self.went_away and any(
            _is(saga, earlier, StepStatus.COMPENSATED) for earlier in self.covered_by(spot)
        )

    @property
    def of_drilled(self) -> tuple[tuple[StepId, StepId], ...]:
        """Of the drilled saga: which step, and by which; those that were seen to come back."""
        return tuple((step, by) for (saga, step), by in self.by.items() if not saga and (saga, step) in self.given_back)


def _is(saga: Saga, step: StepId, status: StepStatus) -> bool:
    return step in saga.steps and saga.steps[step].status is status
