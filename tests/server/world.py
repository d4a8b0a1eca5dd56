"""Sagas for a console to show: made on a journal by a coordinator in the tests' own process."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from amends import Coordinator, Done, Fatal, Limit, Limits, Work, action, saga, to_checkpoint

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
  - id: terms-take-a-person
    when: {topic: "account.terms"}
    decision: require_human
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
    raise Fatal(f"the parcel of {done.args['order']} is with the customer")


@action("account.terms")
def change_terms(account: str, limit: int, letter: str) -> None:
    """Change what an account may owe, and the letter that it gets."""


@change_terms.before
def terms_before(account: str) -> dict[str, Any]:
    return {"account": account, "limit": 500, "letter": "Dear Sir,\npay in 30 days.\nKim\n", "since": XSS}


@change_terms.compensation
def restore_terms(done: Done) -> None:
    """Put the terms back that it had."""


@saga("account.change")
async def set_terms(s: Work, account: str, limit: int, letter: str) -> None:
    await s.do(change_terms, account, limit, letter)


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


@saga("shop.pivoted")
async def pivoted(s: Work, order: str) -> None:
    """An order that fails after something that cannot be taken back."""
    await s.do(reserve, order)
    await s.do(send_mail, order)
    await s.do(break_down, "the customer changed their mind")


@saga("shop.limited")
async def limited(s: Work, order: str) -> str:
    """An order of two steps."""
    await s.do(reserve, order)
    return await s.do(reserve, f"{order}-wrapping")


@saga("shop.many_steps")
async def many_steps(s: Work, count: int) -> None:
    for number in range(count):
        await s.do(reserve, f"{number}")


@saga("shop.parcel")
async def parcel(s: Work, order: str) -> str:
    await s.do(reserve, order)
    return await s.do(ship, order)


@saga("shop.confirmed")
async def confirmed(s: Work, order: str, cents: int) -> str:
    """An order that goes on once the warehouse has confirmed it."""
    await s.do(reserve, order)
    await s.checkpoint("reserved")
    await s.do(reserve, f"{order}-wrapping")
    said = await s.wait_for("warehouse.confirmed", timeout=3600)
    return str(said)


@saga("shop.family")
async def family(s: Work, order: str) -> str:
    """An order whose parcel is a saga of its own."""
    await s.do(reserve, order)
    await s.call(plain, f"{order}-parcel")
    await s.do(send_mail, f"{order}@example.com")
    return "sent"


@action("account.keep", resources=["account:{account}"])
def keep(account: str) -> str:
    return account


@keep.compensation
def let_account_go(done: Done) -> None:
    """Let the account go."""


@saga("account.kept")
async def keep_account(s: Work, account: str) -> None:
    await s.do(keep, account)
    await s.wait_for("enough", timeout=3600)


def on(journal: Path, made: Callable[[Coordinator], Awaitable[Any]], policy: str = POLICY) -> Any:
    """Do something with a coordinator on a journal that goes by this policy."""
    file = journal.parent / "policy.yaml"
    if not file.exists():
        file.write_text(policy, encoding="utf-8")

    async def whole() -> Any:
        async with Coordinator.open(str(journal), policy=file, env="production", signals=False) as coordinator:
            return await made(coordinator)

    with ThreadPoolExecutor(1) as pool:  # whoever drives a browser has a loop in this thread already
        return pool.submit(lambda: asyncio.run(whole())).result()


async def start(coordinator: Coordinator, definition: Any, *args: Any, id: str, **more: Any) -> None:
    """Start a saga, and leave it where it stands still."""
    handle = await coordinator.start(definition, *args, id=id, **({"actor": "agent:shop"} | more))
    await handle.halt()


async def many(coordinator: Coordinator) -> None:
    """One saga of each kind, as a console has them to show."""
    for number in range(1, 4):
        await coordinator.run(
            plain, f"book-{number}", id=f"done-{number}", labels={"tenant": "acme", "order": f"{number}"}
        )
    await coordinator.run(gone_back, "lamp", id="back-1", actor="agent:shop")
    await coordinator.run(doomed, "vase", id="broken-1", actor="agent:shop", labels={"tenant": "acme"})
    await coordinator.run(doomed, "chair", id="broken-2", actor="agent:shop")
    await coordinator.run(family, "table", id="family-1", actor="agent:shop")
    limits = Limits(steps=Limit(20, then=to_checkpoint("reserved")), usd=5, seconds=7200, tokens=Limit(9, then="pause"))
    await start(coordinator, confirmed, "desk", 4900, id="waits-1", limits=limits)
    await start(coordinator, order_one, "sofa", 129900, "deliver before noon", id="asks-1")
    await start(coordinator, order_one, "carpet", 24900, id="asks-2")
    await start(coordinator, request_access, "person:new", id="asks-3")
    await start(coordinator, set_terms, "acme", 900, "Dear Sir,\npay in 14 days.\nKim\n", id="asks-4")


async def hostile(coordinator: Coordinator) -> None:
    """Sagas whose every text tries to be more than text."""
    labels = {"tenant": XSS}
    await start(coordinator, order_one, XSS, 5, XSS, id="xss-1", actor="agent:<b>bold</b>", labels=labels)
    await coordinator.run(doomed, XSS, id="xss-2", actor="agent:<b>bold</b>", labels=labels)
    await coordinator.comment_incident("xss-2/1", text=XSS, by="person:<i>kim</i>")
    await coordinator.run(gone_back, XSS, id="xss-3", actor="agent:<b>bold</b>")
    await start(coordinator, set_terms, XSS, 5, f"{XSS}\n{XSS}", id="xss-4", actor="agent:<b>bold</b>")
    await coordinator.pause(definition="<script>alert(1)</script>", why=XSS, by="person:<i>kim</i>")


async def root_of(coordinator: Coordinator) -> str:
    """The root of the roster, as somebody would pin it."""
    return (await coordinator.roster()).root


def resumed(journal: Path) -> dict[str, str]:
    """Go on with everything that is unfinished: where each saga stands then."""

    async def whole(coordinator: Coordinator) -> dict[str, str]:
        await coordinator.resume()
        return {row.id: str(row.status) async for row in coordinator.list()}

    found: dict[str, str] = on(journal, whole)
    return found
