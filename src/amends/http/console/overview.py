"""The first page: what runs, what waits for people, what went back, what needs attention, and the last 24 hours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.core.transitions import SagaStatus
from amends.core.words.values import OWN
from amends.evidence.drills import Scheduled, scheduled
from amends.http.console.visit import Visit, shown
from amends.journal.port.journal import PersonQuery, SagaQuery, SagaRow
from amends.text import counted

HOUR_MS: Final = 3_600_000
HOURS: Final = 24
MOST: Final = 1_000
"""So many sagas are counted; where there are more, the page says so."""
_PAGE: Final = 500
_HEIGHT: Final = 96
_SLOT: Final = 30
_KINDS: Final = ("good", "back", "bad", "running")
"""From the bottom of a bar to its top."""
_KIND_OF: Final = {
    SagaStatus.COMPLETED: "good",
    SagaStatus.ROLLED_BACK: "back",
    SagaStatus.MITIGATED: "back",
    SagaStatus.INCIDENT: "bad",
}
_GOING: Final = (SagaStatus.RUNNING, SagaStatus.ROLLING_BACK)


class BarPart(NamedTuple):
    kind: str
    y: float
    height: float


class Hour(NamedTuple):
    """Sagas that began in one hour. `x` is where its bar stands; `left` counts the hours from the first one."""

    begun_at: int
    x: float
    parts: tuple[BarPart, ...]
    counts: dict[str, int]
    total: int


def hours_of(rows: Iterable[SagaRow], now: int) -> tuple[Hour, ...]:
    """The last hours with what began in each, the current one last."""
    first = now - now % HOUR_MS - (HOURS - 1) * HOUR_MS
    found = [Counter[str]() for _ in range(HOURS)]
    for row in rows:
        place = (row.started_at - first) // HOUR_MS
        if 0 <= place < HOURS:
            found[place][_KIND_OF.get(row.status, "running")] += 1
    most = max(1, *(count.total() for count in found))
    hours: list[Hour] = []
    for place, count in enumerate(found):
        y, parts = float(_HEIGHT), list[BarPart]()
        for kind in _KINDS:
            height = _HEIGHT * count[kind] / most
            y -= height
            if count[kind]:
                parts.append(BarPart(kind, y, height))
        begun = first + place * HOUR_MS
        hours.append(Hour(begun, float(place * _SLOT), tuple(parts), dict(count), count.total()))
    return tuple(hours)


async def _overview(visit: Visit) -> Response:
    journal, now = visit.journal, visit.now
    day = now - now % HOUR_MS - (HOURS - 1) * HOUR_MS
    begun, is_whole = await _counted_sagas(visit, SagaQuery(started_from=day, without=OWN, limit=_PAGE))
    approvals = (await journal.approvals(PersonQuery(limit=5))).rows
    incidents = (await journal.incidents(PersonQuery(limit=5))).rows
    workers = await journal.workers()
    return await visit.show(
        "overview.html",
        day=day,
        hours=[(hour, words_of(hour)) for hour in hours_of(begun, now)],
        begun=len(begun),
        is_whole=is_whole,
        going=await _number(visit, SagaQuery(statuses=_GOING, without=OWN, limit=_PAGE)),
        went_back=await _number(
            visit,
            SagaQuery(
                statuses=(SagaStatus.ROLLED_BACK, SagaStatus.MITIGATED), ended_from=day, without=OWN, limit=_PAGE
            ),
        ),
        approvals=approvals,
        incidents=incidents,
        pauses=await visit.coordinator.paused(),
        missed=await missed(visit),
        living=sum(not row.is_gone for row in workers),
        is_new=not (await journal.sagas(SagaQuery(without=OWN, limit=1))).rows,
    )


async def missed(visit: Visit) -> list[Scheduled]:
    """The drills that the policy asks for and that nobody made in time."""
    every_s = (await visit.policies()).policy.drill_every_s
    if every_s is None:
        return []
    return [one for one in await scheduled(visit.journal) if one.is_missed(visit.now, every_s)]


async def _number(visit: Visit, query: SagaQuery) -> str:
    rows, is_whole = await _counted_sagas(visit, query)
    return str(len(rows)) if is_whole else f"{len(rows)}+"


async def _counted_sagas(visit: Visit, query: SagaQuery) -> tuple[list[SagaRow], bool]:
    """The newest that fit, and whether that is all of them."""
    found: list[SagaRow] = []
    cursor = None
    while True:
        page = await visit.journal.sagas(
            SagaQuery(
                statuses=query.statuses,
                started_from=query.started_from,
                ended_from=query.ended_from,
                without=query.without,
                before=cursor,
                limit=query.limit,
            )
        )
        found += page.rows
        cursor = page.cursor
        if cursor is None or len(found) >= MOST:
            return found, cursor is None


def words_of(hour: Hour) -> str:
    """An hour for whoever points at its bar."""
    names = {"good": "completed", "back": "rolled back", "bad": "in an incident", "running": "under way"}
    parts = ", ".join(f"{hour.counts[kind]} {names[kind]}" for kind in _KINDS if hour.counts.get(kind))
    return f"{counted(hour.total, 'saga')} began{f': {parts}' if parts else ''}"


def routes() -> list[BaseRoute]:
    return [shown("/", _overview)]
