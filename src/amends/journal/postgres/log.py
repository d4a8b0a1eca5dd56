"""The journal as one list: entries that have a position, their hashes, and the checkpoints over them; cursors.

Each answer is a short question of its own. An entry without a position is not here yet; see sequencer.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from amends.core.words.values import SagaId
from amends.errors import JournalDamagedError
from amends.journal.codec import FIRST
from amends.journal.port.evidence import Signer, Stored, TreeHead, Unnumbered
from amends.journal.port.log import LAST, Cursor, Logged
from amends.journal.postgres import reader
from amends.journal.postgres.database import PostgresDatabase, Row
from amends.journal.postgres.sequencer import stand_of
from amends.journal.postgres.writer import PostgresBatch
from amends.journal.tree import LEVEL, WIDTH, Subtree, Tree, leaf, root_of

CHUNK_ENTRIES: Final = 512
CHUNK_HASHES: Final = 8_192


class LoggedChunk(NamedTuple):
    logged: tuple[Logged, ...]
    is_last: bool


_FROM: Final = "batch.first >= coalesce((SELECT max(first) FROM batch WHERE first <= %(after)s + 1), 1)"
_PAST: Final = f"{_FROM} AND batch.first + entry.place > %(after)s"
_JOINED: Final = "FROM batch JOIN entry ON entry.batch = batch.id"
_IN_ORDER: Final = "ORDER BY batch.first, entry.place LIMIT %(limit)s"
PAST_IN_ORDER: Final = f"{_JOINED} WHERE {_PAST} {_IN_ORDER}"
_COLUMNS: Final = """
    batch.first + entry.place, (SELECT saga.name FROM saga WHERE saga.id = entry.saga), entry.number, entry.at,
    entry.name, entry.body, entry.hash
"""
_BEFORE: Final = "(SELECT hash FROM entry AS old WHERE old.saga = entry.saga AND old.number = entry.number - 1)"
_LOGGED: Final = f"SELECT {_COLUMNS}, {_BEFORE} {_JOINED} WHERE {_PAST} {_IN_ORDER}"
_ASKING: Final = "(entry.name LIKE 'approval.requested/%%' OR entry.name LIKE 'incident.opened/%%')"
_NAMED: Final = f"""
    SELECT {_COLUMNS}, {_BEFORE} {_JOINED} WHERE {_PAST} AND entry.name = ANY(%(names)s::text[]) {{}} {_IN_ORDER}
