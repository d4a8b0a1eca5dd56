"""Changesets beside `cp -a`, `git worktree add` and `git stash -u`, on the same trees, in the same run.

Opening makes a view that tools can run in; sealing and dropping are of ten changed files, and so is landing.
`BENCH_TREES=1000,10000` measures smaller trees only. A command of others that takes longer than `BENCH_PATIENCE_S` is
ended there and counts as having taken that long: what it is compared with is then at least that many times as quick.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from amends.changeset import Changeset, Landed, Terms

if TYPE_CHECKING:
    from bench.figures import Figures

SIZES = [int(size) for size in os.environ.get("BENCH_TREES", "1000,10000,100000").split(",")]
PATIENCE_S = float(os.environ.get("BENCH_PATIENCE_S", "300"))
ROUNDS = 7
CHANGED = 10
IN_A_FOLDER = 100
GIT = ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "gc.auto=0"]

Times = dict[str, float]


def plant(tree: Path, files: int) -> None:
    for number in range(files):
        if number % IN_A_FOLDER == 0:
            (tree / f"d{number // IN_A_FOLDER}").mkdir(parents=True)
        (tree / f"d{number // IN_A_FOLDER}" / f"f{number}.py").write_text(f"value = {number}\n" * 20)
    (tree / "empty").mkdir()


def paths(files: int) -> list[str]:
    """Ten files, spread over the tree."""
    step = files // CHANGED
    return [f"d{number // IN_A_FOLDER}/f{number}.py" for number in range(0, files, step)][:CHANGED]


def timed(work: Callable[[], object]) -> float:
    since = time.perf_counter()
    work()
    return time.perf_counter() - since


def least(taken: Times, name: str, seconds: float) -> None:
    taken[name] = min(taken.get(name, seconds), seconds)


def git(tree: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=tree, check=True, capture_output=True)


def theirs_timed(tree: Path, *words: str | Path) -> float:
    since = time.perf_counter()
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(words, cwd=tree, check=True, capture_output=True, timeout=PATIENCE_S)
    return time.perf_counter() - since


def ours(tree: Path, files: int) -> Times:
    """The least of some rounds: what a quiet disk gives."""
    taken: Times = {}
    Changeset.open(tree, terms=Terms(provider="overlay")).close()
    for turn in range(ROUNDS):
        since = time.perf_counter()
        with Changeset.open(tree, terms=Terms(provider="overlay")) as changeset:
            step = changeset.begin("first")
            least(taken, "open", time.perf_counter() - since)
            for path in paths(files):
                step.write_text(path, f"changed in turn {turn}\n" * 20)
            least(taken, "run", timed(lambda step=step: step.run(["true"])))
            least(taken, "run unconfined", timed(lambda step=step: step.run(["true"], confine=False)))
            least(taken, "seal", timed(step.seal))
            least(taken, "drop", timed(changeset.drop_last))
            with changeset.begin("again") as again:
                for path in paths(files):
                    again.write_text(path, f"changed again in turn {turn}\n" * 20)
            since = time.perf_counter()
            ended = changeset.land()
            least(taken, "land", time.perf_counter() - since)
            if not isinstance(ended, Landed):
                raise TypeError(ended)
    return taken


def theirs(folder: Path, tree: Path, files: int) -> Times:
    """What people use now; each once, because each takes long."""
    copy, worktree = folder / "copy", folder / "worktree"
    taken = {"cp -a": theirs_timed(tree, "cp", "-a", tree, copy)}
    shutil.rmtree(copy)
    git(tree, "init", "-q")
    git(tree, "-c", "core.bigFileThreshold=1", "add", "-A")  # into one pack, as a clone has them: it is quicker
    git(tree, "commit", "-qm", "all")
    taken["worktree"] = theirs_timed(tree, *GIT, "worktree", "add", "-q", "--detach", worktree)
    shutil.rmtree(worktree)
    git(tree, "worktree", "prune")
    git(tree, "status")
    for _ in range(3):
        for path in paths(files):
            (tree / path).write_text("changed for git\n" * 20)
        (tree / "untracked").write_text("new\n")
        least(taken, "stash", theirs_timed(tree, *GIT, "stash", "push", "-u", "-q"))
        git(tree, "stash", "drop", "-q")
    return taken


def measured(folder: Path, figures: Figures) -> None:
    taken: dict[int, tuple[Times, Times]] = {}
    for size in SIZES:
        place = folder / str(size)
        plant(place / "tree", size)
        mine = ours(place / "tree", size)
        other = theirs(place, place / "tree", size)
        taken[size] = (mine, other)
        said = ", ".join(f"{name} {seconds * 1000:.1f}" for name, seconds in {**mine, **other}.items())
        print(f"{size} files, in ms: {said}", flush=True)
        shutil.rmtree(place)
    mine, other = taken[SIZES[-1]]
    at = f"{SIZES[-1]:,} files"
    figures.at_least(f"{at}: git worktree add / open a changeset", other["worktree"] / mine["open"], 100)
    figures.at_least(f"{at}: cp -a / open a changeset", other["cp -a"] / mine["open"], 100)
    figures.at_least(f"{at}: git stash -u / seal 10 changed files", other["stash"] / mine["seal"], 10)
    figures.at_least(f"{at}: git stash -u / drop them", other["stash"] / mine["drop"], 20)
    figures.at_least(f"{at}: git stash -u / land them", other["stash"] / mine["land"], 2)
    first = taken[SIZES[0]][0]
    for name in ("open", "seal", "drop", "land"):
        figures.at_most(f"{name}: {SIZES[-1]:,} files / {SIZES[0]:,}", mine[name] / first[name], 3)
