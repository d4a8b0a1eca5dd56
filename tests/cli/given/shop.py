"""Sagas for the tests of the command line, in a module as a user would write it. Its world is the working directory."""

import asyncio
import sys
from pathlib import Path

import amends
from amends import Done, Fatal, Limits, Retries, Secret, Work, action, saga


def note(what: str) -> None:
    with Path("world.txt").open("a", encoding="utf-8") as world:
        world.write(f"{what}\n")


@action("stock.reserve")
def reserve(item: str) -> str:
    note(f"+ {item} {amends.key()[:4]}")
    return f"R-{item}"


@reserve.compensation
def release(done: Done) -> None:
    note(f"- {done.args['item']}")


@action("payments.charge", risk={"money"})
def charge(cents: int) -> str:
    if cents > 1000:
        raise Fatal("the bank declined the card", happened=False)
    return f"paid {cents}"


@charge.compensation
def refund(done: Done) -> None:
    note(f"- {done.args['cents']} cents")


@action("robot.move", compensation_retries=Retries(attempts=1))
def move(to: str) -> str:
    note(f"+ robot {to}")
    return to


@move.compensation
def move_back(done: Done) -> None:
    if not Path("unjammed").exists():
        raise RuntimeError("the robot is jammed")
    note(f"- robot {done.args['to']}")


@action("shelf.repaint")
def repaint(colour: str) -> None:
    """Nobody said how to take this back."""


@action("login.use")
def use(password: Secret) -> None:
    note(f"used a password of {len(password.reveal())} letters")


@use.compensation
def unuse(done: Done) -> None: ...


@action("lorry.wait")
def wait_for_lorry() -> str:
    """Runs until somebody writes a line into the pipe `lorry`."""
    sys.stderr.write("the lorry is awaited\n")
    sys.stderr.flush()
    return Path("lorry").read_text(encoding="utf-8").strip()


@wait_for_lorry.compensation
def send_lorry_away(done: Done) -> None:
    note("- lorry")


@saga("shop.buy")
async def buy(s: Work, item: str, cents: int) -> dict[str, str]:
    reserved = await s.do(reserve, item)
    return {"reserved": reserved, "paid": await s.do(charge, cents)}


@saga("shop.tidy")
async def tidy(s: Work, shelf: str = "A") -> None:
    await s.do(reserve, "ladder")
    await s.do(move, shelf)
    await s.do(charge, 5000)


@saga("shop.repaint")
async def paint(s: Work) -> None:
    await s.do(reserve, "ladder")
    await s.do(repaint, "red")


@saga("shop.deliver")
async def deliver(s: Work) -> str:
    await s.do(reserve, "ramp")
    return await s.do(wait_for_lorry)


@saga("shop.unload")
async def unload(s: Work) -> str:
    arrived = await s.do(wait_for_lorry)
    await s.do(reserve, "shelf")
    return arrived


@saga("shop.lend")
async def lend(s: Work, item: str) -> str:
    reserved = await s.do(reserve, item)
    returned: str = await s.wait_for("returned")
    return f"{reserved} {returned}"


@saga("shop.log_in")
async def log_in(s: Work) -> None:
    await asyncio.gather(s.do(use, Secret("hunter2")))


@saga("shop.chat")
async def chat(s: Work) -> str:
    print("a word on stdout")  # noqa: T201 - this is what it is for
    return "\x1b[31mred\x1b[0m \u202ereversed"


NOT_A_SAGA = "just a text"


@action("robot.guard", resources=["robot:{to}"], lock_wait=0)
def guard(to: str) -> None:
    """Nobody said how to take this back."""


@saga("shop.guarded")
async def guarded(s: Work) -> None:
    await s.do(guard, "A")
    raise Fatal("not after all")


@saga("shop.haggle", limits=Limits(usd=3, then="pause"))
async def haggle(s: Work, item: str) -> str:
    await s.do(reserve, item)
    for price in (2, 2, 2):
        await s.spend(usd=price, what="an offer")
    return "sold"
