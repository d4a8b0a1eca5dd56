"""`amends demo`: what it shows has really happened."""

import json
import pty
import subprocess
import sys
from collections import Counter
from os import close, read
from pathlib import Path

from tests.cli.shell import PATIENCE_S, Shell


def test_two_trips_fail_and_the_world_is_clean(amends: Shell) -> None:
    said = amends("demo", "--pace", "0")
    assert said.code == 0
    assert said.err == ""
    acts = [line.rstrip(" ─") for line in said.out.splitlines() if line.startswith(("Act ", "The world"))]
    assert acts == [
        "Act 1: the card is declined",
        "Act 2: kill -9 in the middle",
        "Act 3: another process goes on",
        "The world",
    ]
    _, first, second, third, world = said.out.replace("The world ", "Act ").split("Act ")
    assert said.out.count("rolled back: payments.charge: the bank declined 900.00") == 2
    assert first.index("3  car.book          compensation succeeded") < first.index("2  hotel.book        compensation")
    assert "exit code -9" in second
    assert "succeeded: H-2" not in second
    assert "hotel.book        lost: the process ended before the outcome was recorded" in third
    assert "hotel.book        probe found that it happened: H-2" in third
    assert "left in the world: flight 0, hotel 0, car 0" in world
    assert "\x1b" not in said.out


def test_the_process_was_really_killed_and_each_booking_taken_back_once(amends: Shell) -> None:
    said = amends("demo", "--pace", "0", "--json")
    assert said.code == 0
    (killed,) = said.of_type("killed")
    assert killed["exit_code"] == -9
    assert not Path(f"/proc/{killed['pid']}").exists()
    facts = [(fact["sign"], fact["kind"], fact["number"]) for fact in said.of_type("world")]
    booked = {fact[1:] for fact in facts if fact[0] == "+"}
    assert booked == {(kind, f"{kind[0].upper()}-{trip}") for kind in ("flight", "hotel", "car") for trip in (1, 2)}
    assert Counter(facts) == Counter([(sign, *what) for sign in "+-" for what in booked])
    assert said.of_type("left") == [{"type": "left", "flight": 0, "hotel": 0, "car": 0}]
    assert [end["status"] for end in said.of_type("ended")] == ["rolled_back", "rolled_back"]


def test_what_it_did_can_be_kept_and_looked_at(amends: Shell) -> None:
    assert amends("demo", "--pace", "0", "--keep", "deep/here").code == 0
    rows = amends.here("saga", "list", "--journal", "deep/here/amends.db", "--json").records
    assert {(row["id"], row["status"]) for row in rows} == {("trip-1", "rolled_back"), ("trip-2", "rolled_back")}
    assert len((amends.place / "deep/here/world.txt").read_text(encoding="utf-8").splitlines()) == 12


def test_nothing_is_left_behind_otherwise(amends: Shell) -> None:
    (amends.place / "tmp").mkdir()
    assert amends("demo", "--pace", "0", TMPDIR=str(amends.place / "tmp")).code == 0
    assert list((amends.place / "tmp").iterdir()) == []


def test_on_a_terminal_it_is_in_colour_and_fits(amends: Shell) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "amends.cli.main", "demo", "--pace", "0"]
    with subprocess.Popen(
        command, cwd=amends.place, stdout=theirs, env={"TERM": "xterm-256color", "COLUMNS": "100", "LANG": "C.UTF-8"}
    ) as process:
        close(theirs)
        shown = b"".join(iter(lambda: _read(ours), b"")).decode()
        assert process.wait(PATIENCE_S) == 0
    close(ours)
    assert "\x1b[32mcompensation succeeded" in shown
    plain = _without_colours(shown)
    assert all(len(line) <= 100 for line in plain.splitlines())
    assert "hotel 0" in plain


def _read(terminal: int) -> bytes:
    try:
        return read(terminal, 65536)
    except OSError:  # the other end has closed
        return b""


def _without_colours(text: str) -> str:
    parts = text.split("\x1b[")
    return parts[0] + "".join(part.partition("m")[2] for part in parts[1:])


def test_it_can_be_asked_for_as_json_lines_only(amends: Shell) -> None:
    for line in amends("demo", "--pace", "0", "--json").out.splitlines():
        assert "type" in json.loads(line)
