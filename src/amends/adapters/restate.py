"""Restate drives sagas: a virtual object for each, by its id, whose one handler drives it for a stretch of work.

    app = saga_app(Coordinator.open("postgresql://…"), ingress="http://restate:8080")       # hypercorn worker:app

Restate calls `drive` once for each stretch and never twice at once for one saga; it keeps what comes meanwhile in line.
When the saga wants to be driven again later, the handler sends itself a delayed call, which is a durable timer. A timer
that has been overtaken finds another time in the object's state, and does nothing. A worker that dies in the middle
is called again, or another one: the journal says what has happened, and the handler's run is as good the second time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx2
import restate
from restate.retry_policy import InvocationRetryPolicy

from amends.adapters.engine import Opened, SagaEngine, driven
from amends.bootstrap import Coordinator
from amends.errors import EngineError, InputError, UnknownSagaError

OBJECT: Final = "amends"
"""The name of the virtual object, where none is given."""

_HOLD: Final = timedelta(days=1)
"""For how long one stretch may be silent: an action that takes hours is no reason to call it a second time."""
_RETRIES: Final = InvocationRetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    exponentiation_factor=2.0,
    max_interval=timedelta(seconds=10),
    max_attempts=1_000_000,
)
_TIMEOUT_S: Final = 10.0
_HANG_UP_S: Final = 0.05


class Ingress:
    """The side of Restate that takes calls: here it is told that a saga is to be driven.

    `token` is for a server that asks for one, as Restate's cloud does; else RESTATE_AUTH_TOKEN. Raises InputError.
    """

    def __init__(self, url: str, *, name: str = OBJECT, token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InputError(f"{url!r} is no address of Restate's ingress: write http://HOST:8080")
        token = token or os.environ.get("RESTATE_AUTH_TOKEN")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.url, self._name = url.rstrip("/"), name
        self._client = httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT_S)

    async def wake(self, saga: str) -> None:
        """Have it driven, once Restate has taken note of that. Raises EngineError."""
        path = f"/{quote(self._name, safe='')}/{quote(saga, safe='')}/drive/send"
        try:
            answer = await self._client.post(self.url + path, json=None)
        except httpx2.HTTPError as exc:
            raise EngineError(f"Restate at {self.url} does not answer: {str(exc) or type(exc).__name__}") from None
        if not answer.is_success:
            said = " ".join(answer.text.split())[:200]
            raise EngineError(f"Restate at {self.url} did not take saga {saga}: {answer.status_code} {said}")

    async def close(self) -> None:
        await self._client.aclose()


class RestateEngine(SagaEngine):
    """Restate beside a coordinator: starts sagas by it, wakes them, and has the virtual object that drives them here.

    `object` is for an endpoint of your own, beside other services; `saga_app` makes one that has nothing else.
    """

    def __init__(self, coordinator: Coordinator, ingress: str, *, name: str = OBJECT) -> None:
        super().__init__(coordinator)
        self.ingress = Ingress(ingress, name=name)
        self.object = restate.VirtualObject(
            name,
            inactivity_timeout=_HOLD,
            abort_timeout=_HOLD,
            journal_retention=timedelta(0),
            invocation_retry_policy=_RETRIES,
        )
        self._handler = self.object.handler(name="drive")(self._drive)

    async def _drive(self, ctx: restate.ObjectContext, timer: int | None) -> None:
        """`timer` is the time for which a timer was set; None for whoever has something new to say."""
        set_for = await ctx.get("wake_at", type_hint=int)
        if timer is not None and timer != set_for:
            return
        wake_at, wake_s = await ctx.run_typed("drive", self._stretch, saga=ctx.key())
        if wake_at is None:
            ctx.clear("wake_at")
        elif timer is not None or wake_at != set_for:
            ctx.set("wake_at", wake_at)
            after = timedelta(seconds=wake_s)
            ctx.object_send(self._handler, key=ctx.key(), arg=wake_at, send_delay=after)

    async def _stretch(self, saga: str) -> list[Any]:
        try:
            stretch = await driven(self.coordinator, saga)
        except UnknownSagaError as exc:  # nobody will ever know more
            raise restate.TerminalError(str(exc), status_code=404) from None
        return [stretch.wake_at, stretch.wake_s]

    async def wake(self, saga: str) -> None:
        await self.ingress.wake(saga)

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[RestateEngine]:
        """While this lasts, the coordinator looks after what is due: around the server that serves `object`."""
        looking = asyncio.ensure_future(self.look_after())
        try:
            yield self
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
            await self.ingress.close()


def saga_app(opened: Opened, *, ingress: str, name: str = OBJECT, identity_keys: Sequence[str] = ()) -> Any:
    """An ASGI app for a server that speaks HTTP/2 without TLS, as hypercorn: one worker that Restate calls.

    The coordinator is opened when the server starts and closed when it ends. `identity_keys` are those of Restate's
    server: with them, calls of anybody else are refused.
    """
    ready: list[Any] = []

    async def lifespan(receive: Any, send: Any) -> None:
        await receive()
        async with opened as coordinator, RestateEngine(coordinator, ingress, name=name).at_work() as engine:
            ready.append(restate.app([engine.object], identity_keys=list(identity_keys)))
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await (lifespan(receive, send) if scope["type"] == "lifespan" else _answered(ready[0](scope, receive, send)))

    return app


async def _answered(call: Coroutine[Any, Any, None]) -> None:
    """Answer a call. A server that ends stops it once; Restate's SDK takes that for its handler's end, and then waits
    for Restate to hang up, which does not know that anybody ends.
    """
    answering = asyncio.ensure_future(call)
    try:
        await asyncio.shield(answering)
    except asyncio.CancelledError:
        while not answering.done():
            answering.cancel()
            await asyncio.wait([answering], timeout=_HANG_UP_S)
        raise
