"""The port that everything durable goes through, and the plain data that crosses it.

Two numbers keep drivers apart. An append names the newest entry that its author has seen (`after`): if another entry
came since, nothing is written. And it may carry a lease, whose epoch rises each time a saga changes hands: if it has
risen, nothing is written. So a worker that slept through the end of its lease cannot write, whatever it believes.

A lease belongs to a worker, and a worker's lifetime is one row that it renews: holding ten thousand sagas costs one
small write each half minute. A saga is free to be claimed when its worker has not renewed in time, has given up its
leases, or (where that can be told on the same machine) is no longer alive.

All entries of a journal, of whichever saga, stand in one order, without gaps. Over them grows a Merkle tree, whose root
a notary signs now and then: a checkpoint. What is before one that somebody else holds cannot be changed unseen.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from typing import Final, NamedTuple, Protocol, cast

from amends.core.events import Event, IncidentKind
from amends.core.transitions import SagaStatus
from amends.core.values import PARENT as _PARENT, SagaId, StepId
from amends.core.verdict import Rate
from amends.dataclass import dataclass
from amends.errors import PayloadRemovedError
from amends.journal.attested import Attested
from amends.journal.filing import Filing
from amends.journal.locking import Locking

PARENT: Final = _PARENT
"""The label that says of which saga another is a child."""
ROOT: Final = "amends.root"
"""The label that says of a child which saga its family goes back to: the one that is nobody's child."""
_DUE: Final = frozenset({SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.ROLLING_BACK, SagaStatus.PAUSED})


class Entry(NamedTuple):
    """One fact on record. `name` and `body` are its wire form; `hash` covers them and the entry before."""

    saga: SagaId
    number: int
    at: int
    name: str
    body: str
    hash: bytes
    event: Event

    @property
    def is_removed(self) -> bool:
        """Whether its body was removed; then its event cannot be had, and asking for it raises PayloadRemovedError."""
        return False


class RemovedEntry(Entry):
    """An entry of which retention left everything but its content. `body` holds the digest of what stood there."""

    __slots__ = ()

    @classmethod
    def of(cls, saga: SagaId, number: int, at: int, name: str, body: str, hashed: bytes) -> RemovedEntry:
        return cls(saga, number, at, name, body, hashed, cast("Event", None))

    @property
    def event(self) -> Event:  # pyright: ignore[reportIncompatibleVariableOverride] - it cannot be had
        raise PayloadRemovedError(
            f"saga {self.saga}, entry {self.number} ({self.name}): what it held was removed, as retention asks; "
            "its number, time, name and digest are kept"
        )

    @property
    def is_removed(self) -> bool:
        return True


class Logged(NamedTuple):
    """An entry and its place in the journal: 1, 2, 3 over all sagas, without gaps."""

    position: int
    entry: Entry


class Cursor(NamedTuple):
    """How far somebody has come who reads the log, and a few words of theirs on it."""

    name: str
    position: int = 0
    note: str = ""


class Lease(NamedTuple):
    """A worker's numbered right to drive one saga."""

    saga: SagaId
    worker: str
    epoch: int


class Driver(NamedTuple):
    """Who has a saga's lease, and until when by the clock on the wall, unless it is renewed.

    `is_gone`: that worker does not live, so nobody drives the saga; then there is no time. `pid` is 0 where nothing can
    be seen of its process.
    """

    worker: str
    until_at: int | None = None
    is_gone: bool = True
    pid: int = 0


class Inspection(NamedTuple):
    """What a store found wrong with itself. `is_whole`: it came to an end within the time that it was given."""

    troubles: tuple[str, ...] = ()
    is_whole: bool = True


