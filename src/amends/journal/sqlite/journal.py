"""SqliteJournal: the port, over a writer thread and a reader thread. Encoding and hashing happen here, SQL there.

What a caller got wrong is refused before anything is queued. Where each saga stands is remembered, so that the usual
append needs no question first; what is remembered can be old (another process wrote), and then the fence refuses.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from amends.clock import Clock, SteadyClock
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
from amends.journal.port.leases import Lease, LeaseHolder, Waking, WorkerRow, own_identity, reading
from amends.journal.port.lists import ApprovalPage, IncidentPage, PersonQuery, SagaPage, SagaQuery, SagaRow
from amends.journal.port.locks import LockAnswer, LockAsk, LockPage, LockQuery
from amends.journal.port.log import Cursor, Logged
from amends.journal.port.rates import span_of
from amends.journal.projection import changes
from amends.journal.sqlite import (
    append,
    documents,
    file,
    keys,
    leases,
    lists,
    locks,
    log,
    rates,
    reader,
    retention,
)
from amends.journal.sqlite.append import Append
from amends.journal.sqlite.attest import Attestation
from amends.journal.sqlite.reader import Head, Reader
from amends.journal.sqlite.writer import Batch, Writer
from amends.journal.thread import Ask
from amends.journal.tree import Subtree, Tree
from amends.private import claim_journal

REMEMBERED: Final = 65_536
_new: Final = cast("Callable[[type[Any], tuple[Any, ...]], Any]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType] - of any tuple
"""What a NamedTuple does to make one, less a call: this runs for every entry."""
_GOING: Final = frozenset({SagaStatus.RUNNING, SagaStatus.ROLLING_BACK})


class SqliteJournal:
    """A journal in one file. Made by `open`. Its methods stand in the order of the port's parts."""

    def __init__(self, path: Path, clock: Clock, writer: Writer, reader: Reader, *, inline: bool = False) -> None:
        self._path = path
        self._clock = clock
        self._writer = writer
        self._reader = reader
        self._inline = inline
        self._pid = os.getpid()
        self._identity = own_identity()
        self._heads: dict[SagaId, Head] = {}
        self._told_time = not isinstance(clock, SteadyClock)

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        clock: Clock,
        *,
        notary: Notary | None = None,
        pace: Pace = Pace(),  # noqa: B008 - it never changes
        busy_timeout_s: float = 10.0,
        checked: bool = True,
        vfs: str | None = None,
        group: int | None = None,
        inline: bool = False,
    ) -> SqliteJournal:
        """Open a journal, or make one. Without a notary nothing is signed.

        `checked`: its newest entries and checkpoint are verified. `vfs` names an apsw VFS to go through, which then
        holds the file alone. `group`: the number of the group that shares it; otherwise it is its owner's alone.
        `inline`: without threads, each question is answered where it is asked, and no loop is needed to await it; for
        programs that look once and end.
        """
        place = _absolute(path)
        if vfs is None:
            claim_journal(place)
        attestation = Attestation(notary, pace, now=clock.now, new_id=clock.new_id)
        how = partial(file.open_to_write, place, busy_timeout_s=busy_timeout_s, vfs=vfs, checked=checked, group=group)
        writer = Writer(place, how, attestation, inline=inline)
        try:
            await writer.ask(_adopt)
            if isinstance(clock, SteadyClock):
                clock.not_before(await writer.ask(partial(log.latest_moment, elapsed=clock.elapsed)))
        except BaseException:  # whatever it was, it flies on; the thread must not stay
            writer.close()
            raise
        how_to_read = partial(file.open_to_read, place, busy_timeout_s=busy_timeout_s, vfs=vfs)
        return cls(place, clock, writer, Reader(place, how_to_read, inline=inline), inline=inline)

    def __repr__(self) -> str:
        return str(self._path)

    @property
    def commits(self) -> int:
        """How many transactions were written by this handle."""
        return self._writer.commits

    def _require_home(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedError(
                f"{self._path} was opened by process {self._pid}, and this is its child {os.getpid()}: a connection "
                "does not survive a fork; open the journal anew here, or start children by spawn"
            )

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
        head: Head | None,
        saga: SagaId,
        events: Sequence[Event],
        after: int,
        summary: Summary,
        lease: Lease | None,
    ) -> Awaitable[tuple[Entry, ...]]:
        """`head` is where the saga stands, which must be at `after`; None for one that is to begin."""
        if head is not None and head.number != after:
            return self._refuse(saga, after, lease)
        place = refusals.begun(saga, events, after, lease) if head is None else head.row
        answer = Appending(is_batched=not self._inline)
        if not events:
            wake_at = None if lease is None else summary.wake_at
            if head is not None and wake_at is not None:
                self._remember(saga, Head(head.row, head.number, head.hash, head.status, wake_at))
            work = partial(append.check, saga=saga, after=after, lease=lease, wake_at=wake_at)
            self._writer.submit(Ask(work, answer, finish=_no_entries))
            return answer
        at = self._clock.now()
        hashed = FIRST if head is None else head.hash
        entries: list[Entry] = []
        blobs: dict[str, str] = {}
        for number, event in enumerate(events, after + 1):
            name, body, beside, hashed = link(event, saga, number, at, hashed)
            entries.append(_new(Entry, (saga, number, at, name, body, hashed, event)))
            if beside:
                blobs.update(beside)
        elapsed = None
        if not self._told_time:  # once, with whatever this process writes first
            self._told_time, elapsed = True, self._clock.elapsed()
        self._writer.submit(
            Append(
                saga=saga,
                place=place,
                after=after,
                entries=tuple(entries),
                blobs=blobs,
                changes=changes(events),
                summary=summary,
                same_summary=head is not None and (head.status, head.wake_at) == summary[:2],
                lease=lease,
                at=at,
                head=after + len(entries),
                hash=hashed,
                elapsed=elapsed,
                written=self._written,
                reply=answer,
            )
        )
        return answer

    def _written(self, asked: Append) -> None:
        status, wake_at, _ = asked.summary
        head = Head(asked.row, asked.head, asked.hash, status, wake_at)
        if status in _GOING and asked.saga in self._heads:
            self._heads[asked.saga] = head
        else:
            self._remember(asked.saga, head)

    def _remember(self, saga: SagaId, head: Head) -> None:
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
        await loop.run_in_executor(None, self._reader.close)
        await loop.run_in_executor(None, self._writer.close)

    # -- log -----------------------------------------------------------------------------------------------------------

    async def log(self, *, after: int = 0, names: Collection[str] | None = None) -> AsyncIterator[Logged]:
        self._require_home()
        wanted = None if names is None else frozenset(names)
        is_last = False
        while not is_last:
            chunk = await self._reader.ask(partial(log.chunk, after=after, names=wanted))
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

    def _renewal(self, worker: str, ttl_s: float) -> Callable[[Batch], None]:
        return partial(leases.renew, worker=worker, us=self._identity, ttl_s=ttl_s, elapsed=reading(self._clock))

    def nudged(self, worker: str) -> tuple[SagaId, ...]:
        self._require_home()
        return self._reader.ask_blocking(partial(leases.nudged, worker=worker, now=self._clock.now))

    def watch(self, told: Callable[[], object]) -> bool:
        self._require_home()
        return False

    async def workers(self) -> tuple[WorkerRow, ...]:
        self._require_home()
        elapsed, now = reading(self._clock), self._clock.now
        return await self._reader.ask(partial(leases.workers, us=self._identity, elapsed=elapsed, now=now))

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
        wanted = leases.Claim(
            worker=worker,
            definitions=None if definitions is None else tuple(definitions),
            saga=saga,
            due_by=due_by,
            limit=limit,
        )
        elapsed = reading(self._clock)
        return await self._writer.ask(partial(leases.claim, wanted=wanted, us=self._identity, elapsed=elapsed))

    async def release(self, lease: Lease) -> None:
        self._require_home()
        await self._writer.ask(partial(leases.release, lease=lease))

    async def holder(self, saga: SagaId) -> str | None:
        self._require_home()
        elapsed = reading(self._clock)
        return await self._reader.ask(partial(leases.holder, saga=saga, us=self._identity, elapsed=elapsed))

    async def waking(
        self, *, saga: SagaId | None = None, due_by: int | None = None, after: SagaId | None = None, limit: int = 500
    ) -> tuple[Waking, ...]:
        self._require_home()
        asked: dict[str, str | int | None] = {"saga": saga, "due_by": due_by, "after": after, "limit": limit}
        elapsed = reading(self._clock)
        return await self._reader.ask(partial(leases.waking, asked=asked, us=self._identity, elapsed=elapsed))

    async def drivers(self, sagas: Collection[SagaId]) -> dict[SagaId, LeaseHolder]:
        self._require_home()
        elapsed, asked = reading(self._clock), tuple(sagas)
        return await self._reader.ask(
            partial(leases.drivers, sagas=asked, us=self._identity, elapsed=elapsed, now=self._clock.now)
        )

    # -- lists ---------------------------------------------------------------------------------------------------------

    async def saga(self, saga: SagaId) -> SagaRow | None:
        self._require_home()
        return await self._reader.ask(partial(lists.saga, name=saga))

    async def sagas(self, query: SagaQuery) -> SagaPage:
        self._require_home()
        return await self._reader.ask(partial(lists.sagas, query=query))

    async def note_keys(self) -> bool:
        self._require_home()
        return await self._reader.ask(keys.are_noted) or await self._writer.ask(keys.note)

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
        while rows := await self._reader.ask(partial(log.stored, after=after)):
            for stored in rows:
                yield stored
                after = stored.position

    async def hashes(self, *, after: int = 0) -> AsyncIterator[bytes]:
        self._require_home()
        while found := await self._reader.ask(partial(log.hashes, after=after)):
            for position, hashed in found:
                yield hashed
                after = position

    async def payload(self, digest: str) -> str | None:
        self._require_home()
        return await self._reader.ask(partial(log.payload, digest=digest))

    async def unnumbered(self) -> Unnumbered:
        self._require_home()
        return Unnumbered()

    async def tree(self) -> Tree:
        self._require_home()
        return await self._reader.ask(log.tree)

    async def positions(self, saga: SagaId) -> tuple[int, ...]:
        self._require_home()
        return await self._reader.ask(partial(log.positions, saga=saga))

    async def subtrees(self, asked: Sequence[Subtree]) -> tuple[bytes, ...]:
        self._require_home()
        return await self._reader.ask(partial(log.subtrees, asked=asked))

    async def tree_head(self) -> TreeHead | None:
        self._require_home()
        return await self._reader.ask(log.checkpoint)

    async def tree_heads(self, *, after: int = 0) -> AsyncIterator[TreeHead]:
        self._require_home()
        while found := await self._reader.ask(partial(log.checkpoints, after=after)):
            for checkpoint in found:
                yield checkpoint
                after = checkpoint.size

    async def signers(self) -> tuple[Signer, ...]:
        self._require_home()
        return await self._reader.ask(log.signers)

    async def seal(self) -> TreeHead | None:
        self._require_home()
        await self._writer.ask(_seal)
        return await self.tree_head()

    async def hand_over(self, heir: Notary) -> TreeHead:
        self._require_home()
        return await self._writer.ask(partial(_hand_over, heir=heir))

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
        wanted = retention.WantedSagas(ended_before, spared, sagas)
        by_whom = retention.Signed(by, why, self._clock.now(), own, ended_before if signed else 0, signed)
        return await retention.remove_all(self._writer.ask, wanted, by_whom, limit)

    async def vouch_for_removals(self, *, by: str, why: str, signed: str = "") -> Removal:
        self._require_home()
        by_whom = retention.Signed(by, why, self._clock.now(), signed=signed)
        found = await self._writer.ask(partial(retention.vouch, signed=by_whom))
        return Removal(found.sagas, found.entries)

    async def removable(self, *, ended_before: int, spared: Spared = NOBODY) -> int:
        self._require_home()
        return await self._reader.ask(partial(retention.count, wanted=retention.WantedSagas(ended_before, spared)))

    async def next_removable(self, *, ended_before: int, spared: Spared = NOBODY, limit: int) -> tuple[SagaId, ...]:
        self._require_home()
        wanted = retention.WantedSagas(ended_before, spared)
        return await self._reader.ask(partial(retention.first, wanted=wanted, limit=limit))

    async def inspect(self, *, within_s: float | None = None) -> Inspection:
        self._require_home()
        return await self._reader.ask(partial(file.check, elapsed=self._clock.elapsed, within_s=within_s))

    # -- rates ---------------------------------------------------------------------------------------------------------

    async def admit(self, *asked: Rate) -> tuple[int, ...]:
        self._require_home()
        for rate in asked:
            span_of(rate)
        now = self._clock.now
        return await self._writer.ask(lambda batch: rates.admit(batch, asked, now()))


def _absolute(path: str | os.PathLike[str]) -> Path:
    """The working directory may change before the reader opens it."""
    return Path(path).absolute()


def _no_entries(_checked: None) -> tuple[Entry, ...]:
    return ()


def _adopt(batch: Batch) -> None:
    """Asked first: to answer it, the file has to be open."""
    batch.attestation.adopt(batch.database)


def _seal(batch: Batch) -> None:
    batch.attestation.stand(batch.database)  # this handle may not have looked at it yet
    batch.is_end = True


def _hand_over(batch: Batch, heir: Notary) -> TreeHead:
    batch.flush()
    return batch.attestation.hand_over(batch.database, heir)
