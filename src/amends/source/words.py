"""The right word that a wrong one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LONGEST_WORD: Final = 64


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The right word that this one was probably meant to be."""
    import difflib  # only mistakes need it

    words = list(known)
    short = word[:_LONGEST_WORD]
    close = difflib.get_close_matches(short, words, n=1) or [
        right for right in words if short.startswith(right) or right.startswith(short)
    ]
    return close[0] if close and short else None
