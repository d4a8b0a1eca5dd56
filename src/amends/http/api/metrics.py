"""Metrics for Prometheus, as text: what waits for people, what is under way, what came to the journal since start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Protocol

from starlette.responses import Response

from amends.core.transitions import SagaStatus
from amends.core.words.values import OWN
from amends.http.api.operations import At, Operation, get
from amends.http.api.shapes import TEXT
from amends.journal.port.journal import PersonQuery, SagaQuery

TEXT_TYPE: Final = "text/plain; version=0.0.4"
_UNFINISHED: Final = (
    SagaStatus.RUNNING,
    SagaStatus.WAITING,
    SagaStatus.ROLLING_BACK,
    SagaStatus.PAUSED,
    SagaStatus.INCIDENT,
)
_PAGE: Final = 500
_MOST: Final = 20_000
"""So many are counted; where there are more, the gauge stands still at that."""


class _Page(Protocol):
    @property
    def rows(self) -> tuple[object, ...]: ...

    @property
    def cursor(self) -> str | None: ...


async def show_metrics(at: At) -> object:
    """Show metrics as Prometheus reads them."""
    journal, feed = at.journal, at.served.feed

    def sagas(status: SagaStatus) -> Callable[[str | None], Awaitable[_Page]]:
        return lambda cursor: journal.sagas(SagaQuery(statuses=(status,), without=OWN, before=cursor, limit=_PAGE))

    statuses = {f'status="{status}"': await _count(sagas(status)) for status in _UNFINISHED}
    approvals = await _count(lambda cursor: journal.approvals(PersonQuery(after=cursor, limit=_PAGE)))
    incidents = await _count(lambda cursor: journal.incidents(PersonQuery(after=cursor, limit=_PAGE)))
    workers = await journal.workers()
    gone = sum(row.is_gone for row in workers)
    names = {f'name="{name}"': count for name, count in sorted(feed.counts.items())}
    lines = [
        *_metric("amends_sagas", "gauge", "Sagas that are not over, by status.", statuses),
        *_metric("amends_approvals_open", "gauge", "Approvals that people are asked for.", {"": approvals}),
        *_metric("amends_incidents_open", "gauge", "Incidents that need a person.", {"": incidents}),
        *_metric(
            "amends_workers",
            "gauge",
            "Processes that drive sagas.",
            {'state="living"': len(workers) - gone, 'state="gone"': gone},
        ),
        *_metric("amends_journal_position", "gauge", "Entries of the journal, over all sagas.", {"": feed.position}),
        *_metric("amends_entries_total", "counter", "Entries since this server began, by name.", names),
        *_metric("amends_event_streams", "gauge", "Streams of events that are open.", {"": feed.followers}),
    ]
    return Response("\n".join(lines) + "\n", media_type=TEXT_TYPE)


async def _count(ask: Callable[[str | None], Awaitable[_Page]]) -> int:
    count, cursor = 0, None
    while True:
        page = await ask(cursor)
        count += len(page.rows)
        cursor = page.cursor
        if cursor is None or count >= _MOST:
            return count


def _metric(name: str, kind: str, about: str, values: Mapping[str, int]) -> Iterable[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"


def operations() -> tuple[Operation, ...]:
    return (get("/metrics", show_metrics, TEXT, media_type="text/plain"),)
