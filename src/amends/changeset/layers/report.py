"""How a landing or a merge ended, as data: done, in conflict, not verified. A report is for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator

from amends.changeset.model.codec import Fields, Json
from amends.changeset.model.model import PathState
from amends.changeset.model.paths import spell
from amends.changeset.model.three_way import Clash
from amends.changeset.text.merge import Hunk
from amends.dataclass import dataclass
from amends.process.running import Ran


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A landing that changed a path first."""

    landing: str
    changeset: str
    name: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    root: bytes
    path: bytes
    clash: Clash
    ancestor: PathState | None
    is_ancestor_known: bool
    ours: PathState | None
    theirs: PathState | None
    hunks: tuple[Hunk, ...] = ()
    marked: bytes | None = None
    """The text with marks where it is in conflict, for somebody to edit."""
    winner: Winner | None = None
    """Who landed first; None if it was nobody that we know of."""
    detail: str = ""

    def data(self) -> Fields:
        return {
            "root": spell(self.root),
            "path": spell(self.path),
            "kind": str(self.clash),
            "ancestor": _said(self.ancestor) if self.is_ancestor_known else "unknown",
            "ours": _said(self.ours),
            "theirs": _said(self.theirs),
            "hunks": [_hunk(each) for each in self.hunks],
            "landed_first": None if self.winner is None else _winner(self.winner),
            "detail": self.detail,
        }

    def lines(self) -> Iterator[str]:
        """Lines for a person: which lines of which file; the hashes are for programs, in `data`."""
        path, more = spell(self.path), f": {self.detail}" if self.detail else ""
        for each in self.hunks:
            yield f"{path}, {_sides(each)}{more}"
        if not self.hunks:
            yield f"{path}: {self.clash}{more}{_apart(self.ours, self.theirs)}"
        if self.winner is not None:
            name = f" ({self.winner.name})" if self.winner.name else ""
            yield f"  landed first: changeset {self.winner.changeset}{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicted:
    """Nothing was applied: others changed the same, and it could not be merged."""

    changeset: str
    conflicts: tuple[Conflict, ...]
    step: int | None = None
    """The step that was to be dropped from under others; None: all of it was to land, or to be merged."""
    into: str | None = None
    """The changeset that a branch was to be merged into."""

    def data(self) -> Fields:
        said: Fields = {"changeset": self.changeset, "conflicts": [each.data() for each in self.conflicts]}
        said |= {} if self.step is None else {"step": self.step}
        return said if self.into is None else {**said, "into": self.into}

    def text(self) -> str:
        count = len(self.conflicts)
        what = "cannot land" if self.step is None else f"cannot drop step {self.step} alone"
        what = what if self.into is None else f"cannot be merged into {self.into}"
        head = f"changeset {self.changeset} {what}: {count} conflict{'' if count == 1 else 's'}"
        return "\n".join([head, *(line for each in self.conflicts for line in each.lines())]) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unverified:
    """Nothing was applied: the command that was to verify it said no."""

    changeset: str
    ran: Ran

    def data(self) -> Fields:
        return {
            "changeset": self.changeset,
            "returncode": self.ran.returncode,
            "timed_out": self.ran.timed_out,
            "stdout": self.ran.stdout,
            "stderr": self.ran.stderr,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """It is in the trees, and on disk."""

    id: str
    changeset: str
    sequences: tuple[int, ...]
    """Its number in each tree's log."""
    applied: tuple[str, ...]
    merged: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    """Paths that were in the trees already, as we wanted them."""

    def data(self) -> Fields:
        return {
            "id": self.id,
            "changeset": self.changeset,
            "sequences": list(self.sequences),
            "applied": list(self.applied),
            "merged": list(self.merged),
            "already": list(self.already),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMerged:
    """A branch is merged into the open step of another changeset; it counts once that is sealed."""

    changeset: str
    """The branch."""
    into: str
    applied: tuple[str, ...]
    merged: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    """Paths that were there already, as the branch has them."""

    def data(self) -> Fields:
        return {
            "changeset": self.changeset,
            "into": self.into,
            "applied": list(self.applied),
            "merged": list(self.merged),
            "already": list(self.already),
        }


def _said(state: PathState | None) -> str:
    if state is None:
        return "nothing"
    if state.target:
        return f"link to {spell(state.target)}"
    what = state.digest or str(state.kind)
    return f"{what} mode {state.mode:o}"


def _hunk(hunk: Hunk) -> Json:
    return {"ancestor": list(hunk.ancestor), "ours": list(hunk.ours), "theirs": list(hunk.theirs)}


def _sides(hunk: Hunk) -> str:
    ours, theirs = _range(hunk.ours), _range(hunk.theirs)
    return f"{ours}: ours / theirs" if ours == theirs else f"{ours} of ours / {theirs} of theirs"


def _range(lines: tuple[int, int]) -> str:
    first, end = lines
    if end <= first:
        return f"nothing before line {first}"
    return f"line {first}" if end == first + 1 else f"lines {first}-{end - 1}"


def _apart(ours: PathState | None, theirs: PathState | None) -> str:
    """The kind of thing that each side has, where those are not the same kind with another content."""
    shapes = _shape(ours), _shape(theirs)
    return "" if shapes[0] == shapes[1] else f" (ours: {shapes[0]} / theirs: {shapes[1]})"


def _shape(state: PathState | None) -> str:
    if state is None:
        return "nothing"
    return f"link to {spell(state.target)}" if state.target else f"{state.kind}, mode {state.mode:o}"


def _winner(winner: Winner) -> Json:
    return {"landing": winner.landing, "changeset": winner.changeset, "name": winner.name, "at": winner.at}
