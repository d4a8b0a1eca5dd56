"""An agent answers complaints: it looks the order up, asks a model, sends the money back, and writes a mail.

    python examples/refund_agent.py

It runs twice. The first time the bank pays and its answer gets lost: the bank is asked, and the money is not sent
again. The second time the mail cannot be written, so the money is called back.
"""

import asyncio
import tempfile
from pathlib import Path

import amends
from amends import (
    Asked,
    Coordinator,
    Done,
    Ended,
    Fatal,
    Happened,
    NotHappened,
    Retries,
    Work,
    action,
    saga,
)
from amends.evidence.timeline import timeline

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
    if "@" not in to:
        raise Fatal(f"{to!r} is not an address", happened=False)


# -- the saga: what cannot be taken back comes last -------------------------------------------------------------------


@saga("complaint.answer")
async def answer(s: Work, number: str, complaint: str) -> str:
    order = await s.do(find_order, number)
    cents = await s.do(decide, complaint, int(str(order["cents"])))
    if cents:
        await s.do(pay, cents)
    await s.do(send, str(order["mail"]), f"we sent you {cents / 100:.2f} back")
    return f"{cents} cents back for {number}"


async def show(coordinator: Coordinator, ended: Ended) -> None:
    history = await coordinator.show(ended.id)
    for line in timeline(history.entries):
        print(f"{line.direction:<8} {line.step or '':>2}  {line.topic:<14}  {line.text}")
    paid = sum(bank.payments.values())
    print(f"=> {ended.status}: {ended.result or ended.why}")
    print(f"   requests to the bank: {bank.requests}; paid in all: {paid} cents\n")


# In production, what cannot be taken back needs a person, unless a policy says otherwise.
POLICY = """
version: v1
rules:
  - id: mails-to-customers
    when: {topic: mail.send, actor: "agent:desk"}
    decision: allow
"""


async def main(place: str) -> None:
    policy = Path(place) / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    async with Coordinator.open(f"{place}/amends.db", policy=policy, env="production") as coordinator:
        await show(coordinator, await coordinator.run(answer, "A-17", "the lamp is broken", actor="agent:desk"))
        await show(coordinator, await coordinator.run(answer, "B-4", "the vase came broken", actor="agent:desk"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))
