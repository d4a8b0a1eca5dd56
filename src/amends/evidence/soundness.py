"""Whether a journal can be used, and not only whether it is as it was signed: each saga read as its driver would.

Signatures cover entries. What leads to them (a file's indexes, the row that says where a saga stands) and whether they
make sense together is seen by reading: the store checks itself, and every saga's entries are decoded and folded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Final

from amends.core.saga import evolve, unstarted
from amends.core.values import SagaId
from amends.errors import AmendsError
from amends.journal.protocol import Journal

DAMAGED: Final = (
    "stop what writes to it and copy the file with its -wal before anything else; then amends evidence verify "
    "--journal COPY says what of it is as it was signed. Where only an index is damaged, sqlite3 COPY REINDEX makes it "
    "anew; else restore a backup, and compare what providers say with it"
)
"""What to do about a damaged journal."""


async def trouble_in(journal: Journal, saga: SagaId) -> str | None:
    """Why nobody can read a saga; None where all of it that was not removed can be read, and makes sense."""
    state, is_removed = unstarted(saga), False
    try:
        async for entry in journal.read(saga):
            is_removed = is_removed or entry.is_removed
            state = state if is_removed else evolve(state, entry.event)
    except AmendsError as exc:
        return f"saga {saga} cannot be read: {exc}"
    if not is_removed and not state.head:
        return f"saga {saga} has entries, and cannot be found by its name"
    return None


async def troubles_in(journal: Journal, sagas: Iterable[str]) -> AsyncIterator[str]:
    for saga in sagas:
        found = await trouble_in(journal, SagaId(saga))
        if found is not None:
            yield found


async def store_troubles(journal: Journal, *, within_s: float | None = None) -> tuple[list[str], bool]:
    """What the store finds wrong with itself, and whether it came to an end within that time."""
    found = await journal.inspect(within_s=within_s)
    return [f"the journal's file is damaged: {each}" for each in found.troubles], found.is_whole
