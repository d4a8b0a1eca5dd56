"""Sagas that a server of the tests knows: `--module tests.server.shop`."""

from amends import Fatal, Limits, Work, action, saga
from amends.public import Done


@action("shop.charge", idempotent=True)
def charge(order: str) -> str:
    return f"charged {order}"


@charge.compensation
def refund(done: Done) -> None:
    if done.args["order"].startswith("stuck"):
        raise Fatal("the bank is closed")


@action("shop.ship", risk={"goods"})
def ship(order: str) -> str:
    return f"shipped {order}"


@ship.compensation
def fetch_back(done: Done) -> None:
    return


@saga("shop.order")
async def order(s: Work, order: str) -> str:
    """Charge an order."""
    paid = await s.do(charge, order)
    if order.startswith(("bad", "stuck")):
        raise Fatal("no such thing")
    return paid


@saga("shop.parcel")
async def parcel(s: Work, order: str) -> str:
    """Ship an order once the customer says that they are home."""
    await s.do(charge, order)
    await s.checkpoint("paid")
    said: object = await s.wait_for("home")
    if said == "away":
        return "kept"
    return await s.do(ship, order)


@saga("shop.bounded", limits=Limits(steps=3, then="pause"))
async def bounded(s: Work, orders: int) -> int:
    """Charge so many orders, as long as the limit lets it."""
    for number in range(orders):
        await s.do(charge, f"o{number}")
    return orders
