"""Removing what ended sagas held, a few sagas for each transaction, so that nobody who writes has to wait for long.

After each transaction it rests for as long as that took. Another program that waits for the file meanwhile sleeps
between two looks, and not for longer than it has waited already: so one of its looks falls into the rest, and it waits
for two transactions at most.

Removed for good: SQLite overwrites what it frees (`secure_delete`), and the log is cut at the end, once all of it is in
its place: to cut it after each transaction would keep the others out while it waits for whoever reads.
The policies, pauses and holds, which hold for as long as the journal is used, are not removed, and neither are drills:
the gate asks when each action passed one. A drill that was withdrawn counts for nothing, and goes like any other saga.
What lists show of such a saga stays, but for what came from its content: labels, and why an incident was opened.

Each saga gets an entry in the same transaction that says who removed what it held and why; the transaction is signed.
A family, a saga and all that it called, goes together, and not before all of it may go.

The file gets smaller: of what an entry held, 32 bytes are left beside its hash. Then each part of the file that lost
something is taken out and put back in its order, because only that fills the pages of a table again; those that are
left over are cut off the end, some for each transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, Final, NamedTuple, cast

from amends.clock import SystemClock
from amends.core.events import ContentRemoved
from amends.core.words.values import SagaId, canonical
from amends.journal.codec import chain, encode, removed_digest, without_payload
from amends.journal.port.evidence import Removal, Spared, whole_families
from amends.journal.sqlite import keys
from amends.journal.sqlite.database import Database
from amends.journal.sqlite.writer import Batch

SAGAS: Final = 50
PAGES: Final = 500
"""How many sagas are seen to, and how many free pages given back, in one transaction."""
BLOCK: Final = 1_000
"""So many positions are packed anew in one transaction."""
MOST: Final = 1_000
"""A family goes in one transaction, unless it is larger than this: then others may write in between."""


class WantedSagas(NamedTuple):
    ended_before: int
    spared: Spared
    sagas: Collection[str] | None = None
    """Those that are meant; None: all."""


class Signed(NamedTuple):
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


class RemovedRows(NamedTuple):
    """Counts of what was removed, and up to which row of a saga; None where there are no more."""

    sagas: int
    entries: int
    reached: int | None = None
    blocks: frozenset[int] = frozenset()
    """Parts of the file, of so many positions each, that something was taken out of."""


Ask = Callable[[Callable[[Batch], Any]], Awaitable[Any]]


async def remove_all(ask: Ask, wanted: WantedSagas, signed: Signed, limit: int | None) -> Removal:
    """A transaction after the other, until nothing is left or the limit is reached; then the file is cut."""
    sagas, entries, reached = 0, 0, 0
    blocks = set[int]()
    asked = _resting(ask)
    try:
        while limit is None or sagas < limit:
            most = SAGAS if limit is None else min(SAGAS, limit - sagas)
            bound = limit is not None and sagas > 0
            removed: RemovedRows = await asked(
                partial(remove, wanted=wanted, signed=signed, after=reached, most=most, is_bound=bound)
            )
            sagas, entries = sagas + removed.sagas, entries + removed.entries
            blocks |= removed.blocks
            if removed.reached is None:
                break
            reached = removed.reached
        for block in sorted(blocks):
            await asked(partial(repack, block=block))
        while sagas and await asked(give_back):
            pass
    finally:
        if sagas:
            await ask(_cut_log)
    return Removal(sagas, entries)


def _resting(ask: Ask) -> Ask:
    """Ask, then let others write for as long as that took, and a little longer."""

    async def asked(work: Callable[[Batch], Any]) -> Any:  # noqa: ANN401 - as `ask` does
        clock, since = SystemClock(), 0.0  # those who wait go by no other

        def begun(batch: Batch) -> Any:  # noqa: ANN401 - see above
            nonlocal since
            since = clock.elapsed()  # it has the file from here on, however long it waited for that itself
            return work(batch)

        answer = await ask(begun)
        await clock.sleep((clock.elapsed() - since) * _REST + _REST_S)
        return answer

    return asked


def _cut_log(batch: Batch) -> None:
    batch.cuts_log = True


def remove(
    batch: Batch, wanted: WantedSagas, signed: Signed, after: int, most: int = SAGAS, *, is_bound: bool = False
) -> RemovedRows:
    """The next few sagas past a row, families whole; `is_bound`: not even the first may be larger than that."""
    database = batch.database
    batch.flush()  # what came in the same transaction has to be in its place
    found, last = _next(database, wanted, after, most)
    sagas = whole_families(((row, family) for row, _, family in found), most, at_least_one=not is_bound)[:MOST]
    blocks = set[int]()
    entries = sum(_remove(batch, saga, signed, blocks) for saga in sagas)
    batch.is_end = batch.is_end or bool(sagas)
    is_more = bool(sagas) and len(found) >= most
    reached = last if len(sagas) == len(found) else after
    return RemovedRows(len(sagas), entries, reached if is_more else None, frozenset(blocks))


def count(database: Database, wanted: WantedSagas) -> int:
    found = database.first(f"SELECT count(*) FROM ({_ENDED})", {**_bindings(wanted), "after": 0})  # noqa: S608 - all of it is constant
    return 0 if found is None else int(found[0])


def first(database: Database, wanted: WantedSagas, limit: int) -> tuple[SagaId, ...]:
    found, _ = _next(database, wanted, 0, limit)
    return tuple(whole_families(((SagaId(name), family) for _, name, family in found), limit))


def _next(database: Database, wanted: WantedSagas, after: int, limit: int) -> tuple[list[tuple[int, str, str]], int]:
    """The oldest that may go, so many of them and all of their families: row, name and family of each. And the row of
    the last among those oldest.
    """
    values = {**_bindings(wanted), "after": after}
    oldest = database.rows(_OLDEST, {**values, "limit": limit})
    families = canonical(sorted({str(family) for _, family in oldest}))
    found = database.rows(_MEMBERS, {**values, "families": families}) if oldest else []
    return [(int(row), str(name), str(family)) for row, name, family in found], int(oldest[-1][0]) if oldest else after


def repack(batch: Batch, block: int) -> None:
    """Take a part of the file out and put it back as it is: rows that follow each other fill their pages."""
    database, bounds = batch.database, (block * BLOCK, (block + 1) * BLOCK)
    batch.flush()
    rows = database.rows(
        "SELECT seq, saga, number, at, name, body, hash FROM entry WHERE seq >= ? AND seq < ? ORDER BY seq", bounds
    )
    database.run("DELETE FROM entry WHERE seq >= ? AND seq < ?", bounds)
    database.run_many(_INSERT, rows)


def give_back(batch: Batch) -> bool:
    """Cut free pages off the end of the file; whether there may be more. A file made before this was thought of has
    none to give: what is freed in it is used again.
    """
    database = batch.database
    batch.flush()
    free = database.first("PRAGMA freelist_count")
    if free is None or not free[0] or database.pragma("auto_vacuum") != _INCREMENTAL:
        return False
    database.rows(f"PRAGMA incremental_vacuum({PAGES})")
    return int(free[0]) > PAGES


def vouch(batch: Batch, signed: Signed) -> RemovedRows:
    """Record all that are gone already at once: nothing is moved, and it is asked for once in a journal's life."""
    batch.flush()
    marked = [int(row) for (row,) in batch.database.rows("SELECT id FROM saga WHERE removed = 1 ORDER BY id")]
    gone = [(saga, found) for saga in marked if (found := _gone(batch.database, saga))]
    for saga, entries in gone:
        _put_on_record(batch, saga, signed.fact(entries, was_gone=True), signed.at)
    batch.is_end = batch.is_end or bool(gone)
    return RemovedRows(len(gone), sum(entries for _, entries in gone))


