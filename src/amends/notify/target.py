"""Targets of notices: what one has to be, and how a try to tell it ended."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from amends.dataclass import dataclass
from amends.errors import InputError

if TYPE_CHECKING:
    from amends.notify.notice import Notice

GIVE_UP_S: Final = 3 * 86_400.0
HEADS_EVERY_S: Final = 600.0
"""How often a target is told of a new tree head at most, unless it says otherwise."""
LONGEST_NAME: Final = 100
LONGEST_TRY_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Delivered:
    pass


@dataclass(frozen=True, slots=True)
class Undelivered:
    """`why` is in our words: what a receiver sends back is not ours to repeat. `after_s`: how long it asks to wait."""

    why: str
    after_s: float = 0.0


Delivery: TypeAlias = Delivered | Undelivered


class Target(Protocol):
    """One that is told. Its cursor in the journal has its `name`; `shown` is what lists say of it, without secrets."""

    @property
    def name(self) -> str: ...

    @property
    def shown(self) -> str: ...

    @property
    def types(self) -> Sequence[str]:
        """Types of notices that it is told of."""
        ...

    @property
    def timeout_s(self) -> float:
        """After this a try is over, whatever it does."""
        ...

    @property
    def give_up_s(self) -> float:
        """A notice that is older and cannot be delivered is given up."""
        ...

    def check(self) -> None:
        """Whether it could be told at all. Raises InputError or SecretUnavailableError."""
        ...

    async def deliver(self, notice: Notice, now: int) -> Delivery:
        """Tell it once, within `timeout_s`."""
        ...


def heads_every_s(target: Target) -> float:
    """How often it is told of a new tree head at most."""
    return float(getattr(target, "heads_every_s", HEADS_EVERY_S))


def check_numbers(timeout_s: float, give_up_s: float, heads_every_s: float = HEADS_EVERY_S) -> None:
    if not 0 < timeout_s <= LONGEST_TRY_S:
        raise InputError(f"timeout_s is {timeout_s:g}; a try takes more than 0 and at most {LONGEST_TRY_S:g} seconds")
    if not give_up_s >= 0:
        raise InputError(f"give_up_s is {give_up_s:g}; it cannot be less than 0")
    if not heads_every_s >= 0:
        raise InputError(f"heads_every_s is {heads_every_s:g}; it cannot be less than 0")


def checked_name(name: str) -> str:
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise InputError(f"{name!r} cannot name a target: 1 to {LONGEST_NAME} printable characters can")
    return name


def default_name(lead: str, *identity: str) -> str:
    """A name that stays as long as the address or the command does, and gives nothing of it away but the lead."""
    mark = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:8]
    return f"{lead[: LONGEST_NAME - 9]}-{mark}"
