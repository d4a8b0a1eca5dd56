"""Approvals where the client is: people are asked by an elicitation, in the way of either era of the protocol.

| the person…                                | then                                                             |
|--------------------------------------------|------------------------------------------------------------------|
| accepts                                    | approved, by whoever is logged in where the gateway runs         |
| declines                                   | refused                                                          |
| cancels, or the client cannot ask          | nothing is decided: the answer is `pending` and names the approval |

A client may answer by itself, without any person: so a contracts file has to allow it (`approvals: in_client`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from amends.bootstrap import Coordinator
from amends.errors import ApprovalPending, RefusedError
from amends.gateway.actions import Wire
from amends.gateway.tools import told
from amends.logs import logger
from amends.runtime.coordinator.people import Approval
from amends.runtime.declare.names import checked_actor
from amends.text import spelled, visible

Context = ServerRequestContext[Any, Any]
PENDING: Final = "pending"
_ASKED: Final = "approval"
_WHY: Final = "answered in the client"
_LONGEST: Final = 1200
_MOST_FRONTS: Final = 64
_log = logger("amends.gateway")
_NEWS: Final[Mapping[str, type[ToolsListChanged | ResourcesListChanged | PromptsListChanged]]] = {
    "tools": ToolsListChanged,
    "resources": ResourcesListChanged,
    "prompts": PromptsListChanged,
}
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"why": {"type": "string", "title": "Why", "description": "The reason, as it goes on record."}},
}


def can_ask(ctx: Context) -> bool:
    """Whether whoever sits at the client can be asked something."""
    able = ctx.session.client_capabilities
    return able is not None and able.elicitation is not None


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def relayed(ctx: Context, request: types.InputRequest) -> Any:  # noqa: ANN401 - an answer of the request's kind
    """The answer of a client of the older era to what a server asks. One that cannot answer has cancelled."""
    kinds: dict[str, Any] = {
        "elicitation/create": types.ElicitResult,
        "sampling/createMessage": types.CreateMessageResult,
        "roots/list": types.ListRootsResult,
    }
    metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
    return await ctx.session.send_request(request, kinds[request.method], metadata=metadata)


class Fronts:
    """The clients that are told when a list has changed."""

    def __init__(self) -> None:
        self._known: list[Context] = []
        self.bus = InMemorySubscriptionBus()
        """News for clients of the newer era, which listen."""

    def note(self, ctx: Context) -> None:
        if not is_modern(ctx) and all(one.session is not ctx.session for one in self._known):
            self._known = [*self._known[1 - _MOST_FRONTS :], ctx]

    async def tell(self, what: str) -> None:
        news: ServerEvent = _NEWS[what]()
        await self.bus.publish(news)
        for front in tuple(self._known):
            session = front.session
            try:
                match what:
                    case "tools":
                        await session.send_tool_list_changed()
                    case "resources":
                        await session.send_resource_list_changed()
                    case _:
                        await session.send_prompt_list_changed()
            except (MCPError, OSError, RuntimeError):
                self._known.remove(front)


class Approvals:
    def __init__(self, coordinator: Coordinator, *, in_client: bool) -> None:
        self._coordinator = coordinator
        self._in_client = in_client

    async def ask(
        self, ctx: Context, pending: ApprovalPending, call: str, responses: types.InputResponses | None
    ) -> Wire | types.InputRequiredResult | None:
        """The answer for the client; None where a person has answered, and the same call goes on."""
        if not self._in_client or not can_ask(ctx):
            return _pending(pending)
        if is_modern(ctx):
            given = (responses or {}).get(_ASKED)
            if not isinstance(given, types.ElicitResult):
                shown = await self._coordinator.approval(pending.approval)
                request = types.ElicitRequest(params=_question(shown))
                return types.InputRequiredResult(input_requests={_ASKED: request}, request_state=call)
        else:
            shown = await self._coordinator.approval(pending.approval)
            try:
                params = _question(shown)
                given = await ctx.session.elicit_form(params.message, params.requested_schema, ctx.request_id)
            except MCPError as exc:
                _log.info("approval %s could not be asked for in the client: %s", pending.approval, exc)
                return _pending(pending)
        return await self._decide(pending, given)

    async def _decide(self, pending: ApprovalPending, given: types.ElicitResult) -> Wire | None:
        if given.action == "cancel":
            return _pending(pending)
        said = (given.content or {}).get("why")
        why = f"{_WHY}: {said}" if isinstance(said, str) and said.strip() else _WHY
        by = checked_actor(None)
        try:
            if given.action == "accept":
                await self._coordinator.grant(pending.approval, by=by, why=why, digest=pending.digest)
            else:
                await self._coordinator.refuse(pending.approval, by=by, why=why)
        except RefusedError as exc:
            return told(f"{pending.topic} is still {PENDING}: the answer was not taken: {exc}", is_error=True)
        row = await self._coordinator.approval(pending.approval)
        return _pending(pending) if row.status == "open" else None


def _question(shown: Approval) -> types.ElicitRequestFormParams:
    """The question as a person is shown it: all that they decide about."""
    args = spelled(shown.args, _LONGEST)
    lines = [
        f"{shown.topic} {args}".rstrip(),
        f"rule {shown.rule} asks" + (f": {visible(shown.why)}" if shown.why else ""),
        f"taken back by: {visible(shown.compensation)}",
        f"approval {shown.id}, {shown.digest[:12]}",
    ]
    return types.ElicitRequestFormParams(message="\n".join(lines), requested_schema=_SCHEMA)


def _pending(pending: ApprovalPending) -> Wire:
    return {
        **told(
            f"{PENDING}: {pending.topic} waits for a person, and was not called. Approval {pending.approval} "
            f"({pending.why}). Once it is answered (amends approval grant {pending.approval}), call the same tool with "
            "the same arguments again.",
            is_error=True,
        ),
        "_meta": {
            "dev.amends/pending": {
                "status": PENDING,
                "approval": pending.approval,
                "topic": pending.topic,
                "expires_at": pending.expires_at,
            }
        },
    }
