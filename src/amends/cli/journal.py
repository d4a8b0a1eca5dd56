"""A journal as commands read it: shared with the group that the configuration names."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from amends.addresses import TOKEN, copy_mark, is_server, is_there, shown
from amends.cli import config
from amends.cli.show.output import hint
from amends.journal.port.journal import Journal
from amends.journal.port.transfer import MOVED
from amends.operate import reading

if TYPE_CHECKING:
    from amends.bootstrap import Coordinator
    from amends.evidence.drills import DrilledAt
    from amends.remote.journal import ServerJournal


T = TypeVar("T")


def look(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end what awaits nothing but a journal that is `looked_at`: without a loop, which takes longer to
    import than the look.
    """
    try:
        work.send(None)
    except StopIteration as ended:
        answer: T = ended.value
        return answer
    work.close()
    raise RuntimeError("a look waited for something; it needs a loop to run in")


def looked_at(address: str) -> AbstractAsyncContextManager[Journal]:
    """A journal that exists, read where it is asked: nothing of it has to be waited for. For one `look`."""
    return _opened(address, inline=True)


def opened_to_read(address: str) -> AbstractAsyncContextManager[Journal]:
    """A journal that exists, without a worker of our own in it. Raises JournalAccessError where there is none."""
    return _opened(address, inline=False)


@asynccontextmanager
async def _opened(address: str, *, inline: bool) -> AsyncGenerator[Journal]:
    async with reading.opened_to_read(address, group=config.journal_group(), inline=inline) as journal:
        if not is_server(address):
            _say_where_it_went(address)
        yield journal


@cache
def _say_where_it_went(address: str) -> None:
    """A journal that was moved is as it was then. Said once, however often it is looked at."""
    mark = copy_mark(address)
    if mark is not None and mark.how == MOVED:
        hint(f"{shown(address)} was moved to {mark.place}, and is shown as it was then; sagas go on there")


def coordinator_at(address: str) -> AbstractAsyncContextManager[Coordinator]:
    """A coordinator for what a person asks: on the journal at hand, or that of the server at this address."""
    if is_server(address):
        from amends.remote.people import ServedCoordinator

        served: Any = ServedCoordinator(address, os.environ.get(TOKEN))
        return cast("AbstractAsyncContextManager[Coordinator]", served)
    from amends.bootstrap import Coordinator  # it drives: not for who only looks

    return Coordinator.open(address, settings=config.settings())


def served(address: str) -> ServerJournal:
    """The journal of the server at this address: whatever else it tells, and is asked."""
    from amends.remote.journal import ServerJournal

    return ServerJournal(address, os.environ.get(TOKEN))


async def drilled_on(address: str) -> DrilledAt:
    """When each action last passed a drill, by the journal at this address; nothing where there is none."""
    if not is_there(address):
        return {}
    async with opened_to_read(address) as journal:
        from amends.evidence.drills import last_passed

        return await last_passed(journal)
