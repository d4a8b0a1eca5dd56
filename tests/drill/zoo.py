"""A small world that sagas act on, good actions, and a zoo of compensations that each do one thing wrong."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import amends
from amends import Action, Asked, Done, Happened, NotHappened, SagaDefinition, Work, register, saga


@dataclass
class Shop:
    """Other people's systems: what is reserved, by key; what is paid, by key; and the till."""

    reserved: dict[str, str] = field(default_factory=dict[str, str])
    charges: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    till: int = 0
    roles: dict[str, str] = field(default_factory=lambda: {"kim": "clerk"})

    def fresh(self) -> None:
        self.reserved.clear()
        self.charges.clear()
        self.till = 0
        self.roles = {"kim": "clerk"}

    def seen(self) -> dict[str, object]:
        return {"reserved": self.reserved, "charges": self.charges, "till": self.till, "roles": self.roles}

    # -- a good action, async ----------------------------------------------------------------------------------------

    def reserve(self, topic: str = "stock.reserve") -> Action[..., Any]:
        async def reserve(item: str) -> str:
            await asyncio.sleep(0)
            self.reserved[amends.key()] = item
            return f"R-{item}"

        async def release(done: Done) -> None:
            await asyncio.sleep(0)
            self.reserved.pop(done.action_key, None)

        async def find(asked: Asked) -> Happened | NotHappened:
            return Happened(f"R-{asked.args['item']}") if asked.key in self.reserved else NotHappened()

        return register(topic, reserve, compensation=release, probe=find)

    # -- a payment, plain, whose compensation is given -----------------------------------------------------------------

    def charge(self, refund: Callable[..., object] | None, **contract: Any) -> Action[..., Any]:
        def charge(cents: int) -> None:
            self.charges.append((amends.key(), cents))
            self.till += cents

        def find(asked: Asked) -> Happened | NotHappened:
            return Happened() if self.paid(asked.key) else NotHappened()

        probe = None if contract.pop("blind", False) else find
        return register("card.charge", charge, compensation=refund, probe=probe, **contract)

    def paid(self, key: str) -> bool:
        return any(each == key for each, _ in self.charges)

    def refund(self, done: Done) -> None:
        """The good one."""
        for charge in [each for each in self.charges if each[0] == done.action_key]:
            self.charges.remove(charge)
            self.till -= charge[1]

    def set_role(self, restore: Callable[..., object], topic: str = "role.set") -> Action[..., Any]:
        def set_role(user: str, role: str) -> None:
            self.roles[user] = role

        def role_of(user: str) -> str:
            return self.roles[user]

        def is_set(asked: Asked) -> Happened | NotHappened:
            return Happened() if self.roles[asked.args["user"]] == asked.args["role"] else NotHappened()

        return register(topic, set_role, compensation=restore, before=role_of, probe=is_set, idempotent=True)


def order(charge: Action[..., Any], shop: Shop) -> SagaDefinition:
    """Reserve, charge, reserve something else."""
    reserve, pack = shop.reserve(), shop.reserve("stock.pack")

    @saga("zoo.order")
    async def buy(s: Work, cents: int = 500) -> str:
        reserved: str = await s.do(reserve, "lamp")
        await s.do(charge, cents)
        await s.do(pack, "box")
        return reserved

    return buy


# -- the zoo ----------------------------------------------------------------------------------------------------------


def no_op(shop: Shop) -> Callable[..., object]:
    def refund(done: Done) -> None:
        """All is well."""

    return refund


def double_refund(shop: Shop) -> Callable[..., object]:
    """Gives the money back each time that it is called."""

    def refund(done: Done) -> None:
        shop.charges = [each for each in shop.charges if each[0] != done.action_key]
        shop.till -= done.args["cents"]

    return refund


def not_idempotent(shop: Shop) -> Callable[..., object]:
    """Complains when it is called again."""

    def refund(done: Done) -> None:
        if done.certain and not shop.paid(done.action_key):
            raise LookupError("there is no such charge")
        shop.refund(done)

    return refund


def fails_when_nothing_happened(shop: Shop) -> Callable[..., object]:
    def refund(done: Done) -> None:
        if not done.certain and not shop.paid(done.action_key):
            raise LookupError("there is no such charge")
        shop.refund(done)

    return refund


def wrong_order(shop: Shop) -> Callable[..., object]:
    """Takes the reservation back as well, which is older."""

    def refund(done: Done) -> None:
        shop.refund(done)
        shop.reserved.clear()

    return refund


def hangs(shop: Shop) -> Callable[..., object]:
    async def refund(done: Done) -> None:
        await asyncio.Event().wait()

    return refund


def hangs_in_a_thread(shop: Shop) -> Callable[..., object]:
    def refund(done: Done) -> None:
        threading.Event().wait()

    return refund


class Unheard(BaseException):
    """What `except Exception` does not catch."""


def raises_base_exception(shop: Shop) -> Callable[..., object]:
    async def refund(done: Done) -> None:
        raise Unheard("out of here")

    return refund


def exits(shop: Shop) -> Callable[..., object]:
    def refund(done: Done) -> None:
        raise SystemExit(1)

    return refund


def takes_back_too_much(shop: Shop) -> Callable[..., object]:
    """Gives money back that was never taken."""

    def refund(done: Done) -> None:
        shop.charges = [each for each in shop.charges if each[0] != done.action_key]
        if not done.certain or shop.till >= done.args["cents"]:
            shop.till -= done.args["cents"]

    return refund
