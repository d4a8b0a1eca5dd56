"""Files of amends itself on this machine: journals, their logs, their keys, the state of changesets.

Whoever opens one claims it here, for the life of the process. What works on trees of files asks: a journal may well lie
in the tree that agents work on, and is not part of the work. They neither see it nor land over it.

Nothing is opened here: SQLite's locks on a file would be gone as soon as this process closed it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

_LOGS: Final = ("-wal", "-shm", "-journal")


class _Claims:
    """Paths that this process has claimed, and how often it did."""

    def __init__(self) -> None:
        self.paths: set[bytes] = set()
        self.count = 0


_claims: Final = _Claims()


def claim(*paths: Path) -> None:
    """Say that these files or folders are ours, whether they are there yet or not; where links lead, too."""
    for path in paths:
        whole = path.absolute()
        _claims.paths.update(map(os.fsencode, (whole.parent.resolve() / whole.name, whole.resolve())))
    _claims.count += 1


def claim_journal(path: Path) -> None:
    """A journal in a file, with what SQLite and the key have beside it."""
    for each in (path.absolute(), path.resolve()):
        claim(each, *(each.with_name(each.name + end) for end in _LOGS))
        claim_key(each.with_name(f"{each.name}.key"))


def claim_key(path: Path) -> None:
    """A private key, and the one that may follow it."""
    claim(path, path.with_name(f"{path.name}.next"))


def claimed() -> frozenset[bytes]:
    """Absolute paths, without links above them; those whose folder is gone are let go."""
    paths = tuple(_claims.paths)
    folders = {path.rpartition(b"/")[0] for path in paths}
    gone = {folder for folder in folders if _is_gone(folder)}
    if gone:
        _claims.paths.difference_update([path for path in paths if path.rpartition(b"/")[0] in gone])
    return frozenset(_claims.paths)


def _is_gone(folder: bytes) -> bool:
    """Whether it certainly is: one that cannot be looked at may be there."""
    try:
        return not stat.S_ISDIR(Path(os.fsdecode(folder)).stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def count() -> int:
    """How often something was claimed."""
    return _claims.count


def inodes() -> frozenset[tuple[int, int]]:
    """Device and inode of those that are there, whatever else they are called."""
    found: set[tuple[int, int]] = set()
    for path in claimed():
        with contextlib.suppress(OSError):
            about = os.lstat(path)
            found.add((about.st_dev, about.st_ino))
    return frozenset(found)
