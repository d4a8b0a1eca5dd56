"""What a target has not been told yet, in the order of the log."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from amends.core.events import ApprovalRequested, DrillMissed, IncidentOpened
from amends.journal.protocol import Entry, Journal, Logged, PersonQuery
from amends.runtime.drills import missed_still
from amends.runtime.notices.progress import Progress
from amends.runtime.notices.types import wire_names

_PAGE = 500
_DRILL = "drill "


async def pending(journal: Journal, progress: Progress) -> AsyncGenerator[Logged]:
    """Of what is older than the target, only what still waits for a person: nobody wants to hear the rest."""
    after = progress.position
    if after < progress.began:
        still_open = await open_now(journal)
        if still_open:
            async with contextlib.aclosing(_of_older(journal, progress, still_open)) as older:
                async for logged in older:
                    yield logged
        after = progress.began
    async for logged in journal.log(after=after, names=wire_names(progress.types)):
        yield logged


async def _of_older(journal: Journal, progress: Progress, still_open: frozenset[str]) -> AsyncGenerator[Logged]:
    """All of the log may have to be read: missed drills are left out where there are none; the rest has an index."""
    has_missed = any(each.startswith(_DRILL) for each in still_open)
    names = wire_names(each for each in progress.types if has_missed or each != "drill.missed")
    async for logged in journal.log(after=progress.position, names=names):
        if logged.position > progress.began:
            return
        if _asked(logged.entry) in still_open:
            yield logged


def _asked(entry: Entry) -> str | None:
    """What an entry asks of a person, by kind and id; None for an answer, and for what retention has removed."""
    if entry.is_removed:
        return None
    match entry.event:
        case ApprovalRequested(step=step):
            return f"approval {entry.saga}/{step}"
        case IncidentOpened(incident=number):
            return f"incident {entry.saga}/{number}"
        case DrillMissed():
            return f"{_DRILL}{entry.number}"
        case _:
            return None


async def open_now(journal: Journal) -> frozenset[str]:
    """Everything that waits for a person, by kind and id."""
    found: set[str] = set()
    query: PersonQuery | None = PersonQuery(limit=_PAGE)
    while query is not None:
        approvals = await journal.approvals(query)
        found |= {f"approval {row.id}" for row in approvals.rows}
        query = None if approvals.cursor is None else PersonQuery(limit=_PAGE, after=approvals.cursor)
    query = PersonQuery(limit=_PAGE)
    while query is not None:
        incidents = await journal.incidents(query)
        found |= {f"incident {row.id}" for row in incidents.rows}
        query = None if incidents.cursor is None else PersonQuery(limit=_PAGE, after=incidents.cursor)
    return frozenset(found) | {f"{_DRILL}{number}" for number in await missed_still(journal)}
