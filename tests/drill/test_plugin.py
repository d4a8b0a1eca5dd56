"""The pytest plugin, as users have it: installed, in a pytest of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

DESK = Path(__file__).parent / "given" / "desk.py"

TESTS = """
import pytest
from desk import bad, fresh, good, seen, unseen


def test_good(drill):
    report = drill(good, {"room": "B"})
    assert report.passed
    assert report.steps[0].topic == "desk.book"


@pytest.mark.drill(fresh=fresh)
def test_bad(drill):
    drill(bad)


@pytest.mark.drill(good, {"room": "C"})
def test_marked():
    pass


@pytest.mark.drill(bad, fresh=fresh, only=["taken-back"])
def test_marked_and_bad():
    pass


def test_unseen(drill):
    assert not drill(unseen, fresh=fresh).passed


def test_unseen_and_strict(drill):
    drill(unseen, fresh=fresh, strict=True)


def test_seen(drill):
    drill(unseen, world=seen, strict=True, journal="drills.db")


def test_something_else():
    pass
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "desk.py").write_text(DESK.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "test_desk.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def pytested(place: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-rA", *words]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    return done.stdout


def test_the_fixture_and_the_mark_fail_where_the_world_does_not_come_back(place: Path) -> None:
    out = pytested(place, "--strict-markers", "-W", "error")
    ends = {
        line.split()[1].partition("::")[2]: line.split()[0] for line in out.splitlines() if "test_desk.py::" in line
    }
    assert ends == {
        "test_good": "PASSED",
        "test_bad": "FAILED",
        "test_marked": "PASSED",
        "test_marked_and_bad": "FAILED",
        "test_unseen": "PASSED",
        "test_unseen_and_strict": "FAILED",
        "test_seen": "PASSED",
        "test_something_else": "PASSED",
    }
    assert "failed: step 2 (desk.forget): its compensation returned success, and its effect still stands" in out
    assert "not proven: step 2 (desk.tell): it has no probe, so nobody can tell whether its effect stands" in out
    assert "drill of desk.good: 15 cells, " in out
    assert (place / "drills.db").exists()


def test_drills_can_be_chosen_and_left_out(place: Path) -> None:
    assert "1 passed, 7 deselected" in pytested(place, "-m", "not drill")
    assert "1 deselected" in pytested(place, "-m", "drill", "--collect-only", "-q")


def test_the_plugin_imports_nothing_of_amends_before_it_is_used() -> None:
    program = "import sys, _amends_pytest; print([name for name in sys.modules if name.partition('.')[0] == 'amends'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_what_is_no_saga_is_refused_and_so_is_a_loop_that_runs(place: Path) -> None:
    (place / "test_desk.py").write_text(
        "import asyncio\n"
        "from desk import good\n"
        "def test_no_saga(drill):\n    drill(len)\n"
        "def test_in_a_loop(drill):\n    async def inside():\n        drill(good)\n    asyncio.run(inside())\n",
        encoding="utf-8",
    )
    out = pytested(place)
    assert "is not a saga; decorate it with @saga(name)" in out
    assert "this test has an event loop of its own" in out
