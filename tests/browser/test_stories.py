"""One story for each kind of person: from the first page to the decision, by the words that are to be seen."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.browser.visitor import NARROW, Visitor
from tests.server import world
from tests.server.serving import Serving, run_cli, serving


@pytest.fixture
def server(tmp_path: Path) -> Generator[Serving]:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", world.many)
    with serving(folder, journal=folder / "journal.db") as one:
        yield one


def test_an_approver_sees_what_is_asked_and_grants_it(visit: Callable[..., Visitor], server: Serving) -> None:
    """On a phone, from the overview: what will happen, what would take it back, why people are asked; then yes."""
    anna = visit(server, "person:anna", "view", "decide", size=NARROW)
    anna.sees("Waiting longest for a person")
    anna.follow("shop.charge")
    for said in (
        "What will happen",
        "129900",
        "deliver before noon",
        "What would take it back",
        "Pay it back to the same card",
        "Why people are asked",
        "money-takes-a-person",
        "1 person",
    ):
        anna.sees(said)
    anna.fill("Reason", "agreed on the phone")
    anna.press("Grant")
    anna.sees("You granted shop.charge. Its saga goes on where a process drives it.")
    assert world.resumed(server.journal)["asks-1"] == "completed"


def test_whoever_is_on_call_finds_what_stands_and_resolves_it(visit: Callable[..., Visitor], server: Serving) -> None:
    """At night, on a phone: an incident, what stands, what was tried; taken on, seen to by hand, vouched for."""
    kim = visit(server, "person:kim", "view", "decide", size=NARROW, scheme="dark")
    kim.sees("Needs attention")
    kim.follow("compensation failed")
    for said in (
        "What stands in the world",
        "may stand",
        "What was tried",
        "the parcel of vase is with the customer",
    ):
        kim.sees(said)
    kim.press("I see to it")
    kim.sees("person:kim sees to it.")
    kim.fill("What was done by hand", "the courier brought the parcel back")
    kim.fill("Where that can be seen", "ticket 4711")
    kim.press("I took it back by hand")
    kim.sees("You vouched for it.")
    kim.sees("How it was closed")
    assert world.resumed(server.journal)["broken-1"] == "rolled_back"
    kim.follow("broken-1")
    kim.sees("rolled back")


def test_an_auditor_follows_a_decision_to_its_proof(
    visit: Callable[..., Visitor], server: Serving, tmp_path: Path
) -> None:
    """May only look: finds a saga, reads who decided what by which rule, verifies the journal, takes a bundle home."""
    auditor = visit(server, "person:auditor", "view")
    auditor.follow("Sagas")
    auditor.fill("Search", "tenant=acme")
    auditor.press("Find")
    auditor.fill("Keep this filter as", "What acme ran")
    auditor.press("Keep")
    auditor.sees("Kept as What acme ran.")
    auditor.follow("Sagas")
    auditor.follow("What acme ran")
    auditor.follow("broken-1")
    auditor.sees("Story")
    auditor.sees("rollback began")
    auditor.sees("may look, and not decide")
    auditor.page.get_by_role("table").get_by_role("link", name="2", exact=True).click()
    auditor.sees("Step 2: shop.ship")
    auditor.sees("by rule default")
    with auditor.page.expect_download() as coming:
        auditor.follow("Bundle that verifies offline")
    bundle = tmp_path / "bundle.jsonl"
    coming.value.save_as(bundle)
    auditor.follow("Evidence")
    auditor.press("Verify the whole journal")
    auditor.sees("Covered by a signed root")
    key = run_cli("evidence", "key", journal=server.journal).strip()
    assert "covered" in run_cli("evidence", "verify", str(bundle), "--key", key, check=False)


def test_an_administrator_stops_everything_and_changes_the_rules(
    visit: Callable[..., Visitor], server: Serving
) -> None:
    """Something goes wrong everywhere: pause it, tighten the policy after trying that on history, let it go on."""
    olga = visit(server, "person:olga", "view", "decide", "admin")
    olga.follow("Workers")
    olga.unfold("Pause dispatch")
    olga.fill("Action", "shop.ship")
    olga.fill("Reason", "parcels get lost")
    olga.press("Pause")
    olga.sees("shop.ship is paused")
    olga.follow("Actions")
    olga.sees("can be taken back")
    olga.follow("shop.ship")
    olga.sees("2 of that failed")
    olga.follow("Policy")
    olga.sees("money-takes-a-person")
    rule = "  - id: parcels-take-a-person\n    when: {topic: shop.ship}\n    decision: require_human\n"
    olga.fill("Draft", world.POLICY + rule)
    olga.press("Try it on the newest sagas")
    olga.sees("stricter")
    olga.fill("Why it changes", "parcels get lost")
    olga.press("Adopt this draft")
    olga.sees("Adopted: it judges from now on.")
    olga.follow("Workers")
    olga.press("End this pause")
    olga.sees("Nothing is paused.")
    olga.follow("Overview")
    olga.sees_no("Dispatch is paused")
