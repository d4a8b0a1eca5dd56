"""Overview, the list of sagas and the page of one: what is shown, what is found, and what people have done with it."""

import html
import re
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from amends import Coordinator, Limit, Limits, to_checkpoint
from tests.server import world
from tests.server.person import Person
from tests.server.serving import Serving, run_cli, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    folder = tmp_path_factory.mktemp("sagas") / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", world.many)
    with serving(folder, journal=folder / "journal.db") as one:
        yield one


@pytest.fixture
def anna(server: Serving) -> Person:
    return Person.with_token(server, "person:anna")


def _ids(person: Person) -> list[str]:
    return re.findall(r'<a class="id" href="/sagas/[^"]*">([^<]*)</a>', person.page)


def test_the_overview_counts_what_waits_and_what_went_wrong(anna: Person) -> None:
    anna.open("/")
    for said in (
        "4 waiting for a person",
        "need attention",
        "rolled back in 24 h",
        "Last 24 hours",
        "asks-1",
        "broken-1",
    ):
        assert said in anna.page or said in anna.words
    anna.follow("All incidents")
    assert anna.at == "/incidents"


def test_an_empty_journal_says_how_to_make_a_saga(tmp_path: Path) -> None:
    with serving(tmp_path / "j") as server:
        anna = Person.with_token(server, "person:anna")
        anna.open("/")
        assert "No saga has run on this journal yet." in anna.words
        anna.open("/sagas")
        assert "amends run MODULE:SAGA" in anna.words


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("status=incident", ["broken-2", "broken-1"]),
        ("status=incident&q=tenant%3Dacme", ["broken-1"]),
        ("q=done-", ["done-3", "done-2", "done-1"]),
        ("q=tenant%3Dacme+order%3D2", ["done-2"]),
        ("definition=shop.order", ["asks-2", "asks-1"]),
        ("topic=access.grant", ["asks-3"]),
        ("env=nowhere", []),
        ("since=1h&status=rolled_back", ["back-1"]),
    ],
)
def test_filters_find(anna: Person, asked: str, found: list[str]) -> None:
    anna.open(f"/sagas?{asked}")
    assert _ids(anna) == found
    if not found:
        assert "No saga fits." in anna.words


def test_the_key_of_a_step_finds_its_saga(anna: Person) -> None:
    anna.open("/sagas/back-1?step=1")
    key = re.findall(r"key <code>([0-9a-f]{32})</code>", anna.page)
    assert len(key) == 2  # the action's, and its compensation's
    for one in key:
        anna.open(f"/sagas?q={one}")
        assert _ids(anna) == ["back-1"]


def test_of_a_key_that_no_call_has_nothing_is_found_and_a_key_goes_with_other_filters(anna: Person) -> None:
    anna.open("/sagas/back-1?step=1")
    key = re.findall(r"key <code>([0-9a-f]{32})</code>", anna.page)[0]
    for asked, found in (
        (f"q={key}&status=rolled_back", ["back-1"]),
        (f"q={key}&status=completed", []),
        ("q=" + "0" * 32, []),
    ):
        anna.open(f"/sagas?{asked}")
        assert _ids(anna) == found
    anna.open(f"/sagas?q={key}+done")
    assert anna.status == 422


def test_a_filter_is_kept_under_a_name_by_each_person_alone(server: Serving, anna: Person) -> None:
    anna.open("/sagas?status=incident&q=tenant%3Dacme&page=")
    anna.press("Keep", name="  Broken   at <b>acme</b> ")
    assert "Kept as Broken at <b>acme</b>." in anna.words
    assert _ids(anna) == ["broken-1"]
    anna.open("/sagas")
    anna.follow("Broken at &lt;b&gt;acme&lt;/b&gt;")
    assert anna.at == "/sagas?status=incident&q=tenant%3Dacme"
    kim = Person.with_token(server, "person:kim", "view")
    kim.open("/sagas")
    assert "Your filters" not in kim.words
    kim.open("/sagas?status=completed")
    kim.press("Keep", name="Broken at <b>acme</b>")
    again = Person.with_token(server, "person:ANNA")
    again.open("/sagas")
    again.press_labelled("Forget Broken at <b>acme</b>")
    assert "Forgotten." in again.words
    anna.open("/sagas")
    assert "Your filters" not in anna.words
    kim.open("/sagas")
    assert "Your filters" in kim.words


def test_what_is_no_filter_is_not_kept(anna: Person) -> None:
    anna.open("/sagas?status=incident")
    mark = anna.page.partition('name="csrf" value="')[2].partition('"')[0]
    for name, query in (
        ("", "status=incident"),
        ("x" * 61, "status=incident"),
        ("x", ""),
        ("x", "next=//evil"),
        ("x", "q=" + "x" * 2000),
    ):
        anna.send("/filters/sagas", csrf=mark, name=name, query=query)
        assert anna.status == 422, (name, query)
    for number in range(20):
        anna.send("/filters/sagas", csrf=mark, name=f"n{number}", query="status=incident")
        assert anna.status == 200
    anna.send("/filters/sagas", csrf=mark, name="one more", query="status=incident")
    assert "forget one of them first" in anna.words
    anna.send("/filters/sagas", csrf=mark, name="n3", query="status=completed")
    assert "Kept as n3." in anna.words


