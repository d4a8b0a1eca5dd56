"""A file's backup: all of it as it was at one moment, while others write to it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from amends.errors import JournalAccessError
from amends.journal.sqlite import database as troubles
from amends.journal.sqlite.database import Database

_PATIENCE_S: Final = 30.0


def copy_file(source: Path, target: Path) -> None:
    """Copy a journal to a place where there is none, for its owner alone: there whole and on disk, or not at all.

    One read of the source, which holds up no writer. Raises JournalAccessError, JournalFullError.
    """
    begun = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        os.close(os.open(begun, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _copy(source, begun)
        _sync(begun)
        os.link(begun, target)  # as a rename, but for what is there: that stays
        begun.unlink()
        _sync(target.parent)
    except FileExistsError:
        raise JournalAccessError(f"{target} is there already, and a backup takes nothing's place") from None
    except OSError as exc:
        raise JournalAccessError(f"{target} cannot be written: {exc.strerror or exc}") from None
    finally:
        for left in (begun, *(begun.with_name(begun.name + end) for end in ("-wal", "-shm", "-journal"))):
            left.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    try:
        with (
            closing(Database(source, busy_timeout_s=_PATIENCE_S, vfs=None)) as reading,
            closing(Database(target, busy_timeout_s=_PATIENCE_S, vfs=None)) as writing,
        ):
            reading.pragma("query_only", 1)
            reading.copy_into(writing)
            writing.pragma("journal_mode", "DELETE")  # one file; whoever opens it as a journal turns it back
    except apsw.Error as exc:
        raise troubles.said(source, exc) from None


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
