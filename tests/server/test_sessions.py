"""Sessions over plain HTTP, as an agent in any language drives them: propose, be told, call, report, take tasks."""

import threading
from collections.abc import Generator
from typing import Any

import httpx2
import pytest

from tests.server.client import Client
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


def test_an_end_that_takes_long_is_asked_for_again_and_is_one(agent: Agent, worker: Agent) -> None:
    """A rollback waits for calls of others: a proxy cut the answer off, and the same request again was a 500."""
    agent.open("long")
    agent.report(agent.step("c1", order="long")["token"], "succeeded", result="paid")
    first = agent.post("cancel", why="the customer left", wait=0)
    assert (first["state"], first["status"]) in {("running", "running"), ("running", "rolling_back")}
    again: list[Any] = []
    both = [threading.Thread(target=lambda: again.append(agent.post("cancel", why="they left"))) for _ in range(2)]
    for one in both:
        one.start()
    task = worker.ask("GET", "/tasks", params={"topic": "shop.*", "saga": "long", "wait": 20})["task"]
    worker.report(task["token"], "succeeded")
    for one in both:
        one.join()
    assert [(one["state"], one["status"], one["why"]) for one in again] == [
        ("ended", "rolled_back", "the customer left")
    ] * 2


@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_an_end_that_is_asked_for_twice_at_once_is_one(agent: Agent, worker: Agent, verb: str) -> None:
    agent.open(f"twice-{verb}")
    out = agent.step("c1", order="twice")
    body: dict[str, Any] = {"result": {}} if verb == "complete" else {"error": {"type": "ValueError", "reason": "no"}}
    if verb == "fail":
        agent.report(out["token"], "succeeded", result="paid")
    assert agent.post(verb, wait=0, **body)["state"] == "running", "a call is out, or one that takes it back"
    said: list[Any] = []
    several = [threading.Thread(target=lambda: said.append(agent.post(verb, wait=20, **body))) for _ in range(5)]
    for one in several:
        one.start()
    if verb == "complete":
        agent.report(out["token"], "succeeded", result="paid")
    else:
        task = worker.ask("GET", "/tasks", params={"topic": "shop.*", "saga": "twice-fail", "wait": 20})["task"]
        worker.report(task["token"], "succeeded")
    for one in several:
        one.join()
    status = "completed" if verb == "complete" else "rolled_back"
    assert [(one["state"], one["status"]) for one in said] == [("ended", status)] * 5


def test_a_resource_that_another_has_is_asked_for_again(agent: Agent, worker: Agent) -> None:
    """The answer came when the other had ended, and a proxy cut it off before."""
    agent.open("has-it")
    assert agent.post("lock", resources=["dock/1"]) == {"state": "open"}
    worker.open("wants-it")
    for _ in range(2):
        assert worker.post("lock", resources=["dock/1"], wait=0.1) == {"state": "running"}
    assert agent.post("complete", result={})["status"] == "completed"
    for _ in range(2):
        assert worker.post("lock", resources=["dock/1"]) == {"state": "open"}
    assert "is 0 to 60 seconds" in worker.post("lock", 422, resources=["dock/1"], wait=61)["detail"]


def test_a_session_that_is_being_completed_is_not_left_in_another_way(agent: Agent, worker: Agent) -> None:
    """Something is promised for the end, so that it takes as long as the call for it."""
    held = {"topic": "shop.mail", "hold": True, "no_rollback": "a mail is sent"}
    agent.open("both")
    assert agent.step("c1", held, order="both")["state"] == "succeeded"
    assert agent.post("complete", result={}, wait=0.5)["state"] == "running"
    refused = agent.post("fail", 409, error={"type": "ValueError", "reason": "no"}, wait=0)
    assert "was left already, to complete it" in refused["detail"]
    task = worker.ask("GET", "/tasks", params={"topic": "shop.mail", "saga": "both", "wait": 20})["task"]
    worker.report(task["token"], "succeeded")
    assert agent.post("complete", result={})["status"] == "completed"


def test_what_nobody_reports_is_lost_when_the_session_is_taken_up_again(agent: Agent) -> None:
    probed = {**CHARGE, "topic": "shop.probed", "probe": True}
    agent.open("taken")
    first = agent.step("c1", probed, order="o")
    stale = agent.holder
    agent.open("taken")
    asked = agent.step("c1", probed, order="o")
    assert (asked["part"], asked["key"]) == ("probe", first["key"])
    late = agent.report(first["token"], "succeeded", result="paid late")
    assert late["token"] == asked["token"], "the probe is out already"
    found = agent.report(asked["token"], "happened", result="paid")
    assert (found["state"], found["result"]) == ("succeeded", "paid late"), "as whoever made the call has said first"
    refused = agent.ask("POST", "/sessions/taken/checkpoint", 409, json={"holder": stale, "name": "x"})
    assert refused["type"] == "urn:amends:SessionOverError"


