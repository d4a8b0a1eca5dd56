"""A server behind the gateway: started or reached when it is first needed, and again when it has ended.

A call that was never sent has certainly not happened (NotDone); of one that was sent and not answered nobody knows
(ServerError). What a server answers is passed on as it came: it is not held to the schemas that the server itself gave.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol, Self, cast

import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel, ValidationError

from amends.errors import InputError, NotDone, ServerError
from amends.gateway.child import started
from amends.gateway.model import ServerPlan
from amends.logs import logger
from amends.secrets import Secret, leaves
from amends.source.marked import shown

Wire = dict[str, Any]
MOST_PAGES: Final = 100
MOST_TOOLS: Final = 4000
CONNECT_S: Final = 60.0
_LARGEST_SECRET: Final = 64 * 1024
_NOT_RUN: Final = frozenset({types.INVALID_PARAMS, types.METHOD_NOT_FOUND})
"""Errors of the protocol by which a server says that it has not run anything."""
_OURS: Final = "AMENDS_"
_log = logger("amends.gateway")


class _AsItCame(RootModel[dict[str, Any]]):
    """An answer with all that it says, held to no schema of the tool's."""


class Listener(Protocol):
    """The side that answers what a server asks in the middle of a call."""

    async def elicit(self, server: str, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData: ...

    async def changed(self, server: str, what: str) -> None:
        """A list of the server's has changed: its tools, resources or prompts."""
        ...


class _Watched:
    """A read stream that tells when it has ended."""

    def __init__(self, stream: Any, ended: asyncio.Event) -> None:  # noqa: ANN401 - a stream of the SDK's
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> object:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:  # noqa: ANN401 - as above
        return await self._stream.receive()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 - as above
        try:
            return await self._stream.__anext__()
        except BaseException:  # whatever ended it: it flies on
            self._ended.set()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._ended.set()
        await self._stream.__aexit__(*error)


class Upstream:
    """One server. Its connection belongs to a task of its own, which lives until the server or the gateway ends."""

    def __init__(self, plan: ServerPlan, asked: Listener) -> None:
        self.plan = plan
        self._asked = asked
        self._opened: asyncio.Future[Client] | None = None
        self._owner: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._has_ended = asyncio.Event()
        self._listed: dict[str, types.Tool] | None = None
        self._listing = asyncio.Lock()
        self._has_made_noise = False

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def is_listed(self) -> bool:
        """Whether its tools are known as they are now."""
        return self._listed is not None

    async def session(self) -> ClientSession:
        """The connection, made where there is none. Raises NotDone where it cannot be had."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._owner = asyncio.create_task(self._own(self._opened), name=f"server {self.name}")
        try:
            client = await asyncio.shield(self._opened)
        except ServerError as exc:
            raise NotDone(str(exc)) from None
        return client.session

    async def close(self) -> None:
        self._closing.set()
        if self._owner is not None:
            await asyncio.wait({self._owner}, timeout=10)
            self._owner.cancel()

    async def _own(self, opened: asyncio.Future[Client]) -> None:
        ended = self._has_ended = asyncio.Event()
        try:
            client = Client(
                self._transport(ended),
                mode="auto",
                cache=None,
                client_info=types.Implementation(name="amends", version="0.1"),
                elicitation_callback=self._elicit,
                message_handler=self._hear,
            )
            async with asyncio.timeout(CONNECT_S) as most, client:
                most.reschedule(None)
                opened.set_result(client)
                listening = asyncio.create_task(self._listen(client))
                try:
                    await _first_of(ended, self._closing)
                finally:
                    listening.cancel()
                    await asyncio.wait({listening})
        except BaseException as exc:  # a group of whatever, out of the transport, or a cancellation: all is told
            if not opened.done():
                opened.set_exception(ServerError(f"server {self.name} cannot be reached: {_words(exc)}"))
                opened.exception()  # it is told to whoever asks next; until then nobody may
            elif isinstance(exc, asyncio.CancelledError | KeyboardInterrupt):
                raise
            else:
                _log.warning("server %s: its connection ended: %s", self.name, _words(exc))
        finally:
            if self._opened is opened:
                self._opened = None
                self._listed = None

    @asynccontextmanager
    async def _transport(self, ended: asyncio.Event) -> AsyncGenerator[tuple[Any, Any]]:
        plan = self.plan
        if plan.url:
            http = create_mcp_http_client(headers=self._headers())
            async with http, streamable_http_client(plan.url, http_client=http) as (read, write):
                yield _Watched(read, ended), write
            return
        async with started(plan.command, self._env(), plan.cwd or None, ended) as streams:
            yield streams

    def _env(self) -> dict[str, str]:
        plan = self.plan
        given: dict[str, str] = {}
        if plan.whole_env:
            given = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        for name in plan.env:
            given[name] = Secret.env(name).reveal()
        return {**given, **(_variables(plan.env_file) if plan.env_file else {})}

    def _headers(self) -> dict[str, str]:
        return {
            name: Secret.env(word).reveal() if kind == "env" else read_secret(word)
            for name, (kind, word) in self.plan.headers.items()
        }

    # -- what the server says by itself -------------------------------------------------------------------------------

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        return await self._asked.elicit(self.name, params)

    async def _listen(self, client: Client) -> None:
        """Hear of changed lists in the newer era, where a client has to ask for that."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        try:
            listening = client.listen(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True)
            async with listening as events:
                async for event in events:
                    await self._hear(event)
        except (MCPError, RuntimeError, OSError) as exc:
            _log.debug("server %s tells of no changes: %s", self.name, exc)

    async def _hear(self, message: object) -> None:
        match message:
            case types.ToolListChangedNotification() | ToolsListChanged():
                self._listed = None
                await self._asked.changed(self.name, "tools")
            case types.ResourceListChangedNotification() | ResourcesListChanged():
                await self._asked.changed(self.name, "resources")
            case types.PromptListChangedNotification() | PromptsListChanged():
                await self._asked.changed(self.name, "prompts")
            case Exception():
                _log.log(
                    logging.DEBUG if self._has_made_noise else logging.WARNING, "server %s: %s", self.name, message
                )
                self._has_made_noise = True
            case _:
                pass

    # -- asking it ----------------------------------------------------------------------------------------------------

    async def tools(self) -> Mapping[str, types.Tool]:
        """All of its tools by name. Raises NotDone where the server cannot be reached."""
        async with self._listing:
            if self._listed is None:
                session = await self.session()
                self._listed = {one.name: one async for one in _pages(session)}
            return self._listed

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any],
        progress: ProgressFnT | None = None,
        responses: types.InputResponses | None = None,
        state: str | None = None,
    ) -> Wire:
        """Call a tool; gives the answer as it came. Raises NotDone or ServerError."""
        session = await self.session()
        try:
            asked = types.CallToolRequestParams(
                name=tool,
                arguments=dict(arguments),
                input_responses=responses,
                request_state=state,
                _meta=cast("Any", dict(meta)),
            )
            answer = await session.send_request(
                types.CallToolRequest(params=asked), _AsItCame, progress_callback=progress
            )
        except MCPError as exc:
            await self._ended()
            said = f"{self.name}.{tool}: {exc.error.message}"
            raise (NotDone if exc.error.code in _NOT_RUN else ServerError)(said) from None
        except ValidationError as exc:
            raise ServerError(f"{self.name}.{tool}: {_misfit(exc)}") from None
        except (OSError, RuntimeError, ValueError) as exc:
            await self._ended()
            raise ServerError(f"{self.name}.{tool}: {_words(exc)}") from exc
        return answer.root

    async def _ended(self) -> None:
        """Where the connection has broken off, wait until it is gone, so that the next call makes a new one."""
        if self._has_ended.is_set() and self._owner is not None:
            await asyncio.wait({self._owner}, timeout=CONNECT_S)


