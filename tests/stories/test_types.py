"""Typed tools of an agent: what a model makes up is refused; what was declared arrives, also after a kill."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell

MODULE = '''
import datetime as dt
import enum
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field

from amends import Asked, Done, Happened, NotHappened, Work, action, saga


class Room(enum.Enum):
    SINGLE = "single"
    DOUBLE = "double"


@dataclass(frozen=True)
class Stay:
    """Nights in a hotel."""

    city: str
    first: dt.date
    room: Room = Room.SINGLE


class Receipt(BaseModel):
    number: str
    cents: int = Field(ge=0)


def note(what: str) -> None:
    with Path("world.txt").open("a") as world:
        world.write(what + "\\n")


@action("hotel.reserve", timeout=10)
def reserve(stay: Stay, guests: int = 1) -> Receipt:
    """Reserve a room."""
    note(f"reserve {stay!r} for {guests}")
    if os.environ.get("DIE") == "reserve":
        os.kill(os.getpid(), signal.SIGKILL)
    return Receipt(number=f"{stay.city}-1", cents=9900)


@reserve.probe
def look_up(asked: Asked) -> Happened | NotHappened:
    note(f"look up {asked.args['stay']!r}")
    return Happened(Receipt(number="found", cents=0))


@reserve.compensation
def release(done: Done[Receipt]) -> None:
    note(f"release {done.result!r} of {done.args['stay'].room}")


@saga("hotel.book")
async def book(s: Work, stay: Stay, guests: int = 1, fail: bool = False) -> Receipt:
    receipt = await s.do(reserve, stay, guests)
    assert receipt.cents >= 0 and stay.first.year == 2026
    if fail:
        raise ValueError("no card")
    return receipt
'''
STAY = {"city": "Rome", "first": "2026-03-31", "room": "double"}
TOLD = "Stay(city='Rome', first=datetime.date(2026, 3, 31), room=<Room.DOUBLE: 'double'>)"


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "hotel.py").write_text(MODULE, encoding="utf-8")
    return Shell(tmp_path)


def world(tmp_path: Path) -> list[str]:
    found = tmp_path / "world.txt"
    return found.read_text(encoding="utf-8").splitlines() if found.exists() else []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"stay": {**STAY, "room": "suite"}}, "stay.room has to be one of 'single', 'double', not 'suite'"),
        ({"stay": {**STAY, "first": "soon"}}, "stay.first has to be a date, such as 2026-03-31, not 'soon'"),
        ({"stay": STAY, "guests": "two"}, "guests has to be a whole number, not 'two'"),
        ({"stay": {"city": "Rome"}}, "stay has to be a Stay with first, not an object of city"),
    ],
)
@pytest.mark.parametrize("command", ["run", "drill"])
def test_the_command_line_refuses_an_input_that_is_not_what_was_declared(
    amends: Shell, tmp_path: Path, command: str, given: dict[str, object], told: str
) -> None:
    said = amends(command, "hotel:book", "--input", json.dumps(given))
    assert said.complaint == f"saga hotel.book: {told}"
    assert world(tmp_path) == []


def test_an_input_in_json_arrives_as_what_was_declared_and_the_result_is_json(amends: Shell, tmp_path: Path) -> None:
    said = amends("run", "hotel:book", "--input", json.dumps({"stay": STAY}), "--json")
    assert said.code == 0, said
    assert said.of_type("ended")[0]["result"] == {"number": "Rome-1", "cents": 9900}
    assert world(tmp_path) == [f"reserve {TOLD} for 1"]


def test_a_compensation_gets_the_result_as_it_was(amends: Shell, tmp_path: Path) -> None:
    assert amends("run", "hotel:book", "--input", json.dumps({"stay": STAY, "fail": True})).code == 3
    assert world(tmp_path)[1:] == ["release Receipt(number='Rome-1', cents=9900) of Room.DOUBLE"]


def test_after_a_kill_another_process_has_the_types_back(amends: Shell, tmp_path: Path) -> None:
    given = json.dumps({"stay": STAY, "fail": True})
    assert amends("run", "hotel:book", "--input", given, DIE="reserve").code == -9
    assert amends("resume", "hotel").code == 0
    assert world(tmp_path)[1:] == [
        f"look up {TOLD}",
        "release Receipt(number='found', cents=0) of Room.DOUBLE",
    ]
