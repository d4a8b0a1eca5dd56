"""A server with one tool, which answers at once."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import MCPServer

server = MCPServer("quick")


@server.tool(structured_output=True)
def put(key: str, value: int) -> dict[str, Any]:
    return {"key": key, "value": value}


@server.tool(structured_output=True)
def drop(key: str) -> dict[str, Any]:
    return {"key": key}


if __name__ == "__main__":
    server.run("stdio")
