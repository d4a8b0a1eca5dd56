"""Two agents on one account: one refunds, the other closes. One waits, one gives way, and no note is lost.

    python examples/two_agents/agents.py            run both, side by side
    python examples/two_agents/agents.py resume     go on with what a killed process left

The bank is a file of bookings, `bank.json`, and the journal is beside it. Set PAUSE_S to have time for a kill -9 in
the middle.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from amends import Asked, Coordinator, DeadlockError, Done, Happened, NotHappened, Settings, Work, action, key, saga
from amends.errors import DocumentConflictError

BANK = Path(os.environ.get("BANK", "bank.json"))
PAUSE_S = float(os.environ.get("PAUSE_S", "0.1"))


def bookings() -> dict[str, tuple[str, int]]:
    """Account and amount of each booking, by its key."""
    found: dict[str, tuple[str, int]] = json.loads(BANK.read_text(encoding="utf-8")) if BANK.exists() else {}
    return found


def balances() -> dict[str, int]:
    found = {"ann": 100, "bob": 100}
    for account, cents in bookings().values():
        found[account] += cents
    return found


def book(key: str, account: str, cents: int) -> int:
    """What has this key already is not booked again."""
    BANK.write_text(json.dumps({**bookings(), key: (account, cents)}), encoding="utf-8")
    return balances()[account]


@action("account.move", atomic=True, resources=["account:{account}"])
async def move(account: str, cents: int) -> int:
    """Book an amount to an account that nobody else is at until the saga has ended."""
    return book(key(), account, cents)


@move.before
async def balance(account: str) -> int:
    return balances()[account]


@move.compensation
async def move_back(done: Done) -> None:
    if done.action_key in bookings():
        book(back(done.action_key), done.args["account"], -done.args["cents"])


@move.reread
async def balance_now(done: Done) -> int:
    """Whoever changed it since: a compensation that is repeated may also find the balance of before, its own work."""
    return balances()[done.args["account"]]


@move.probe
async def is_booked(asked: Asked) -> Happened | NotHappened:
    booked = bookings()
    stands = asked.key in booked and back(asked.key) not in booked
    return Happened(balances()[asked.args["account"]]) if stands else NotHappened()


def back(key: str) -> str:
    return f"{key} taken back"


@action("agent.think", read_only=True)
async def think() -> None:
    """What an agent does between two steps; meanwhile the account is its own."""
    await asyncio.sleep(PAUSE_S)


@saga("account.refund")
async def refund(s: Work, account: str, cents: int) -> str:
    left = await s.do(move, account, cents)
    await s.do(think)
    await s.state.update("refunded", lambda names: [*names, account], default=[])
    return f"{account} has {left}"


@saga("account.swap")
async def swap(s: Work, one: str, other: str) -> str:
    """Take from one account and give to the other; two of these that cross each other cannot both have their way."""
    try:
        await s.do(move, one, -10)
        await s.do(think)
        await s.do(move, other, +10)
    except DeadlockError:
        return await give_way(s, one)
    return f"from {one} to {other}"


async def give_way(s: Work, one: str) -> str:
    await s.do(move, one, +10)
    return f"gave way at {one}"


@saga("notes.share")
async def share(s: Work, who: str) -> str:
    """Both want to write the same page: the second one is told who is at it."""
    try:
        await s.documents.set("shared/page", f"{who} was here")
        await s.do(think)
    except DocumentConflictError as exc:
        return f"{exc.document} is taken"
    return f"{who} wrote it"


async def main() -> None:
    settings = Settings(park_s=0.2, poll_s=0.1)
    async with Coordinator.open("agents.db", settings=settings) as on:
        if sys.argv[1:] == ["resume"]:
            for ended in await on.resume():
                print(f"{ended.id}: {ended.status.value}")
        else:
            runs = {
                "refund-1": on.run(refund, "ann", 5, id="refund-1", actor="agent:refunds"),
                "refund-2": on.run(refund, "ann", 7, id="refund-2", actor="agent:refunds"),
                "page-1": on.run(share, "one", id="page-1"),
                "page-2": on.run(share, "two", id="page-2"),
            }
            for ended in await asyncio.gather(*runs.values()):
                print(f"{ended.id}: {ended.status.value} {ended.result}")
            ways = (("swap-1", "ann", "bob"), ("swap-2", "bob", "ann"))
            swaps = [on.run(swap, one, other, id=name) for name, one, other in ways]
            print(sorted(str(ended.result).split()[0] for ended in await asyncio.gather(*swaps)))
        noted = await on.documents.get("agent:refunds/refunded")
        print(f"{balances()}, noted {noted.body if noted else None}, held {await on.locks()}")


if __name__ == "__main__":
    asyncio.run(main())
