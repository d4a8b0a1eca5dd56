"""Idempotency keys: a request that changes something is one request, however often it is sent.

Each POST comes with a key of its sender's. Before anything is done the key is claimed, and once it is done the answer
is kept with it; both are on disk, beside the journal's entries, so a server that is killed forgets neither.

| the key, of this sender               | what the same request gets                                                 |
|---------------------------------------|----------------------------------------------------------------------------|
| is not known                          | it is carried out                                                          |
| has an answer                         | that answer again, with `Idempotent-Replayed: true`                        |
| came with another request             | 422                                                                        |
| is being carried out                  | 409: ask again                                                             |
| was claimed, and its server is gone   | settled by what is on record: either that entry is there, or it is done now |

To settle one, the journal is read from where it was when the key was claimed: an entry of that kind, by that sender and
with what they sent, is what the request has left. Requests that are alike in all but their key are carried out one
after the other, and each counts one such entry, so that two equal signals stay two. While another server carries one
out, those are not settled that a killed server has left: what comes on record meanwhile may be of either.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from starlette.responses import Response

from amends.clock import Clock
from amends.core.words.values import Json, canonical
from amends.dataclass import dataclass
from amends.errors import JournalError
from amends.http.problems import problem
from amends.journal.port.journal import Cursor, Journal

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotent-Replayed"
LONGEST_KEY: Final = 200
KEPT_S: Final = 24 * 3600.0
"""So long a key is known at least, from its claim on."""
LARGEST_KEPT: Final = 256 * 1024
"""An answer that is larger is made anew where it is asked for again."""
_FOLDER: Final = "amends.requests/"
_SHARDS: Final = 256
_UNKEPT: Final = frozenset({401, 403})
"""Whoever was not let do it may ask again with the same key once they are: nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, as its key speaks of it. `print` is of all that it asks for, and of who asks."""

    key: str
    caller: str
    print: str

    @property
    def name(self) -> str:
        return _FOLDER + hashlib.sha256(f"{self.caller}\n{self.key}".encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The facts on disk about a key. `position` is where the journal was then; `status` 0: nobody has answered yet."""

    print: str
    at: int
    worker: str
    position: int
    status: int = 0
    body: str | None = None
    media_type: str = ""
    location: str = ""

    def spelled(self) -> str:
        fields = {name: getattr(self, name) for name in ("print", "at", "worker", "status", "body", "media_type")}
        return json.dumps({**fields, "location": self.location}, separators=(",", ":"))


