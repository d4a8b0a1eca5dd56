"""Incidents by pages and plain forms: what stands, what was tried, and the ways out."""

import json
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from amends import Coordinator, Limits
from tests.server import world
from tests.server.person import Person
from tests.server.serving import Serving, run_cli, serving


async def _broken(coordinator: Coordinator) -> None:
    for number in range(1, 5):
        await coordinator.run(world.doomed, f"vase-{number}", id=f"b-{number}", actor="agent:shop")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    folder = tmp_path_factory.mktemp("incidents") / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", _broken)
    with serving(folder, journal=folder / "journal.db") as one:
        yield one


@pytest.fixture
def anna(server: Serving) -> Person:
    return Person.with_token(server, "person:anna")


def test_the_list_says_what_happened_and_who_sees_to_it(anna: Person) -> None:
    anna.open("/incidents")
    assert anna.words.count("the compensation failed, and is not tried again by itself") >= 1
    assert "nobody yet" in anna.words


def test_one_shows_what_stands_and_what_was_tried(anna: Person) -> None:
    anna.open("/incidents/b-1/1")
    for said in (
        "Compensation failed", "the parcel of vase-1 is with the customer", "shop.ship", "may stand", "it stopped here",
        "shop.reserve", "compensation began", "Mend the cause first.", "Take it back by hand.",
    ):  # fmt: skip
        assert said in anna.words


def test_it_is_given_to_somebody_and_remarked_upon(server: Serving, anna: Person) -> None:
    anna.open("/incidents/b-1/1")
    anna.press("I see to it")
    assert "person:anna sees to it." in anna.words
    anna.press("Put it on record", text="  ")
    assert anna.status == 422
    anna.press("Put it on record", text=f"called the customer {world.XSS}")
    assert "called the customer" in anna.words
    assert "<script>document" not in anna.page
    anna.press("Give it to them", owner="person:kim")
    shown = run_cli("incident", "show", "b-1/1", journal=server.journal)
    assert "person:kim" in shown
    assert "called the customer" in shown


def test_vouching_for_it_takes_words_and_lets_the_saga_go_on(server: Serving, anna: Person) -> None:
    anna.open("/incidents/b-2/1")
    anna.press("I took it back by hand", proof="ticket 7")
    assert anna.status == 422
    assert "say what was done by hand" in anna.words
    assert "ticket 7" in anna.page
    anna.press("I took it back by hand", reason="fetched the parcel", proof="ticket 7")
    assert "You vouched for it." in anna.words
    assert "To be seen at: ticket 7" in anna.words
    assert world.resumed(server.journal)["b-2"] == "rolled_back"
    anna.press_nothing_of("I took it back by hand")


def test_trying_again_is_done_by_a_worker_that_knows_it_and_not_by_the_server(server: Serving, anna: Person) -> None:
    anna.open("/incidents/b-3/1")
    anna.press("Try again")
    assert "rolling back now" in anna.words
    assert world.resumed(server.journal)["b-3"] == "incident"
    anna.open("/incidents?show=all")
    assert "b-3/2" in anna.words


async def _of_other_kinds(coordinator: Coordinator) -> None:
    for number in (1, 2):
        await coordinator.run(
            world.limited, "x", id=f"l-{number}", actor="agent:shop", limits=Limits(steps=1, then="call")
        )
        await coordinator.run(world.pivoted, f"kim{number}", id=f"p-{number}", actor="agent:shop")


def test_each_kind_has_its_own_ways_out(server: Serving, anna: Person) -> None:
    world.on(server.journal, _of_other_kinds)
    for saga, button, says, ends in (
        ("l-1", "Allow as much again", "running now", "completed"),
        ("l-2", "Take the saga back", "rolling back now", "rolled_back"),
        ("p-1", "Let it stand, on my word", "You vouched for it.", "completed"),
    ):
        anna.open(f"/incidents/{saga}/1")
        said = {"reason": "agreed with the customer"} if saga == "p-1" else dict[str, str]()
        anna.press(button, chosen=(), **said)
        assert says in anna.words
        assert world.resumed(server.journal)[saga] == ends
    anna.open("/incidents/p-2/1")
    assert "Go on forward" in anna.words
    anna.press_nothing_of("Take the saga back")


def test_what_the_gate_refused_runs_in_the_name_of_a_person(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)
    rule = "  - id: no-way-back\n    when: {topic: shop.reserve, phase: compensation}\n    decision: deny\n"
    world.on(
        folder / "journal.db",
        lambda one: one.run(world.gone_back, "x", id="d-1", actor="agent:shop"),
        policy=world.POLICY + rule,
    )
    with serving(folder, journal=folder / "journal.db") as server:
        anna = Person.with_token(server, "person:anna")
        anna.open("/incidents/d-1/1")
        assert "the gate does not let its compensation run" in anna.words
        anna.press("Let it run, in my name")
        assert "It is on record" in anna.words
        assert world.resumed(server.journal)["d-1"] == "rolled_back"
        anna.open("/incidents/d-1/1")
        assert "against the gate" in anna.words


def test_the_use_of_a_recovery_key_is_looked_into_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)
    journal = folder / "journal.db"
    world.on(journal, lambda one: one.run(world.plain, "x", id="p-1"))
    for name in ("anna", "vault", "new"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    for person, key, more in (("anna", "anna", []), ("anna", "vault", ["--recovery"]), ("new", "new", [])):
        by = ["--by", "person:anna", "--sign-with", str(tmp_path / ("vault" if key == "new" else "anna"))]
        words = ["--ssh-key", str(tmp_path / f"{key}.pub"), *more, *(by if key != "anna" else [])]
        run_cli("person", "enrol", person, *words, journal=journal)
    with serving(folder, journal=journal) as server:
        kim = Person.with_token(server, "person:kim")
        kim.open("/incidents")
        kim.follow("called")
        assert "revoke it on the page People" in kim.words
        for other in ("Go on forward", "Take the saga back", "Let it stand, on my word"):
            kim.press_nothing_of(other)
        kim.press("I looked into it", reason="anna lost her key, and used the one in the vault")
        assert "You vouched for it." in kim.words
        kim.open("/incidents")
        assert "No saga needs a person." in kim.words


def test_a_report_is_a_file_to_hand_on(anna: Person) -> None:
    for kind, begins in (("html", "<!doctype html>"), ("markdown", "# Incident"), ("json", "{")):
        anna.open(f"/incidents/b-4/1?report={kind}")
        assert anna.page.startswith(begins)
        assert "attachment" in anna.headers["content-disposition"]
    assert json.loads(anna.page)["incident"]["id"] == "b-4/1"
    anna.open("/incidents/b-4/1?report=pdf")
    assert anna.status == 422


def test_whoever_may_only_look_is_told_so(server: Serving) -> None:
    looker = Person.with_token(server, "person:looker", "view")
    looker.open("/incidents/b-4/1")
    assert "may look, and not decide" in looker.words
    looker.send("/incidents/b-4/1", do="resolve", reason="x")
    assert looker.status == 403


def test_one_that_is_not_there_says_so(anna: Person) -> None:
    for path in ("/incidents/nope/1", "/incidents/b-4/9", "/incidents/nope"):
        anna.open(path)
        assert anna.status == 404


def test_an_empty_list_says_what_would_be_here(tmp_path: Path) -> None:
    with serving(tmp_path / "j") as server:
        anna = Person.with_token(server, "person:anna")
        anna.open("/incidents")
        assert "No saga needs a person." in anna.words
