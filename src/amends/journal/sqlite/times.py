"""How late it is on a journal: no earlier than its newest entry, and than what this machine's clocks said before.

A process notes the time by both of the machine's clocks with the first thing that it writes. Whoever opens the journal
later, on the same boot, knows from that how much time has passed since, whatever the wall clock was set to meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from amends.journal.leases import PROC, own_identity
from amends.journal.protocol import Cursor
from amends.journal.sqlite import log
from amends.journal.sqlite.writer import Batch

_NAME: Final = "amends.clock"


def newest(batch: Batch, elapsed: Callable[[], float]) -> int:
    """The latest moment, in milliseconds of UTC, that is known to be past."""
    found = batch.database.first("SELECT at FROM entry ORDER BY seq DESC LIMIT 1")
    entry = 0 if found is None else int(found[0])
    noted = log.cursor(batch.database, _NAME)
    where, _, then = noted.note.rpartition(" ")
    passed = elapsed() - float(then) if where and where == _machine() else 0.0
    return max(entry, noted.position + int(max(0.0, passed) * 1000))


def keep(batch: Batch, at: int, elapsed: float) -> None:
    """Note the time by both clocks."""
    log.move_cursor(batch, Cursor(_NAME, at, f"{_machine()} {elapsed!r}"), None)


def _machine(proc: Path = PROC) -> str:
    """Whose clock it is that no one sets; empty where that cannot be told."""
    boot = own_identity(proc).boot
    try:
        return f"{boot}/{(proc / 'self/ns/time').readlink()}" if boot else ""
    except OSError:
        return boot
