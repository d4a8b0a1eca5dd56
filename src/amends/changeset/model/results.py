"""Answers of a changeset: plain data, and for each answer the JSON that a journal can hold."""

from __future__ import annotations

from enum import StrEnum

from amends.changeset.model.codec import Fields
from amends.changeset.model.model import Layer, Totals
from amends.changeset.model.paths import spell
from amends.dataclass import dataclass
from amends.errors import PathError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A sealed layer, as a journal names it: its digest covers every path of it."""

    changeset: str
    number: int
    name: str
    digest: str
    totals: Totals
    moved: tuple[str, ...] = ()
    """Paths that someone else changed in the tree while the step worked on them: drop the step and do it again."""
    is_dropped: bool = False
    """It was dropped from under others, and changes nothing any more."""

    def data(self) -> Fields:
        return {
            "changeset": self.changeset,
            "number": self.number,
            "name": self.name,
            "digest": self.digest,
            "files": self.totals.files,
            "added_lines": self.totals.added_lines,
            "removed_lines": self.totals.removed_lines,
            "bytes": self.totals.bytes,
            "moved": list(self.moved),
            "dropped": self.is_dropped,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A layer that is gone, sealed or not."""

    changeset: str
    number: int
    name: str

    def data(self) -> Fields:
        return {"changeset": self.changeset, "number": self.number, "name": self.name}


def sealed(layer: Layer) -> Sealed:
    return Sealed(
        changeset=layer.begun.changeset,
        number=layer.number,
        name=layer.name,
        digest=layer.digest,
        totals=layer.totals,
        moved=tuple(spell(path) for _, path in layer.moved),
        is_dropped=layer.is_dropped,
    )


class Take(StrEnum):
    OURS = "ours"
    THEIRS = "theirs"
    MERGED = "merged"


def as_take(word: str) -> Take:
    if word not in set(Take):
        raise PathError(f"{word!r} is no way to resolve a conflict: say {', '.join(Take)}")
    return Take(word)
