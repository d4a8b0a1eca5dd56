"""Entries as a stream of events, as browsers and programs follow them; `Last-Event-ID` goes on where one broke off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from amends.clock import SystemClock
from amends.core.words.values import SagaId
from amends.errors import InputError
from amends.http.api.operations import At, Operation, Sent, get
from amends.http.api.sagas import told
from amends.http.api.shapes import TEXT
from amends.journal.port.journal import Logged
from amends.operate.fields import entry_fields

STREAM_TYPE: Final = "text/event-stream"
KEEP_ALIVE_S: Final = 15.0
MOST_STREAMS: Final = 1000
_PACE_S: Final = 0.1
"""Between two writes to one stream: what comes meanwhile goes out together, or hundreds of streams are nothing else."""
_LONGEST: Final = 18


async def stream_events(at: At, *, saga: str | None = None, after: int | None = None) -> object:
    """Stream entries as server-sent events: of all sagas, or of one.

    Each has the position in the journal as its id, the entry's name as its event, and the entry as its data. Sent back
    as `Last-Event-ID`, or as `after`, an id goes on behind it; without one, the stream begins now.
    """
    if saga is not None:
        await told(at, saga)
    last = at.request.headers.get("last-event-id", "")
    if last:
        after = _position(last)
    if after is not None and after < 0:
        raise InputError(f"after is {after}; positions are counted from 1")
    if at.served.feed.followers >= MOST_STREAMS:
        raise InputError(f"{MOST_STREAMS} streams are open, and no more are; close one, or ask another server")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Sent(_told(at, None if saga is None else SagaId(saga), after), STREAM_TYPE, headers)


def _position(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST):
        raise InputError(f"Last-Event-ID {text[:80]!r} is not the id of an event; send one as it came")
    return int(text)


async def _told(at: At, saga: SagaId | None, after: int | None) -> AsyncGenerator[str]:
    yield ": amends\n\n"
    feed, clock = at.served.feed, SystemClock()
    async with aclosing(feed.follow_together(after)) as several:
        coming: asyncio.Future[list[Logged]] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(several))
                done, _ = await asyncio.wait({coming}, timeout=KEEP_ALIVE_S)
                if not done:
                    yield ": still here\n\n"
                    continue
                try:
                    together = coming.result()
                except StopAsyncIteration:
                    return
                coming = None
                said = "".join(feed.text_of(one, event) for one in together if saga in {None, one.entry.saga})
                if said:
                    yield said
                    await clock.sleep(_PACE_S)
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})


def event(logged: Logged) -> str:
    data = json.dumps(entry_fields(logged.entry), separators=(",", ":"))
    return f"id: {logged.position}\nevent: {logged.entry.name}\ndata: {data}\n\n"


def operations() -> tuple[Operation, ...]:
    return (get("/events", stream_events, TEXT, media_type=STREAM_TYPE),)
