"""Facts about what a step needs for itself, and about what it left: part of the vocabulary of `events`."""

from __future__ import annotations

from amends.core.words.values import Json, StepId
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LockAwaited:
    """Another saga holds what this step needs for itself; it stands in line, until then at most."""

    step: StepId
    resources: tuple[str, ...]
    holder: str
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockTaken:
    """Its turn came: all that it stood in line for is the saga's, until that has ended."""

    step: StepId


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRefused:
    """It does not get what it needs for itself, so certainly nothing happened."""

    step: StepId
    error: str
    deadlock: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterCaptured:
    """How the world looked right after the success; its compensation looks again, and touches only what is still so."""

    step: StepId
    after: Json
