"""The fixture of the rules: a clock, a notary, handles that get closed, a few words for appending. No rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Final, TypeVar

from amends.core.events import Event
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import EvidenceError
from amends.journal.port.entries import Entry, Summary
from amends.journal.port.evidence import Handover, Notary, origin_of
from amends.journal.port.journal import Journal
from amends.journal.port.leases import Lease
from amends.journal.port.log import Logged
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.samples import started


class PlainNotary:
    """`name` stands for its key. `signed` counts; `is_ill` lets it refuse."""

    def __init__(self, name: str = "ann") -> None:
        self.name = name
        self.signed = 0
        self.is_ill = False

    def public(self, origin: str) -> str:
        return f"{origin}+{self.name}"

    def holds(self, key: str) -> bool:
        return key == self.public(origin_of(key))

    def sign(self, key: str, size: int, root: bytes, at: int) -> str:
        if self.is_ill:
            raise EvidenceError(f"{self.name} cannot sign today")
        self.signed += 1
        return f"{origin_of(key)}\n{size}\n{root.hex()}\n\n— {self.public(origin_of(key))}\n"

    def read(self, key: str, note: str) -> tuple[int, bytes]:
        origin, size, root, *rest = note.split("\n")
        if f"— {key}" not in rest or origin != origin_of(key):
            raise EvidenceError(f"{key} has not signed it")
        return int(size), bytes.fromhex(root)

    def succeed(self, before: Notary | None, key: str, size: int, root: bytes, at: int) -> Handover:
        both = self.sign(key, size, root, at) + ("" if before is None else f"— {key}\n")
        return Handover(checkpoint=both, record=f"{key} -> {self.public(origin_of(key))}")


RUNNING: Final = Summary(status=SagaStatus.RUNNING)
TTL_S: Final = 30.0


class StoreFixture:
    """One test's store. A test class has no __init__, so what a rule needs is made when it runs."""

    clock: ManualClock
    notary: PlainNotary
    _handles: list[Journal]

    async def open(self) -> Journal:
        """A handle on this test's store, going by `self.clock` and signed by `self.notary`.

        Another call gives another handle on the same store.
        """
        raise NotImplementedError

    async def another(self) -> Journal:
        """One more handle on it, closed when the rule is done."""
        journal = await self.open()
        self._handles.append(journal)
        return journal

    async def stand(self, rule: Callable[[Journal], Coroutine[None, None, None]]) -> None:
        """Run one rule on a fresh handle."""
        self.clock = ManualClock()
        self.notary = PlainNotary()
        self._handles = []
        try:
            await rule(await self.another())
        finally:
            for journal in self._handles:
                await journal.close()


_G = TypeVar("_G", bound=StoreFixture)
_E = TypeVar("_E", bound=Exception)


def rule(test: Callable[[_G, Journal], Coroutine[None, None, None]]) -> Callable[[_G], None]:
    """A test of one rule: it gets a handle, and runs in a loop of its own."""

    def run(self: _G) -> None:
        asyncio.run(self.stand(lambda journal: test(self, journal)))

    run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
    return run


def equal(found: object, expected: object) -> None:
    """An assertion that explains itself wherever it is run from."""
    if found != expected:
        raise AssertionError(f"found {found!r}, expected {expected!r}")


async def refusal(asked: Awaitable[object], kind: type[_E]) -> _E:
    """The error that a call must end in, of exactly this kind."""
    try:
        got = await asked
    except kind as exc:
        equal(type(exc), kind)
        return exc
    raise AssertionError(f"it was not refused: {got!r}")


async def begin(
    journal: Journal, name: str, *, worker: str | None = None, summary: Summary = RUNNING, **about: str
) -> SagaId:
    """Start a saga, held by `worker` where one is named."""
    saga = SagaId(name)
    lease = None if worker is None else held(saga, worker)
    await journal.append(saga, [started(**about)], after=0, summary=summary, lease=lease)
    return saga


async def add(journal: Journal, saga: SagaId, *events: Event, summary: Summary = RUNNING) -> tuple[Entry, ...]:
    """Append to where the saga stands, without a lease."""
    after = len(await entries(journal, saga))
    return await journal.append(saga, events, after=after, summary=summary)


async def entries(journal: Journal, saga: SagaId, *, after: int = 0) -> list[Entry]:
    return [entry async for entry in journal.read(saga, after=after)]


async def events(journal: Journal, saga: SagaId) -> list[Event]:
    return [entry.event async for entry in journal.read(saga)]


async def logged(journal: Journal, *, after: int = 0, names: Collection[str] | None = None) -> list[Logged]:
    return [one async for one in journal.log(after=after, names=names)]


def held(saga: SagaId, worker: str, epoch: int = 1) -> Lease:
    return Lease(saga=saga, worker=worker, epoch=epoch)


def sagas_of(leases: Sequence[Lease]) -> list[str]:
    return [lease.saga for lease in leases]
