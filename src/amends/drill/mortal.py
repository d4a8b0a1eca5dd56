"""A life's handle on the journal: what goes through it goes through at the life's own points, or not at all.

Lives are told apart by how they end: one in a loop of its own (crash_life), one among others in one loop (drill).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from amends.core.events import Event
from amends.core.words.values import SagaId
from amends.core.words.verdict import Rate
from amends.dataclass import dataclass
from amends.errors import JournalFullError
from amends.journal.port.documents import Document, DocumentPage, DocumentWrite
from amends.journal.port.evidence import NOBODY, Notary, Removal, Signer, Spared, Stored, TreeHead, Unnumbered
from amends.journal.port.journal import (
    ApprovalPage,
    Cursor,
    Entry,
    IncidentPage,
    Inspection,
    Journal,
    Lease,
    LeaseHolder,
    Logged,
    PersonQuery,
    SagaPage,
    SagaQuery,
    SagaRow,
    Summary,
)
from amends.journal.port.leases import Waking, WorkerRow
from amends.journal.port.locks import LockAnswer, LockAsk, LockPage, LockQuery
from amends.journal.tree import Subtree, Tree

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Author:
    """The writer of an entry: a worker in an epoch, or (epoch 0) someone without a lease."""

    saga: SagaId
    number: int
    worker: str
    epoch: int


class Mortality(Protocol):
    """The life that a journal is opened in, as far as the journal has to know it."""

    @property
    def stopped(self) -> bool: ...

    @property
    def is_refused(self) -> bool:
        """Whether the append that has just come to its point is to fail."""
        ...

    async def reach(self, point: str) -> None:
        """Pass a point, or end there."""
        ...

    async def stay_dead(self) -> None:
        """Go no further after the end."""
        ...

    def busy(self) -> AbstractContextManager[None]:
        """While the journal works, time does not pass by itself."""
        ...


class Mortal:
    """A life's handle on the journal. After its death nothing goes through any more."""

    def __init__(self, inner: Journal, life: Mortality, authors: list[Author]) -> None:
        self._inner = inner
        self._life = life
        self._authors = authors
        self._busy = life.busy

    async def append(
        self,
        saga: SagaId,
        events: Sequence[Event],
        *,
        after: int,
        summary: Summary,
        lease: Lease | None = None,
    ) -> tuple[Entry, ...]:
        what = f"append {'+'.join(type(event).__name__ for event in events)}"
        await self._life.reach(f"{what}: before")
        if self._life.is_refused:
            raise JournalFullError("there is no room on the disk")
        with self._busy():
            entries = await self._inner.append(saga, events, after=after, summary=summary, lease=lease)
        worker, epoch = ("", 0) if lease is None else (lease.worker, lease.epoch)
        self._authors.extend(Author(saga, entry.number, worker, epoch) for entry in entries)
        if events:
            await self._life.reach(f"{what}: after")
        return entries

    async def read(self, saga: SagaId, *, after: int = 0) -> AsyncIterator[Entry]:
        await self._life.stay_dead()
        for entry in await self._all(self._inner.read(saga, after=after)):
            yield entry

    async def log(self, *, after: int = 0, names: Collection[str] | None = None) -> AsyncIterator[Logged]:
        await self._life.stay_dead()
        for logged in await self._all(self._inner.log(after=after, names=names)):
            yield logged

    async def cursor(self, name: str) -> int:
        return await self._answer(self._inner.cursor(name))

    async def cursors(self, under: str) -> tuple[Cursor, ...]:
        return await self._answer(self._inner.cursors(under))

    async def move_cursor(self, name: str, position: int, *, note: str = "", since: Cursor | None = None) -> bool:
        return await self._answer(self._inner.move_cursor(name, position, note=note, since=since))

    async def admit(self, *rates: Rate) -> tuple[int, ...]:
        return await self._answer(self._inner.admit(*rates))

    async def enlist(self, worker: str, ttl_s: float) -> None:
        await self._answer(self._inner.enlist(worker, ttl_s))

    def renew(self, worker: str, ttl_s: float) -> None:
        if not self._life.stopped:
            self._inner.renew(worker, ttl_s)

    def nudged(self, worker: str) -> tuple[SagaId, ...]:
        return () if self._life.stopped else self._inner.nudged(worker)

    def watch(self, told: Callable[[], object]) -> bool:
        return self._inner.watch(told)

    async def workers(self) -> tuple[WorkerRow, ...]:
        return await self._answer(self._inner.workers())

    async def retire(self, worker: str) -> None:
        await self._answer(self._inner.retire(worker))

    async def claim(
        self,
        worker: str,
        *,
        definitions: Collection[str] | None = None,
        saga: SagaId | None = None,
        due_by: int | None = None,
        limit: int = 500,
    ) -> tuple[Lease, ...]:
        await self._life.reach("claim: before")
        with self._busy():
            leases = await self._inner.claim(worker, definitions=definitions, saga=saga, due_by=due_by, limit=limit)
        if leases:
            await self._life.reach("claim: after")
        return leases

    async def release(self, lease: Lease) -> None:
        await self._life.reach("release: before")
        await self._answer(self._inner.release(lease))

    async def inspect(self, *, within_s: float | None = None) -> Inspection:
        return await self._answer(self._inner.inspect(within_s=within_s))

    async def holder(self, saga: SagaId) -> str | None:
        return await self._answer(self._inner.holder(saga))

    async def waking(
        self, *, saga: SagaId | None = None, due_by: int | None = None, after: SagaId | None = None, limit: int = 500
    ) -> tuple[Waking, ...]:
        return await self._answer(self._inner.waking(saga=saga, due_by=due_by, after=after, limit=limit))

    async def drivers(self, sagas: Collection[SagaId]) -> dict[SagaId, LeaseHolder]:
        return await self._answer(self._inner.drivers(sagas))

    async def lock(self, ask: LockAsk, lease: Lease) -> LockAnswer:
        await self._life.reach("lock: before")
        with self._busy():
            answer = await self._inner.lock(ask, lease)
        await self._life.reach("lock: after")
        return answer

    async def locks(self, query: LockQuery) -> LockPage:
        return await self._answer(self._inner.locks(query))

    async def write(self, write: DocumentWrite) -> Document:
        await self._life.reach("document: before")
        with self._busy():
            made = await self._inner.write(write)
        await self._life.reach("document: after")
        return made

    async def written(self, key: str) -> Document | None:
        return await self._answer(self._inner.written(key))

    async def document(self, name: str, *, reader: SagaId | None = None, version: int | None = None) -> Document | None:
        return await self._answer(self._inner.document(name, reader=reader, version=version))

    async def documents(self, prefix: str, *, after: str | None = None, limit: int = 100) -> DocumentPage:
        return await self._answer(self._inner.documents(prefix, after=after, limit=limit))

    async def versions(self, name: str, *, after: str | None = None, limit: int = 100) -> DocumentPage:
        return await self._answer(self._inner.versions(name, after=after, limit=limit))

    async def awake(self, worker: str) -> tuple[SagaId, ...]:
        return await self._answer(self._inner.awake(worker))

    async def saga(self, saga: SagaId) -> SagaRow | None:
        return await self._answer(self._inner.saga(saga))

    async def sagas(self, query: SagaQuery) -> SagaPage:
        return await self._answer(self._inner.sagas(query))

    async def note_keys(self) -> bool:
        return await self._answer(self._inner.note_keys())

    async def incidents(self, query: PersonQuery) -> IncidentPage:
        return await self._answer(self._inner.incidents(query))

    async def approvals(self, query: PersonQuery) -> ApprovalPage:
        return await self._answer(self._inner.approvals(query))

    async def close(self) -> None:
        with self._busy():
            await self._inner.close()

    # -- evidence -----------------------------------------------------------------------------------------------------

    async def stored(self, *, after: int = 0) -> AsyncIterator[Stored]:
        await self._life.stay_dead()
        for stored in await self._all(self._inner.stored(after=after)):
            yield stored

    async def hashes(self, *, after: int = 0) -> AsyncIterator[bytes]:
        await self._life.stay_dead()
        for hashed in await self._all(self._inner.hashes(after=after)):
            yield hashed

    async def payload(self, digest: str) -> str | None:
        return await self._answer(self._inner.payload(digest))

    async def tree(self) -> Tree:
        return await self._answer(self._inner.tree())

    async def unnumbered(self) -> Unnumbered:
        return await self._answer(self._inner.unnumbered())

    async def positions(self, saga: SagaId) -> tuple[int, ...]:
        return await self._answer(self._inner.positions(saga))

    async def subtrees(self, asked: Sequence[Subtree]) -> tuple[bytes, ...]:
        return await self._answer(self._inner.subtrees(asked))

    async def tree_head(self) -> TreeHead | None:
        return await self._answer(self._inner.tree_head())

    async def tree_heads(self, *, after: int = 0) -> AsyncIterator[TreeHead]:
        await self._life.stay_dead()
        for checkpoint in await self._all(self._inner.tree_heads(after=after)):
            yield checkpoint

    async def signers(self) -> tuple[Signer, ...]:
        return await self._answer(self._inner.signers())

    async def seal(self) -> TreeHead | None:
        return await self._answer(self._inner.seal())

    async def hand_over(self, heir: Notary) -> TreeHead:
        return await self._answer(self._inner.hand_over(heir))

    async def remove_payloads(
        self,
        *,
        by: str,
        why: str,
        own: bool = False,
        ended_before: int,
        spared: Spared = NOBODY,
        limit: int | None = None,
        sagas: Collection[SagaId] | None = None,
        signed: str = "",
    ) -> Removal:
        return await self._answer(
            self._inner.remove_payloads(
                by=by,
                why=why,
                own=own,
                ended_before=ended_before,
                spared=spared,
                limit=limit,
                sagas=sagas,
                signed=signed,
            )
        )

    async def vouch_for_removals(self, *, by: str, why: str, signed: str = "") -> Removal:
        return await self._answer(self._inner.vouch_for_removals(by=by, why=why, signed=signed))

    async def removable(self, *, ended_before: int, spared: Spared = NOBODY) -> int:
        return await self._answer(self._inner.removable(ended_before=ended_before, spared=spared))

    async def next_removable(self, *, ended_before: int, spared: Spared = NOBODY, limit: int) -> tuple[SagaId, ...]:
        return await self._answer(self._inner.next_removable(ended_before=ended_before, spared=spared, limit=limit))

    # -- its own ------------------------------------------------------------------------------------------------------

    async def _answer(self, asked: Coroutine[Any, Any, _T]) -> _T:
        try:
            await self._life.stay_dead()
        except BaseException:  # whatever it was, it flies on; what was asked is never asked
            asked.close()
            raise
        with self._busy():
            return await asked

    async def _all(self, found: AsyncIterator[_T]) -> list[_T]:
        with self._busy():
            return [one async for one in found]
