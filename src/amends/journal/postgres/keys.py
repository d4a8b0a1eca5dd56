"""Keys of calls, noted from the log for who looks for a saga by one."""

from __future__ import annotations

from typing import Final

from amends.journal.port.keys import CHUNK, KEYED
from amends.journal.postgres.database import PostgresDatabase
from amends.journal.postgres.log import PAST_IN_ORDER
from amends.journal.postgres.writer import PostgresBatch

# A body that was removed is no JSON; in a CASE it is not read as such, in whatever order conditions are looked at.
_KEY: Final = "CASE WHEN starts_with({0}.body, '{{') THEN {0}.body::json ->> 'key' END"
_NOTE: Final = f"""
    WITH found AS MATERIALIZED (
        SELECT batch.first + entry.place AS position, entry.saga, entry.name, entry.body {PAST_IN_ORDER}
    ), noted AS (
        INSERT INTO saga_key (key, started_at, saga)
        SELECT DISTINCT {_KEY.format("found")}, saga.started_at, saga.id
          FROM found JOIN saga ON saga.id = found.saga
         WHERE found.name = ANY(%(names)s::text[]) AND {_KEY.format("found")} IS NOT NULL
        ON CONFLICT DO NOTHING
    )
    SELECT coalesce(max(position), %(after)s), count(*) FROM found
"""  # noqa: S608 - all of it is constant
_FORGET: Final = f"""
    DELETE FROM saga_key AS old USING saga, entry
     WHERE saga.id = %s AND entry.saga = saga.id AND entry.name = ANY(%s::text[])
       AND old.saga = saga.id AND old.started_at = saga.started_at AND old.key = {_KEY.format("entry")}
"""  # noqa: S608 - all of it is constant
_NAMES: Final = list(KEYED)


def note(batch: PostgresBatch) -> bool:
    """Go through the next entries that have a position; whether these were the last."""
    database = batch.database
    ((after,),) = database.rows("SELECT position FROM keys_noted WHERE id = 1 FOR UPDATE", ())
    ((position, count),) = database.rows(_NOTE, {"after": after, "limit": CHUNK, "names": _NAMES})
    if count:
        database.run("UPDATE keys_noted SET position = %s WHERE id = 1", (position,))
    return int(count) < CHUNK


def forget(database: PostgresDatabase, saga: int) -> None:
    """Of a saga whose entries are about to be emptied."""
    database.run(_FORGET, (saga, _NAMES))
