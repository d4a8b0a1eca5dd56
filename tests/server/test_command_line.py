"""The command line through a server: AMENDS_URL and AMENDS_TOKEN, and no journal at hand."""

import asyncio
import json
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from amends import Coordinator
from tests.server import storied_shop as shop
from tests.server.serving import PYTHON, Serving, clean_environment, run_cli, serving


@dataclass
class Terminal:
    """Somebody at a terminal of another machine."""

    url: str
    token: str

    def run(self, *words: str, check: bool = True) -> str:
        return run_cli(*words, env={"AMENDS_URL": self.url, "AMENDS_TOKEN": self.token}, check=check)

    def records(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*words, "--json").splitlines()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "policy.yaml").write_text(shop.POLICY)
    (folder / "s").mkdir(mode=0o700)
    asyncio.run(begun(folder / "s" / "journal.db", folder / "policy.yaml"))
    with pytest.MonkeyPatch.context() as patch, serving(folder / "s") as started:
        patch.setenv(shop.WORLD, str(folder / "world"))
        asyncio.run(shopped(started))
        ask_people(started)
        yield started


async def begun(journal: Path, policy: Path) -> None:
    async with Coordinator.open(str(journal), policy=policy, signals=False):
        pass


async def shopped(server: Serving) -> None:
    async with Coordinator.connect(server.url, token=server.token) as coordinator:
        await coordinator.run(shop.plain, "good", id="good")
        await coordinator.run(shop.doomed, "bad", id="bad")
        await coordinator.run(shop.pivot, "stuck", id="stuck")


def ask_people(server: Serving) -> None:
    """Have an agent ask for what a person has to allow, and go away."""
    agent = server.new_token("agent:shop", "run")
    with httpx2.Client(base_url=server.url, headers=server.headers(agent), timeout=30) as client:
        for saga in ("asked-1", "asked-2"):
            held = client.post("/v1/sessions", json={"name": "shop.asks", "id": saga}).json()["holder"]
            contract = {"topic": "shop.grant"}
            step = {"holder": held, "topic": "shop.grant", "args": {"who": saga}, "contract": contract, "wait": 0.5}
            answer = client.post(f"/v1/sessions/{saga}/steps", json={**step, "call": "c1"}).json()
            assert answer["state"] == "pending", answer


@pytest.fixture
def admin(server: Serving) -> Terminal:
    return Terminal(server.url, server.token)


@pytest.fixture(scope="module")
def anna(server: Serving) -> Terminal:
    return Terminal(server.url, server.new_token("person:anna", "view", "decide"))


def test_sagas_are_listed_and_shown_with_all_that_happened(admin: Terminal) -> None:
    rows = {one["id"]: one["status"] for one in admin.records("saga", "list")}
    assert (rows["good"], rows["bad"], rows["stuck"]) == ("completed", "rolled_back", "incident")
    shown = admin.run("saga", "show", "bad")
    assert "rolled back" in shown
    assert shown.index("shop.charge") < shown.index("sold out")
    assert [row["id"] for row in admin.records("saga", "list", "--status", "rolled_back")] == ["bad"]
    assert "good" in admin.run("saga", "show", "goo")


def test_a_person_decides_in_the_name_that_the_token_proves(anna: Terminal) -> None:
    (first, second) = [row["id"] for row in anna.records("approval", "list")]
    shown = anna.records("approval", "show", first)[0]
    assert (shown["topic"], shown["args"]) == ("shop.grant", {"who": "asked-1"})
    granted = anna.records("approval", "grant", first, "--digest", shown["digest"], "--why", "it is her")[0]
    assert (granted["status"], granted["signers"]) == ("granted", ["person:anna"])
    assert "refused by person:anna" in anna.run("approval", "refuse", second, "--why", "nobody knows her")
    assert anna.records("approval", "list") == []


def test_in_whose_name_is_not_for_the_line_to_say(anna: Terminal) -> None:
    said = anna.run("approval", "refuse", "asked-1/1", "--why", "no", "--by", "person:eve", check=False)
    assert "whose token it is says who asks" in said


