"""Removing what ended sagas held, a few sagas for each transaction, so that nobody who writes has to wait for long.

Each saga gets an entry in the same transaction that says who removed what it held and why; that is signed. A family, a
saga and all that it called, goes together, and not before all of it may go. The policies, pauses and holds stay, and so
do drills that count. Of a body its digest is left, in its place.

PostgreSQL keeps what a row held before until it is vacuumed, and longer in its write-ahead log and in backups. The
tables are vacuumed afterwards where this user may do that; else autovacuum comes by.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, Final, NamedTuple, cast

from amends.core.events import ContentRemoved
from amends.core.words.values import SagaId
from amends.journal.codec import chain, encode, removed_digest
from amends.journal.port.evidence import Removal, Spared, whole_families
from amends.journal.postgres import keys
from amends.journal.postgres.append import BLOBS
from amends.journal.postgres.database import PostgresDatabase
from amends.journal.postgres.writer import PostgresBatch

SAGAS: Final = 50
"""So many sagas are seen to in one transaction."""
MOST: Final = 1_000
"""A family goes in one transaction, unless it is larger than this: then others may write in between."""


class Meant(NamedTuple):
    """Sagas that may go: of these, or of all."""

    ended_before: int
    spared: Spared
    sagas: Collection[str] | None = None


class RemovedBy(NamedTuple):
    """The remover of what sagas held, why, and when."""

    by: str
    why: str
    at: int
    own: bool = False
    before: int = 0
    signed: str = ""

    def fact(self, entries: int, *, was_gone: bool = False) -> ContentRemoved:
        """The entry of a saga that had so many."""
        return ContentRemoved(
            entries=entries,
            by=self.by,
            why=self.why,
            own=self.own,
            was_gone=was_gone,
            before=self.before,
            signed=self.signed,
        )


class _Removed(NamedTuple):
    """Counts of what was removed, and up to which row of a saga; None where there are no more."""

    sagas: int
    entries: int
    reached: int | None = None


Ask = Callable[[Callable[[PostgresBatch], Any]], Awaitable[Any]]


async def remove_all(ask: Ask, meant: Meant, remover: RemovedBy, limit: int | None) -> Removal:
    """A transaction after the other, until nothing is left or the limit is reached."""
    sagas, entries, reached = 0, 0, 0
    while limit is None or sagas < limit:
        most = SAGAS if limit is None else min(SAGAS, limit - sagas)
        bound = limit is not None and sagas > 0
        removed: _Removed = await ask(
            partial(remove, meant=meant, remover=remover, after=reached, most=most, is_bound=bound)
        )
        sagas, entries = sagas + removed.sagas, entries + removed.entries
        if removed.reached is None:
            break
        reached = removed.reached
    return Removal(sagas, entries)


def remove(
    batch: PostgresBatch, meant: Meant, remover: RemovedBy, after: int, most: int = SAGAS, *, is_bound: bool = False
) -> _Removed:
    """The next few sagas past a row, families whole; `is_bound`: not even the first may be larger than that."""
    database = batch.database
    batch.flush()  # what came in the same transaction has to be in its place
    found, last = _next(database, meant, after, most)
    sagas = whole_families(((row, family) for row, _, family in found), most, at_least_one=not is_bound)[:MOST]
    if sagas:
        database.run("SELECT pg_advisory_xact_lock(%s)", (BLOBS,))
    batch.is_end = batch.is_end or bool(sagas)
    entries = sum(_remove(batch, saga, remover) for saga in sorted(sagas))
    is_more = bool(sagas) and len(found) >= most
    reached = last if len(sagas) == len(found) else after
    return _Removed(len(sagas), entries, reached if is_more else None)


def count(database: PostgresDatabase, meant: Meant) -> int:
    found = database.first(f"SELECT count(*) FROM ({_ENDED}) AS ended", {**_bindings(meant), "after": 0})  # noqa: S608 - all of it is constant
    return 0 if found is None else int(found[0])


def first(database: PostgresDatabase, meant: Meant, limit: int) -> tuple[SagaId, ...]:
    found, _ = _next(database, meant, 0, limit)
    return tuple(whole_families(((SagaId(name), family) for _, name, family in found), limit))


def _next(database: PostgresDatabase, meant: Meant, after: int, limit: int) -> tuple[list[tuple[int, str, str]], int]:
    """The oldest that may go, so many of them and all of their families: row, name and family of each. And the row of
    the last among those oldest.
    """
    values = {**_bindings(meant), "after": after}
    oldest = database.rows(_OLDEST, {**values, "limit": limit})
    families = sorted({str(family) for _, family in oldest})
    found = database.rows(_MEMBERS, {**values, "families": families}) if oldest else []
    return [(int(row), str(name), str(family)) for row, name, family in found], int(oldest[-1][0]) if oldest else after


def vouch(batch: PostgresBatch, remover: RemovedBy) -> Removal:
    """Record all that are gone already at once."""
    batch.flush()
    marked = [int(row) for (row,) in batch.database.rows("SELECT id FROM saga WHERE removed ORDER BY id")]
    gone = [(saga, found) for saga in marked if (found := _gone(batch.database, saga))]
    batch.is_end = batch.is_end or bool(gone)
    for saga, entries in gone:
        _put_on_record(batch, saga, remover.fact(entries, was_gone=True), remover.at)
    return Removal(len(gone), sum(entries for _, entries in gone))


def _gone(database: PostgresDatabase, saga: int) -> int:
    """How many entries of a saga are empty, where they all are and nobody has said why; else 0."""
    rows = database.rows("SELECT body FROM entry WHERE saga = %s ORDER BY number", (saga,))
    return len(rows) if all(removed_digest(body) is not None for (body,) in rows) else 0


def _remove(batch: PostgresBatch, saga: int, remover: RemovedBy) -> int:
    database = batch.database
    keys.forget(database, saga)
    removed = database.changed(_BODIES, (saga,))
    database.run(_LAST_USES, (saga, saga))
    database.run("DELETE FROM blob_use WHERE saga = %s", (saga,))
    database.run("UPDATE incident SET why = '' WHERE saga = %s", (saga,))
    database.run(
        "DELETE FROM saga_label WHERE saga = %s AND started_at = (SELECT started_at FROM saga WHERE id = %s)",
        (saga, saga),
    )
    database.run("UPDATE saga SET removed = true, labels = '{}', parent = NULL, root = NULL WHERE id = %s", (saga,))
    ((entries,),) = database.rows("SELECT head FROM saga WHERE id = %s", (saga,))
    _put_on_record(batch, saga, remover.fact(entries), remover.at)
    return removed


def _put_on_record(batch: PostgresBatch, saga: int, removed: ContentRemoved, at: int) -> None:
    """One more entry at the saga's end. It makes the saga neither younger nor anybody's to drive."""
    found = batch.database.first("SELECT name, head, hash FROM saga WHERE id = %s FOR UPDATE", (saga,))
    name, head, previous = cast(tuple[str, int, bytes], found)
    wire = encode(removed)
    hashed = chain(bytes(previous), name, head + 1, at, wire.name, wire.body)
    batch.entries.append((saga, head + 1, at, wire.name, wire.body, hashed))
    batch.database.run("UPDATE saga SET head = %s, hash = %s WHERE id = %s", (head + 1, hashed, saga))


def _bindings(meant: Meant) -> dict[str, str | int | list[str] | None]:
    return {
        "ended_before": meant.ended_before,
        "only": None if meant.sagas is None else sorted(meant.sagas),
        "sagas": sorted(meant.spared.sagas),
        "labels": sorted(meant.spared.labels),
    }


_BODIES: Final = """
    UPDATE entry SET body = 'sha256:' || encode(sha256(convert_to(body, 'UTF8')), 'hex')
     WHERE saga = %s AND starts_with(body, '{') AND split_part(name, '/', 1) <> 'content.removed'
