"""Is it slower than it was? The same work in this tree and in an earlier one, in instructions and in CPU time.

CPU times on a shared machine differ by half from one run to the next; instructions, counted by valgrind, by a
few in a hundred. Of each kind of work a small and a large amount is counted, and what lies between them is the cost:
the start of the process is not in it. CPU is the least of several rounds, the two trees in turns. The journals are in
memory where that can be: how many writes share a commit depends on the mood of a disk.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.figures import Figures

BOUND = 1.10
ROUNDS = 5
IN_MEMORY = Path("/dev/shm")
HERE = Path(__file__).parent.parent
KINDS = {
    "a step, 64 sagas in flight": ("busy", 64, 192),
    "a step, one saga after another": ("alone", 32, 96),
    "a step forward and back, in a long saga": ("back", 100, 300),
    "a saga recovered after a kill": ("recovered", 100, 300),
}
TIMED = {
    "a step, 64 sagas in flight": ("busy", 768),
    "a step, one saga after another": ("alone", 150),
}
COLLECTED = re.compile(r"Collected : (\d+)")


def measured(figures: Figures, revision: str, instructions: float | None = None, cpu: float | None = None) -> None:
    """With the goals that are given, for a step: they are shown, and only what got slower fails."""
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions are counted by valgrind, and it is not here: apt-get install valgrind")
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as name:
        folder = Path(name)
        there = checked_out(revision, folder)
        count(figures, revision, there, folder, instructions)
        take_time(figures, revision, there, folder, cpu)
        now, then = (in_flight_kb(tree, folder) for tree in (HERE, there))
        figures.at_most(f"peak memory, 10,000 sagas in flight: now / at {revision}", now / then, BOUND)


def count(figures: Figures, revision: str, there: Path, folder: Path, goal: float | None) -> None:
    for name, (kind, small, large) in KINDS.items():
        now, then = (between(tree, kind, small, large, folder) for tree in (HERE, there))
        figures.at_most(f"{name}: instructions now / at {revision}", now / then, BOUND)
        if goal is not None and name in TIMED:
            figures.goal(f"{name}: instructions", now / then, goal)
    now, then = (counted(tree, "-c", "from amends import Coordinator") for tree in (HERE, there))
    bare = counted(HERE, "-c", "pass")
    figures.at_most(f"the import: instructions now / at {revision}", (now - bare) / (then - bare), BOUND)


def take_time(figures: Figures, revision: str, there: Path, folder: Path, goal: float | None) -> None:
    for name, (kind, amount) in TIMED.items():
        now, then = zip(
            *((cpu_s(HERE, kind, amount, folder), cpu_s(there, kind, amount, folder)) for _ in range(ROUNDS)),
            strict=True,
        )
        ratio = min(now) / min(then)
        figures.at_most(f"{name}: CPU now / at {revision}", ratio, BOUND)
        if goal is not None:
            figures.goal(f"{name}: CPU", ratio, goal)


def cpu_s(tree: Path, kind: str, amount: int, folder: Path) -> float:
    return float(run(tree, *work(tree, kind, amount, folder), check=True).stdout)


def checked_out(revision: str, folder: Path) -> Path:
    packed = subprocess.run(["git", "-C", str(HERE), "archive", revision], capture_output=True, check=False)
    if packed.returncode:
        raise SystemExit(f"there is no revision {revision} to compare with: {packed.stderr.decode().strip()}")
    tree = folder / "there"
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(tree, filter="data")
    return tree


def between(tree: Path, kind: str, small: int, large: int, folder: Path) -> float:
    """Instructions for one more, beyond `small`."""
    run(tree, *work(tree, kind, small, folder), check=True)  # all bytecode is there before anything is counted
    least, most = (counted(tree, *work(tree, kind, amount, folder)) for amount in (small, large))
    return (most - least) / (large - small)


def work(tree: Path, kind: str, amount: int, folder: Path) -> list[str]:
    path = Path(tempfile.mkdtemp(dir=folder)) / "journal.db"
    if kind == "recovered":
        run(tree, "-m", "bench.interrupted", str(path), str(amount))
    return [str(HERE / "bench" / "counted.py"), kind, str(amount), str(path)]


def counted(tree: Path, *command: str) -> int:
    told = run(
        tree, *command, before=["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}"], check=True
    )
    found = COLLECTED.search(told.stderr)
    if found is None:
        raise AssertionError(told.stderr)
    return int(found[1])


def in_flight_kb(tree: Path, folder: Path) -> int:
    path = Path(tempfile.mkdtemp(dir=folder)) / "journal.db"
    return int(run(tree, "-m", "bench.in_flight", str(path), "10000", check=True).stdout)


def run(
    tree: Path, *command: str, before: list[str] | None = None, check: bool = False
) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env = {**bare, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONHASHSEED": "0"}
    return subprocess.run(
        [*(before or []), sys.executable, *command], env=env, cwd=tree, capture_output=True, text=True, check=check
    )
