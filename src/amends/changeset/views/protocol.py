"""A provider: how an open layer is written to, how tools see it, and how its changes get into it.

A layer is a folder with one folder for each tree, named by its number, in overlayfs's format; `room` beside them is for
what is not part of it. All providers leave the same layer behind for the same work: that is the suite's to hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Protocol, TypeAlias

from amends.changeset.disk.disk import Disk
from amends.changeset.layers.writing import Writing
from amends.changeset.store.home import Home
from amends.clock import Clock
from amends.dataclass import dataclass
from amends.process.running import Launch, Running

Lowers: TypeAlias = Callable[[int], tuple[bytes, ...]]
"""The folders of a tree's sealed layers, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How large a tree may be for `copy` to be chosen unasked."""

    files: int = 50_000
    bytes: int = 2 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewGround:
    """The ground that a view stands on."""

    homes: tuple[Home, ...]
    folder: bytes
    """The changeset's own."""
    lowers: Lowers
    layers: Callable[[], tuple[str, ...]]
    """The digests of the sealed layers."""
    disk: Disk
    clock: Clock
    namespaces: bool = True
    """Whether this machine lets us make them."""
    unconfinable: str = ""
    """Why a command cannot be confined on this machine, where it cannot."""
    userns: bool = False
    budget: Budget | None = field(default_factory=Budget)


class View(Protocol):
    name: str

    def begin(self) -> tuple[tuple[int, int], ...]:
        """Have the view as the sealed layers and the trees say. For each tree: since when, and after which landing."""
        ...

    def writing(self, layer: bytes, tree: int) -> Writing:
        """Python's way into the open layer."""
        ...

    def start(self, layer: bytes, asked: Launch) -> Running:
        """Start a command in the view. ViewError: there is none, or it could not be made."""
        ...

    def collect(self, layer: bytes) -> tuple[frozenset[bytes], ...]:
        """Bring what was changed into the layer's folders. For each tree: what had been there when the step began."""
        ...

    def settle(self) -> None:
        """A layer was sealed: what the view shows now is what it stands on."""
        ...

    def restore(self, dropped: tuple[frozenset[bytes], ...]) -> None:
        """Layers were dropped, with these paths of each tree: show what is left, exactly."""
        ...
