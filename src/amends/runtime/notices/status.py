"""How the targets stand, for whoever looks from outside: `amends notify status`."""

from __future__ import annotations

import contextlib
from typing import Final

from amends.dataclass import dataclass
from amends.errors import UnknownTargetError
from amends.journal.protocol import Cursor, Journal
from amends.runtime.notices.pending import pending
from amends.runtime.notices.progress import FOLDER, Progress, progress_of

MOST_COUNTED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    """`pending` counts up to a thousand; `pending_since` is when the oldest of them happened."""

    name: str
    progress: Progress
    pending: int
    pending_since: int | None


async def target_statuses(journal: Journal) -> tuple[TargetStatus, ...]:
    """Every target that was ever told from this journal, by name."""
    return tuple([await _status(journal, cursor) for cursor in await journal.cursors(FOLDER)])


async def _status(journal: Journal, cursor: Cursor) -> TargetStatus:
    progress = progress_of(cursor)
    count, since = 0, None
    async with contextlib.aclosing(pending(journal, progress)) as untold:
        async for logged in untold:
            since = logged.entry.at if since is None else since
            count += 1
            if count == MOST_COUNTED:
                break
    return TargetStatus(name=cursor.name.removeprefix(FOLDER), progress=progress, pending=count, pending_since=since)


async def forget_target(journal: Journal, name: str) -> None:
    """As if it had never been told anything. Raises UnknownTargetError."""
    known = [cursor.name for cursor in await journal.cursors(FOLDER)]
    if f"{FOLDER}{name}" not in known:
        raise UnknownTargetError(f"no target is called {name}; `amends notify status` shows those that there are")
    await journal.move_cursor(f"{FOLDER}{name}", 0)
