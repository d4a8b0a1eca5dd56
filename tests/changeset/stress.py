"""Processes that work on one tree at once. Each writes down what it did, so that nothing can be lost unseen.

    python -m tests.changeset.stress worker TREE LOG SEED
    python -m tests.changeset.stress editor TREE LOG SEED

A worker writes one token into three files and lands them together, or drops them. The editor knows nothing of
changesets and appends its tokens in place. Both go on until they are killed.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from amends.changeset import Changeset, Landed, Terms
from amends.errors import ChangesetBusyError

FILES = 12
LINES = 60


def plant(tree: Path) -> None:
    tree.mkdir()
    for number in range(FILES):
        (tree / f"file{number}").write_text("".join(f"line {line} of {number}\n" for line in range(LINES)))


def tell(log: Path, word: str, token: str) -> None:
    with log.open("a") as file:
        file.write(f"{word} {token}\n")


def work(tree: Path, log: Path, seed: str) -> None:
    chance = random.Random(seed)
    for number in range(1_000_000):
        token = f"<{seed}.{number}>"
        is_dropped = chance.random() < 0.2
        with Changeset.open(tree, terms=Terms(provider="api")) as changeset:
            with changeset.begin("work") as files:
                for name in chance.sample(range(FILES), 3):
                    lines = files.read_text(f"file{name}").splitlines(keepends=True)
                    lines.insert(chance.randrange(len(lines) + 1), f"{token}\n")
                    files.write_text(f"file{name}", "".join(lines))
            if is_dropped:
                tell(log, "dropped", token)
                changeset.drop()
                continue
            tell(log, "began", token)
            try:
                ended = changeset.land()
            except ChangesetBusyError:
                ended = None
            tell(log, "landed" if isinstance(ended, Landed) else "refused", token)


def edit(tree: Path, log: Path, seed: str) -> None:
    chance = random.Random(seed)
    for number in range(1_000_000):
        token = f"<{seed}.{number}>"
        with open(tree / f"file{chance.randrange(FILES)}", "r+b") as file:
            file.seek(0, os.SEEK_END)
            file.write(f"{token}\n".encode())
        tell(log, "edited", token)
        os.sched_yield()
        for _ in range(chance.randrange(20_000)):
            pass


if __name__ == "__main__":
    who, tree, log, seed = sys.argv[1:]
    (work if who == "worker" else edit)(Path(tree), Path(log), seed)
