"""Access lists of files (POSIX ACLs): what a landing has to carry over, since a mode alone says something else.

Where a file has a list, the group's bits of its mode are the list's mask: the most that anybody named in it may do.
What the group itself may do stands in the list. Without the list, a file of mode 660 whose group may do nothing is open
to that group.

A changeset has no lists. A file that stays where it is keeps the tree's; one that is new takes the group's bits from
the list that it was copied with, if it was. Where a system has no such lists, there are none.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Callable
from typing import Final

from amends.changeset.disk.disk import DiskName, opened, spot

_LIST: Final = "system.posix_acl_access"
_HEAD: Final = struct.Struct("<I")
_ENTRY: Final = struct.Struct("<HHI")
_GROUP: Final = 0x04
_REACH: Final = os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)


def access_of(at: DiskName) -> bytes | None:
    """The list of a file or folder, as the system has it; None where it has none."""
    get: Callable[..., bytes] | None = getattr(os, "getxattr", None)
    if get is None:
        return None
    try:
        return get(
            at.name if at.at is None else b"/proc/self/fd/%d/" % at.folder + at.name, _LIST, follow_symlinks=False
        )
    except OSError:
        return None


def give_access(at: DiskName, access: bytes, mode: int) -> None:
    """Give a file of ours a list, and then its mode: the owner's bits, the mask and everybody's follow that."""
    give: Callable[[str, str, bytes], None] | None = getattr(os, "setxattr", None)
    if give is not None:
        with opened(at, _REACH) as file:
            give(f"/proc/self/fd/{file}", _LIST, access)
            os.chmod(f"/proc/self/fd/{file}", mode)


def drop_access(path: bytes, *, is_new: bool) -> None:
    """Take the list away from something in a layer. Of what is new, the group may then do what it could by the list."""
    access = access_of(spot(path))
    remove: Callable[[bytes, str], None] | None = getattr(os, "removexattr", None)
    if access is None or remove is None:
        return
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    remove(path, _LIST)
    os.chmod(path, mode & ~stat.S_IRWXG | group_bits(access, mode) if is_new else mode)


def group_bits(access: bytes, mode: int) -> int:
    """Permissions of the group of a file with this list, as bits of a mode; never more than its mask says."""
    with contextlib.suppress(struct.error):
        for tag, permission, _ in _ENTRY.iter_unpack(access[_HEAD.size :]):
            if tag == _GROUP:
                return int(permission) << 3 & mode & stat.S_IRWXG
    return 0
