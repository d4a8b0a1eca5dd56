"""Many schedules, one after the other, and what they came to."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from amends.testing.simulation.outside import Flaws
from amends.testing.simulation.schedule import simulate


@dataclass(slots=True)
class Tally:
    """`found` are the seeds whose schedules broke a promise, and how."""

    schedules: int = 0
    turns: int = 0
    hours: float = 0.0
    cpu_s: float = 0.0
    ends: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    found: list[tuple[int, list[str]]] = field(default_factory=list[tuple[int, list[str]]])

    def add(self, other: Tally) -> None:
        self.schedules += other.schedules
        self.turns += other.turns
        self.hours += other.hours
        self.cpu_s += other.cpu_s
        self.ends.update(other.ends)
        self.faults.update(other.faults)
        self.found += other.found

    def __str__(self) -> str:
        each_ms = self.cpu_s / max(1, self.schedules) * 1000
        counts = f"{self.schedules:,} schedules, {self.turns:,} turns, {self.hours:,.0f} simulated hours"
        return (
            f"{counts}, {each_ms:.1f} ms of CPU each\n"
            f"  ended: {_counts(self.ends)}\n"
            f"  went wrong: {_counts(self.faults)}\n"
            f"  promises broken: {len(self.found)}"
        )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counter.most_common())


def play(
    seeds: Iterable[int],
    flaws: Flaws = Flaws(),  # noqa: B008 - it never changes
    *,
    stops: bool = False,
    workers: int | None = None,
    is_slow: bool = False,
) -> Tally:
    """The schedules with these seeds; `stops`: up to the first that breaks a promise. The rest as `simulate` has it."""
    tally = Tally()
    begun_s = _cpu_s()
    with _undisturbed():
        for seed in seeds:
            one = simulate(seed, flaws, workers=workers, is_slow=is_slow)
            tally.schedules += 1
            tally.turns += one.turns
            tally.hours += one.hours
            tally.ends[one.status] += 1
            tally.faults.update(one.faults)
            if one.complaints:
                tally.found.append((seed, one.complaints))
                if stops:
                    break
    tally.cpu_s = _cpu_s() - begun_s
    return tally


def _cpu_s() -> float:
    return sum(os.times()[:2])


@contextlib.contextmanager
def _undisturbed() -> Generator[None]:
    """Without warnings of what is brought about on purpose, and without a look for garbage between two turns."""
    log = logging.getLogger("amends")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        log.setLevel(level)
