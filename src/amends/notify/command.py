"""A command that is told by its standard input. No shell, a small environment, a bounded time; when it ends, all that
it started does too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from amends.dataclass import dataclass
from amends.errors import InputError, ViewError
from amends.logs import logger
from amends.notify.links import checked_console, linked
from amends.notify.notice import ASKING, checked_types
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
    from amends.process.running import Bounded, Ran, Running

_log = logger("amends.notices")
_KEPT: Final = 2000


def checked_variables(names: Sequence[str]) -> tuple[str, ...]:
    wanted = () if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or any(not name or "=" in name or "\0" in name for name in wanted):
        raise InputError(f"inherit={names!r} has to be a list of names of variables, as in ['DISPLAY']")
    return wanted


@dataclass(frozen=True, slots=True, repr=False)
class Command:
    """Starts a program for each notice, with the notice as JSON on its standard input; exit code 0 is delivered.

    words: the program and its arguments, as they are: no shell reads them. No list or log shows more than the program.
    name: what its place in the journal is called; without one, other words are a new target.
    types: what it is told of.
    inherit: which variables of the environment it sees, besides the few that every program needs (PATH, HOME, LANG …).
    timeout_s: after this the program is ended; whenever it ends, so does all that it started.
    give_up_s: a notice that is older than this and cannot be delivered is given up.
    heads_every_s: of tree heads, told of at most so often, and only where there is a new one; 0: each time.
    console: where the console is: each notice then has the link to its page, as `url`.
    """

    words: Sequence[str]
    _: KW_ONLY
    name: str = ""
    types: Sequence[str] = ASKING
    timeout_s: float = 30.0
    inherit: Sequence[str] = ()
    give_up_s: float = GIVE_UP_S
    heads_every_s: float = HEADS_EVERY_S
    console: str = ""

    def __post_init__(self) -> None:
        words = () if isinstance(self.words, str) else tuple(self.words)
        if not words or not words[0] or any("\0" in word for word in words):
            raise InputError(
                "a command is a list of words: the program, then its arguments, as in ['notify-send', 'x']"
            )
        set_field = functools.partial(object.__setattr__, self)
        set_field("words", words)
        set_field("inherit", checked_variables(self.inherit))
        set_field("types", checked_types(self.types))
        set_field("name", checked_name(self.name or default_name(PurePath(words[0]).name, *words)))
        check_numbers(self.timeout_s, self.give_up_s, self.heads_every_s)
        set_field("console", checked_console(self.console))

    def __repr__(self) -> str:
        return f"Command({self.shown!r}, name={self.name!r})"

    @property
    def shown(self) -> str:
        return self.words[0] if len(self.words) == 1 else f"{self.words[0]} …"

    def check(self) -> None:
        """Whether there is such a program is found out when it is started: it may come later."""

    async def deliver(self, notice: Notice, now: int) -> Delivery:
        from amends.clock import SystemClock
        from amends.process.running import Launch, Running, small_environment

        said = _tail()
        launch = Launch(
            command=self.words,
            cwd=os.fsencode(os.getcwd()),  # noqa: PTH109 - as bytes
            namespaces=False,
            env=small_environment(self.inherit),
            input=linked(notice, self.console).body,
            streams=(said, said),
        )
        try:
            ran = await _wait_for_end(Running(launch, SystemClock()), self.timeout_s)
        except ViewError as exc:
            why = str(exc).partition("\n")[0].rpartition(": ")[2]
            return Undelivered(f"it cannot be started: {why}")
        if ran.returncode == 0:
            _log.debug("%s said: %s", self.shown, said.text())
            return Delivered()
        _log.warning("%s was told %s, and said: %s", self.shown, notice.id, said.text() or "nothing")
        if ran.returncode is None:
            return Undelivered(f"it was not done in {self.timeout_s:g} s, and was ended")
        code = ran.returncode
        return Undelivered(f"it ended with exit code {code}" if code > 0 else f"it was ended by signal {-code}")


async def _wait_for_end(running: Running, timeout_s: float) -> Ran:
    """How it ended. When this is over, so is all that it started, however it came to that, and whatever got away."""
    waiting = asyncio.ensure_future(asyncio.to_thread(running.wait, timeout_s))
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        running.cancel()
        with contextlib.suppress(ViewError):
            await waiting
        raise


def _tail() -> Bounded:
    """A buffer that keeps only the end of the output, as one line that no terminal obeys."""
    from amends.evidence.story.timeline import visible
    from amends.process.running import Bounded

    class Tail(Bounded):
        def __init__(self) -> None:
            super().__init__(_KEPT)
            self._end = b""

        def take(self, piece: bytes) -> None:
            self._end = (self._end + piece)[-_KEPT:]

        def text(self) -> str:
            return visible(self._end.decode(errors="replace").strip())

    return Tail()
