"""Globs: the one kind of pattern there is, in a policy's conditions, its approvers and a pause's topics.

`*` is any run of characters and `?` is one; `[*]` and `[?]` are those characters themselves. In a dotted name (a topic,
a definition) neither crosses a dot, and `**` stands for one or more whole segments: `payments.*` is `payments.charge`
and not `payments.card.charge`, `payments.**` is both.

A value to match may be long and come from an agent, so the time is bounded by its length times the pattern's: a run is
never tried again once what follows it was found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

Matches = Callable[[str], bool]

_PIECES: Final = re.compile(r"(\*+|\?|\[\*\]|\[\?\])")
_RUN: Final = "**"


def is_glob(pattern: str) -> bool:
    return _PIECES.search(pattern) is not None


def some_match(pattern: str, run: str) -> str:
    """One of the texts that a pattern matches: with `run` for each run, and a letter for each single character."""
    return "".join(_filled(piece, run) for piece in _PIECES.split(pattern))


def _filled(piece: str, run: str) -> str:
    if piece.startswith("*"):
        return run
    return "x" if piece == "?" else piece[1] if _is_escape(piece) else piece


def glob(pattern: str, *, dotted: bool = False) -> Matches:
    """A test of whole strings. In a dotted pattern a `**` has to be a segment of its own; see `misplaced_run`."""
    return _dotted(pattern.split(".")) if dotted and is_glob(pattern) else _plain(pattern)


def misplaced_run(pattern: str) -> bool:
    """Whether a dotted pattern has a `**` that is not a whole segment: nobody could say what it crosses."""
    return any(_RUN in segment and segment != _RUN for segment in pattern.split("."))


def _plain(pattern: str) -> Matches:
    if not is_glob(pattern):
        return pattern.__eq__
    if not is_glob(pattern[:-1]) and pattern[-1:] == "*":
        prefix = pattern[:-1]
        return lambda text: text.startswith(prefix)
    if pattern[:1] == "*" and not is_glob(pattern[1:]):
        suffix = pattern[1:]
        return lambda text: text.endswith(suffix)
    blocks = [""]
    for piece in _PIECES.split(pattern):
        if piece.startswith("*"):
            blocks.append("")
        else:
            blocks[-1] += "." if piece == "?" else re.escape(piece[1] if _is_escape(piece) else piece)
    first, *others = blocks
    middle = "".join(f"(?>.*?{block})" for block in others[:-1] if block)
    last = f".*{others[-1]}" if others else ""
    found = re.compile(first + middle + last, re.DOTALL).fullmatch
    return lambda text: found(text) is not None


def _is_escape(piece: str) -> bool:
    return piece in {"[*]", "[?]"}


def _dotted(segments: Sequence[str]) -> Matches:
    """Segment by segment; after a `**`, what follows is looked for at the next place and never before the last one."""
    tests = [None if segment == _RUN else _plain(segment) for segment in segments]

    def found(name: str) -> bool:
        parts = name.split(".")
        at, place, again, resume = 0, 0, -1, 0
        while place < len(parts):
            test = tests[at] if at < len(tests) else _never
            if test is None:
                again, resume = at, place + 1
                at, place = at + 1, place + 1
            elif test(parts[place]):
                at, place = at + 1, place + 1
            elif again >= 0:
                at, place = again + 1, resume + 1
                resume += 1
            else:
                return False
        return at == len(tests)

    return found


def _never(_: str) -> bool:
    return False
