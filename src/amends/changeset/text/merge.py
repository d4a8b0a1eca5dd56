"""Three versions of a text into one: what only one side changed is taken, what both changed alike is taken once.

Lines are compared by their bytes, so CRLF, a missing last newline and a byte order mark are changes like any other.
Changes that touch each other without a common line between them are in conflict.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from amends.changeset.text.lines import is_text, lines_of, matching
from amends.dataclass import dataclass

Lines: TypeAlias = Sequence[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Where the two sides are in conflict: ranges of lines, counted from 1, the end not included."""

    ancestor: tuple[int, int]
    ours: tuple[int, int]
    theirs: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The text, with marks around the hunks that are in conflict; without hunks it is clean."""

    content: bytes
    hunks: tuple[Hunk, ...] = ()


def merge(ancestor: bytes, ours: bytes, theirs: bytes, *, patience_s: float = 20.0) -> Merged | None:
    """None: these are no texts, or more than can be compared."""
    if not (is_text(ancestor) and is_text(ours) and is_text(theirs)):
        return None
    old, mine, other = lines_of(ancestor), lines_of(ours), lines_of(theirs)
    left, right = matching(old, mine), matching(old, other)
    if left is None or right is None:
        return _by_git(ancestor, ours, theirs, patience_s)
    pieces: list[bytes] = []
    hunks: list[Hunk] = []
    for a, b, c in _regions(left, right):
        base, one, two = old[slice(*a)], mine[slice(*b)], other[slice(*c)]
        if two in (one, base):
            pieces += one
        elif one == base:
            pieces += two
        else:
            hunks.append(Hunk(ancestor=_counted(a), ours=_counted(b), theirs=_counted(c)))
            pieces += [b"<<<<<<< ours\n", *_ended(one), b"||||||| ancestor\n", *_ended(base)]
            pieces += [b"=======\n", *_ended(two), b">>>>>>> theirs\n"]
    return Merged(content=b"".join(pieces), hunks=tuple(hunks))


def take_out(new: bytes, edited: bytes, old: bytes) -> bytes | None:
    """The text that somebody would have made of the old one, by their edit of the new. None: the two cannot be told
    apart.

    A merge that goes backwards; and where an edit touches our lines without changing them, it is kept beside the old.
    """
    if not (is_text(new) and is_text(edited) and is_text(old)):
        return None
    base, theirs, before = lines_of(new), lines_of(edited), lines_of(old)
    left, right = matching(base, theirs), matching(base, before)
    if left is None or right is None:
        return None
    pieces: list[bytes] = []
    for a, b, c in _regions(left, right):
        ours, one, two = base[slice(*a)], theirs[slice(*b)], before[slice(*c)]
        if two in (one, ours) or (two and two in (one[: len(two)], one[-len(two) :])):
            pieces += one
        elif one == ours or (one and one in (two[: len(one)], two[-len(one) :])):
            pieces += two
        elif one[: len(ours)] == ours:
            pieces += two + one[len(ours) :]
        elif one[len(one) - len(ours) :] == ours:
            pieces += one[: len(one) - len(ours)] + two
        else:
            return None
    return b"".join(pieces)


Range: TypeAlias = tuple[int, int]


def _regions(left: list[tuple[int, int, int]], right: list[tuple[int, int, int]]) -> Iterator[tuple[Range, ...]]:
    """Cut all three texts at the lines that they have in common: stretches that differ, then one that is equal."""
    at = (0, 0, 0)
    for a, b, c, length in _common(left, right):
        if (a, b, c) != at:
            yield (at[0], a), (at[1], b), (at[2], c)
        if length:
            yield (a, a + length), (b, b + length), (c, c + length)
        at = (a + length, b + length, c + length)


def _common(left: list[tuple[int, int, int]], right: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Runs of lines that all three have, by their places in the ancestor; the last one is empty, at the ends."""
    one = two = 0
    while one < len(left) and two < len(right):
        (a, b, length), (other, c, extent) = left[one], right[two]
        start, end = max(a, other), min(a + length, other + extent)
        is_last = one == len(left) - 1 and two == len(right) - 1
        if start < end or is_last:
            yield start, b + start - a, c + start - other, end - start
        if is_last:
            return
        if one < len(left) - 1 and (a + length < other + extent or two == len(right) - 1):
            one += 1
        else:
            two += 1


def _counted(place: Range) -> Range:
    return (place[0] + 1, place[1] + 1)


def _ended(lines: Lines) -> list[bytes]:
    """With a newline at the end of the last, so that a mark never stands behind it."""
    return [line if line.endswith(b"\n") else line + b"\n" for line in lines]


def _by_git(ancestor: bytes, ours: bytes, theirs: bytes, patience_s: float) -> Merged | None:
    """Merge by git, where it is there, what is too much for us; only a clean answer is believed."""
    git = shutil.which("git")
    if git is None:
        return None
    with tempfile.TemporaryDirectory() as place:
        for name, content in (("ours", ours), ("ancestor", ancestor), ("theirs", theirs)):
            (Path(place) / name).write_bytes(content)
        try:
            done = subprocess.run(
                [git, "merge-file", "-p", "-q", "ours", "ancestor", "theirs"],
                cwd=place,
                capture_output=True,
                check=False,
                timeout=patience_s,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
    return Merged(content=done.stdout) if done.returncode == 0 else None
