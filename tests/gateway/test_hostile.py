"""A hostile server: what it says is passed on or refused, and neither harms the gateway nor fools it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amends.gateway.servers import definition_digest
from tests.gateway.support import ROOT, data, do, tell, text, wrapped


def hostile(how: str) -> list[str]:
    return [sys.executable, str(ROOT / "tests/gateway/hostile.py"), how]


CONTRACTS = "version: v1\ntools:\n  h.destroy*: {no_rollback: nobody knows what it did}\n"
NAMED = ("--name", "h")


@pytest.mark.parametrize("how", ["huge", "deep", "numbers", "words", "noise", ""])
def test_whatever_it_answers_is_on_record_as_far_as_it_can_be_and_the_next_call_goes_on(
    tmp_path: Path, how: str
) -> None:
    async def story() -> None:
        async with wrapped(tmp_path, hostile(how), contracts=CONTRACTS, options=NAMED) as client:
            for call in ("c-1", "c-1", "c-2"):
                answer = await do(client, "destroy", {"n": 1}, call)
                assert not answer.is_error or how == "deep", text(answer)[:300]
            assert len(data(await do(client, "amends_status"))["steps"]) == 2

    tell(story, 120)
    shown = subprocess.run(
        [sys.executable, "-m", "amends", "saga", "show", "s-1", "--journal", str(tmp_path / "amends.db")],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert b"\x1b]0" not in shown.stdout
    assert b"\x1b[2J" not in shown.stdout


def test_an_answer_that_nobody_can_read_is_none_and_the_call_is_in_doubt(tmp_path: Path) -> None:
    async def story() -> None:
        contracts = "version: v1\ntools:\n  h.destroy*: {compensate: {tool: h.destroy, args: {n: 2}}}\n"
        async with wrapped(tmp_path, hostile("half"), contracts=contracts, options=NAMED) as client:
            answer = await do(client, "destroy", {"n": 1})
            assert answer.is_error
            assert text(answer).startswith("lost: nobody knows whether it was done")

    tell(story)


def test_an_answer_that_is_none_of_the_protocols_is_told_in_a_line_without_what_it_holds(tmp_path: Path) -> None:
    async def story() -> None:
        async with wrapped(tmp_path, hostile("kind"), contracts=CONTRACTS, options=NAMED) as client:
            answer = await do(client, "destroy", {"n": 1})
            assert answer.is_error
            assert "its answer is none of the protocol's: content.0" in text(answer)
            assert "\n" not in text(answer)
            assert "sesame-4711" not in text(answer)

    tell(story)


def test_what_it_says_of_itself_lowers_no_risk_and_its_names_take_nobody_elses_place(tmp_path: Path) -> None:
    async def story() -> None:
        options = (*NAMED, "--env", "production")
        async with wrapped(tmp_path, hostile(""), contracts="version: v1\n", options=options) as client:
            names = [one.name for one in (await client.list_tools()).tools]
            assert names[:3] == ["destroy", "DESTROY", "h_amends_undo"]
            answer = await do(client, "destroy", {"n": 1})
            assert answer.is_error
            assert "denied" in text(answer)  # undeclared, though it says that it only reads

    tell(story)


def test_a_tool_that_is_defined_otherwise_than_it_was_is_not_called_before_a_person_has_looked(tmp_path: Path) -> None:
    async def story() -> None:
        async with wrapped(tmp_path, hostile("changes"), contracts=CONTRACTS, options=NAMED) as client:
            tool = next(one for one in (await client.list_tools()).tools if one.name == "destroy")
            digest = definition_digest(tool.model_dump(by_alias=True, mode="json", exclude_unset=True))
        assert len(digest) == 32
        wrong = f"version: v1\ntools:\n  h.*: {{no_rollback: gone, definition: '{digest[::-1]}'}}\n"
        async with wrapped(tmp_path, hostile("changes"), contracts=wrong, options=NAMED, session="s-2") as client:
            answer = await do(client, "destroy", {"n": 1})
            assert answer.is_error
            assert "defines it otherwise than when its contract was written" in text(answer)
            assert "write its new digest" in text(answer)

    tell(story)
