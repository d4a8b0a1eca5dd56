"""Lines over this process's stdin and stdout, in the form that `stdio_server` takes them; without a thread for each.

A call through the gateway is three lines more on each side, and a thread that is woken for a line costs more than what
the gateway itself does with it. Neither stream is made non-blocking: whoever shares it keeps it as it was.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, Self

_CHUNK: Final = 1 << 16
_AT_ONCE: Final = select.PIPE_BUF
"""So much fits into a pipe or a socket that says that it takes something."""


class LineReader:
    """Lines of a stream that can be waited for."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._held = bytearray()
        self._looked_at = 0
        self._has_ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while (end := self._held.find(b"\n", self._looked_at)) < 0:
            self._looked_at = len(self._held)
            if self._has_ended:
                if not self._held:
                    raise StopAsyncIteration
                end = len(self._held) - 1
                break
            await self._more()
        line = self._held[: end + 1].decode(errors="replace")
        del self._held[: end + 1]
        self._looked_at = 0
        return line

    async def _more(self) -> None:
        loop = asyncio.get_running_loop()
        readable: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, _tell, readable)
        try:
            await readable
        finally:
            loop.remove_reader(self._fd)
        chunk = os.read(self._fd, _CHUNK)
        self._held += chunk
        self._has_ended = not chunk


class LineWriter:
    """Writes lines as they come; what may have to wait for the reader is written by a thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    async def write(self, text: str) -> None:
        """Raises OSError where the reader is gone."""
        line = text.encode()
        if len(line) <= _AT_ONCE and self._poll.poll(0):
            line = line[os.write(self._fd, line) :]
        if line:
            await asyncio.to_thread(self._write_all, line)

    async def flush(self) -> None:
        """Nothing is held back."""

    def _write_all(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._fd, rest) :]


@contextmanager
def claimed_lines() -> Generator[tuple[LineReader, LineWriter] | tuple[None, None]]:
    """Stdin and stdout for the protocol alone: meanwhile other prints go to stderr, and children read nothing.

    None and None where stdin cannot be waited for, such as a file.
    """
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(0, _tell, loop.create_future())
        loop.remove_reader(0)
    except (OSError, NotImplementedError):
        yield None, None
        return
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    ours = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield LineReader(ours[0]), LineWriter(ours[1])
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        for fd, own in enumerate(ours):
            os.dup2(own, fd)  # and never closed: a thread may still wait to write to it
        os.close(nothing)


def _tell(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)
