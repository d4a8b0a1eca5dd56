"""How late it is on a journal: no earlier than its newest entry, and than what this machine's clocks said before.

A process notes the time by both of the machine's clocks with the first thing that it writes. Whoever opens the journal
later, on the same boot, knows from that how much time has passed since, whatever the wall clock was set to meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from amends.journal.clocks import CLOCKS, noted, passed_ms
from amends.journal.sqlite import log
from amends.journal.sqlite.writer import Batch


def newest(batch: Batch, elapsed: Callable[[], float]) -> int:
    """The latest moment, in milliseconds of UTC, that is known to be past."""
    found = batch.database.first("SELECT at FROM entry ORDER BY seq DESC LIMIT 1")
    entry = 0 if found is None else int(found[0])
    kept = log.cursor(batch.database, CLOCKS)
    return max(entry, kept.position + max(0, passed_ms(kept, elapsed()) or 0))


def keep(batch: Batch, at: int, elapsed: float) -> None:
    """Note the time by both clocks."""
    log.move_cursor(batch, noted(at, elapsed), None)
