"""Sagas over HTTP: listed and shown."""

from __future__ import annotations

from typing import Final, Literal

from amends.core.words.values import OWN, SagaId
from amends.errors import InputError
from amends.http.api.operations import At, Operation, get
from amends.http.api.shapes import ANY, TEXT, WHOLE, many, maybe, page, record, shape
from amends.journal.port.journal import Entry, SagaQuery, SagaRow
from amends.operate.fields import driven, entry_fields, saga_fields
from amends.operate.reading import unknown
from amends.runtime.declare.names import checked_status
from amends.runtime.values.schema import Schema

MOST: Final = 500
_ENTRIES: Final = 1000
Status = Literal["running", "waiting", "rolling_back", "completed", "rolled_back", "mitigated", "incident", "paused"]
_DRIVER: Final = record(state=TEXT, worker=maybe(TEXT), pid=maybe(WHOLE), until_at=maybe(WHOLE))
SAGA: Final[Schema] = shape(SagaRow, driver=maybe(_DRIVER))
ENTRY: Final = record(saga=TEXT, number=WHOLE, at=WHOLE, name=TEXT, body=ANY, hash=TEXT)


async def list_sagas(  # noqa: PLR0913 - one for each filter
    at: At,
    *,
    status: list[Status] | None = None,
    definition: str | None = None,
    topic: str | None = None,
    env: str | None = None,
    parent: str | None = None,
    label: list[str] | None = None,
    started_from: int | None = None,
    started_until: int | None = None,
    ended_from: int | None = None,
    ended_until: int | None = None,
    limit: int = 50,
    page: str | None = None,
) -> object:
    """List sagas, newest first.

    A label is written name=value; given several times: with all of them. Times are milliseconds of UTC, from one on,
    until before the other. `next` of a page is `page` of the one after it.
    """
    found = await at.journal.sagas(
        SagaQuery(
            statuses=None if status is None else tuple(map(checked_status, status)),
            without=OWN if definition is None else (),
            definition=definition,
            topic=topic,
            env=env,
            parent=None if parent is None else SagaId(parent),
            labels=tuple(map(_label, label or ())),
            started_from=started_from,
            started_until=started_until,
            ended_from=ended_from,
            ended_until=ended_until,
            before=page,
            limit=checked_limit(limit),
        )
    )
    rows = await driven(at.journal, found.rows)
    return {"items": [saga_fields(row, driver) for row, driver in rows], "next": found.cursor}


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= MOST:
        raise InputError(f"limit is {limit}; a page has 1 to {MOST}")
    return limit


def _label(given: str) -> tuple[str, str]:
    name, is_given, value = given.partition("=")
    if not name or not is_given:
        raise InputError(f"{given[:80]!r} is no label with its value; write label=tenant=acme")
    return name, value


async def show_saga(at: At, saga: str) -> object:
    """Show one saga: where it stands, who drives it, and what waits for people."""
    return await told(at, saga)


async def told(at: At, saga: str) -> dict[str, object]:
    """One saga, for whoever asks about it or has just changed it. Raises UnknownSagaError."""
    row = await at.journal.saga(SagaId(saga))
    if row is None:
        raise await unknown(at.journal, saga)
    ((row, driver),) = await driven(at.journal, (row,))
    return saga_fields(row, driver)


async def list_entries(at: At, saga: str, *, after: int = 0, limit: int = _ENTRIES) -> object:
    """List the entries of one saga, oldest first: everything that happened.

    `next` is the number to go on after.
    """
    await told(at, saga)
    if not 1 <= limit <= _ENTRIES:
        raise InputError(f"limit is {limit}; a page has 1 to {_ENTRIES}")
    if after < 0:
        raise InputError(f"after is {after}; entries are numbered from 1")
    items: list[object] = []
    last: Entry | None = None
    async for entry in at.journal.read(SagaId(saga), after=after):
        if len(items) == limit:
            break
        items.append(entry_fields(entry))
        last = entry
    else:
        last = None
    return {"items": items, "next": None if last is None else last.number}


def operations() -> tuple[Operation, ...]:
    entries = record(items=many(ENTRY), next=maybe(WHOLE))
    return (
        get("/sagas", list_sagas, page(SAGA)),
        get("/sagas/{saga}", show_saga, SAGA),
        get("/sagas/{saga}/entries", list_entries, entries),
    )
