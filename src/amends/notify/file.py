"""A file that is told: a line of JSON for each notice, on disk before it counts as delivered."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amends.dataclass import dataclass
from amends.errors import InputError
from amends.evidence.sign.note import HEAD
from amends.notify.links import checked_console, linked
from amends.notify.notice import checked_types
from amends.notify.target import (
    GIVE_UP_S,
    HEADS_EVERY_S,
    Delivered,
    Delivery,
    Undelivered,
    check_numbers,
    checked_name,
    default_name,
)

if TYPE_CHECKING:
    from amends.notify.notice import Notice

_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, repr=False)
class NoticeFile:
    """Adds a line to a file for each notice. Have it where who can rewrite the journal cannot: another machine's disk.

    path: made with mode 600 where it is not there; its directory has to be.
    name: what its place in the journal is called; without one, another path is a new target.
    types: what it is told of; tree heads, unless it asks for something else.
    give_up_s: a notice that is older than this and cannot be written is given up.
    heads_every_s: a tree head is added at most so often, and only where it has changed; 0: each time.
    console: where the console is: each notice then has the link to its page, as `url`.
    """

    path: str | PathLike[str]
    _: KW_ONLY
    name: str = ""
    types: Sequence[str] = (HEAD,)
    timeout_s: float = _TIMEOUT_S
    give_up_s: float = GIVE_UP_S
    heads_every_s: float = HEADS_EVERY_S
    console: str = ""

    def __post_init__(self) -> None:
        given: str = os.fspath(self.path)
        if not given or "\0" in given:
            raise InputError(f"{given!r} is no path of a file")
        path = str(Path(given).absolute())
        set_field = functools.partial(object.__setattr__, self)
        set_field("path", path)
        set_field("types", checked_types(self.types))
        set_field("name", checked_name(self.name or default_name(Path(path).name, path)))
        check_numbers(self.timeout_s, self.give_up_s, self.heads_every_s)
        set_field("console", checked_console(self.console))

    def __repr__(self) -> str:
        return f"NoticeFile({self.shown!r}, name={self.name!r})"

    @property
    def shown(self) -> str:
        return str(self.path)

    def check(self) -> None:
        """Whether its directory is there."""
        place = Path(self.path).parent
        if not place.is_dir():
            raise InputError(f"{place} is no directory, so nothing can be kept in {self.path}; make it first")

    async def deliver(self, notice: Notice, now: int) -> Delivery:
        del now
        try:
            await asyncio.to_thread(_add, str(self.path), linked(notice, self.console).body)
        except OSError as exc:
            return Undelivered(f"it cannot be written: {exc.strerror}")
        return Delivered()


def _add(path: str, line: bytes) -> None:
    """One write, then the disk. A line that a crash cut off is ended first, so that it spoils no other."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(file).st_size
        ended = size == 0 or os.pread(file, 1, size - 1) == b"\n"
        left = memoryview(b"%s%s\n" % (b"" if ended else b"\n", line))
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
        if not size:
            _sync(os.path.dirname(path))  # noqa: PTH120 - as text
    finally:
        os.close(file)


def _sync(directory: str) -> None:
    """The file's name is on disk too."""
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(place)
    finally:
        os.close(place)
