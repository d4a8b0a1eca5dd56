"""Sessions whose client has vanished: let go after a while, and on record as they were."""

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.server.client import Client
from tests.server.serving import Serving, serving
from tests.server.test_sessions import CHARGE, Agent


@pytest.fixture
def server(tmp_path: Path) -> Generator[Serving]:
    with serving(tmp_path / "s", "--session-idle", "1") as started:
        yield started


def test_a_call_without_a_time_does_not_keep_a_session_for_ever(server: Serving) -> None:
    endless = {**CHARGE, "topic": "shop.endless", "timeout": None, "probe": True}
    gone = Agent(server, server.token)
    with gone.client, Client(server) as watching:
        gone.open("endless")
        gone.step("c1", endless, order="o")
        watching.until("endless", "attempt.lost")
        watching.until("endless", "wait.started")


def test_a_session_is_let_go_that_nobody_asks_about_and_goes_on_when_it_is_opened(server: Serving) -> None:
    gone, there, calling = (Agent(server, server.token) for _ in range(3))
    with gone.client, there.client, calling.client, Client(server) as watching:
        there.open("there", client="here")
        calling.open("calling")
        is_out = calling.step("c1", order="o")
        contract = {"topic": "shop.delegated", "compensation": True, "timeout": 20}
        delegated: dict[str, Any] = {
            "topic": "shop.delegated",
            "contract": contract,
            "call": "c2",
            "by": "worker",
            "wait": 0,
        }
        assert calling.post("steps", **delegated)["state"] == "running"
        at_work = calling.task("shop.delegated")
        gone.open("gone")
        gone.report(gone.step("c1", order="o")["token"], "succeeded", result="paid")
        asking = threading.Thread(
            target=lambda: there.ask("GET", "/tasks", params={"topic": "none", "client": "here", "wait": 5})
        )
        asking.start()
        watching.until("gone", "wait.started")
        left = gone.post("checkpoint", 409, name="x")
        assert left["type"] == "urn:amends:SessionNotOpenError"
        gone.open("gone")
        assert gone.step("c1", order="o") == {"state": "succeeded", "call": "c1", "result": "paid"}
        assert there.post("checkpoint", name="x") == {"state": "open"}, "its client asks for its tasks"
        told = calling.report(is_out["token"], "succeeded", result="paid late")
        assert told["result"] == "paid late", "its call was out, and is lost by its own time alone"
        calling.report(at_work["token"], "succeeded", result="done late")
        assert calling.post("steps", **{**delegated, "wait": 20})["result"] == "done late", "as by a worker"
        asking.join()
