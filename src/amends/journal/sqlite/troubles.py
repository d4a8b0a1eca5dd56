"""What SQLite reports, in the journal's words: whose turn it is to act, on which file, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from amends.errors import (
    JournalAccessError,
    JournalBusyError,
    JournalDamagedError,
    JournalError,
    JournalFullError,
    JournalStoppedError,
)

_TROUBLES: Final[tuple[tuple[tuple[type[apsw.Error], ...], type[JournalError], str], ...]] = (
    ((apsw.FullError,), JournalFullError, "there is no room on the disk; nothing was written; make room and try again"),
    ((apsw.BusyError, apsw.LockedError), JournalBusyError, "another program holds it; nothing was written; try again"),
    (
        (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.ConstraintError),
        JournalDamagedError,
        "the file is damaged; keep a copy of it and restore a backup",
    ),
    (
        (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError, apsw.IOError),
        JournalAccessError,
        "the file cannot be read or written; check its directory, its owner and its disk",
    ),
)


def said(path: Path, trouble: apsw.Error) -> JournalError:
    """Our error for one of SQLite's."""
    for kinds, ours, advice in _TROUBLES:
        if isinstance(trouble, kinds):
            return ours(f"{path}: {advice} ({trouble})")
    return JournalError(f"{path}: {trouble}")


def stopped(path: Path, trouble: apsw.Error) -> JournalStoppedError:
    """After a write that may or may not have reached the disk, only a fresh start knows which."""
    return JournalStoppedError(
        f"{path}: the writer stopped for good after an I/O error ({trouble}); what was not acknowledged may or may not "
        "be on disk; check the disk, then restart the process"
    )
