"""The documents of a journal in memory. The rules are in port.documents."""

from __future__ import annotations

import json
from dataclasses import replace

from amends.core.words.values import SagaId
from amends.journal.memory.locks import holder_of
from amends.journal.memory.state import Memory
from amends.journal.port import documents as filing, lists as cursors
from amends.journal.port.documents import Document, DocumentPage, DocumentWrite, Kin, resource_of
from amends.journal.port.entries import PARENT


def write(memory: Memory, asked: DocumentWrite, now: int) -> Document:
    return filing.changed(_MemoryDocuments(memory, now), asked)


def written(memory: Memory, key: str) -> Document | None:
    return _MemoryDocuments(memory, 0).written(key)


def document(memory: Memory, name: str, reader: SagaId | None, version: int | None) -> Document | None:
    if version is None:
        return _told(memory, filing.seen(_MemoryDocuments(memory, 0), name, reader))
    return _told(memory, _MemoryDocuments(memory, 0).version(name, version))


def documents(memory: Memory, prefix: str, after: str | None, limit: int) -> DocumentPage:
    names = sorted({one.name for one in memory.documents.values() if one.name.startswith(prefix)})
    every = [filing.seen(_MemoryDocuments(memory, 0), name, None) for name in names if name > (after or "")]
    found = [one for one in every if one is not None and not one.deleted]
    return DocumentPage(tuple(found[:limit]), found[limit - 1].name if len(found) > limit else None)


def versions(memory: Memory, name: str, after: str | None, limit: int) -> DocumentPage:
    past = 0 if after is None else cursors.read(after, 1)[0]
    every = [one for one in memory.documents.values() if one.name == name and one.version > past]
    found = [told for one in sorted(every, key=_version) if (told := _told(memory, one)) is not None]
    shown = found[:limit]
    return DocumentPage(tuple(shown), cursors.spell(shown[-1].version) if len(found) > len(shown) else None)


def _version(one: Document) -> int:
    return one.version


class _MemoryDocuments:
    def __init__(self, memory: Memory, now: int) -> None:
        self._memory = memory
        self._now = now

    def newest(self, name: str, *, without: tuple[SagaId, ...] = ()) -> Document | None:
        every = self._memory.documents.values()
        found = [one for one in every if one.name == name and one.saga not in without]
        return max(found, key=_version, default=None)

    def version(self, name: str, version: int) -> Document | None:
        every = self._memory.documents.values()
        return next((one for one in every if (one.name, one.version) == (name, version)), None)

    def written(self, key: str) -> Document | None:
        return self._memory.documents.get(key)

    def holder(self, name: str) -> SagaId | None:
        return holder_of(self._memory, resource_of(name))

    def kin(self, saga: SagaId) -> Kin | None:
        record = self._memory.sagas.get(saga)
        if record is None:
            return None
        parent = record.begun.labels.get(PARENT)
        return Kin(None if parent is None else SagaId(parent), record.summary.status.ended, record.place)

    def epoch(self, saga: SagaId) -> int | None:
        record = self._memory.sagas.get(saga)
        return None if record is None else record.epoch

    def add(self, write: DocumentWrite, version: int) -> Document:
        body = None if write.body is None else json.loads(write.body)
        made = Document(
            name=write.name,
            version=version,
            body=body,
            deleted=write.body is None,
            saga=write.saga,
            by=write.by,
            at=self._now,
            takes_back=write.takes_back,
        )
        self._memory.documents[write.key] = made
        return made

    def forget(self, name: str, up_to: int) -> None:
        kept = {key: one for key, one in self._memory.documents.items() if one.name != name or one.version > up_to}
        self._memory.documents = kept


def _told(memory: Memory, found: Document | None) -> Document | None:
    """With whether it is final."""
    return (
        found if found is None or filing.is_final(_MemoryDocuments(memory, 0), found) else replace(found, final=False)
    )
