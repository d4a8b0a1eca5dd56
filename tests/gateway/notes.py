"""A server of notes in one file, which can be told to die, to be slow, or to have its gateway killed: for the tests.

`python -m tests.gateway.notes FILE`. What it does beside its work stands in environment variables: see `_strike`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

STORE = Path(sys.argv[1] if len(sys.argv) > 1 else os.devnull)
server = MCPServer("notes", version="7")


def _read() -> dict[str, Any]:
    return (
        cast("dict[str, Any]", json.loads(STORE.read_text())) if STORE.exists() else {"next": 1, "notes": {}, "log": []}
    )


def _write(state: dict[str, Any], *said: str) -> None:
    state["log"] += said
    made = STORE.with_suffix(".new")
    made.write_text(json.dumps(state))
    made.replace(STORE)


def _strike(point: str) -> None:
    """Die, or kill the gateway, at this point, once: NOTES_DIES and NOTES_KILLS name points such as create:after."""
    for variable, victim in (("NOTES_DIES", os.getpid()), ("NOTES_KILLS", os.getppid())):
        mark = STORE.with_suffix(f".{variable}")
        if os.environ.get(variable) == point and not mark.exists():
            mark.touch()
            os.kill(victim, signal.SIGKILL)
            os._exit(1)  # with its gateway gone, nobody else would end it


@server.tool(structured_output=True)
def create(title: str, text: str = "") -> dict[str, Any]:
    """Write a new note."""
    _strike("create:before")
    state = _read()
    number = str(state["next"])
    state["next"] += 1
    state["notes"][number] = {"id": number, "title": title, "text": text}
    _write(state, f"create {title}")
    _strike("create:after")
    return {"id": number}


@server.tool(structured_output=True, annotations=ToolAnnotations(read_only_hint=True))
def get(id: str) -> dict[str, Any]:
    """One note."""
    _strike("get:before")
    notes = _read()["notes"]
    if id not in notes:
        raise ToolError(f"no note {id}")
    return cast("dict[str, Any]", notes[id])


@server.tool(structured_output=True)
def find(title: str) -> dict[str, Any]:
    """Notes by their title."""
    _strike("find:before")
    return {"items": [one for one in _read()["notes"].values() if one["title"] == title]}


@server.tool(structured_output=True)
def everything() -> dict[str, Any]:
    """All notes."""
    return {"notes": _read()["notes"]}


@server.tool(structured_output=True)
def update(id: str, text: str) -> dict[str, Any]:
    """Write another text."""
    _strike("update:before")
    state = _read()
    if id not in state["notes"]:
        raise ToolError(f"no note {id}")
    state["notes"][id]["text"] = text
    _write(state, f"update {id}")
    _strike("update:after")
    return {"id": id}


@server.tool(structured_output=True)
def delete(id: str) -> dict[str, Any]:
    """Remove a note."""
    _strike("delete:before")
    state = _read()
    if id not in state["notes"]:
        raise ToolError(f"no note {id}")
    del state["notes"][id]
    _write(state, f"delete {id}")
    _strike("delete:after")
    return {"id": id}


@server.tool(structured_output=False)
def publish(id: str) -> str:
    """Mail a note to everybody."""
    state = _read()
    _write(state, f"publish {id}")
    return f"published {id}"


@server.tool(structured_output=False)
def refuse(how: str) -> str:
    """Fail in one of the ways that servers have."""
    _write(_read(), f"refuse {how}")
    if how == "marked":
        raise ToolError("it did not work")
    return "Error: it did not work"


@server.tool(structured_output=False)
async def slow(seconds: float, ctx: Context) -> str:
    """Take a while, and tell how far it is."""
    for part in range(4):
        await ctx.report_progress(part + 1, 4, f"part {part + 1}")
        await asyncio.sleep(seconds / 4)
    _write(_read(), "slow")
    return "done"


@server.tool(structured_output=False)
def whoami() -> str:
    """What of the environment this server was given."""
    return json.dumps({name: value for name, value in os.environ.items() if name.startswith(("NOTES_", "AMENDS_"))})


@server.tool(structured_output=False)
async def told(ctx: Context) -> str:
    """The `_meta` that came with this call."""
    return json.dumps(dict(ctx.request_context.meta or {}))


@server.tool(structured_output=False)
async def grow(name: str, ctx: Context) -> str:
    """Have one more tool from now on."""

    def grown() -> str:
        return name

    server.add_tool(grown, name=name)
    await ctx.session.send_tool_list_changed()
    await ctx.notify_tools_changed()
    return name


@server.resource("notes://all")
def all_notes() -> str:
    """Every note."""
    return json.dumps(_read()["notes"])


@server.prompt()
def summary(of: str) -> str:
    """Ask for a summary."""
    return f"Summarise {of}."


if __name__ == "__main__":
    server.run("stdio")
