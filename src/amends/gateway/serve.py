"""How clients reach the gateway: over stdin and stdout, or over streamable HTTP. Both eras of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.subscriptions import ListenHandler
from mcp.server.transport_security import TransportSecuritySettings

from amends.bootstrap import Coordinator
from amends.clock import SystemClock
from amends.gateway.gateway import Gateway
from amends.gateway.lines import claimed_lines
from amends.gateway.model import Contracts
from amends.gateway.observing import ObservingCoordinator
from amends.gateway.registry import ToolRegistry
from amends.runtime.settings import Settings

INSTRUCTIONS: Final = (
    "Calls of these tools are judged by a policy, kept on record, and can be taken back. amends_status shows what was "
    "done; amends_undo takes it back, newest first; amends_checkpoint marks a place to come back to; amends_complete "
    "says that the work is done. A result that begins with `pending` waits for a person: call the same tool with the "
    "same arguments again once they have answered."
)
_CHANGES: Final = NotificationOptions(tools_changed=True, resources_changed=True, prompts_changed=True)


def make_server(gateway: Gateway) -> Server[Any]:
    """The MCP server that is the gateway's face."""
    handlers: Mapping[str, Any] = {
        "on_list_tools": gateway.list_tools,
        "on_call_tool": gateway.call_tool,
        "on_list_resources": gateway.passing.list_resources,
        "on_list_resource_templates": gateway.passing.list_templates,
        "on_read_resource": gateway.passing.read_resource,
        "on_list_prompts": gateway.passing.list_prompts,
        "on_get_prompt": gateway.passing.get_prompt,
        "on_completion": gateway.passing.complete,
        "on_subscriptions_listen": ListenHandler(gateway.servers.fronts.bus),
    }
    return Server("amends", version="0.1", title="amends", instructions=INSTRUCTIONS, **handlers)


@asynccontextmanager
async def open_gateway(
    contracts: Contracts,
    *,
    journal: str,
    policy: str | None = None,
    env: str | None = None,
    environments: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    saga: str = "",
    actor: str = "agent:mcp",
    next_saga: Callable[[], str] | None = None,
) -> AsyncGenerator[Gateway]:
    """A gateway on a journal, with its own registry of actions."""
    kind = ObservingCoordinator if contracts.mode == "observe" else Coordinator
    registry = ToolRegistry(contracts)
    opening = kind.open(
        journal, policy=policy, env=env, environments=environments, settings=settings, registry=registry
    )
    async with opening as coordinator:
        gateway = Gateway(contracts, coordinator, saga=saga, actor=actor, next_saga=next_saga)
        registry.servers = gateway.servers
        try:
            yield gateway
        finally:
            await gateway.close()


async def serve_stdio(gateway: Gateway) -> None:
    """Serve one client over stdin and stdout, until it closes them."""
    server = make_server(gateway)
    with claimed_lines() as (read, write):
        await server.run(read, write, server.create_initialization_options(_CHANGES))


async def serve_http(gateway: Gateway, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve any number of clients at `/mcp/SAGA`, and at `/mcp` those that name the saga in each call."""
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Route

    at = StreamableHTTPSessionManager(make_server(gateway), security_settings=_security(host))
    endpoint = StreamableHTTPASGIApp(at)
    routes = [Route("/mcp/{saga}", endpoint=endpoint), Route("/mcp", endpoint=endpoint)]
    app = Starlette(routes=routes, lifespan=lambda _: at.run())
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning"))

    async def tell() -> None:
        while not server.started:
            await SystemClock().sleep(0.02)
        shown = server.servers[0].sockets[0].getsockname()
        ready(f"http://{host}:{shown[1]}/mcp")

    telling = asyncio.create_task(tell())
    try:
        await server.serve()
    finally:
        telling.cancel()


def _security(host: str) -> TransportSecuritySettings:
    """Where it listens for this machine alone, no page of a browser may reach it by another name."""
    if host not in {"127.0.0.1", "localhost", "::1"}:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = ("127.0.0.1", "localhost", "[::1]")
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"{name}:*" for name in names],
        allowed_origins=[f"http://{name}:*" for name in names],
    )
