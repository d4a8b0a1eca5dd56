"""Going over a journal's entries one by one, and saying what can be said of each. Pure; for a bundle or a live journal.

Three things are held against each other: what an entry holds against the hash that it states, that hash against the
tree, the tree's root against what was signed. So every entry that is there is one of these:

| covered    | it is what its hash says, and a signed root stands over it that the hashes make                       |
| unattested | nothing signed stands over it: it came after, or what would tie it to a signed root is not there      |
| altered    | it is not what its hash says, or is out of place, or the hashes do not make the root that was signed  |

And what should be there and is not is missing. Where hashes do not make a root, and no entry gives itself away, all
from the last good root on are called altered: one of them is, and nobody can say which.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Final

from amends.evidence.spans import Span, Spans
from amends.journal.attested import Stored
from amends.journal.codec import FIRST, chain, removed_digest
from amends.journal.tree import Tree, leaf

MOST_FINDINGS: Final = 100


class Conclusion(StrEnum):
    COVERED = "covered"
    UNATTESTED = "unattested"
    FAILED = "failed"


@dataclass(slots=True, kw_only=True)
class Report:
    """Positions of entries, and words about them. `hidden`: missing from a saga, at a position nobody can tell."""

    covered: Spans = field(default_factory=Spans)
    unattested: Spans = field(default_factory=Spans)
    missing: Spans = field(default_factory=Spans)
    altered: Spans = field(default_factory=Spans)
    hidden: int = 0
    removed: int = 0
    attested: int = 0
    """The size that a signed root covers."""
    findings: list[str] = field(default_factory=list[str])
    troubles: list[str] = field(default_factory=list[str])

    @property
    def conclusion(self) -> Conclusion:
        if len(self.altered) or len(self.missing) or self.hidden or self.troubles:
            return Conclusion.FAILED
        if len(self.unattested) or not self.attested:
            return Conclusion.UNATTESTED
        return Conclusion.COVERED

    def fields(self) -> dict[str, object]:
        """For a program."""
        return {
            "conclusion": self.conclusion.value,
            "attested": self.attested,
            "covered": {"count": len(self.covered), "entries": str(self.covered)},
            "unattested": {"count": len(self.unattested), "entries": str(self.unattested)},
            "missing": {"count": len(self.missing) + self.hidden, "entries": str(self.missing)},
            "altered": {"count": len(self.altered), "entries": str(self.altered)},
            "removed": self.removed,
            "findings": list(self.findings),
            "troubles": list(self.troubles),
        }


class Examination:
    """Given signed roots with their sizes, then fed with entries in order; `finish` says what it found.

    `size`: how many entries there are said to be, where somebody says so. `is_part`: some are left out on purpose.
    """

    def __init__(self, signed: Iterable[tuple[int, bytes]], *, size: int = 0, is_part: bool = False) -> None:
        self.report = Report()
        self.has_branches = False
        by_size = groupby(sorted(signed), key=itemgetter(0))
        self._signed: list[tuple[int, set[bytes]]] = [(one, {root for _, root in same}) for one, same in by_size]
        self._until = max([size, *(one for one, _ in self._signed[-1:])])
        self._is_part = is_part
        self._checked = 0
        self._due: float = 0
        self._good = 0
        self._bad: list[Span] = []
        self._tree = Tree()
        self._is_whole = True
        self._next = 1
        self._heads: dict[str, tuple[int, bytes]] = {}
        self._present = Spans()
        self._untied = Spans()
        self._missing_numbers = 0
        self._hold_against_signed()

    @property
    def root(self) -> bytes | None:
        """Of the tree over everything up to here; None where something is missing."""
        return self._tree.root if self._is_whole else None

    @property
    def sagas(self) -> Iterable[str]:
        """Those of which there was an entry."""
        return self._heads

    def entry(self, stored: Stored) -> bool:
        """Whether it is what its hash says."""
        position, saga, number, at, name, body, hashed = stored
        if position < self._next:
            self._alter(stored, "it is out of place, or here twice")
            return False
        self._reach(position)
        self._present.add(position)
        newest, previous = self._heads.get(saga, (0, FIRST))
        self._heads[saga] = (number, hashed)
        is_good = False
        if number > newest + 1:
            self._missing_numbers += number - newest - 1
            self._untied.add(position)
        elif number <= newest:
            self._alter(stored, f"its saga had come to entry {newest} before")
        elif chain(previous, saga, number, at, name, body) != hashed:
            self._alter(stored, "it is not what its hash says")
        else:
            is_good = True
        if body[:1] != "{":
            self.report.removed += removed_digest(body) is not None
        self._grow(leaf(hashed), 0)
        self._next = position + 1
        return is_good

    def branch(self, position: int, height: int, hashed: bytes) -> bool:
        """A full subtree of entries that are not shown, from this position on; False where none can be there."""
        if position < self._next or (position - 1) % (1 << height):
            return False
        self._reach(position)
        self.has_branches = True
        self._grow(hashed, height)
        self._next = position + (1 << height)
        return True

    def alter(self, position: int, why: str) -> None:
        """Something that belongs to an entry, and is not in it, is not as it was."""
        self.report.altered.add(position)
        self._find(f"entry {position}: {why}")

    def finish(self) -> Report:
        report = self.report
        report.missing.add(self._next, self._until)
        report.hidden = max(0, self._missing_numbers - len(report.missing))
        if report.hidden:
            self._find(f"{report.hidden} entries of the sagas that are shown are left out")
        for first, size in self._bad:
            if not report.altered.meets(first, size):
                report.altered.add(first, size)
                self._find(f"entries {first} to {size}: together they do not make the root that was signed")
        report.attested = self._good
        tied = self._present.up_to(self._good) - self._bad - self._untied - report.altered
        report.covered = tied
        report.unattested = self._present - tied - report.altered
        return report

    # -- its own ------------------------------------------------------------------------------------------------------

    def _reach(self, position: int) -> None:
        """Of a part, positions past the last signed root may be left out: no branch can stand for them."""
        if position > self._next:
            self.report.missing.add(self._next, min(position - 1, self._until) if self._is_part else position - 1)
            self._is_whole = False

    def _grow(self, hashed: bytes, height: int) -> None:
        if self._is_whole:
            self._tree.add(hashed, height)
            if self._tree.size >= self._due:
                self._hold_against_signed()

    def _hold_against_signed(self) -> None:
        while self._checked < len(self._signed) and self._signed[self._checked][0] <= self._tree.size:
            size, roots = self._signed[self._checked]
            self._checked += 1
            if size < self._tree.size:
                self.report.troubles.append(
                    f"what is shown cannot be held against the checkpoint of {size} entries; "
                    "have the bundle made for it: amends evidence export --checkpoint"
                )
                continue
            if roots != {self._tree.root}:
                self._bad.append((self._good + 1, size))
            if self._tree.root in roots:
                self._good = size
        self._due = self._signed[self._checked][0] if self._checked < len(self._signed) else math.inf

    def _alter(self, stored: Stored, why: str) -> None:
        self.report.altered.add(stored.position)
        self._find(f"entry {stored.position} (saga {stored.saga}, number {stored.number}): {why}")

    def _find(self, finding: str) -> None:
        if len(self.report.findings) < MOST_FINDINGS:
            self.report.findings.append(finding)
