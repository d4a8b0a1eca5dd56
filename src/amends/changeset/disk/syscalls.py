"""System calls that Python has no name for: renames that exchange or do not replace, shared blocks, mount ids."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import sys
from functools import cache
from typing import Any, Final

HERE: Final = -100 if sys.platform == "linux" else -2
"""The folder that a path without one starts from (AT_FDCWD)."""

_NOREPLACE: Final = 1 if sys.platform == "linux" else 4
_EXCHANGE: Final = 2
_FICLONE: Final = 0x40049409


@cache
def _renameat2() -> Any | None:  # noqa: ANN401 - a function of the C library
    libc = ctypes.CDLL(None, use_errno=True)
    call = getattr(libc, "renameat2" if sys.platform == "linux" else "renameatx_np", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return call


def _rename(old_folder: int, old: bytes, new_folder: int, new: bytes, flags: int) -> None:
    call = _renameat2()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if call(old_folder, old, new_folder, new, flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(old), None, os.fsdecode(new))


def exchange(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
    """Let two names change places in one instant. OSError with ENOSYS, EINVAL or ENOTSUP: not on this file system."""
    _rename(old_folder, old, new_folder, new, _EXCHANGE)


def rename_new(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
    """Rename, unless something has the new name: FileExistsError."""
    _rename(old_folder, old, new_folder, new, _NOREPLACE)


def is_unsupported(exc: OSError) -> bool:
    """Whether a call failed because this kernel or file system does not have it."""
    return exc.errno in {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY}


def share_blocks(source: int, target: int) -> bool:
    """Make the target a copy that shares the source's blocks; False where the file system cannot."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def is_open_to_write(file: int) -> bool | None:
    """Whether anybody has a file open that can write to it; None where the system does not say.

    A lease on a file is granted only while nobody has. It is asked for and given back; a signal that nobody minds is
    named for the case that someone comes in between, because the usual one ends a process.
    """
    try:
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except AttributeError:
        return None
    except OSError as exc:
        return True if exc.errno == errno.EAGAIN else None
    return False


def mount_id(folder: int) -> int | None:
    """The mount that an open folder is on: names can be moved within one only. None where the system does not say."""
    try:
        with open(f"/proc/self/fdinfo/{folder}", "rb") as about:
            for line in about:
                if line.startswith(b"mnt_id:"):
                    return int(line[7:])
    except OSError:
        return None
    return None
