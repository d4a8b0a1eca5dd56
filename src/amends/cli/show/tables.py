"""Rows for a person: on a terminal as wide as what is in them and no wider than it, elsewhere of fixed widths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amends.cli.show.output import Output, Part

_GAP: Final = 2
_LEAST: Final = 24
"""With less room than this, the last column goes below its row."""


class Table:
    """`heads` are names and widths; the last has none, and takes what is left. `spare` go first where it is narrow."""

    def __init__(self, out: Output, heads: Sequence[tuple[str, int]], *, spare: Sequence[str] = ()) -> None:
        self._out = out
        self._heads = heads
        self._spare = spare
        self._widths: list[int] | None = None
        self._is_below = False

    def say(self, rows: Sequence[Sequence[Part]]) -> None:
        """These rows; before the first ones, the heads."""
        if self._out.as_json or not rows:
            return
        if self._widths is None:
            self._fit(rows)
            heads: list[Part] = [(name, "dim") for name, _ in self._heads]
            self._row([*heads[:-1], "" if self._is_below else heads[-1]])
        for row in rows:
            self._row(row)

    def _fit(self, rows: Sequence[Sequence[Part]]) -> None:
        fixed = [width for _, width in self._heads]
        self._widths = fixed
        if not self._out.is_terminal:
            return
        for place, (name, _) in enumerate(self._heads[:-1]):
            fixed[place] = max(len(name), *(len(_text(row[place]).rstrip()) for row in rows))
        room = self._out.console.width
        for name in self._spare:
            if self._taken() <= room:
                break
            fixed[[head for head, _ in self._heads].index(name)] = -_GAP
        last = max(len(_text(row[-1])) for row in rows)
        self._is_below = room - self._taken() < min(last, _LEAST)

    def _taken(self) -> int:
        return sum(width + _GAP for width in (self._widths or [])[:-1])

    def _row(self, row: Sequence[Part]) -> None:
        left: list[Part] = []
        for part, width in zip(row[:-1], self._widths or [], strict=False):
            if width >= 0:
                left.append((f"{_text(part).rstrip():<{width}}{'':{_GAP}}", _style(part)))
        if not self._is_below:
            self._out.say_beside(left, row[-1])
            return
        self._out.say(*left)
        if _text(row[-1]):
            self._out.say_beside(["  "], row[-1])


def _text(part: Part) -> str:
    return part if isinstance(part, str) else part[0]


def _style(part: Part) -> str:
    return "" if isinstance(part, str) else part[1]
