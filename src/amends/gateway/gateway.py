"""The gateway: what it answers to clients, and the servers behind it. Which transport carries it is `serve`'s."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import mcp_types as types
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from mcp.server.context import ServerRequestContext

from amends.bootstrap import Coordinator
from amends.clock import SystemClock
from amends.core.words.values import Json
from amends.errors import (
    AmendsError,
    ApprovalPending,
    ContractsError,
    InputError,
    NotDone,
    StepDeniedError,
    StepError,
    StepFailedError,
    StepFatalError,
)
from amends.gateway.actions import INPUT_REQUIRED, Described, Incoming, Wire, incoming, make_tool_action
from amends.gateway.answers import AnswerTest
from amends.gateway.approvals import Approvals, Fronts, can_ask, is_modern, relayed
from amends.gateway.checks import unfit
from amends.gateway.model import Contracts, ServerPlan, ToolContract
from amends.gateway.sagas import OpenSaga, Sagas, alike
from amends.gateway.tools import COMPLETE, OWN_TOOLS, OwnTools, told
from amends.gateway.topics import shown_names, topic_of, topics_of
from amends.gateway.upstream import Upstream
from amends.logs import logger
from amends.runtime.declare.action import Action
from amends.runtime.saga.session import Session

Context = ServerRequestContext[Any, Any]
SAGA_KEY: Final = "dev.amends/saga"
CALL_KEY: Final = "dev.amends/call"
KEY: Final = "dev.amends/key"
CALL_KEYS: Final = (CALL_KEY, "claudecode/toolUseId")
"""Where the id of a call may stand: in our own key, else in that of a client that gives one."""
_CONNECTION: Final = "io.modelcontextprotocol/"
_PROGRESS: Final = "progressToken"
_OURS: Final = "dev.amends/"
_DIGITS: Final = 32
_THEIRS: Final = "server:"
_TAKEN_BACK: Final = frozenset({"compensated", "settled"})
_log = logger("amends.gateway")


class KnownTool:
    """A tool of a server: as it describes itself, and as the contracts file has it."""

    def __init__(self, server: ServerPlan, wire: Wire, topic: str, contract: ToolContract, wrong: str) -> None:
        self.server, self.wire, self.topic, self.contract, self.wrong = server, wire, topic, contract, wrong
        self.name = str(wire["name"])
        self.digest = definition_digest(wire)
        self._validator: Draft202012Validator | None = None

    @property
    def annotations(self) -> Mapping[str, object]:
        hints = self.wire.get("annotations")
        return cast("dict[str, object]", hints) if isinstance(hints, dict) else {}

    @property
    def has_changed(self) -> bool:
        """Whether it is another one than the contract was written for."""
        pinned = self.contract.definition
        return bool(pinned) and not self.digest.startswith(pinned)

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing: the contract says so, or its own server, where that is trusted."""
        if self.contract.is_declared:
            return self.contract.read_only
        return self.server.trusted and self.annotations.get("readOnlyHint") is True

    def fits(self, arguments: Mapping[str, Any]) -> bool:
        schema = self.wire.get("inputSchema")
        if not isinstance(schema, dict):
            return True
        try:
            if self._validator is None:
                Draft202012Validator.check_schema(cast("Wire", schema))
                self._validator = Draft202012Validator(cast("Wire", schema))
            return bool(self._validator.is_valid(dict(arguments)))  # pyright: ignore[reportUnknownMemberType] no types
        except (SchemaError, RecursionError, ValueError, LookupError):
            return True


