"""Where a page ended, as text to be handed back. It names a key, never an offset, so new rows do not shift pages."""

from __future__ import annotations

from typing import Final

from amends.errors import InputError

_DIGITS: Final = 18  # more does not fit into a column


def spell(*key: int) -> str:
    return ".".join(map(str, key))


def read(cursor: str, parts: int) -> tuple[int, ...]:
    """Raises InputError for what no page has said."""
    texts = cursor.split(".")
    if len(texts) != parts or not all(_is_number(text) for text in texts):
        raise InputError(f"{cursor!r} is not a cursor; pass the one that the page before came with, unchanged")
    return tuple(map(int, texts))


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii() and len(text) <= _DIGITS
