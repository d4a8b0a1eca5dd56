"""Removing what ended sagas held, a few sagas for each transaction, so that nobody who writes has to wait for long.

Removed for good: SQLite overwrites what it frees (`secure_delete`), and the log is cut once all of it is in its place.
The policies, which a gate goes by for as long as the journal is used, are not removed.
What lists show of such a saga stays, but for what came from its content: labels, and why an incident was opened.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from amends.journal.codec import without_payload
from amends.journal.sqlite.database import Database
from amends.journal.sqlite.writer import Batch

SAGAS: Final = 100


class Removed(NamedTuple):
    """How many entries, and up to which row of a saga; None where there are no more."""

    entries: int
    reached: int | None


def remove(batch: Batch, ended_before: int, after: int) -> Removed:
    """The next few sagas past a row."""
    database = batch.database
    batch.flush()  # what came in the same transaction has to be in its place
    sagas = [int(row) for (row,) in database.rows(_ENDED, (after, ended_before, SAGAS))]
    entries = sum(_remove(database, saga) for saga in sagas)
    batch.cuts_log = bool(sagas)
    return Removed(entries, sagas[-1] if len(sagas) == SAGAS else None)


def _remove(database: Database, saga: int) -> int:
    bodies = database.rows("SELECT seq, body FROM entry WHERE saga = ?", (saga,))
    kept = [(without_payload(body), seq) for seq, body in bodies if without_payload(body) != body]
    database.run_many("UPDATE entry SET body = ? WHERE seq = ?", kept)
    database.run(_LAST_USES, (saga,))
    database.run("DELETE FROM blob_use WHERE saga = ?", (saga,))
    database.run("UPDATE incident SET why = '' WHERE saga = ?", (saga,))
    database.run("UPDATE saga SET removed = 1, labels = '{}' WHERE id = ?", (saga,))
    return len(kept)


_ENDED: Final = """
    SELECT id FROM saga
     WHERE id > ? AND ended_at < ? AND removed = 0 AND open_incidents = 0 AND open_approvals = 0
       AND definition <> 'amends.policy'
     ORDER BY id LIMIT ?
"""
_LAST_USES: Final = """
    DELETE FROM blob WHERE digest IN (
        SELECT digest FROM blob_use AS mine WHERE saga = ?1
           AND NOT EXISTS (SELECT 1 FROM blob_use AS other WHERE other.digest = mine.digest AND other.saga <> ?1))
"""
