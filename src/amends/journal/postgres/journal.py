"""PostgresJournal: the port, over a thread that writes, one that reads and one that numbers. It encodes and hashes.

What a caller got wrong is refused before anything is queued. Where each saga stands is remembered, so that the usual
append needs no question first; what is remembered can be old (another worker wrote), and then the fence refuses.

The time is the database's, for entries and for leases: workers on machines whose clocks differ agree on it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import psycopg

from amends.clock import Clock, SteadyClock, SystemClock
from amends.core.events import Event
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.core.words.verdict import Rate
from amends.errors import AmendsError, ForkedError
from amends.journal.codec import FIRST, link
from amends.journal.port import refusals
from amends.journal.port.documents import Document, DocumentPage, DocumentWrite
from amends.journal.port.entries import Appending, Entry, Summary
from amends.journal.port.evidence import (
    NOBODY,
    Inspection,
    Notary,
    Pace,
    Removal,
    Signer,
    Spared,
    Stored,
    TreeHead,
    Unnumbered,
)
from amends.journal.port.leases import Lease, LeaseHolder, Waking, WorkerRow, own_identity
from amends.journal.port.lists import ApprovalPage, IncidentPage, PersonQuery, SagaPage, SagaQuery, SagaRow
from amends.journal.port.locks import LockAnswer, LockAsk, LockPage, LockQuery
from amends.journal.port.log import Cursor, Logged
from amends.journal.port.rates import span_of
from amends.journal.postgres import (
    append,
    check,
    database,
    documents,
    keys,
    leases,
    lists,
    locks,
    log,
    rates,
    reader,
    retention,
)
from amends.journal.postgres.address import PostgresAddress
from amends.journal.postgres.database import PostgresDatabase
from amends.journal.postgres.reader import PostgresHead, PostgresReader
from amends.journal.postgres.sequencer import Sequencer, SequencerThread
from amends.journal.postgres.writer import PATIENCE_S, PostgresBatch, PostgresWriter
from amends.journal.projection import changes
from amends.journal.tree import Subtree, Tree

T = TypeVar("T")

REMEMBERED: Final = 65_536
_GOING: Final = frozenset({SagaStatus.RUNNING, SagaStatus.ROLLING_BACK})


class PostgresJournal:
    """A journal in one database. Made by `open`. Its methods stand in the order of the port's parts."""

    def __init__(
        self,
        address: PostgresAddress,
        clock: Clock,
        sequencer: Sequencer,
        handle: str,
        *,
        inline: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.address = address
        self._clock = clock
        self._inline = inline
        self._pid = os.getpid()
        self._identity = own_identity()
        self._heads: dict[SagaId, PostgresHead] = {}
        self._sequencer = sequencer
        self._numbering: SequencerThread | None = None
        connect = partial(database.connected, address)
        self._handle = handle
        self._writer = PostgresWriter(
            address,
            connect,
            clock,
            handle,
            told=self._wrote,
            last=sequencer.seal,
            inline=inline,
            patience_s=patience_s,
        )
        self._reader = PostgresReader(address, connect, inline=inline, patience_s=patience_s)

    @classmethod
    async def open(
        cls,
        address: str | PostgresAddress,
        clock: Clock,
        *,
        notary: Notary | None = None,
        pace: Pace = Pace(),  # noqa: B008 - it never changes
        checked: bool = True,
        may_differ: bool = False,
        inline: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> PostgresJournal:
        """Open a journal that `migrate` has made. Without a notary nothing is signed here.

        `may_differ`: nobody chose the notary's key, so where the journal has another one, this handle does not sign.
        `checked`: its newest entries are verified, and its newest checkpoint. `inline`: without threads, for programs
        that look once and end; they number nothing of their own accord. `patience_s`: so long a connection that was
        lost is made anew, before who waits is told.
        """
        place = address if isinstance(address, PostgresAddress) else PostgresAddress(address)
        handle = SystemClock().new_id()
        journal = cls(
            place, clock, Sequencer(notary, pace, clock, handle), handle, inline=inline, patience_s=patience_s
        )
        try:
            if isinstance(clock, SteadyClock):
                clock.go_by(*await journal._reader.ask(partial(_moment, clock=clock)), anew=True)
            if checked:
                await journal._reader.ask(check.verify_newest)
            if notary is not None:
                origin = f"amends/{clock.new_id()}"
                await journal._writer.ask(partial(journal._sequencer.adopt, origin=origin, may_differ=may_differ))
        except BaseException:  # whatever it was, it flies on; the threads must not stay
            journal._reader.close()
            journal._writer.close()
            raise
        if not inline:
            journal._numbering = SequencerThread(place, partial(database.connected, place), journal._sequencer, handle)
        return journal

    def __repr__(self) -> str:
        return str(self.address)

    @property
    def commits(self) -> int:
        """How many transactions were written by this handle."""
        return self._writer.commits

    def _require_home(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedError(
                f"{self.address} was opened by process {self._pid}, and this is its child {os.getpid()}: a connection "
                "does not survive a fork; open the journal anew here, or start children by spawn"
            )

    def _wrote(self) -> None:
        if self._numbering is not None:
            self._numbering.wake()

    async def _ask_log(self, work: Callable[[PostgresDatabase], T]) -> T:
        """Ask for what goes by positions: whatever was acknowledged before gets its own first."""

        def numbered(connection: PostgresDatabase) -> T:
            with suppress(psycopg.errors.InsufficientPrivilege):  # who may only read sees what others have numbered
                self._sequencer.number(connection)
            return work(connection)

        return await self._reader.ask(numbered)

    # -- entries -------------------------------------------------------------------------------------------------------

    def append(
        self,
        saga: SagaId,
        events: Sequence[Event],
        *,
        after: int,
        summary: Summary,
        lease: Lease | None = None,
    ) -> Awaitable[tuple[Entry, ...]]:
        if os.getpid() != self._pid:
            self._require_home()  # at once: after a fork there is no loop that could be waited on
        try:
            if lease is not None and lease.saga != saga:
                raise refusals.wrong_lease(saga, lease)
            head = self._heads.get(saga)
            if (head is None or head.number < after) and after > 0:
                from asyncio import shield

                return shield(self._look_then_append(saga, events, after, summary, lease))
            return self._append(head, saga, events, after, summary, lease)
        except AmendsError as exc:
            failed = Appending()
            failed.set_exception(exc)
            return failed

    async def _look_then_append(
        self, saga: SagaId, events: Sequence[Event], after: int, summary: Summary, lease: Lease | None
    ) -> tuple[Entry, ...]:
        head = await self._reader.ask(partial(reader.head, saga=saga))
        return await self._append(head, saga, events, after, summary, lease)

    def _refuse(self, saga: SagaId, after: int, lease: Lease | None) -> Awaitable[tuple[Entry, ...]]:
        from asyncio import ensure_future

        async def refuse() -> tuple[Entry, ...]:
            raise await self._reader.ask(partial(append.refusal, saga=saga, after=after, lease=lease))

        return ensure_future(refuse())

    def _append(
        self,
        head: PostgresHead | None,
        saga: SagaId,
        events: Sequence[Event],
        after: int,
        summary: Summary,
        lease: Lease | None,
    ) -> Awaitable[tuple[Entry, ...]]:
        """`head` is where the saga stands, which must be at `after`; None for one that is to begin."""
        if head is not None and head.number != after:
            return self._refuse(saga, after, lease)
        place = append.checked(refusals.begun(saga, events, after, lease)) if head is None else head.row
        answer = Appending()
        if not events:
            wake_at = None if lease is None else summary.wake_at
            ask = partial(append.check, saga=saga, after=after, lease=lease, wake_at=wake_at)
            self._writer.submit(ask, _no_entries, answer)
            return answer
        at = self._clock.now()
        hashed = FIRST if head is None else head.hash
        number = after
        entries: list[Entry] = []
        blobs: dict[str, str] = {}
        for event in events:
            number += 1
            name, body, beside, hashed = link(event, saga, number, at, hashed)
            entries.append(Entry(saga, number, at, name, body, hashed, event))
            if beside:
                blobs.update(beside)
        asked = append.PostgresAppend(
            saga=saga,
            place=place,
            after=after,
            entries=tuple(entries),
            blobs=blobs,
            changes=changes(events),
            summary=summary,
            lease=lease,
            at=at,
            head=number,
            hash=hashed,
        )

        def remembered(row: int) -> tuple[Entry, ...]:
            self._remember(saga, PostgresHead(row, number, hashed, summary.status))
            return asked.entries

        self._writer.submit(append.Appended(asked), remembered, answer)
        return answer

    def _remember(self, saga: SagaId, head: PostgresHead) -> None:
        heads = self._heads
        if head.status in _GOING:  # one that waits for others is a row, and nobody's memory
            heads[saga] = head
            if len(heads) > REMEMBERED:
                del heads[next(iter(heads))]
        else:
            heads.pop(saga, None)

    async def read(self, saga: SagaId, *, after: int = 0) -> AsyncIterator[Entry]:
        self._require_home()
        is_last = False
        while not is_last:
            chunk = await self._reader.ask(partial(reader.chunk, saga=saga, after=after))
            for entry in chunk.entries:
                yield entry
            is_last, after = chunk.is_last, after + len(chunk.entries)

    async def close(self) -> None:
        self._require_home()
        if self._inline:
            self._reader.close()
            self._writer.close()
            return
        from asyncio import get_running_loop

        loop = get_running_loop()
        self._writer.hand_over()
        if self._numbering is not None:
            await loop.run_in_executor(None, self._numbering.stop)
        await loop.run_in_executor(None, self._reader.close)
        await loop.run_in_executor(None, self._writer.close)

    # -- log -----------------------------------------------------------------------------------------------------------

    async def log(self, *, after: int = 0, names: Collection[str] | None = None) -> AsyncIterator[Logged]:
        self._require_home()
        wanted = None if names is None else frozenset(names)
        ask, is_last = self._ask_log, False
        while not is_last:
            chunk = await ask(partial(log.chunk, after=after, names=wanted))
            ask = self._reader.ask
            for logged in chunk.logged:
                yield logged
                after = logged.position
            is_last = chunk.is_last

    async def cursor(self, name: str) -> int:
        self._require_home()
        refusals.check_name(name, "a cursor")
        return (await self._reader.ask(partial(log.cursor, name=name))).position

    async def cursors(self, under: str) -> tuple[Cursor, ...]:
        self._require_home()
        return await self._reader.ask(partial(log.cursors, under=under))

    async def move_cursor(self, name: str, position: int, *, note: str = "", since: Cursor | None = None) -> bool:
        self._require_home()
        moved = Cursor(name, position, note)
        refusals.check_cursor(moved)
        return await self._writer.ask(partial(log.move_cursor, to=moved, since=since))

    # -- leases --------------------------------------------------------------------------------------------------------

    async def enlist(self, worker: str, ttl_s: float) -> None:
        self._require_home()
        await self._writer.ask(self._renewal(worker, ttl_s))

    def renew(self, worker: str, ttl_s: float) -> None:
        self._require_home()
        self._writer.ask_blocking(self._renewal(worker, ttl_s))

    def _renewal(self, worker: str, ttl_s: float) -> Callable[[PostgresBatch], None]:
        def renewed(batch: PostgresBatch) -> None:
            leases.renew(batch, worker, self._identity, ttl_s, self._told)
            if isinstance(self._clock, SteadyClock):  # now and then, because clocks drift
                self._clock.go_by(*_moment(batch.database, self._clock))

        return renewed

    def _told(self) -> float | None:
        """The time for leases: the database's own, unless a test tells it."""
        return None if isinstance(self._clock, SteadyClock | SystemClock) else self._clock.elapsed()

    def nudged(self, worker: str) -> tuple[SagaId, ...]:
        self._require_home()
        return self._reader.ask_blocking(partial(leases.nudged, worker=worker, now=self._clock.now))

    def watch(self, told: Callable[[], object]) -> bool:
        self._require_home()
        if self._numbering is None:
            return False
        self._numbering.news = told
        return True

    async def retire(self, worker: str) -> None:
        self._require_home()
        await self._writer.ask(partial(leases.retire, worker=worker))

    async def claim(
        self,
        worker: str,
        *,
        definitions: Collection[str] | None = None,
        saga: SagaId | None = None,
        due_by: int | None = None,
        limit: int = 500,
    ) -> tuple[Lease, ...]:
        self._require_home()
        wanted = leases.PostgresClaim(
            worker=worker,
            definitions=None if definitions is None else tuple(definitions),
            saga=saga,
            due_by=due_by,
            limit=limit,
        )
        return await self._writer.ask(partial(leases.claim, wanted=wanted, us=self._identity, told=self._told))

    async def release(self, lease: Lease) -> None:
        self._require_home()
        await self._writer.ask(partial(leases.release, lease=lease))

    async def holder(self, saga: SagaId) -> str | None:
        self._require_home()
        return await self._reader.ask(partial(leases.holder, saga=saga, us=self._identity, told=self._told))

    async def waking(
        self, *, saga: SagaId | None = None, due_by: int | None = None, after: SagaId | None = None, limit: int = 500
    ) -> tuple[Waking, ...]:
        self._require_home()
        asked: dict[str, str | int | None] = {"saga": saga, "due_by": due_by, "after": after, "limit": limit}
        return await self._reader.ask(partial(leases.waking, asked=asked, us=self._identity, told=self._told))

    async def drivers(self, sagas: Collection[SagaId]) -> dict[SagaId, LeaseHolder]:
        self._require_home()
        asked, now = tuple(sagas), self._clock.now
        return await self._reader.ask(partial(leases.drivers, sagas=asked, us=self._identity, told=self._told, now=now))

    async def workers(self) -> tuple[WorkerRow, ...]:
        self._require_home()
        return await self._reader.ask(partial(leases.workers, us=self._identity, told=self._told, now=self._clock.now))

    # -- lists ---------------------------------------------------------------------------------------------------------

    async def saga(self, saga: SagaId) -> SagaRow | None:
        self._require_home()
        return await self._reader.ask(partial(lists.saga, name=saga))

    async def sagas(self, query: SagaQuery) -> SagaPage:
        self._require_home()
        return await self._reader.ask(partial(lists.sagas, query=query))

    async def note_keys(self) -> bool:
        self._require_home()
        await self._reader.ask(self._sequencer.number)
        return await self._writer.ask(keys.note)

    async def incidents(self, query: PersonQuery) -> IncidentPage:
        self._require_home()
        return await self._reader.ask(partial(lists.incidents, query=query))

    async def approvals(self, query: PersonQuery) -> ApprovalPage:
        self._require_home()
        return await self._reader.ask(partial(lists.approvals, query=query))

    # -- locks ---------------------------------------------------------------------------------------------------------

    async def lock(self, ask: LockAsk, lease: Lease) -> LockAnswer:
        self._require_home()
        now = self._clock.now
        return await self._writer.ask(lambda batch: locks.lock(batch, ask, lease, now()))

    async def locks(self, query: LockQuery) -> LockPage:
        self._require_home()
        return await self._reader.ask(partial(locks.locks, query=query))

    async def awake(self, worker: str) -> tuple[SagaId, ...]:
        self._require_home()
        return await self._reader.ask(partial(leases.nudged, worker=worker, now=self._clock.now))

    # -- documents -----------------------------------------------------------------------------------------------------

    async def write(self, write: DocumentWrite) -> Document:
        self._require_home()
        now = self._clock.now
        return await self._writer.ask(lambda batch: documents.write(batch, write, now()))

    async def written(self, key: str) -> Document | None:
        self._require_home()
        return await self._reader.ask(partial(documents.written, key=key))

    async def document(self, name: str, *, reader: SagaId | None = None, version: int | None = None) -> Document | None:
        self._require_home()
        return await self._reader.ask(partial(documents.document, name=name, reader=reader, version=version))

    async def documents(self, prefix: str, *, after: str | None = None, limit: int = 100) -> DocumentPage:
        self._require_home()
        return await self._reader.ask(partial(documents.documents, prefix=prefix, after=after, limit=limit))

    async def versions(self, name: str, *, after: str | None = None, limit: int = 100) -> DocumentPage:
        self._require_home()
        return await self._reader.ask(partial(documents.versions, name=name, after=after, limit=limit))

    # -- evidence ------------------------------------------------------------------------------------------------------

    async def stored(self, *, after: int = 0) -> AsyncIterator[Stored]:
        self._require_home()
        while rows := await self._ask_log(partial(log.stored, after=after)):
            for stored in rows:
                yield stored
                after = stored.position

    async def hashes(self, *, after: int = 0) -> AsyncIterator[bytes]:
        self._require_home()
        while found := await self._ask_log(partial(log.hashes, after=after)):
            for position, hashed in found:
                yield hashed
                after = position

    async def payload(self, digest: str) -> str | None:
        self._require_home()
        return await self._reader.ask(partial(log.payload, digest=digest))

    async def unnumbered(self) -> Unnumbered:
        self._require_home()
        return await self._reader.ask(log.unnumbered)

    async def tree(self) -> Tree:
        self._require_home()
        return await self._ask_log(log.tree)

    async def positions(self, saga: SagaId) -> tuple[int, ...]:
        self._require_home()
        return await self._ask_log(partial(log.positions, saga=saga))

    async def subtrees(self, asked: Sequence[Subtree]) -> tuple[bytes, ...]:
        self._require_home()
        return await self._ask_log(partial(log.subtrees, asked=asked))

    async def tree_head(self) -> TreeHead | None:
        self._require_home()
        return await self._ask_log(log.checkpoint)

    async def tree_heads(self, *, after: int = 0) -> AsyncIterator[TreeHead]:
        self._require_home()
        while found := await self._ask_log(partial(log.checkpoints, after=after)):
            for checkpoint in found:
                yield checkpoint
                after = checkpoint.size

    async def signers(self) -> tuple[Signer, ...]:
        self._require_home()
        return await self._reader.ask(log.signers)

    async def seal(self) -> TreeHead | None:
        self._require_home()
        await self._reader.ask(self._sequencer.seal)
        return await self.tree_head()

    async def hand_over(self, heir: Notary) -> TreeHead:
        self._require_home()
        origin = f"amends/{self._clock.new_id()}"
        await self._reader.ask(self._sequencer.number)
        head = await self._writer.ask(partial(self._sequencer.hand_over, heir=heir, origin=origin))
        self._sequencer.notary = heir
        return head

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
        self._require_home()
        meant = retention.Meant(ended_before, spared, sagas)
        remover = retention.RemovedBy(by, why, self._clock.now(), own, ended_before if signed else 0, signed)
        removal = await retention.remove_all(self._writer.ask, meant, remover, limit)
        if removal.sagas:
            await self._reader.ask(_vacuum)
        return removal

    async def vouch_for_removals(self, *, by: str, why: str, signed: str = "") -> Removal:
        self._require_home()
        remover = retention.RemovedBy(by, why, self._clock.now(), signed=signed)
        return await self._writer.ask(partial(retention.vouch, remover=remover))

    async def removable(self, *, ended_before: int, spared: Spared = NOBODY) -> int:
        self._require_home()
        return await self._reader.ask(partial(retention.count, meant=retention.Meant(ended_before, spared)))

    async def next_removable(self, *, ended_before: int, spared: Spared = NOBODY, limit: int) -> tuple[SagaId, ...]:
        self._require_home()
        meant = retention.Meant(ended_before, spared)
        return await self._reader.ask(partial(retention.first, meant=meant, limit=limit))

    async def inspect(self, *, within_s: float | None = None) -> Inspection:
        self._require_home()
        return await self._reader.ask(partial(check.check, within_s=within_s))

    # -- rates ---------------------------------------------------------------------------------------------------------

    async def admit(self, *asked: Rate) -> tuple[int, ...]:
        self._require_home()
        for rate in asked:
            span_of(rate)
        now = self._clock.now
        return await self._writer.ask(lambda batch: rates.admit(batch, asked, now()))


def _no_entries(_checked: None) -> tuple[Entry, ...]:
    return ()


def _moment(connection: PostgresDatabase, clock: Clock) -> tuple[int, float]:
    """The database's time, and what the clock that nobody sets said half-way between question and answer."""
    before = clock.elapsed()
    ((now,),) = connection.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    return int(now), (before + clock.elapsed()) / 2


def _vacuum(connection: PostgresDatabase) -> None:
    with suppress(psycopg.Error):  # only the owner of the tables may; else autovacuum comes by
        connection.run("VACUUM (SKIP_LOCKED) entry, blob, blob_use")
