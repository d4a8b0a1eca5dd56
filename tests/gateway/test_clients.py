"""Clients that nobody here wrote, with a gateway as with any server: calls are on record, asked about, taken back."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner
from agents.mcp import MCPServerStdio, MCPToolMetaContext
from agents.testing import ScriptedModel, assistant_message, function_call
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent as PydanticAgent, RunContext
from pydantic_ai.mcp import CallToolFunc, MCPToolset, ToolResult
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.gateway.model import Turn, calls, model, repeats_the_answer, says
from tests.gateway.support import NOTES, ROOT, notes_command, stored, write

CLAUDE = ROOT / ".venv.gateway/clients/node_modules/@anthropic-ai/claude-code-linux-x64/claude"
NAMES = "mcp__notes__"
KEY = "dev.amends/call"
ASKS = "version: v1\nrules:\n  - {id: ask-first, when: {topic: notes.create}, decision: require_human}\n"


def gateway(path: Path, *options: str, contracts: str = NOTES) -> tuple[str, list[str], dict[str, str]]:
    """The command that clients start, and its environment."""
    file = write(path, "contracts.yaml", contracts)
    words = ["-m", "amends", "mcp", "wrap", "--contracts", str(file), *options, "--", *notes_command(path)]
    env = {"PYTHONPATH": str(ROOT), "AMENDS_JOURNAL": str(path / "amends.db"), "AMENDS_SESSION": "s-1"}
    return sys.executable, words, {**env, "PATH": os.environ["PATH"]}


def amends(path: Path, *words: str) -> str:
    asked = [sys.executable, "-m", "amends", *words, "--journal", str(path / "amends.db")]
    return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60, cwd=path).stdout


def claude(
    path: Path, *turns: Turn, prompt: str = "Write notes.", options: tuple[str, ...] = (), contracts: str = NOTES
) -> tuple[str, list[str]]:
    """What Claude Code says in the end, and what the tools answered meanwhile."""
    command, words, env = gateway(path, *options, contracts=contracts)
    file = write(
        path, "mcp.json", json.dumps({"mcpServers": {"notes": {"command": command, "args": words, "env": env}}})
    )
    with model(*turns) as (address, asked):
        told = {
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            "CLAUDE_CONFIG_DIR": str(path / "config"),
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "made-up",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "ENABLE_TOOL_SEARCH": "false",
        }
        asking = [
            str(CLAUDE),
            "-p",
            prompt,
            "--mcp-config",
            str(file),
            "--strict-mcp-config",
            "--output-format",
            "json",
        ]
        allowed = ["--allowedTools", *(NAMES + one for one in ("create", "update", "amends_undo", "amends_status"))]
        ran = subprocess.run(
            [*asking, *allowed],
            cwd=path,
            env=told,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return str(json.loads(ran.stdout)["result"]), asked.told


def test_claude_code_takes_back_what_it_did_when_it_is_told_to(tmp_path: Path) -> None:
    said, told = claude(
        tmp_path,
        calls(NAMES + "create", title="milk"),
        calls(NAMES + "create", title="eggs"),
        calls(NAMES + "update", id="1", text="two litres"),
        calls(NAMES + "amends_undo", last=2),
        repeats_the_answer,
    )
    assert told[:2] == ['{"id":"1"}', '{"id":"2"}']
    assert json.loads(said) == {"taken_back": ["notes.update (step 3)", "notes.create (step 2)"]}
    assert stored(tmp_path)["notes"] == {"1": {"id": "1", "title": "milk", "text": ""}}


def test_in_a_later_run_claude_code_finds_its_session_again(tmp_path: Path) -> None:
    claude(tmp_path, calls(NAMES + "create", title="milk"), says("Done."))
    claude(tmp_path, calls(NAMES + "amends_undo", all=True), says("Undone."), prompt="Undo it.")
    assert stored(tmp_path)["notes"] == {}


def test_where_nobody_is_at_claude_code_a_call_waits_for_a_person_and_then_goes_on(tmp_path: Path) -> None:
    """Without anybody at it, it cancels a question; that is no refusal."""
    options = ("--policy", str(write(tmp_path, "policy.yaml", ASKS)))
    asked: Any = {"options": options, "contracts": NOTES + "approvals: in_client\n"}
    _, told = claude(tmp_path, calls(NAMES + "create", title="milk"), says("It waits."), **asked)
    assert "approval" in told[0]
    assert not (tmp_path / "notes.json").exists() or stored(tmp_path)["notes"] == {}
    open_one = json.loads(amends(tmp_path, "approval", "list", "--json"))
    amends(tmp_path, "approval", "grant", open_one["id"], "--by", "person:boss", "--yes")
    _, told = claude(tmp_path, calls(NAMES + "create", title="milk"), says("Done."), **asked)
    assert told == ['{"id":"1"}']
    assert stored(tmp_path)["log"] == ["create milk"]


@asynccontextmanager
async def openai(path: Path) -> AsyncGenerator[MCPServerStdio]:
    command, words, env = gateway(path)

    def meta(context: MCPToolMetaContext) -> dict[str, Any]:
        return {KEY: f"{context.tool_name}-{json.dumps(context.arguments, sort_keys=True)}"}

    params: Any = {"command": command, "args": words, "env": env, "cwd": str(path)}
    async with MCPServerStdio(params, client_session_timeout_seconds=60, tool_meta_resolver=meta) as server:
        yield server


def test_an_agent_of_openai_agents_is_on_record_and_the_id_it_gives_a_call_is_the_calls(tmp_path: Path) -> None:
    def scripted() -> ScriptedModel:
        return ScriptedModel(
            [[function_call("create", {"title": "milk"}, call_id="call-1")], [assistant_message("Done.")]]
        )

    async def story() -> None:
        async with openai(tmp_path) as server:
            for _ in range(2):
                ran = await Runner.run(Agent("notes", model=scripted(), mcp_servers=[server]), "Write a note.")
                assert ran.final_output == "Done."

    asyncio.run(story())
    assert stored(tmp_path)["log"] == ["create milk"]
    assert "notes.create" in amends(tmp_path, "saga", "show", "s-1")


def test_an_agent_of_pydantic_ai_is_on_record_and_its_calls_are_taken_back(tmp_path: Path) -> None:
    command, words, env = gateway(tmp_path)

    async def with_id(context: RunContext[None], call: CallToolFunc, name: str, args: dict[str, Any]) -> ToolResult:
        return await call(name, args, metadata={KEY: context.tool_call_id})

    async def answers(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("create", {"title": "milk"}, "call-1")])
        if len(messages) == 3:
            return ModelResponse(parts=[ToolCallPart("amends_undo", {"all": True}, "call-2")])
        return ModelResponse(parts=[TextPart("Undone.")])

    async def story() -> None:
        transport = StdioTransport(command, words, env=env, cwd=str(tmp_path))
        tools: MCPToolset[None] = MCPToolset(transport, process_tool_call=with_id, init_timeout=60)
        agent: PydanticAgent[None] = PydanticAgent(FunctionModel(answers), deps_type=type(None), toolsets=[tools])
        async with agent:
            assert (await agent.run("Write a note, and undo it.")).output == "Undone."

    asyncio.run(story())
    assert stored(tmp_path)["log"] == ["create milk", "delete 1"]


@pytest.mark.parametrize("how", ["print", "write"])
def test_claude_code_reads_the_configuration_that_install_makes(tmp_path: Path, how: str) -> None:
    """Its own command lists the server that stands in the file, with the gateway before it."""
    words = ["mcp", "install", "claude-code", "--name", "notes", *(["--write"] if how == "write" else [])]
    asked = [sys.executable, "-m", "amends", *words, "--", *notes_command(tmp_path)]
    own = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path, env=own)
    if how == "print":
        (tmp_path / ".mcp.json").write_text(done.stdout[done.stdout.index("{") : done.stdout.rindex("}") + 1])
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "config")}
    looks = [str(CLAUDE), "mcp", "get", "notes"]
    seen = subprocess.run(looks, capture_output=True, text=True, check=False, cwd=tmp_path, env=env, timeout=60)
    assert "mcp wrap" in seen.stdout, seen.stdout + seen.stderr
