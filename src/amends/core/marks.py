"""What a definition marks on its way: checkpoints, and rewinds that take a part of the work back.

Values only: the fold is in `rewound`, the decisions are in `rewinds`.
"""

from __future__ import annotations

from amends.core.events import RewindStarted
from amends.core.values import StepId
from amends.dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`entry` is its own in the journal; `floor` counts the intents that came before it."""

    place: StepId
    name: str
    entry: int
    floor: int


@dataclass(frozen=True, kw_only=True)
class Rewind:
    """`at` is where it stands: the steps before it in `begun.steps` are settled."""

    begun: RewindStarted
    entry: int
    deadline_at: int
    at: int = 0
    ended: bool = False
    gone: frozenset[StepId] = frozenset()
    """Those of its steps that had been taken back before."""
    taken_back: tuple[StepId, ...] = ()

    @property
    def key(self) -> StepId:
        """Its place, or, where it was asked for from outside, its entry."""
        return StepId(f"@{self.entry}") if self.begun.place is None else self.begun.place

    @property
    def from_outside(self) -> bool:
        return self.begun.place is None
