"""`amends demo --console`: the console on a small journal, with an approval to grant and an incident to resolve.

The server's process knows the demo's actions, so what is decided on a page is done at once.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from amends import Done, Fatal, Work, action, saga
from amends.bootstrap import Coordinator
from amends.cli.demo import trip
from amends.cli.show.output import Output
from amends.errors import InputError

POLICY: Final = """\
version: v1
default: allow
rules:
  - id: big-refunds-take-a-person
    when: {topic: refund.pay, args.cents: {gt: 10000}}
    decision: require_human
    expires: 24h
"""
AGENT: Final = "agent:support"
_SMALL: Final = (1_900, 4_900, 2_400)
_PACE_S: Final = 0.08


def _act_on(*_what: object) -> None:
    """Do what the world of this demo does: nothing, for a moment."""
    threading.Event().wait(_PACE_S)


@action("order.look_up", read_only=True)
def look_up_order(order: str) -> dict[str, str]:
    """Look an order up in the shop."""
    _act_on(order)
    return {"order": order, "paid_with": "card"}


@action("refund.pay", risk={"money"}, idempotent=True)
def pay_refund(order: str, cents: int, why: str) -> str:
    """Pay money back to the card that the order was paid with."""
    _act_on(order, cents, why)
    return f"refund of {order}"


@pay_refund.before
def refunded_so_far(order: str) -> dict[str, int | str]:
    """Look up what of an order was paid back already: here, nothing."""
    _act_on(order)
    return {"order": order, "cents": 0}


@pay_refund.compensation
def claim_refund_back(done: Done) -> None:
    """Charge the same card once more."""
    _act_on(done)


@action("mail.send", no_rollback="a mail cannot be unsent")
def send_mail(to: str, text: str) -> None:
    """Tell the customer."""
    _act_on(to, text)


@action("parcel.hand_over")
def hand_parcel_over(order: str) -> str:
    """Hand the parcel to the courier."""
    _act_on(order)
    return f"parcel of {order}"


@hand_parcel_over.compensation
def fetch_parcel_back(done: Done) -> None:
    """Have the courier bring the parcel back."""
    _act_on(done)
    raise Fatal("the courier has delivered it already: ask the customer, then send it back by hand")


@action("stock.reserve")
def reserve_stock(order: str) -> str:
    """Put the goods aside in the warehouse."""
    _act_on(order)
    return f"shelf of {order}"


@reserve_stock.compensation
def free_stock(done: Done) -> None:
    """Put the goods back on the shelf."""
    _act_on(done)


@action("invoice.book")
def book_invoice(order: str) -> None:
    """Book the invoice."""
    _act_on(order)
    raise Fatal(f"the books of this year are closed: {order} cannot be booked", happened=False)


@book_invoice.compensation
def cancel_invoice(done: Done) -> None:
    """Cancel the invoice."""
    _act_on(done)


@saga("demo.refund")
async def refund_order(s: Work, order: str, cents: int, why: str) -> str:
    """Refund an order: a big one takes a person."""
    await s.do(look_up_order, order)
    paid = await s.do(pay_refund, order, cents, why)
    await s.do(send_mail, f"{order}@example.com", f"{cents / 100:.2f} are on their way back to you.")
    return paid


@saga("demo.delivery")
async def deliver(s: Work, order: str) -> None:
    """Deliver an order; here its invoice fails, and the parcel is gone."""
    await s.do(reserve_stock, order)
    await s.do(hand_parcel_over, order)
    await s.do(book_invoice, order)


async def show_console(out: Output, place: Path) -> int:
    """Make the demo's sagas, and serve the console on them until it is stopped."""
    try:
        from amends.http.serve import Listening, serve
    except ImportError as exc:
        extra = "the console needs the extra serve; install it: pip install 'amends[serve]'"
        raise InputError(f"{extra} ({exc})") from None
    journal, policy = str(place / "amends.db"), place / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    out.say("making some sagas…")
    await _make_sagas(journal, policy, trip.TripWorld(place / "world.txt", pace_s=_PACE_S))

    def ready(urls: object, login: str) -> None:
        del urls
        out.record("serving", {"login": login, "journal": journal})
        out.say()
        out.say(("The console is at  ", "bold"), (login, "bold cyan"))
        out.say("An agent asks to pay a refund of 1299.00: grant it, or refuse it with a reason.")
        out.say("A delivery could not be taken back: look what stands, then see to it.")
        out.say("Ctrl-C ends it.")

    await serve(Listening(port=0, peers={}), journal=journal, policy=str(policy), env="production", ready=ready)
    return 0


async def _make_sagas(journal: str, policy: Path, world: trip.TripWorld) -> None:
    trip.act_upon(world)
    async with Coordinator.open(journal, policy=policy, env="production", signals=False) as coordinator:
        for number, cents in enumerate(_SMALL, 1):
            await coordinator.run(
                refund_order, f"order-{number}", cents, "arrived broken", id=f"refund-{number}", actor=AGENT
            )
        await coordinator.run(trip.book_trip, **trip.TRIP, id="trip-1", actor="agent:travel")
        await coordinator.run(deliver, "order-7", id="delivery-7", actor=AGENT, labels={"tenant": "acme"})
        asked = await coordinator.start(
            refund_order, "order-9", 129_900, "the customer never got it", id="refund-9", actor=AGENT
        )
        await asked.halt()
