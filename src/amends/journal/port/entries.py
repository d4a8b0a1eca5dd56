"""The part of the port that writes and reads a saga's entries, and the plain data that crosses it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, cast

from amends.core.events import Event
from amends.core.state.saga import Saga, evolve
from amends.core.transitions import SagaStatus
from amends.core.words.values import PARENT as _PARENT, SagaId
from amends.dataclass import dataclass
from amends.errors import PayloadRemovedError
from amends.journal.port.leases import Lease

if TYPE_CHECKING:
    import asyncio

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


class Summary(NamedTuple):
    """A saga as lists show it after an append; `wake_at` is when it has something to do again."""

    status: SagaStatus
    wake_at: int | None = None
    wakes: SagaId | None = None
    """A saga that waited for this one, and has something to do now."""

    @property
    def is_due(self) -> bool:
        """Whether a worker has something to do, now or later: it neither ended nor waits for a person's decision."""
        return self.status in _DUE


@dataclass(slots=True, eq=False, kw_only=True)
class Appending:
    """An append that was asked for. Awaited, or told to one listener in the same breath as it is answered: a future
    would come back to each a turn of the loop later, and a step waits for its append.
    """

    is_batched: bool = False
    """Whether it is answered with others, outside of any task, by one who calls then what the listeners give."""
    entries: tuple[Entry, ...] = ()
    error: Exception | None = None
    _settled: bool = False
    _listener: Listener | None = None
    _future: asyncio.Future[tuple[Entry, ...]] | None = None

    def then(self, listener: Listener) -> None:
        """Call it once this is answered; at once, where it is."""
        if self._settled:
            listener(self)
        else:
            self._listener = listener

    def __await__(self) -> Generator[object, None, tuple[Entry, ...]]:
        if not self._settled:
            from asyncio import get_running_loop

            self._future = get_running_loop().create_future()
            self.then(_answer_future)
            return (yield from self._future)
        if self.error is not None:
            raise self.error
        return self.entries

    def done(self) -> bool:
        return self._settled

    def set_result(self, entries: tuple[Entry, ...]) -> Callable[[], object] | None:
        self.entries, self._settled = entries, True
        return None if self._listener is None else self._listener(self)

    def set_exception(self, error: Exception) -> Callable[[], object] | None:
        self.error, self._settled = error, True
        return None if self._listener is None else self._listener(self)

    def answer_future(self) -> None:
        """Tell whoever awaits it."""
        future = self._future
        if future is None or future.done():
            return
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.entries)


Listener: TypeAlias = Callable[[Appending], Callable[[], object] | None]


def _answer_future(answered: Appending) -> None:
    answered.answer_future()


class Entries(Protocol):
    """Entries of sagas: facts, appended and read. The other parts of the port are about what is written here."""

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

    async def close(self) -> None:
        """Write what was accepted, then close. Later calls raise JournalStoppedError."""
        ...


async def caught_up(journal: Entries, saga: Saga, note: Callable[[Entry], object] | None = None) -> Saga:
    """The saga with all that was written after its head; `note` is told of each entry."""
    async for entry in journal.read(saga.id, after=saga.head):
        saga = evolve(saga, entry.event)
        if note is not None:
            note(entry)
    return saga
