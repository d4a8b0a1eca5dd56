"""Sets of positions that are mostly runs: 1-980, 985. Small however long the runs are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

Span = tuple[int, int]


class PositionRanges:
    """First and last of each run, in order, never touching. What is added out of order waits until somebody looks."""

    __slots__ = ("_late", "_runs")

    def __init__(self, runs: Iterable[Span] = ()) -> None:
        self._runs: list[Span] = []
        self._late: list[Span] = []
        for first, last in runs:
            self.add(first, last)

    def add(self, first: int, last: int | None = None) -> None:
        """One position, or all from the first to the last. It costs little, in whatever order they come."""
        last = first if last is None else last
        runs = self._runs
        if last < first:
            return
        if not runs or first > runs[-1][1] + 1:
            runs.append((first, last))
        elif runs[-1][0] <= first:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last))
        else:
            self._late.append((first, last))

    def _sorted(self) -> list[Span]:
        if self._late:
            every = sorted([*self._runs, *self._late])
            self._runs, self._late = [], []
            for first, last in every:
                self.add(first, last)
        return self._runs

    def __iter__(self) -> Iterator[Span]:
        return iter(self._sorted())

    def __len__(self) -> int:
        """How many positions: a run counts with all of its own."""
        return sum(last - first + 1 for first, last in self._sorted())

    def __sub__(self, other: Iterable[Span]) -> PositionRanges:
        """One pass over both, however many runs there are."""
        left, gone, place = PositionRanges(), sorted(other), 0
        for first, last in self:
            begin = first
            while place < len(gone) and gone[place][0] <= last:
                left.add(begin, gone[place][0] - 1)
                begin = max(begin, gone[place][1] + 1)
                if gone[place][1] > last:
                    break  # it may take something of the next run too
                place += 1
            left.add(begin, last)
        return left

    def up_to(self, most: int) -> PositionRanges:
        return PositionRanges((first, min(last, most)) for first, last in self)

    def meets(self, first: int, last: int) -> bool:
        runs = self._sorted()
        place = bisect_left(runs, first, key=lambda run: run[1])
        return place < len(runs) and runs[place][0] <= last

    def __str__(self) -> str:
        return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in self)
