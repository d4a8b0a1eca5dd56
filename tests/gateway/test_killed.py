"""SIGKILL of the gateway, and of the server, at each point of a call: nothing is done twice, nothing is forgotten."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from tests.gateway.support import ERAS, NOTES, ROOT, data, do, notes_command, stored, tell, text, wrapped

POINTS = ("create:before", "create:after")


async def lost(client: Client, tool: str, arguments: dict[str, object], call: str) -> None:
    """A call in the middle of which the gateway is killed."""
    with pytest.raises((MCPError, OSError)):
        async with asyncio.timeout(20):
            await do(client, tool, dict(arguments), call)


async def victim(path: Path, point: str, era: str, contracts: str = NOTES) -> None:
    """A client whose gateway is killed at this point of a call; the server ends with it."""
    try:
        async with wrapped(path, era=era, contracts=contracts, env={"NOTES_KILLS": point}) as client:
            await do(client, "create", {"title": "kept"}, "c-0") if not point.startswith("create") else None
            await lost(client, point.partition(":")[0], ARGUMENTS[point.partition(":")[0]], "c-1")
    except* (MCPError, OSError):
        pass


ARGUMENTS: dict[str, dict[str, object]] = {
    "create": {"title": "a"},
    "update": {"id": "1", "text": "new"},
    "delete": {"id": "1"},
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("point", POINTS)
def test_a_gateway_that_is_killed_in_a_call_asks_the_world_and_answers_the_same_call_once(
    tmp_path: Path, point: str, era: str
) -> None:
    async def story() -> None:
        await victim(tmp_path, point, era)
        async with wrapped(tmp_path, era=era) as client:
            assert data(await do(client, "create", {"title": "a"}, "c-1"))["id"] == "1"
            assert [one["title"] for one in stored(tmp_path)["notes"].values()] == ["a"]
            undone = data(await do(client, "amends_undo", {"all": True}))
            assert len(undone["taken_back"]) == 1
            assert stored(tmp_path)["notes"] == {}

    tell(story, 120)
    assert stored(tmp_path)["log"].count("create a") == 1


@pytest.mark.parametrize("point", ["update:before", "update:after"])
def test_what_has_no_probe_is_taken_back_to_what_it_was_before(tmp_path: Path, point: str) -> None:
    async def story() -> None:
        await victim(tmp_path, point, "auto")
        async with wrapped(tmp_path) as client:
            status = data(await do(client, "amends_status"))
            assert [one["topic"] for one in status["steps"]] == ["notes.create", "notes.update"]
            await do(client, "create", {"title": "next"}, "c-2")
            assert stored(tmp_path)["notes"]["1"]["text"] == ""
            again = await do(client, "update", {"id": "1", "text": "new"}, "c-1")
            assert again.is_error
            assert "nobody knows whether it was done; it was taken back" in text(again)

    tell(story, 120)


@pytest.mark.parametrize("point", ["create:before", "create:after"])
def test_a_server_that_is_killed_in_a_call_is_started_again_and_asked(tmp_path: Path, point: str) -> None:
    async def story() -> None:
        async with wrapped(tmp_path, env={"NOTES_DIES": point}) as client:
            assert data(await do(client, "create", {"title": "a"}))["id"] == "1"
            assert data(await do(client, "create", {"title": "b"}))["id"] == "2"
            await do(client, "amends_undo", {"all": True})

    tell(story, 120)
    assert stored(tmp_path)["notes"] == {}
    assert stored(tmp_path)["log"][:2] == ["create a", "create b"]


def test_a_server_that_is_killed_when_it_is_asked_what_was_lost_is_asked_again(tmp_path: Path) -> None:
    async def story() -> None:
        await victim(tmp_path, "create:after", "auto")
        async with wrapped(tmp_path, env={"NOTES_DIES": "find:before"}) as client:
            assert data(await do(client, "create", {"title": "a"}, "c-1"))["id"] == "1"
            assert (tmp_path / "notes.NOTES_DIES").exists()
            await do(client, "amends_undo", {"all": True})

    tell(story, 120)
    assert stored(tmp_path)["log"] == ["create a", "delete 1"]


def test_a_server_that_is_killed_when_it_is_looked_at_before_a_call_is_looked_at_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with wrapped(tmp_path, env={"NOTES_DIES": "get:before"}) as client:
            await do(client, "create", {"title": "a", "text": "old"}, "c-0")
            assert data(await do(client, "update", {"id": "1", "text": "new"}, "c-1"))["id"] == "1"
            assert (tmp_path / "notes.NOTES_DIES").exists()
            await do(client, "amends_undo")
            assert stored(tmp_path)["notes"]["1"]["text"] == "old"

    tell(story, 120)
    assert stored(tmp_path)["log"] == ["create a", "update 1", "update 1"]


@pytest.mark.parametrize("point", ["delete:before", "delete:after"])
def test_a_server_that_is_killed_in_a_compensation_is_asked_again_to_the_end(tmp_path: Path, point: str) -> None:
    contracts = NOTES.replace(
        'compensate: {tool: notes.delete, args: {id: "${result.id}"}}',
        'compensate: {tool: notes.delete, args: {id: "${result.id}"}, done_when: {text: "*no note*"}}',
    )

    async def story() -> None:
        async with wrapped(tmp_path, contracts=contracts, env={"NOTES_DIES": point}) as client:
            await do(client, "create", {"title": "a"})
            assert len(data(await do(client, "amends_undo"))["taken_back"]) == 1

    tell(story, 120)
    assert stored(tmp_path)["notes"] == {}
    assert stored(tmp_path)["log"].count("delete 1") == 1


COMMITS = range(1, 13)
"""Of a call that makes, one that changes, and an undo of both."""


async def calls(path: Path, program: tuple[str, ...] = ("amends",)) -> None:
    """A client that makes its calls, one after another, under ids that say which."""
    env = {"MORTAL_PLACE": str(path)}
    async with wrapped(path, program=program, env=env) as client:
        await client.list_tools()
        (path / "armed").touch()
        async with asyncio.timeout(20):
            await do(client, "create", {"title": "a"}, "c-1")
            await do(client, "update", {"id": "1", "text": "new"}, "c-2")
            await do(client, "amends_undo", {"all": True})


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", COMMITS)
def test_a_gateway_that_is_killed_at_any_commit_is_followed_by_one_that_goes_on(
    tmp_path: Path, number: int, when: str
) -> None:
    async def story() -> None:
        try:
            await calls(tmp_path, ("tests.gateway.mortal", str(number), when))
        except* (MCPError, OSError):
            pass
        assert (tmp_path / "died").exists()
        await calls(tmp_path)

    tell(story, 120)
    assert stored(tmp_path)["notes"] == {}
    assert stored(tmp_path)["log"].count("create a") == 1


def test_a_gateway_that_is_killed_after_its_answer_has_forgotten_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        try:
            async with wrapped(tmp_path) as client:
                assert data(await do(client, "create", {"title": "a"}, "c-1"))["id"] == "1"
                kill_gateways(tmp_path)
                await lost(client, "create", {"title": "b"}, "c-2")
        except* (MCPError, OSError):
            pass
        async with wrapped(tmp_path) as client:
            assert data(await do(client, "create", {"title": "a"}, "c-1"))["id"] == "1"
            assert len(data(await do(client, "amends_undo", {"all": True}))["taken_back"]) == 1

    tell(story, 120)
    assert stored(tmp_path)["notes"] == {}


def test_a_command_takes_back_what_a_dead_gateway_did_with_the_file_that_its_saga_names(tmp_path: Path) -> None:
    command = json.dumps(notes_command(tmp_path))
    contracts = NOTES + f"servers: {{notes: {{command: {command}, cwd: {ROOT}}}}}\n"

    async def story() -> None:
        await victim(tmp_path, "create:after", "auto", contracts)

    tell(story)
    assert len(stored(tmp_path)["notes"]) == 1
    asked = [sys.executable, "-m", "amends", "saga", "cancel", "s-1", "--journal", str(tmp_path / "amends.db")]
    ended = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert "rolled back" in ended.stdout, ended.stdout + ended.stderr
    assert stored(tmp_path)["notes"] == {}


def kill_gateways(path: Path) -> None:
    """SIGKILL of the gateways that work on the journal of this test, and of no other process."""
    wanted = f"AMENDS_JOURNAL={path / 'amends.db'}".encode()
    found = 0
    for one in Path("/proc").glob("[0-9]*"):
        try:
            words, env = (one / "cmdline").read_bytes(), (one / "environ").read_bytes()
        except OSError:
            continue
        if wanted in env.split(b"\0") and b"mcp\0wrap" in words:
            os.kill(int(one.name), signal.SIGKILL)
            found += 1
    assert found
