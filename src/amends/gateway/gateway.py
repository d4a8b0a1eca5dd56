"""The gateway: what it answers to clients, and the servers behind it. Which transport carries it is `serve`'s."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext

from amends.bootstrap import Coordinator
from amends.clock import SystemClock
from amends.core.words.values import Json
from amends.errors import (
    AmendsError,
    ApprovalPending,
    InputError,
    StepDeniedError,
    StepError,
    StepFailedError,
    StepFatalError,
)
from amends.gateway.actions import INPUT_REQUIRED, Incoming, Wire, incoming
from amends.gateway.approvals import Approvals
from amends.gateway.model import Contracts
from amends.gateway.passing import Passing
from amends.gateway.sagas import OpenSaga, Sagas, alike
from amends.gateway.servers import CONNECTION, KnownTool, ToolServers
from amends.gateway.tools import COMPLETE, OWN_TOOLS, OwnTools, told
from amends.runtime.saga.session import Session

Context = ServerRequestContext[Any, Any]
SAGA_KEY: Final = "dev.amends/saga"
CALL_KEY: Final = "dev.amends/call"
CALL_KEYS: Final = (CALL_KEY, "claudecode/toolUseId")
"""Where the id of a call may stand: in our own key, else in that of a client that gives one."""
_THEIRS: Final = "server:"
_TAKEN_BACK: Final = frozenset({"compensated", "settled"})


class Gateway:
    """The one between clients and servers. One of it serves all connections of a process."""

    def __init__(
        self,
        contracts: Contracts,
        coordinator: Coordinator,
        *,
        saga: str = "",
        actor: str = "agent:mcp",
        next_saga: Callable[[], str] | None = None,
    ) -> None:
        """`saga`: the one of calls that name none; empty where each has to. `next_saga`: the one after it, once it is
        complete; None where somebody has named it.
        """
        self.contracts = contracts
        self.coordinator = coordinator
        self.sagas = Sagas(coordinator, contracts, actor=actor)
        self.saga = saga
        self._next_saga = next_saga
        self.servers = ToolServers(contracts, coordinator.registry)
        self.approvals = Approvals(coordinator, in_client=contracts.approvals == "in_client")
        self.passing = Passing(self.servers.upstreams)
        self._own = OwnTools(self)

    async def close(self) -> None:
        await self.sagas.close()
        await self.servers.close()

    # -- what clients ask ---------------------------------------------------------------------------------------------

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        self.servers.fronts.note(ctx)
        tools = [*await self.servers.shown(), *OWN_TOOLS.values()]
        return types.ListToolsResult.model_validate({"tools": tools}, by_name=False)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Wire | types.InputRequiredResult:
        """Raises nothing of amends': what stands in the way is told as an answer, for the model to read."""
        try:
            answer = await self._answer(ctx, params)
        except AmendsError as exc:
            answer = told(str(exc), is_error=True)
        return answer if isinstance(answer, types.InputRequiredResult) else _complete(answer)

    async def _answer(self, ctx: Context, params: types.CallToolRequestParams) -> Wire | types.InputRequiredResult:
        arguments, meta = params.arguments or {}, cast("dict[str, Any]", ctx.meta or {})
        saga = self._saga_of(ctx, meta)
        if params.name in OWN_TOOLS:
            answer = await self._own.call(params.name, arguments, saga)
            if params.name == COMPLETE and saga == self.saga and self._next_saga is not None:
                self.saga = self._next_saga()
            return answer
        tool = await self.servers.named(params.name)
        asker = Incoming(meta=meta, progress=ctx.session.report_progress, front=ctx)
        return await self._step(saga, tool, arguments, asker, params)

    def _saga_of(self, ctx: Context, meta: Mapping[str, Any]) -> str:
        """The saga of a call. Raises InputError where nobody has named one."""
        named = meta.get(SAGA_KEY)
        if named is not None and not isinstance(named, str):
            raise InputError(f"_meta {SAGA_KEY!r} has to be text: the id of a saga")
        in_path = getattr(ctx.request, "path_params", {}).get("saga", "") if ctx.request is not None else ""
        saga = named or in_path or self.saga
        if not saga:
            raise InputError(f"this call is of no saga: use the address /mcp/NAME, or give _meta {SAGA_KEY!r}")
        return str(saga)

    async def _step(
        self,
        saga: str,
        tool: KnownTool,
        arguments: Mapping[str, Any],
        asker: Incoming,
        params: types.CallToolRequestParams,
    ) -> Wire | types.InputRequiredResult:
        async with self.sagas.using(saga) as (session, one):
            responses, state = params.input_responses, params.request_state
            if state is not None and state.startswith(_THEIRS):  # the server had asked, and nothing was done
                asker.responses, asker.state = responses, state.removeprefix(_THEIRS) or None
                responses, state = None, None
            call = state or self._call_of(
                asker.meta, one, tool, cast("Json", arguments), is_again=asker.responses is not None
            )
            action = self.servers.action(tool)
            token = incoming.set(asker)
            try:
                while True:
                    try:
                        kept = await session.do_named(action, dict(arguments), call=call, waits=False)
                    except ApprovalPending as exc:
                        one.waiting[alike(tool.topic, cast("Json", arguments))] = call
                        answer = await self.approvals.ask(asker.front, exc, call, responses)
                        if answer is not None:
                            return answer
                        responses = None
                        continue
                    except StepError as exc:
                        answered = asker.answer
                        if answered is None:
                            return told(_why(exc, session), is_error=True)
                        return _asking(answered) if answered.get("resultType") == INPUT_REQUIRED else answered
                    if one.waiting:
                        one.waiting.pop(alike(tool.topic, cast("Json", arguments)), None)
                    return asker.answer or cast("Wire", kept)
            finally:
                incoming.reset(token)

    def _call_of(
        self, meta: Mapping[str, Any], one: OpenSaga, tool: KnownTool, arguments: Json, *, is_again: bool
    ) -> str:
        """The id of a call: ours, a waiting one that asks for the same, its client's, or a new one.

        is_again: it has answers to what the server had asked; what was asked under its id has ended by that.
        """
        if is_again:
            return f"new-{SystemClock().new_id()}"
        ours = meta.get(CALL_KEY)
        if isinstance(ours, str):
            return ours
        waiting = one.waiting.get(alike(tool.topic, arguments)) if one.waiting else None
        if waiting is not None:
            return waiting
        given = next((meta[key] for key in CALL_KEYS if isinstance(meta.get(key), str)), None)
        return str(given) if given else f"new-{SystemClock().new_id()}"


