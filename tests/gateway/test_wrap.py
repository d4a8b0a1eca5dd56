"""A wrapped server: its tools as they were, and each call on record, judged, and taken back when that is asked for."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.gateway.support import ERAS, NOTES, data, do, stored, tell, text, wrapped

both_eras = pytest.mark.parametrize("era", ERAS)


def amends(path: Path, *words: str) -> str:
    """What a command says about the journal of a test."""
    asked = [sys.executable, "-m", "amends", *words, "--journal", str(path / "amends.db")]
    return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60, cwd=path).stdout


@both_eras
def test_the_tools_are_the_servers_own_and_four_more(tmp_path: Path, era: str) -> None:
    async def story() -> None:
        async with wrapped(tmp_path, era=era) as client:
            tools = {one.name: one for one in (await client.list_tools()).tools}
        assert {"create", "get", "amends_status", "amends_checkpoint", "amends_undo", "amends_complete"} <= set(tools)
        assert tools["get"].annotations is not None
        assert tools["get"].annotations.read_only_hint is True
        assert tools["create"].input_schema["required"] == ["title"]

    tell(story)


@both_eras
def test_what_was_done_is_taken_back_newest_first_by_the_real_results(tmp_path: Path, era: str) -> None:
    async def story() -> None:
        async with wrapped(tmp_path, era=era) as client:
            first = data(await do(client, "create", {"title": "a", "text": "one"}))
            second = data(await do(client, "create", {"title": "b"}))
            await do(client, "update", {"id": first["id"], "text": "two"})
            assert stored(tmp_path)["notes"][first["id"]]["text"] == "two"
            plan = data(await do(client, "amends_undo", {"all": True, "plan": True}))
            assert [one["topic"] for one in plan["steps"]] == ["notes.update", "notes.create", "notes.create"]
            undone = data(await do(client, "amends_undo", {"last": 2}))
            assert undone["taken_back"] == ["notes.update (step 3)", "notes.create (step 2)"]
            assert stored(tmp_path)["notes"] == {first["id"]: {"id": first["id"], "title": "a", "text": "one"}}
            assert second["id"] not in stored(tmp_path)["notes"]
            await do(client, "amends_undo", {"all": True})
            assert stored(tmp_path)["notes"] == {}
            assert data(await do(client, "amends_complete"))["status"] == "completed"

    tell(story)
    assert stored(tmp_path)["log"] == ["create a", "create b", "update 1", "update 1", "delete 2", "delete 1"]


def test_a_checkpoint_is_come_back_to_and_the_work_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with wrapped(tmp_path) as client:
            await do(client, "create", {"title": "kept"})
            await do(client, "amends_checkpoint", {"name": "here"})
            await do(client, "create", {"title": "gone"})
            await do(client, "create", {"title": "gone too"})
            assert len(data(await do(client, "amends_undo", {"to": "here"}))["taken_back"]) == 2
            await do(client, "create", {"title": "after"})
            wrong = await do(client, "amends_undo", {"to": "there"})
            assert wrong.is_error
            assert "no checkpoint 'there'" in text(wrong)
        assert [one["title"] for one in stored(tmp_path)["notes"].values()] == ["kept", "after"]

    tell(story)


@both_eras
def test_a_call_with_the_same_id_is_done_once_and_answered_from_the_journal(tmp_path: Path, era: str) -> None:
    async def story() -> None:
        async with wrapped(tmp_path, era=era) as client:
            asked = [do(client, "create", {"title": "a"}, call="c-1") for _ in range(3)]
            answers = [data(one) for one in await asyncio.gather(*asked)]
            assert answers == [{"id": "1"}] * 3
            other = await do(client, "create", {"title": "b"}, call="c-1")
            assert other.is_error
            assert "with other arguments" in text(other)
        async with wrapped(tmp_path, era=era) as client:
            assert data(await do(client, "create", {"title": "a"}, call="c-1")) == {"id": "1"}

    tell(story)
    assert stored(tmp_path)["log"] == ["create a"]


def test_the_id_that_claude_code_gives_is_the_id_of_the_call(tmp_path: Path) -> None:
    async def story() -> None:
        async with wrapped(tmp_path) as client:
            for _ in range(2):
                meta: Any = {"claudecode/toolUseId": "toolu_1"}
                assert data(await client.call_tool("create", {"title": "a"}, meta=meta)) == {"id": "1"}

    tell(story)
    assert stored(tmp_path)["log"] == ["create a"]


def test_calls_without_an_id_are_calls_of_their_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with wrapped(tmp_path) as client:
            assert data(await do(client, "create", {"title": "a"})) == {"id": "1"}
            assert data(await do(client, "create", {"title": "a"})) == {"id": "2"}

    tell(story)


@pytest.mark.parametrize("how", ["marked", "told"])
def test_an_error_is_passed_on_as_it_came_and_a_certified_one_needs_nothing_taken_back(
    tmp_path: Path, how: str
) -> None:
    async def story() -> None:
        async with wrapped(tmp_path) as client:
            answer = await do(client, "refuse", {"how": how})
            assert "it did not work" in text(answer)
            assert answer.is_error is (how == "marked")
            assert (await do(client, "amends_undo", {})).is_error  # nothing stands
            status = data(await do(client, "amends_status"))
            assert [one["status"] for one in status["steps"]] == ["failed"]

    tell(story)


def test_an_error_that_nobody_speaks_of_is_in_doubt_and_a_person_is_called(tmp_path: Path) -> None:
    contracts = 'version: v1\ntools: {notes.refuse: {compensate: {tool: notes.delete, args: {id: "${result.id}"}}}}\n'

    async def story() -> None:
        async with wrapped(tmp_path, contracts=contracts) as client:
            assert "it did not work" in text(await do(client, "refuse", {"how": "marked"}))
            assert data(await do(client, "amends_status"))["steps"][0]["status"] == "unknown"
            answer = await do(client, "amends_undo", {})
            assert answer.is_error

    tell(story)
    assert "delete" not in "".join(stored(tmp_path)["log"])
    assert "leads nowhere" in amends(tmp_path, "incident", "list")


def test_a_step_that_cannot_be_taken_back_stops_an_undo_with_its_reason(tmp_path: Path) -> None:
    async def story() -> None:
        async with wrapped(tmp_path) as client:
            await do(client, "create", {"title": "a"})
            assert text(await do(client, "publish", {"id": "1"})) == "published 1"
            answer = await do(client, "amends_undo", {"last": 2})
            assert answer.is_error
            assert "subscribers have been mailed" in text(answer)

    tell(story)
    assert stored(tmp_path)["log"] == ["create a", "publish 1"]


def test_what_the_policy_denies_is_not_called_and_the_model_reads_why(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: v1\nrules:\n  - {id: no-mail, when: {topic: notes.publish}, decision: deny, reason: not on Fridays}\n"
    )
    policy.chmod(0o600)

    async def story() -> None:
        async with wrapped(tmp_path, options=("--policy", str(policy))) as client:
            answer = await do(client, "publish", {"id": "1"})
            assert answer.is_error
            assert "not on Fridays" in text(answer)

    tell(story)
    assert stored(tmp_path)["log"] == []


def test_observing_lets_everything_pass_and_keeps_what_the_policy_would_have_said(tmp_path: Path) -> None:
    async def story() -> None:
        options = ("--mode", "observe", "--env", "production")
        async with wrapped(tmp_path, contracts="version: v1\n", options=options) as client:
            assert data(await do(client, "create", {"title": "a"})) == {"id": "1"}
            assert data(await do(client, "amends_status"))["mode"] == "observe"

    tell(story)
    assert '"rule": "observed:deny:builtin-undeclared"' in amends(tmp_path, "saga", "show", "s-1", "--json")
    told = amends(tmp_path, "mcp", "report")
    assert "create: 1 call, undeclared; the policy would have said: 1 times deny by builtin-undeclared" in told


def test_observing_refuses_nothing_for_its_contract_and_what_nobody_saw_is_not_taken_for_nothing(
    tmp_path: Path,
) -> None:
    contracts = """\