@pytest.mark.parametrize("is_back", [False, True])
def test_what_a_call_did_that_was_out_when_its_session_failed_is_on_record(
    agent: Agent, worker: Agent, server: Serving, is_back: bool
) -> None:
    """Its report was answered by a 409 and dropped: an effect that came after its compensation stood for good."""
    contract = {**CHARGE, "topic": f"shop.out-{is_back}".lower()}
    agent.open(saga := f"out-{is_back}".lower())
    out = agent.step("c1", contract, order="out")
    left: dict[str, Any] = {"error": {"type": "ValueError", "reason": "no"}}
    assert agent.post("fail", wait=0, **left)["state"] == "running"
    undoing = worker.task(contract["topic"])
    assert (undoing["part"], undoing["certain"], undoing["result"]) == ("compensation", False, None)
    if is_back:
        worker.report(undoing["token"], "succeeded")
        assert agent.post("fail", **left)["status"] == "rolled_back"
    assert agent.report(out["token"], "succeeded", result="paid") == {"state": "taken"}
    if not is_back:
        worker.report(undoing["token"], "succeeded")
    with Client(server) as admin:
        admin.until(saga, "incident.opened")
        assert "late_success.enrolled" in admin.names(saga)
        (incident,) = [one for one in admin.get("/incidents").json()["items"] if one["saga"] == saga]
    assert "after its compensation; whether the effect stands is not known" in incident["why"]


def test_what_was_not_there_when_its_probe_looked_is_taken_back_once_it_is_reported(
    agent: Agent, worker: Agent, server: Serving
) -> None:
    contract = {**CHARGE, "topic": "shop.looked", "probe": True}
    agent.open("looked")
    out = agent.step("c1", contract, order="out")
    left: dict[str, Any] = {"error": {"type": "ValueError", "reason": "no"}}
    assert agent.post("fail", wait=0, **left)["state"] == "running"
    worker.report(worker.task("shop.looked")["token"], "not_happened")
    assert agent.post("fail", **left)["status"] == "rolled_back"
    for _ in range(2):
        assert agent.report(out["token"], "succeeded", result="paid") == {"state": "taken"}, "twice is once"
    undoing = worker.task("shop.looked")
    assert (undoing["part"], undoing["certain"], undoing["result"]) == ("compensation", True, "paid")
    worker.report(undoing["token"], "succeeded")
    with Client(server) as admin:
        admin.until("looked", "compensation.succeeded")
        assert admin.names("looked").count("late_success.enrolled") == 1


def test_what_failed_is_asked_for_again_with_the_same_key(agent: Agent) -> None:
    agent.open("retried")
    first = agent.step("c1", {**CHARGE, "retries": {"attempts": 3, "first_s": 0.01}}, order="o")
    second = agent.report(first["token"], "failed", why="the line is busy")
    assert (second["state"], second["key"], second["token"] != first["token"]) == ("perform", first["key"], True)
    assert second["reasons"] == ["the line is busy"]
    ended = agent.report(second["token"], "failed", why="no such card", fatal=True)
    assert (ended["state"], ended["error"]["reason"]) == ("failed", "no such card")


def test_a_before_image_is_asked_for_first_and_its_compensation_has_it(agent: Agent, worker: Agent) -> None:
    priced = {"topic": "shop.price", "compensation": True, "before": True, "timeout": 20}
    agent.open("before")
    look = agent.step("c1", priced, cents=200)
    assert look["part"] == "before"
    act = agent.report(look["token"], "succeeded", result=100)
    assert act["part"] == "action"
    agent.report(act["token"], "succeeded")
    ended: list[Any] = []
    error = {"type": "ValueError", "reason": "the wrong shop"}
    failer = threading.Thread(target=lambda: ended.append(agent.post("fail", error=error)))
    failer.start()
    task = worker.task("shop.price")
    assert (task["part"], task["before"]) == ("compensation", 100)
    worker.report(task["token"], "succeeded")
    failer.join()
    assert (ended[0]["status"], ended[0]["why"]) == ("rolled_back", "ValueError: the wrong shop")


