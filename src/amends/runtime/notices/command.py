"""A command that is told by its standard input. No shell; a bounded time, after which all that it started is ended."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Self

from amends.dataclass import dataclass
from amends.errors import InputError
from amends.runtime.logs import logger
from amends.runtime.notices.target import (
    GIVE_UP_S,
    Delivered,
    Delivery,
    Undelivered,
    check_numbers,
    checked_name,
    default_name,
)
from amends.runtime.notices.types import ASKING, checked_types

if TYPE_CHECKING:
    from subprocess import Popen

    from amends.runtime.notices.notice import Notice

_log = logger("amends.notices")
_KEPT: Final = 2000
_CHUNK: Final = 65_536


@dataclass(frozen=True, slots=True, repr=False)
class Command:
    """Starts a program for each notice, with the notice as JSON on its standard input; exit code 0 is delivered.

    words: the program and its arguments, as they are: no shell reads them. No list or log shows more than the program.
    name: what its place in the journal is called; without one, other words are a new target.
    types: what it is told of.
    timeout_s: after this the program is ended, with all that it started.
    give_up_s: a notice that is older than this and cannot be delivered is given up.
    """

    words: Sequence[str]
    _: KW_ONLY
    name: str = ""
    types: Sequence[str] = ASKING
    timeout_s: float = 30.0
    give_up_s: float = GIVE_UP_S

    def __post_init__(self) -> None:
        words = () if isinstance(self.words, str) else tuple(self.words)
        if not words or not words[0] or any("\0" in word for word in words):
            raise InputError(
                "a command is a list of words: the program, then its arguments, as in ['notify-send', 'x']"
            )
        set_field = functools.partial(object.__setattr__, self)
        set_field("words", words)
        set_field("types", checked_types(self.types))
        set_field("name", checked_name(self.name or default_name(PurePath(words[0]).name, *words)))
        check_numbers(self.timeout_s, self.give_up_s)

    def __repr__(self) -> str:
        return f"Command({self.shown!r}, name={self.name!r})"

    @property
    def shown(self) -> str:
        return self.words[0] if len(self.words) == 1 else f"{self.words[0]} …"

    def check(self) -> None:
        """Whether there is such a program is found out when it is started: it may come later."""

    async def deliver(self, notice: Notice, now: int) -> Delivery:
        with _Output() as output:
            try:
                child = _started(self.words, notice.body, output)
            except OSError as exc:
                return Undelivered(f"it cannot be started: {exc.strerror}")
            code = await _ended(child, self.timeout_s)
            said = output.tail()
        if code == 0:
            _log.debug("%s said: %s", self.shown, said)
            return Delivered()
        _log.warning("%s was told %s, and said: %s", self.shown, notice.id, said or "nothing")
        if code is None:
            return Undelivered(f"it was not done in {self.timeout_s:g} s, and was ended")
        return Undelivered(f"it ended with exit code {code}" if code > 0 else f"it was ended by signal {-code}")


def _started(words: Sequence[str], body: bytes, output: _Output) -> Popen[bytes]:
    """In a session of its own, so that it can be ended with all that it starts. Its input is a file: nobody waits."""
    import subprocess
    import tempfile

    with tempfile.TemporaryFile() as given:
        given.write(body)
        given.seek(0)
        return subprocess.Popen(
            list(words), stdin=given, stdout=output.sink, stderr=output.sink, start_new_session=True
        )


async def _ended(child: Popen[bytes], timeout_s: float) -> int | None:
    """Its exit code; None where its time was up. When this is over, so is the child, however it came to that."""
    waiting = asyncio.ensure_future(asyncio.to_thread(child.wait))
    try:
        async with asyncio.timeout(timeout_s):
            return await asyncio.shield(waiting)
    except TimeoutError:
        return None
    finally:
        if not waiting.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await waiting


class _Output:
    """What a child says on stdout and stderr: read as it comes, so that it is never held up, and only its end kept."""

    def __init__(self) -> None:
        self._source, self.sink = os.pipe()
        os.set_blocking(self._source, False)
        self._kept = b""

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._source, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._source)
        os.close(self._source)
        os.close(self.sink)

    def _read(self) -> bool:
        try:
            said = os.read(self._source, _CHUNK)
        except BlockingIOError:
            return False
        self._kept = (self._kept + said)[-_KEPT:]
        return bool(said)

    def tail(self) -> str:
        """The last of what it has said by now; what children of its own still hold open is not waited for."""
        from amends.evidence.timeline import visible

        for _ in range(_KEPT):
            if not self._read():
                break
        return visible(self._kept.decode(errors="replace").strip())