async def _pages(session: ClientSession) -> AsyncIterator[types.Tool]:
    cursor: str | None = None
    count = 0
    for _ in range(MOST_PAGES):
        try:
            page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        except (MCPError, ValueError) as exc:
            raise NotDone(f"its tools cannot be listed: {_words(exc)}") from None
        for tool in page.tools:
            count += 1
            if count > MOST_TOOLS:
                raise NotDone(f"it has more than {MOST_TOOLS} tools")
            yield tool
        cursor = page.next_cursor
        if cursor is None:
            return
    raise NotDone(f"its list of tools has more than {MOST_PAGES} pages")


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(one.wait()) for one in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()


def _misfit(exc: ValidationError) -> str:
    """Where an answer is none of the protocol's; not what stands there."""
    first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"its answer is none of the protocol's: {'.'.join(map(str, first['loc']))}: {first['msg']}"


def _words(exc: BaseException) -> str:
    one = next(leaves(exc), exc)
    if isinstance(one, TimeoutError):
        return f"it did not answer in {CONNECT_S:g} s"
    return str(one) or type(one).__name__


def read_secret(path: str) -> str:
    """A credential from a file, known from now on as a secret. Raises InputError."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return Secret(file.read(_LARGEST_SECRET).strip()).reveal()
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(
            f"the credential {shown(path)} cannot be read: {getattr(exc, 'strerror', None) or exc}"
        ) from None


def _variables(path: str) -> dict[str, str]:
    """Lines of NAME=value. Raises InputError."""
    found: dict[str, str] = {}
    for line in read_secret(path).split("\n"):
        name, equals, value = line.strip().partition("=")
        if name and not name.startswith("#"):
            if not equals:
                raise InputError(f"{path}: a line without = in it; write NAME=value")
            found[name.strip()] = Secret(value.strip().strip("\"'")).reveal()
    return found
