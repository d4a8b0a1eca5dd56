"""The servers behind a gateway and their tools: what actions call, and what contracts are held against."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, cast

import mcp_types as types
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from amends.errors import AmendsError, ContractsError, InputError, NotDone
from amends.gateway.actions import INPUT_REQUIRED, Described, Incoming, Wire, incoming, make_tool_action
from amends.gateway.answers import AnswerTest
from amends.gateway.approvals import Fronts, can_ask, is_modern, relayed
from amends.gateway.checks import unfit
from amends.gateway.model import Contracts, ServerPlan, ToolContract
from amends.gateway.tools import OWN_TOOLS
from amends.gateway.topics import shown_names, topic_of, topics_of
from amends.gateway.upstream import Upstream
from amends.logs import logger
from amends.runtime.declare.action import Action
from amends.runtime.declare.registry import Registry

KEY: Final = "dev.amends/key"
CONNECTION: Final = "io.modelcontextprotocol/"
OURS: Final = "dev.amends/"
_PROGRESS: Final = "progressToken"
_DIGITS: Final = 32
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
    def is_misjudged(self) -> bool:
        """Whether its contract is of no use: it was written for another tool, or does not fit this one."""
        return self.has_changed or bool(self.wrong)

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


class ToolServers:
    """All servers of a contracts file, each connected when it is first needed."""

    def __init__(self, contracts: Contracts, registry: Registry | None = None) -> None:
        self.contracts = contracts
        self.registry = registry
        self.fronts = Fronts()
        self.upstreams = {name: Upstream(plan, self) for name, plan in contracts.servers.items()}
        self._tools: dict[str, KnownTool] = {}
        self._shown: dict[str, tuple[str, str]] = {}
        self._topics: dict[tuple[str, str], str] = {}
        self._seen: dict[str, Mapping[str, types.Tool]] = {}
        self._actions: dict[str, Action[..., Any]] = {}
        self._in_flight: dict[str, list[Incoming]] = {}

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self.upstreams.values()))

    # -- which tools there are ----------------------------------------------------------------------------------------

    async def known(self) -> Mapping[str, KnownTool]:
        """All tools by topic, as far as their servers can be reached."""
        lists = await asyncio.gather(*(one.tools() for one in self.upstreams.values()), return_exceptions=True)
        listed: dict[str, Mapping[str, types.Tool]] = {}
        for name, found in zip(self.upstreams, lists, strict=True):
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
        self._topics = {pair: one.topic for pair, one in (((one.server.name, one.name), one) for one in tools.values())}
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
        upstream, flying = self.upstreams[tool.server.name], self._in_flight.setdefault(tool.server.name, [])
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
        upstream = self.upstreams.get(server)
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
            if tool.is_misjudged:  # what was said of it was said of another tool
                contract = ToolContract(
                    topic=tool.topic, entries=contract.entries, version=int(tool.digest[:8], 16) or 1
                )
            described = Described(
                does=str(tool.wire.get("description") or ""), digest=tool.digest, annotations=tool.annotations
            )
            found = make_tool_action(
                self.contracts, contract, self, described, read_only=tool.read_only and not tool.is_misjudged
            )
            self._actions[tool.topic] = found
            if self.registry is not None:
                self.registry.add_action(found)
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

    # -- by the names that clients see --------------------------------------------------------------------------------

    async def shown(self) -> list[Wire]:
        """All tools as clients see them."""
        await self.known()
        return [{**self._tools[self._topics[pair]].wire, "name": name} for name, pair in self._shown.items()]

    async def named(self, name: str) -> KnownTool:
        """Raises InputError where there is none of this name, or its contract does not fit it and somebody judges."""
        pair = self._shown.get(name)
        if pair is None or not self.upstreams[pair[0]].is_listed:
            await self.known()
            pair = self._shown.get(name)
        if pair is None:
            raise InputError(f"there is no tool {name[:100]!r}")
        tool = self._tools[self._topics[pair]]
        if self.contracts.mode != "enforce":
            return tool
        if tool.wrong:
            raise InputError(f"{name} was not called, because its contract does not fit it: {tool.wrong}")
        if tool.has_changed:
            raise InputError(
                f"{name} was not called: its server defines it otherwise than when its contract was written. A person "
                f"has to look at it, and then write its new digest, {tool.digest}, as definition: of {tool.topic}"
            )
        return tool


def passed_on(meta: Mapping[str, Any]) -> Wire:
    """The meta of a client's call as its server gets it: without what is of this connection, or of ours."""
    return {
        name: value
        for name, value in meta.items()
        if not name.startswith((CONNECTION, OURS)) and name not in {_PROGRESS, "progress_token"}
    }