version: v1
mode: observe
tools:
  notes.create:
    before: {tool: notes.get, args: {id: "${args.title}"}}
    compensate: {tool: notes.delete, args: {id: "1"}, unless: "${before.found}"}
  notes.update:
    compensate: {tool: notes.remove, args: {id: "${args.id}"}}
"""

    async def story() -> None:
        async with wrapped(tmp_path, contracts=contracts) as client:
            assert data(await do(client, "create", {"title": "a"})) == {"id": "1"}
            assert data(await do(client, "update", {"id": "1", "text": "b"})) == {"id": "1"}
            steps = data(await do(client, "amends_status"))["steps"]
            assert [(one["status"], one["undo"]) for one in steps] == [
                ("succeeded", "can be taken back"),
                ("succeeded", "nothing is said of how to take it back"),
            ]
            undone = await do(client, "amends_undo", {"all": True})
            assert undone.is_error
            assert "session s-1 is incident" in text(undone)

    tell(story)
    assert stored(tmp_path)["log"] == ["create a", "update 1"], "nothing was called that could be wrong"
    told = amends(tmp_path, "mcp", "report")
    assert "notes.create: 1 call, compensatable; of 1 nobody saw what was there before" in told


def test_meta_reaches_the_server_without_what_is_of_the_connection_or_of_ours(tmp_path: Path) -> None:
    async def story() -> None:
        async with wrapped(tmp_path) as client:
            meta: Any = {
                "dev.amends/call": "c",
                "x.test/kept": 1,
                "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01",
            }
            told = json.loads(text(await client.call_tool("told", {}, meta=meta)))
        ours = {name for name in told if name.startswith("dev.amends/")}
        assert ours == {"dev.amends/key"}
        assert told["x.test/kept"] == 1
        client_info = told.get("io.modelcontextprotocol/clientInfo", {})
        assert client_info.get("name") == "amends"  # of the gateway's own connection, where the era has it

    tell(story)


@both_eras
def test_progress_comes_through_and_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path, era: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def story() -> None:
        async with wrapped(tmp_path, era=era) as client:
            assert text(await client.call_tool("slow", {"seconds": 0.2}, progress_callback=note)) == "done"
            with pytest.raises(MCPError):
                await client.call_tool("slow", {"seconds": 30}, read_timeout_seconds=1)
            assert data(await do(client, "create", {"title": "after"})) == {"id": "1"}

    tell(story)
    assert (4, 4, "part 4") in seen
    assert stored(tmp_path)["log"] == ["slow", "create after"]


def test_without_a_name_of_the_saga_each_process_has_its_own_and_a_complete_one_is_followed_by_another(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with wrapped(tmp_path, session="") as client:
            await do(client, "create", {"title": "a"})
            first = data(await do(client, "amends_complete"))["saga"]
            await do(client, "create", {"title": "b"})
            second = data(await do(client, "amends_status"))["saga"]
            assert first != second
            assert len(data(await do(client, "amends_status"))["steps"]) == 1

    tell(story)


def test_two_clients_work_on_one_saga_and_each_takes_back_what_the_other_did(tmp_path: Path) -> None:
    async def story() -> None:
        async with wrapped(tmp_path) as one, wrapped(tmp_path, era="legacy") as other:
            await do(one, "create", {"title": "of one"})
            await do(other, "create", {"title": "of the other"})
            await do(one, "create", {"title": "of one again"})
            assert len(data(await do(other, "amends_undo", {"all": True}))["taken_back"]) == 3

    tell(story)
    assert stored(tmp_path)["notes"] == {}


def test_a_contract_that_does_not_fit_its_tool_is_refused_with_its_line_and_nothing_is_called(tmp_path: Path) -> None:
    contracts = """\
