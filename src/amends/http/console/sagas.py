"""The list of sagas: filtered, searched, page by page. A page costs the same, however many sagas there are."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Topic, key_of
from amends.core.words.values import OWN
from amends.errors import InputError
from amends.http.console.visit import Visit, shown
from amends.journal.port.journal import SagaPage, SagaQuery, SagaRow
from amends.operate.fields import driven, is_left
from amends.operate.reading import history
from amends.runtime.declare.names import checked_status

PAGE: Final = 50
LOOKED_THROUGH: Final = 300
"""Sagas in which a key is looked for, the newest first: no index has the keys of steps."""
_KEY: Final = re.compile(r"[0-9a-f]{32}")
SINCE: Final = {"1h": ("the last hour", 3_600_000), "24h": ("the last 24 hours", 86_400_000)} | {
    "7d": ("the last 7 days", 7 * 86_400_000),
    "30d": ("the last 30 days", 30 * 86_400_000),
}


async def _list(visit: Visit) -> Response:
    asked, told = visit.asked, ""
    query = _query(visit)
    if _KEY.fullmatch(asked["q"].strip()):
        page = SagaPage(tuple(await _by_key(visit, query, asked["q"].strip())), None)
        told = f"Sagas with a step of this key, among the newest {LOOKED_THROUGH} that fit."
    else:
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
        is_filtered=any(asked[name] for name in ("q", "status", "definition", "topic", "env", "since", "parent")),
    )


def _query(visit: Visit) -> SagaQuery:
    asked = visit.asked
    words, labels, starts_with = asked["q"].split(), list[tuple[str, str]](), ""
    for word in words:
        name, is_label, value = word.partition("=")
        if is_label and name:
            labels.append((name, value))
        elif starts_with:
            raise InputError("search for one id, for labels written name=value, or for a key; all words have to fit")
        else:
            starts_with = "" if _KEY.fullmatch(word) else word
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
        started_from=visit.now - SINCE[asked["since"]][1] if asked["since"] else None,
        without=() if asked["definition"].strip() else OWN,
        before=asked["page"] or None,
        limit=PAGE,
    )


async def _by_key(visit: Visit, query: SagaQuery, key: str) -> list[SagaRow]:
    page = await visit.journal.sagas(replace(query, limit=LOOKED_THROUGH))
    return [row for row in page.rows if not row.pruned and await _has_key(visit, row, key)]


async def _has_key(visit: Visit, row: SagaRow, key: str) -> bool:
    saga, _ = await history(visit.journal, row.id)
    return any(
        key in {step.key, *(key_of(row.id, step.id, Topic(step.topic), phase) for phase in ("do", "undo", "mitigate"))}
        for step in saga.steps.values()
    )


def routes() -> list[BaseRoute]:
    return [shown("/sagas", _list)]
