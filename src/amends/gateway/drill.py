"""Drills of tools: each inverse is tried on a scratch instance of its server: done, taken back, and the world compared.

The world is what the server's `readers` answer. An inverse is exact where they answer the same before and after; where
they answer otherwise, it says so; and where they see no effect at all, nothing is proven.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from amends.bootstrap import Coordinator
from amends.core.words.values import Json, canonical
from amends.dataclass import dataclass
from amends.errors import AmendsError, ServerError
from amends.gateway.actions import said
from amends.gateway.answers import ToolAnswer
from amends.gateway.model import Contracts, ServerPlan, ToolCall, ToolContract
from amends.gateway.references import filled
from amends.gateway.registry import ToolRegistry
from amends.gateway.servers import ToolServers

EXACT: Final = "exact"
INEXACT: Final = "not exact"
UNSEEN: Final = "no effect seen"
FAILED: Final = "failed"
UNTRIED: Final = "not tried"
_SCRATCH: Final = "${scratch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDrill:
    """How the inverse of one tool came out, and why."""

    topic: str
    result: str
    why: str = ""

    @property
    def is_proven(self) -> bool:
        return self.result == EXACT

    @property
    def has_failed(self) -> bool:
        return self.result in {INEXACT, FAILED}


async def drill_tools(contracts: Contracts) -> AsyncIterator[ToolDrill]:
    """Try every tool that declares how it is taken back, each on an instance of its own."""
    for one in contracts.clauses:
        if one.is_glob or not one.compensate:
            continue
        contract = contracts.of(one.topic)
        server = contracts.servers.get(one.topic.partition(".")[0])
        if server is None or not server.scratch:
            yield ToolDrill(topic=one.topic, result=UNTRIED, why="its server has no scratch: command")
        elif contract.try_with is None:
            yield ToolDrill(topic=one.topic, result=UNTRIED, why="it has no try: with arguments")
        elif not server.readers:
            yield ToolDrill(topic=one.topic, result=UNTRIED, why="its server has no readers: to look at the world by")
        else:
            yield await _tried(contracts, contract, server)


async def _tried(contracts: Contracts, contract: ToolContract, server: ServerPlan) -> ToolDrill:
    with tempfile.TemporaryDirectory(prefix="amends-drill-") as folder:
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        command = tuple(word.replace(_SCRATCH, str(scratch)) for word in server.scratch)
        plan = replace(server, command=command, url="", cwd="")
        fresh = replace(contracts, servers={**contracts.servers, server.name: plan})
        registry = ToolRegistry(fresh)
        async with Coordinator.open(":memory:", env="drill", registry=registry, signals=False) as coordinator:
            servers = ToolServers(fresh, registry)
            registry.servers = servers
            try:
                return await _compared(coordinator, servers, contract, plan, {"scratch": str(scratch)})
            except AmendsError as exc:
                return ToolDrill(topic=contract.topic, result=FAILED, why=str(exc))
            finally:
                await servers.close()


async def _compared(
    coordinator: Coordinator,
    servers: ToolServers,
    contract: ToolContract,
    plan: ServerPlan,
    known: Mapping[str, object],
) -> ToolDrill:
    tool = (await servers.known()).get(contract.topic)
    if tool is None or tool.wrong:
        why = "its server has no such tool" if tool is None else tool.wrong
        return ToolDrill(topic=contract.topic, result=FAILED, why=why)
    rehearsal = contract.try_with
    assert rehearsal is not None  # noqa: S101 - only such a tool is tried
    for call in rehearsal.given:
        await _asked(servers, call, known)
    before = await _world(servers, plan, known)
    async with coordinator.session("mcp.drill", on_idle="keep") as session:
        arguments = cast("dict[str, Any]", filled(rehearsal.args, known, {}))
        await session.do_named(servers.action(tool), arguments)
        between = await _world(servers, plan, known)
        await session.rollback_last(1, "the drill takes it back")
    after = await _world(servers, plan, known)
    if after != before:
        return ToolDrill(topic=contract.topic, result=INEXACT, why=_difference(plan, before, after))
    if between == before:
        return ToolDrill(topic=contract.topic, result=UNSEEN, why="the readers saw no difference while it stood")
    return ToolDrill(topic=contract.topic, result=EXACT)


async def _world(servers: ToolServers, plan: ServerPlan, known: Mapping[str, object]) -> tuple[str, ...]:
    return tuple([canonical((await _asked(servers, call, known)).whole) for call in plan.readers])


async def _asked(servers: ToolServers, call: ToolCall, known: Mapping[str, object]) -> ToolAnswer:
    arguments: Json = filled(call.args, known, {})
    answer = ToolAnswer(await servers.ask(call.server, call.tool, cast("dict[str, Any]", arguments), "drill"))
    if answer.is_error:
        raise ServerError(f"{call.words} answered: {said(answer)}")
    return answer


def _difference(plan: ServerPlan, before: tuple[str, ...], after: tuple[str, ...]) -> str:
    """The readers that answer otherwise."""
    pairs = zip(plan.readers, before, after, strict=True)
    return f"{', '.join(call.words for call, one, other in pairs if one != other)} answers otherwise than before"
