"""The refactoring fails, is taken back to the byte, passes, lands, and meets others."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "examples" / "refactoring" / "refactor.py"


def test_a_refactoring_is_taken_back_then_lands_then_meets_others(tmp_path: Path) -> None:
    command = [sys.executable, "-B", "-W", "error", str(SCRIPT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "first run:",
        "  layer 1 sealed: analyse",
        "  layer 2 sealed: create",
        "  layer 3 sealed: migrate",
        "  update_and_fail failed: FAILED (errors=1)",
        "  layer 3 dropped: migrate",
        "  layer 2 dropped: create",
        "  layer 1 dropped: analyse",
        "  the tree is what it was: True",
        "second run:",
        "  layer 1 sealed: analyse",
        "  layer 2 sealed: create",
        "  layer 3 sealed: migrate",
        "  layer 4 sealed: update",
        "  layer 5 sealed: run_tests",
        "  landed: True",
        "  its tests pass in the tree: True; modules: __init__.py, __main__.py, money.py, parsing.py, reports.py",
        "three agents on one file:",
        "  ann: landed",
        "  ben: landed, merged",
        "  cem: 1 conflict",
        "    tally/money.py: content",
    ]
