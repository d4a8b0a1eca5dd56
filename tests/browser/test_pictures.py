"""The pictures of the pages about the console, of the demo's sagas: `AMENDS_PICTURES=docs/images` puts them there."""

from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page, expect

from tests.browser.demo import demo_console
from tests.browser.visitor import PATIENCE_MS

_MOST_BYTES = 200_000


def test_pictures_for_the_docs(browser: Browser, tmp_path: Path, pictures: Path) -> None:
    expect.set_options(timeout=PATIENCE_MS)
    with demo_console(tmp_path) as login:
        wide = _page(browser, 1180, 860, "light")
        wide.goto(login)
        wide.get_by_role("button", name="Log in", exact=True).click()
        _take(wide, pictures, "overview", "Last 24 hours")
        wide.get_by_role("link", name="delivery-7/1").or_(
            wide.get_by_role("link", name="compensation failed")
        ).first.click()
        _take(wide, pictures, "incident", "What stands in the world")
        address = login.partition("/login")[0]
        wide.goto(f"{address}/sagas/trip-1")
        _take(wide, pictures, "saga", "Timeline")
        dark = _page(browser, 1180, 860, "dark")
        _log_in_as(dark, wide)
        dark.goto(f"{address}/policy")
        _take(dark, pictures, "policy", "big-refunds-take-a-person")
        dark.goto(f"{address}/actions")
        _take(dark, pictures, "actions", "can be taken back")
        wide.goto(f"{address}/sagas")
        _take(wide, pictures, "sagas", "delivery-7")
        wide.goto(f"{address}/evidence")
        wide.get_by_role("button", name="Verify the whole journal").click()
        _take(wide, pictures, "evidence", "Covered by a signed root")
        phone = _page(browser, 390, 844, "light")
        _log_in_as(phone, wide)
        phone.goto(f"{address}/approvals/refund-9/2")
        _take(phone, pictures, "approval", "What will happen")
        phone.get_by_role("heading", name="Arguments, as the agent gave them").evaluate("one => one.scrollIntoView()")
        _take(phone, pictures, "before", "What is there now")
        for one in (wide, dark, phone):
            one.context.close()


def _page(browser: Browser, width: int, height: int, scheme: Literal["light", "dark"]) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", timezone_id="UTC"
    )
    context.set_default_timeout(PATIENCE_MS)
    return context.new_page()


def _log_in_as(page: Page, other: Page) -> None:
    cookies: Any = other.context.cookies()
    page.context.add_cookies(cookies)


def _take(page: Page, pictures: Path, name: str, words: str) -> None:
    expect(page.get_by_text(words).first).to_be_visible()
    taken = pictures / f"console-{name}.png"
    page.evaluate("document.querySelector('footer')?.remove()")  # it names a directory of the tests
    page.screenshot(path=taken)
    assert 10_000 < taken.stat().st_size < _MOST_BYTES
