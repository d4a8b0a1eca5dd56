"""The example runs as its first lines say, and does what they promise."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
BOOKED = {"flight", "hotel", "car", "charge"}


def run(words: list[str], cwd: Path, world: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    env = {"TRIP_WORLD": str(world), "AMENDS_JOURNAL": str(world.with_suffix(".db"))}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)


def standing(world: Path) -> set[str]:
    """What is booked and has not been taken back, in the world's file."""
    lines = [line.split() for line in world.read_text(encoding="utf-8").splitlines()]
    booked = {(what, key) for sign, what, key in lines if sign == "+"}
    return {what for what, _ in booked - {(what, key) for sign, what, key in lines if sign == "-"}}


def test_one_trip_is_booked_and_the_other_is_taken_back(tmp_path: Path) -> None:
    done = run([str(EXAMPLES / "trip.py")], tmp_path, tmp_path / "world.txt")
    assert (done.returncode, done.stderr) == (0, "")
    first, second, *_ = done.stdout.splitlines()
    assert first == "completed: {'flight': 'F-Lisbon', 'hotel': 'H-Lisbon', 'car': 'C-Lisbon'}"
    assert second == "rolled_back: payments.charge (step 2): the bank declined 90000 cents"
    assert standing(tmp_path / "world.txt") == BOOKED


def test_it_runs_from_the_command_line(tmp_path: Path) -> None:
    world = tmp_path / "world.txt"
    command = ["-m", "amends.cli.main", "run", "trip:book_trip", "--input"]
    declined = run([*command, '{"city": "Lisbon", "cents": 90000}'], EXAMPLES, world)
    assert (declined.returncode, declined.stderr) == (3, "")
    assert standing(world) == set()
    assert run([*command, '{"city": "Lisbon", "cents": 100}'], EXAMPLES, world).returncode == 0
    assert standing(world) == BOOKED
