"""What a bench says: rows of a table, each beside its bound, and how costs are taken."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.table import Table

ROUNDS = 3


class Figures:
    """Rows of the table; remembers whether a bound was missed."""

    def __init__(self) -> None:
        self.table = Table(title="amends, against baselines of the same run", title_justify="left")
        for column in ("figure", "measured", "bound", ""):
            self.table.add_column(column, justify="right" if column in {"measured", "bound"} else "left")
        self.missed = 0

    def at_most(self, name: str, value: float, bound: float, unit: str = "x") -> None:
        self._row(name, f"{value:.2f} {unit}", f"<= {bound:g} {unit}", kept=value <= bound)

    def at_least(self, name: str, value: float, bound: float, unit: str = "x") -> None:
        self._row(name, f"{value:.2f} {unit}", f">= {bound:g} {unit}", kept=value >= bound)

    def goal(self, name: str, value: float, aim: float, unit: str = "x", *, at_least: bool = False) -> None:
        """A row that says how far it is to what is aimed at, and never fails."""
        is_reached = value >= aim if at_least else value <= aim
        self.table.add_row(
            f"{name}: what is aimed at",
            f"{value:.2f} {unit}",
            f"goal {aim:g} {unit}",
            "reached" if is_reached else "not yet",
        )

    def shown(self, name: str, value: float, unit: str) -> None:
        """A row without a bound."""
        self.table.add_row(name, f"{value:.2f} {unit}", "", "")

    def _row(self, name: str, value: str, bound: str, *, kept: bool) -> None:
        self.missed += not kept
        self.table.add_row(name, value, bound, "ok" if kept else "MISSED")


def cpu_of(work: Callable[[], object]) -> float:
    gc.collect()
    since = time.process_time()
    work()
    return time.process_time() - since


async def timed(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """CPU and wall seconds."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    return time.process_time() - cpu, time.perf_counter() - wall


def fresh(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder)) / "journal.db"
