"""Text or not, and how many lines differ: what limits, diffs and merges have in common."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

LARGEST_TEXT: Final = 8 * 1024 * 1024
"""Content above this is compared as a whole, never line by line."""
_LOOKED_AT: Final = 8192
_MOST_PAIRS: Final = 25_000_000
WIDE: Final = 200
"""Characters above which a line counts for more than one."""
_NARROW: Final = 80
"""How many of them then count for one."""
_EACH_END: Final = (
    *(b"\n", b"\r", b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e"),
    *("\u0085".encode(), "\u2028".encode(), "\u2029".encode()),
)
_ENDS: Final = re.compile(rb"\r(?!\n)|[\v\f\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]")
"""What ends a line for some language, editor or terminal, and not for us."""


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


Piece: TypeAlias = tuple[bool, int, int, int, int]
"""Whether it is equal on both sides, and where it begins and ends on each."""


def pieces(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[Piece]:
    """Both sides from their beginning to their end, as runs of lines that are equal and runs that are not."""
    blocks = matching(old, new) or [(len(old), len(new), 0)]
    at, to = 0, 0
    for a, b, length in blocks:
        if a > at or b > to:
            yield False, at, a, to, b
        if length:
            yield True, a, a + length, b, b + length
        at, to = a + length, b + length


# -- how much it is ---------------------------------------------------------------------------------------------------


def changed_lines(before: bytes, after: bytes) -> tuple[int, int]:
    """How many lines were added and removed. What is no text counts whole, on both sides: nobody can look into it."""
    if before == after:
        return (0, 0)
    if not is_text(before) or not is_text(after):
        return (lines_in([after]), lines_in([before]))
    old, new = lines_of(before), lines_of(after)
    return count_lines(old, new, pieces(old, new))


def count_lines(old: Sequence[bytes], new: Sequence[bytes], compared: Iterable[Piece]) -> tuple[int, int]:
    """How many lines these pieces add and remove."""
    different = [piece for piece in compared if not piece[0]]
    added = sum(_weight(line) for _, _, _, c, d in different for line in new[c:d])
    return (added, sum(_weight(line) for _, a, b, _, _ in different for line in old[a:b]))


def _weight(line: bytes) -> int:
    """How many lines a line counts for: what other readers take for the end of one counts, and so does its width."""
    if len(line) <= WIDE and line.isascii() and not _ENDS.search(line):
        return 1
    letters = len(line.decode("utf-8", errors="replace"))
    return max(1 + len(_ENDS.findall(line)), lines_by_size(letters) if letters > WIDE else 1)


def width(line: bytes) -> int:
    """In characters, without its end."""
    return len(line.removesuffix(b"\n").decode("utf-8", errors="replace"))


def lines_in(content: Iterable[bytes]) -> int:
    """How many lines content that is no text counts for; it comes in pieces, as it may be too large to hold."""
    size = ends = 0
    for piece in content:
        size += len(piece)
        ends += sum(map(piece.count, _EACH_END)) - piece.count(b"\r\n")
    return max(1 + ends, lines_by_size(size)) if size else 0


def lines_by_size(size: int) -> int:
    """How many lines content counts for that cannot be read."""
    return -(-size // _NARROW)


def widest_in(content: Iterable[bytes]) -> int:
    """The width in bytes of the widest line of content that comes in pieces."""
    widest = begun = 0
    for piece in content:
        first, *more = piece.split(b"\n")
        widest = max(widest, begun := begun + len(first), *map(len, more))
        begun = len(more[-1]) if more else begun
    return widest