def _asking(wire: Wire) -> types.InputRequiredResult:
    """The questions of a server, with a mark by which the answers are known for its own."""
    asked = types.InputRequiredResult.model_validate(wire, by_name=False)
    return asked.model_copy(update={"request_state": f"{_THEIRS}{asked.request_state or ''}"})


def _complete(wire: Wire) -> Wire:
    """An answer for a client: without what is of the connection to the server."""
    found = {**wire, "resultType": wire.get("resultType", "complete")}
    meta = wire.get("_meta")
    if isinstance(meta, dict):
        found["_meta"] = {key: one for key, one in cast("Wire", meta).items() if not key.startswith(CONNECTION)}
    return found


def _why(exc: StepError, session: Session) -> str:
    """How a step ended badly, for the model that asked for it."""
    where = f"saga {session.id}, step {exc.step}"
    match exc:
        case StepDeniedError():
            return f"denied: {exc} ({where}); it was not called"
        case StepFailedError():
            return f"failed, and did nothing: {exc} ({where})"
        case StepFatalError(happened=False):
            return f"failed, and did nothing: {exc} ({where})"
        case _:
            stands = next((one.status for one in session.steps if one.step == exc.step), "")
            back = "; it was taken back" if stands in _TAKEN_BACK else ""
            return f"lost: nobody knows whether it was done{back}: {exc} ({where})"
