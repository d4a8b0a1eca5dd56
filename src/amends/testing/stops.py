"""How a walk's definition may stop its saga without a rollback: it diverges, or it calls a person."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from amends.core import commands as c
from amends.core.events import Cause, IncidentKind

if TYPE_CHECKING:
    from amends.testing.histories import Walk


def stops(walk: Walk) -> list[Callable[[], object]]:
    return [partial(_diverge, walk), partial(_call, walk)]


def _diverge(walk: Walk) -> None:
    walk.tell(c.OpenIncident(kind=IncidentKind.DIVERGED, step=None, why="the code has changed"))


def _call(walk: Walk) -> None:
    """About a step that it was told is over, or about none."""
    over = sorted(step for step in walk.told_over if step in walk.saga.steps)
    step = walk.tape.pick(over) if over else None
    walk.tell(c.FailWork(Cause.ERROR, "what now?", step, now=walk.now, window_s=900, calls=True))
