"""Disks that die, forget, meddle or remember: put in the place of the machine's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from amends.changeset.disk.disk import Disk, DiskName, Sync


class Died(BaseException):
    """The process is gone at this very call."""


CALLS = (
    "make_folder",
    "remove_folder",
    "remove",
    "rename",
    "rename_new",
    "exchange",
    "link",
    "symlink",
    "chmod_folder",
    "set_time",
    "write",
    "copy",
    "sync_file",
    "sync_folder",
)


class Watched(Disk):
    """Numbers its calls from 1. Waits for no disk: a kill loses nothing that was written."""

    def __init__(
        self,
        *,
        dies_at: int | None = None,
        meddles_at: int | None = None,
        meddle: Callable[[], None] | None = None,
        torn: bool = False,
    ) -> None:
        self.count = 0
        self.names: list[str] = []
        self._dies_at = dies_at
        self._meddles_at = meddles_at
        self._meddle = meddle
        self._torn = torn
        self._is_dead = False

    def _before(self, name: str, args: tuple[Any, ...]) -> None:
        if self._is_dead:
            raise Died("long since")
        self.count += 1
        self.names.append(name)
        if self.count == self._meddles_at and self._meddle is not None:
            self._meddle()
        if self.count == self._dies_at:
            if self._torn and name == "write":
                at, content, *_ = args
                Disk.write(self, at, content[: len(content) // 2])
            elif self._torn and name == "copy":
                Disk.write(self, args[1], os.pread(args[0], 3, 0))
            self._is_dead = True
            raise Died(f"at call {self.count} ({name})")

    def sync_file(self, at: DiskName, why: Sync) -> None:
        self._before("sync_file", (at, why))

    def sync_folder(self, at: DiskName, why: Sync) -> None:
        self._before("sync_folder", (at, why))


def _watched(name: str) -> Callable[..., Any]:
    plain = getattr(Disk, name)

    def call(self: Watched, *args: Any, **more: Any) -> Any:
        self._before(name, args)
        return plain(self, *args, **more)

    return call


for _name in CALLS:
    if not _name.startswith("sync"):
        setattr(Watched, _name, _watched(_name))


class NoExchange(Watched):
    """A file system on which names cannot change places."""

    def exchange(self, one: DiskName, other: DiskName) -> None:
        raise OSError(22, "Invalid argument")
