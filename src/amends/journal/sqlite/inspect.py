"""SQLite's own check of the file: every page, every row, and that every index has exactly the rows of its table.

`quick_check` leaves the indexes out, and an index that lacks a row hides a saga from everybody who asks for it by name.
So it is the whole `integrity_check`. It reads all of the file in one transaction: others go on writing meanwhile, and
only the log is not cut until it has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import apsw

from amends.journal.protocol import Inspection
from amends.journal.sqlite.database import Database

MOST: Final = 20
"""So many troubles are told."""
STEPS: Final = 10_000
"""So many steps of SQLite's machine lie between two looks at the time: a millisecond or so."""


def check(database: Database, elapsed: Callable[[], float], within_s: float | None) -> Inspection:
    ends = None if within_s is None else elapsed() + within_s
    stop = None if ends is None else lambda: elapsed() > ends
    try:
        with database.stopped_by(stop, STEPS):
            found = [str(row[0]) for row in database.rows(f"PRAGMA integrity_check({MOST})")]
    except apsw.InterruptError:
        return Inspection((), is_whole=False)
    return Inspection(() if found == ["ok"] else tuple(found))
