"""What an operating system's error means for file work, in our words."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator

from amends.errors import ChangesetError, ChangesetFullError, RootError


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
def told(what: str) -> Generator[None]:
    """Raise ours in place of the system's."""
    try:
        yield
    except OSError as exc:
        raise said(exc, what) from exc