def definition_digest(wire: Mapping[str, Any]) -> str:
    """The digest of a tool as its server defines it: name, description, schemas, annotations."""
    said = {
        name: wire[name]
        for name in ("name", "description", "inputSchema", "outputSchema", "annotations")
        if name in wire
    }
    spelled = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(spelled.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


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
        self._upstreams = {name: Upstream(plan, self) for name, plan in contracts.servers.items()}
        self._tools: dict[str, KnownTool] = {}
        self._shown: dict[str, tuple[str, str]] = {}
        self._seen: dict[str, Mapping[str, types.Tool]] = {}
        self._actions: dict[str, Action[..., Any]] = {}
        self.fronts = Fronts()
        self.approvals = Approvals(coordinator, in_client=contracts.approvals == "in_client")
        self._in_flight: dict[str, list[Incoming]] = {}
        self._own = OwnTools(self)

    async def close(self) -> None:
        await self.sagas.close()
        await asyncio.gather(*(one.close() for one in self._upstreams.values()))

    # -- which tools there are ----------------------------------------------------------------------------------------

    async def known(self) -> Mapping[str, KnownTool]:
        """All tools by topic, as far as their servers can be reached."""
        lists = await asyncio.gather(*(one.tools() for one in self._upstreams.values()), return_exceptions=True)
        listed: dict[str, Mapping[str, types.Tool]] = {}
        for name, found in zip(self._upstreams, lists, strict=True):
            if isinstance(found, AmendsError):
                _log.warning("the tools of server %s are not known: %s", name, found)
            elif isinstance(found, BaseException):
                raise found
            else:
                listed[name] = found
        if listed.keys() != self._seen.keys() or any(listed[name] is not self._seen[name] for name in listed):
            self._learn(listed)
        return self._tools

    def _learn(self, listed: Mapping[str, Mapping[str, types.Tool]]) -> None:
        self._seen = dict(listed)
        tools: dict[str, KnownTool] = {}
        for server, each in listed.items():
            plan = self.contracts.servers[server]
            for name, topic in topics_of(server, each).items():
                wire = each[name].model_dump(by_alias=True, mode="json", exclude_unset=True)
                wrong, contract = "", ToolContract(topic=topic, entries=())
                try:
                    contract = self.contracts.of(topic)
                except ContractsError as exc:
                    wrong = str(exc)
                tools[topic] = KnownTool(plan, wire, topic, contract, wrong)
        self._tools = tools
        for one in tools.values():
            one.wrong = one.wrong or "; ".join(
                unfit(self.contracts.file, one.contract, self._schemas_of(one), self.schemas)
            )
            if one.wrong:
                _log.warning("tool %s: %s", one.topic, one.wrong)
        self._shown = shown_names(((one.server.name, one.name) for one in tools.values()), OWN_TOOLS)
        self._actions.clear()

    def _schemas_of(self, tool: KnownTool) -> tuple[Wire | None, Wire | None]:
        return tool.wire.get("inputSchema"), tool.wire.get("outputSchema")

    def schemas(self, server: str, tool: str) -> tuple[Wire | None, Wire | None] | None:
        """The schemas of a tool that a contract calls; None where its server does not have it."""
        if server not in self._seen:
            return None, None
        found = self._find(server, tool)
        return None if found is None else self._schemas_of(found)

    def _find(self, server: str, tool: str) -> KnownTool | None:
        by_topic = self._tools.get(topic_of(server, tool))
        if by_topic is not None:
            return by_topic
        return next((one for one in self._tools.values() if one.server.name == server and one.name == tool), None)

    # -- the servers, as actions call them ----------------------------------------------------------------------------

    async def forward(self, topic: str, arguments: Mapping[str, Any], key: str) -> Wire:
        tool = self._tools.get(topic) or (await self.known()).get(topic)
        if tool is None:
            raise NotDone(f"no server here has a tool for {topic} now")
        asker = incoming.get() or Incoming()
        meta = {**passed_on(asker.meta), KEY: key}
        progress = asker.progress if _PROGRESS in asker.meta or "progress_token" in asker.meta else None
        upstream, flying = self._upstreams[tool.server.name], self._in_flight.setdefault(tool.server.name, [])
        flying.append(asker)
        responses, state = asker.responses, asker.state
        try:
            while True:
                wire = await upstream.call(
                    tool.name, arguments, meta=meta, progress=progress, responses=responses, state=state
                )
                front = asker.front
                if wire.get("resultType") != INPUT_REQUIRED or front is None or is_modern(front) or not can_ask(front):
                    return wire
                asked = types.InputRequiredResult.model_validate(wire, by_name=False)
                responses = {key: await relayed(front, one) for key, one in (asked.input_requests or {}).items()}
                state = asked.request_state
        finally:
            flying.remove(asker)

    async def ask(self, server: str, tool: str, arguments: Mapping[str, Any], key: str) -> Wire:
        upstream = self._upstreams.get(server)
        if upstream is None:
            raise NotDone(f"there is no server {server} here; name it under servers: in the contracts file")
        listed = await upstream.tools()
        name = (
            tool
            if tool in listed
            else next((one for one in listed if topic_of(server, one) == topic_of(server, tool)), tool)
        )
        return await upstream.call(name, arguments, meta={KEY: key})

    def fits(self, topic: str, arguments: Mapping[str, Any]) -> bool:
        tool = self._tools.get(topic)
        return tool is None or tool.fits(arguments)

    def failed_when(self, server: str, tool: str) -> AnswerTest | None:
        try:
            return self.contracts.of(topic_of(server, tool)).failed_when
        except ContractsError:
            return None

    def action(self, tool: KnownTool) -> Action[..., Any]:
        """The action of a tool, known to the coordinator by its topic and the version of its contract."""
        found = self._actions.get(tool.topic)
        if found is None:
            contract = tool.contract
            if tool.has_changed:  # what was said of it was said of another tool
                contract = ToolContract(
                    topic=tool.topic, entries=contract.entries, version=int(tool.digest[:8], 16) or 1
                )
            described = Described(
                does=str(tool.wire.get("description") or ""), digest=tool.digest, annotations=tool.annotations
            )
            found = make_tool_action(
                self.contracts, contract, self, described, read_only=tool.read_only and not tool.has_changed
            )
            self.coordinator.registry.add_action(found)
            self._actions[tool.topic] = found
        return found

    # -- what a server asks, or tells by itself -----------------------------------------------------------------------

    async def elicit(self, server: str, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """A server asks whoever called it: the newest of those whose client can be asked in the middle of a call."""
        fronts = (one.front for one in reversed(self._in_flight.get(server, ())))
        front = next((one for one in fronts if one is not None and not is_modern(one) and can_ask(one)), None)
        if front is None:
            return types.ElicitResult(action="cancel")
        return cast("types.ElicitResult", await relayed(front, types.ElicitRequest(params=params)))

    async def changed(self, server: str, what: str) -> None:
        await self.fronts.tell(what)

    # -- what clients ask ---------------------------------------------------------------------------------------------

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        self.fronts.note(ctx)
        await self.known()
        by_name = {(one.server.name, one.name): one for one in self._tools.values()}
        listed = [{**by_name[pair].wire, "name": name} for name, pair in self._shown.items()]
        return types.ListToolsResult.model_validate({"tools": [*listed, *OWN_TOOLS.values()]}, by_name=False)

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
        tool = await self._tool(params.name)
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

    async def _tool(self, name: str) -> KnownTool:
        """Raises InputError where there is none of this name, or its contract does not fit it."""
        if name not in self._shown:
            await self.known()
        pair = self._shown.get(name)
        if pair is None:
            raise InputError(f"there is no tool {name[:100]!r}")
        tool = self._tools[topics_of(pair[0], self._seen[pair[0]])[pair[1]]]
        if tool.wrong:
            raise InputError(f"{name} was not called, because its contract does not fit it: {tool.wrong}")
        return tool

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
            action = self.action(tool)
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
        found["_meta"] = {key: one for key, one in cast("Wire", meta).items() if not key.startswith(_CONNECTION)}
    return found


def passed_on(meta: Mapping[str, Any]) -> Wire:
    """The meta of a client's call as its server gets it: without what is of this connection, or of ours."""
    return {
        name: value
        for name, value in meta.items()
        if not name.startswith((_CONNECTION, _OURS)) and name not in {_PROGRESS, "progress_token"}
    }


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
