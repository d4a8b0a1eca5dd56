"""Rates that all programs on the file share: a row for each use that still counts."""

from __future__ import annotations

from collections.abc import Sequence

from amends.core.words.verdict import Rate
from amends.journal.port.rates import span_of, wait_ms
from amends.journal.sqlite.database import Database
from amends.journal.sqlite.writer import Batch


def admit(batch: Batch, rates: Sequence[Rate], now: int) -> tuple[int, ...]:
    """Milliseconds to wait for each; where all are 0, the use is counted in all of them.

    A refusal writes nothing, unless the clock was set back.
    """
    database = batch.database
    waits = tuple([_wait(database, rate, now) for rate in rates])
    if not any(waits):
        database.run("DELETE FROM admission WHERE until <= ?", (now,))
        for rate in rates:
            use = (rate.key, now, now + span_of(rate))
            database.run("INSERT INTO admission (key, at, until) VALUES (?, ?, ?)", use)
    return waits


def _wait(database: Database, rate: Rate, now: int) -> int:
    later = "UPDATE admission SET until = until - at + ?1, at = ?1 WHERE key = ?2 AND at > ?1"
    database.run(later, (now, rate.key))
    span = span_of(rate)
    sql = "SELECT at FROM admission WHERE key = ? AND at > ? ORDER BY at"
    uses = [int(at) for (at,) in database.rows(sql, (rate.key, now - span))]
    return wait_ms(uses, rate.most, span, now)
