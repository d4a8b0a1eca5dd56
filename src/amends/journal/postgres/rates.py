"""Rates that all workers share: a row for each use that still counts; who asks has the rate alone meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amends.core.words.verdict import Rate
from amends.journal.port.rates import span_of, wait_ms
from amends.journal.postgres.database import PostgresDatabase, plain
from amends.journal.postgres.writer import PostgresBatch


def admit(batch: PostgresBatch, rates: Sequence[Rate], now: int) -> tuple[int, ...]:
    """Milliseconds to wait for each; where all are 0, the use is counted in all of them.

    A refusal writes nothing, unless the clock was set back.
    """
    database = batch.database
    for key in sorted({rate.key for rate in rates}):  # always in this order, so that no two wait for each other
        database.run("SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))", (plain(key), _RATES))
    waits = tuple([_wait(database, rate, now) for rate in rates])
    if not any(waits):
        database.run("DELETE FROM admission WHERE until <= %s", (now,))
        for rate in rates:
            use = (plain(rate.key), now, now + span_of(rate))
            database.run("INSERT INTO admission (key, at, until) VALUES (%s, %s, %s)", use)
    return waits


def _wait(database: PostgresDatabase, rate: Rate, now: int) -> int:
    later = "UPDATE admission SET until = until - at + %s, at = %s WHERE key = %s AND at > %s"
    database.run(later, (now, now, plain(rate.key), now))
    span = span_of(rate)
    sql = "SELECT at FROM admission WHERE key = %s AND at > %s ORDER BY at"
    uses = [int(at) for (at,) in database.rows(sql, (plain(rate.key), now - span))]
    return wait_ms(uses, rate.most, span, now)


_RATES: Final = 0x616D6E72
