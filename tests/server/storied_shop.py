"""A shop whose world is a file of lines: what every story is told about, whichever way its sagas are run."""

import asyncio
import os
from pathlib import Path
from typing import Any

import amends
from amends import Asked, Done, Fatal, Happened, NotDone, NotHappened, Work, action, saga

WORLD = "SHOP_WORLD"
HANGS = "SHOP_HANGS"
"""The name of a file: while it is there, whoever has charged hangs before it can say so."""


def world() -> Path:
    return Path(os.environ[WORLD])


def hangs() -> bool:
    """Whether the next one is to hang."""
    asked = os.environ.get(HANGS)
    if asked is None or not Path(asked).exists():
        return False
    Path(asked).unlink()
    return True


def note(line: str) -> None:
    with world().open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def lines() -> list[str]:
    return world().read_text(encoding="utf-8").splitlines() if world().exists() else []


@action("shop.reserve")
async def reserve(item: str) -> str:
    note(f"reserve {item}")
    return f"R-{item}"


@reserve.compensation
async def release(done: Done[str]) -> None:
    note(f"release {done.args['item']} {done.result} {'certain' if done.certain else 'perhaps'}")


@action("shop.charge", idempotent=False, timeout=30)
async def charge(order: str, cents: int) -> str:
    note(f"charge {order} {amends.key()}")
    if hangs():
        await asyncio.Event().wait()
    return f"paid {order}"


@charge.compensation
async def refund(done: Done[str]) -> None:
    note(f"refund {done.args['order']} {'certain' if done.certain else 'perhaps'}")


@charge.probe
def find_charge(asked: Asked) -> Happened | NotHappened:
    order = asked.args["order"]
    return Happened(f"paid {order}") if f"charge {order} {asked.key}" in lines() else NotHappened()


@action("shop.set_price")
async def set_price(item: str, cents: int) -> None:
    note(f"price {item} {cents}")


@set_price.before
async def price_before(item: str) -> int:
    old = [line.split()[2] for line in lines() if line.startswith(f"price {item} ")]
    return int(old[-1]) if old else 0


@set_price.compensation
async def restore_price(done: Done[None]) -> None:
    note(f"price {done.args['item']} {done.before}")


@action("shop.flaky", idempotent=True, retries=3)
async def flaky(order: str) -> str:
    note(f"flaky {order} {amends.key()}")
    if lines().count(f"flaky {order} {amends.key()}") < 3:
        raise NotDone("the line is busy")
    return order


@action("shop.ship", no_rollback="a parcel on its way cannot be called back")
async def ship(order: str) -> None:
    note(f"ship {order}")


@action("shop.break")
async def break_down(why: str) -> None:
    raise Fatal(why, happened=False)


@action("shop.lose")
async def lose(order: str) -> None:
    note(f"lose {order}")
    raise RuntimeError("the connection broke")


@lose.compensation
async def find_again(done: Done[None]) -> None:
    note(f"unlose {done.args['order']} {'certain' if done.certain else 'perhaps'}")


@action("shop.grant")
async def grant_access(who: str) -> str:
    note(f"grant {who}")
    return who


@action("shop.delete", no_rollback="what is deleted is gone")
async def delete(what: str) -> None:
    note(f"delete {what}")


@saga("shop.plain")
async def plain(s: Work, order: str) -> dict[str, Any]:
    room = await s.do(reserve, order)
    paid = await s.do(charge, order, 500)
    return {"room": room, "paid": paid}


@saga("shop.doomed")
async def doomed(s: Work, order: str) -> None:
    await s.do(reserve, order)
    await s.do(charge, order, 500)
    await s.do(break_down, "sold out")


@saga("shop.raises")
async def raises(s: Work, order: str) -> None:
    await s.do(reserve, order)
    raise ValueError("no such customer")


@saga("shop.loses")
async def loses(s: Work, order: str) -> None:
    await s.do(reserve, order)
    await s.do(lose, order)


@saga("shop.retries")
async def retries(s: Work, order: str) -> str:
    return await s.do(flaky, order)


@saga("shop.denied")
async def denied(s: Work, what: str) -> None:
    await s.do(reserve, what)
    await s.do(delete, what)


@saga("shop.asks")
async def asks(s: Work, who: str) -> str:
    return await s.do(grant_access, who)


@saga("shop.prices")
async def prices(s: Work, item: str) -> None:
    await s.do(set_price, item, 100)
    await s.do(set_price, item, 200)
    await s.do(break_down, "the wrong shop")


@saga("shop.again")
async def again(s: Work, order: str) -> str:
    await s.do(reserve, f"{order}-0")
    await s.checkpoint("room")
    await s.do(reserve, f"{order}-1")
    await s.do(reserve, f"{order}-2")
    feedback = await s.rollback_to("room", "too far away")
    await s.do(reserve, f"{order}-3")
    return ", ".join(one.topic for one in feedback.taken_back)


@saga("shop.beside")
async def beside(s: Work, order: str) -> list[str]:
    return list(await asyncio.gather(*(s.do(reserve, f"{order}-{number}") for number in range(4))))


@saga("shop.tries")
async def tries(s: Work, order: str) -> int:
    async for attempt in s.attempts("pay", max=3):
        async with attempt:
            await s.do(reserve, f"{order}-{attempt.number}")
            if attempt.number < 3:
                raise ValueError("not this one")
    return len([line for line in lines() if line.startswith("reserve")])


@saga("shop.waits")
async def waits(s: Work, order: str) -> Any:
    await s.do(reserve, order)
    return await s.wait_for("paid", timeout=60)


@saga("shop.pivot")
async def pivot(s: Work, order: str) -> None:
    await s.do(reserve, order)
    await s.do(ship, order)
    await s.do(break_down, "too late")


POLICY = """\
version: v1
default: allow
rules:
  - id: no-deleting
    when: {topic: "shop.delete"}
    decision: deny
  - id: a-person-grants
    when: {topic: "shop.grant"}
    decision: require_human
"""
