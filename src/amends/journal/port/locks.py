"""Locks on resources, and the lines for them: the port, its data, and the search for circles. Not the waiting.

A resource is a name that users make up: `account:17`. For each there is one line of tickets, in the order of asking,
and the owner of the first ticket holds the resource: nobody has to hand it on. An owner's tickets go in the same
transaction as the append that ends it, so a lock can neither outlive its saga nor be lost before that.

A step asks for all that it needs at once, so its tickets stand in all lines in the same order as everybody else's:
one request alone never makes a circle. A saga that holds one thing and asks for another can. Whoever waits, waits for
the next other owner ahead; a request that would close a circle of those is refused, and leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol, TypeAlias

from amends.core.words.values import SagaId, StepId
from amends.dataclass import dataclass
from amends.errors import InputError, RefusedError
from amends.journal.port.leases import Lease

LONGEST_RESOURCE: Final = 256


class LockAsk(NamedTuple):
    """A step's request for all that it needs; asked again, it is the same request. `until` is when it is given up.

    `owner` is the saga whose end frees what is taken, and whose locks the asking one shares.
    """

    saga: SagaId
    step: StepId
    owner: SagaId
    resources: tuple[str, ...]
    until: int
    most_waiting: int


class LocksTaken(NamedTuple):
    """All of it is the owner's."""


class LocksQueued(NamedTuple):
    """It stands in line; `holder` is who has the first that is missing."""

    resource: str
    holder: SagaId


class LocksRefused(NamedTuple):
    """It got nothing, and left no ticket. `circle` names who waits for whom, from the asking saga back to itself."""

    resource: str
    holder: SagaId
    waiting: int = 0
    circle: tuple[LockWait, ...] = ()


class LockWait(NamedTuple):
    """One saga waits for another, which is ahead of it in the line of a resource."""

    saga: SagaId
    resource: str
    ahead: SagaId


LockAnswer: TypeAlias = LocksTaken | LocksQueued | LocksRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRow:
    """A ticket: `place` 0 holds the resource, 1 is the next in line."""

    resource: str
    saga: SagaId
    owner: SagaId
    step: StepId
    place: int
    asked_at: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockQuery:
    """Oldest first; None means any. `after` is the cursor of the page before."""

    resource: str | None = None
    saga: SagaId | None = None
    after: str | None = None
    limit: int = 100


class LockPage(NamedTuple):
    rows: tuple[LockRow, ...]
    cursor: str | None


class Locks(Protocol):
    """Locks on what somebody needs for itself, and who waits for it."""

    async def lock(self, ask: LockAsk, lease: Lease) -> LockAnswer:
        """Take all of it, or stand in line, or be refused: too many wait, the time is up, or it would close a circle.

        When its turn comes, whoever holds the asking saga finds it among its `nudged`, and it is due.
        Tickets go with the append that ends their owner; those that still wait, with the one by which their saga stops
        going forward. Raises LeaseLostError; RefusedError for a saga that has ended.
        """
        ...

    async def locks(self, query: LockQuery) -> LockPage: ...

    async def awake(self, worker: str) -> tuple[SagaId, ...]:
        """Sagas as `nudged` has them, for a caller that has a loop: asked when something was freed just now."""
        ...


def checked_resource(name: str) -> str:
    """Raises InputError for what cannot be one."""
    if not 0 < len(name) <= LONGEST_RESOURCE or not name.isprintable() or name != name.strip():
        raise InputError(
            f"{name[:80]!r} cannot name a resource: 1 to {LONGEST_RESOURCE} printable characters can, as 'account:17'"
        )
    return name


def ended(saga: SagaId) -> RefusedError:
    return RefusedError(f"saga {saga} has ended, or does not go forward any more; it takes no lock")


class Lines(Protocol):
    """The tickets of a store, in a transaction of its own."""

    def holder(self, resource: str) -> SagaId | None:
        """The owner of the first ticket."""
        ...

    def standing(self, saga: SagaId, step: StepId) -> frozenset[str]:
        """The resources that a step has a ticket for."""
        ...

    def add(self, ask: LockAsk, resource: str) -> None: ...

    def drop(self, saga: SagaId, step: StepId) -> None:
        """Take a step's tickets out of their lines, and wake those whose turn that makes it."""
        ...

    def length(self, resource: str) -> int: ...

    def tickets(self, owner: SagaId) -> int:
        """How many an owner has in all lines."""
        ...

    def ahead_of(self, owner: SagaId) -> Iterable[LockWait]:
        """Whom an owner waits for: for each of its tickets, the next other owner ahead."""
        ...


def answered(lines: Lines, ask: LockAsk, now: int) -> LockAnswer:
    """The answer to a request, by the same rules for every store."""
    had = lines.standing(ask.saga, ask.step)
    new = [name for name in ask.resources if name not in had and lines.holder(name) != ask.owner]
    for resource in new:
        lines.add(ask, resource)
    missing = [(name, holder) for name in ask.resources if (holder := lines.holder(name)) and holder != ask.owner]
    if not missing:
        return LocksTaken()
    refused = LocksRefused(*missing[0]) if now >= ask.until else _refused(lines, ask, new)
    if refused is None:
        return LocksQueued(*missing[0])
    lines.drop(ask.saga, ask.step)
    return refused


def _refused(lines: Lines, ask: LockAsk, new: list[str]) -> LocksRefused | None:
    """Why a new request may not wait. One that waits already has been asked this before."""
    for resource in new:
        holder, waiting = lines.holder(resource), lines.length(resource) - 2  # less who holds it, and who asks
        if holder is not None and holder != ask.owner and waiting >= ask.most_waiting:
            return LocksRefused(resource, holder, waiting=waiting)
    if not new or lines.tickets(ask.owner) == len(new):
        return None  # nobody can be waiting for one that has nothing else
    found = circle(lines, ask.owner)
    return LocksRefused(found[0].resource, found[0].ahead, circle=found) if found else None


def circle(lines: Lines, asking: SagaId) -> tuple[LockWait, ...]:
    """The shortest way from a saga over those that it waits for back to itself; nothing where there is none."""
    reached_by: dict[SagaId, LockWait] = {}
    edge = [asking]
    while edge:
        further: list[SagaId] = []
        for owner in edge:
            for wait in lines.ahead_of(owner):
                if wait.ahead == asking:
                    return _path(reached_by, wait, asking)
                if wait.ahead not in reached_by:
                    reached_by[wait.ahead] = wait
                    further.append(wait.ahead)
        edge = further
    return ()


def _path(reached_by: dict[SagaId, LockWait], last: LockWait, asking: SagaId) -> tuple[LockWait, ...]:
    found = [last]
    while found[0].saga != asking:
        found.insert(0, reached_by[found[0].saga])
    return tuple(found)
