"""Messages as lines over two descriptors, in the form in which the SDK takes them: without threads, and without streams
in memory between. A call through the gateway is two lines on each side, and every hand that one passes through costs a
turn of the loop.

| what may come                               | then                                                              |
|---------------------------------------------|-------------------------------------------------------------------|
| a line that is no message                   | told to whoever reads, as a ValueError; the next one is read      |
| an answer in letters that there are not     | an error, for whoever waits for it                                |
| a line without an end                       | refused at `LONGEST_LINE`, and nothing more is read               |
| more lines than anybody takes               | the writer of them waits                                          |
| somebody who does not read                  | whoever sends waits, and nothing else does                        |
| somebody who sends, and is cancelled        | the line is written to its end all the same                       |
| a file, or a descriptor that never blocks   | as from a pipe; whoever shares it keeps it as it was              |
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from amends.errors import InputError
from amends.text import visible

LONGEST_LINE: Final = 256 * 1024 * 1024
_MOST_AHEAD: Final = 1024 * 1024
"""So much is read before anybody takes it."""
_CHUNK: Final = 1 << 16
_AT_ONCE: Final = select.PIPE_BUF
"""So much fits into a pipe or a socket that says that it takes something."""
_CHUNKS_A_TURN: Final = 64
_CLOSING_S: Final = 0.5
_LONGEST_SHOWN: Final = 80


def message_of(line: bytes) -> SessionMessage | ValueError:
    """The message of a line. An answer that no text can have (half of a pair) is an error for who waits for it."""
    with suppress(ValueError):
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    with suppress(ValueError, RecursionError):
        text = line.decode(errors="replace")
        match json.loads(text):
            case {"id": str() | int() as id, "result": _}:
                error = types.ErrorData(code=types.INTERNAL_ERROR, message="there is an answer that nobody can read")
                return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id, error=error))
            case _:
                return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    return ValueError(f"no message of the protocol: {visible(line[:_LONGEST_SHOWN].decode(errors='replace'))}")


class MessageReader:
    """The messages that come in: a read stream of the SDK's."""

    def __init__(self, fd: int, ended: asyncio.Event | None = None) -> None:
        self.ended = ended or asyncio.Event()
        """Nothing more is read, and all that came was taken."""
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._held = bytearray()
        self._looked_at = 0
        self._waiting: asyncio.Future[None] | None = None
        self._listens = False
        self._is_over = False
        self._is_too_long = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            line = self._line()
            if line is None:
                if self._is_over:
                    self.ended.set()
                    raise StopAsyncIteration
                await self._more()
            elif line and not line.isspace():
                return message_of(line)
            elif self._is_too_long:
                self._is_too_long = False
                return ValueError(f"a line of more than {LONGEST_LINE >> 20} MB: nothing more is read")

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        self._rest()
        self._is_over = True
        self._held.clear()
        self.ended.set()
        self._wake()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

    def _line(self) -> bytes | None:
        end = self._held.find(b"\n", self._looked_at)
        if end < 0:
            self._looked_at = len(self._held)
            if not self._is_over or not (self._held or self._is_too_long):
                return None
            end = len(self._held)
        line = bytes(memoryview(self._held)[:end])
        del self._held[: end + 1]
        self._looked_at = 0
        return line

    async def _more(self) -> None:
        self._waiting = self._loop.create_future()
        if not self._listens:
            self._listens = True
            try:
                self._loop.add_reader(self._fd, self._read)
            except PermissionError:  # a file: it never has to be waited for
                self._listens = False
                self._loop.call_soon(self._read)
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _read(self) -> None:
        if self._is_over:
            return
        try:
            chunk = os.read(self._fd, _CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # whoever wrote it is gone, and that in no good way
            chunk = b""
        self._held += chunk
        if len(self._held) > LONGEST_LINE and self._held.find(b"\n", self._looked_at) < 0:
            self._held.clear()
            self._looked_at, self._is_too_long, chunk = 0, True, b""
        if not chunk:
            self._is_over = True
            self._rest()
        if self._waiting is None:
            if len(self._held) > _MOST_AHEAD:
                self._rest()
        elif not chunk or b"\n" in chunk:
            self._wake()
        elif not self._listens:
            self._loop.call_soon(self._read)

    def _rest(self) -> None:
        if self._listens:
            self._listens = False
            self._loop.remove_reader(self._fd)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class MessageWriter:
    """The messages that go out: a write stream of the SDK's. Whoever opened the descriptor closes it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._unwritten = bytearray()
        self._is_going_on = False
        self._is_file = False
        self._is_closed = False
        self._error: OSError | None = None
        self._written: asyncio.Future[None] | None = None

    async def send(self, item: SessionMessage) -> None:
        """Raises anyio's BrokenResourceError where nobody reads any more."""
        if self._is_closed:
            raise anyio.ClosedResourceError
        self._unwritten += item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if not self._is_going_on:
            self._write()
        await self._all_written()
        if self._error is not None:
            raise anyio.BrokenResourceError from self._error

    async def aclose(self) -> None:
        self._is_closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_S):
                await self._all_written()
        self._give_up(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _all_written(self) -> None:
        while self._unwritten:
            if self._written is None or self._written.done():
                self._written = self._loop.create_future()
            await asyncio.wait({self._written})

    def _write(self) -> None:
        """Write what is taken without waiting; the rest when more is taken, or in the next turn."""
        if not self._unwritten:
            return
        try:
            for _ in range(_CHUNKS_A_TURN):
                if not self._poll.poll(0):
                    break
                del self._unwritten[: os.write(self._fd, self._unwritten[:_AT_ONCE])]
                if not self._unwritten:
                    self._go_on(waits=False)
                    return
        except BlockingIOError:
            pass
        except OSError as exc:
            self._give_up(exc)
            return
        self._go_on(waits=True)

    def _go_on(self, *, waits: bool) -> None:
        was, self._is_going_on = self._is_going_on, waits
        if waits and not was:
            try:
                self._loop.add_writer(self._fd, self._write)
            except PermissionError:  # a file, as above
                self._is_file = True
        if waits and self._is_file:
            self._loop.call_soon(self._write)
        if was and not waits and not self._is_file:
            self._loop.remove_writer(self._fd)
        if not waits and self._written is not None and not self._written.done():
            self._written.set_result(None)

    def _give_up(self, why: OSError | None) -> None:
        self._error = why
        self._unwritten.clear()
        self._go_on(waits=False)


@contextmanager
def claimed_lines() -> Generator[tuple[MessageReader, MessageWriter]]:
    """Stdin and stdout for the protocol alone: meanwhile other prints go to stderr, and children read nothing.

    Raises InputError where one of them is closed.
    """
    if sys.stdin is None or sys.stdout is None:
        raise InputError("stdin and stdout have to be open: a client speaks to the gateway over them")
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    ours = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield MessageReader(ours[0]), MessageWriter(ours[1])
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        for fd, own in enumerate(ours):
            os.dup2(own, fd)
            os.close(own)
        os.close(nothing)
