"""The demo's saga: a trip is booked in a world that is a file, and each booking can be taken back.

Run as a program, it is the demo's child process: it books a trip, and stands still once the hotel has the booking and
before anybody could write that down, so that it can be killed there.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import amends
from amends import Asked, Coordinator, Done, Fatal, Happened, NotHappened, Work, action, saga

TRIP: Final[Mapping[str, Any]] = {"to": "Lisbon", "nights": 3, "cents": 90_000}
STANDS_STILL: Final = "stands still"


class Booking(NamedTuple):
    """One line of the world's file. The sign is + for a booking and - for its amends."""

    sign: str
    kind: str
    number: str
    what: str
    key: str


class TripWorld:
    """Knowledge of a flight company, a hotel and a car rental: a file that only grows."""

    def __init__(self, path: Path, *, pace_s: float = 0.0, stop_at: str = "") -> None:
        self._path = path
        self._pace_s = pace_s
        self._stop_at = stop_at

    def facts(self) -> list[Booking]:
        if not self._path.exists():
            return []
        return [Booking(*line.split("\t")) for line in self._path.read_text(encoding="utf-8").split("\n")[:-1]]

    def book(self, kind: str, what: str, key: str) -> str:
        self.take_a_moment()
        number = f"{kind[0].upper()}-{1 + sum(fact.sign == '+' and fact.kind == kind for fact in self.facts())}"
        self._write(Booking("+", kind, number, what, key))
        if kind == self._stop_at:
            _tell(STANDS_STILL)
            threading.Event().wait()
        return number

    def take_back(self, key: str) -> None:
        self.take_a_moment()
        number = self.find(key)
        if number is not None:
            booked = next(fact for fact in self.facts() if fact.key == key)
            self._write(booked._replace(sign="-"))

    def find(self, key: str) -> str | None:
        """The number of a booking that stands, by the key that it was made with."""
        facts = [fact for fact in self.facts() if fact.key == key]
        return facts[-1].number if facts and facts[-1].sign == "+" else None

    def take_a_moment(self) -> None:
        threading.Event().wait(self._pace_s)

    def _write(self, fact: Booking) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write("\t".join(fact) + "\n")


class _Here:
    """The world that this process acts upon."""

    world = TripWorld(Path("world.txt"))


def act_upon(world: TripWorld) -> None:
    _Here.world = world


# -- the actions ------------------------------------------------------------------------------------------------------


@action("flight.book")
def book_flight(to: str) -> str:
    return _Here.world.book("flight", f"to {to}", amends.key())


@action("hotel.book")
def book_hotel(to: str, nights: int) -> str:
    return _Here.world.book("hotel", f"in {to}, {nights} nights", amends.key())


@action("car.book")
def book_car(to: str) -> str:
    return _Here.world.book("car", f"in {to}", amends.key())


def take_back(done: Done) -> None:
    _Here.world.take_back(done.action_key)


def look_up(asked: Asked) -> Happened | NotHappened:
    number = _Here.world.find(asked.key)
    return NotHappened() if number is None else Happened(number)


for _book in (book_flight, book_hotel, book_car):
    _book.compensation(take_back)
    _book.probe(look_up)


@action("payments.charge", risk={"money"})
def charge(cents: int) -> None:
    _Here.world.take_a_moment()
    raise Fatal(f"the bank declined {cents / 100:.2f}", happened=False)


@charge.compensation
def refund(done: Done) -> None:
    """Never called here: the bank says that nothing happened, so there is nothing to take back."""
    raise AssertionError(done)


@saga("demo.trip")
async def book_trip(s: Work, to: str, nights: int, cents: int) -> dict[str, str]:
    flight = await s.do(book_flight, to)
    hotel = await s.do(book_hotel, to, nights)
    car = await s.do(book_car, to)
    await s.do(charge, cents)
    return {"flight": flight, "hotel": hotel, "car": car}


# -- the child process ------------------------------------------------------------------------------------------------


def _tell(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def _book_in_a_child(journal: str, world: str, saga_id: str, pace_s: str) -> None:
    act_upon(TripWorld(Path(world), pace_s=float(pace_s), stop_at="hotel"))
    async with Coordinator.open(journal) as coordinator:
        coordinator.observe(lambda entry: _tell(str(entry.number)))
        await coordinator.run(book_trip, **TRIP, id=saga_id)


if __name__ == "__main__":
    asyncio.run(_book_in_a_child(*sys.argv[1:]))
