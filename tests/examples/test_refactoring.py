"""The refactoring fails, is taken back to the byte, passes, lands, and meets others; and survives a kill in it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import sampled

SCRIPT = Path(__file__).parents[2] / "examples" / "refactoring" / "refactor.py"

PLAY = """
import asyncio, os, runpy, shutil, signal, subprocess, sys
script, place, dies_in, careless = sys.argv[1:]
example = runpy.run_path(script)
tree, db = os.path.join(place, "tally"), os.path.join(place, "amends.db")

def dying(plain):
    def dies(*args, **more):
        plain(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)
    return dies

async def main():
    async with example["Coordinator"].open(db) as coordinator:
        if dies_in:
            example[dies_in].parts.function = dying(example[dies_in].parts.function)
            await coordinator.run(example["split"], tree, careless == "careless")
        else:
            (ended,) = await coordinator.resume()
            print(ended.status)

asyncio.run(main())
"""


def play(place: Path, dies_in: str, careless: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-B", "-c", PLAY, str(SCRIPT), str(place), dies_in, careless]
    return subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)


def seen(tree: Path) -> dict[str, object]:
    import runpy

    look = runpy.run_path(str(SCRIPT))["seen"]
    found: dict[str, object] = look(tree)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    import shutil

    shutil.copytree(SCRIPT.parent / "tree", tmp_path / "tally", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tally/notes").mkdir()
    (tmp_path / "tally/latest").symlink_to("README.md")
    return tmp_path


def test_a_refactoring_is_taken_back_then_lands_then_meets_others(tmp_path: Path) -> None:
    command = [sys.executable, "-B", "-W", "error", str(SCRIPT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "first run:",
        "  layer 1 sealed by step 1",
        "  layer 2 sealed by step 2",
        "  layer 3 sealed by step 3",
        "  layer 3 dropped with step 3",
        "  layer 2 dropped with step 2",
        "  layer 1 dropped with step 1",
        "  rolled_back: refactor.update (step 4): FAILED (errors=1)",
        "  the tree is what it was: True",
        "second run:",
        "  layer 1 sealed by step 1",
        "  layer 2 sealed by step 2",
        "  layer 3 sealed by step 3",
        "  layer 4 sealed by step 4",
        "  completed",
        "  its tests pass in the tree: True; modules: __init__.py, __main__.py, money.py, parsing.py, reports.py",
        "three agents on one file:",
        "  ann: landed",
        "  ben: landed, merged",
        "  cem: rolled_back; it is in conflict with what others changed, and nothing has landed",
        "    tally/money.py, line 15: ours / theirs",
    ]


@pytest.mark.parametrize("dies_in", sampled(["analyse", "migrate", "update"], each=3))
def test_killed_in_the_middle_of_a_step_it_is_resumed_and_lands(place: Path, dies_in: str) -> None:
    before = seen(place / "tally")
    assert play(place, dies_in, "").returncode == -9
    assert seen(place / "tally") == before
    resumed = play(place, "", "")
    assert (resumed.stdout, resumed.stderr) == ("completed\n", "")
    modules = sorted(path.name for path in (place / "tally/tally").glob("*.py"))
    assert modules == ["__init__.py", "__main__.py", "money.py", "parsing.py", "reports.py"]
    tests = [sys.executable, "-B", "-m", "unittest", "-q", "tests.test_tally"]
    assert subprocess.run(tests, cwd=place / "tally", capture_output=True, check=False).returncode == 0


def test_killed_in_the_middle_of_a_refactoring_that_fails_later_the_tree_is_what_it_was(place: Path) -> None:
    before = seen(place / "tally")
    assert play(place, "migrate", "careless").returncode == -9
    assert play(place, "", "careless").stdout == "rolled_back\n"
    assert seen(place / "tally") == before
