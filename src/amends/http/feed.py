"""A journal's entries as they come, for whoever follows them: read once, told to all.

A follower names the position that it has seen, and reads the log up to where the feed is; from there on it is told. One
that does not keep up is let go: it comes back with the position that it has seen last, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Final

from amends.clock import Clock
from amends.errors import JournalError
from amends.journal.port.journal import Journal, Logged
from amends.logs import logger

MOST_BEHIND: Final = 1000
"""So many entries may wait for a follower."""
_log = logger("amends.http")


class Feed:
    """`run` reads on; `stir` says that there is something to read, sooner than it would look by itself."""

    def __init__(self, journal: Journal, clock: Clock, poll_s: float) -> None:
        self._journal = journal
        self._clock = clock
        self._poll_s = poll_s
        self._stirred = asyncio.Event()
        self._followers: set[asyncio.Queue[Logged | None]] = set()
        self.position = 0
        """The newest position that was told."""
        self.counts: Counter[str] = Counter()
        """Entries by wire name, since this began."""
        self._texts: dict[int, str] = {}

    @property
    def followers(self) -> int:
        return len(self._followers)

    def stir(self) -> None:
        self._stirred.set()

    async def run(self) -> None:
        """Read on until cancelled."""
        self.position = (await self._journal.tree()).size
        while True:
            self._stirred.clear()
            try:
                await self._read_on()
            except JournalError as exc:
                _log.warning("the entries that came since cannot be read: %s", exc)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stirred.wait(), self._poll_s)

    async def _read_on(self) -> None:
        async for logged in self._journal.log(after=self.position):
            self.position = logged.position
            self.counts[logged.entry.name] += 1
            for follower in tuple(self._followers):
                self._tell(follower, logged)

    def _tell(self, follower: asyncio.Queue[Logged | None], logged: Logged | None) -> None:
        try:
            follower.put_nowait(logged)
        except asyncio.QueueFull:
            self._followers.discard(follower)
            while not follower.empty():
                follower.get_nowait()
            follower.put_nowait(None)

    def text_of(self, logged: Logged, spell: Callable[[Logged], str]) -> str:
        """An entry as `spell` gives it, made once for all that follow."""
        text = self._texts.get(logged.position)
        if text is None:
            text = self._texts[logged.position] = spell(logged)
            if len(self._texts) > MOST_BEHIND:
                del self._texts[next(iter(self._texts))]
        return text

    def close(self) -> None:
        """Have all followers come to their end."""
        for follower in tuple(self._followers):
            self._followers.discard(follower)
            self._tell(follower, None)

    async def follow(self, after: int | None = None) -> AsyncGenerator[Logged]:
        """Entries past a position, or from now on; ends where its reader falls behind, or the feed closes."""
        async with aclosing(self.follow_together(after)) as several:
            async for together in several:
                for logged in together:
                    yield logged

    async def follow_together(self, after: int | None = None) -> AsyncGenerator[list[Logged]]:
        """Entries as `follow` gives them, each time all that have come."""
        queue: asyncio.Queue[Logged | None] = asyncio.Queue(MOST_BEHIND)
        self._followers.add(queue)
        seen = self.position if after is None else after
        try:
            async for logged in self._until(self.position, seen):
                seen = logged.position
                yield [logged]
            told: Logged | None = await queue.get()
            while told is not None:
                together = list[Logged]()
                while told is not None:
                    if told.position > seen:
                        seen = told.position
                        together.append(told)
                    if queue.empty():
                        break
                    told = queue.get_nowait()
                if together:
                    yield together
                told = None if told is None else await queue.get()
        finally:
            self._followers.discard(queue)

    async def _until(self, position: int, after: int) -> AsyncIterator[Logged]:
        if after >= position:
            return
        async for logged in self._journal.log(after=after):
            if logged.position > position:
                return
            yield logged
