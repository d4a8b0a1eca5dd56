"""A server of the newer era whose one tool asks for a name before it does anything, for the tests."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="ask", input_schema={"type": "object"})])


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult | types.InputRequiredResult:
    given = (params.input_responses or {}).get("q")
    if not isinstance(given, types.ElicitResult):
        asked = types.ElicitRequest(params=types.ElicitRequestFormParams(message="name?", requested_schema=SCHEMA))
        return types.InputRequiredResult(input_requests={"q": asked}, request_state="state-1")
    said = f"{given.action} {given.content} {params.request_state}"
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)])


async def main() -> None:
    server: Server[Any] = Server("asks", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
