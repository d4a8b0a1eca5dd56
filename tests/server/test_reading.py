"""Answers about a journal, from a real server."""

import json
import socket
from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest

from amends.http.serve import Listening, bind
from tests.server.serving import Serving, run_cli, serving

SAGAS = """
from amends import Fatal, NotDone, action, saga

@action("shop.charge", idempotent=True)
def charge(order: str) -> str:
    return f"charged {order}"

@charge.compensation
def refund(done):
    if done.args["order"] == "stuck":
        raise NotDone("the bank is closed")

@saga("shop.order")
async def order(s, order: str) -> str:
    paid = await s.do(charge, order)
    if order in {"bad", "stuck"}:
        raise Fatal("no such thing")
    return paid
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    folder = tmp_path_factory.mktemp("reading")
    (folder / "shop.py").write_text(SAGAS)
    with serving(folder) as started:
        for number, name in enumerate(("good", "bad", "good2")):
            words = ["run", "shop:order", "--input", json.dumps({"order": name}), "--id", f"one-{number}"]
            run_cli(*words, journal=started.journal, env={"PYTHONPATH": str(folder)}, check=False)
        yield started


@pytest.fixture
def client(server: Serving) -> Generator[httpx2.Client]:
    headers = {**server.headers(), "Idempotency-Key": "reading"}
    with httpx2.Client(base_url=server.url, headers=headers, timeout=20) as made:
        yield made


def test_no_answer_waits_for_a_word_on_its_first_part() -> None:
    """Headers and body are two writes: without the option the body waits 40 ms on a connection that was used before."""
    (listening,) = bind(Listening(port=0, peers={}))
    with listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_sagas_are_listed_page_by_page_and_shown_with_their_entries(client: httpx2.Client) -> None:
    first = client.get("/v1/sagas", params={"limit": 2}).json()
    rest = client.get("/v1/sagas", params={"limit": 2, "page": first["next"]}).json()
    assert [row["id"] for row in first["items"] + rest["items"]] == ["one-2", "one-1", "one-0"]
    assert rest["next"] is None
    undone = client.get("/v1/sagas", params={"status": "rolled_back"}).json()["items"]
    assert [row["id"] for row in undone] == ["one-1"]
    shown = client.get("/v1/sagas/one-1").json()
    assert (shown["definition"], shown["status"], shown["driver"]) == ("shop.order", "rolled_back", None)
    entries = client.get("/v1/sagas/one-1/entries", params={"limit": 2}).json()
    more = client.get("/v1/sagas/one-1/entries", params={"after": entries["next"]}).json()
    names = [entry["name"] for entry in entries["items"] + more["items"]]
    assert names[0] == "saga.started/1"
    assert names[-1] == "saga.rolled_back/1"


def test_a_list_that_has_not_changed_is_not_sent_again(client: httpx2.Client) -> None:
    first = client.get("/v1/sagas")
    again = client.get("/v1/sagas", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    for known in (f"W/{first.headers['ETag']}", f'"other", {first.headers["ETag"]}', "*"):  # as a proxy hands it on
        assert client.get("/v1/sagas", headers={"If-None-Match": known}).status_code == 304, known
    other = client.get("/v1/sagas", params={"limit": 1}, headers={"If-None-Match": first.headers["ETag"]})
    assert other.status_code == 200


def test_health_is_told_to_callers_and_ready_to_whoever_asks(client: httpx2.Client) -> None:
    told = client.get("/v1/health").json()
    assert told["status"] == "ready"
    assert told["position"] > 0
    assert client.get("/v1/health", headers={"Authorization": ""}).status_code == 401
    assert client.get("/health/ready", headers={"Authorization": ""}).json() == {"status": "ready"}


def test_a_problem_says_which_one_it_is_and_what_to_do(client: httpx2.Client) -> None:
    nothing = client.get("/v1/saga/one-1").json()
    assert nothing["detail"] == "there is nothing at /v1/saga/one-1; /v1/openapi.json lists what there is"
    for token in ("", "amends_nobody"):
        answer = client.get("/v1/sagas", headers={"Authorization": f"Bearer {token}" if token else ""})
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:amends:UnknownCallerError")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_bundle_verifies_with_the_key_of_the_journal_alone(
    server: Serving, client: httpx2.Client, tmp_path: Path
) -> None:
    run_cli("evidence", "tree-head", "--new", journal=server.journal)
    answer = client.get("/v1/evidence/bundle", params={"saga": "one-1"})
    bundle = tmp_path / "bundle.jsonl"
    bundle.write_bytes(answer.content)
    key = run_cli("evidence", "key", journal=server.journal).strip()
    run_cli("evidence", "verify", str(bundle), "--key", key)
    record = client.get("/v1/evidence/record/one-1").json()
    assert (record["run_id"], record["rollback_triggered"]) == ("one-1", True)


@pytest.mark.parametrize("path", ["/v1/approvals", "/v1/incidents", "/v1/locks", "/v1/drills", "/v1/workers"])
def test_every_list_answers(client: httpx2.Client, path: str) -> None:
    assert isinstance(client.get(path).json()["items"], list)


def test_the_policy_that_judges_is_shown_and_explains_itself(client: httpx2.Client) -> None:
    assert client.get("/v1/policy").json()["adopted_at"] is None
    facts = {"env": "production", "topic": "infra.delete", "side_effect": True}
    told = client.post("/v1/policy/explain", json={"facts": facts}).json()
    assert told["verdict"]["decision"] == "deny"
    client.headers["Idempotency-Key"] = "again"
    tried = "version: v1\ndefault: allow\nrules: []\n"
    assert (
        client.post("/v1/policy/explain", json={"facts": facts, "text": tried}).json()["verdict"]["decision"] == "allow"
    )


def test_a_refusal_is_a_problem_that_says_what_and_what_to_do(client: httpx2.Client, server: Serving) -> None:
    unknown = client.get("/v1/sagas/one-9")
    assert (unknown.status_code, unknown.headers["content-type"]) == (404, "application/problem+json")
    assert "did you mean one-" in unknown.json()["detail"]
    typo = client.get("/v1/sagas", params={"statsu": "running"})
    assert (typo.status_code, "did you mean status?" in typo.json()["detail"]) == (422, True)
    assert client.get("/v1/sagas", params={"limit": 0}).status_code == 422
    assert client.get("/v1/sagas", headers={"Authorization": "Bearer amends_no"}).status_code == 401
    narrow = {"Authorization": f"Bearer {server.new_token('agent:shop', 'run')}"}
    assert client.get("/v1/sagas", headers=narrow).status_code == 403
    broken = client.post("/v1/policy/explain", content=b"{", headers={"Content-Type": "application/json"})
    assert broken.status_code == 422


def test_metrics_are_text_for_prometheus(client: httpx2.Client) -> None:
    answer = client.get("/v1/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'amends_workers{state="living"} 1' in answer.text.splitlines()
    assert 'amends_sagas{status="incident"} 0' in answer.text.splitlines()


def test_events_go_on_behind_the_last_one_that_was_seen(server: Serving, client: httpx2.Client) -> None:
    seen: list[int] = []
    with client.stream("GET", "/v1/events", params={"after": 0}) as stream:
        for line in stream.iter_lines():
            if line.startswith("id: "):
                seen.append(int(line.removeprefix("id: ")))
            if len(seen) == 3:
                break
    assert seen == [1, 2, 3]
    with client.stream("GET", "/v1/events", headers={"Last-Event-ID": "3"}) as stream:
        first = next(line for line in stream.iter_lines() if line.startswith("id: "))
    assert first == "id: 4"


def test_events_of_one_saga_come_as_they_are_written(server: Serving, client: httpx2.Client, tmp_path: Path) -> None:
    folder = server.journal.parent
    names: list[str] = []
    run = ["run", "shop:order", "--input", '{"order": "new"}', "--id", "one-live"]
    run_cli(*run, journal=server.journal, env={"PYTHONPATH": str(folder)})
    with client.stream("GET", "/v1/events", params={"saga": "one-live", "after": 0}) as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                names.append(line.removeprefix("event: "))
            if names and names[-1] == "saga.completed/1":
                break
    assert names[0] == "saga.started/1"
