"""One process's handle on the file: its two threads, and what several sagas share through it. Entries are elsewhere."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from amends.clock import Clock
from amends.core.values import SagaId
from amends.errors import ForkedError
from amends.journal.filing import Document, DocumentPage, DocumentWrite
from amends.journal.locking import LockAnswer, LockAsk, LockPage, LockQuery
from amends.journal.protocol import Lease
from amends.journal.sqlite import documents, leases, locks
from amends.journal.sqlite.reader import Reader
from amends.journal.sqlite.writer import Writer


class Handle:
    def __init__(self, path: Path, clock: Clock, writer: Writer, reader: Reader) -> None:
        self._path = path
        self._clock = clock
        self._writer = writer
        self._reader = reader
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return str(self._path)

    def _require_home(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedError(
                f"{self._path} was opened by process {self._pid}, and this is its child {os.getpid()}: a connection "
                "does not survive a fork; open the journal anew here, or start children by spawn"
            )

    # -- locks --------------------------------------------------------------------------------------------------

    async def lock(self, ask: LockAsk, lease: Lease) -> LockAnswer:
        self._require_home()
        now = self._clock.now
        return await self._writer.ask(lambda batch: locks.lock(batch, ask, lease, now()))

    async def locks(self, query: LockQuery) -> LockPage:
        self._require_home()
        return await self._reader.ask(partial(locks.locks, query=query))

    # -- documents ----------------------------------------------------------------------------------------------

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

    async def awake(self, worker: str) -> tuple[SagaId, ...]:
        self._require_home()
        return await self._reader.ask(partial(leases.nudged, worker=worker, now=self._clock.now))