"""
_FAMILY: Final = "coalesce({0}.root, {0}.parent, {0}.name)"
"""The saga at the top of those that called each other: its own name, for one that nobody called."""
_MAY_NOT_GO: Final = """
    ({0}.ended_at IS NULL OR {0}.ended_at >= %(ended_before)s OR {0}.open_incidents > 0 OR {0}.open_approvals > 0
     OR {0}.name = ANY(%(sagas)s::text[]))
"""
_SPARED: Final = """
    EXISTS (SELECT 1 FROM saga_label AS label WHERE label.saga = {0}.id AND label.started_at = {0}.started_at
               AND (label.name = ANY(%(labels)s::text[]) OR label.name || '=' || label.value = ANY(%(labels)s::text[])))
"""
_ENDED: Final = f"""
    SELECT id FROM saga
     WHERE id > %(after)s AND ended_at < %(ended_before)s AND NOT removed AND open_incidents = 0 AND open_approvals = 0
       AND definition NOT IN ('amends.policy', 'amends.control', 'amends.people')
       AND NOT (definition = 'amends.drill' AND status = 'completed')
       AND name <> ALL(%(sagas)s::text[])
       AND (%(only)s::text[] IS NULL OR name = ANY(%(only)s::text[]))
       AND NOT {_SPARED.format("saga")}
       AND NOT EXISTS (
            WITH RECURSIVE above (name, parent) AS (
                SELECT one.name, one.parent FROM saga AS one WHERE one.name IN (saga.parent, saga.root)
                 UNION
                SELECT one.name, one.parent FROM above JOIN saga AS one ON one.name = above.parent)
            SELECT 1 FROM above JOIN saga AS kin ON kin.name = above.name
             WHERE NOT kin.removed AND ({_MAY_NOT_GO.format("kin")} OR {_SPARED.format("kin")}))
       AND NOT EXISTS (
            SELECT 1 FROM saga AS child
             WHERE child.parent IS NOT NULL AND NOT child.removed
               AND {_FAMILY.format("child")} = {_FAMILY.format("saga")}
               AND ({_MAY_NOT_GO.format("child")} OR {_SPARED.format("child")}))
"""  # noqa: S608 - all of it is constant
_OLDEST: Final = f"""
    SELECT id, {_FAMILY.format("saga")} FROM saga WHERE id IN ({_ENDED}) ORDER BY id LIMIT %(limit)s
"""  # noqa: S608 - all of it is constant
_MEMBERS: Final = f"""
    SELECT id, name, {_FAMILY.format("saga")} AS family FROM saga
     WHERE id IN ({_ENDED}) AND {_FAMILY.format("saga")} = ANY(%(families)s::text[]) ORDER BY id
"""  # noqa: S608 - all of it is constant
_LAST_USES: Final = """
    DELETE FROM blob WHERE digest IN (
        SELECT digest FROM blob_use AS mine WHERE saga = %s
           AND NOT EXISTS (SELECT 1 FROM blob_use AS other WHERE other.digest = mine.digest AND other.saga <> %s))
"""
