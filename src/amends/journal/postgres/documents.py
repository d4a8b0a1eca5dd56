"""Documents, as SQL: writes in the writer's transaction, reads of one moment. The rules are in port.documents."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.journal.port import documents as filing, lists as cursors
from amends.journal.port.documents import Document, DocumentPage, DocumentWrite, Kin, resource_of
from amends.journal.postgres.database import PostgresDatabase, Row
from amends.journal.postgres.locks import holder_of, shared_lines
from amends.journal.postgres.writer import PostgresBatch


def write(batch: PostgresBatch, asked: DocumentWrite, now: int) -> Document:
    """Nobody else changes this document meanwhile, and nobody takes or leaves a line."""
    shared_lines(batch.database)
    batch.database.run("SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))", (asked.name, _DOCUMENTS))
    if asked.epoch is not None:
        batch.database.rows("SELECT 1 FROM saga WHERE name = %s FOR SHARE", (asked.saga,))
    return filing.changed(_PostgresDocuments(batch.database, now), asked)


def written(database: PostgresDatabase, key: str) -> Document | None:
    return _PostgresDocuments(database, 0).written(key)


def document(database: PostgresDatabase, name: str, reader: SagaId | None, version: int | None) -> Document | None:
    shelf = _PostgresDocuments(database, 0)
    with database.moment():
        if version is None:
            return _told(shelf, filing.seen(shelf, name, reader))
        return _told(shelf, shelf.version(name, version))


def documents(database: PostgresDatabase, prefix: str, after: str | None, limit: int) -> DocumentPage:
    shelf, found, last = _PostgresDocuments(database, 0), list[Document](), after or ""
    with database.moment():
        while len(found) <= limit:
            names = database.rows(_NAMES, {"after": last, "prefix": prefix, "limit": limit + 1})
            if not names:
                return DocumentPage(tuple(found), None)
            for (name,) in names:
                last = str(name)
                newest = filing.seen(shelf, last, None)
                if newest is not None and not newest.deleted:
                    found.append(newest)
    return DocumentPage(tuple(found[:limit]), found[limit - 1].name)


def versions(database: PostgresDatabase, name: str, after: str | None, limit: int) -> DocumentPage:
    past = 0 if after is None else cursors.read(after, 1)[0]
    shelf = _PostgresDocuments(database, 0)
    with database.moment():
        rows = database.rows(
            f"{_SELECT} WHERE name = %s AND version > %s ORDER BY version LIMIT %s", (name, past, limit + 1)
        )
        found = [told for row in rows if (told := _told(shelf, _of(row))) is not None]
    shown = found[:limit]
    return DocumentPage(tuple(shown), cursors.spell(shown[-1].version) if len(found) > len(shown) else None)


class _PostgresDocuments:
    def __init__(self, database: PostgresDatabase, now: int) -> None:
        self._database = database
        self._now = now

    def newest(self, name: str, *, without: tuple[SagaId, ...] = ()) -> Document | None:
        return _of(self._database.first(_NEWEST, (name, list(without))))

    def version(self, name: str, version: int) -> Document | None:
        return _of(self._database.first(f"{_SELECT} WHERE name = %s AND version = %s", (name, version)))

    def written(self, key: str) -> Document | None:
        return _of(self._database.first(f"{_SELECT} WHERE key = %s", (key,)))

    def holder(self, name: str) -> SagaId | None:
        return holder_of(self._database, resource_of(name))

    def kin(self, saga: SagaId) -> Kin | None:
        found = self._database.first(_KIN, (saga,))
        if found is None:
            return None
        parent, status, place = found
        return Kin(None if parent is None else SagaId(parent), SagaStatus(status).ended, int(place))

    def epoch(self, saga: SagaId) -> int | None:
        found = self._database.first("SELECT epoch FROM saga WHERE name = %s", (saga,))
        return None if found is None else int(found[0])

    def add(self, write: DocumentWrite, version: int) -> Document:
        values = (write.name, version, write.body, write.saga, write.by, write.key, self._now, write.takes_back)
        self._database.run(_ADD, values)
        made = _of(self._database.first(f"{_SELECT} WHERE key = %s", (write.key,)))
        assert made is not None, "it has just been written"  # noqa: S101 - for the checkers
        return made

    def forget(self, name: str, up_to: int) -> None:
        if up_to > 0:
            self._database.run("DELETE FROM document WHERE name = %s AND version <= %s", (name, up_to))


def _of(row: Row | None) -> Document | None:
    if row is None:
        return None
    name, version, body, saga, by, at, takes_back = row
    return Document(
        name=name,
        version=version,
        body=None if body is None else json.loads(body),
        deleted=body is None,
        saga=SagaId(saga),
        by=by,
        at=at,
        takes_back=takes_back,
    )


def _told(shelf: _PostgresDocuments, found: Document | None) -> Document | None:
    """With whether it is final."""
    return found if found is None or filing.is_final(shelf, found) else replace(found, final=False)


_SELECT: Final = "SELECT name, version, body, saga, by, at, takes_back FROM document"
_NEWEST: Final = f"{_SELECT} WHERE name = %s AND saga <> ALL(%s::text[]) ORDER BY version DESC LIMIT 1"
_KIN: Final = "SELECT parent, status, id FROM saga WHERE name = %s"
_ADD: Final = """
    INSERT INTO document (name, version, body, saga, by, key, at, takes_back) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
"""
_NAMES: Final = """
    SELECT DISTINCT name FROM document WHERE name > %(after)s AND starts_with(name, %(prefix)s)
     ORDER BY name LIMIT %(limit)s
"""
_DOCUMENTS: Final = 0x616D6E64
