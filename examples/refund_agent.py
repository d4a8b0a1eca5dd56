"""An agent answers complaints: it looks the order up, asks a model, sends the money back, and writes a mail.

    python examples/refund_agent.py

A mail cannot be unsent, so in production a person is asked before one goes out: the built-in policy says so. It runs
twice. The first time the bank pays and its answer gets lost: the bank is asked, and the money is not sent again; then
a person reads the mail and approves it. The second time they refuse the mail, so the money is called back.
"""

import asyncio
import tempfile

import amends
from amends import (
    Asked,
    Coordinator,
    Done,
    Ended,
    Happened,
    NotHappened,
    Retries,
    Work,
    action,
    saga,
)

QUICK = Retries(attempts=3, first_s=0.05)


# -- the world: other people's systems --------------------------------------------------------------------------------


class Bank:
    """It remembers the key of each payment. The answer to its first request gets lost."""

    def __init__(self) -> None:
        self.payments: dict[str, int] = {}
        self.requests = 0

    async def pay(self, cents: int, key: str) -> str:
        self.requests += 1
        self.payments[key] = cents
        if self.requests == 1:
            raise ConnectionResetError("the connection broke")
        return f"payment {key[:6]}"


ORDERS = {"A-17": {"cents": 4_900, "mail": "ana@example.org"}, "B-4": {"cents": 2_500, "mail": "bob at example.org"}}
bank = Bank()


# -- the actions ------------------------------------------------------------------------------------------------------


@action("orders.find", read_only=True)
async def find_order(number: str) -> dict[str, object]:
    return ORDERS[number]


@action("model.decide", read_only=True)
async def decide(complaint: str, cents: int) -> int:
    """Stands for a model. As an action its answer is on record, and is the same when the saga is called again."""
    return cents if "broken" in complaint else 0


@action("refund.pay", risk={"money"}, timeout=10, retries=QUICK)
async def pay(cents: int) -> str:
    return await bank.pay(cents, key=amends.key())


@pay.compensation
async def call_back(done: Done) -> None:
    bank.payments.pop(done.action_key, None)  # nothing there: nothing to take back


@pay.probe
async def find_payment(asked: Asked) -> Happened | NotHappened:
    return Happened(f"payment {asked.key[:6]}") if asked.key in bank.payments else NotHappened()


@action("mail.send", no_rollback="a mail cannot be unsent")
async def send(to: str, text: str) -> None:
    """Send a mail to a customer."""


# -- the saga: what cannot be taken back comes last -------------------------------------------------------------------


@saga("complaint.answer")
async def answer(s: Work, number: str, complaint: str) -> str:
    order = await s.do(find_order, number)
    cents = await s.do(decide, complaint, int(str(order["cents"])))
    if cents:
        await s.do(pay, cents)
    await s.do(send, str(order["mail"]), f"we sent you {cents / 100:.2f} back")
    return f"{cents} cents back for {number}"


# -- the person: here in the same program; elsewhere with `amends approval show` and `grant`, on another day ----------


async def answer_what_is_asked(coordinator: Coordinator, saga_id: str) -> None:
    """Wait until something is asked, look at it, and answer for exactly what was shown."""
    while not (rows := await coordinator.approvals(saga=saga_id)):
        await asyncio.sleep(0.01)
    asked = await coordinator.approval(rows[0].id)  # .topic, .args, .why, .compensation, .so_far, …
    match asked.args:
        case {"to": str(address)} if "@" in address:
            await coordinator.grant(asked.id, by="person:kim", why="Ana is right", digest=asked.digest)
        case _:
            await coordinator.refuse(asked.id, by="person:kim", why="this is no address")


async def run(coordinator: Coordinator, number: str, complaint: str) -> None:
    handle = await coordinator.start(answer, number, complaint, actor="agent:desk", labels={"owner": "person:olga"})
    await answer_what_is_asked(coordinator, handle.id)
    await show(coordinator, await handle)


async def show(coordinator: Coordinator, ended: Ended) -> None:
    history = await coordinator.show(ended.id)
    for line in history.timeline:
        print(f"{line.direction:<8} {line.step or '':>2}  {line.topic:<14}  {line.text}")
    paid = sum(bank.payments.values())
    print(f"=> {ended.status}: {ended.result or ended.why}")
    print(f"   requests to the bank: {bank.requests}; paid in all: {paid} cents\n")


async def main(place: str) -> None:
    async with Coordinator.open(f"{place}/amends.db", env="production") as coordinator:
        await run(coordinator, "A-17", "the lamp is broken")
        await run(coordinator, "B-4", "the vase came broken")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))
