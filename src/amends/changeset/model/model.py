"""The parts of a changeset: the state of a path, a layer's entries, and where a changeset stands in its life.

A state is all that there is to one path: its kind, its mode, its content by hash. Nothing in a layer is a delta (a
rename is a path that is gone and another one that is there), so entries can be laid over one another in any number and
the newest is the whole truth about its path.

Two states are the same when a person would see no difference: modification times and, for folders, sizes do not count.
They are kept all the same, and put back.

A layer's entry also has the path's ancestor: the state that the step started from. It is what a landing compares the
tree with. Where nobody can prove what the step started from, the ancestor is unknown, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from amends.dataclass import dataclass


class PathKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"
    """A socket, a pipe or a device: found in a tree, and never made by a changeset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathState:
    """Of a path that is there. A path that is not is None."""

    kind: PathKind
    mode: int
    """Permission bits; for links 0o777, as everywhere."""
    size: int = 0
    mtime_ns: int = 0
    digest: str = ""
    """Of a file's content, SHA-256; of a file that may not be read, what its stat says."""
    target: bytes = b""
    """Of a link."""


def same(one: PathState | None, other: PathState | None) -> bool:
    """Whether a person would see no difference."""
    if one is None or other is None:
        return one is other
    return (one.kind, one.mode, one.digest, one.target) == (other.kind, other.mode, other.digest, other.target)


def mode_differs(one: PathState | None, other: PathState | None) -> bool:
    """Whether a file or folder is one on both sides, with another mode. A link's mode is nobody's."""
    if one is None or other is None or one.kind is not other.kind or one.kind is PathKind.LINK:
        return False
    return one.mode != other.mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestor:
    """The state that a step started from. Not known: someone else changed the path during the very step."""

    state: PathState | None
    is_known: bool = True


UNKNOWN: Final = Ancestor(state=None, is_known=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerEntry:
    """One path of a layer as the layer leaves it; no state: it is gone."""

    path: bytes
    state: PathState | None
    before: PathState | None
    """What the layers below and the tree had, when the layer was sealed."""
    ancestor: Ancestor
    """What the changeset's first layer with this path started from."""
    is_ephemeral: bool = False
    """It is part of the view, and never lands."""
    is_rebased: bool = False
    """It was in conflict: its ancestor is what others have by now, and those of the layers below do not count."""
    clash: str = ""
    """Of one that is rebased: the conflict that is shown in it, and that nobody has resolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """Of a path that is in conflict, in an open step: what of the others' was seen."""

    theirs: PathState | None
    clash: str = ""
    """The conflict; empty once it is resolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """How much was changed, ephemeral paths left out."""

    files: int = 0
    added_lines: int = 0
    removed_lines: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerStart:
    """A layer's beginning: what its ancestors are judged by."""

    changeset: str
    number: int
    name: str
    at: int
    since_ns: tuple[int, ...]
    """For each tree: whatever changed before the step began has an inode change time below this."""
    landings: tuple[int, ...]
    """For each tree: the number of the newest landing then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A sealed layer: one tuple of entries for each tree."""

    begun: LayerStart
    trees: tuple[tuple[LayerEntry, ...], ...]
    sealed_at: int
    provider: str
    totals: Totals = Totals()
    digest: str = ""
    formerly: tuple[str, ...] = ()
    """The digests that it had before a layer below it was dropped."""
    is_dropped: bool = False
    """It was dropped from under others: nothing is left of it but its number."""

    @property
    def number(self) -> int:
        return self.begun.number

    @property
    def name(self) -> str:
        return self.begun.name

    @property
    def moved(self) -> tuple[tuple[int, bytes], ...]:
        """Tree and path of what someone else changed while the step worked on it."""
        return tuple(
            (tree, entry.path)
            for tree, entries in enumerate(self.trees)
            for entry in entries
            if not entry.ancestor.is_known and not entry.is_ephemeral
        )


class Life(StrEnum):
    ACTIVE = "active"
    REVIEW = "review"
    LANDED = "landed"
    MERGED = "merged"
    """A branch whose work another changeset has, as one of its layers."""
    DROPPED = "dropped"
    KEPT = "kept"
    """Over, and asked to stay for good."""
    PRUNED = "pruned"
    """Its record is left, its content is not."""


LIFE: Final[Mapping[Life, frozenset[Life]]] = {
    Life.ACTIVE: frozenset({Life.REVIEW, Life.LANDED, Life.MERGED, Life.DROPPED}),
    Life.REVIEW: frozenset({Life.ACTIVE, Life.LANDED, Life.MERGED, Life.DROPPED}),
    Life.LANDED: frozenset({Life.KEPT, Life.PRUNED}),
    Life.MERGED: frozenset({Life.ACTIVE, Life.DROPPED, Life.KEPT, Life.PRUNED}),
    Life.DROPPED: frozenset({Life.ACTIVE, Life.KEPT, Life.PRUNED}),
    Life.KEPT: frozenset({Life.ACTIVE, Life.DROPPED, Life.LANDED, Life.MERGED}),
    Life.PRUNED: frozenset(),
}
"""What may follow what. Kept goes back to what it was; active again after a drop is a change of mind,
and after a merge, that the step which it was merged in was dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what one changeset may change. None: as much as it likes. Ephemeral paths do not count."""

    files: int | None = None
    lines: int | None = None
    bytes: int | None = None
    denied: tuple[str, ...] = ()
    """Globs of paths that no step may touch."""
    links_out: bool = False
    """Whether a new link may lead out of the tree."""
    portable_names: bool = False
    """Refuse names that would be one and the same where case or composition of letters does not count."""


class Isolation(StrEnum):
    WRITE = "write"
    """Others may land meanwhile; only what both changed can conflict."""
    STRICT = "strict"
    """Nobody else may have landed since, in what the changeset reads."""


EPHEMERAL: Final = (
    ".git",
    "__pycache__",
    "*.pyc",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
)
"""Part of the view, and never landed, unless a changeset is opened with other patterns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms that a changeset was opened with, and keeps for life."""

    provider: str = "auto"
    """`overlay`, `clone`, `copy`, `api`, or the first of these that works."""
    isolation: Isolation = Isolation.WRITE
    reads: tuple[str, ...] = ()
    """With strict isolation: the globs that it reads; none given means the whole tree."""
    limits: Limits = field(default_factory=Limits)
    ephemeral: tuple[str, ...] = EPHEMERAL
    confine: bool | None = None
    """Whether tools are confined. None: where this machine can; True: always, or they do not run; False: never."""
    network: bool = True
    """False: tools have a network of their own, with nothing in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetRecord:
    """A changeset as its state directory knows it, apart from its layers."""

    id: str
    name: str
    roots: tuple[bytes, ...]
    life: Life
    terms: Terms
    opened_at: int
    ended_at: int | None = None
    landing: str | None = None
    kept_from: Life | None = None
    inverse_of: str | None = None
    """The landing that this changeset takes back."""
    branch_of: str | None = None
    """The changeset whose layers it began with."""
    forked_at: int = 0
    """Of a branch: the newest of those layers. It stands on them, and its own come after."""
    saga: str = ""
    """The saga whose work it is, and through which alone it is changed; else nobody's."""
