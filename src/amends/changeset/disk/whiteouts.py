"""How a layer says on disk that something below it is hidden: in overlayfs's own format, so that a kernel can mount it.

A path that is gone is a whiteout: a character device 0:0, which any user may make. Where the system refuses even that,
it is a link with a target that no one else uses; such a layer cannot be mounted, and overlayfs is not offered there.
A folder that hides all that is below it is opaque: it has an attribute that the kernel writes, and `promote` does.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable
from typing import Final

OPAQUE: Final = "user.overlay.opaque"
ORIGIN: Final = "user.overlay.origin"
_STAND_IN: Final = b"(amends: gone)"
_HERE: Final = -100


def make_whiteout(path: bytes) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o000, os.makedev(0, 0))
    except PermissionError:
        os.symlink(_STAND_IN, path)


def is_whiteout(path: bytes, about: os.stat_result) -> bool:
    if stat.S_ISCHR(about.st_mode):
        return about.st_rdev == 0
    if stat.S_ISLNK(about.st_mode) and about.st_size == len(_STAND_IN):
        return os.readlink(path) == _STAND_IN
    return False


def make_opaque(folder: bytes) -> None:
    _setxattr()(folder, OPAQUE, b"y")


def clear_opaque(folder: bytes) -> None:
    remove: Callable[[bytes, str], None] | None = getattr(os, "removexattr", None)
    if remove is not None:
        remove(folder, OPAQUE)


def is_opaque(folder: bytes) -> bool:
    return _attribute(folder, OPAQUE) == b"y"


def came_from_below(path: bytes) -> bool:
    """Whether the kernel says that a file was copied up, and not made anew. False also where it does not say."""
    return _attribute(path, ORIGIN) is not None


def is_from(path: bytes, below: bytes) -> bool:
    """Whether the kernel says that the file at `path` was copied up from the one at `below`, whatever its name."""
    origin, token = _attribute(path, ORIGIN), _token(below)
    return bool(origin and token and origin.endswith(token))


class _Token(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint), ("kind", ctypes.c_int), ("value", ctypes.c_ubyte * 128))


def _token(path: bytes) -> bytes:
    """The token by which a file system knows a file, under any name; empty where it does not say."""
    ask = getattr(ctypes.CDLL(None), "name_to_handle_at", None)
    if ask is None:
        return b""
    made, mount = _Token(size=128), ctypes.c_int()
    if ask(_HERE, ctypes.c_char_p(path), ctypes.byref(made), ctypes.byref(mount), 0) < 0:
        return b""
    return bytes(made.value[: made.size])


def _attribute(path: bytes, name: str) -> bytes | None:
    get: Callable[..., bytes] | None = getattr(os, "getxattr", None)
    if get is None:
        return None
    try:
        return get(path, name, follow_symlinks=False)
    except OSError:
        return None


def _setxattr() -> Callable[[bytes, str, bytes], None]:
    found: Callable[[bytes, str, bytes], None] | None = getattr(os, "setxattr", None)
    if found is None:
        raise OSError(95, "this system has no attributes")
    return found
