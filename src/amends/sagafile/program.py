"""Calling a command: its own session, a bounded output, and an end that is the end of all that it started.

The program that starts it holds a lifeline to this process. When the call is cancelled, runs out of time, or this
process is killed, the command's group is asked to end, and a few seconds later everything that descends from it is
killed: a saga that another process takes up does not race with what was left behind.

Output of commands is kept up to a bound, shown line by line, and nowhere with a secret in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from amends.changeset import Files
from amends.changeset.views.confining import Alone
from amends.clock import SystemClock
from amends.dataclass import dataclass
from amends.errors import CommandError, NotDone, ViewError
from amends.process.running import Bounded, Launch, Ran, Running
from amends.process.threads import started

T = TypeVar("T")
GRACE_S: Final = 5.0
SHELL: Final = "/bin/sh"
_TOLD: Final = 300
KEPT: Final = 64 * 1024
_LONGEST_LINE: Final = 4096
_HIDDEN: Final = b"[secret]"

Show = Callable[[str], None]
"""Is given each line, as it is printed."""
ShowOf = Callable[[str, str], None]
"""Is given each line and what prints it: a step, or a step on its way back."""


class ProgramOutput(Bounded):
    """A stream's beginning and end, with the values of secrets replaced before anything else sees them."""

    def __init__(self, limit: int, hidden: Iterable[str], show: Show | None = None) -> None:
        super().__init__(limit)
        values = sorted({value.encode() for value in hidden if value}, key=len, reverse=True)
        self._secrets = re.compile(b"|".join(map(re.escape, values))) if values else None
        self._longest = max(map(len, values), default=1)
        self._held = b""
        self._line = b""
        self._show = show

    def take(self, piece: bytes) -> None:
        """The next piece; an empty one is the end. So much is held back as could be the beginning of a secret."""
        self._held += piece
        cut = len(self._held) if not piece else len(self._held) - self._longest + 1
        clean: list[bytes] = []
        at = 0
        for found in self._secrets.finditer(self._held) if self._secrets else ():
            if found.start() >= cut:
                break
            clean += [self._held[at : found.start()], _HIDDEN]
            at = found.end()
        if at < cut:
            clean.append(self._held[at:cut])
        self._held = self._held[max(at, cut, 0) :]
        self._pass_on(b"".join(clean), is_end=not piece)

    def _pass_on(self, piece: bytes, *, is_end: bool) -> None:
        if piece:
            super().take(piece)
        if self._show is None:
            return
        *lines, self._line = (self._line + piece).split(b"\n")
        if is_end or len(self._line) > _LONGEST_LINE:
            lines += [self._line] if self._line else []
            self._line = b""
        for line in lines:
            self._show(line.decode("utf-8", errors="replace").rstrip("\r"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A command with everything put in."""

    words: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    stdin: str = ""
    hidden: Sequence[str] = ()
    show: Show | None = None
    files: Files | None = None
    """The changeset that it works in; `cwd` is then seen from its tree."""
    confine: bool | None = None
    """None: on files where this machine can, elsewhere not; but without capabilities."""
    network: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """How a command ended, and what it printed."""

    code: int
    stdout: str
    stderr: str
    cut: bool
    """Some of stdout was left out."""

    @property
    def last_words(self) -> str:
        lines = [line.strip() for line in (self.stderr or self.stdout).split("\n") if line.strip()]
        return " / ".join(lines[-3:])[-_TOLD:]


async def call(asked: Called) -> Printed:
    """Call it once. Raises NotDone where it certainly did not start, CommandError where it did not end by itself."""
    if asked.files is None and not asked.cwd.is_dir():
        raise NotDone(f"{asked.cwd} is not a directory, and {asked.words[0]} was to run in it")
    loop = asyncio.get_running_loop()

    def shown() -> Show | None:
        show = asked.show
        return None if show is None else lambda line: _tell(loop, show, line)

    out, err = ProgramOutput(KEPT, asked.hidden, shown()), ProgramOutput(KEPT, asked.hidden, shown())
    try:
        running = await _begin(lambda: _start(asked, (out, err)))
        ended = await _wait_for_end(running)
    except ViewError as exc:
        raise NotDone(f"{asked.words[0]} could not be started: {str(exc).rpartition('started: ')[2]}") from None
    if ended.returncode is None:
        raise CommandError(f"{asked.words[0]} was ended before it was done")
    return Printed(code=ended.returncode, stdout=ended.stdout, stderr=ended.stderr, cut=bool(out.left_out))


def _start(asked: Called, streams: tuple[Bounded, Bounded]) -> Running:
    words, given = list(asked.words), asked.stdin.encode()
    if asked.files is not None:
        return asked.files.start(
            words,
            env=asked.env,
            inherits=False,
            cwd=str(asked.cwd),
            input=given,
            streams=streams,
            confine=asked.confine,
            network=None if asked.network else False,
        )
    launch = Launch(
        command=words,
        cwd=os.fsencode(asked.cwd),
        namespaces=False,
        env=asked.env,
        inherits=False,
        input=given,
        streams=streams,
        grace_s=GRACE_S,
        confine=False,
        powerless=asked.confine is not False,
    )
    if asked.confine or not asked.network:
        inside = replace(launch, namespaces=True, confine=bool(asked.confine), network=asked.network)
        return Alone(inside, SystemClock())
    return Running(launch, SystemClock())


async def _begin(start: Callable[[], Running]) -> Running:
    """Start it. Whoever gives up meanwhile has it ended too, once it has begun: else nobody ever would."""
    starting = started("command", start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(ViewError):
            running = await starting
            running.cancel()
            await started("command", running.wait)
        raise


async def _wait_for_end(running: Running) -> Ran:
    """Its end. Whoever gives up waiting has it ended first, and waits for that."""
    waiting = started("command", running.wait)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        running.cancel()
        with contextlib.suppress(ViewError):
            await waiting
        raise


def _tell(loop: asyncio.AbstractEventLoop, show: Show, line: str) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has closed: nobody is shown anything any more
        loop.call_soon_threadsafe(show, line)
