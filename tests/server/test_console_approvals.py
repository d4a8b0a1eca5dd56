"""Approvals by pages and plain forms: what is shown is what is granted, by whoever is logged in."""

import html
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from amends import Coordinator
from tests.server import world
from tests.server.person import Person
from tests.server.serving import Serving, run_cli, serving


async def _many(coordinator: Coordinator) -> None:
    for number in range(1, 8):
        await world.start(coordinator, world.order_one, f"order-{number}", 900 + number, id=f"o-{number}")
    await world.start(coordinator, world.request_access, "person:new", id="a-1")
    await world.start(coordinator, world.order_one, world.XSS, 5, world.XSS, id="x-1", actor="agent:<b>bold</b>")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    folder = tmp_path_factory.mktemp("approvals") / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", _many)
    with serving(folder, journal=folder / "journal.db") as one:
        yield one


def test_one_shows_what_a_person_should_know_and_grants_it(server: Serving) -> None:
    anna = Person.with_token(server, "person:anna")
    anna.open("/approvals")
    assert "o-1/2" in anna.words
    anna.open("/approvals/o-1/2")
    for said in (
        "shop.charge", "agent:shop", "order-1", "901", "Charge the customer's card", "Pay it back to the same card",
        "money-takes-a-person, line 4, of policy", "risk: money", "1 person",
    ):  # fmt: skip
        assert said in anna.words
    anna.press("Grant", why="as agreed")
    assert anna.at == "/approvals/o-1/2"
    assert "You granted shop.charge" in anna.words
    assert "person:anna" in anna.words
    assert world.resumed(server.journal)["o-1"] == "completed"
    assert "as agreed" in run_cli("saga", "show", "o-1", journal=server.journal)


def test_a_refusal_takes_a_reason(server: Serving) -> None:
    anna = Person.with_token(server, "person:anna")
    anna.open("/approvals/o-2/2")
    anna.press("Refuse")
    assert anna.status == 422
    assert "say why not" in anna.words
    anna.press("Refuse", why="too dear")
    assert "You refused shop.charge" in anna.words
    assert world.resumed(server.journal)["o-2"] == "rolled_back"


def test_several_are_decided_together_once_they_were_reviewed(server: Serving) -> None:
    anna = Person.with_token(server, "person:anna")
    anna.open("/approvals")
    anna.press("Review the chosen ones together", chosen=("o-3/2", "o-4/2"))
    assert anna.at.startswith("/approvals/review?")
    assert "order-3" in anna.words
    assert "order-4" in anna.words
    anna.press("Grant all 2", why="both are fine")
    assert "2 granted." in anna.words
    anna.open("/approvals?show=all")
    now = world.resumed(server.journal)
    assert (now["o-3"], now["o-4"]) == ("completed", "completed")


def test_several_that_take_a_signature_take_one_for_all(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)

    async def three(coordinator: Coordinator) -> None:
        for name in ("o-1", "o-2", "o-3"):
            await world.start(coordinator, world.order_one, name, 900, id=name)

    policy = world.POLICY + "approvals: {proof: signed}\n"
    world.on(folder / "journal.db", three, policy=policy)
    key, journal = tmp_path / "anna", folder / "journal.db"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    run_cli("person", "enrol", "person:anna", "--ssh-key", f"{key}.pub", journal=journal)
    with serving(folder, journal=journal) as server:
        anna = Person.with_token(server, "person:anna")
        anna.open("/approvals/review?id=o-1/2&id=o-2/2")
        anna.press("Grant all 2", why="both are fine")
        assert "2 decisions, signed once" in anna.words
        assert anna.words.count("amends decision 1") == 2
        assert 'href="/approvals">Back, without deciding' in anna.page
        statement = html.unescape(anna.page.partition('name="statement" value="')[2].partition('"')[0])
        assert statement.startswith("amends decisions 1\n")
        anna.press("Decide, signed", signature=_signed(key, statement.replace("sha256: ", "sha256: 0")))
        assert anna.status == 409
        statement = html.unescape(anna.page.partition('name="statement" value="')[2].partition('"')[0])
        anna.press("Decide, signed", signature=_signed(key, statement))
        assert "2 granted, signed." in anna.words
        anna.open("/approvals")
        assert ("o-3/2" in anna.words, "o-1/2" in anna.words) == (True, False)
    now = world.resumed(journal)
    assert (now["o-1"], now["o-2"], now["o-3"]) == ("completed", "completed", "waiting")
    root = world.on(journal, world.root_of)
    run_cli("evidence", "tree-head", "--new", journal=journal)
    assert '"proved": 2' in run_cli("evidence", "verify", "--root", root, "--json", journal=journal)


def _signed(key: Path, text: str) -> str:
    words = ["ssh-keygen", "-Y", "sign", "-n", "amends", "-f", str(key)]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout


def test_what_is_there_now_stands_beside_what_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)

    async def asked(coordinator: Coordinator) -> None:
        await world.start(coordinator, world.set_terms, "acme", 900, "Dear Sir,\npay in 14 days.\nKim\n", id="c-1")

    world.on(folder / "journal.db", asked)
    with serving(folder, journal=folder / "journal.db") as server:
        anna = Person.with_token(server, "person:anna")
        anna.open("/approvals/c-1/1")
        for said in ("What is there now", "-pay in 30 days.", "+pay in 14 days.", "stays as it is", world.XSS, "since"):
            assert said in anna.words, said
        anna.press("Grant")
    assert world.resumed(folder / "journal.db")["c-1"] == "completed"
    said = run_cli("approval", "show", "c-1/1", journal=folder / "journal.db")
    assert "there now, by its before-image" in said


def test_two_people_are_needed_where_the_policy_says_so_and_one_is_not_two(server: Serving) -> None:
    anna, kim = Person.with_token(server, "person:anna"), Person.with_token(server, "person:kim")
    for one in (anna, kim):
        one.open("/approvals/a-1/1")
    anna.press("Grant")
    assert "You agreed to access.grant. Still lacking: 1 person." in anna.words
    anna.press("Grant")
    assert anna.status == 409
    kim.press("Grant")
    assert "You granted access.grant" in kim.words


def test_a_stale_page_decides_nothing(server: Serving) -> None:
    anna, kim = Person.with_token(server, "person:anna"), Person.with_token(server, "person:kim")
    for one in (anna, kim):
        one.open("/approvals/o-5/2")
    anna.press("Refuse", why="no")
    kim.press("Grant")
    assert kim.status == 409
    assert "refused" in kim.words
    assert world.resumed(server.journal)["o-5"] == "rolled_back"


def test_what_was_not_shown_is_not_granted(server: Serving) -> None:
    anna = Person.with_token(server, "person:anna")
    anna.open("/approvals/o-6/2")
    mark = anna.page.partition('name="csrf" value="')[2].partition('"')[0]
    anna.send("/approvals/o-6/2", csrf=mark, decision="grant", digest="0" * 64)
    assert anna.status == 409
    anna.send("/approvals/o-6/2", csrf=mark, decision="grant")
    assert anna.status == 422
    anna.open("/approvals/o-6/2")
    assert "requested" in anna.words


def test_a_get_never_decides(server: Serving) -> None:
    anna = Person.with_token(server, "person:anna")
    anna.open("/approvals/o-6/2")
    mark = anna.page.partition('name="csrf" value="')[2].partition('"')[0]
    digest = anna.page.partition('name="digest" value="')[2].partition('"')[0]
    anna.open(f"/approvals/o-6/2?decision=grant&digest={digest}&csrf={mark}")
    anna.open(f"/approvals/review?id=o-6/2&decision=grant&digest%20o-6/2={digest}&csrf={mark}")
    anna.open("/approvals/o-6/2")
    assert "requested" in anna.words


def test_whoever_may_only_look_has_no_button_and_is_refused(server: Serving) -> None:
    looker = Person.with_token(server, "person:looker", "view")
    looker.open("/approvals/o-6/2")
    assert "may look, and not decide" in looker.words
    assert 'value="grant"' not in looker.page
    looker.open("/me")
    mark = looker.page.partition('name="csrf" value="')[2].partition('"')[0]
    looker.send("/approvals/o-6/2", csrf=mark, decision="grant", digest="0" * 64)
    assert looker.status == 403


def test_an_agent_that_asked_cannot_grant(server: Serving) -> None:
    agent = Person.with_token(server, "agent:shop")
    agent.open("/approvals/o-6/2")
    agent.press("Grant")
    assert agent.status == 409


def test_after_a_session_has_ended_a_form_decides_nothing_and_says_so(server: Serving) -> None:
    anna = Person.with_token(server, "person:anna")
    anna.open("/approvals/o-6/2")
    anna.cookies.clear()
    anna.press("Grant")
    assert anna.status == 401
    assert "nothing was decided" in anna.words


def test_text_of_agents_is_text(server: Serving) -> None:
    anna = Person.with_token(server, "person:anna")
    for path in ("/approvals", "/approvals/x-1/2", "/approvals/review?id=x-1/2"):
        anna.open(path)
        assert anna.status == 200
        assert "<script>document" not in anna.page
        assert "<img src=x" not in anna.page
        assert "<b>bold" not in anna.page
    anna.open("/approvals/x-1/2")
    assert "agent:<b>bold</b>" in anna.words


def test_no_approval_says_so(server: Serving) -> None:
    anna = Person.with_token(server, "person:anna")
    anna.open("/approvals/nope/1")
    assert anna.status == 404
    anna.open("/approvals/nope")
    assert anna.status == 404


def test_an_empty_list_says_what_would_be_here(tmp_path: Path) -> None:
    with serving(tmp_path / "j") as server:
        anna = Person.with_token(server, "person:anna")
        anna.open("/approvals")
        assert "Nobody is asked for anything." in anna.words
        assert "decision: require_human" in anna.words
