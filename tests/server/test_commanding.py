"""Commands over HTTP, to a real server that drives the sagas of a module and of a file."""

import asyncio
from collections.abc import Generator
from pathlib import Path
from subprocess import run

import pytest

from amends import Coordinator, Limit, Limits
from amends.errors import ProofError
from amends.evidence.proof.keys import NAMESPACE
from tests.server import world
from tests.server.client import Client
from tests.server.serving import Serving, run_cli, serving

POLICY = """\
version: v1
default: allow
rules:
  - id: goods-take-a-person
    when: {topic: "shop.ship"}
    decision: require_human
"""
FILE = """\
version: v1
saga: greet
inputs: {name: {does: whom}}
steps:
  - id: hello
    topic: greet.say
    run: [echo, "hello ${input.name}"]
    read_only: true
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    folder = tmp_path_factory.mktemp("commanding")
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "greet.yaml").write_text(FILE)
    folder.chmod(0o700)
    adopt = ["policy", "adopt", str(folder / "policy.yaml"), "--why", "first", "--by", "person:admin"]
    run_cli(*adopt, journal=folder / "journal.db")
    words = ["--module", "tests.server.shop", str(folder / "greet.yaml"), "--env", "production"]
    with serving(folder, *words) as started:
        yield started


@pytest.fixture(scope="module")
def agent(server: Serving) -> Generator[Client]:
    with Client(server) as admin, admin.client("agent:shop", "run", definitions=["shop.*", "greet"]) as made:
        yield made


@pytest.fixture(scope="module")
def anna(server: Serving) -> Generator[Client]:
    with Client(server) as admin, admin.client("person:anna", "view", "decide") as made:
        yield made


@pytest.fixture(scope="module")
def admin(server: Serving) -> Generator[Client]:
    with Client(server) as made:
        yield made


def _start(agent: Client, definition: str, id: str, **given: object) -> None:
    agent.told("/sagas", {"definition": definition, "input": given, "id": id})


def test_a_saga_is_started_in_the_callers_name_and_driven_to_its_end(agent: Client, anna: Client) -> None:
    answer = agent.post("/sagas", {"definition": "shop.order", "input": {"order": "o1"}, "labels": {"tenant": "acme"}})
    begun = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (201, f"/v1/sagas/{begun['id']}")
    assert (begun["actor"], begun["labels"], begun["env"]) == ("agent:shop", {"tenant": "acme"}, "production")
    anna.until(begun["id"], "saga.completed")
    assert agent.saga(begun["id"])["status"] == "completed"


def test_a_saga_of_a_file_is_started_as_one_of_a_module(agent: Client, anna: Client) -> None:
    _start(agent, "greet", "greeting", name="ann")
    anna.until("greeting", "saga.completed")
    known = {one["name"]: one["input"] for one in anna.get("/definitions").json()["items"]}
    assert set(known) == {"greet", "shop.order", "shop.parcel", "shop.bounded"}
    assert known["shop.order"]["required"] == ["order"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"definition": "shop.ordr"}, 404, "did you mean shop.order?"),
        ({"definition": "shop.order", "version": 7, "input": {"order": "x"}}, 404, "it knows 1"),
        ({"definition": "shop.order", "input": {"ordr": "x"}}, 422, "order"),
        ({"definition": "shop.order", "input": {"order": 7}}, 422, "order"),
        ({"definition": "shop.order", "input": {"order": "x"}, "id": "a/b"}, 422, "is not a saga id"),
        ({"definition": "shop.order", "input": {"order": "x"}, "limits": {"token": 3}}, 422, "did you mean tokens?"),
        ({"definition": "shop.bounded", "input": {"orders": 1}, "limits": {"steps": 9}}, 403, "a person raises"),
        ({"definition": "other.thing"}, 403, "the token is for shop.*, greet"),
        ({"definitio": "shop.order"}, 422, "did you mean definition?"),
        ({}, 422, "needs definition"),
    ],
)
def test_a_start_that_cannot_be_says_why(agent: Client, body: dict[str, object], status: int, says: str) -> None:
    answer = agent.post("/sagas", body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert says in answer.json()["detail"]


def test_an_approval_is_granted_in_the_callers_own_name_and_the_step_runs(agent: Client, anna: Client) -> None:
    _start(agent, "shop.parcel", "p1", order="o1")
    anna.until("p1", "wait.started")
    agent.told("/sagas/p1/signal", {"name": "home", "payload": "yes"})
    anna.until("p1", "approval.requested")
    (asked,) = anna.get("/approvals", saga="p1").json()["items"]
    stale = anna.post(f"/approvals/{asked['id']}/grant", {"digest": "0" * 64})
    assert stale.status_code == 409
    shown = anna.get(f"/approvals/{asked['id']}").json()
    granted = anna.told(f"/approvals/{asked['id']}/grant", {"digest": shown["digest"], "why": "fine"})
    assert granted["signers"] == ["person:anna"]
    anna.until("p1", "saga.completed")
    entries = anna.get("/sagas/p1/entries").json()["items"]
    (given,) = [one["body"] for one in entries if one["name"].startswith("approval.granted")]
    assert (given["by"], given["why"]) == ("person:anna", "fine")


def test_a_refusal_denies_the_step(agent: Client, anna: Client) -> None:
    _start(agent, "shop.parcel", "p2", order="o2")
    anna.until("p2", "wait.started")
    agent.told("/sagas/p2/signal", {"name": "home"})
    anna.until("p2", "approval.requested")
    (asked,) = anna.get("/approvals", saga="p2").json()["items"]
    refused = anna.told(f"/approvals/{asked['id']}/refuse", {"why": "not today"})
    assert refused["status"] == "refused"
    anna.until("p2", "saga.rolled_back")


def test_a_saga_is_cancelled_by_who_started_it_and_by_who_decides(agent: Client, anna: Client, admin: Client) -> None:
    _start(agent, "shop.parcel", "c1", order="o1")
    anna.until("c1", "wait.started")
    planned = agent.told("/sagas/c1/rollback", {"plan": True})
    assert ([step["topic"] for step in planned["steps"]], planned["is_clean"]) == (["shop.charge"], True)
    agent.told("/sagas/c1/cancel", {"why": "changed their mind"})
    anna.until("c1", "saga.rolled_back")
    admin.told("/sagas", {"definition": "shop.order", "input": {"order": "o1"}, "id": "c2"})
    admin.until("c2", "saga.completed")
    assert agent.post("/sagas/c2/cancel").status_code == 403
    assert agent.get("/sagas/c2").status_code == 403
    assert agent.get("/sagas/never").status_code == 403
    anna.told("/sagas/c2/rollback", {"why": "wrong order"})
    anna.until("c2", "saga.rolled_back")
    assert anna.post("/sagas/never/cancel").status_code == 404


def test_a_rollback_to_a_checkpoint_has_the_work_go_on_from_there(agent: Client, anna: Client) -> None:
    _start(agent, "shop.parcel", "b1", order="o1")
    anna.until("b1", "wait.started")
    answer = agent.post("/sagas/b1/rollback", {"to": "payed"})
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:amends:UnknownCheckpointError")
    agent.told("/sagas/b1/signal", {"name": "home", "payload": "away"})
    anna.until("b1", "saga.completed")
    agent.told("/sagas/b1/rollback", {"to": "paid"})
    anna.until("b1", "rewind.ended")
    agent.told("/sagas/b1/cancel")


def test_a_signal_that_nobody_waits_for_is_refused_with_what_is_waited_for(agent: Client, anna: Client) -> None:
    _start(agent, "shop.parcel", "s1", order="o1")
    anna.until("s1", "wait.started")
    wrong = agent.post("/sagas/s1/signal", {"name": "hom"})
    assert (wrong.status_code, "it waits for 'home'" in wrong.json()["detail"]) == (409, True)
    agent.told("/sagas/s1/cancel")


def test_an_incident_is_commented_assigned_and_resolved(agent: Client, anna: Client) -> None:
    _start(agent, "shop.order", "i1", order="stuck-1")
    anna.until("i1", "incident.opened")
    anna.told("/incidents/i1/1/comment", {"text": "called the bank"})
    anna.told("/incidents/i1/1/assign", {"owner": "person:olga"})
    tried = anna.told("/incidents/i1/1/retry")
    assert tried["id"] == "i1/1"
    with anna.http.stream("GET", "/v1/events", params={"saga": "i1", "after": 0}) as stream:
        opened = 0
        for line in stream.iter_lines():
            opened += line.startswith("event: incident.opened")
            if opened == 2:
                break
    (left,) = anna.get("/incidents", saga="i1").json()["items"]
    told = anna.told(f"/incidents/{left['id']}/resolve", {"reason": "paid back by hand", "proof": "T-7"})
    assert (told["resolver"], told["reason"], told["proof"]) == ("person:anna", "paid back by hand", "T-7")
    first = anna.get("/incidents/i1/1").json()
    assert ([one["text"] for one in first["comments"]], first["owner"]) == (["called the bank"], "person:olga")
    anna.until("i1", "saga.rolled_back")


def test_a_limit_that_was_reached_is_raised_by_a_person(agent: Client, anna: Client) -> None:
    _start(agent, "shop.bounded", "l1", orders=5)
    anna.until("l1", "saga.paused")
    assert agent.post("/sagas/l1/limits", {"steps": 9}).status_code == 403
    anna.told("/sagas/l1/limits", {"steps": 9, "why": "a large order"})
    anna.until("l1", "saga.completed")


def test_one_saga_is_paused_and_goes_on_for_who_has_not_asked_for_it(agent: Client, anna: Client) -> None:
    _start(agent, "shop.parcel", "w1", order="o1")
    anna.until("w1", "wait.started")
    assert agent.told("/sagas/w1/pause", {"why": "look first"})["status"] == "paused"
    assert agent.post("/sagas/w1/unpause").status_code == 403
    anna.told("/sagas/w1/unpause")
    agent.told("/sagas/w1/signal", {"name": "home", "payload": "away"})
    anna.until("w1", "saga.completed")


def test_everything_of_a_kind_is_paused_and_released(agent: Client, anna: Client, admin: Client) -> None:
    assert anna.post("/pauses", {"topic": "shop.charge", "why": "x"}).status_code == 403
    (made,) = admin.told("/pauses", {"definition": "shop.order", "why": "the bank is down"})["items"]
    assert (made["by"], made["definition"]) == ("person:admin", "shop.order")
    _start(agent, "shop.order", "h1", order="o1")
    anna.until("h1", "saga.paused")
    assert admin.told("/pauses/end", {"definition": "shop.order", "why": "it is up"})["released"] == 1
    anna.until("h1", "saga.completed")
    assert admin.get("/pauses").json()["items"] == []


def test_a_policy_is_tried_on_the_past_and_adopted_by_a_person_who_administers(
    agent: Client, anna: Client, admin: Client, server: Serving
) -> None:
    strict = POLICY + '  - {id: no-charges, when: {topic: "shop.charge"}, decision: deny}\n'
    _start(agent, "shop.order", "r1", order="o1")
    anna.until("r1", "saga.completed")
    tried = anna.told("/policy/replay", {"text": strict, "since": 0})
    assert tried["stricter"] >= 1
    assert {one["now"]["rule"] for one in tried["changes"]} == {"no-charges"}
    for caller in (agent, anna):
        assert caller.post("/policy/adopt", {"text": strict, "why": "x"}).status_code == 403
    assert admin.post("/policy/adopt", {"text": strict, "why": " "}).status_code == 422
    wrong = admin.post("/policy/adopt", {"text": "version: v1\ndefalt: deny\n", "why": "x"}).json()
    assert "did you mean default?" in wrong["detail"]
    adopted = admin.told("/policy/adopt", {"text": strict, "why": "no more"})
    assert (adopted["by"], adopted["why"]) == ("person:admin", "no more")
    _start(agent, "shop.order", "r2", order="o1")
    anna.until("r2", "saga.rolled_back")
    admin.told("/policy/adopt", {"text": POLICY, "why": "as it was"})


def test_tokens_are_made_and_revoked_by_who_administers_and_agents_get_no_say(server: Serving, admin: Client) -> None:
    for scopes in (["run", "decide"], ["admin"]):
        refused = admin.post("/tokens", {"name": "agent:x", "scopes": scopes})
        assert (refused.status_code, "is no person" in refused.json()["detail"]) == (422, True)
    made = admin.told("/tokens", {"name": "agent:x", "scopes": ["run", "view"], "definitions": ["shop.order"]}, key="t")
    again = admin.told(
        "/tokens", {"name": "agent:x", "scopes": ["run", "view"], "definitions": ["shop.order"]}, key="t"
    )
    assert made["secret"].startswith("amends_")
    assert again == {**made, "secret": None}
    assert not any(made["secret"].encode() in one.read_bytes() for one in server.journal.parent.glob("journal*"))
    with Client(server, made["secret"]) as theirs:
        assert theirs.post("/sagas", {"definition": "shop.parcel", "input": {"order": "x"}}).status_code == 403
        assert theirs.get("/tokens").status_code == 403
        (gone,) = admin.told(f"/tokens/{made['id']}/revoke", {"why": "lost"})["items"]
        assert gone["revoked_by"] == "person:admin"
        assert theirs.get("/sagas").status_code == 401
    assert made["id"] not in [one["id"] for one in admin.get("/tokens").json()["items"]]


def test_a_decision_that_has_to_be_signed_gives_the_text_and_takes_the_signature(tmp_path: Path) -> None:
    key = tmp_path / "anna"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (tmp_path / "policy.yaml").write_text(POLICY + "approvals: {proof: signed}\n")
    folder = tmp_path / "s"
    folder.mkdir(mode=0o700)
    journal = folder / "journal.db"
    enrol = ["person", "enrol", "person:anna", "--ssh-key", str(key), "--by", "person:anna", "--why", "first"]
    run_cli("policy", "adopt", str(tmp_path / "policy.yaml"), "--why", "x", "--by", "person:anna", journal=journal)
    run_cli(*enrol, journal=journal)
    words = ["--module", "tests.server.shop", "--env", "production"]
    with (
        serving(folder, *words, journal=journal) as server,
        Client(server) as agent,
        agent.client("person:anna", "view", "decide") as anna,
    ):
        _grant_signed(agent, anna, key, tmp_path)
        _grant_together(server, agent, anna, key)


def test_going_back_from_an_incident_is_signed_through_connect(tmp_path: Path) -> None:
    key, folder = tmp_path / "anna", tmp_path / "j"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    folder.mkdir(mode=0o700)
    journal, policy = folder / "journal.db", world.POLICY + "approvals: {proof: signed}\n"
    limits = Limits(steps=Limit(1, then="call"))
    world.on(journal, lambda one: world.start(one, world.confirmed, "lid", 1, id="s-1", limits=limits), policy=policy)
    world.on(journal, lambda one: world.start(one, world.doomed, "lid", id="s-2"))
    run_cli("person", "enrol", "person:anna", "--ssh-key", f"{key}.pub", journal=journal)
    texts = list[str]()

    def sign(text: str) -> str:
        texts.append(text)
        words = ["ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", str(key)]
        return run(words, input=text, capture_output=True, text=True, check=True).stdout

    async def decide(server: Serving) -> None:
        anna = server.new_token("person:anna", "view", "decide")
        async with Coordinator.connect(server.url, token=anna) as coordinator:
            with pytest.raises(ProofError):
                await coordinator.rollback("s-1", to="reserved", why="once more")
            with pytest.raises(ProofError):
                await coordinator.cancel("s-2", mitigate=True, why="by hand")
            assert (await coordinator.rollback("s-1", to="reserved", why="once more", proof=sign)).status == "incident"
            assert (await coordinator.cancel("s-2", mitigate=True, why="by hand", proof=sign)).status == "incident"

    with serving(folder, "--module", "tests.server.world", journal=journal) as server:
        asyncio.run(decide(server))
    assert ["mitigate: true" in text for text in texts] == [False, True]
    root: str = world.on(journal, world.root_of)
    run_cli("evidence", "tree-head", "--new", journal=journal)
    assert '"proved": 2' in run_cli("evidence", "verify", "--root", root, "--json", journal=journal)


def _grant_together(server: Serving, agent: Client, anna: Client, key: Path) -> None:
    """Two at once through the server: the client is shown both texts, and signs the list of them."""
    for saga in ("p2", "p3"):
        _start(agent, "shop.parcel", saga, order=saga)
        anna.until(saga, "wait.started")
        agent.told(f"/sagas/{saga}/signal", {"name": "home"})
        anna.until(saga, "approval.requested")
    asked = {
        one["id"]: anna.get(f"/approvals/{one['id']}").json()["digest"]
        for one in anna.get("/approvals").json()["items"]
    }
    assert len(asked) == 2
    unsigned = anna.post("/approvals/grant", {"approvals": asked})
    assert (unsigned.status_code, len(unsigned.json()["statements"])) == (409, 2)
    token = server.new_token("person:anna", "view", "decide")
    said = run_cli(
        *("approval", "grant", *asked, "--yes", "--ssh-key", str(key), "--journal", server.url),
        env={"AMENDS_TOKEN": token},
    )
    assert said.count("granted by person:anna") == 2
    for saga in ("p2", "p3"):
        anna.until(saga, "saga.completed")


def _grant_signed(agent: Client, anna: Client, key: Path, folder: Path) -> None:
    _start(agent, "shop.parcel", "p1", order="o1")
    anna.until("p1", "wait.started")
    agent.told("/sagas/p1/signal", {"name": "home"})
    anna.until("p1", "approval.requested")
    (asked,) = anna.get("/approvals").json()["items"]
    body = {"digest": anna.get(f"/approvals/{asked['id']}").json()["digest"]}
    unsigned = anna.post(f"/approvals/{asked['id']}/grant", body)
    assert (unsigned.status_code, unsigned.json()["type"]) == (409, "urn:amends:ProofError")
    statement = unsigned.json()["statement"]
    (folder / "text").write_text(statement)
    run(["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(folder / "text")], check=True)
    proof = statement + (folder / "text.sig").read_text()
    forged = anna.post(f"/approvals/{asked['id']}/grant", {**body, "why": "more", "proof": proof})
    assert forged.status_code == 409
    granted = anna.told(f"/approvals/{asked['id']}/grant", {**body, "proof": proof})
    assert granted["signers"] == ["person:anna"]
    anna.until("p1", "saga.completed")