version: v1
tools:
  notes.create:
    compensate: {tool: notes.remove, args: {id: "${result.id}"}}
  notes.update:
    before: {tool: notes.get, args: {id: "${args.id}"}}
    compensate: {tool: notes.update, args: {id: "${args.number}", txt: "${before.text}"}}
"""

    async def story() -> None:
        async with wrapped(tmp_path, contracts=contracts) as client:
            answer = text(await do(client, "create", {"title": "a"}))
            assert "contracts.yaml:4: compensate of notes.create: server notes has no tool remove" in answer
            answer = text(await do(client, "update", {"id": "1", "text": "a"}))
            assert "notes.update takes no txt" in answer
            assert "notes.update needs text" in answer
            assert "${args.number} leads nowhere: the tool takes id, text" in answer

    tell(story)
    assert stored(tmp_path)["log"] == []


def test_a_file_with_a_mistake_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    file = tmp_path / "contracts.yaml"
    file.write_text("version: v1\ntools: {notes.create: {compensat: {tool: notes.delete}}}\n")
    file.chmod(0o600)
    asked = [sys.executable, "-m", "amends", "mcp", "wrap", "--contracts", str(file), "--", "false"]
    ended = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert ended.returncode == 2
    assert "unknown key 'compensat' in tool notes.create; did you mean compensate?" in ended.stderr
    assert not (tmp_path / "amends.db").exists()


def test_a_server_that_does_not_start_is_told_and_the_client_is_answered_all_the_same(tmp_path: Path) -> None:
    async def story() -> None:
        async with wrapped(tmp_path, ["/nonexistent/server"]) as client:
            assert [one.name for one in (await client.list_tools()).tools][-1] == "amends_complete"
            answer = await do(client, "create", {"title": "a"})
            assert answer.is_error
            assert "no tool 'create'" in text(answer)

    tell(story)


def test_a_saga_that_stopped_at_an_incident_can_still_be_looked_at(tmp_path: Path) -> None:
    """The reference leads nowhere in what the server answers: no call is made, and a person is needed."""
    contracts = NOTES.replace(
        'notes.delete, args: {id: "${result.id}"}', 'notes.delete, args: {id: "${result.nope.id}"}'
    )

    async def story() -> None:
        async with wrapped(tmp_path, contracts=contracts) as client:
            await do(client, "create", {"title": "a", "text": "b"})
            undone = await do(client, "amends_undo")
            assert undone.is_error
            assert "leads nowhere" in text(undone)
            shown = await do(client, "amends_status")
            assert data(shown)["status"] == "incident"
            assert "needs a person: amends incident list" in text(shown)
            assert [one["topic"] for one in data(shown)["steps"]] == ["notes.create"]
        assert len(stored(tmp_path)["notes"]) == 1

    tell(story)
