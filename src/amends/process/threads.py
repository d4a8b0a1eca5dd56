"""Bridge from a thread to the loop that waits for it.

`in_thread` is for work that waits for a disk: unlike a user's action, it is not given up half-way.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")


async def in_thread(
    saga: str, call: Callable[[], T], *, stop: Callable[[], None] | None = None, wait_s: float | None = None
) -> T:
    """Run it to its end. Who is cancelled meanwhile waits for that end, at most `wait_s`, and is cancelled then.

    `stop` is called first then, to make the end come soon.
    """
    running = started(saga, call)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        await asyncio.wait({running}, timeout=wait_s)
        if running.done() and not running.cancelled():
            running.exception()  # it is seen: being cancelled is what counts
        raise


def started(name: str, call: Callable[[], T]) -> asyncio.Future[T]:
    """Call it in a thread of its own: a pool's few would let one long call hold up another's end."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(cast("T", value))  # there is one where there is no error
        else:
            plain = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
            future.set_exception(plain)

    start(name, call, settle)
    return future


def start(name: str, call: Callable[[], T], settle: Callable[[T | None, BaseException | None], None]) -> None:
    """Call it in a daemon thread, in the context of who asks. The loop is told what it returned or raised."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()

    def run() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = context.run(call)
        except BaseException as exc:  # noqa: BLE001 - of whatever kind: who waits for a silent thread waits for ever
            error = exc
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            return  # the loop has closed: the process is going down, and what was asked for is lost

    threading.Thread(target=run, name=f"amends {name}", daemon=True).start()
