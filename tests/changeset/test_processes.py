"""Real processes: four that land and are killed at random, beside an editor; and one killed at each system call."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from amends.changeset import Changeset, Landed, Terms, late_writes
from tests.changeset import stress
from tests.changeset.test_crashes import BeforeOrAfter, sealed, world
from tests.changeset.worlds import ID, SOAK, World
from tests.parts import rest

__all__ = ["world"]

ROOT = Path(__file__).resolve().parent.parent.parent
LANDINGS = 10
LONGEST = 300.0
"""Seconds: a machine that is busy with other things is given time for some landings."""
SECONDS = float(os.environ.get("AMENDS_STRESS_S", "240" if SOAK else "24"))


def started(who: str, tree: Path, logs: Path, seed: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "tests.changeset.stress", who, str(tree), str(logs / f"{seed}.log"), seed]
    with (logs / f"{seed}.err").open("wb") as errors:
        return subprocess.Popen(words, cwd=ROOT, stderr=errors)


def stressed(tmp_path: Path, editors: list[str], seconds: float) -> tuple[Path, Path, Counter[str]]:
    """Four workers, one of which is killed now and then, beside these editors: the tree, the logs, the counts.

    Where the disk is slow, kills are fewer: workers that never live to the end of a landing prove nothing.
    """
    tree, logs = tmp_path / "tree", tmp_path / "logs"
    logs.mkdir()
    stress.plant(tree)
    chance = random.Random(4)
    lives = kills = landed = 0
    patience = 1.0
    workers: list[subprocess.Popen[bytes]] = []
    others = [started(each, tree, logs, each) for each in editors]
    began = time.monotonic()
    try:
        while (took := time.monotonic() - began) < seconds or (took < LONGEST and landed < LANDINGS):
            while len(workers) < 4:
                lives += 1
                workers.append(started("worker", tree, logs, f"w{lives}"))
            time.sleep(patience * chance.uniform(0.3, 0.9))
            before, landed = landed, stress.landings(logs)
            patience = max(1.0, patience / 2) if landed > before else min(16.0, patience * 1.25)
            assert [each.poll() for each in others] == [None] * len(others)
            victim = workers.pop(chance.randrange(4))
            kills += victim.poll() is None
            victim.kill()
            victim.wait()
    finally:
        for each in (*workers, *others):
            each.kill()
            each.wait()
    with Changeset.open(tree, terms=Terms(provider="api")):
        pass  # whoever comes next settles what the dead have left
    told = counted(logs)
    told["kills"] = kills
    errors = [text for err in logs.glob("*.err") if (text := err.read_text())]
    assert errors == []
    assert kills > 3
    assert told["landed"] >= LANDINGS
    return tree, logs, told


def counted(logs: Path) -> Counter[str]:
    return Counter(line.split()[0] for log in logs.glob("*.log") for line in log.read_text().splitlines())


@rest
def test_nothing_is_lost_or_partial_with_four_workers_kills_and_editors_that_write_in_place(
    tmp_path: Path, record_property: Any
) -> None:
    tree, logs, told = stressed(tmp_path, ["editor", "holder"], SECONDS)
    record_property("stress", dict(told))
    assert complaints(tree, logs) == []


@rest
def test_what_an_editor_saved_by_renaming_is_never_lost(tmp_path: Path, record_property: Any) -> None:
    told = stressed(tmp_path, ["renamer"], SECONDS / 2)[2]
    record_property("stress", dict(told))
    assert told["lost"] == 0
    assert told["saved"] > 50


def complaints(tree: Path, logs: Path) -> list[str]:
    texts = {path.name: path.read_text() for path in tree.iterdir()}
    there = Counter(re.findall(r"<[\w.]+>", "".join(texts.values())))
    lates = late_writes(tree)
    kept, named = "".join(Path(late.kept).read_text() for late in lates), {late.path for late in lates}
    found: list[str] = []
    fates: dict[str, str] = {}
    for log in logs.glob("*.log"):
        for line in log.read_text().splitlines():
            word, token = line.split()
            fates[token] = word
    for token, fate in fates.items():
        count = there.pop(token, 0)
        allowed = {"landed": {3}, "began": {0, 3}, "refused": {0}, "dropped": {0}, "edited": {1}}[fate]
        is_kept = fate == "edited" and token in kept
        # Somebody wrote beside ours before it was taken back: theirs stays as it is, and the path is named.
        is_theirs = fate in {"refused", "began"} and {name for name, text in texts.items() if token in text} <= named
        if count not in allowed and not is_kept and not is_theirs:
            found.append(f"{token} {fate}, and is there {count} times")
    for token, count in there.items():
        is_known = count == 1 if token.startswith(("<editor", "<holder")) else False
        if not is_known:
            found.append(f"{token} is there {count} times, and nobody wrote down that it would be")
    return found


# Killed by the kernel, at a system call


LAND = """
import sys
from amends.changeset import Changeset, Terms
with Changeset.open(sys.argv[1], id=sys.argv[2], terms=Terms(provider="api")) as changeset:
    changeset.land()
"""
CALLS = ["rename", "renameat", "renameat2", "fsync", "mkdir", "mkdirat", "pwrite64", "fchmod", "utimensat", "unlink"]


def killed_at(world: World, call: str, number: int) -> bool:
    """Whether the landing was killed at its n-th call of this kind; False: it made fewer."""
    words = ["strace", "-qq", "-f", "-o", os.devnull, "-e", f"trace={call}"]
    words += ["-e", f"inject={call}:signal=KILL:when={number}"]
    words += [sys.executable, "-B", "-c", LAND, str(world.tree()), ID]
    ended = subprocess.run(words, capture_output=True, check=False, timeout=60)
    assert ended.returncode in {0, -9, 137}, ended.stderr
    return ended.returncode != 0


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_landing_killed_at_real_system_calls_is_all_or_nothing(world: World, record_property: Any) -> None:
    sealed(world)
    check = BeforeOrAfter(world)
    kills, found = 0, list[str]()
    for call in CALLS if SOAK else ["renameat2", "renameat", "rename"]:
        for number in range(1, 200) if SOAK else range(1, 30, 5):
            world.bring_back()
            if not killed_at(world, call, number):
                break
            kills += 1
            world.open().close()
            found += check(world, f"killed at {call} {number}")
    record_property("strace", {"kills": kills})
    assert found == []
    assert kills >= (60 if SOAK else 4)


def test_a_process_killed_while_it_waits_or_works_lets_the_next_one_go_on(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    stress.plant(tree)
    hang = """
import sys
from amends.changeset import Changeset, Terms
from amends.changeset.disk.disk import Disk
class Hanging(Disk):
    def exchange(self, one, other):
        super().exchange(one, other)
        print("in the middle", flush=True)
        sys.stdin.read()
with Changeset.open(sys.argv[1], terms=Terms(provider="api"), disk=Hanging()) as changeset:
    with changeset.begin("work") as files:
        for name in ("file0", "file1", "file2"):
            files.write_text(name, "by the dead\\n")
    changeset.land()
"""
    with subprocess.Popen(
        [sys.executable, "-c", hang, str(tree)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as victim:
        assert victim.stdout is not None
        victim.stdout.readline()
        assert [(tree / f"file{n}").read_text() == "by the dead\n" for n in range(3)] == [True, False, False]
        victim.kill()
    with Changeset.open(tree, terms=Terms(provider="api")) as changeset:
        assert [(tree / f"file{n}").read_text() for n in range(3)] == ["by the dead\n"] * 3
        with changeset.begin("next") as files:
            files.write_text("file0", "by the living\n")
        assert isinstance(changeset.land(), Landed)
