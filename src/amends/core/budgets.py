"""Requests about limits: to spend, to look whether one is reached, to raise it. Part of what `commands` says."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from amends.core.values import Json, StepId


class Spend(NamedTuple):
    """The definition, at `place`, says what it has used up."""

    place: StepId
    tokens: int
    usd_micros: int
    what: str
    now: int
    window_s: float


class CountChild(NamedTuple):
    """All that the child of a step has used up so far; with the step of this topic, if it asks for one.

    `again`: the topic of a step that is about to be tried again, which is counted in.
    """

    step: StepId
    tokens: int
    usd_micros: int
    steps: int
    now: int
    window_s: float
    topic: str = ""
    failures: int = 0
    retries: int = 0
    again: str = ""


class KeepLimits(NamedTuple):
    """See whether a limit is reached: before a step of this topic with these arguments, or ("") by the time.

    `again`: before a step of this topic is tried again.
    """

    now: int
    window_s: float
    topic: str = ""
    args: Json = None
    again: str = ""


class RaiseLimits(NamedTuple):
    """`most`: the new limits by name, in the journal's units; none: as much again of the one that was reached."""

    most: dict[str, int]
    by: str
    why: str
    now: int


LimitCommand: TypeAlias = Spend | CountChild | KeepLimits | RaiseLimits
