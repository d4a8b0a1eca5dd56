"""The thread that reads: entries in chunks, lists in pages. Never a transaction that outlives one answer.

What is read twice can only have grown in between, and each entry is verified before it is handed on. A connection that
is lost costs nothing but time: whatever was asked is asked again on a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import psycopg

from amends.clock import SystemClock
from amends.core.events import Event
from amends.core.transitions import SagaStatus
from amends.core.words.parts import Payloads
from amends.core.words.values import SagaId
from amends.errors import AmendsError, JournalDamagedError, JournalVersionError
from amends.journal.codec import FIRST, chain, decode, removed_digest
from amends.journal.port.entries import Entry, RemovedEntry
from amends.journal.port.evidence import Stored
from amends.journal.postgres import database as troubles
from amends.journal.postgres.address import PostgresAddress
from amends.journal.postgres.database import OpenDatabase, PostgresDatabase
from amends.journal.thread import Inline, Lane, LaneQuestion

T = TypeVar("T")

CHUNK_ENTRIES: Final = 256
CHUNK_CHARACTERS: Final = 4 * 1024 * 1024


class PostgresReader:
    """The connection is made with the first question."""

    def __init__(
        self, address: PostgresAddress, open_database: OpenDatabase, *, inline: bool = False, patience_s: float
    ) -> None:
        self._address = address
        self._open = open_database
        self._patience_s = patience_s
        self._database: PostgresDatabase | None = None
        self._was_connected = False
        self._pausing = threading.Event()
        self._lane: Lane[PostgresDatabase] | Inline[PostgresDatabase] = (
            Inline[PostgresDatabase](serve=self._serve, rest=lambda: None, leave=self._leave)
            if inline
            else Lane[PostgresDatabase](
                "amends-reader", most=1, serve=self._serve, rest=lambda: None, leave=self._leave
            )
        )

    async def ask(self, work: Callable[[PostgresDatabase], T]) -> T:
        return await self._lane.ask(work)

    def ask_blocking(self, work: Callable[[PostgresDatabase], T]) -> T:
        return self._lane.ask_blocking(work)

    def close(self) -> None:
        self._patience_s = 0.0
        self._pausing.set()
        self._lane.close()

    def _serve(self, asks: Sequence[LaneQuestion[PostgresDatabase]]) -> None:
        for ask in asks:
            try:
                self._answer(ask)
            except psycopg.Error as exc:
                self._roll_back()
                ask.trouble = troubles.said(self._address, exc)
            except ValueError as exc:
                ask.trouble = JournalDamagedError(f"{self._address}: what is stored cannot be read: {exc}")
            except Exception as exc:  # noqa: BLE001 - a bug must not leave anyone waiting; who asked is told
                ask.trouble = exc

    def _answer(self, ask: LaneQuestion[PostgresDatabase]) -> None:
        clock, since, tries = SystemClock(), 0.0, 0
        while True:
            try:
                if self._database is None:
                    self._database, self._was_connected = self._open(), True
                ask.trouble = None
                return ask.answer(self._database)
            except troubles.AGAIN:
                tries += 1
                self._roll_back()
                if tries > 5:  # noqa: PLR2004 - a reader seldom meets anybody
                    raise
            except (psycopg.Error, AmendsError) as exc:
                if not self._is_cut_off(exc):
                    raise
                since = since or clock.elapsed()
                if clock.elapsed() - since > self._patience_s:
                    raise
                tries += 1
                self._pausing.wait(min(0.02 * 2**tries, 0.5))

    def _is_cut_off(self, trouble: Exception) -> bool:
        if self._database is not None and self._database.is_lost:
            self._database.close()
            self._database = None
            return True
        return self._database is None and self._was_connected and isinstance(trouble, troubles.UNREACHABLE)

    def _roll_back(self) -> None:
        if self._database is not None:
            self._database.roll_back()

    def _leave(self) -> None:
        if self._database is not None:
            self._database.close()


class PostgresHead(NamedTuple):
    """Where a saga stands: its row, the number and hash of its newest entry, and what lists say."""

    row: int
    number: int
    hash: bytes
    status: SagaStatus


class EntryChunk(NamedTuple):
    entries: tuple[Entry, ...]
    is_last: bool


def head(database: PostgresDatabase, saga: SagaId) -> PostgresHead | None:
    found = database.first("SELECT id, head, hash, status FROM saga WHERE name = %s", (saga,))
    if found is None:
        return None
    row, number, hashed, status = found
    return PostgresHead(row, number, bytes(hashed), SagaStatus(status))


def chunk(database: PostgresDatabase, saga: SagaId, after: int) -> EntryChunk:
    """The next entries past `after`, verified. Raises JournalDamagedError, naming the entry."""
    newest = head(database, saga)
    if newest is None or newest.number <= after:
        return EntryChunk((), is_last=True)
    previous = _hash_of(database, saga, newest.row, after) if after else FIRST
    entries: list[Entry] = []
    size, number = 0, after
    for found, at, name, body, hashed in database.rows(_ENTRIES, (newest.row, after, newest.number, CHUNK_ENTRIES)):
        number += 1
        if found != number:
            raise _missing(saga, number)
        stored = Stored(0, saga, number, at, name, body, bytes(hashed))
        entry, more = verified(database, previous, stored)
        if number == newest.number and entry.hash != newest.hash:
            raise damaged(saga, number, "it is not the one that the saga was left with")
        entries.append(entry)
        previous = stored.hash
        size += more
        if size > CHUNK_CHARACTERS:
            break
    if not entries:
        raise _missing(saga, after + 1)
    return EntryChunk(tuple(entries), is_last=after + len(entries) >= newest.number)


_ENTRIES: Final = """
    SELECT number, at, name, body, hash FROM entry WHERE saga = %s AND number > %s AND number <= %s
     ORDER BY number LIMIT %s
"""


def verified(database: PostgresDatabase, previous: bytes, stored: Stored) -> tuple[Entry, int]:
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


def _hash_of(database: PostgresDatabase, saga: SagaId, row: int, number: int) -> bytes:
    found = database.first("SELECT hash FROM entry WHERE saga = %s AND number = %s", (row, number))
    if found is None:
        raise _missing(saga, number)
    return bytes(found[0])


class _Blobs:
    """Payloads kept beside a body, asked for by digest; `characters`: how much that was in all."""

    __slots__ = ("_database", "characters")

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.characters = 0

    def get(self, digest: str, /) -> str | None:
        found = self._database.first("SELECT data FROM blob WHERE digest = %s", (digest,))
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
