"""Every decision in a real browser, with its scripts and without them."""

import json
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from amends import Coordinator
from tests.browser.visitor import Visitor
from tests.server import world
from tests.server.serving import Serving, run_cli, serving

WITH_AND_WITHOUT = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])


async def _made(coordinator: Coordinator) -> None:
    for mark in ("scripts", "no-scripts"):
        for name in ("grant", "refuse", "one", "two", "stale"):
            await world.start(coordinator, world.order_one, name, 900, id=f"{mark}-{name}")
        await world.start(coordinator, world.request_access, "person:new", id=f"{mark}-both")
        await coordinator.run(world.plain, "book", id=f"{mark}-back")
        for name in ("signal", "part", "pause"):
            await world.start(coordinator, world.confirmed, name, 100, id=f"{mark}-{name}")
        for name in ("resolve", "retry", "give"):
            await coordinator.run(world.doomed, name, id=f"{mark}-{name}", actor="agent:shop")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    folder = tmp_path_factory.mktemp("decisions") / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", _made)
    with serving(folder, journal=folder / "journal.db") as one:
        yield one


def _status(server: Serving, saga: str) -> str:
    return str(json.loads(run_cli("saga", "show", saga, "--json", journal=server.journal).splitlines()[0])["status"])


def _mark(scripts: bool) -> str:
    return "scripts" if scripts else "no-scripts"


@WITH_AND_WITHOUT
def test_an_approval_is_granted_and_refused(visit: Callable[..., Visitor], server: Serving, scripts: bool) -> None:
    anna = visit(server, "person:anna", scripts=scripts)
    anna.open(f"/approvals/{_mark(scripts)}-grant/2")
    anna.press("Grant")
    anna.sees("You granted shop.charge")
    anna.open(f"/approvals/{_mark(scripts)}-refuse/2")
    anna.press("Refuse")
    anna.sees("say why not")
    anna.fill("Reason", "too dear")
    anna.press("Refuse")
    anna.sees("You refused shop.charge")
    anna.sees("too dear")


@WITH_AND_WITHOUT
def test_several_are_granted_together(visit: Callable[..., Visitor], server: Serving, scripts: bool) -> None:
    anna = visit(server, "person:anna", scripts=scripts)
    anna.open("/approvals")
    for name in ("one", "two"):
        anna.page.get_by_label(f"Choose shop.charge of {_mark(scripts)}-{name}", exact=True).check()
    anna.press("Review the chosen ones together")
    anna.sees("2 approvals together")
    anna.press("Grant all 2")
    anna.sees("2 granted.")


@WITH_AND_WITHOUT
def test_two_people_and_one_approval(visit: Callable[..., Visitor], server: Serving, scripts: bool) -> None:
    anna = visit(server, "person:anna", scripts=scripts)
    kim = visit(server, "person:kim", scripts=scripts)
    for one in (anna, kim):
        one.open(f"/approvals/{_mark(scripts)}-both/1")
    anna.press("Grant")
    anna.sees("You agreed to access.grant. Still lacking: 1 person.")
    anna.press("Grant")
    anna.sees("person:anna has approved")
    kim.press("Grant")
    kim.sees("You granted access.grant")


@WITH_AND_WITHOUT
def test_a_stale_page_decides_nothing(visit: Callable[..., Visitor], server: Serving, scripts: bool) -> None:
    anna = visit(server, "person:anna", scripts=scripts)
    kim = visit(server, "person:kim", scripts=scripts)
    for one in (anna, kim):
        one.open(f"/approvals/{_mark(scripts)}-stale/2")
    anna.fill("Reason", "no")
    anna.press("Refuse")
    anna.sees("You refused shop.charge")
    kim.press("Grant")
    kim.sees("refused")
    kim.sees_no("You granted shop.charge")


@WITH_AND_WITHOUT
def test_a_saga_is_taken_back_after_a_preview(visit: Callable[..., Visitor], server: Serving, scripts: bool) -> None:
    anna = visit(server, "person:anna", scripts=scripts)
    saga = f"{_mark(scripts)}-back"
    anna.open(f"/sagas/{saga}")
    anna.press("Take all of it back…")
    anna.sees("Nothing has been done yet.")
    assert _status(server, saga) == "completed"
    anna.fill("Reason", "ordered twice")
    anna.press("Take it back now")
    anna.sees("Asked for, and on record")
    assert world.resumed(server.journal)[saga] == "rolled_back"


