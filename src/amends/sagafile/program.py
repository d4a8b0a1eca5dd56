"""Calling a command: its own session, a bounded output, and an end that is the end of all that it started.

The program that starts it holds a lifeline to this process. When the call is cancelled, runs out of time, or this
process is killed, the command's group is asked to end, and a few seconds later everything that descends from it is
killed: a saga that another process takes up does not race with what was left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar, cast

from amends.changeset import Files
from amends.changeset.tools import Bounded, Launch, Ran, Running
from amends.changeset.views.confining import Alone
from amends.clock import SystemClock
from amends.dataclass import dataclass
from amends.errors import CommandError, NotDone, ViewError
from amends.sagafile.outputs import KEPT, Output, Show

T = TypeVar("T")
GRACE_S: Final = 5.0
SHELL: Final = "/bin/sh"
_TOLD: Final = 300


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

    out, err = Output(KEPT, asked.hidden, shown()), Output(KEPT, asked.hidden, shown())
    try:
        running = await _begun(lambda: _started(asked, (out, err)))
        ended = await _ended(running)
    except ViewError as exc:
        raise NotDone(f"{asked.words[0]} could not be started: {str(exc).rpartition('started: ')[2]}") from None
    if ended.returncode is None:
        raise CommandError(f"{asked.words[0]} was ended before it was done")
    return Printed(code=ended.returncode, stdout=ended.stdout, stderr=ended.stderr, cut=bool(out.left_out))


def _started(asked: Called, streams: tuple[Bounded, Bounded]) -> Running:
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


async def _begun(start: Callable[[], Running]) -> Running:
    """Start it. Whoever gives up meanwhile has it ended too, once it has begun: else nobody ever would."""
    starting = _in_thread(start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(ViewError):
            running = await starting
            running.cancel()
            await _in_thread(running.wait)
        raise


async def _ended(running: Running) -> Ran:
    """Its end. Whoever gives up waiting has it ended first, and waits for that."""
    waiting = _in_thread(running.wait)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        running.cancel()
        with contextlib.suppress(ViewError):
            await waiting
        raise


def _in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """A thread of its own: a pool's few would let one long command hold up another's end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("T", value))  # there is one where there is no error

    def run() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = work()
        except BaseException as exc:  # noqa: BLE001 - of whatever kind: whoever waits has to be told
            error = exc
        with contextlib.suppress(RuntimeError):  # the loop has closed: the process is going down
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="amends command", daemon=True).start()
    return future


def _tell(loop: asyncio.AbstractEventLoop, show: Show, line: str) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has closed: nobody is shown anything any more
        loop.call_soon_threadsafe(show, line)