class Summary(NamedTuple):
    """What lists show of a saga after an append; `wake_at` is when it has something to do again."""

    status: SagaStatus
    wake_at: int | None = None
    wakes: SagaId | None = None
    """A saga that waited for this one, and has something to do now."""

    @property
    def is_due(self) -> bool:
        """Whether a worker has something to do, now or later: it neither ended nor waits for a person's decision."""
        return self.status in _DUE


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaRow:
    id: SagaId
    definition: str
    version: int
    env: str
    actor: str
    status: SagaStatus
    labels: dict[str, str]
    started_at: int
    updated_at: int
    ended_at: int | None
    entries: int
    open_incidents: int
    open_approvals: int
    pruned: bool = False
    """What its entries held was removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """`id` is `<saga>/<number>`."""

    id: str
    saga: SagaId
    number: int
    definition: str
    kind: IncidentKind
    step: StepId | None
    why: str
    left: tuple[StepId, ...]
    owner: str
    status: str
    opened_at: int
    closed_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRow:
    """`id` is `<saga>/<step>`."""

    id: str
    saga: SagaId
    step: StepId
    definition: str
    topic: str
    rule: str
    status: str
    requested_at: int
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaQuery:
    """Filters are joined by and; None means any. Newest first; `before` is the cursor of the page before.

    `starts_with` is how the id begins; `without` names definitions whose sagas are left out.
    """

    statuses: tuple[SagaStatus, ...] | None = None
    definition: str | None = None
    topic: str | None = None
    env: str | None = None
    parent: SagaId | None = None
    started_from: int | None = None
    started_until: int | None = None
    starts_with: str = ""
    without: tuple[str, ...] = ()
    before: str | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonQuery:
    """For approvals and incidents; oldest first, because the oldest has waited longest. `after` is a cursor."""

    open_only: bool = True
    saga: SagaId | None = None
    after: str | None = None
    limit: int = 100


class SagaPage(NamedTuple):
    rows: tuple[SagaRow, ...]
    cursor: str | None


class IncidentPage(NamedTuple):
    rows: tuple[IncidentRow, ...]
    cursor: str | None


class ApprovalPage(NamedTuple):
    rows: tuple[ApprovalRow, ...]
    cursor: str | None


class Journal(Attested, Locking, Filing, Protocol):
    """Every method is safe to call from several coroutines of the loop that opened it.

    Writes are answered in the order of asking. A wait that is cancelled does not take its write back.
    """

    def append(
        self,
        saga: SagaId,
        events: Sequence[Event],
        *,
        after: int,
        summary: Summary,
        lease: Lease | None = None,
    ) -> Awaitable[tuple[Entry, ...]]:
        """Append all events or none; acknowledged only when they are durable.

        It is asked for when this returns, awaited or not; what is wrong with it comes with the awaiting.

        `after=0` with SagaStarted first makes the saga, held under `lease` (of epoch 1) where one is given.
        An append after which nothing is due (ended, or an incident) gives the lease back.
        No events at all only ask whether entry and lease are still the newest; a `wake_at` is then kept, so that the
        holder may forget the saga until it is nudged or that time has come.
        Without a lease the author is not the driver: whoever holds the saga will find it among its `nudged`.
        The saga that it `wakes` is nudged with it and is due, if it waits; else nothing comes of that.
        Raises JournalConflictError if entry `after` is no longer the newest, LeaseLostError if the epoch has risen.
        """
        ...

    def read(self, saga: SagaId, *, after: int = 0) -> AsyncIterator[Entry]:
        """The entries past `after`, in order, each checked against the hash chain. Nothing for an unknown saga."""
        ...

    def log(self, *, after: int = 0, names: Collection[str] | None = None) -> AsyncIterator[Logged]:
        """The entries of all sagas past a position, in journal order, each checked; only those of these wire names."""
        ...

    async def cursor(self, name: str) -> int:
        """The position that was last kept under this name; 0 where none was."""
        ...

    async def cursors(self, under: str) -> tuple[Cursor, ...]:
        """Those whose names begin so, by name, with what was noted on them."""
        ...

    async def move_cursor(self, name: str, position: int, *, note: str = "", since: Cursor | None = None) -> bool:
        """Keep a position of the log under a name, with a note; at 0 without a note, it is forgotten.

        With `since`, only if it is still as it was then (`Cursor(name)`: not there): whether it was moved.
        """
        ...

    async def admit(self, *rates: Rate) -> tuple[int, ...]:
        """Count a use in each of these rates, for all programs on this journal: 0 for each, where every one of them
        has had fewer than `most` in `per_s` seconds.

        Else nothing is counted in any of them: of each, in how many milliseconds it may be worth asking again.
        """
        ...

    async def enlist(self, worker: str, ttl_s: float) -> None:
        """Make a worker known, alive until `ttl_s` from when this is written."""
        ...

    def renew(self, worker: str, ttl_s: float) -> None:
        """Keep a worker alive for `ttl_s` from when this is written.

        Blocking, from any thread: a busy loop must not lose its leases.
        """
        ...

    def nudged(self, worker: str) -> tuple[SagaId, ...]:
        """Which of a worker's sagas have something new: others wrote to them since it last did, or their sleep is over.

        Blocking, from any thread.
        """
        ...

    async def retire(self, worker: str) -> None:
        """Give all of a worker's leases back at once."""
        ...

    async def claim(
        self,
        worker: str,
        *,
        definitions: Collection[str] | None = None,
        saga: SagaId | None = None,
        due_by: int | None = None,
        limit: int = 500,
    ) -> tuple[Lease, ...]:
        """Take the leases of sagas that have something to do and no living worker, oldest first.

        Something to do: neither ended nor in an incident. `definitions` are written `name/version`; `due_by` leaves out
        those that sleep until later.
        Who is alive is told by the time at which this is carried out, however long that took. Who claims is alive,
        whatever was last heard of it: the one that `saga` names may be the worker's own, since only it knows whether it
        drives it just now; no other may.
        """
        ...

    async def inspect(self, *, within_s: float | None = None) -> Inspection:
        """Go over everything that the store keeps, however long that takes, or for so long: pages, rows, indexes."""
        ...

    async def holder(self, saga: SagaId) -> str | None:
        """The living worker that holds a saga; None where nobody does, or there is no such saga."""
        ...

    async def drivers(self, sagas: Collection[SagaId]) -> dict[SagaId, Driver]:
        """Who has these sagas, living or gone; those that nobody has, or that are not there, are left out."""
        ...

    async def saga(self, saga: SagaId) -> SagaRow | None: ...

    async def sagas(self, query: SagaQuery) -> SagaPage: ...

    async def incidents(self, query: PersonQuery) -> IncidentPage: ...

    async def approvals(self, query: PersonQuery) -> ApprovalPage: ...

    async def close(self) -> None:
        """Write what was accepted, then close. Later calls raise JournalStoppedError."""
        ...
