"""Sessions over plain HTTP, as an agent in any language drives them: propose, be told, call, report, take tasks."""

import threading
from collections.abc import Generator
from typing import Any

import httpx2
import pytest

from tests.server.serving import Serving, serving

CHARGE: dict[str, Any] = {"topic": "shop.charge", "compensation": True, "timeout": 20}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    with serving(tmp_path_factory.mktemp("sessions")) as started:
        yield started


class Agent:
    """One that knows HTTP and nothing else."""

    def __init__(self, server: Serving, token: str) -> None:
        self.client = httpx2.Client(base_url=server.url, headers=server.headers(token), timeout=60, trust_env=False)
        self.id = self.holder = ""

    def ask(self, method: str, path: str, status: int = 200, **more: Any) -> Any:
        answer = self.client.request(method, f"/v1{path}", **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    def open(self, id: str, name: str = "shop.agent", **more: Any) -> Any:
        said = self.ask("POST", "/sessions", json={"name": name, "id": id, **more})
        self.id, self.holder = said["id"], said["holder"]
        return said

    def post(self, what: str, status: int = 200, **more: Any) -> Any:
        return self.ask("POST", f"/sessions/{self.id}/{what}", status, json={"holder": self.holder, **more})

    def step(self, call: str, contract: dict[str, Any] | None = None, status: int = 200, **args: Any) -> Any:
        contract = contract or CHARGE
        return self.post("steps", status, topic=contract["topic"], contract=contract, call=call, args=args)

    def report(self, token: str, outcome: str, status: int = 200, **more: Any) -> Any:
        return self.ask("POST", f"/attempts/{token}/outcome", status, json={"outcome": outcome, **more})

    def task(self, *topics: str, wait: float = 20) -> Any:
        return self.ask("GET", "/tasks", params={"topic": topics, "wait": wait})["task"]


@pytest.fixture(scope="module")
def token(server: Serving) -> str:
    return server.new_token("agent:shop", "run", definitions=("shop.*",))


@pytest.fixture
def agent(server: Serving, token: str) -> Generator[Agent]:
    one = Agent(server, token)
    with one.client:
        yield one


@pytest.fixture
def worker(server: Serving, token: str) -> Generator[Agent]:
    one = Agent(server, token)
    with one.client:
        yield one


def test_a_step_is_proposed_done_reported_and_taken_back_by_whoever_takes_tasks(agent: Agent) -> None:
    assert agent.open("whole")["state"] == "open"
    first = agent.step("c1", order="o-1")
    assert (first["state"], first["part"], first["args"]) == ("perform", "action", {"order": "o-1"})
    assert agent.report(first["token"], "succeeded", result="paid")["result"] == "paid"
    assert agent.step("c1", order="o-1") == {"state": "succeeded", "call": "c1", "result": "paid"}
    ended = agent.post("complete", result={"paid": 1})
    assert (ended["status"], ended["result"]) == ("completed", {"paid": 1})


def test_a_session_that_is_cancelled_has_its_compensations_as_tasks(agent: Agent, worker: Agent) -> None:
    agent.open("cancelled")
    for call in ("c1", "c2"):
        told = agent.step(call, order=call)
        agent.report(told["token"], "succeeded", result=f"paid {call}")
    ended: list[Any] = []
    canceller = threading.Thread(target=lambda: ended.append(agent.post("cancel", why="the customer left")))
    canceller.start()
    seen: list[Any] = []
    for _ in range(2):
        task = worker.task("shop.*")
        seen.append((task["part"], task["args"]["order"], task["result"], task["certain"]))
        worker.report(task["token"], "succeeded")
    canceller.join()
    assert seen == [("compensation", "c2", "paid c2", True), ("compensation", "c1", "paid c1", True)]
    assert ended[0]["status"] == "rolled_back"