def test_a_step_for_a_worker_is_a_task_of_its_topic(agent: Agent, worker: Agent) -> None:
    agent.open("delegated")
    contract = {"topic": "shop.delegated", "compensation": True, "timeout": 20}
    asked: dict[str, Any] = {"topic": "shop.delegated", "contract": contract, "call": "c1", "args": {"n": 1}}
    assert agent.post("steps", **asked, by="worker", wait=0)["state"] == "running"
    task = worker.task("shop.delegated")
    assert (task["part"], task["args"]) == ("action", {"n": 1})
    worker.report(task["token"], "succeeded", result=2)
    assert agent.post("steps", **asked, by="worker")["result"] == 2


def test_a_wait_is_asked_for_again_by_its_call(agent: Agent) -> None:
    agent.open("waiting")
    agent.client.headers["Idempotency-Key"] = "w1"
    assert agent.post("wait", seconds=0.2, call="nap", wait=0) == {"state": "running", "call": "nap"}
    agent.client.headers["Idempotency-Key"] = "w2"
    assert agent.post("wait", seconds=0.2, call="nap") == {"state": "succeeded", "call": "nap", "payload": None}
    agent.client.headers["Idempotency-Key"] = "w3"
    assert "say what to wait for" in agent.post("wait", 422)["detail"]


def test_a_token_sees_neither_sessions_nor_tasks_of_other_definitions(agent: Agent, server: Serving) -> None:
    other = Agent(server, server.new_token("agent:mail", "run", definitions=("mail.*",)))
    with other.client:
        refused = other.ask("POST", "/sessions", 403, json={"name": "shop.agent", "id": "stolen"})
        assert "the token is for mail.*" in refused["detail"]
        agent.open("private")
        told = agent.step("c1", order="o")
        other.ask("GET", "/sessions/private", 403)
        other.ask("POST", f"/attempts/{told['token']}/outcome", 403, json={"outcome": "succeeded"})
        agent.post("steps", topic="shop.hidden", contract={"topic": "shop.hidden"}, by="worker", wait=0)
        assert other.ask("GET", "/tasks", params={"topic": "*"})["task"] is None


@pytest.mark.parametrize(
    ("contract", "said"),
    [
        ({"topic": "shop.charge", "compensation": True, "no_rollback": "gone"}, "can be taken back"),
        ({"topic": "shop.charge", "timeout": 0}, "more than 0 seconds"),
        ({"topic": "Shop Charge"}, "is not a topic"),
        ({"topic": "shop.charge", "compensaton": True}, "compensaton"),
        ({"topic": "shop.other"}, "the step of shop.charge"),
    ],
)
def test_a_contract_that_cannot_be_kept_is_refused_with_what_is_wrong(
    agent: Agent, contract: dict[str, Any], said: str
) -> None:
    agent.open("contracts")
    refused = agent.post("steps", 422, topic="shop.charge", contract=contract, call="c1")
    assert said in refused["detail"]


def test_a_step_without_a_call_is_known_by_the_requests_key(agent: Agent) -> None:
    """Sent again with the same key it is the same step; a key that is none is refused."""
    agent.open("keyed")
    said = {"holder": agent.holder, "topic": CHARGE["topic"], "contract": CHARGE, "args": {"amount": 3}}

    def do(key: str, status: int = 200) -> Any:
        headers = {"Idempotency-Key": key}
        return agent.ask("POST", f"/sessions/{agent.id}/steps", status, json=said, headers=headers)

    first = do("one")
    agent.report(first["token"], "succeeded", result="paid")
    again, other = do("one"), do("two")
    assert (first["call"], again["state"], again["result"]) == ("one", "succeeded", "paid")
    assert (other["call"], other["state"]) == ("two", "perform")
    assert "visible characters" in do("two words", 400)["detail"]


def test_another_thing_under_the_same_call_is_refused(agent: Agent) -> None:
    agent.open("same")
    agent.report(agent.step("c1", order="o")["token"], "succeeded")
    refused = agent.step("c1", status=409, order="other")
    assert "with other arguments" in refused["detail"]


def test_an_outcome_that_says_nothing_of_its_part_is_refused(agent: Agent) -> None:
    agent.open("words")
    told = agent.step("c1", order="o")
    assert "is succeeded, failed or lost" in agent.report(told["token"], "happened", 422)["detail"]
    assert agent.report(told["token"], "succeeded")["state"] == "succeeded"
    assert "its report came too late" in agent.report("no-such-token", "succeeded", 404)["detail"]
