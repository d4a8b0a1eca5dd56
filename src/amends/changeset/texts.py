"""Text or not, and how many lines differ: what limits, diffs and merges have in common."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

LARGEST_TEXT: Final = 8 * 1024 * 1024
"""Content above this is compared as a whole, never line by line."""
_LOOKED_AT: Final = 8192
_MOST_PAIRS: Final = 25_000_000


def is_text(content: bytes) -> bool:
    """Whether it is worth showing line by line: UTF-8 without zero bytes, and not too much of it."""
    if len(content) > LARGEST_TEXT or b"\0" in content[:_LOOKED_AT]:
        return False
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def lines_of(content: bytes) -> list[bytes]:
    """With their ends; only a newline ends a line, so that carriage returns and form feeds stay where they are."""
    lines = content.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def matching(one: Sequence[bytes], other: Sequence[bytes]) -> list[tuple[int, int, int]] | None:
    """Runs of equal lines as (start, start, length), the last one empty at the ends. None: too much to compare."""
    head = 0
    while head < len(one) and head < len(other) and one[head] == other[head]:
        head += 1
    tail = 0
    while tail < min(len(one), len(other)) - head and one[-1 - tail] == other[-1 - tail]:
        tail += 1
    middle, opposite = one[head : len(one) - tail], other[head : len(other) - tail]
    if len(middle) * len(opposite) > _MOST_PAIRS:
        return None
    found = difflib.SequenceMatcher(None, middle, opposite, autojunk=False).get_matching_blocks()[:-1]
    blocks = [(0, 0, head)] if head else []
    blocks += [(block.a + head, block.b + head, block.size) for block in found]
    if tail:
        blocks.append((len(one) - tail, len(other) - tail, tail))
    return [*blocks, (len(one), len(other), 0)]


def changed_lines(before: bytes, after: bytes) -> tuple[int, int]:
    """How many lines were added and removed; of what is no text, none."""
    if not is_text(before) or not is_text(after):
        return (0, 0)
    old, new = lines_of(before), lines_of(after)
    blocks = matching(old, new)
    equal = 0 if blocks is None else sum(length for _, _, length in blocks)
    return (len(new) - equal, len(old) - equal)
