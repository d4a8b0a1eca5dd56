"""The result of a drill: a matrix of faults and steps, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from amends.core.words.contracts import Contract
from amends.core.words.values import BUILT_IN, Json, StepId
from amends.dataclass import dataclass
from amends.drill.faults import BACK, FORWARD, OF_SAGA, Fault, Place
from amends.drill.findings import Finding, Mark, worst


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One fault at one place: how it came out, why, and how many runs that took."""

    place: Place
    mark: Mark
    findings: tuple[Finding, ...] = ()
    runs: int = 1
    ended: str = ""
    """How the saga stood when it first ended."""

    @property
    def fault(self) -> Fault:
        return self.place.fault

    @property
    def step(self) -> StepId:
        return self.place.step


@dataclass(frozen=True, slots=True, kw_only=True)
class Drilled:
    """A step of the saga, in the order in which they began."""

    id: StepId
    contract: Contract
    child: str = ""
    """The saga that it calls, where it calls one."""

    @property
    def topic(self) -> str:
        return self.contract.topic

    @property
    def title(self) -> str:
        return self.child or self.topic


def is_users(topic: str) -> bool:
    """Whether an action is somebody's own, and not built in: then its code may change."""
    return not topic.startswith(BUILT_IN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    saga: str
    version: int
    env: str
    input: Json
    steps: tuple[Drilled, ...]
    cells: tuple[Cell, ...]
    runs: int
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """Of the definition (under its name) and of each action (under its topic), as their code stands."""
    children: tuple[str, ...] = ()
    """The sagas that it calls, and those that they call: name/version."""
    covered: tuple[tuple[StepId, StepId], ...] = ()
    """Steps whose effect a later one takes away, and by which: at the end they need not stand."""
    only: tuple[str, ...] = ()
    """What was tried, where that is not all."""
    quick: bool = False
    """Whether only the fewest runs were made in which every compensation works once."""

    @property
    def kind(self) -> str:
        """The kind of drill that it counts as, on record and in a policy."""
        return "part" if self.only else "quick" if self.quick else "whole"

    @property
    def notes(self) -> Iterator[tuple[str, str]]:
        """Notes on this matrix: by name, in words."""
        for step, by in self.covered:
            taken = f"step {by} ({self.topic_of(by)}) takes its effect away, and gives it back when it is taken back"
            yield "covered", f"step {step} ({self.topic_of(step)}): {taken}"
        if self.children:
            yield "children", self.left_to_children
        if self.quick:
            yield "quick", "each compensation was called; crashes, lost answers and repeats are for a whole drill"

    @property
    def left_to_children(self) -> str:
        """A sentence on what this matrix does not show of a saga that calls others."""
        names = ", ".join(dict.fromkeys(child.rpartition("/")[0] for child in self.children))
        return f"{names} ran as part of it; what goes wrong at a step inside of a child is for the child's own drill"

    @property
    def mark(self) -> Mark:
        return worst(cell.mark for cell in self.cells)

    @property
    def passed(self) -> bool:
        """Whether nothing failed and everything could be seen."""
        return self.mark is Mark.PASSED

    @property
    def has_failed(self) -> bool:
        return self.mark is Mark.FAILED

    def __str__(self) -> str:
        """Findings that failed or are not proven, each with its places, and a line that sums it up."""
        lines = [
            f"{mark}: {finding}\n    in {', '.join(str(cell.place) for cell in cells)}"
            for mark in (Mark.FAILED, Mark.NOT_PROVEN)
            for finding, cells in self.findings(mark)
        ]
        lines += [f"{name}: {told}" for name, told in self.notes]
        counts = ", ".join(f"{count} {mark}" for mark, count in self.counts().items())
        return "\n".join([*lines, f"drill of {self.saga}: {len(self.cells)} cells, {self.runs} runs: {counts}"])

    def counted(self) -> dict[str, int]:
        """Cells by how they came out, and runs."""
        return {**{str(mark): count for mark, count in self.counts().items()}, "runs": self.runs}

    def counts(self) -> dict[Mark, int]:
        return {mark: sum(cell.mark is mark for cell in self.cells) for mark in Mark}

    def cell(self, fault: Fault, step: str = "") -> Cell | None:
        return next((cell for cell in self.cells if (cell.fault, cell.step) == (fault, step)), None)

    def topic_of(self, step: str) -> str:
        return next((each.topic for each in self.steps if each.id == step), "")

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Faults that were tried anywhere, in the order of the matrix."""
        tried = {cell.fault for cell in self.cells}
        return tuple(fault for fault in (*OF_SAGA, *FORWARD, *BACK) if fault in tried)

    def findings(self, mark: Mark = Mark.FAILED) -> Iterator[tuple[Finding, tuple[Cell, ...]]]:
        """Each thing that was found, once, with the cells that it was found in."""
        places: dict[Finding, list[Cell]] = {}
        for cell in self.cells:
            for finding in cell.findings:
                if finding.mark is mark:
                    places.setdefault(finding, []).append(cell)
        for finding, cells in places.items():
            yield finding, tuple(cells)

    def mark_of(self, topic: str) -> Mark:
        """How one action came out, in all runs: what was found about it, and what went wrong at its own steps."""
        mine = {step.id for step in self.steps if step.topic == topic}
        own = (cell.mark for cell in self.cells if cell.step in mine and cell.mark is Mark.FAILED)
        about = (each.mark for cell in self.cells for each in cell.findings if each.topic == topic)
        return worst(iter([*own, *about]))
