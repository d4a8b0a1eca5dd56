"""Approvals of calls: asked in the client, in the way of either era, or elsewhere; and nothing is decided by nobody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from tests.gateway.support import ERAS, NOTES, data, do, stored, tell, text, wrapped, write

both_eras = pytest.mark.parametrize("era", ERAS)
POLICY = "version: v1\nrules:\n  - {id: ask-first, when: {topic: notes.create}, decision: require_human}\n"
IN_CLIENT = NOTES + "approvals: in_client\n"


def asking(path: Path) -> tuple[str, ...]:
    return ("--policy", str(write(path, "policy.yaml", POLICY)))


def answering(action: Any, seen: list[str]) -> dict[str, Any]:
    async def answer(context: object, params: Any) -> ElicitResult:
        seen.append(params.message)
        return ElicitResult(action=action, content={"why": "fine"} if action == "accept" else None)

    return {"elicitation_callback": answer}


def amends(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "amends", *words, "--journal", str(path / "amends.db")]
    return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60, cwd=path)


@both_eras
def test_a_person_at_the_client_accepts_and_the_call_is_made_once(tmp_path: Path, era: str) -> None:
    seen: list[str] = []

    async def story() -> None:
        options = asking(tmp_path)
        async with wrapped(
            tmp_path, contracts=IN_CLIENT, era=era, options=options, **answering("accept", seen)
        ) as client:
            assert data(await do(client, "create", {"title": "a"}, "c-1")) == {"id": "1"}
            assert data(await do(client, "create", {"title": "a"}, "c-1")) == {"id": "1"}

    tell(story)
    assert len(seen) == 1
    assert "notes.create" in seen[0]
    assert "rule ask-first asks" in seen[0]
    assert "taken back by: notes.delete" in seen[0]
    assert stored(tmp_path)["log"] == ["create a"]
    assert "answered in the client: fine" in amends(tmp_path, "saga", "show", "s-1", "--json").stdout


@both_eras
def test_a_person_at_the_client_declines_and_nothing_is_called(tmp_path: Path, era: str) -> None:
    async def story() -> None:
        options = asking(tmp_path)
        async with wrapped(
            tmp_path, contracts=IN_CLIENT, era=era, options=options, **answering("decline", [])
        ) as client:
            answer = await do(client, "create", {"title": "a"})
            assert answer.is_error
            assert "denied" in text(answer)

    tell(story)
    assert stored(tmp_path)["log"] == []


@both_eras
@pytest.mark.parametrize("how", ["cancelled", "unable", "elsewhere"])
def test_where_nobody_answers_it_is_pending_and_the_same_call_goes_on_later(tmp_path: Path, era: str, how: str) -> None:
    """A cancelled question is no refusal; a client that cannot ask, and a file that does not let it, are the same."""

    async def story() -> None:
        options = asking(tmp_path)
        contracts = NOTES if how == "elsewhere" else IN_CLIENT
        able = {} if how == "unable" else answering("cancel", [])
        async with wrapped(tmp_path, contracts=contracts, era=era, options=options, **able) as client:
            answer = await do(client, "create", {"title": "a"})
            assert answer.is_error
            assert text(answer).startswith("pending: notes.create waits for a person")
            assert answer.meta["dev.amends/pending"]["approval"] == "s-1/1"
            again = await do(client, "create", {"title": "a"})
            assert answer.meta["dev.amends/pending"] == again.meta["dev.amends/pending"]
            assert data(await do(client, "amends_status"))["approvals"] == ["s-1/1"]
        granted = amends(tmp_path, "approval", "grant", "s-1/1", "--why", "read", "--yes")
        assert granted.returncode == 0, granted.stderr
        assert stored(tmp_path)["log"] == []
        async with wrapped(tmp_path, contracts=contracts, era=era, options=options, **able) as client:
            assert data(await do(client, "create", {"title": "a"})) == {"id": "1"}
            assert text(await do(client, "create", {"title": "a"})).startswith("pending")  # another one is another

    tell(story)
    assert stored(tmp_path)["log"] == ["create a"]


@both_eras
def test_what_a_server_asks_before_it_acts_reaches_the_person_and_the_answer_the_server(
    tmp_path: Path, era: str
) -> None:
    async def answer(context: object, params: Any) -> ElicitResult:
        assert params.message == "name?"
        return ElicitResult(action="accept", content={"name": "Ada"})

    async def story() -> None:
        command = [sys.executable, "-m", "tests.gateway.asks"]
        contracts = "version: v1\ntools: {asks.ask: {no_rollback: it was asked}}\n"
        async with wrapped(tmp_path, command, contracts=contracts, era=era, elicitation_callback=answer) as client:
            assert text(await do(client, "ask")) == "accept {'name': 'Ada'} state-1"
            done = [one["status"] for one in data(await do(client, "amends_status"))["steps"]]
            assert done[-1] == "succeeded"
            assert done.count("succeeded") == 1

    tell(story)