def test_a_filter_that_is_none_says_so(anna: Person) -> None:
    for asked in ("status=flying", "since=yesterday", "q=one+two", "page=x"):
        anna.open(f"/sagas?{asked}")
        assert anna.status == 422


def test_long_lists_go_on_page_by_page(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)

    async def sixty(coordinator: Coordinator) -> None:
        for number in range(60):
            await coordinator.run(world.plain, str(number), id=f"s-{number:02}")

    world.on(folder / "journal.db", sixty)
    with serving(folder, journal=folder / "journal.db") as server:
        anna = Person.with_token(server, "person:anna")
        anna.open("/sagas")
        first = _ids(anna)
        anna.follow("Next page")
        assert [*first, *_ids(anna)] == [f"s-{number:02}" for number in range(59, -1, -1)]
        anna.follow("First page")
        assert _ids(anna) == first


def test_the_timeline_mirrors_what_was_taken_back(anna: Person) -> None:
    anna.open("/sagas/back-1")
    middle = float(re.findall(r'class="axis"[^>]*y1="([\d.]+)"', anna.page)[0])
    bars = [(kind, float(y)) for kind, y in re.findall(r'<rect class="bar (\w+) \w+"[^>]* y="([\d.]+)"', anna.page)]
    assert [y < middle for kind, y in bars if kind == "attempt"] == [True, True]
    assert [y > middle for kind, y in bars if kind == "back"] == [True]
    assert anna.page.count('class="joined"') == 1


def test_the_panel_of_a_step_shows_all_of_it(anna: Person) -> None:
    anna.open("/sagas/asks-1?step=2")
    for said in (
        "Step 2: shop.charge", "deliver before noon", "129900", "Charge the customer's card", "compensatable",
        "Pay it back to the same card", "money-takes-a-person", "line 4", "require human",
        "None: it was not dispatched",
    ):  # fmt: skip
        assert said in anna.words
    anna.follow("What people were asked, and what they said")
    assert anna.at == "/approvals/asks-1/2"
    anna.open("/sagas/asks-1?step=9")
    assert "It has no step 9." in anna.words


def test_a_long_saga_is_shown_in_parts(server: Serving, anna: Person) -> None:
    async def long_one(coordinator: Coordinator) -> None:
        await coordinator.run(world.many_steps, 70, id="long-1")

    world.on(server.journal, long_one)
    anna.open("/sagas/long-1")
    assert "1 to 60 of 70" in anna.words
    assert ">70</a>" not in anna.page
    anna.follow("Later steps")
    assert "61 to 70 of 70" in anna.words
    assert ">70</a>" in anna.page
    anna.follow("Show 102 lines before these")
    assert "shop.many_steps/1 started by" in anna.words
    anna.open("/sagas/long-1?from=99999999999999999999")
    assert "1 to 60 of 70" in anna.words


def test_children_are_folded_in(anna: Person) -> None:
    anna.open("/sagas/family-1")
    assert "<details" in anna.page
    assert "Timeline of the child family-1~2" in anna.page
    anna.follow("family-1~2")
    assert "called by family-1" in anna.words


def test_a_saga_that_is_not_there_says_which_was_meant(anna: Person) -> None:
    anna.open("/sagas/done-9")
    assert anna.status == 404
    assert "did you mean done-" in anna.words


def test_a_preview_changes_nothing_and_a_reason_is_needed_to_take_back(server: Serving, anna: Person) -> None:
    anna.open("/sagas/done-1")
    anna.press("Take all of it back…")
    assert "Give the item back to the warehouse" in anna.words
    assert "Nothing has been done yet." in anna.words
    assert '"completed"' in run_cli("saga", "show", "done-1", "--json", journal=server.journal)
    anna.press("Take it back now", why=" ")
    assert anna.status == 422
    assert "say why" in anna.words
    anna.press("Take it back now", why="ordered twice")
    assert "Asked for, and on record" in anna.words
    assert world.resumed(server.journal)["done-1"] == "rolled_back"
    anna.open("/sagas/done-1")
    assert "ordered twice" in anna.words
    assert "Take all of it back" not in anna.words


def test_what_is_past_a_pivot_is_refused_before_it_is_asked_for(anna: Person) -> None:
    anna.open("/sagas/family-1?plan=all")
    assert "It would be refused" in anna.words
    assert "a mail cannot be unsent" in anna.words
    assert "Take it back now" not in anna.page


