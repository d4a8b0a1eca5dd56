"""Sagas for a console to show: made on a journal by a coordinator in the tests' own process."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from amends import Coordinator, Done, Fatal, Work, action, saga

POLICY = """\
version: v1
default: allow
rules:
  - id: money-takes-a-person
    when: {topic: "shop.charge"}
    decision: require_human
  - id: two-people-for-access
    when: {topic: "access.grant"}
    decision: require_human
    approvals: 2
"""
XSS = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'>"


@action("shop.reserve")
def reserve(item: str) -> str:
    """Reserve an item in the warehouse."""
    return f"R-{item}"


@reserve.compensation
def release(done: Done) -> None:
    """Give the item back to the warehouse."""


@action("shop.charge", risk={"money"})
def charge(order: str, cents: int, note: str = "") -> str:
    """Charge the customer's card."""
    return f"paid {order}"


@charge.compensation
def refund(done: Done) -> None:
    """Pay it back to the same card."""


@action("access.grant")
def grant_access(who: str) -> str:
    return f"{who} is in"


@grant_access.compensation
def withdraw_access(done: Done) -> None:
    """Withdraw the access."""


@action("mail.send", no_rollback="a mail cannot be unsent")
def send_mail(to: str) -> None:
    """Send the receipt."""


@action("shop.break")
def break_down(why: str) -> None:
    raise Fatal(why, happened=False)


@action("shop.ship")
def ship(order: str) -> str:
    return f"shipped {order}"


@ship.compensation
def fetch_back(done: Done) -> None:
    raise RuntimeError(f"the parcel of {done.args['order']} is with the customer")


@saga("shop.order")
async def order_one(s: Work, order: str, cents: int, note: str = "") -> str:
    await s.do(reserve, order)
    return await s.do(charge, order, cents, note)


@saga("access.request")
async def request_access(s: Work, who: str) -> str:
    return await s.do(grant_access, who)


@saga("shop.doomed")
async def doomed(s: Work, order: str) -> None:
    await s.do(reserve, order)
    await s.do(ship, order)
    await s.do(break_down, "the customer changed their mind")


@saga("shop.gone_back")
async def gone_back(s: Work, order: str) -> None:
    await s.do(reserve, order)
    await s.do(break_down, "sold out")


@saga("shop.plain")
async def plain(s: Work, order: str) -> str:
    return await s.do(reserve, order)


def on(journal: Path, made: Callable[[Coordinator], Awaitable[Any]], policy: str = POLICY) -> Any:
    """Do something with a coordinator on a journal that goes by this policy."""
    file = journal.parent / "policy.yaml"
    if not file.exists():
        file.write_text(policy, encoding="utf-8")

    async def whole() -> Any:
        async with Coordinator.open(str(journal), policy=file, env="production", signals=False) as coordinator:
            return await made(coordinator)

    return asyncio.run(whole())


async def start(coordinator: Coordinator, definition: Any, *args: Any, id: str, **more: Any) -> None:
    """Start a saga, and leave it where it stands still."""
    handle = await coordinator.start(definition, *args, id=id, **({"actor": "agent:shop"} | more))
    await handle.halt()


def resumed(journal: Path) -> dict[str, str]:
    """Go on with everything that is unfinished: where each saga stands then."""

    async def whole(coordinator: Coordinator) -> dict[str, str]:
        await coordinator.resume()
        return {row.id: str(row.status) async for row in coordinator.list()}

    found: dict[str, str] = on(journal, whole)
    return found
