"""Read a journal without a worker of our own in it: a saga, its entries, what people are asked."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from amends.addresses import TOKEN, is_database, is_server, journal_file, open_journal
from amends.clock import SystemClock
from amends.core.state.saga import Saga, evolve, unstarted
from amends.core.words.values import OWN, SagaId
from amends.errors import InputError, JournalAccessError, UnknownSagaError
from amends.journal.port.journal import Entry, Journal, SagaQuery
from amends.source.marked import nearest
from amends.text import visible

if TYPE_CHECKING:
    from amends.runtime.coordinator.people import Approval

_LOOKED_AT: Final = 500


def require_journal(address: str) -> None:
    """Looking must not make a journal. Raises JournalAccessError where there is none."""
    if is_server(address):
        return  # it is asked when it is looked at
    path = journal_file(address)
    if is_database(address):
        return  # it is asked when it is opened, and opening makes none
    if path is None:
        raise InputError("a journal in memory is gone with its process; give --journal the path of a file")
    try:
        is_there = path.exists()
    except OSError as exc:
        raise JournalAccessError(f"{visible(address)} cannot be opened: {exc.strerror}") from None
    if not is_there:
        raise JournalAccessError(
            f"there is no journal {visible(address)}; give its path with --journal or in AMENDS_JOURNAL"
        )


@contextlib.asynccontextmanager
async def opened_to_read(address: str, *, group: str | None, inline: bool = False) -> AsyncGenerator[Journal]:
    """A journal that exists and that this group shares, without a worker of our own in it; see `open_journal`."""
    require_journal(address)
    if is_server(address):
        from amends.remote.journal import server_journal  # of an extra, and for who has no journal at hand

        served = server_journal(address, os.environ.get(TOKEN))
        try:
            yield served
        finally:
            await served.close()
        return
    journal = await open_journal(address, SystemClock(), journal_group=group, signs=False, inline=inline)
    try:
        yield journal
    finally:
        await journal.close()


async def load(journal: Journal, saga: SagaId) -> Saga:
    state, _ = await history(journal, saga)
    if state.head == 0:
        raise await unknown(journal, saga)
    return state


async def history(journal: Journal, saga: SagaId) -> tuple[Saga, tuple[Entry, ...]]:
    """A saga and its entries; unstarted and none where there is no such saga."""
    state, entries = unstarted(saga), list[Entry]()
    async for entry in journal.read(saga):
        state = evolve(state, entry.event)
        entries.append(entry)
    return state, tuple(entries)


async def read_asking(journal: Journal, approval: str) -> Approval:
    """A question to people, open or answered. Raises UnknownApprovalError."""
    from amends.runtime.coordinator.people import approval_id, asking

    saga, step = approval_id(approval)
    state, entries = await history(journal, saga)
    return asking(state, step, entries)


async def unknown(journal: Journal, given: str) -> UnknownSagaError:
    """That there is no such saga, and which of the newest was probably meant."""
    page = await journal.sagas(SagaQuery(without=OWN, limit=_LOOKED_AT))
    near = nearest(given, [row.id for row in page.rows])
    hint = f"did you mean {near}?" if near else "`amends saga list` shows those that there are"
    return UnknownSagaError(f"no saga has the id {given}; {hint}")