def test_a_part_goes_back_to_a_checkpoint_or_by_its_last_steps(server: Serving, anna: Person) -> None:
    anna.open("/sagas/waits-1")
    anna.press("Look what that would take back…")
    assert anna.at == "/sagas/waits-1?plan=to&given=reserved"
    assert anna.words.count("Give the item back") == 1
    anna.open("/sagas/waits-1?plan=last&given=2")
    assert anna.words.count("Give the item back") == 2
    for wrong in ("plan=last&given=many", "plan=to&given=nowhere"):
        anna.open(f"/sagas/waits-1?{wrong}")
        assert "It would be refused" in anna.words
    anna.open("/sagas/waits-1?plan=last&given=1")
    anna.press("Go back now", why="wrapped badly")
    assert "rolling back now" in anna.words
    world.resumed(server.journal)
    anna.open("/sagas/waits-1")
    assert "wrapped badly" in anna.words


def test_going_back_from_an_incident_takes_a_signature_where_decisions_do(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)
    key, journal = tmp_path / "anna", folder / "journal.db"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    limits = Limits(steps=Limit(1, then="call"))
    policy = world.POLICY + "approvals: {proof: signed}\n"
    world.on(journal, lambda one: world.start(one, world.confirmed, "lid", 1, id="s-1", limits=limits), policy=policy)
    run_cli("person", "enrol", "person:anna", "--ssh-key", f"{key}.pub", journal=journal)
    with serving(folder, journal=journal) as server:
        anna = Person.with_token(server, "person:anna")
        anna.open("/sagas/s-1?plan=to&given=reserved")
        anna.press("Go back now", why="once more")
        assert "This decision takes your signature" in anna.words
        statement = html.unescape(anna.page.partition('name="statement" value="')[2].partition('"')[0])
        assert '\nreason: "the saga goes back"\n' in statement
        words = ["ssh-keygen", "-Y", "sign", "-n", "amends", "-f", str(key)]
        signed = subprocess.run(words, input=statement, capture_output=True, text=True, check=True).stdout
        anna.press("Decide, signed", signature=signed)
        assert "Asked for, and on record" in anna.words
    root: str = world.on(journal, world.root_of)
    run_cli("evidence", "tree-head", "--new", journal=journal)
    assert '"proved": 1' in run_cli("evidence", "verify", "--root", root, "--json", journal=journal)


def test_a_signal_reaches_the_saga_that_waits_for_it(server: Serving) -> None:
    anna = Person.with_token(server, "person:anna")
    world.on(server.journal, lambda one: world.start(one, world.confirmed, "shelf", 100, id="waits-2"))
    anna.open("/sagas/waits-2")
    anna.press("Send the signal", name="warehouse.confirmed", payload="{")
    assert anna.status == 422
    anna.press("Send the signal", name="warehouse.confirmed", payload='"box 7"')
    assert "Signal warehouse.confirmed is on record." in anna.words
    assert world.resumed(server.journal)["waits-2"] == "completed"


def test_limits_are_shown_with_what_is_used_and_raised(server: Serving, anna: Person) -> None:
    limits = Limits(steps=Limit(20, then=to_checkpoint("reserved")), usd=5, tokens=Limit(9, then="pause"))
    world.on(server.journal, lambda one: world.start(one, world.confirmed, "lid", 1, id="limited-1", limits=limits))
    anna.open("/sagas/limited-1")
    for said in ("steps 2 steps 20 steps it goes back to the checkpoint reserved, once at most", "usd 0 USD 5 USD"):
        assert said in anna.words
    anna.press("Raise it", limit="usd", most="12.5", why="a big one")
    assert "The limit is raised." in anna.words
    assert "usd 0 USD 12.5 USD it is rolled back" in anna.words
    for limit, most, said in (
        ("steps", "lots", "a number, as 20"),
        ("steps", "2.5", "a number, as 20"),
        ("steps", "3", "raise steps to more than 20 steps"),
        ("usd", "much", "much"),
        ("", "3", "choose which limit"),
    ):
        anna.press("Raise it", limit=limit, most=most, why="a big one")
        assert anna.status in {409, 422}
        assert said in anna.words
    anna.press("Raise it", limit="steps", most="30", why=" ")
    assert "say why" in anna.words
    anna.open("/sagas/done-1")
    anna.press_nothing_of("Raise it")
    looker = Person.with_token(server, "person:looker", "view")
    looker.open("/sagas/limited-1")
    assert "At most" in looker.words
    looker.press_nothing_of("Raise it")


def test_a_saga_is_paused_and_let_go_on(server: Serving, anna: Person) -> None:
    anna.open("/sagas/asks-2")
    anna.press("Pause this saga", why="the price is wrong")
    assert "the price is wrong" in anna.words
    anna.press("Let it go on")
    assert "It goes on where a process drives it." in anna.words


def test_whoever_may_only_look_has_no_forms(server: Serving) -> None:
    looker = Person.with_token(server, "person:looker", "view")
    looker.open("/sagas/asks-1")
    assert "may look, and not decide" in looker.words
    assert 'method="post"' not in looker.page.replace("/logout", "")
    looker.send("/sagas/asks-1", do="all", why="x")
    assert looker.status == 403
