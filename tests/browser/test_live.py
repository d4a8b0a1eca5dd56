"""News on pages that are open, which never move what somebody is about to click; and a server that is gone."""

import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from amends import Coordinator
from tests.browser.visitor import PATIENCE_MS, Visitor
from tests.server import world
from tests.server.serving import Serving, serving


@pytest.fixture
def server(tmp_path: Path) -> Generator[Serving]:
    """One with nothing on its journal yet but the policy."""
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)

    async def nothing(_: Coordinator) -> None:
        pass

    world.on(folder / "journal.db", nothing)
    with serving(folder, journal=folder / "journal.db") as one:
        yield one


def _is_live(one: Visitor) -> None:
    expect(one.page.locator("html[data-live=on]")).to_have_count(1, timeout=PATIENCE_MS)


def test_a_page_that_nobody_is_at_shows_what_happens(visit: Callable[..., Visitor], server: Serving) -> None:
    anna = visit(server, "person:anna")
    anna.sees("No saga has run on this journal yet.")
    _is_live(anna)
    world.on(server.journal, lambda one: world.start(one, world.request_access, "person:new", id="new-1"))
    anna.sees("access.grant")
    expect(anna.page.locator(".top .badge")).to_have_text("1")
    anna.sees_no("There is news. Show it")


def test_a_page_that_somebody_is_at_stays_and_offers_the_news(visit: Callable[..., Visitor], server: Serving) -> None:
    world.on(server.journal, lambda one: world.start(one, world.confirmed, "desk", 100, id="w-1"))
    anna = visit(server, "person:anna")
    anna.open("/sagas/w-1")
    _is_live(anna)
    anna.unfold("Pause it")
    anna.fill("Reason", "half a thou")
    before = anna.page.get_by_role("button", name="Pause this saga").bounding_box()
    world.on(server.journal, lambda one: one.signal("w-1", "other", early=True, by="person:kim"))
    anna.sees("There is news. Show it")
    assert anna.page.get_by_role("button", name="Pause this saga").bounding_box() == before
    assert anna.page.get_by_label("Reason").first.input_value() == "half a thou"
    anna.press("There is news. Show it")
    anna.sees("signal 1 other from person:kim")


def test_a_list_never_changes_by_itself(visit: Callable[..., Visitor], server: Serving) -> None:
    world.on(server.journal, lambda one: world.start(one, world.request_access, "person:a", id="a-1"))
    anna = visit(server, "person:anna")
    anna.open("/approvals")
    _is_live(anna)
    world.on(server.journal, lambda one: world.start(one, world.request_access, "person:b", id="a-2"))
    anna.sees("There is news. Show it")
    expect(anna.page.locator("tbody tr")).to_have_count(1)
    anna.press("There is news. Show it")
    expect(anna.page.locator("tbody tr")).to_have_count(2)


def test_a_connection_that_is_lost_says_so_and_nothing_else_changes(
    visit: Callable[..., Visitor], server: Serving
) -> None:
    anna = visit(server, "person:anna")
    anna.expects_trouble = True
    _is_live(anna)
    server.stop(signal.SIGKILL)
    anna.sees("No news comes in: the server cannot be reached, or you are logged out.")
    anna.sees("No saga has run on this journal yet.")


def test_the_stream_of_a_session_that_was_ended_ends(visit: Callable[..., Visitor], server: Serving) -> None:
    here, there = visit(server, "person:anna"), visit(server, "person:anna")
    there.expects_trouble = True
    _is_live(there)
    here.follow("person:anna")
    here.press("Log out everywhere")
    here.sees("Your token")
    world.on(server.journal, lambda one: one.run(world.plain, "x", id="p-1"))
    there.sees("No news comes in: the server cannot be reached, or you are logged out.")
    there.sees_no("p-1")
