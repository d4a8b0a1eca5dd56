"""Documents, as SQL: writes in the writer's transaction, reads of one moment. The rules are in port.documents."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.journal.port import documents as filing, lists as cursors
from amends.journal.port.documents import Document, DocumentPage, DocumentWrite, Kin, resource_of
from amends.journal.port.entries import PARENT
from amends.journal.sqlite.database import Database, Row
from amends.journal.sqlite.locks import holder_of
from amends.journal.sqlite.writer import Batch


def write(batch: Batch, asked: DocumentWrite, now: int) -> Document:
    return filing.changed(_SqliteDocuments(batch.database, now), asked)


def written(database: Database, key: str) -> Document | None:
    return _SqliteDocuments(database, 0).written(key)


def document(database: Database, name: str, reader: SagaId | None, version: int | None) -> Document | None:
    shelf = _SqliteDocuments(database, 0)
    with database.moment():
        if version is None:
            return _told(shelf, filing.seen(shelf, name, reader))
        return _told(shelf, shelf.version(name, version))


def documents(database: Database, prefix: str, after: str | None, limit: int) -> DocumentPage:
    shelf, found, last = _SqliteDocuments(database, 0), list[Document](), after or ""
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


def versions(database: Database, name: str, after: str | None, limit: int) -> DocumentPage:
    past = 0 if after is None else cursors.read(after, 1)[0]
    shelf = _SqliteDocuments(database, 0)
    with database.moment():
        rows = database.rows(
            f"{_SELECT} WHERE name = ? AND version > ? ORDER BY version LIMIT ?", (name, past, limit + 1)
        )
        found = [told for row in rows if (told := _told(shelf, _of(row))) is not None]
    shown = found[:limit]
    return DocumentPage(tuple(shown), cursors.spell(shown[-1].version) if len(found) > len(shown) else None)


class _SqliteDocuments:
    def __init__(self, database: Database, now: int) -> None:
        self._database = database
        self._now = now

    def newest(self, name: str, *, without: tuple[SagaId, ...] = ()) -> Document | None:
        return _of(self._database.first(_NEWEST, (name, json.dumps(without))))

    def version(self, name: str, version: int) -> Document | None:
        return _of(self._database.first(f"{_SELECT} WHERE name = ? AND version = ?", (name, version)))

    def written(self, key: str) -> Document | None:
        return _of(self._database.first(f"{_SELECT} WHERE key = ?", (key,)))

    def holder(self, name: str) -> SagaId | None:
        return holder_of(self._database, resource_of(name))

    def kin(self, saga: SagaId) -> Kin | None:
        found = self._database.first(_KIN, (saga,))
        if found is None:
            return None
        parent, status, place = found
        return Kin(None if parent is None else SagaId(parent), SagaStatus(status).ended, int(place))

    def epoch(self, saga: SagaId) -> int | None:
        found = self._database.first("SELECT epoch FROM saga WHERE name = ?", (saga,))
        return None if found is None else int(found[0])

    def add(self, write: DocumentWrite, version: int) -> Document:
        values = (write.name, version, write.body, write.saga, write.by, write.key, self._now, write.takes_back)
        self._database.run(_ADD, values)
        made = _of(self._database.first(f"{_SELECT} WHERE key = ?", (write.key,)))
        assert made is not None, "it has just been written"  # noqa: S101 - for the checkers
        return made

    def forget(self, name: str, up_to: int) -> None:
        if up_to > 0:
            self._database.run("DELETE FROM document WHERE name = ? AND version <= ?", (name, up_to))


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


def _told(shelf: _SqliteDocuments, found: Document | None) -> Document | None:
    """With whether it is final."""
    return found if found is None or filing.is_final(shelf, found) else replace(found, final=False)


_SELECT: Final = "SELECT name, version, body, saga, by, at, takes_back FROM document"
_BUT: Final = "saga NOT IN (SELECT value FROM json_each(?2))"
_NEWEST: Final = f"{_SELECT} WHERE name = ?1 AND {_BUT} ORDER BY version DESC LIMIT 1"
_KIN: Final = f"""SELECT labels ->> '$."{PARENT}"', status, id FROM saga WHERE name = ?"""  # noqa: S608 - all of it is constant
_ADD: Final = """
    INSERT INTO document (name, version, body, saga, by, key, at, takes_back) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_NAMES: Final = """
    SELECT DISTINCT name FROM document WHERE name > :after AND substr(name, 1, length(:prefix)) = :prefix
     ORDER BY name LIMIT :limit
"""
