"""Whether what is stored fits together: positions without gaps, entries where their batch says, sagas as long as their
entries. The pages below are PostgreSQL's own affair (data_checksums, pg_amcheck).
"""

from __future__ import annotations

from typing import Final

from psycopg import errors

from amends.errors import JournalDamagedError
from amends.journal.codec import FIRST, chain
from amends.journal.port.evidence import Inspection
from amends.journal.postgres.database import PostgresDatabase

VERIFIED_AT_OPEN: Final = 64
MOST: Final = 20
"""So many troubles are told."""


def check(database: PostgresDatabase, within_s: float | None) -> Inspection:
    troubles: list[str] = []
    try:
        with database.moment():
            if within_s is not None:
                database.run(
                    "SELECT set_config('statement_timeout', %s, true)", (f"{max(1, round(within_s * 1000))}ms",)
                )
            for sql, what in _CHECKS:
                troubles += [f"{what.format(*row)}" for row in database.rows(sql)]
                if len(troubles) >= MOST:
                    break
    except errors.QueryCanceled:
        return Inspection(tuple(troubles[:MOST]), is_whole=False)
    return Inspection(tuple(troubles[:MOST]))


def verify_newest(database: PostgresDatabase) -> None:
    """Check what was numbered last, at a price that does not grow."""
    rows = database.rows(_NEWEST, (VERIFIED_AT_OPEN,))
    for saga, number, at, name, body, hashed, before in rows:
        if chain(FIRST if before is None else bytes(before), saga, number, at, name, body) != bytes(hashed):
            raise JournalDamagedError(f"saga {saga}, entry {number}: it does not match its hash")


_NEWEST: Final = """
    SELECT saga.name, entry.number, entry.at, entry.name, entry.body, entry.hash,
           (SELECT hash FROM entry AS before WHERE before.saga = entry.saga AND before.number = entry.number - 1)
      FROM entry JOIN saga ON saga.id = entry.saga ORDER BY entry.batch DESC, entry.place DESC LIMIT %s
"""
_CHECKS: Final = (
    (
        """
        SELECT size, (SELECT coalesce(sum(count), 0) FROM batch WHERE first IS NOT NULL) FROM tree
         WHERE size <> (SELECT coalesce(sum(count), 0) FROM batch WHERE first IS NOT NULL)
        """,
        "the tree counts {0} entries, and the log {1}",
    ),
    (
        """
        SELECT first, expected FROM (SELECT first, coalesce(lag(first + count) OVER (ORDER BY first), 1) AS expected
                                       FROM batch WHERE first IS NOT NULL) AS one
         WHERE first <> expected ORDER BY first LIMIT 20
        """,
        "a batch begins at position {0}, and should at {1}",
    ),
    (
        """
        SELECT batch.id, batch.count, coalesce(there.count, 0)
          FROM batch LEFT JOIN (SELECT batch, count(*) AS count FROM entry GROUP BY batch) AS there
                          ON there.batch = batch.id
         WHERE batch.count <> coalesce(there.count, 0) ORDER BY batch.id LIMIT 20
        """,
        "batch {0} has {1} entries, and {2} are there",
    ),
    (
        """
        SELECT saga.name, saga.head, coalesce(there.count, 0)
          FROM saga LEFT JOIN (SELECT saga, count(*) AS count, max(number) AS last FROM entry GROUP BY saga) AS there
                           ON there.saga = saga.id
         WHERE saga.head <> coalesce(there.count, 0) OR saga.head <> coalesce(there.last, 0) ORDER BY saga.id LIMIT 20
        """,
        "saga {0} has {1} entries by its row, and {2} are there",
    ),
)
