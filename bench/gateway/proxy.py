"""A bare proxy on plain mcp: what the gateway is measured against. It passes tools on, and does nothing else."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server


async def main(command: list[str]) -> None:
    async with Client(StdioServerParameters(command=command[0], args=command[1:]), cache=None) as upstream:

        async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
            return await upstream.session.list_tools(params=params)

        async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
            return await upstream.session.call_tool(
                params.name, params.arguments, allow_input_required=True, allow_claimed=True
            )

        server: Server[Any] = Server("proxy", on_list_tools=list_tools, on_call_tool=call_tool)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
