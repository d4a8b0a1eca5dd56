"""The part of the port that reads the entries of all sagas in one order, and keeps how far somebody has come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Final, NamedTuple, Protocol

from amends.journal.port.entries import Entry


class Logged(NamedTuple):
    """An entry and its place in the journal: 1, 2, 3 over all sagas, without gaps."""

    position: int
    entry: Entry


class Cursor(NamedTuple):
    """How far somebody has come who reads the log, and a few words of theirs on it."""

    name: str
    position: int = 0
    note: str = ""


LAST: Final = "\U0010ffff"
"""The character that sorts behind all others: names that begin so stand before that and it."""


class Log(Protocol):
    """All entries of a journal, for whoever follows everything."""

    def log(self, *, after: int = 0, names: Collection[str] | None = None) -> AsyncIterator[Logged]:
        """The entries of all sagas past a position, in journal order, each checked; only those of these wire names."""
        ...

    async def cursor(self, name: str) -> int:
        """The position that was last kept under this name; 0 where none was."""
        ...

    async def cursors(self, under: str) -> tuple[Cursor, ...]:
        """Cursors whose names begin so, by name, with what was noted on them."""
        ...

    async def move_cursor(self, name: str, position: int, *, note: str = "", since: Cursor | None = None) -> bool:
        """Keep a position of the log under a name, with a note; at 0 without a note, it is forgotten.

        With `since`, only if it is still as it was then (`Cursor(name)`: not there): whether it was moved.
        """
        ...