Answer = Callable[[], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWays:
    """The ways in which a request may have to be answered."""

    carry_out: Answer
    settle: Callable[[int, int], Awaitable[Response]]
    """Carries it out unless the journal says that it was: past a position, beside so many equal ones."""
    again: Answer
    """Makes an answer anew that was not kept."""
    is_secret: bool = False
    """The answer is given once, and kept nowhere."""


class Keys:
    """The keys of one server. `sweep` forgets those whose time is over."""

    def __init__(self, journal: Journal, clock: Clock, worker: str) -> None:
        self._journal = journal
        self._clock = clock
        self._worker = worker
        self._under_way: dict[str, str] = {}
        self._alike: dict[str, tuple[asyncio.Lock, list[None]]] = {}

    async def answer(self, request: Request, ways: AnswerWays) -> Response:
        """The one answer to a request."""
        name = request.name
        under_way = self._under_way.get(name)
        if under_way is not None:
            return _busy() if under_way == request.print else _other(request)
        self._under_way[name] = request.print
        try:
            async with self._one_of(request.print):
                return await self._answer(request, ways)
        finally:
            del self._under_way[name]

    @asynccontextmanager
    async def _one_of(self, fingerprint: str) -> AsyncGenerator[None]:
        """Requests that are alike in all but their key, one after the other."""
        lock, users = self._alike.setdefault(fingerprint, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                self._alike.pop(fingerprint, None)

    async def _answer(self, request: Request, ways: AnswerWays) -> Response:
        while True:
            cursor, known = await self._read(request.name)
            if known is not None and self._is_over(known):
                known = None
            if known is not None and known.print != request.print:
                return _other(request)
            if known is not None and known.status:
                return await _replayed(known, ways.again)
            if known is not None and known.worker != self._worker and await self._lives(known.worker):
                return _busy()
            position = (await self._journal.tree()).size
            claim = Known(
                print=request.print,
                at=self._clock.now(),
                worker=self._worker,
                position=position if known is None else known.position,
            )
            if not await self._write(request.name, claim, since=cursor):
                continue  # another server was faster
            is_settled = False
            try:
                if known is None:
                    response = await ways.carry_out()
                elif await self._is_alike_elsewhere(claim):
                    return _busy()  # what is on record may be of that one, which has no answer yet
                else:
                    response = await ways.settle(known.position, await self._alike_since(claim))
                is_settled = response.status_code < 500
            finally:
                if not is_settled:
                    await self._let_go(request.name, claim)
            if is_settled:
                await self._keep(request.name, claim, response, is_secret=ways.is_secret)
            return response

    async def _let_go(self, name: str, claim: Known) -> None:
        """Let a claim go: what went wrong with us settles nothing, and whoever asks again has it settled."""
        with suppress(JournalError):  # as long as this server lives, only it can settle it then
            await self._write(name, replace(claim, worker=""), since=_cursor(name, claim))

    async def _keep(self, name: str, claim: Known, response: Response, *, is_secret: bool) -> None:
        since = _cursor(name, claim)
        if response.status_code in _UNKEPT:
            await self._journal.move_cursor(name, 0, since=since)
            return
        body = bytes(response.body)
        is_kept = len(body) <= LARGEST_KEPT and not (is_secret and response.status_code < 300)
        answered = replace(
            claim,
            position=(await self._journal.tree()).size,
            status=response.status_code,
            body=body.decode() if is_kept else None,
            media_type=response.media_type or "",
            location=response.headers.get("location", ""),
        )
        await self._write(name, answered, since=since)

    async def _alike_since(self, claim: Known) -> int:
        """How many requests that are alike were answered since then: each of them has left an entry of its own."""
        found = await self._journal.cursors(_FOLDER)
        known = (_read(one) for one in found)
        return sum(one.print == claim.print and 0 < one.status < 400 and one.position > claim.position for one in known)

    async def _is_alike_elsewhere(self, claim: Known) -> bool:
        """Whether another server, which lives, is carrying out a request that is alike in all but its key."""
        known = [_read(one) for one in await self._journal.cursors(_FOLDER)]
        at_it = {one.worker for one in known if one.print == claim.print and not one.status} - {"", self._worker}
        return any([await self._lives(worker) for worker in sorted(at_it)])

    async def _read(self, name: str) -> tuple[Cursor, Known | None]:
        found = next(iter(await self._journal.cursors(name)), None)
        return (Cursor(name), None) if found is None else (found, _read(found))

    async def _write(self, name: str, known: Known, *, since: Cursor) -> bool:
        return await self._journal.move_cursor(name, known.position, note=known.spelled(), since=since)

    async def _lives(self, worker: str) -> bool:
        return any(row.name == worker and not row.is_gone for row in await self._journal.workers())

    def _is_over(self, known: Known) -> bool:
        return self._clock.now() > known.at + round(KEPT_S * 1000)

    async def sweep(self) -> None:
        """Forget keys whose time is over, a part of them after the other, until cancelled."""
        while True:
            for shard in range(_SHARDS):
                await self._clock.sleep(KEPT_S / _SHARDS)
                await self.forget(f"{shard:02x}")

    async def forget(self, shard: str = "") -> int:
        """Forget those whose time is over, of the names that begin so; how many."""
        found = [one for one in await self._journal.cursors(_FOLDER + shard) if self._is_over(_read(one))]
        return sum([await self._journal.move_cursor(one.name, 0, since=one) for one in found])


def print_of(method: str, path: str, given: Json, caller: str) -> str:
    """The fingerprint of a request: what is asked for, how, and by whom."""
    text = canonical([method, path, given, caller], what="the request")
    return hashlib.sha256(text.encode()).hexdigest()


def _cursor(name: str, known: Known) -> Cursor:
    return Cursor(name, known.position, known.spelled())


def _read(cursor: Cursor) -> Known:
    fields: dict[str, Any] = json.loads(cursor.note)
    return Known(position=cursor.position, **fields)


async def _replayed(known: Known, again: Answer) -> Response:
    headers = {REPLAYED: "true"} | ({"Location": known.location} if known.location else {})
    if known.body is None:
        response = await again()
        response.headers[REPLAYED] = "true"
        return response
    return Response(known.body, known.status, headers, known.media_type or None)


def _busy() -> Response:
    return problem(
        409,
        "a request with this key is being carried out; ask again with the same key, which gives its answer",
        kind="urn:amends:RequestInFlight",
        headers={"Retry-After": "1"},
    )


def _other(request: Request) -> Response:
    return problem(
        422,
        f"{HEADER} {request.key!r} came with another request before; give each request a key of its own",
        kind="urn:amends:KeyUsed",
    )
