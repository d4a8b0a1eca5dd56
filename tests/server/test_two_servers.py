"""Two servers on one journal: what is asked of both at once is done once, and whoever comes second is told so."""

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.postgres.server import PostgresServer, binaries
from tests.server.client import Client
from tests.server.serving import Serving, serving

ROUNDS = 6


def has_postgres() -> bool:
    """Whether this machine can start a PostgreSQL server of the test's own."""
    try:
        return binaries().is_dir()
    except RuntimeError:
        return False


JOURNALS = ["file", *(["database"] if has_postgres() else [])]


@pytest.fixture(scope="module", params=JOURNALS)
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[Serving, Serving]]:
    folder = tmp_path_factory.mktemp("two")
    with contextlib.ExitStack() as both:
        journal: Path | str = folder / "journal.db"
        if request.param == "database":
            journal = both.enter_context(both.enter_context(PostgresServer(durable=False)).journal())
        words = ("--module", "tests.server.shop")
        first = both.enter_context(serving(folder / "1", *words, journal=journal))
        second = both.enter_context(serving(folder / "2", *words, journal=journal, token=first.token))
        yield first, second


async def at_both(
    servers: tuple[Serving, Serving], path: str, bodies: tuple[dict[str, Any], dict[str, Any]], keys: tuple[str, str]
) -> list[httpx2.Response]:
    """The answers of both servers to requests that are sent at the same time; one in flight is asked for again."""

    async def answered(server: Serving, body: dict[str, Any], key: str) -> httpx2.Response:
        headers = {**server.headers(), **({"Idempotency-Key": key} if key else {})}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30) as asking:
            while True:
                answer = await asking.post(f"/v1{path}", json=body)
                is_in_flight = answer.status_code == 409 and answer.json()["type"] == "urn:amends:RequestInFlight"
                if not is_in_flight:
                    return answer
                assert answer.headers["retry-after"] == "1"

    return await asyncio.gather(*(answered(*one) for one in zip(servers, bodies, keys, strict=True)))


def order(order: str, id: str | None = None) -> dict[str, Any]:
    return {"definition": "shop.order", "input": {"order": order}, "id": id}


def test_the_same_request_at_two_servers_is_one_saga_and_both_have_its_answer(
    servers: tuple[Serving, Serving],
) -> None:
    for _ in range(ROUNDS):
        key = uuid.uuid4().hex
        first, second = asyncio.run(at_both(servers, "/sagas", (order("o"), order("o")), (key, key)))
        assert (first.status_code, second.status_code) == (201, 201)
        assert first.json()["id"] == second.json()["id"]
        is_again = [one.headers.get("idempotent-replayed") for one in (first, second)]
        assert sorted(map(str, is_again)) == ["None", "true"]
        with Client(servers[0]) as client:
            client.until(first.json()["id"], "saga.completed")
            assert Counter(client.names(first.json()["id"]))["saga.started"] == 1


def test_one_id_at_two_servers_under_two_keys_is_one_saga(servers: tuple[Serving, Serving]) -> None:
    for number in range(ROUNDS):
        saga = f"alike-{number}"
        keys = (uuid.uuid4().hex, uuid.uuid4().hex)
        answers = asyncio.run(at_both(servers, "/sagas", (order("o", saga), order("o", saga)), keys))
        assert {one.status_code for one in answers} == {201}, [one.text for one in answers]
        with Client(servers[1]) as client:
            client.until(saga, "saga.completed")
            counted = Counter(client.names(saga))
            assert (counted["saga.started"], counted["saga.completed"]) == (1, 1)


def test_one_id_for_two_things_at_two_servers_is_one_of_them_and_the_other_is_refused(
    servers: tuple[Serving, Serving],
) -> None:
    for number in range(ROUNDS):
        saga = f"unlike-{number}"
        keys = (uuid.uuid4().hex, uuid.uuid4().hex)
        answers = asyncio.run(at_both(servers, "/sagas", (order("a", saga), order("b", saga)), keys))
        statuses = sorted(one.status_code for one in answers)
        assert statuses == [201, 409], [one.text for one in answers]
        refused = next(one for one in answers if one.status_code == 409)
        assert "another id" in refused.json()["detail"]
        with Client(servers[0]) as client:
            client.until(saga, "saga.completed")
            assert Counter(client.names(saga))["saga.started"] == 1


def test_one_session_is_opened_at_one_of_two_servers(servers: tuple[Serving, Serving]) -> None:
    body = {"name": "shop.agent", "id": "session"}
    answers = asyncio.run(at_both(servers, "/sessions", (body, body), ("", "")))
    statuses = sorted(one.status_code for one in answers)
    assert statuses == [200, 409], [one.text for one in answers]
    refused = next(one for one in answers if one.status_code == 409)
    assert "has it open" in refused.json()["detail"]
