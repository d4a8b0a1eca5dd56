"""The list of sagas: filtered, searched, page by page. A page costs the same, however many sagas there are."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.core.transitions import SagaStatus
from amends.core.words.values import OWN
from amends.errors import InputError
from amends.http.console.filters import FIELDS, filters_of, query_of
from amends.http.console.visit import Visit, shown
from amends.journal.port.journal import Journal, SagaQuery
from amends.operate.fields import driven, is_left
from amends.runtime.declare.names import checked_status

PAGE: Final = 50
PATIENCE_S: Final = 1.5
"""How long a page that looks for a key waits until all of them are noted."""
_KEY: Final = re.compile(r"[0-9a-f]{32}")
SINCE: Final = {"1h": ("the last hour", 3_600_000), "24h": ("the last 24 hours", 86_400_000)} | {
    "7d": ("the last 7 days", 7 * 86_400_000),
    "30d": ("the last 30 days", 30 * 86_400_000),
}


async def _list(visit: Visit) -> Response:
    asked, told = visit.asked, ""
    query = _query(visit)
    if query.key is not None and not await _are_keys_noted(visit):
        told = "The keys of this journal are still being noted; load the page again to look through more of it."
    page = await visit.journal.sagas(query)
    found = await driven(visit.journal, page.rows)
    return await visit.show(
        "sagas.html",
        rows=[(row, is_left(row, driver)) for row, driver in found],
        cursor=page.cursor,
        asked=asked,
        statuses=[str(status) for status in SagaStatus],
        since=SINCE,
        searched=told,
        is_filtered=any(asked[name] for name in FIELDS),
        query=query_of(visit.request.url.query),
        saved=await filters_of(visit.journal, visit.who),
    )


def _query(visit: Visit) -> SagaQuery:
    asked = visit.asked
    words, labels, starts_with, key = asked["q"].split(), list[tuple[str, str]](), "", None
    for word in words:
        name, is_label, value = word.partition("=")
        if is_label and name:
            labels.append((name, value))
        elif _KEY.fullmatch(word) and key is None:
            key = word
        elif starts_with or key is not None:
            raise InputError("search for one id, for labels written name=value, or for a key; all words have to fit")
        else:
            starts_with = word
    if asked["since"] and asked["since"] not in SINCE:
        raise InputError(f"since={asked['since']} is not offered; choose one of {', '.join(SINCE)}")
    statuses = tuple(checked_status(name) for name in asked.all("status") if name)
    return SagaQuery(
        statuses=statuses or None,
        definition=asked["definition"].strip() or None,
        topic=asked["topic"].strip() or None,
        env=asked["env"].strip() or None,
        labels=tuple(labels),
        starts_with=starts_with,
        key=key,
        started_from=visit.now - SINCE[asked["since"]][1] if asked["since"] else None,
        without=() if asked["definition"].strip() else OWN,
        before=asked["page"] or None,
        limit=PAGE,
    )


async def _are_keys_noted(visit: Visit) -> bool:
    """Have keys noted that came since somebody looked for one; whether that came to its end in time.

    It goes on after the page is sent: whoever loads it again finds more.
    """
    noting = visit.console.noting
    if not noting or noting[0].done():
        noting[:] = [asyncio.ensure_future(_note_keys(visit.journal))]
    done, _ = await asyncio.wait(noting, timeout=PATIENCE_S)
    for one in done:
        one.result()
    return bool(done)


async def _note_keys(journal: Journal) -> None:
    while not await journal.note_keys():
        pass


def routes() -> list[BaseRoute]:
    return [shown("/sagas", _list)]
