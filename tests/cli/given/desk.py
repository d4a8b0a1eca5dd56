"""An agent's session, in a module as a user would write it. `python desk.py` leaves two of them open."""

import asyncio
import contextlib
import sys
from pathlib import Path

from amends import Coordinator, Done, action
from amends.errors import Detach
from amends.runtime.saga.tool import do_foreign


def note(what: str) -> None:
    with Path("world.txt").open("a", encoding="utf-8") as world:
        world.write(f"{what}\n")


@action("flight.book")
async def book(to: str) -> str:
    note(f"+ {to}")
    return f"flight to {to}"


@book.compensation
async def cancel(done: Done) -> None:
    note(f"- {done.args['to']}")


@action("mail.send", no_rollback="a mail cannot be unsent", hold=True)
async def send(text: str) -> None:
    note(f"+ mail {text}")


async def search(words: str) -> str:
    return f"nothing about {words}"


async def leave_open(*threads: str) -> None:
    async with Coordinator.open("amends.db", env="development") as coordinator:
        for thread in threads:
            with contextlib.suppress(Detach):
                async with coordinator.session("travel.agent", id=thread, actor="agent:a") as s:
                    await s.do(book, "Lisbon", call="call_1")
                    if thread.startswith("web"):
                        await do_foreign(s, "search", search, {"words": "beds"}, call="call_2")
                    if thread.startswith("mail"):
                        await s.do(send, "hello", call="call_2")
                    raise Detach


if __name__ == "__main__":
    asyncio.run(leave_open(*sys.argv[1:]))
