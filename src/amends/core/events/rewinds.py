"""Facts about parts of the work: places to go back to, going back, where a step that was asked ahead is done, and what
becomes of what was held.
"""

from __future__ import annotations

from amends.core.words.values import StepId
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMade:
    """A named place that a rollback can stop at. `place` says where the definition made it."""

    place: StepId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindStarted:
    """These steps are taken back, newest first, and then the work goes on.

    `place` is where the definition asked for it; None: someone asked from outside, so the definition is stopped, and
    called again afterwards: all that it did or marked after entry `above` is forgotten then, and done anew. `to` is the
    place of the checkpoint that it goes back to, `step` the one that failed, `attempt` the number of a block's try.
    """

    place: StepId | None
    steps: tuple[StepId, ...]
    why: str
    by: str
    deadline_at: int
    step: StepId | None = None
    to: StepId | None = None
    attempt: int = 0
    above: int = 0
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindEnded:
    """`taken_back`: the steps of which nothing stands any more, in the order in which they were taken back."""

    place: StepId | None
    taken_back: tuple[StepId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlaced:
    """A step that people were asked about ahead is done at this place of the definition, and goes back with it."""

    step: StepId
    place: StepId
    call: str = ""
    """The caller's own id of it where it is done, in an open saga; it was asked about under another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDropped:
    """It was held until the saga had settled, and is never dispatched."""

    step: StepId
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilySettled:
    """Of a child: nothing above it can fail any more, so what it holds is released."""

    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseStarted:
    """The release of what the child of a step holds begins: from here on the saga goes forward only."""

    step: StepId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEnded:
    """The child of a step holds nothing any more."""

    step: StepId
