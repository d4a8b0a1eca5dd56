"""The journal as one list: entries of all sagas in their order, their hashes, and the checkpoints over them.

As in the reader, each answer is a short question of its own, so that nobody who reads for long holds the log back.

How late it is on a journal: no earlier than its newest entry, and than what this machine's clocks said before.

A process notes the time by both of the machine's clocks with the first thing that it writes. Whoever opens the journal
later, on the same boot, knows from that how much time has passed since, whatever the wall clock was set to meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from amends.core.words.values import SagaId, canonical
from amends.errors import JournalDamagedError
from amends.journal.clocks import CLOCKS, noted, passed_ms
from amends.journal.codec import FIRST
from amends.journal.port.evidence import Signer, Stored, TreeHead
from amends.journal.port.log import LAST, Cursor, Logged
from amends.journal.sqlite import reader
from amends.journal.sqlite.attest import tree_row
from amends.journal.sqlite.database import Database, Row
from amends.journal.sqlite.writer import Batch
from amends.journal.tree import LEVEL, WIDTH, Subtree, Tree, leaf, root_of

CHUNK_ENTRIES: Final = 512
CHUNK_HASHES: Final = 8_192
Statement = tuple[str, tuple[str | int, ...]]

# As the index `entry_asking` has them: SQLite uses it where it finds its condition letter by letter.
_ASKING: Final = "(name GLOB 'approval.requested/*' OR name GLOB 'incident.opened/*')"
_ASKED: Final = ("approval.requested/", "incident.opened/")

# As the view `recorded` has them, which cannot be told by which index to go.
_IS_REMOVED: Final = "body = '' AND length(hash) = 64"
_BODY: Final = f"iif({_IS_REMOVED}, 'sha256:' || lower(hex(substr(hash, 33))), body)"
_HASH: Final = f"iif({_IS_REMOVED}, substr(hash, 1, 32), hash)"
_BEFORE: Final = f"(SELECT {_HASH} FROM entry AS old WHERE old.saga = entry.saga AND old.number = entry.number - 1)"  # noqa: S608 - all of it is constant
_LOGGED: Final = f"""
    SELECT seq, (SELECT saga.name FROM saga WHERE saga.id = entry.saga), number, at, name, {_BODY}, {_HASH}, {_BEFORE}
      FROM entry
"""  # noqa: S608 - all of it is constant


class LogChunk(NamedTuple):
    logged: tuple[Logged, ...]
    is_last: bool


def statement(after: int, names: Collection[str] | None, limit: int) -> Statement:
    terms, values = ["seq > ?"], list[str | int]([after])
    indexed = ""
    if names is not None:
        terms.append("name IN (SELECT value FROM json_each(?))")
        values.append(canonical(sorted(names)))
        if names and all(name.startswith(_ASKED) for name in names):
            indexed = "INDEXED BY entry_asking"
            terms.append(_ASKING)
    return f"{_LOGGED} {indexed} WHERE {' AND '.join(terms)} ORDER BY seq LIMIT ?", (*values, limit)


def chunk(database: Database, after: int, names: Collection[str] | None) -> LogChunk:
    """The next entries past a position, verified. Raises JournalDamagedError, naming the entry."""
    found: list[Logged] = []
    reached, size = after, 0
    with database.each(*statement(after, names, CHUNK_ENTRIES)) as rows:
        try:
            for *row, before in rows:
                stored = _stored(tuple(row))
                if names is None and stored.position != reached + 1:
                    raise _damaged(reached + 1, "it is missing")
                entry, more = reader.verified(database, FIRST if before is None else before, stored)
                found.append(Logged(stored.position, entry))
                reached, size = stored.position, size + more
                if size > reader.CHUNK_CHARACTERS:
                    return LogChunk(tuple(found), is_last=False)
        except UnicodeDecodeError as exc:
            raise _damaged(reached + 1, f"it is not text ({exc.reason})") from None
    return LogChunk(tuple(found), is_last=len(found) < CHUNK_ENTRIES)


def _damaged(position: int, how: str) -> JournalDamagedError:
    return JournalDamagedError(
        f"the entry at position {position} or after it: {how}; keep a copy of the file and restore a backup"
    )


# -- unchecked --------------------------------------------------------------------------------------------------------

_STORED: Final = """
    SELECT entry.seq, saga.name, entry.number, entry.at, entry.name, entry.body, entry.hash
      FROM recorded AS entry LEFT JOIN saga ON saga.id = entry.saga WHERE entry.seq > ? ORDER BY entry.seq LIMIT ?
"""
_STORED_AS_BYTES: Final = """
    SELECT entry.seq, CAST(saga.name AS BLOB), entry.number, entry.at, CAST(entry.name AS BLOB),
           CAST(entry.body AS BLOB), entry.hash
      FROM recorded AS entry LEFT JOIN saga ON saga.id = entry.saga WHERE entry.seq > ? ORDER BY entry.seq LIMIT ?
