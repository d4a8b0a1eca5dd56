"""A journal as commands read it: shared with the group that the configuration names."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from amends.addresses import is_there
from amends.cli import config
from amends.journal.port.journal import Journal
from amends.operate import reading

if TYPE_CHECKING:
    from amends.evidence.drills import DrilledAt


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
    return reading.opened_to_read(address, group=config.journal_group(), inline=True)


def opened_to_read(address: str) -> AbstractAsyncContextManager[Journal]:
    """A journal that exists, without a worker of our own in it. Raises JournalAccessError where there is none."""
    return reading.opened_to_read(address, group=config.journal_group())


async def drilled_on(address: str) -> DrilledAt:
    """When each action last passed a drill, by the journal at this address; nothing where there is none."""
    if not is_there(address):
        return {}
    async with opened_to_read(address) as journal:
        from amends.evidence.drills import last_passed

        return await last_passed(journal)
