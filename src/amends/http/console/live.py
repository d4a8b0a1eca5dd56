"""News for pages that are open: that something was put on record, and of which saga. What it is, the page asks for.

A page never changes under somebody's hands because of it: see `console.js`. A stream ends with its session.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute

from amends.errors import InputError
from amends.http.console.visit import Visit, shown
from amends.journal.port.journal import Logged

ALIVE_S: Final = 15.0
MOST_STREAMS: Final = 1_000
_LONGEST: Final = 15


async def _stream(visit: Visit) -> Response:
    if visit.served.feed.followers >= MOST_STREAMS:
        raise InputError(f"{MOST_STREAMS} pages follow the journal, and no more are told of news; load the page again")
    headers = {"x-accel-buffering": "no"}
    last = visit.request.headers.get("last-event-id", "") or visit.asked["after"]
    after = int(last) if last.isascii() and last.isdecimal() and len(last) <= _LONGEST else None
    return StreamingResponse(_news(visit, visit.asked["saga"], after), media_type="text/event-stream", headers=headers)


async def _news(visit: Visit, saga: str, after: int | None) -> AsyncGenerator[str]:
    yield ": amends\n\n"
    async with aclosing(visit.served.feed.follow(after)) as entries:
        coming: asyncio.Future[Logged] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(entries))
                done, _ = await asyncio.wait({coming}, timeout=ALIVE_S)
                if not await visit.console.logins.lasts(visit.login):
                    return
                if not done:
                    yield ": still here\n\n"
                    continue
                try:
                    logged = coming.result()
                except StopAsyncIteration:
                    return
                coming = None
                if saga in {"", logged.entry.saga}:
                    yield _event(logged)
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})


def _event(logged: Logged) -> str:
    data = json.dumps({"saga": logged.entry.saga, "name": logged.entry.name}, separators=(",", ":"))
    return f"id: {logged.position}\ndata: {data}\n\n"


def routes() -> list[BaseRoute]:
    return [shown("/news", _stream)]
