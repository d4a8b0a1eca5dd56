"""An agent that is killed in the middle of a session: `python -m tests.runtime.session_victim JOURNAL LOG`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from amends import Asked, Coordinator, Done, Happened, Settings, action

LOG = Path(os.environ.get("SESSION_LOG", os.devnull))


def note(what: str) -> None:
    with LOG.open("a") as log:
        log.write(f"{what}\n")


def die_once() -> None:
    """End here as a process does that is killed; in another process, later, go on."""
    if os.environ.get("SESSION_DIES"):
        os.kill(os.getpid(), signal.SIGKILL)


@action("victim.book")
async def book(to: str) -> str:
    note(f"book {to}")
    return f"booked {to}"


@book.compensation
async def unbook(done: Done) -> None:
    note(f"unbook {done.args['to']}")


@action("victim.found")
async def found(cents: int) -> str:
    note(f"found {cents}")
    die_once()
    return "never said"


@found.compensation
async def unfound(done: Done) -> None:
    note(f"unfound {done.certain}")


@found.probe
async def find(asked: Asked) -> Happened:
    note("probe")
    return Happened(f"paid {asked.args['cents']}")


@action("victim.repeated", idempotent=True)
async def repeated(cents: int) -> str:
    note(f"repeated {cents}")
    die_once()
    return "done again"


@repeated.compensation
async def unrepeat(done: Done) -> None:
    note(f"unrepeat {done.certain}")


@action("victim.doubted")
async def doubted(cents: int) -> str:
    note(f"doubted {cents}")
    die_once()
    return "never said"


@doubted.compensation
async def undoubt(done: Done) -> None:
    note(f"undoubt {done.certain}")


@action("victim.final", no_rollback="it is a mail")
async def final(cents: int) -> str:
    note(f"final {cents}")
    die_once()
    return "never said"


ACTIONS = {one.topic.removeprefix("victim."): one for one in (found, repeated, doubted, final)}


async def whole(journal: str, which: str) -> None:
    settings = Settings(poll_s=0.05, park_s=0.05)
    async with Coordinator.open(journal, settings=settings, env="development") as coordinator:  # noqa: SIM117 - one is inside the other
        async with coordinator.session("victim.agent", id="t-1", actor="agent:a") as s:
            await s.do(book, "Lisbon", call="c1")
            await s.do(ACTIONS[which], 5, call="c2")


if __name__ == "__main__":
    asyncio.run(whole(sys.argv[1], sys.argv[2]))
