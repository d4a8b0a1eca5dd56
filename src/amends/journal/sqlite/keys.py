"""Keys of calls, noted from the log for who looks for a saga by one."""

from __future__ import annotations

from typing import Final

from amends.core.words.values import canonical
from amends.journal.port.keys import CHUNK, KEYED
from amends.journal.sqlite.database import Database
from amends.journal.sqlite.writer import Batch

# A body that was removed is empty.
_FOUND: Final = """
    SELECT iif(body = '', NULL, json_extract(body, '$.key')) AS key, saga FROM entry
     WHERE {} AND name IN (SELECT value FROM json_each(?))
"""
_NOTE: Final = f"""
    INSERT OR IGNORE INTO saga_key (key, started_at, saga)
    SELECT found.key, saga.started_at, saga.id
      FROM ({_FOUND.format("seq > ? AND seq <= ?")}) AS found CROSS JOIN saga ON saga.id = found.saga
     WHERE found.key IS NOT NULL ORDER BY found.key
"""  # noqa: S608 - all of it is constant
_FORGET: Final = f"""
    DELETE FROM saga_key WHERE (key, started_at, saga) IN (
        SELECT found.key, saga.started_at, saga.id
          FROM ({_FOUND.format("saga = ?")}) AS found CROSS JOIN saga ON saga.id = found.saga)
"""  # noqa: S608 - all of it is constant
_KEYED: Final = canonical(sorted(KEYED))


def are_noted(database: Database) -> bool:
    sql = "SELECT (SELECT seq FROM keys_noted) >= (SELECT ifnull(max(seq), 0) FROM entry)"
    return bool(database.rows(sql, ())[0][0])


def note(batch: Batch) -> bool:
    """Go through the next entries; whether these were the last."""
    database = batch.database
    batch.flush()
    ((noted, newest),) = database.rows("SELECT seq, (SELECT ifnull(max(seq), 0) FROM entry) FROM keys_noted", ())
    until = min(newest, noted + CHUNK)
    database.run(_NOTE, (noted, until, _KEYED))
    database.run("UPDATE keys_noted SET seq = ? WHERE id = 1", (until,))
    return bool(until == newest)


def forget(database: Database, saga: int) -> None:
    """Of a saga whose entries are about to be emptied."""
    database.run(_FORGET, (saga, _KEYED))
