"""A trip is booked: a flight, then a hotel and a car side by side, then the card is charged. All of it, or none of it.

    python trip.py
    amends run trip:book_trip --input '{"city": "Lisbon", "cents": 90000}'

The first runs it twice, once with enough money. The second is the same saga from the command line; the trip is then in
amends.db, and `amends saga list` shows it. What the world has seen is in trip-world.txt.
"""

import asyncio
import os
from pathlib import Path

import amends
from amends import Asked, Coordinator, Done, Ended, Fatal, Happened, NotHappened, Work, action, saga

WORLD = Path(os.environ.get("TRIP_WORLD", "trip-world.txt"))
MONEY = 50_000


# -- the world: other people's systems. Each remembers the key that a booking was made with. ------------------------


def record(sign: str, what: str, key: str) -> None:
    with WORLD.open("a", encoding="utf-8") as world:
        world.write(f"{sign} {what} {key}\n")


def booked(what: str, key: str) -> bool:
    lines = WORLD.read_text(encoding="utf-8").splitlines() if WORLD.exists() else []
    return f"+ {what} {key}" in lines and f"- {what} {key}" not in lines


def found(what: str, asked: Asked) -> Happened | NotHappened:
    initial = what[0].upper()
    return Happened(f"{initial}-{asked.args['city']}") if booked(what, asked.key) else NotHappened()


# -- the actions: what can be done, how it is taken back, and how to ask whether it happened --------------------------


@action("flight.book")
def book_flight(city: str) -> str:
    record("+", "flight", amends.key())  # the same key on every attempt
    return f"F-{city}"


@book_flight.compensation
def cancel_flight(done: Done) -> None:
    if booked("flight", done.action_key):  # after a crash nobody knows: done.certain is False then
        record("-", "flight", done.action_key)


@book_flight.probe
def find_flight(asked: Asked) -> Happened | NotHappened:
    return found("flight", asked)


@action("hotel.book")
def book_hotel(city: str) -> str:
    record("+", "hotel", amends.key())
    return f"H-{city}"


@book_hotel.compensation
def cancel_hotel(done: Done) -> None:
    if booked("hotel", done.action_key):
        record("-", "hotel", done.action_key)


@book_hotel.probe
def find_hotel(asked: Asked) -> Happened | NotHappened:
    return found("hotel", asked)


@action("car.book")
async def book_car(city: str) -> str:
    record("+", "car", amends.key())
    return f"C-{city}"


@book_car.compensation
async def cancel_car(done: Done) -> None:
    if booked("car", done.action_key):
        record("-", "car", done.action_key)


@book_car.probe
async def find_car(asked: Asked) -> Happened | NotHappened:
    return found("car", asked)


@action("payments.charge", risk={"money"})
def charge(cents: int) -> None:
    if cents > MONEY:
        raise Fatal(f"the bank declined {cents} cents", happened=False)  # for good, and nothing happened
    record("+", "charge", amends.key())


@charge.compensation
def refund(done: Done) -> None:
    if booked("charge", done.action_key):
        record("-", "charge", done.action_key)


@charge.probe
def find_charge(asked: Asked) -> Happened | NotHappened:
    return Happened() if booked("charge", asked.key) else NotHappened()


# -- the saga ---------------------------------------------------------------------------------------------------------


@saga("trip.book")
async def book_trip(s: Work, city: str, cents: int) -> dict[str, str]:
    flight = await s.do(book_flight, city)
    hotel, car = await asyncio.gather(s.do(book_hotel, city), s.do(book_car, city))
    await s.do(charge, cents)
    return {"flight": flight, "hotel": hotel, "car": car}


async def main() -> None:
    async with Coordinator.open("trip.db") as coordinator:
        show(await coordinator.run(book_trip, "Lisbon", cents=20_000))
        show(await coordinator.run(book_trip, "Porto", cents=90_000))


def show(ended: Ended) -> None:
    print(f"{ended.status}: {ended.result or ended.why}")


if __name__ == "__main__":
    asyncio.run(main())
    print(WORLD.read_text(encoding="utf-8"), end="")
