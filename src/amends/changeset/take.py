"""Which side a conflict is resolved to."""

from __future__ import annotations

from enum import StrEnum

from amends.errors import PathError


class Take(StrEnum):
    OURS = "ours"
    THEIRS = "theirs"
    MERGED = "merged"


def as_take(word: str) -> Take:
    if word not in set(Take):
        raise PathError(f"{word!r} is no way to resolve a conflict: say {', '.join(Take)}")
    return Take(word)
