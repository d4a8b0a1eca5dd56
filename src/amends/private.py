"""Files of amends itself on this machine: journals, their logs, their keys, the state of changesets.

Whoever opens one claims it here, for the life of the process. What works on trees of files asks: a journal may well lie
in the tree that agents work on, and is not part of the work. They neither see it nor land over it.

Nothing is opened here: SQLite's locks on a file would be gone as soon as this process closed it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

_LOGS: Final = ("-wal", "-shm", "-journal")
_claimed: Final[set[bytes]] = set()


def claim(*paths: Path) -> None:
    """Say that these files or folders are ours, whether they are there yet or not; where links lead, too."""
    for path in paths:
        whole = path.absolute()
        _claimed.update(map(os.fsencode, (whole.parent.resolve() / whole.name, whole.resolve())))


def claim_journal(path: Path) -> None:
    """A journal in a file, with what SQLite and the key have beside it."""
    for each in (path.absolute(), path.resolve()):
        claim(each, *(each.with_name(each.name + end) for end in _LOGS))
        claim_key(each.with_name(f"{each.name}.key"))


def claim_key(path: Path) -> None:
    """A private key, and the one that may follow it."""
    claim(path, path.with_name(f"{path.name}.next"))


def claimed() -> frozenset[bytes]:
    """Absolute paths, without links above them."""
    return frozenset(_claimed)


def count() -> int:
    """How many there are: it only grows."""
    return len(_claimed)


def inodes() -> frozenset[tuple[int, int]]:
    """Device and inode of those that are there, whatever else they are called."""
    found: set[tuple[int, int]] = set()
    for path in _claimed:
        with contextlib.suppress(OSError):
            about = os.lstat(path)
            found.add((about.st_dev, about.st_ino))
    return frozenset(found)
