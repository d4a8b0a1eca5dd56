"""Bodies that are too large, too slow or no JSON, and clients that go away: the server answers, and lives on."""

import asyncio
import json
import signal
import socket
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from amends import Coordinator, Work, saga
from amends.clock import SystemClock
from amends.http.feed import MOST_BEHIND, Feed
from tests.server.client import Client
from tests.server.serving import PATIENCE_S, Serving, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    folder = tmp_path_factory.mktemp("faults") / "s"
    with serving(folder, "--module", "tests.server.shop", program="tests.server.hasty") as started:
        yield started


@pytest.fixture
def client(server: Serving) -> Generator[Client]:
    with Client(server) as made:
        yield made
        assert made.http.get("/health/ready").status_code == 200


def _connected(server: Serving) -> socket.socket:
    where = urlsplit(server.url)
    return socket.create_connection((where.hostname or "", where.port or 0), PATIENCE_S)


def _head(server: Serving, length: int, key: str, path: str = "/v1/sagas") -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {server.token}",
        "Content-Type: application/json",
        f"Idempotency-Key: {key}",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _answer(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    found = b""
    while more := connection.recv(65536):
        found += more
    return found


def _order(id: str) -> bytes:
    return json.dumps({"definition": "shop.order", "input": {"order": "o"}, "id": id}).encode()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'{"definition": "shop.order", "definition": "shop.parcel"}', 422),
        (b'{"definition": NaN}', 422),
        (b'{"definition": "shop.order", "input": {"order": "\\ud800"}}', 422),
        (b"\xff\xfe{}", 422),
        (b'{"definition": "shop.order", "input": ' + b"[" * 5000 + b"]" * 5000 + b"}", 422),
        (b'{"definition": "shop.order", "input": {"order": ' + b"1" * 5000 + b"}}", 422),
        (b'{"definition": "' + b"x" * (4 * 1024**2) + b'"}', 413),
    ],
)
def test_a_body_that_is_no_good_is_a_problem(client: Client, body: bytes, status: int) -> None:
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    answer = client.http.post("/v1/sagas", content=body, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_a_body_that_is_no_json_by_its_own_word_is_refused(client: Client) -> None:
    headers = {"Idempotency-Key": "k", "Content-Type": "text/plain"}
    assert client.http.post("/v1/sagas", content=b"{}", headers=headers).status_code == 415
    assert (
        client.http.post(
            "/v1/sagas?x=1", json={"definition": "shop.order"}, headers={"Idempotency-Key": "k"}
        ).status_code
        == 422
    )


@pytest.mark.parametrize(
    "begun",
    [b"GET / HT", b"\x00\x01\x02\r\n\r\n", b"POST /v1/sagas HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"],
)
def test_what_is_no_request_is_answered_or_cut_off(server: Serving, client: Client, begun: bytes) -> None:
    with _connected(server) as connection:
        connection.sendall(begun)
        assert _answer(connection).partition(b"\r\n")[0] in {b"", b"HTTP/1.1 400 Bad Request"}


def test_a_head_that_goes_on_for_ever_is_cut_off(server: Serving, client: Client) -> None:
    with _connected(server) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 200_000)
            assert b"200 OK" not in _answer(connection)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was cut off before all of it was sent


def test_a_body_that_does_not_arrive_is_given_up(server: Serving, client: Client) -> None:
    with _connected(server) as connection:
        connection.sendall(_head(server, 100, "slow") + b'{"definition":')
        said = _answer(connection)
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"send it again" in said


def test_a_client_that_goes_away_is_served_all_the_same(server: Serving, client: Client) -> None:
    body = _order("gone")
    with _connected(server) as connection:
        connection.sendall(_head(server, len(body), "gone-1") + body)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # a reset, not an end
        first = _events_of(client, "gone")
    assert first == "saga.started"
    again = client.post("/sagas", json.loads(body), key="gone-1")
    assert again.status_code in {201, 409}
    assert client.names("gone").count("saga.started") == 1


def _events_of(client: Client, saga: str) -> str:
    """The first event of a saga that is about to begin, from the stream of all."""
    with client.http.stream("GET", "/v1/events", params={"after": 0}) as stream:
        name = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ").partition("/")[0]
            if line.startswith("data: ") and json.loads(line.removeprefix("data: "))["saga"] == saga:
                return name
    raise AssertionError("the stream ended")


def test_a_client_that_goes_away_in_its_body_leaves_nothing(server: Serving, client: Client) -> None:
    body = _order("half")
    with _connected(server) as connection:
        connection.sendall(_head(server, len(body), "half-1") + body[:20])
    assert client.get("/sagas/half").status_code == 404
    assert client.told("/sagas", json.loads(body), key="half-1")["id"] == "half"


def test_a_stream_that_nobody_reads_is_let_go_and_goes_on_where_it_was() -> None:
    @saga("faults.small")
    async def small(s: Work) -> None:
        return

    async def whole() -> None:
        async with Coordinator.open(":memory:", signals=False) as coordinator:
            feed = Feed(coordinator.journal, SystemClock(), 3600)
            running = asyncio.ensure_future(feed.run())
            slow = feed.follow(0)
            await coordinator.run(small)
            feed.stir()
            first = await anext(slow)
            while (await coordinator.journal.tree()).size <= 2 * MOST_BEHIND:
                await coordinator.run(small)
            feed.stir()
            while feed.followers:
                await asyncio.sleep(0)
            seen = [first.position, *[one.position async for one in slow]]
            rest = feed.follow(seen[-1])
            while seen[-1] < (await coordinator.journal.tree()).size:
                seen.append((await anext(rest)).position)
            assert seen == list(range(1, len(seen) + 1))
            await slow.aclose()
            await rest.aclose()
            running.cancel()

    asyncio.run(whole())


def test_who_was_asked_as_the_server_is_told_to_stop_is_answered(tmp_path: Path) -> None:
    with serving(tmp_path / "s", "--module", "tests.server.shop") as server:
        with httpx2.Client(base_url=server.url, headers=server.headers(), timeout=PATIENCE_S) as streaming:
            body = _order("last")
            with streaming.stream("GET", "/v1/events") as stream, _connected(server) as connection:
                lines = stream.iter_lines()
                assert next(lines) == ": amends"
                connection.sendall(_head(server, len(body), "last") + body[:20])
                connection.settimeout(0.5)
                with pytest.raises(TimeoutError):
                    connection.recv(1)  # nothing comes: it waits for the rest
                server.started.send_signal(signal.SIGTERM)
                assert [line for line in lines if line] == []  # the stream has ended
                connection.settimeout(PATIENCE_S)
                connection.sendall(body[20:])
                assert _answer(connection).startswith(b"HTTP/1.1 201 ")
        assert server.started.wait(PATIENCE_S) == 0
    with (
        serving(tmp_path / "s", "--module", "tests.server.shop", token=server.token) as server,
        Client(server) as client,
    ):
        assert client.told("/sagas", json.loads(body), key="last")["id"] == "last"
        client.until("last", "saga.completed")
