"""Rates that all programs on the file share: a row for each use that still counts."""

from __future__ import annotations

from amends.journal.rates import wait_ms
from amends.journal.sqlite.writer import Batch


def admit(batch: Batch, key: str, most: int, span: int, now: int) -> int:
    """Milliseconds to wait; 0 where the use is counted. A refusal writes nothing, unless the clock was set back."""
    database = batch.database
    later = "UPDATE admission SET until = until - at + ?1, at = ?1 WHERE key = ?2 AND at > ?1"
    database.run(later, (now, key))
    sql = "SELECT at FROM admission WHERE key = ? AND at > ? ORDER BY at"
    uses = [int(at) for (at,) in database.rows(sql, (key, now - span))]
    wait = wait_ms(uses, most, span, now)
    if not wait:
        database.run("DELETE FROM admission WHERE until <= ?", (now,))
        database.run("INSERT INTO admission (key, at, until) VALUES (?, ?, ?)", (key, now, now + span))
    return wait
