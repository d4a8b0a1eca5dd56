"""The part of a store that a copy of a whole journal goes through: its tables, row by row, and marks of how far it is.

| mark       | on     | who may write | what it means                                                |
|------------|--------|---------------|--------------------------------------------------------------|
| `copying`  | source | nobody        | a copy of it is being made                                   |
| `moved`    | source | nobody        | the copy is complete, and goes on in its place               |
| `arriving` | target | the copy      | not all of it is there; nobody opens it                      |
| `complete` | target | nobody        | all of it is there, and the source is about to be told       |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from amends.errors import JournalMovedError

TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "saga": (
        "id",
        "name",
        "head",
        "hash",
        "epoch",
        "worker",
        "nudged",
        "status",
        "wake_at",
        "definition",
        "version",
        "env",
        "actor",
        "labels",
        "started_at",
        "updated_at",
        "ended_at",
        "open_incidents",
        "open_approvals",
        "removed",
    ),
    "entry": ("seq", "saga", "number", "at", "name", "body", "hash"),
    "subtree": ("height", "place", "hash"),
    "checkpoint": ("size", "at", "note"),
    "signer": ("id", "key", "at", "note"),
    "blob": ("digest", "data"),
    "blob_use": ("saga", "digest"),
    "saga_topic": ("topic", "started_at", "saga"),
    "saga_label": ("name", "value", "started_at", "saga"),
    "incident": (
        "id",
        "saga",
        "number",
        "kind",
        "step",
        "why",
        "remaining",
        "owner",
        "status",
        "opened_at",
        "closed_at",
    ),
    "approval": ("id", "saga", "step", "topic", "rule", "status", "requested_at", "expires_at"),
    "cursor": ("name", "position", "note"),
    "admission": ("id", "key", "at", "until"),
    "ticket": ("id", "resource", "saga", "owner", "step", "asked_at", "until"),
    "document": ("id", "name", "version", "body", "saga", "by", "key", "at", "takes_back"),
    "tree": ("size", "kept"),
}
"""Tables that are copied, in this order; what is true or false is 1 or 0. Workers live where they are, and stay."""

CopiedRow = Sequence[Any]
COPYING: Final = "copying"
MOVED: Final = "moved"
ARRIVING: Final = "arriving"
COMPLETE: Final = "complete"


class CopyMark(NamedTuple):
    """How far a copy is, and the other place."""

    how: str
    place: str


class Transfer(Protocol):
    """A store that is copied from, or to. Blocking; each call is a transaction."""

    def mark(self) -> CopyMark | None: ...

    def set_mark(self, mark: CopyMark | None) -> None: ...

    def freeze(self, mark: CopyMark) -> None:
        """Have every write be refused, of those too who have it open; whatever was under way is waited for."""
        ...

    def thaw(self) -> None:
        """Let everybody write again, and take the mark away."""
        ...

    def is_empty(self) -> bool: ...

    def rows(self, table: str) -> Iterator[CopiedRow]:
        """All rows, as they were when the first was asked for."""
        ...

    def add(self, table: str, rows: Sequence[CopiedRow]) -> None: ...

    def clear(self) -> None:
        """Remove every row."""
        ...

    def close(self) -> None: ...


def refused(mark: CopyMark) -> str:
    """Why nothing is written to what has this mark."""
    if mark.how == MOVED:
        return f"this journal was moved to {mark.place}; open that one"
    if mark.how == COPYING:
        return f"this journal is being copied to {mark.place}; wait for that, or have it thrown away: --abandon"
    return f"a copy of {mark.place} into this one is not complete; run the same `amends journal copy` again"


def require_whole(place: object, mark: CopyMark | None) -> None:
    """Raises JournalMovedError for the target of a copy that is not complete."""
    if mark is not None and mark.how in {ARRIVING, COMPLETE}:
        raise JournalMovedError(f"{place}: {refused(mark)}")


def chunks(rows: Iterable[CopiedRow], size: int) -> Iterator[list[CopiedRow]]:
    found: list[CopiedRow] = []
    for row in rows:
        found.append(row)
        if len(found) >= size:
            yield found
            found = []
    if found:
        yield found