"""
_ASKED: Final = ("approval.requested/", "incident.opened/")


def chunk(database: PostgresDatabase, after: int, names: Collection[str] | None) -> LoggedChunk:
    """The next entries past a position, verified. Raises JournalDamagedError, naming the entry."""
    found: list[Logged] = []
    reached, size = after, 0
    if names is None:
        rows = database.rows(_LOGGED, {"after": after, "limit": CHUNK_ENTRIES})
    else:
        also = f"AND {_ASKING}" if names and all(name.startswith(_ASKED) for name in names) else ""
        sql, wanted = _NAMED.format(also), sorted(names)
        rows = database.rows(sql, {"after": after, "limit": CHUNK_ENTRIES, "names": wanted})
    for *row, before in rows:
        stored = _stored(tuple(row))
        if names is None and stored.position != reached + 1:
            raise _damaged(reached + 1, "it is missing")
        entry, more = reader.verified(database, FIRST if before is None else bytes(before), stored)
        found.append(Logged(stored.position, entry))
        reached, size = stored.position, size + more
        if size > reader.CHUNK_CHARACTERS:
            return LoggedChunk(tuple(found), is_last=False)
    return LoggedChunk(tuple(found), is_last=len(found) < CHUNK_ENTRIES)


def _damaged(position: int, how: str) -> JournalDamagedError:
    return JournalDamagedError(f"the entry at position {position} or after it: {how}; keep a copy and restore a backup")


# -- unchecked --------------------------------------------------------------------------------------------------------

_STORED: Final = f"SELECT {_COLUMNS} {_JOINED} WHERE {_PAST} {_IN_ORDER}"
_HASHES: Final = f"SELECT batch.first + entry.place, entry.hash {_JOINED} WHERE {_PAST} {_IN_ORDER}"


def stored(database: PostgresDatabase, after: int) -> tuple[Stored, ...]:
    """The next rows past a position, whatever is in them; none past the last."""
    return tuple([_stored(row) for row in database.rows(_STORED, {"after": after, "limit": CHUNK_ENTRIES})])


def _stored(row: Row) -> Stored:
    position, saga, number, at, name, body, hashed = row
    return Stored(position, saga or "", number, at, name, body, bytes(hashed))


def hashes(database: PostgresDatabase, after: int, most: int = CHUNK_HASHES) -> tuple[tuple[int, bytes], ...]:
    found = database.rows(_HASHES, {"after": after, "limit": most})
    return tuple([(position, bytes(hashed)) for position, hashed in found])


def payload(database: PostgresDatabase, digest: str) -> str | None:
    found = database.first("SELECT data FROM blob WHERE digest = %s", (digest,))
    return None if found is None else found[0]


def unnumbered(database: PostgresDatabase) -> Unnumbered:
    found = database.first("SELECT coalesce(sum(count), 0)::bigint, min(at) FROM batch WHERE first IS NULL")
    return Unnumbered() if found is None else Unnumbered(int(found[0]), found[1])


# -- the tree ---------------------------------------------------------------------------------------------------------


def tree(database: PostgresDatabase) -> Tree:
    stand = stand_of(database)
    return Tree.read(stand.size, stand.kept)


def positions(database: PostgresDatabase, saga: SagaId) -> tuple[int, ...]:
    sql = """
        SELECT batch.first + entry.place FROM entry JOIN batch ON batch.id = entry.batch
         WHERE entry.saga = (SELECT id FROM saga WHERE name = %s) AND batch.first IS NOT NULL ORDER BY entry.number
    """
    return tuple([position for (position,) in database.rows(sql, (saga,))])


def subtrees(database: PostgresDatabase, asked: Sequence[Subtree]) -> tuple[bytes, ...]:
    return tuple([_root(database, one.position - 1, one.height) for one in asked])


def _root(database: PostgresDatabase, start: int, height: int) -> bytes:
    level = height - height % LEVEL
    return root_of(_roots(database, start, level, 1 << (height - level)))


def _roots(database: PostgresDatabase, start: int, level: int, count: int) -> list[bytes]:
    """Of so many subtrees of a height that is kept."""
    if level == 0:
        rows = hashes(database, start, count)
        found = [leaf(hashed) for place, (position, hashed) in enumerate(rows, start + 1) if position == place]
        if len(found) != count:
            raise JournalDamagedError(
                f"of the entries {start + 1} to {start + count} some are missing; keep a copy, and see which: "
                "amends evidence verify"
            )
        return found
    sql = "SELECT hash FROM subtree WHERE height = %s AND place >= %s AND place < %s ORDER BY place"
    first = start >> level
    kept = [bytes(hashed) for (hashed,) in database.rows(sql, (level, first, first + count))]
    if len(kept) == count:
        return kept
    return [root_of(_roots(database, start + (one << level), level - LEVEL, WIDTH)) for one in range(count)]


def checkpoint(database: PostgresDatabase) -> TreeHead | None:
    found = database.first("SELECT size, at, note FROM checkpoint ORDER BY size DESC LIMIT 1")
    return None if found is None else TreeHead(*found)


def checkpoints(database: PostgresDatabase, after: int) -> tuple[TreeHead, ...]:
    sql = "SELECT size, at, note FROM checkpoint WHERE size > %s ORDER BY size LIMIT %s"
    return tuple([TreeHead(*row) for row in database.rows(sql, (after, CHUNK_ENTRIES))])


def signers(database: PostgresDatabase) -> tuple[Signer, ...]:
    return tuple([Signer(*row) for row in database.rows("SELECT key, at, note FROM signer ORDER BY id")])


# -- cursors ----------------------------------------------------------------------------------------------------------


def cursor(database: PostgresDatabase, name: str) -> Cursor:
    found = database.first("SELECT name, position, note FROM cursor WHERE name = %s", (name,))
    return Cursor(name) if found is None else Cursor(*found)


def cursors(database: PostgresDatabase, under: str) -> tuple[Cursor, ...]:
    sql = "SELECT name, position, note FROM cursor WHERE name >= %s AND name < %s ORDER BY name"
    return tuple(Cursor(*row) for row in database.rows(sql, (under, under + LAST)))


def move_cursor(batch: PostgresBatch, to: Cursor, since: Cursor | None) -> bool:
    database = batch.database
    database.run("SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))", (to.name, _CURSORS))
    if since is not None and cursor(database, to.name) != since:
        return False
    if to == Cursor(to.name):
        database.run("DELETE FROM cursor WHERE name = %s", (to.name,))
    else:
        database.run(_MOVE, to)
    return True


_CURSORS: Final = 0x616D6E63
_MOVE: Final = """
    INSERT INTO cursor (name, position, note) VALUES (%s, %s, %s)
    ON CONFLICT (name) DO UPDATE SET position = excluded.position, note = excluded.note
"""
