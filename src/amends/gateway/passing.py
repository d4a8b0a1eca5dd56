"""Passing on what is neither a tool nor an act: resources, prompts, completions, and news of changed lists.

Nothing of it is judged or on record: it is read, and changes nothing. Where several servers are there, lists are put
together; a resource is read from the server that lists it, else from the first that has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from amends.errors import NotDone
from amends.gateway.topics import shown_names
from amends.gateway.upstream import MOST_PAGES, Upstream
from amends.logs import logger

Context = ServerRequestContext[Any, Any]
Item = TypeVar("Item")
_NOT_FOUND: Final = types.INVALID_PARAMS
_log = logger("amends.gateway")


class Passing:
    """Resources and prompts of all servers, as one server's."""

    def __init__(self, upstreams: Mapping[str, Upstream]) -> None:
        self._upstreams = upstreams
        self._of_resource: dict[str, str] = {}
        self._prompts: dict[str, tuple[str, str]] = {}

    async def list_resources(self, ctx: Context, params: object) -> types.ListResourcesResult:
        found: list[types.Resource] = []
        for name, session in await self._sessions("resources"):
            listed = await _all(partial(_resources, session))
            self._of_resource |= {str(one.uri): name for one in listed}
            found += listed
        return types.ListResourcesResult(resources=found)

    async def list_templates(self, ctx: Context, params: object) -> types.ListResourceTemplatesResult:
        found: list[types.ResourceTemplate] = []
        for _, session in await self._sessions("resources"):
            found += await _all(partial(_templates, session))
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        sessions = await self._sessions("resources")
        owner = self._of_resource.get(str(params.uri))
        ordered = sorted(sessions, key=lambda one: one[0] != owner)
        error = MCPError(code=_NOT_FOUND, message=f"no server here has the resource {params.uri}")
        for _, session in ordered:
            try:
                return await session.read_resource(
                    params.uri,
                    input_responses=params.input_responses,
                    request_state=params.request_state,
                    allow_input_required=True,
                )
            except MCPError as exc:
                error = exc
        raise error

    async def list_prompts(self, ctx: Context, params: object) -> types.ListPromptsResult:
        found: dict[tuple[str, str], types.Prompt] = {}
        for name, session in await self._sessions("prompts"):
            listed = await _all(partial(_prompts, session))
            found |= {(name, one.name): one for one in listed}
        self._prompts = shown_names(found)
        shown = [found[pair].model_copy(update={"name": name}) for name, pair in self._prompts.items()]
        return types.ListPromptsResult(prompts=shown)

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        session, name = await self._prompt(ctx, params.name)
        return await session.get_prompt(
            name,
            params.arguments,
            input_responses=params.input_responses,
            request_state=params.request_state,
            allow_input_required=True,
        )

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        context = None if params.context is None else params.context.arguments
        asked = {"name": params.argument.name, "value": params.argument.value}
        if isinstance(params.ref, types.PromptReference):
            session, name = await self._prompt(ctx, params.ref.name)
            return await session.complete(types.PromptReference(name=name), asked, context)
        for _, session in await self._sessions("completions"):
            try:
                return await session.complete(params.ref, asked, context)
            except MCPError as exc:
                _log.debug("a server completes nothing: %s", exc)
        return types.CompleteResult(completion=types.Completion(values=[]))

    async def _prompt(self, ctx: Context, name: str) -> tuple[ClientSession, str]:
        """Raises MCPError where no server has it."""
        if name not in self._prompts:
            await self.list_prompts(ctx, None)
        found = self._prompts.get(name)
        if found is None:
            raise MCPError(code=_NOT_FOUND, message=f"no server here has the prompt {name[:100]}")
        return await self._upstreams[found[0]].session(), found[1]

    async def _sessions(self, what: str) -> list[tuple[str, ClientSession]]:
        """The servers that can be reached and say that they have such things."""
        found: list[tuple[str, ClientSession]] = []
        for name, upstream in self._upstreams.items():
            try:
                session = await upstream.session()
            except NotDone as exc:
                _log.warning("the %s of server %s are not known: %s", what, name, exc)
                continue
            if getattr(session.server_capabilities, what, None) is not None:
                found.append((name, session))
        return found


async def _all(
    page_of: Callable[[types.PaginatedRequestParams], Awaitable[tuple[list[Item], str | None]]],
) -> list[Item]:
    found: list[Item] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        items, cursor = await page_of(types.PaginatedRequestParams(cursor=cursor))
        found += items
        if cursor is None:
            break
    return found


async def _resources(
    session: ClientSession, params: types.PaginatedRequestParams
) -> tuple[list[types.Resource], str | None]:
    page = await session.list_resources(params=params)
    return page.resources, page.next_cursor


async def _templates(
    session: ClientSession, params: types.PaginatedRequestParams
) -> tuple[list[types.ResourceTemplate], str | None]:
    page = await session.list_resource_templates(params=params)
    return page.resource_templates, page.next_cursor


async def _prompts(
    session: ClientSession, params: types.PaginatedRequestParams
) -> tuple[list[types.Prompt], str | None]:
    page = await session.list_prompts(params=params)
    return page.prompts, page.next_cursor