def test_incidents_are_seen_to(anna: Terminal) -> None:
    incident = anna.records("incident", "list")[0]["id"]
    assert "ship" in anna.run("incident", "show", incident)
    anna.run("incident", "comment", incident, "--text", "the carrier was called")
    assert "the carrier was called" in anna.run("incident", "show", incident)
    anna.run("incident", "resolve", incident, "--reason", "the parcel came back", check=False)
    assert anna.records("saga", "list", "--status", "incident") == []


def test_pauses_hold_until_they_are_ended(admin: Terminal) -> None:
    admin.run("pause", "--topic", "shop.ship", "--why", "the carrier is on strike")
    assert "shop.ship" in admin.run("pause", "list")
    admin.run("unpause", "--topic", "shop.ship")
    assert "nothing is paused" in admin.run("pause", "list")


def test_the_policy_is_shown_and_another_adopted(admin: Terminal, tmp_path: Path) -> None:
    assert "a-person-grants" in admin.run("policy", "show")
    file = tmp_path / "policy.yaml"
    file.write_text(shop.POLICY.replace("no-deleting", "never-deleting"))
    admin.run("policy", "adopt", str(file), "--why", "a better word")
    assert "never-deleting" in admin.run("policy", "show")


def test_a_policy_is_replayed_and_sessions_are_looked_at(admin: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("version: v1\ndefault: deny\nrules: []\n")
    *changes, counted = admin.records("policy", "replay", str(file), "--since", "1h")
    assert counted["stricter"] > 0
    assert {"bad", "good"} <= {one["saga"] for one in changes}
    assert "asked-1" in {one["id"] for one in admin.records("session", "list")}
    assert "shop.grant" in admin.run("session", "show", "asked-1")


def test_evidence_leaves_the_server_and_verifies(admin: Terminal, server: Serving, tmp_path: Path) -> None:
    run_cli("evidence", "tree-head", "--new", journal=server.journal)
    key = run_cli("evidence", "key", journal=server.journal).strip()
    record = json.loads(admin.run("evidence", "record", "bad"))
    assert (record["run_id"], record["rollback_triggered"]) == ("bad", True)
    admin.run("evidence", "export", "bad", "-o", str(tmp_path / "bundle"))
    run_cli("evidence", "verify", str(tmp_path / "bundle"), "--key", key)
    admin.run("evidence", "verify", str(tmp_path / "bundle"), "--key", key)  # a bundle is at hand; no server is asked
    assert "where the server runs" in admin.run("evidence", "verify", check=False)


def test_tokens_are_made_listed_and_revoked(admin: Terminal) -> None:
    secret = admin.run("token", "create", "agent:mail", "--scope", "run", "--definition", "mail.*").splitlines()[-1]
    assert secret.startswith("amends_")
    assert "agent:mail" in admin.run("token", "list")
    admin.run("token", "revoke", "agent:mail", "--why", "it is over")
    assert "agent:mail" not in admin.run("token", "list")


def test_a_saga_is_sent_what_it_waits_for_and_a_refusal_says_why(admin: Terminal) -> None:
    said = admin.run("saga", "signal", "good", "paid", check=False)
    assert "good" in said
    assert "completed" in said


@pytest.mark.parametrize("words", ["serve", "drill shop:plain", "doctor", "run shop:plain", "journal copy a b"])
def test_commands_on_what_is_at_hand_say_what_to_do_instead(admin: Terminal, words: str) -> None:
    said = admin.run(*words.split(), check=False)
    assert "is a server" in said or "--journal" in said, said


def test_a_worker_at_another_machine_takes_back_what_a_person_cancels(admin: Terminal, tmp_path: Path) -> None:
    words = [PYTHON, "-m", "amends", "work", "tests.server.storied_shop"]
    env = clean_environment() | {"AMENDS_URL": admin.url, "AMENDS_TOKEN": admin.token, shop.WORLD: str(tmp_path / "w")}
    with subprocess.Popen(words, env=env, cwd=Path(__file__).parents[2]) as worker:
        try:
            said = admin.run("saga", "cancel", "good", "--why", "they changed their mind")
        finally:
            worker.terminate()
        assert worker.wait(20) == 0, "it ends in order"
    assert "rolled back" in said
    deeds = [line.split()[0] for line in (tmp_path / "w").read_text().splitlines()]
    assert deeds == ["refund", "release"]


def test_without_a_token_the_server_says_who_is_missing(server: Serving) -> None:
    assert "nobody known" in run_cli("saga", "list", env={"AMENDS_URL": server.url}, check=False)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("amends.example:8722", "AMENDS_URL is 'amends.example:8722': write https://host:port"),
        ("/run/amends/socket", "AMENDS_URL is '/run/amends/socket': write"),
        ("http://127.0.0.1:1/v1", "names a page of a server; write its address alone: http://127.0.0.1:1"),
        ("http://127.0.0.1:1", "does `amends serve` run there?"),
    ],
)
def test_an_address_that_is_none_is_told_apart_from_a_journal(url: str, told: str) -> None:
    assert told in run_cli("saga", "list", env={"AMENDS_URL": url}, check=False)


