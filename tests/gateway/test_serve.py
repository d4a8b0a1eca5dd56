"""A gateway for several servers and many clients, over HTTP: which saga, which names, and what is passed on."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp_types import TextContent, TextResourceContents

from tests.gateway.support import ERAS, ROOT, data, do, notes_command, served, stored, tell, text, wrapped, write

both_eras = pytest.mark.parametrize("era", ERAS)


def two_servers(path: Path) -> str:
    other = path / "other"
    other.mkdir(exist_ok=True)
    first, second = json.dumps(notes_command(path)), json.dumps(notes_command(other))
    return f"""\
version: v1
servers:
  notes: {{command: {first}, cwd: {json.dumps(str(ROOT))}}}
  other: {{command: {second}, cwd: {json.dumps(str(ROOT))}, env: [NOTES_WORD]}}
tools:
  notes.create: {{compensate: {{tool: delete, args: {{id: "${{result.id}}"}}}}}}
  other.create: {{compensate: {{tool: delete, args: {{id: "${{result.id}}"}}}}}}
  "*.whoami": {{read_only: true}}
"""


@both_eras
def test_the_address_says_which_saga_and_two_clients_share_one(
    tmp_path: Path, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_WORD", "a secret word")

    async def story() -> None:
        async with served(tmp_path, two_servers(tmp_path)) as address:
            async with Client(f"{address}/trip", mode=era) as one, Client(f"{address}/trip") as two:
                assert data(await do(one, "notes_create", {"title": "a"})) == {"id": "1"}
                assert data(await do(two, "other_create", {"title": "b"})) == {"id": "1"}
                status = data(await do(one, "amends_status"))
                assert [step["topic"] for step in status["steps"]] == ["notes.create", "other.create"]
                back = data(await do(two, "amends_undo", {"all": True}))["taken_back"]
                assert back == ["other.create (step 2)", "notes.create (step 1)"]
                assert "a secret word" in text(await do(one, "other_whoami"))
                assert "a secret word" not in text(await do(one, "notes_whoami"))
            async with Client(f"{address}/other-trip", mode=era) as three:
                assert data(await do(three, "amends_status"))["steps"] == []
            async with Client(address, mode=era) as four:
                nowhere = await do(four, "notes_create", {"title": "c"})
                assert nowhere.is_error
                assert "of no saga" in text(nowhere)
                meta: Any = {"dev.amends/saga": "by-meta"}
                assert data(await four.call_tool("notes_create", {"title": "d"}, meta=meta)) == {"id": "2"}
                told = await four.call_tool("amends_status", {}, meta=meta)
                assert data(told)["saga"] == "by-meta"

    tell(story)
    assert stored(tmp_path)["log"] == ["create a", "delete 1", "create d"]


def test_a_gateway_stands_before_a_gateway_over_http_and_credentials_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.mkdir()
    outer.mkdir()
    monkeypatch.setenv("NOTES_AUTH", "Bearer it-is-secret")
    monkeypatch.setenv("NOTES_WORD", "w")

    async def story() -> None:
        async with served(inner, two_servers(inner)) as address:
            contracts = f"""\
version: v1
servers: {{far: {{url: "{address}/far", headers: {{Authorization: {{env: NOTES_AUTH}}}}}}}}
tools: {{far.notes_create: {{compensate: {{tool: notes_delete, args: {{id: "${{result.id}}"}}}}}}}}
"""
            async with served(outer, contracts) as front, Client(f"{front}/near") as client:
                assert data(await do(client, "notes_create", {"title": "a"})) == {"id": "1"}
                assert len(data(await do(client, "amends_undo", {"all": True}))["taken_back"]) == 1

    tell(story)
    assert stored(inner)["notes"] == {}
    assert b"it-is-secret" not in b"".join(path.read_bytes() for path in outer.glob("amends.db*"))


@both_eras
def test_resources_prompts_and_new_tools_come_through(tmp_path: Path, era: str) -> None:
    async def story() -> None:
        news = asyncio.Event()

        async def hear(message: object) -> None:
            if "ToolListChanged" in type(message).__name__:
                news.set()

        async with wrapped(tmp_path, era=era, message_handler=hear) as client:
            await do(client, "create", {"title": "a"})
            listed = (await client.list_resources()).resources
            assert [str(one.uri) for one in listed] == ["notes://all"]
            (read,) = (await client.read_resource("notes://all")).contents
            assert isinstance(read, TextResourceContents)
            assert json.loads(read.text)["1"]["title"] == "a"
            assert [one.name for one in (await client.list_prompts()).prompts] == ["summary"]
            (message,) = (await client.get_prompt("summary", {"of": "it"})).messages
            assert isinstance(message.content, TextContent)
            assert message.content.text == "Summarise it."
            await client.list_tools()
            await do(client, "grow", {"name": "fresh"})
            if era == "legacy":
                await asyncio.wait_for(news.wait(), 10)
            async with asyncio.timeout(10):
                while "fresh" not in {one.name for one in (await client.list_tools()).tools}:
                    await asyncio.sleep(0.05)
            assert text(await do(client, "fresh")) == "fresh"

    tell(story)


def test_a_client_is_answered_at_once_though_the_server_has_not_begun(tmp_path: Path) -> None:
    late = write(
        tmp_path,
        "late.py",
        "import os, runpy, sys, time\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\nsys.argv = sys.argv[1:]\n"
        "runpy.run_module('tests.gateway.notes', run_name='__main__')\n",
    )

    async def story() -> None:
        command = [sys.executable, str(late), "notes", str(tmp_path / "notes.json")]
        async with wrapped(tmp_path, command, options=("--name", "notes")) as client:
            (tmp_path / "go").touch()  # the client was answered, and the server has not begun
            assert data(await do(client, "create", {"title": "a"})) == {"id": "1"}

    tell(story)
