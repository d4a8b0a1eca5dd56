"""State that the handles of one journal in memory share, as programs share a file."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import field, replace

from amends.core import events as e
from amends.core.words.values import SagaId, StepId
from amends.dataclass import dataclass
from amends.errors import JournalDamagedError, JournalVersionError
from amends.journal.codec import FIRST, Wire, chain, decode, removed_digest
from amends.journal.port.documents import Document
from amends.journal.port.entries import Entry, RemovedEntry, Summary
from amends.journal.port.evidence import Signer, Stored, TreeHead
from amends.journal.port.leases import WorkerLife
from amends.journal.port.lists import ApprovalRow, IncidentRow
from amends.journal.port.log import Cursor
from amends.journal.tree import Tree, leaf


@dataclass(slots=True)
class KeptEntry:
    """An entry as it is kept: what a file would hold of it."""

    at: int
    wire: Wire
    hash: bytes


@dataclass(slots=True)
class KeptSaga:
    """One saga: its entries, who holds it, and what lists show of it."""

    id: SagaId
    place: int
    begun: e.SagaStarted
    started_at: int
    updated_at: int
    summary: Summary
    worker: str
    epoch: int
    nudged: bool = False
    removed: bool = False
    entries: list[KeptEntry] = field(default_factory=list[KeptEntry])
    topics: set[str] = field(default_factory=set[str])
    blobs: set[str] = field(default_factory=set[str])
    """The digests of what is kept beside its entries."""


@dataclass(frozen=True, slots=True)
class LockTicket:
    """A place in the line of a resource; the oldest is its holder's. `number` rises with each that is asked for."""

    number: int
    resource: str
    saga: SagaId
    owner: SagaId
    step: StepId
    asked_at: int
    until: int


@dataclass(slots=True)
class Memory:
    """Rows for people have a place in line; `order` is the journal's: which entry of which saga."""

    sagas: dict[SagaId, KeptSaga] = field(default_factory=dict[SagaId, KeptSaga])
    workers: dict[str, WorkerLife] = field(default_factory=dict[str, WorkerLife])
    incidents: dict[str, tuple[int, IncidentRow]] = field(default_factory=dict[str, tuple[int, IncidentRow]])
    approvals: dict[str, tuple[int, ApprovalRow]] = field(default_factory=dict[str, tuple[int, ApprovalRow]])
    line: int = 0
    order: list[tuple[SagaId, int]] = field(default_factory=list[tuple[SagaId, int]])
    tree: Tree = field(default_factory=Tree)
    checkpoints: dict[int, TreeHead] = field(default_factory=dict[int, TreeHead])
    signers: list[Signer] = field(default_factory=list[Signer])
    cursors: dict[str, Cursor] = field(default_factory=dict[str, Cursor])
    uses: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    tickets: list[LockTicket] = field(default_factory=list[LockTicket])
    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    blobs: dict[str, str] = field(default_factory=dict[str, str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def copy(self) -> Memory:
        """Another one with the same in it, as a copy of a file would have."""
        return Memory(
            sagas={
                name: replace(one, entries=list(one.entries), topics=set(one.topics), blobs=set(one.blobs))
                for name, one in self.sagas.items()
            },
            workers=dict(self.workers),
            incidents=dict(self.incidents),
            approvals=dict(self.approvals),
            line=self.line,
            order=list(self.order),
            tree=self.tree.copy(),
            checkpoints=dict(self.checkpoints),
            signers=list(self.signers),
            cursors=dict(self.cursors),
            uses={key: list(uses) for key, uses in self.uses.items()},
            tickets=list(self.tickets),
            documents=dict(self.documents),
            blobs=dict(self.blobs),
        )

    def add(self, record: KeptSaga, event: e.Event, wire: Wire, at: int) -> Entry:
        """Put an entry at the end of its saga, of the journal and of the tree."""
        previous = record.entries[-1].hash if record.entries else FIRST
        number = len(record.entries) + 1
        hashed = chain(previous, record.id, number, at, wire.name, wire.body)
        if wire.blobs:
            self._keep(record, wire.blobs)
        record.entries.append(KeptEntry(at, replace(wire, blobs={}) if wire.blobs else wire, hashed))
        self.order.append((record.id, number))
        self.tree.add(leaf(hashed))
        return Entry(saga=record.id, number=number, at=at, name=wire.name, body=wire.body, hash=hashed, event=event)

    def _keep(self, record: KeptSaga, blobs: Mapping[str, str]) -> None:
        """Each once, however often it comes."""
        for digest, text in blobs.items():
            self.blobs.setdefault(digest, text)
        record.blobs |= blobs.keys()

    def drop_blobs(self, record: KeptSaga) -> None:
        """Remove what nobody but this saga needs beside its entries."""
        others = {digest for one in self.sagas.values() if one is not record for digest in one.blobs}
        for digest in record.blobs - others:
            del self.blobs[digest]
        record.blobs = set()

    def stored(self, position: int) -> Stored:
        saga, number = self.order[position - 1]
        kept = self.sagas[saga].entries[number - 1]
        return Stored(position, saga, number, kept.at, kept.wire.name, kept.wire.body, kept.hash)

    def verified(self, saga: SagaId, number: int) -> Entry:
        """Raises JournalDamagedError for what does not match its hash."""
        entries = self.sagas[saga].entries
        kept = entries[number - 1]
        at, wire, hashed = kept.at, kept.wire, kept.hash
        previous = entries[number - 2].hash if number > 1 else FIRST
        if chain(previous, saga, number, at, wire.name, wire.body) != hashed:
            raise JournalDamagedError(f"saga {saga}, entry {number}: it does not match its hash")
        if removed_digest(wire.body) is not None:
            return RemovedEntry.of(saga, number, at, wire.name, wire.body, hashed)
        event = self._decoded(saga, number, wire)
        return Entry(saga=saga, number=number, at=at, name=wire.name, body=wire.body, hash=hashed, event=event)

    def _decoded(self, saga: SagaId, number: int, wire: Wire) -> e.Event:
        try:
            return decode(wire.name, wire.body, self.blobs)
        except (JournalDamagedError, JournalVersionError) as exc:
            raise type(exc)(f"saga {saga}, entry {number} ({wire.name}): {exc}") from None