def test_an_address_that_is_none_stops_no_command_that_is_told_of_a_journal(server: Serving) -> None:
    assert "good" in run_cli("saga", "list", journal=server.journal, env={"AMENDS_URL": "nowhere"})


def test_what_goes_on_with_a_saga_is_a_command_that_a_server_takes(admin: Terminal) -> None:
    """`amends resume` takes the journal itself; it was named all the same, and refused whoever copied it."""
    token = admin.run("token", "create", "agent:gone", "--scope", "run").splitlines()[-1]
    with httpx2.Client(base_url=admin.url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
        held = client.post("/v1/sessions", json={"name": "shop.gone", "id": "gone"}).json()["holder"]
        step = {"holder": held, "topic": "shop.grant", "args": {"who": "x"}, "contract": {"topic": "shop.grant"}}
        client.post("/v1/sessions/gone/steps", json={**step, "wait": 0.5, "call": "c1"})
    said = admin.run("approval", "grant", "gone/1", "--yes")
    assert "amends work MODULE" in said
    assert "amends resume" not in said
    assert "`amends work MODULE` goes on with its sagas" in admin.run("resume", "tests.server.shop", check=False)


def test_whoever_waits_for_calls_that_others_make_is_told_so(admin: Terminal) -> None:
    words = [PYTHON, "-m", "amends", "saga", "cancel", "waited-for", "--why", "it was not wanted"]
    token = admin.run("token", "create", "agent:waits", "--scope", "run").splitlines()[-1]
    with httpx2.Client(base_url=admin.url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
        held = client.post("/v1/sessions", json={"name": "shop.waits", "id": "waited-for"}).json()["holder"]
        contract = {"topic": "shop.kept", "compensation": True}
        step = {"holder": held, "topic": "shop.kept", "args": {}, "contract": contract, "call": "c1"}
        told = client.post("/v1/sessions/waited-for/steps", json=step).json()
        client.post(f"/v1/attempts/{told['token']}/outcome", json={"outcome": "succeeded", "result": None})
        env = clean_environment() | {"AMENDS_URL": admin.url, "AMENDS_TOKEN": admin.token}
        with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr is not None
            said = waiting.stderr.readline()
            task = client.get("/v1/tasks", params={"topic": "shop.kept", "wait": 20}).json()["task"]
            client.post(f"/v1/attempts/{task['token']}/outcome", json={"outcome": "succeeded"})
            assert waiting.wait(20) == 0
    assert "waiting for a process that has its actions" in said
    assert "amends work MODULE" in said


def test_at_the_socket_the_login_is_enough(server: Serving) -> None:
    assert "good" in run_cli("saga", "list", "--journal", server.socket)
