"""Two agents on one account wait, give way and share, and a kill -9 in the middle changes nothing of that."""

import signal
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_agents" / "agents.py"


def run(cwd: Path, *words: str) -> list[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLE), *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_one_waits_one_gives_way_and_one_is_told_who_has_the_page(tmp_path: Path) -> None:
    """They begin side by side; whoever is first, the other one comes after it."""
    first, second, *pages, swaps, at_last = run(tmp_path)
    assert (first, second) in {
        ("refund-1: completed ann has 105", "refund-2: completed ann has 112"),
        ("refund-1: completed ann has 112", "refund-2: completed ann has 107"),
    }
    assert pages in (
        ["page-1: completed one wrote it", "page-2: completed shared/page is taken"],
        ["page-1: completed shared/page is taken", "page-2: completed two wrote it"],
    )
    assert swaps == "['from', 'gave']"
    assert "'ann', 'ann'], held []" in at_last
    assert sum(balances_in(at_last).values()) == 212


def balances_in(line: str) -> dict[str, int]:
    pairs = line.partition("{")[2].partition("}")[0].replace("'", "").split(", ")
    return {name: int(cents) for name, cents in (pair.split(": ") for pair in pairs)}


def lines_at(cwd: Path) -> str:
    command = [sys.executable, "-m", "amends", "lock", "list", "--journal", "agents.db", "--json"]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False).stdout.replace(" ", "")


def test_killed_in_the_middle_and_resumed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE)], cwd=tmp_path, env={"PAUSE_S": "60"}, stdout=subprocess.DEVNULL
    )
    try:
        while '"place":1' not in lines_at(tmp_path):
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    *lines, at_last = run(tmp_path, "resume")
    assert sorted(line for line in lines if line.startswith("refund")) == [
        "refund-1: completed",
        "refund-2: completed",
    ]
    assert at_last == "{'ann': 112, 'bob': 100}, noted ['ann', 'ann'], held []"
