"""Errors of the operating system at file work, in our words; and which of ours go away by themselves.

| error                     | tried again           | why                                                              |
|---------------------------|-----------------------|------------------------------------------------------------------|
| ChangesetBusyError        | yes                   | somebody else lets go of it                                      |
| ChangesetFullError        | yes                   | somebody else makes room                                         |
| LandingStuckError         | yes, and it may stand | whoever opens the tree next brings it to one of its ends         |
| ChangesetError, no other  | yes                   | a call of the system failed, and the tree is as it was           |
| RootError                 | never                 | the tree is where somebody put it, or not permitted              |
| ChangesetLifeError        | never                 | what was dropped, landed or pruned stays so                      |
| ChangesetDamagedError     | never                 | what is not there, or is another, stays so                       |
| PathError, LimitError     | never                 | what the step did is not allowed                                 |
| ViewError                 | never                 | this machine has no view of the tree                             |
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator, Mapping
from typing import Final

from amends.errors import (
    ChangesetBusyError,
    ChangesetDamagedError,
    ChangesetError,
    ChangesetFullError,
    ChangesetLifeError,
    LandingStuckError,
    LimitError,
    PathError,
    RootError,
    ViewError,
)

HEALS: Final[Mapping[type[ChangesetError], bool]] = {
    ChangesetError: True,
    ChangesetBusyError: True,
    ChangesetFullError: True,
    LandingStuckError: True,
    RootError: False,
    ChangesetLifeError: False,
    ChangesetDamagedError: False,
    PathError: False,
    LimitError: False,
    ViewError: False,
}


def heals(exc: ChangesetError) -> bool:
    """Whether it may go away by itself, so that trying again is worth it."""
    return next(HEALS[kind] for kind in type(exc).__mro__ if kind in HEALS)


def said(exc: OSError, what: str) -> ChangesetError:
    where = f" ({os.fsdecode(exc.filename)})" if isinstance(exc.filename, str | bytes) else ""
    if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
        return ChangesetFullError(
            f"{what}: no room on the disk{where}; the tree is as it was. Make room, then try again"
        )
    if exc.errno == errno.EROFS:
        return RootError(f"{what}: the file system is read-only{where}; the tree is as it was")
    if exc.errno in {errno.EACCES, errno.EPERM}:
        return RootError(f"{what}: not permitted{where}; the tree is as it was. Check owners, modes and flags")
    return ChangesetError(f"{what}: {exc.strerror}{where}; the tree is as it was")


@contextlib.contextmanager
def raise_ours(what: str) -> Generator[None]:
    """Raise ours in place of the system's."""
    try:
        yield
    except OSError as exc:
        raise said(exc, what) from exc
