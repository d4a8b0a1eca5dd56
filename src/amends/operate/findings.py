"""A finding of `amends doctor`, and what it is asked to look at."""

from __future__ import annotations

from typing import Literal, NamedTuple

from amends.dataclass import dataclass

State = Literal["ok", "look", "wrong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFinding:
    name: str
    state: State
    found: str
    do: str = ""


class Checkup(NamedTuple):
    """A journal and a policy to look at, each with where it was named, and what the configuration says of them."""

    address: str
    policy: str | None
    how_journal: str
    how_policy: str
    group: str | None
    refused: str
    """Why the configuration is not gone by; '' where it is."""
    root: str | None = None
    """The root of the roster that is pinned."""
