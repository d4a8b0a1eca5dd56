"""Where one target stands, as the journal keeps it: a cursor, and all else in its note. Pure.

Every change of it is a compare-and-set on the cursor. So of two processes that tell the same target one finds out that
the other was there, whatever their clocks say.

`pending` is what a target has not been told yet, in the order of the log; `amends notify status` shows how all of them
stand.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator
from dataclasses import asdict, fields, replace
from typing import Any, Final, cast

from amends.core.events import ApprovalRequested, DrillMissed, IncidentOpened
from amends.core.words.contracts import Retries
from amends.core.words.values import canonical
from amends.dataclass import dataclass
from amends.errors import JournalDamagedError, UnknownTargetError
from amends.evidence.drills import missed_still
from amends.journal.port.journal import Cursor, Entry, Journal, Logged, PersonQuery
from amends.journal.port.leases import NOBODY_KNOWN, Identity, identity_of
from amends.notify.notice import wire_names
from amends.notify.target import LONGEST_TRY_S

FOLDER: Final = "notices/"
PACE: Final = Retries(first_s=1.0, cap_s=900.0)
"""How far apart tries are: 1 s, doubling to a quarter of an hour, each less a random part of up to half."""
MARGIN_S: Final = 2.0
"""What a courier needs beside the try itself, to move the cursor before its mark runs out."""
LONGEST_HOLD_S: Final = LONGEST_TRY_S + 2 * MARGIN_S
LONGEST_ERROR: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`position` is that of the last entry that is told, or passed over; times are in milliseconds, 0 for none.

    target, types: what lists show of the target.
    began: how large the journal was when the target was new; of what is older it is told what is still open.
    holder, held_until: who tells it just now, and until when nobody else should.
    process: in which process that is, as others on the machine can see whether it still runs.
    tries, error, failed_at, again_at: of the notice after `position`, if it could not be delivered yet.
    delivered_at: when it was last told something.
    head, head_at: how many entries the tree head had that it was last told of, and when that was.
    given_up, given_up_last: how many notices it was never told, and which was the last of them, and why.
    """

    position: int
    target: str
    types: tuple[str, ...]
    began: int
    holder: str = ""
    held_until: int = 0
    process: str = ""
    tries: int = 0
    error: str = ""
    failed_at: int = 0
    again_at: int = 0
    delivered_at: int = 0
    given_up: int = 0
    given_up_last: str = ""
    head: int = 0
    head_at: int = 0

    def held_s(self, me: str, now: int, us: Identity = NOBODY_KNOWN) -> float:
        """How long somebody else may be at it: not at all where their process is gone, by the rule of leases. A time
        that no holder can have written was read off another clock.
        """
        left_s = (self.held_until - now) / 1000
        is_held = self.holder not in {"", me} and 0 < left_s <= LONGEST_HOLD_S
        return left_s if is_held and not identity_of(self.process).has_ended(us) else 0.0

    def rests_s(self, now: int) -> float:
        """How long until the next try is due."""
        return min(max(0.0, (self.again_at - now) / 1000), PACE.cap_s * 4) if self.tries else 0.0

    def of(self, target: str, types: tuple[str, ...]) -> Progress:
        """This progress for a target that has come to be shown differently, or told of something else."""
        return replace(self, target=target, types=types)

    def held(self, me: str, until: int, us: Identity = NOBODY_KNOWN) -> Progress:
        return replace(self, holder=me, held_until=until, process=str(us))

    def let_go(self) -> Progress:
        return replace(self, holder="", held_until=0, process="")

    def passed(self, position: int) -> Progress:
        """Progress past this position: the next notice comes after it."""
        return replace(self, position=position, tries=0, error="", failed_at=0, again_at=0)

    def headed(self, size: int, now: int) -> Progress:
        """The tree head of this size is over, told or given up; the log is as far as before."""
        return replace(self.passed(self.position), head=size, head_at=now)

    def told(self, now: int) -> Progress:
        return replace(self, delivered_at=now)

    def failed(self, why: str, now: int, wait_s: float) -> Progress:
        again_at = now + round(wait_s * 1000)
        return replace(self, tries=self.tries + 1, error=why[:LONGEST_ERROR], failed_at=now, again_at=again_at)

    def gave_up(self, last: str) -> Progress:
        return replace(self, given_up=self.given_up + 1, given_up_last=last[:LONGEST_ERROR])

    # -- as it is kept ------------------------------------------------------------------------------------------------

    def cursor(self, name: str) -> Cursor:
        kept = {**asdict(self), "types": list(self.types)}
        del kept["position"]
        return Cursor(f"{FOLDER}{name}", self.position, canonical(kept))


def progress_of(cursor: Cursor) -> Progress:
    """Raises JournalDamagedError for a note that is not one of ours."""
    try:
        kept: object = json.loads(cursor.note)
    except (ValueError, RecursionError):
        kept = None
    if isinstance(kept, dict):
        known = cast("dict[str, object]", kept)
        types = known.get("types")
        if isinstance(types, list) and all(isinstance(name, str) for name in cast("list[object]", types)):
            plain: dict[str, Any] = {
                name: known[name] for name, blank in _PLAIN.items() if type(known.get(name)) is type(blank)
            }
            return replace(_BLANK, **plain, position=cursor.position, types=tuple(cast("list[str]", types)))
    raise JournalDamagedError(
        f"the note on cursor {cursor.name} is not one that tells where a target stands; "
        f"forget it: amends notify forget {cursor.name.removeprefix(FOLDER)}"
    )


_BLANK: Final = Progress(position=0, target="", types=(), began=0)
_PLAIN: Final = {
    one.name: getattr(_BLANK, one.name) for one in fields(Progress) if one.name not in {"position", "types"}
}


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
    """Question of an entry to a person, by kind and id; None for an answer, and for what retention has removed."""
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
