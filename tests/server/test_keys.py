"""Idempotency keys: one request, however often it is sent, at once, later, or across kills of the server."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse

from amends import Coordinator
from amends.core.words.values import POLICIES
from amends.http.keys import KEPT_S, AnswerWays, Keys, Request
from amends.testing.clock import ManualClock
from tests.server.client import Client
from tests.server.serving import Serving, run_cli, serving

POLICY = """\
version: v1
default: allow
rules:
  - {id: goods-take-a-person, when: {topic: "shop.ship"}, decision: require_human}
"""
OTHER = POLICY + '  - {id: nothing-heavy, when: {topic: "shop.lift"}, decision: deny}\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    with serving(tmp_path_factory.mktemp("keys") / "s", "--module", "tests.server.shop") as started:
        yield started


@pytest.fixture
def client(server: Serving) -> Generator[Client]:
    with Client(server) as made:
        yield made


def _order(order: str) -> dict[str, Any]:
    return {"definition": "shop.order", "input": {"order": order}}


def test_the_same_request_with_the_same_key_gets_the_same_answer(client: Client) -> None:
    first = client.post("/sagas", _order("o1"), key="one")
    again = client.post("/sagas", _order("o1"), key="one")
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers["location"] == first.headers["location"]
    other = client.told("/sagas", _order("o1"), key="two")
    assert other["id"] != first.json()["id"]


def test_what_was_refused_is_refused_again_with_the_same_words(client: Client) -> None:
    first = client.post("/sagas/none/cancel", key="refused")
    again = client.post("/sagas/none/cancel", key="refused")
    assert (first.status_code, first.json()) == (again.status_code, again.json()) == (404, again.json())
    assert again.headers["content-type"] == "application/problem+json"


def test_a_key_with_another_request_is_refused(client: Client) -> None:
    client.told("/sagas", _order("o1"), key="same")
    others: list[tuple[str, dict[str, object]]] = [
        ("/sagas", _order("o2")),
        ("/sagas/x/cancel", {}),
        ("/policy/explain", {"facts": {}}),
    ]
    for path, body in others:
        answer = client.post(path, body, key="same")
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:amends:KeyUsed")


@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "gr\u00fc\u00df"])
def test_a_post_without_a_good_key_is_refused(client: Client, key: str) -> None:
    headers = [(b"Idempotency-Key", key.encode())] if key else []
    answer = client.http.post("/v1/sagas", json=_order("o1"), headers=headers)
    assert (answer.status_code, "Idempotency-Key" in answer.json()["detail"]) == (400, True)


def test_two_callers_with_one_key_are_two_requests(client: Client) -> None:
    mine = client.told("/sagas", _order("o1"), key="shared")
    with client.client("agent:shop", "run") as agent:
        theirs = agent.told("/sagas", _order("o1"), key="shared")
    assert (mine["actor"], theirs["actor"]) == ("person:admin", "agent:shop")
    assert mine["id"] != theirs["id"]


def test_spaces_and_order_of_the_body_make_no_other_request(client: Client) -> None:
    key = uuid.uuid4().hex
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    one = b'{"definition": "shop.order", "input": {"order": "o1"}}'
    two = b'{"input":{"order":"o1"},"definition":"shop.order"}'
    first, again = (client.http.post("/v1/sagas", content=body, headers=headers) for body in (one, two))
    assert first.json() == again.json()


def test_many_at_once_with_one_key_are_one_saga(server: Serving, client: Client) -> None:
    async def whole() -> list[httpx2.Response]:
        headers = {**server.headers(), "Idempotency-Key": "at-once"}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30) as asking:
            return await asyncio.gather(*(asking.post("/v1/sagas", json=_order("once")) for _ in range(12)))

    answers = asyncio.run(whole())
    assert {one.status_code for one in answers} <= {201, 409}
    assert len({one.json()["id"] for one in answers if one.status_code == 201}) == 1
    assert all(one.json()["type"] == "urn:amends:RequestInFlight" for one in answers if one.status_code == 409)
    begun = [one for one in client.get("/sagas", limit=500).json()["items"] if one["actor"] == "person:admin"]
    ids = {one.json()["id"] for one in answers if one.status_code == 201}
    assert len([one for one in begun if one["id"] in ids]) == 1


def test_what_a_caller_was_not_let_do_can_be_asked_for_again_with_the_same_key(client: Client) -> None:
    with client.client("agent:narrow", "run", definitions=["shop.order"]) as agent:
        refused = agent.post("/sagas", {"definition": "shop.parcel", "input": {"order": "x"}}, key="narrow")
        assert refused.status_code == 403
    with client.client("agent:narrow", "run", definitions=["shop.*"]) as agent:
        agent.told("/sagas", {"definition": "shop.parcel", "input": {"order": "x"}}, key="narrow")


def test_the_document_says_how_long_a_key_is_known(client: Client) -> None:
    (key,) = client.get("/openapi.json").json()["paths"]["/v1/sagas"]["post"]["parameters"]
    assert (key["name"], key["required"]) == ("Idempotency-Key", True)
    assert "known for 24 hours" in key["description"]


# -- kills ------------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Mortal:
    """A server that is killed in the middle of requests, and started again."""

    folder: Path
    journal: Path
    token: str
    keys: list[str] = field(default_factory=list[str])

    @contextlib.contextmanager
    def client(self, *, point: str = "", key: str = "") -> Generator[Client]:
        env = {"KILLED_AT": point, "KILLED_KEY": key}
        words = ["--module", "tests.server.shop"]
        program = "tests.server.killed" if point else "amends"
        with (
            serving(self.folder, *words, journal=self.journal, env=env, token=self.token, program=program) as server,
            Client(server) as client,
        ):
            yield client

    def killed(self, point: str, path: str, body: dict[str, Any]) -> None:
        """Send a request, of which the server does not see the end."""
        self.keys.append(uuid.uuid4().hex)
        with self.client(point=point, key=self.keys[-1]) as client:
            with pytest.raises(httpx2.TransportError):
                client.post(path, body, key=self.keys[-1])
            assert client.server.stop() == -9


@pytest.fixture
def mortal(tmp_path: Path) -> Mortal:
    folder = tmp_path / "s"
    folder.mkdir(mode=0o700)
    (folder / "policy.yaml").write_text(POLICY)
    journal = folder / "journal.db"
    adopt = ["policy", "adopt", str(folder / "policy.yaml"), "--why", "first", "--by", "person:admin"]
    run_cli(*adopt, journal=journal)
    words = ["--scope", "view", "--scope", "run", "--scope", "decide", "--scope", "admin", "--by", "person:admin"]
    made = run_cli("token", "create", "person:admin", *words, journal=journal)
    return Mortal(folder=folder, journal=journal, token=made.strip().splitlines()[-1])


_WAITS = {"definition": "shop.parcel", "input": {"order": "o"}}


@dataclass(frozen=True, kw_only=True)
class Killed:
    """A request, the point at which its server is killed, and how often it has left its mark."""

    point: str
    path: str
    body: dict[str, Any]
    left: Callable[[Client], int]


def _of(saga: str, name: str) -> Callable[[Client], int]:
    return lambda client: client.names(saga).count(name)


def _token(point: str) -> Killed:
    def left(client: Client) -> int:
        return sum(one["name"] == f"agent:{point}" for one in client.get("/tokens").json()["items"])

    return Killed(point=point, path="/tokens", body={"name": f"agent:{point}", "scopes": ["view", "run"]}, left=left)


def _start(point: str) -> Killed:
    body = {**_WAITS, "id": f"new-{point}"}
    return Killed(point=point, path="/sagas", body=body, left=_of(f"new-{point}", "saga.started"))


def _signal(point: str) -> Killed:
    def left(client: Client) -> int:
        bodies = [one["body"] for one in client.get("/sagas/w/entries").json()["items"]]
        return sum(body.get("payload") == point for body in bodies)

    return Killed(
        point=point, path="/sagas/w/signal", body={"name": "later", "payload": point, "early": True}, left=left
    )


def _grant(client: Client, point: str) -> Killed:
    """An approval that waits for somebody."""
    saga = f"asks-{point}"
    client.told("/sagas", {**_WAITS, "id": saga})
    client.until(saga, "wait.started")
    client.told(f"/sagas/{saga}/signal", {"name": "home"})
    client.until(saga, "approval.requested")
    (asked,) = client.get("/approvals", saga=saga).json()["items"]
    digest = client.get(f"/approvals/{asked['id']}").json()["digest"]
    path = f"/approvals/{asked['id']}/grant"
    return Killed(point=point, path=path, body={"digest": digest}, left=_of(saga, "approval.granted"))


def _adopt(point: str) -> Killed:
    def left(client: Client) -> int:
        entries = client.get(f"/sagas/{POLICIES}/entries").json()["items"]
        return sum(one["body"].get("why") == point for one in entries)

    return Killed(point=point, path="/policy/adopt", body={"text": OTHER, "why": point}, left=left)


def _cancel(point: str) -> Killed:
    return Killed(point=point, path="/sagas/c/cancel", body={"why": "enough"}, left=_of("c", "rollback.started"))


def test_what_a_killed_server_was_asked_is_done_once_when_it_is_asked_again(mortal: Mortal) -> None:
    with mortal.client() as client:
        for saga in ("w", "c"):
            client.told("/sagas", {**_WAITS, "id": saga})
            client.until(saga, "wait.started")
        asked = [_signal("asked"), _start("claimed"), _signal("claimed"), _start("done"), _signal("done")]
        asked += [_grant(client, "done"), _grant(client, "kept"), _token("done"), _token("kept")]
        asked += [_adopt("done"), _cancel("done")]
    for one in asked:
        mortal.killed(one.point, one.path, one.body)
    with mortal.client() as client:
        for one, key in zip(asked, mortal.keys, strict=True):
            answer = client.post(one.path, one.body, key=key)
            assert answer.status_code < 300, (one, answer.text)
            assert ("idempotent-replayed" in answer.headers) == (one.point == "kept"), one
            again = client.post(one.path, one.body, key=key)
            kept = {**answer.json(), **({"secret": None} if one.path == "/tokens" else {})}
            assert (again.headers["idempotent-replayed"], again.json()) == ("true", kept), one
            assert one.left(client) == 1, one


def test_equal_signals_with_keys_of_their_own_stay_two_across_a_kill(mortal: Mortal) -> None:
    body = {"name": "later", "payload": 1, "early": True}
    with mortal.client() as client:
        client.told("/sagas", {**_WAITS, "id": "w"})
        client.until("w", "wait.started")
    mortal.killed("claimed", "/sagas/w/signal", body)
    with mortal.client() as client:
        client.told("/sagas/w/signal", body, key="other")
        client.told("/sagas/w/signal", body, key=mortal.keys[0])
        assert client.names("w").count("signal.received") == 2


def test_what_a_killed_server_left_is_not_settled_while_a_living_one_is_at_an_equal_request(
    tmp_path: Path,
) -> None:
    """What that one had put on record, and not answered yet, was taken for the work of the killed one."""
    begun, may_end, settled = asyncio.Event(), asyncio.Event(), list[tuple[int, int]]()
    leaves = list[Coordinator]()

    async def carry_out() -> JSONResponse:
        begun.set()
        await may_end.wait()
        for each in leaves:
            await each.pause(by="person:anna", why="the bank is closed")
        return JSONResponse("sent")

    async def settle(since: int, alike: int) -> JSONResponse:
        settled.append((since, alike))
        return JSONResponse("settled")

    async def whole(journal: str) -> None:
        ways = AnswerWays(carry_out=carry_out, settle=settle, again=carry_out)
        left, equal = (Request(key=key, caller="person:anna", print="p") for key in ("left", "equal"))
        async with Coordinator.open(journal, signals=False) as one, Coordinator.open(journal, signals=False) as other:
            async with other.session("shop.agent"):
                leaves.append(other)  # who has driven something is on record as a worker
            here, there = (Keys(each.journal, ManualClock(), each.worker) for each in (one, other))
            gone = Keys(one.journal, ManualClock(), "worker-that-was-killed")
            killed = asyncio.ensure_future(gone.answer(left, ways))
            await begun.wait()
            killed.cancel()
            await asyncio.wait({killed})
            begun.clear()
            under_way = asyncio.ensure_future(there.answer(equal, ways))
            await begun.wait()
            assert (await here.answer(left, ways)).status_code == 409
            assert settled == []
            may_end.set()
            await under_way
            assert (await here.answer(left, ways)).body == b'"settled"'
            assert [alike for _, alike in settled] == [1]

    asyncio.run(whole(str(tmp_path / "journal.db")))


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_key_is_forgotten_once_its_time_is_over() -> None:
    clock, done = ManualClock(), list[int]()

    async def carry_out() -> JSONResponse:
        done.append(1)
        return JSONResponse(len(done))

    async def settle(_: int, __: int) -> JSONResponse:
        raise AssertionError("nothing was left to settle")

    async def whole() -> None:
        ways = AnswerWays(carry_out=carry_out, settle=settle, again=carry_out)
        request = Request(key="k", caller="person:anna", print="p")
        async with Coordinator.open(":memory:", signals=False) as coordinator:
            keys = Keys(coordinator.journal, clock, coordinator.worker)
            first, again = await keys.answer(request, ways), await keys.answer(request, ways)
            assert (first.body, again.body, await keys.forget()) == (b"1", b"1", 0)
            clock.advance(KEPT_S + 1)
            assert (await keys.answer(request, ways)).body == b"2"
            clock.advance(KEPT_S + 1)
            assert await keys.forget() == 1
            assert (await keys.answer(request, ways)).body == b"3"

    asyncio.run(whole())
