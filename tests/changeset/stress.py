"""Processes that work on one tree at once. Each writes down what it did, so that nothing can be lost unseen.

    python -m tests.changeset.stress WHO TREE LOG SEED

worker    writes one token into three files and lands them together, or drops them
editor    knows nothing of changesets, and appends its tokens in place: as fast as it can for a while, then not until
          something has landed, so that some landing gets through however slow the disk is
holder    the same, by files that it has had open for a while, and longer than any landing takes
renamer   saves whole files by renaming, and looks whether what it saved is there before it saves the same file again

All go on until they are killed.
"""

from __future__ import annotations

import io
import os
import random
import sys
import time
from collections import deque
from pathlib import Path

from amends.changeset import Changeset, Landed, Terms, late_writes
from amends.errors import ChangesetBusyError

FILES = 12
LINES = 60
HELD = 2
PATIENCE = 3000


def plant(tree: Path) -> None:
    tree.mkdir()
    for number in range(FILES):
        (tree / f"file{number}").write_text(text(number))


def text(number: int) -> str:
    return "".join(f"line {line} of {number}\n" for line in range(LINES))


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
    rests_at = time.monotonic()
    for number in range(1_000_000):
        if time.monotonic() > rests_at:
            wait_for_a_landing(log.parent)
            rests_at = time.monotonic() + chance.uniform(0, 2)
        token = f"<{seed}.{number}>"
        with opened(tree, chance) as file:
            file.write(f"{token}\n".encode())
        tell(log, "edited", token)
        os.sched_yield()
        for _ in range(chance.randrange(20_000)):
            pass


def wait_for_a_landing(logs: Path) -> None:
    before = landings(logs)
    while landings(logs) == before:
        time.sleep(0.01)


def landings(logs: Path) -> int:
    return sum(log.read_text().count("landed ") for log in logs.glob("w*.log"))


def opened(tree: Path, chance: random.Random) -> io.FileIO:
    """One of the files that are there, at its end, wherever that is when it is written to."""
    return io.FileIO(os.open(tree / f"file{chance.randrange(FILES)}", os.O_WRONLY | os.O_APPEND), "wb")


def hold(tree: Path, log: Path, seed: str) -> None:
    chance = random.Random(seed)
    held = deque(opened(tree, chance) for _ in range(HELD))
    for number in range(1_000_000):
        token = f"<{seed}.{number}>"
        time.sleep(chance.uniform(0.01, 0.1))
        with held.popleft() as file:
            file.write(f"{token}\n".encode())
        tell(log, "edited", token)
        held.append(opened(tree, chance))


def save(tree: Path, log: Path, seed: str) -> None:
    """What a save replaces is gone, as with any editor; what was saved may only go by the next save."""
    chance = random.Random(seed)
    saved: dict[int, str] = {}
    for number in range(1_000_000):
        which, token = chance.randrange(FILES), f"<{seed}.{number}>"
        place, beside = tree / f"file{which}", tree / f".{which}.saving"
        if which in saved and not is_there(place, saved[which]):
            tell(log, "lost", saved[which])
        lines = text(which).splitlines(keepends=True)
        lines.insert(chance.randrange(len(lines) + 1), f"{token}\n")
        beside.write_text("".join(lines))
        os.rename(beside, place)
        tell(log, "saved", token)
        saved[which] = token


def is_there(place: Path, token: str) -> bool:
    """Now, or when a landing that met it has been taken back, or kept for whoever misses it."""
    for _ in range(PATIENCE):
        if token in place.read_text():
            return True
        if any(token in Path(late.kept).read_text() for late in late_writes(place.parent)):
            return True
        time.sleep(0.01)
    return False


ROLES = {"worker": work, "editor": edit, "holder": hold, "renamer": save}

if __name__ == "__main__":
    who, tree, log, seed = sys.argv[1:]
    ROLES[who](Path(tree), Path(log), seed)
