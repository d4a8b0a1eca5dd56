"""How an attempt ended: as data, and honest about what is known of the world."""

from __future__ import annotations

from typing import TypeAlias

from amends.core.words.values import Json
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: Json = None
    opaque: str = ""
    """Why the result itself could not be kept, where it could not."""
    layer: str = ""
    """Of an action that works on files: its layer, as number:digest. That it is on record makes it part of the saga."""
    confinement: str = ""
    """Of one that ran commands on files: how they were kept in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Certainly nothing happened (forward), or certainly nothing was taken back (compensation)."""

    error: str
    fatal: bool = False
    final: bool = False
    """Not to be tried again, though nobody said Fatal."""
    after_s: float | None = None
    changed_since: bool = False
    confinement: str = ""
    where: str = ""
    """Where in its author's code an exception was raised, as `shop/tools.py:7, in charge`; not part of its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Nobody knows."""

    error: str
    fatal: bool = False
    final: bool = False
    """Not to be tried again, though nobody said Fatal; a probe may still be asked."""
    timed_out: bool = False
    confinement: str = ""
    where: str = ""


Outcome: TypeAlias = Succeeded | Failed | Lost


@dataclass(frozen=True, slots=True)
class Found:
    """A probe saw the effect."""

    result: Json = None
    opaque: str = ""
    """Why the result itself could not be kept, where it could not."""


@dataclass(frozen=True, slots=True)
class FoundNothing:
    """A probe saw that there is no effect."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A probe could not tell. With `look_again_s` it will, later: that is no answer to be put on record."""

    error: str
    look_again_s: float | None = None
    where: str = ""


Answer: TypeAlias = Found | FoundNothing | NoAnswer
