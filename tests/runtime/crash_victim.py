"""Sagas that are killed in the middle of an attempt: `python -m tests.runtime.crash_victim JOURNAL NAME`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from amends import Coordinator, Done, Settings, Work, action, saga

LOG = Path(os.environ.get("CRASH_LOG", os.devnull))


def note(what: str) -> None:
    with LOG.open("a") as log:
        log.write(f"{what}\n")


@action("crash.book", idempotent=True)
async def book(to: str) -> str:
    note(f"book {to}")
    return to


@book.compensation
async def unbook(done: Done) -> None:
    note(f"unbook {done.args['to']} {done.certain}")


@action("crash.die", idempotent=True)
async def die() -> None:
    note("die")
    if os.environ.get("CRASH_DIES"):
        os.kill(os.getpid(), signal.SIGKILL)


@die.compensation
async def undie(done: Done) -> None:
    note(f"undie {done.certain}")


@saga("crash.back", on_crash="rollback")
async def back(s: Work) -> None:
    await s.do(book, "Lisbon")
    await s.do(die)


@saga("crash.on", on_crash="resume")
async def on(s: Work) -> None:
    await s.do(book, "Lisbon")
    await s.do(die)


@saga("crash.other", on_crash="rollback")
async def other(s: Work) -> None:
    """Another time it asks for something else, as a model may; it is killed between two steps."""
    await s.do(book, "Lisbon" if os.environ.get("CRASH_DIES") else "Porto")
    if os.environ.get("CRASH_DIES"):
        await s.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)


SAGAS = {one.name.removeprefix("crash."): one for one in (back, on, other)}


async def whole(journal: str, name: str) -> None:
    async with Coordinator.open(journal, settings=Settings(poll_s=0.05), env="development") as coordinator:
        await coordinator.run(SAGAS[name], id="s-1")


if __name__ == "__main__":
    asyncio.run(whole(sys.argv[1], sys.argv[2]))
