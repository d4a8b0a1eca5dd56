"""The thread that reads: entries in chunks, lists in pages. Never a transaction that outlives one answer.

A long read transaction would keep the write-ahead log from being cut back, so a saga of ten thousand entries is read as
many short questions, each verified before it is handed on. What is read twice can only have grown in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import apsw

from amends.core.events import Event
from amends.core.transitions import SagaStatus
from amends.core.words.parts import Payloads
from amends.core.words.values import SagaId
from amends.dataclass import dataclass
from amends.errors import JournalDamagedError, JournalVersionError
from amends.journal.codec import FIRST, chain, decode, removed_digest
from amends.journal.port.entries import Entry, RemovedEntry
from amends.journal.port.evidence import Stored
from amends.journal.sqlite import database as troubles
from amends.journal.sqlite.database import Database
from amends.journal.thread import Inline, Lane, LaneQuestion

T = TypeVar("T")

CHUNK_ENTRIES: Final = 256
CHUNK_CHARACTERS: Final = 4 * 1024 * 1024


class Reader:
    """The file is opened with the first question."""

    def __init__(self, path: Path, open_file: Callable[[], Database], *, inline: bool = False) -> None:
        self._path = path
        self._open_file = open_file
        self._database: Database | None = None
        self._lane: Lane[Database] | Inline[Database] = (
            Inline[Database](serve=self._serve, rest=lambda: None, leave=self._leave)
            if inline
            else Lane[Database]("amends-reader", most=1, serve=self._serve, rest=lambda: None, leave=self._leave)
        )

    async def ask(self, work: Callable[[Database], T]) -> T:
        return await self._lane.ask(work)

    def ask_blocking(self, work: Callable[[Database], T]) -> T:
        return self._lane.ask_blocking(work)

    def close(self) -> None:
        self._lane.close()

    def _serve(self, asks: Sequence[LaneQuestion[Database]]) -> None:
        for ask in asks:
            try:
                if self._database is None:
                    self._database = self._open_file()
                ask.answer(self._database)
            except apsw.Error as exc:
                ask.trouble = troubles.said(self._path, exc)
            except ValueError as exc:
                ask.trouble = JournalDamagedError(f"{self._path}: what is stored cannot be read: {exc}")
            except Exception as exc:  # noqa: BLE001 - a bug must not leave anyone waiting; who asked is told
                ask.trouble = exc

    def _leave(self) -> None:
        if self._database is not None:
            self._database.close()


@dataclass(frozen=True, slots=True)
class Head:
    """Where a saga stands: its row, the number and hash of its newest entry, and what lists say."""

    row: int
    number: int
    hash: bytes
    status: SagaStatus
    wake_at: int | None


def head(database: Database, saga: SagaId) -> Head | None:
    sql = "SELECT id, head, hash, status, wake_at FROM saga WHERE name = ?"
    found = database.first(sql, (saga,))
    if found is None:
        return None
    row, number, hashed, status, wake_at = found
    return Head(row, number, hashed, SagaStatus(status), wake_at)


@dataclass(frozen=True, slots=True)
class Chunk:
    entries: tuple[Entry, ...]
    is_last: bool


def chunk(database: Database, saga: SagaId, after: int) -> Chunk:
    """The next entries past `after`, verified. Raises JournalDamagedError, naming the entry."""
    newest = head(database, saga)
    if newest is None or newest.number <= after:
        return Chunk((), is_last=True)
    previous = _hash_of(database, saga, newest.row, after) if after else FIRST
    entries: list[Entry] = []
    for entry in _entries(database, saga, newest.row, after, previous):
        if entry.number == newest.number and entry.hash != newest.hash:
            raise damaged(saga, entry.number, "it is not the one that the saga was left with")
        entries.append(entry)
    reached = after + len(entries)
    if not entries:
        raise _missing(saga, after + 1)
    return Chunk(tuple(entries), is_last=reached >= newest.number)


def _entries(database: Database, saga: SagaId, row: int, after: int, previous: bytes) -> Iterator[Entry]:
    number, size = after, 0
    with database.each(_ENTRIES, (row, after, CHUNK_ENTRIES)) as stored:
        try:
            for found, at, name, body, hashed in stored:
                number += 1
                if found != number:
                    raise _missing(saga, number)
                entry, more = verified(database, previous, Stored(0, saga, number, at, name, body, hashed))
                yield entry
                previous = hashed
                size += more
                if size > CHUNK_CHARACTERS:
                    return
        except UnicodeDecodeError as exc:
            raise damaged(saga, number + 1, f"it is not text ({exc.reason})") from None


_ENTRIES: Final = """
    SELECT number, at, name, body, hash FROM recorded WHERE saga = ? AND number > ? ORDER BY number LIMIT ?
"""


def verified(database: Database, previous: bytes, stored: Stored) -> tuple[Entry, int]:
    """An entry of which all is as it was written, and how many characters that is. Raises JournalDamagedError."""
    _, name, number, at, wire, body, hashed = stored
    saga = SagaId(name)
    if chain(previous, saga, number, at, wire, body) != hashed:
        raise damaged(saga, number, "it does not match its hash")
    if removed_digest(body) is not None:
        return RemovedEntry.of(saga, number, at, wire, body, hashed), len(body)
    blobs = _Blobs(database)
    event = _decoded(saga, number, wire, body, blobs)
    entry = Entry(saga=saga, number=number, at=at, name=wire, body=body, hash=hashed, event=event)
    return entry, len(body) + blobs.characters


def _hash_of(database: Database, saga: SagaId, row: int, number: int) -> bytes:
    found = database.first("SELECT hash FROM recorded WHERE saga = ? AND number = ?", (row, number))
    if found is None:
        raise _missing(saga, number)
    hashed: bytes = found[0]
    return hashed


class _Blobs:
    """Payloads kept beside a body, asked for by digest; `characters`: how much that was in all.

    One that a bad disk made something else than text is read as text, which has another digest.
    """

    __slots__ = ("_database", "characters")

    def __init__(self, database: Database) -> None:
        self._database = database
        self.characters = 0

    def get(self, digest: str, /) -> str | None:
        found = self._database.first("SELECT CAST(data AS TEXT) FROM blob WHERE digest = ?", (digest,))
        if found is None:
            return None
        text: str = found[0]
        self.characters += len(text)
        return text


def _decoded(saga: SagaId, number: int, name: str, body: str, blobs: Payloads) -> Event:
    try:
        return decode(name, body, blobs)
    except (JournalDamagedError, JournalVersionError) as exc:
        raise type(exc)(f"saga {saga}, entry {number} ({name}): {exc}") from None


def damaged(saga: SagaId, number: int, how: str) -> JournalDamagedError:
    return JournalDamagedError(
        f"saga {saga}, entry {number}: {how}; nothing of it is acted upon; keep a copy and restore a backup"
    )


def _missing(saga: SagaId, number: int) -> JournalDamagedError:
    return damaged(saga, number, "it is missing")