"""


def stored(database: Database, after: int) -> tuple[Stored, ...]:
    """The next rows past a position, whatever is in them; none past the last."""
    try:
        return tuple([_stored(row) for row in database.rows(_STORED, (after, CHUNK_ENTRIES))])
    except UnicodeDecodeError:
        rows = database.rows(_STORED_AS_BYTES, (after, CHUNK_ENTRIES))
        return tuple([_stored(tuple(map(_text, row[:-1])) + row[-1:]) for row in rows])


def _stored(row: Row) -> Stored:
    position, saga, number, at, name, body, hashed = row
    return Stored(position, saga or "", number, at, name, body, hashed)


def _text(value: bytes | int | None) -> str | int | None:
    """A column as text; what is no text becomes one that no hash matches."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def hashes(database: Database, after: int) -> tuple[tuple[int, bytes], ...]:
    sql = "SELECT seq, hash FROM recorded WHERE seq > ? ORDER BY seq LIMIT ?"
    return tuple([(position, hashed) for position, hashed in database.rows(sql, (after, CHUNK_HASHES))])


def payload(database: Database, digest: str) -> str | None:
    found = database.first("SELECT CAST(data AS TEXT) FROM blob WHERE digest = ?", (digest,))
    return None if found is None else found[0]


# -- the tree ---------------------------------------------------------------------------------------------------------


def tree(database: Database) -> Tree:
    return Tree.read(*tree_row(database))


def positions(database: Database, saga: SagaId) -> tuple[int, ...]:
    sql = "SELECT seq FROM entry WHERE saga = (SELECT id FROM saga WHERE name = ?) ORDER BY number"
    return tuple([position for (position,) in database.rows(sql, (saga,))])


def subtrees(database: Database, asked: Sequence[Subtree]) -> tuple[bytes, ...]:
    return tuple([_root(database, one.position - 1, one.height) for one in asked])


def _root(database: Database, start: int, height: int) -> bytes:
    level = height - height % LEVEL
    return root_of(_roots(database, start, level, 1 << (height - level)))


def _roots(database: Database, start: int, level: int, count: int) -> list[bytes]:
    """Of so many subtrees of a height that is kept. One that is not, because a program from before they were kept wrote
    its last entry, is made from those below.
    """
    if level == 0:
        sql = "SELECT hash FROM recorded WHERE seq > ? AND seq <= ? ORDER BY seq"
        found = [leaf(hashed) for (hashed,) in database.rows(sql, (start, start + count))]
        if len(found) != count:
            raise JournalDamagedError(
                f"of the entries {start + 1} to {start + count} some are missing; keep a copy of the file, and see "
                "which: amends evidence verify"
            )
        return found
    sql = "SELECT hash FROM subtree WHERE height = ? AND place >= ? AND place < ? ORDER BY place"
    first = start >> level
    kept = [hashed for (hashed,) in database.rows(sql, (level, first, first + count))]
    if len(kept) == count:
        return kept
    return [root_of(_roots(database, start + (one << level), level - LEVEL, WIDTH)) for one in range(count)]


def checkpoint(database: Database) -> TreeHead | None:
    found = database.first("SELECT size, at, note FROM checkpoint ORDER BY size DESC LIMIT 1")
    return None if found is None else TreeHead(*found)


def checkpoints(database: Database, after: int) -> tuple[TreeHead, ...]:
    sql = "SELECT size, at, note FROM checkpoint WHERE size > ? ORDER BY size LIMIT ?"
    return tuple([TreeHead(*row) for row in database.rows(sql, (after, CHUNK_ENTRIES))])


def signers(database: Database) -> tuple[Signer, ...]:
    return tuple([Signer(*row) for row in database.rows("SELECT key, at, note FROM signer ORDER BY id")])


# -- cursors ----------------------------------------------------------------------------------------------------------


def cursor(database: Database, name: str) -> Cursor:
    found = database.first("SELECT name, position, note FROM cursor WHERE name = ?", (name,))
    return Cursor(name) if found is None else Cursor(*found)


def cursors(database: Database, under: str) -> tuple[Cursor, ...]:
    sql = "SELECT name, position, note FROM cursor WHERE name >= ? AND name < ? ORDER BY name"
    return tuple(Cursor(*row) for row in database.rows(sql, (under, under + LAST)))


def move_cursor(batch: Batch, to: Cursor, since: Cursor | None) -> bool:
    if since is not None and cursor(batch.database, to.name) != since:
        return False
    if to == Cursor(to.name):
        batch.database.run("DELETE FROM cursor WHERE name = ?", (to.name,))
    else:
        batch.database.run("INSERT OR REPLACE INTO cursor (name, position, note) VALUES (?, ?, ?)", to)
    return True


# -- the time ---------------------------------------------------------------------------------------------------------


def latest_moment(batch: Batch, elapsed: Callable[[], float]) -> int:
    """The latest moment, in milliseconds of UTC, that is known to be past."""
    found = batch.database.first("SELECT at FROM entry ORDER BY seq DESC LIMIT 1")
    entry = 0 if found is None else int(found[0])
    kept = cursor(batch.database, CLOCKS)
    return max(entry, kept.position + max(0, passed_ms(kept, elapsed()) or 0))


def keep_clocks(batch: Batch, at: int, elapsed: float) -> None:
    """Note the time by both clocks."""
    move_cursor(batch, noted(at, elapsed), None)
