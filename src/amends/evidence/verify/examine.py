"""Going over a journal's entries one by one, and saying what can be said of each. Pure; for a bundle or a live journal.

Three things are held against each other: what an entry holds against the hash that it states, that hash against the
tree, the tree's root against what was signed. So every entry that is there is one of these:

| covered    | it is what its hash says, and a signed root stands over it that the hashes make                       |
| unattested | nothing signed stands over it: it came after, or what would tie it to a signed root is not there      |
| altered    | it is not what its hash says, or is out of place, or the hashes do not make the root that was signed  |

What an entry held may have been removed since: its digest stands in its place, and its hash is the same. For that a
later entry of the same saga has to say who removed it and why (`content.removed`), signed like the entry itself. What
is gone without such a record is damage.

And what should be there and is not is missing. Where hashes do not make a root, and no entry gives itself away, all
from the last good root on are called altered: one of them is, and nobody can say which.

Whether a journal can be used, and not only whether it is as it was signed: each saga read as its driver would.

Signatures cover entries. What leads to them (a file's indexes, the row that says where a saga stands) and whether they
make sense together is seen by reading: the store checks itself, and every saga's entries are decoded and folded.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, cast

from amends.core.state.saga import evolve, unstarted
from amends.core.words.values import SagaId
from amends.errors import AmendsError
from amends.evidence.proof.check import ProofCheck
from amends.evidence.verify.positions import PositionRanges, Span
from amends.journal.codec import FIRST, chain, is_removal, removed_digest
from amends.journal.port.evidence import Stored
from amends.journal.port.journal import Journal
from amends.journal.tree import Tree, leaf

MOST_FINDINGS: Final = 100


class Conclusion(StrEnum):
    COVERED = "covered"
    UNATTESTED = "unattested"
    FAILED = "failed"


class Said(NamedTuple):
    """Author of a removal, and the reason. `was_gone`: they found it gone, and vouch for it."""

    by: str
    why: str
    was_gone: bool


@dataclass(slots=True)
class Removed:
    """Removal by one person for one reason: of how many sagas, how many entries, and from when to when."""

    said: Said
    sagas: int
    entries: int
    first_at: int
    last_at: int

    def fields(self) -> dict[str, object]:
        counts = {"sagas": self.sagas, "entries": self.entries, "first_at": self.first_at, "last_at": self.last_at}
        return {**self.said._asdict(), **counts}


@dataclass(slots=True, kw_only=True)
class VerificationReport:
    """Positions of entries, and words about them. `hidden`: missing from a saga, at a position nobody can tell."""

    covered: PositionRanges = field(default_factory=PositionRanges)
    unattested: PositionRanges = field(default_factory=PositionRanges)
    missing: PositionRanges = field(default_factory=PositionRanges)
    altered: PositionRanges = field(default_factory=PositionRanges)
    gone: PositionRanges = field(default_factory=PositionRanges)
    """Of which what they held is gone, and no signed entry says who removed it."""
    may_be_gone: bool = False
    """Whether that is taken for a removal from before removals were on record."""
    unproved: PositionRanges = field(default_factory=PositionRanges)
    """Of decisions that are not signed by whoever is said to have made them."""
    proved: int = 0
    """How many decisions are."""
    hidden: int = 0
    removed: int = 0
    removals: list[Removed] = field(default_factory=list[Removed])
    attested: int = 0
    """The size that a signed root covers."""
    findings: list[str] = field(default_factory=list[str])
    troubles: list[str] = field(default_factory=list[str])

    @property
    def conclusion(self) -> Conclusion:
        is_gone = len(self.gone) and not self.may_be_gone
        if len(self.altered) or len(self.missing) or self.hidden or is_gone or self.troubles or len(self.unproved):
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
            "gone": {"count": len(self.gone), "entries": str(self.gone)},
            "unproved": {"count": len(self.unproved), "entries": str(self.unproved)},
            "proved": self.proved,
            "removed": self.removed,
            "removals": [one.fields() for one in self.removals],
            "findings": list(self.findings),
            "troubles": list(self.troubles),
        }


class Examination:
    """Given signed roots with their sizes, then fed with entries in order; `finish` says what it found.

    `size`: how many entries there are said to be, where somebody says so. `is_part`: some are left out on purpose.
    `may_be_gone`: what is gone without a record is told, and does not fail. `root`: of the roster, where it is known.
    """

    def __init__(
        self,
        signed: Iterable[tuple[int, bytes]],
        *,
        size: int = 0,
        is_part: bool = False,
        may_be_gone: bool = False,
        root: str | None = None,
    ) -> None:
        self.proofs = ProofCheck(root)
        self.report = VerificationReport(may_be_gone=may_be_gone)
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
        self._present = PositionRanges()
        self._untied = PositionRanges()
        self._missing_numbers = 0
        self._empty: dict[str, list[tuple[int, int]]] = {}
        self._recorded: list[tuple[int, int, Said, list[int]]] = []
        self._hold_against_signed()

    @property
    def root(self) -> bytes | None:
        """Of the tree over everything up to here; None where something is missing."""
        return self._tree.root if self._is_whole else None

    @property
    def sagas(self) -> Iterable[str]:
        """Sagas of which there was an entry."""
        return self._heads

    def entry(self, stored: Stored) -> bool:
        """Whether it is what its hash says."""
        position, saga, number, at, name, body, hashed = stored
        if position < self._next:
            self._alter(stored, "it is out of place, or here twice")
            return False
        self._reach(position)
        self._present.add(position)
        self.proofs.take(stored)
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
        if body[:1] != "{" and removed_digest(body) is not None:
            self.report.removed += 1
            self._empty.setdefault(saga, []).append((number, position))
        elif saga in self._empty and is_good and is_removal(name):
            self._take_record(stored)
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

    def finish(self) -> VerificationReport:
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
        self._tell_removals()
        self._tell_unproved()
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
                    "have the bundle made for it: amends evidence export --tree-head"
                )
                continue
            if roots != {self._tree.root}:
                self._bad.append((self._good + 1, size))
            if self._tree.root in roots:
                self._good = size
        self._due = self._signed[self._checked][0] if self._checked < len(self._signed) else math.inf

    def _take_record(self, stored: Stored) -> None:
        """Note who removed what the entries before this one held. Whether it is signed is seen at the end."""
        found = _removal(stored.body)
        if found is None:
            return
        until, said = found
        empty = self._empty.pop(stored.saga)
        self._recorded.append((stored.position, stored.at, said, [place for number, place in empty if number <= until]))
        left = [(number, place) for number, place in empty if number > until]
        if left:
            self._empty[stored.saga] = left

    def _tell_removals(self) -> None:
        report = self.report
        told: dict[Said, Removed] = {}
        for position, at, said, places in self._recorded:
            is_signed = report.covered.meets(position, position)
            unsaid = [] if is_signed else [place for place in places if report.covered.meets(place, place)]
            for place in unsaid:
                report.gone.add(place)
            if len(unsaid) == len(places):
                continue
            removed = told.setdefault(said, Removed(said, 0, 0, at, at))
            removed.sagas += 1
            removed.entries += len(places) - len(unsaid)
            removed.first_at, removed.last_at = min(removed.first_at, at), max(removed.last_at, at)
        for empty in self._empty.values():
            for _, place in empty:
                report.gone.add(place)
        report.removals = list(told.values())
        if len(report.gone):
            self._find(f"entries {report.gone}: what they held is gone, and no signed entry says who removed it")

    def _tell_unproved(self) -> None:
        for stored, why in self.proofs.judge():
            if stored is None:
                self.report.troubles.append(why)
                continue
            self.report.unproved.add(stored.position)
            self._find(f"entry {stored.position} (saga {stored.saga}, number {stored.number}) is not proved: {why}")
        self.report.proved = self.proofs.proved

    def _alter(self, stored: Stored, why: str) -> None:
        self.report.altered.add(stored.position)
        self._find(f"entry {stored.position} (saga {stored.saga}, number {stored.number}): {why}")

    def _find(self, finding: str) -> None:
        if len(self.report.findings) < MOST_FINDINGS:
            self.report.findings.append(finding)


def _removal(body: str) -> tuple[int, Said] | None:
    """Up to which entry of its saga a record speaks, and who stands behind it; None where it is none."""
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if type(found) is not dict:
        return None
    fields = cast("dict[str, Any]", found)
    until, by, why, was_gone = (fields.get(name) for name in ("entries", "by", "why", "was_gone"))
    if type(until) is not int or type(by) is not str or type(why) is not str:
        return None
    return until, Said(by, why, was_gone is True)


DAMAGED: Final = (
    "stop what writes to it and copy the file with its -wal before anything else; then amends evidence verify "
    "--journal COPY says what of it is as it was signed. Where only an index is damaged, sqlite3 COPY REINDEX makes it "
    "anew; else restore a backup, and compare what providers say with it"
)
"""What to do about a damaged journal."""


async def trouble_in(journal: Journal, saga: SagaId) -> str | None:
    """Why nobody can read a saga; None where all of it that was not removed can be read, and makes sense."""
    state, is_removed = unstarted(saga), False
    try:
        async for entry in journal.read(saga):
            is_removed = is_removed or entry.is_removed
            state = state if is_removed else evolve(state, entry.event)
    except AmendsError as exc:
        return f"saga {saga} cannot be read: {exc}"
    if not is_removed and not state.head:
        return f"saga {saga} has entries, and cannot be found by its name"
    return None


async def troubles_in(journal: Journal, sagas: Iterable[str]) -> AsyncIterator[str]:
    for saga in sagas:
        found = await trouble_in(journal, SagaId(saga))
        if found is not None:
            yield found


async def store_troubles(journal: Journal, *, within_s: float | None = None) -> tuple[list[str], bool]:
    """Troubles that the store finds in itself, and whether it came to an end within that time."""
    found = await journal.inspect(within_s=within_s)
    return [f"the journal's file is damaged: {each}" for each in found.troubles], found.is_whole
