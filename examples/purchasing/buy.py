"""A purchasing agent with a budget: it plans, buys what was quoted, and is taken back when it has spent too much.

    python buy.py shop/ orders.db order-1 3.00

The shop is a directory: an order is a file in it. The plan is a model's, here a list of answers in `shop/answers.json`;
the first that is no plan is asked for again, with the reason. Killed anywhere, run it again with the same id.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import amends
from amends import Asked, Done, Ended, Flawed, Happened, Limits, NotHappened, Work, action, check, saga

PRICES = {"desk": 18_000, "lamp": 4_200, "chair": 9_900}


def shop_dir() -> Path:
    return Path(os.environ["SHOP"])


@action("llm.plan", read_only=True, timeout=30)
def plan(goal: str) -> dict[str, Any]:
    """Ask the model what to buy. It is told what was wrong with its earlier answers."""
    answers = json.loads((shop_dir() / "answers.json").read_text())
    with (shop_dir() / "prompts.txt").open("a") as asked:
        asked.write(f"{goal} {list(amends.reasons())}\n")
    answer: dict[str, Any] = answers[min(len(amends.reasons()), len(answers) - 1)]
    return answer


@plan.validate
def names_what_is_sold(result: dict[str, Any]) -> None:
    unknown = set(result["items"]) - set(PRICES)
    if unknown:
        raise Flawed(f"nobody sells {', '.join(sorted(unknown))}")


@action("shop.quote", read_only=True)
def quote(item: str) -> dict[str, Any]:
    return {"item": item, "cents": PRICES[item]}


@action("shop.order", idempotent=True, risk={"money"}, sourced={"cents": "shop.quote", "item": "llm.plan"})
def order(item: str, cents: int) -> str:
    """Order one thing at the price that was quoted."""
    (shop_dir() / f"{item}.order").write_text(str(cents))
    if (shop_dir() / f"kill-{item}").exists():  # the test's: the machine goes down after the order went out
        (shop_dir() / f"kill-{item}").unlink()
        os.kill(os.getpid(), 9)
    return f"{item}-{cents}"


@order.probe
def is_ordered(asked: Asked) -> Happened | NotHappened:
    item, cents = asked.args["item"], asked.args["cents"]
    return Happened(f"{item}-{cents}") if (shop_dir() / f"{item}.order").exists() else NotHappened()


@order.compensation
def cancel(done: Done) -> None:
    (shop_dir() / f"{done.args['item']}.order").unlink(missing_ok=True)


def all_is_ordered(result: list[str]) -> bool:
    return sorted(path.stem for path in shop_dir().glob("*.order")) == sorted(one.partition("-")[0] for one in result)


@saga("office.furnish", verify=[check(all_is_ordered, timeout=10)])
async def furnish(s: Work, goal: str) -> list[str]:
    wanted = await s.do(plan, goal)
    await s.spend(usd=wanted["usd"], tokens=wanted["tokens"], what="the plan")
    bought: list[str] = []
    for item in wanted["items"]:
        offer = await s.do(quote, item)
        bought.append(await s.do(order, item, offer["cents"]))
        await s.spend(usd="0.40", what=f"ordering the {item}")
    return bought


def main(shop: str, journal: str, order_id: str, usd: str) -> Ended:
    os.environ["SHOP"] = shop
    return amends.run(
        furnish,
        "an office",
        journal=journal,
        id=order_id,
        actor="agent:buyer",
        limits=Limits(usd=usd, spin=3),
    )


if __name__ == "__main__":
    ended = main(*sys.argv[1:5])
    print(ended.status, ended.result if ended.status == "completed" else ended.why)