def _gone(database: Database, saga: int) -> int:
    """How many entries of a saga are empty, where they all are and nobody has said why; else 0."""
    rows = database.rows("SELECT name, body FROM recorded WHERE saga = ? ORDER BY number", (saga,))
    is_empty = [removed_digest(body) is not None for _, body in rows]
    return len(rows) if all(is_empty) else 0


def _remove(batch: Batch, saga: int, signed: Signed, blocks: set[int]) -> int:
    database = batch.database
    rows = database.rows("SELECT seq, saga, number, at, name, body, hash FROM recorded WHERE saga = ?", (saga,))
    kept = [
        (seq, row, number, at, name, *_packed(without_payload(name, body), hashed))
        for seq, row, number, at, name, body, hashed in rows
    ]
    blocks.update(seq // BLOCK for seq, *_ in rows)
    keys.forget(database, saga)
    database.run("DELETE FROM entry WHERE saga = ?", (saga,))
    database.run_many(_INSERT, kept)
    database.run(_LAST_USES, (saga,))
    database.run("DELETE FROM blob_use WHERE saga = ?", (saga,))
    database.run("UPDATE incident SET why = '' WHERE saga = ?", (saga,))
    database.run(_LABELS, (saga,))
    database.run("UPDATE saga SET removed = 1, labels = '{}' WHERE id = ?", (saga,))
    _put_on_record(batch, saga, signed.fact(len(rows)), signed.at)
    return sum(bool(old[5] != new[5] and removed_digest(old[5]) is None) for old, new in zip(rows, kept, strict=True))


def _packed(body: str, hashed: bytes) -> tuple[str, bytes]:
    """Body and hash as they lie in the file: of a body that was removed, its digest after the hash."""
    gone = removed_digest(body)
    return (body, hashed) if gone is None else ("", hashed + gone)


def _put_on_record(batch: Batch, saga: int, removed: ContentRemoved, at: int) -> None:
    """One more entry at the saga's end. It makes the saga neither younger nor anybody's to drive."""
    found = batch.database.first("SELECT name, head, hash FROM saga WHERE id = ?", (saga,))
    name, head, previous = cast(tuple[str, int, bytes], found)
    wire = encode(removed)
    hashed = chain(previous, name, head + 1, at, wire.name, wire.body)
    batch.entries.append((saga, head + 1, at, wire.name, wire.body, hashed))
    batch.database.run("UPDATE saga SET head = ?, hash = ? WHERE id = ?", (head + 1, hashed, saga))


def _bindings(wanted: WantedSagas) -> dict[str, str | int | None]:
    return {
        "ended_before": wanted.ended_before,
        "only": None if wanted.sagas is None else canonical(sorted(wanted.sagas)),
        "sagas": canonical(sorted(wanted.spared.sagas)),
        "labels": canonical(sorted(wanted.spared.labels)),
    }


_INSERT: Final = "INSERT INTO entry (seq, saga, number, at, name, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"
_REST: Final = 1.25
_REST_S: Final = 0.002
_INCREMENTAL: Final = 2
_FAMILY: Final = """
    coalesce(json_extract({0}.labels, '$."amends.root"'), json_extract({0}.labels, '$."amends.parent"'), {0}.name)
"""
"""The saga at the top of those that called each other: its own name, for one that nobody called."""
_MAY_NOT_GO: Final = """
    ({0}.ended_at IS NULL OR {0}.ended_at >= :ended_before OR {0}.open_incidents > 0 OR {0}.open_approvals > 0
     OR {0}.name IN (SELECT value FROM json_each(:sagas)))
"""
_SPARED: Final = """
    EXISTS (SELECT 1 FROM json_each({0}.labels) AS label JOIN json_each(:labels) AS spared
             WHERE spared.value IN (label.key, label.key || '=' || label.value))
"""
_ENDED: Final = f"""
    SELECT id FROM saga
     WHERE id > :after AND +ended_at < :ended_before AND removed = 0 AND open_incidents = 0 AND open_approvals = 0
       AND definition NOT IN ('amends.policy', 'amends.control', 'amends.people')
       AND NOT (definition = 'amends.drill' AND status = 'completed')
       AND name NOT IN (SELECT value FROM json_each(:sagas))
       AND (:only IS NULL OR name IN (SELECT value FROM json_each(:only)))
       AND NOT {_SPARED.format("saga")}
       AND NOT EXISTS (
            WITH RECURSIVE above (name, parent) AS (
                SELECT one.name, json_extract(one.labels, '$."amends.parent"') FROM saga AS one
                 WHERE one.name IN (json_extract(saga.labels, '$."amends.parent"'),
                                    json_extract(saga.labels, '$."amends.root"'))
                 UNION
                SELECT one.name, json_extract(one.labels, '$."amends.parent"')
                  FROM above JOIN saga AS one ON one.name = above.parent)
            SELECT 1 FROM above JOIN saga AS kin ON kin.name = above.name
             WHERE kin.removed = 0 AND ({_MAY_NOT_GO.format("kin")} OR {_SPARED.format("kin")}))
       AND {_FAMILY.format("saga")} NOT IN (
            SELECT {_FAMILY.format("child")} FROM saga AS child
             WHERE json_extract(child.labels, '$."amends.parent"') IS NOT NULL AND child.removed = 0
               AND ({_MAY_NOT_GO.format("child")} OR {_SPARED.format("child")}))
"""  # noqa: S608 - all of it is constant
_OLDEST: Final = f"SELECT id, {_FAMILY.format('saga')} FROM saga WHERE id IN ({_ENDED}) ORDER BY id LIMIT :limit"  # noqa: S608 - all of it is constant
_MEMBERS: Final = f"""
    SELECT id, name, {_FAMILY.format("saga")} AS family FROM saga
     WHERE id IN ({_ENDED}) AND family IN (SELECT value FROM json_each(:families)) ORDER BY id
"""  # noqa: S608 - all of it is constant
_LABELS: Final = """
    DELETE FROM saga_label WHERE (name, value, started_at, saga) IN (
        SELECT label.key, label.value, saga.started_at, saga.id
          FROM saga JOIN json_each(saga.labels) AS label WHERE saga.id = ?)
"""
_LAST_USES: Final = """
    DELETE FROM blob WHERE id IN (
        SELECT blob FROM blob_use AS mine WHERE saga = ?1
           AND NOT EXISTS (SELECT 1 FROM blob_use AS other WHERE other.blob = mine.blob AND other.saga <> ?1))
"""
