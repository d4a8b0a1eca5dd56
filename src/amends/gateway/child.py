"""A server that is a process of our own: started, spoken to over its stdin and stdout, and ended in the protocol's way.

It is told that we are done by the end of its stdin. If that does not end it, it gets SIGTERM, then SIGKILL, and with it
all that it has started.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from mcp.client.stdio import get_default_environment

from amends.gateway.lines import MessageReader, MessageWriter

_PATIENCE_S: Final = 2.0
_CHUNK: Final = 1 << 16


@asynccontextmanager
async def started(
    command: Sequence[str], env: Mapping[str, str], cwd: str | None, ended: asyncio.Event
) -> AsyncGenerator[tuple[MessageReader, MessageWriter]]:
    """Its streams. It has `env` and the variables that every server needs. Raises OSError where it cannot start."""
    theirs_in, to_it = os.pipe()
    from_it, theirs_out = os.pipe()
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=theirs_in,
                stdout=theirs_out,
                env={**get_default_environment(), **env},
                cwd=cwd,
                start_new_session=True,
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        read, write = MessageReader(from_it, ended), MessageWriter(to_it)
        try:
            yield read, write
        finally:
            try:
                await read.aclose()
                await write.aclose()
            finally:
                os.close(to_it)
                to_it = -1
                await _end(process, from_it)
    finally:
        os.close(from_it)
        if to_it >= 0:
            os.close(to_it)


async def _end(process: asyncio.subprocess.Process, said: int) -> None:
    """Wait for its end, and see to it: what it still says is read by nobody, and must not hold it up. Whoever is
    cancelled meanwhile does not leave it behind.
    """
    loop = asyncio.get_running_loop()
    loop.add_reader(said, _discard, loop, said)
    try:
        for sign in (None, signal.SIGTERM, signal.SIGKILL):
            if sign is not None:
                _tell(process, sign)
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await process.wait()
                    return
    except asyncio.CancelledError:
        _tell(process, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await process.wait()
        raise
    finally:
        loop.remove_reader(said)


def _discard(loop: asyncio.AbstractEventLoop, said: int) -> None:
    if not os.read(said, _CHUNK):
        loop.remove_reader(said)


def _tell(process: asyncio.subprocess.Process, sign: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, sign)
