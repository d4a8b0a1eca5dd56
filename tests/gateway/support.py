"""Gateways as clients start them, for the tests: real processes, real servers, real clients of both eras."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent

ROOT = Path(__file__).resolve().parents[2]
NODE = ROOT / ".venv.gateway/node/node_modules"
ERAS = ("legacy", "auto")
LONGEST_S = 60
NOTES = """\
version: v1
tools:
  notes.create:
    compensate: {tool: notes.delete, args: {id: "${result.id}"}}
    probe: {tool: notes.find, args: {title: "${args.title}"}, happened: "${answer.items}", result: "${answer.items[0]}"}
  notes.update:
    before: {tool: notes.get, args: {id: "${args.id}"}}
    compensate: {tool: notes.update, args: {id: "${args.id}", text: "${before.text}"}}
  notes.delete:
    before: {tool: notes.get, args: {id: "${args.id}"}}
    compensate: {tool: notes.create, args: {title: "${before.title}", text: "${before.text}"}}
  notes.publish: {no_rollback: "subscribers have been mailed"}
  notes.get: {read_only: true}
  notes.find: {read_only: true}
  notes.everything: {read_only: true}
  notes.told: {read_only: true}
  notes.whoami: {read_only: true}
  notes.slow: {no_rollback: "time is gone"}
  notes.*: {failed_when: {text: "Error*"}}
"""


def notes_command(path: Path) -> list[str]:
    return [sys.executable, "-m", "tests.gateway.notes", str(path / "notes.json")]


def write(path: Path, name: str, text: str) -> Path:
    made = path / name
    made.write_text(text)
    made.chmod(0o600)
    return made


@asynccontextmanager
async def wrapped(
    path: Path,
    command: list[str] | None = None,
    *,
    contracts: str = NOTES,
    era: str = "auto",
    session: str = "s-1",
    options: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    program: tuple[str, ...] = ("amends",),
    **client: Any,
) -> AsyncGenerator[Client]:
    """A client of a wrapped server. The journal and the contracts are in `path`."""
    file = write(path, "contracts.yaml", contracts)
    words = ["-m", *program, "mcp", "wrap", "--contracts", str(file), *options, "--", *(command or notes_command(path))]
    given = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "AMENDS_JOURNAL": str(path / "amends.db"),
        **({"AMENDS_SESSION": session} if session else {}),
        **(env or {}),
    }
    asked = StdioServerParameters(command=sys.executable, args=words, env=given, cwd=str(path))
    async with Client(asked, mode=era, cache=None, **client) as connected:
        yield connected


@asynccontextmanager
async def served(path: Path, contracts: str, *options: str) -> AsyncGenerator[str]:
    """The address of a gateway that serves over HTTP: a process of its own."""
    file = write(path, "gateway.yaml", contracts)
    words = ["-m", "amends", "mcp", "serve", str(file), "--port", "0", "--journal", str(path / "amends.db"), *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=path, env=env, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert started.stdout is not None
        line = (await asyncio.wait_for(started.stdout.readline(), 30)).decode()
        assert line.startswith("serving at "), line
        yield line.removeprefix("serving at ").strip()
    finally:
        if started.returncode is None:
            started.terminate()
        await asyncio.wait_for(started.wait(), 30)


def tell(story: Callable[[], Coroutine[Any, Any, None]], within: float = LONGEST_S) -> None:
    asyncio.run(asyncio.wait_for(story(), within))


def text(result: object) -> str:
    assert isinstance(result, CallToolResult)
    return "\n".join(one.text for one in result.content if isinstance(one, TextContent))


def data(result: object) -> dict[str, Any]:
    assert isinstance(result, CallToolResult), result
    assert not result.is_error, text(result)
    return cast("dict[str, Any]", result.structured_content)


async def do(client: Client, tool: str, arguments: dict[str, Any] | None = None, call: str = "") -> Any:
    """Call a tool, under an id of the call where one is given."""
    meta: Any = {"dev.amends/call": call} if call else None
    return await client.call_tool(tool, arguments or {}, meta=meta)


def stored(path: Path) -> dict[str, Any]:
    """What the server of notes has in its file."""
    file = path / "notes.json"
    return json.loads(file.read_text()) if file.exists() else {"next": 1, "notes": {}, "log": []}