@WITH_AND_WITHOUT
def test_a_part_of_a_saga_is_taken_back(visit: Callable[..., Visitor], server: Serving, scripts: bool) -> None:
    anna = visit(server, "person:anna", scripts=scripts)
    anna.open(f"/sagas/{_mark(scripts)}-part")
    anna.press("Look what that would take back…")
    anna.sees("Back to checkpoint reserved")
    anna.fill("Reason", "wrapped badly")
    anna.press("Go back now")
    anna.sees("Asked for, and on record")


@WITH_AND_WITHOUT
def test_a_saga_is_paused_and_let_go_on(visit: Callable[..., Visitor], server: Serving, scripts: bool) -> None:
    anna = visit(server, "person:anna", scripts=scripts)
    anna.open(f"/sagas/{_mark(scripts)}-pause")
    anna.unfold("Pause it")
    anna.fill("Reason", "the price is wrong")
    anna.press("Pause this saga")
    anna.sees("Paused: nothing more of it is dispatched")
    anna.press("Let it go on")
    anna.sees("It goes on where a process drives it.")


@WITH_AND_WITHOUT
def test_a_signal_is_sent(visit: Callable[..., Visitor], server: Serving, scripts: bool) -> None:
    anna = visit(server, "person:anna", scripts=scripts)
    saga = f"{_mark(scripts)}-signal"
    anna.open(f"/sagas/{saga}")
    anna.fill("Payload", '"box 7"')
    anna.press("Send the signal")
    anna.sees("Signal warehouse.confirmed is on record.")
    assert world.resumed(server.journal)[saga] == "completed"


@WITH_AND_WITHOUT
def test_an_incident_is_resolved_retried_and_given_to_somebody(
    visit: Callable[..., Visitor], server: Serving, scripts: bool
) -> None:
    anna, mark = visit(server, "person:anna", scripts=scripts), _mark(scripts)
    anna.open(f"/incidents/{mark}-give/1")
    anna.press("I see to it")
    anna.sees("person:anna sees to it.")
    anna.fill("Remark", "called the customer")
    anna.press("Put it on record")
    anna.sees("The remark is on record.")
    anna.open(f"/incidents/{mark}-resolve/1")
    anna.fill("What was done by hand", "fetched the parcel")
    anna.fill("Where that can be seen", "ticket 7")
    anna.press("I took it back by hand")
    anna.sees("You vouched for it.")
    anna.open(f"/incidents/{mark}-retry/1")
    anna.press("Try again")
    anna.sees("It is on record; the saga is rolling back now")


@WITH_AND_WITHOUT
def test_an_administrator_pauses_makes_tokens_and_changes_the_policy(
    visit: Callable[..., Visitor], tmp_path: Path, scripts: bool
) -> None:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", lambda one: one.run(world.plain, "x", id="p-1"))
    with serving(folder, journal=folder / "journal.db") as server:
        olga = visit(server, "person:olga", "view", "decide", "admin", scripts=scripts)
        olga.follow("Workers")
        olga.unfold("Pause dispatch")
        olga.fill("Reason", "the bank is down")
        olga.press("Pause")
        olga.sees("Everything is paused")
        olga.press("End this pause")
        olga.sees("Nothing is paused.")
        olga.follow("People")
        olga.unfold("Make a token")
        olga.fill("Whose", "agent:new")
        olga.press("Make the token")
        olga.sees("It is shown once, and kept nowhere")
        olga.page.get_by_label("of agent:new").click()
        olga.sees("The token of agent:new is good for nothing more.")
        olga.follow("Policy")
        olga.fill("Draft", "version: v1\ndefault: deny\nrules: []\n")
        olga.press("Try it on the newest sagas")
        olga.sees("1 stricter")
        olga.fill("Why it changes", "nothing goes today")
        olga.press("Adopt this draft")
        olga.sees("Adopted: it judges from now on.")
        olga.follow("Evidence")
        olga.press("Sign a new tree head")
        olga.sees("Signed:")
        olga.press("Verify the whole journal")
        olga.sees("verified")


@WITH_AND_WITHOUT
def test_logging_out_everywhere_ends_the_other_session_too(
    visit: Callable[..., Visitor], server: Serving, scripts: bool
) -> None:
    name = f"person:{_mark(scripts)}"
    here, there = visit(server, name, scripts=scripts), visit(server, name, scripts=scripts)
    here.follow(name)
    here.press("Log out everywhere")
    here.sees("Your token")
    there.follow("Sagas")
    there.sees("Your token")
