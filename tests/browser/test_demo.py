"""`amends demo --console`: one command brings up the console, with something to grant and something to resolve."""

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.demo import demo_console
from tests.browser.visitor import PATIENCE_MS


@pytest.fixture
def login(tmp_path: Path) -> Generator[str]:
    with demo_console(tmp_path) as address:
        yield address


def test_the_demo_has_something_to_grant_and_something_to_resolve(browser: Browser, login: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    page.goto(login)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.get_by_role("link", name="refund.pay").click()
    page.get_by_role("button", name="Grant").click()
    expect(page.get_by_text("You granted refund.pay")).to_be_visible()
    page.get_by_role("link", name="refund-9").first.click()
    expect(page.get_by_role("heading", name="demo.refund completed")).to_be_visible()
    page.get_by_role("link", name="Incidents").click()
    page.get_by_role("link", name="compensation failed").click()
    expect(page.get_by_text("the courier has delivered it already").first).to_be_visible()
    page.get_by_label("What was done by hand").fill("the customer sent it back")
    page.get_by_role("button", name="I took it back by hand").click()
    expect(page.get_by_text("You vouched for it.")).to_be_visible()
    page.get_by_role("link", name="delivery-7").first.click()
    expect(page.get_by_role("heading", name="demo.delivery rolled back")).to_be_visible()
    page.close()
