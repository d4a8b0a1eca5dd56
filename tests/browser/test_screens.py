"""Every screen: dark and light, wide and narrow, for those who cannot see, and with hostile text in it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, expect

from tests.browser.visitor import NARROW, WIDE, Visitor
from tests.server.serving import Serving

SCREENS = {
    "overview": "/",
    "approvals": "/approvals",
    "approval": "/approvals/asks-1/2",
    "changes": "/approvals/asks-4/1",
    "review": "/approvals/review?id=asks-1/2&id=asks-2/2",
    "incidents": "/incidents",
    "incident": "/incidents/broken-1/1",
    "sagas": "/sagas",
    "filtered": "/sagas?status=incident",
    "saga": "/sagas/back-1",
    "step": "/sagas/broken-1?step=2",
    "family": "/sagas/family-1",
    "limits": "/sagas/waits-1",
    "preview": "/sagas/waits-1?plan=all",
    "actions": "/actions",
    "action": "/actions/shop.charge",
    "policy": "/policy?facts=%7B%22topic%22%3A%22shop.charge%22%7D",
    "evidence": "/evidence",
    "workers": "/workers",
    "locks": "/locks",
    "notices": "/notices",
    "people": "/people",
    "me": "/me",
    "nowhere": "/nowhere",
    "refused": "/sagas/nope",
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_for_everybody(name: str, visit: Callable[..., Visitor], server: Serving, pictures: Path) -> None:
    one = visit(server, "person:anna", "view", "decide", "admin")
    one.open(SCREENS[name])
    for summary in one.page.locator("details > summary").all():
        summary.click()
    for size in (WIDE, NARROW):
        one.page.set_viewport_size({"width": size[0], "height": size[1]})
        one.fits()
        for scheme in ("light", "dark"):
            one.page.emulate_media(color_scheme=scheme)
            one.is_accessible()
            one.page.screenshot(path=pictures / f"{name}-{scheme}-{size[0]}.png", full_page=True)


def test_kept_filters_are_for_everybody(visit: Callable[..., Visitor], server: Serving, pictures: Path) -> None:
    one = visit(server, "person:keeper", "view")
    for name, query in (
        ("What is broken at acme", "status=incident&q=tenant%3Dacme"),
        ("<b>Access</b>", "topic=access.grant"),
    ):
        one.open(f"/sagas?{query}")
        one.fill("Keep this filter as", name)
        one.press("Keep")
        one.sees(f"Kept as {name}.")
    one.follow("What is broken at acme")
    one.sees("broken-1")
    for size in (WIDE, NARROW):
        one.page.set_viewport_size({"width": size[0], "height": size[1]})
        one.fits()
        one.is_accessible()
        one.page.screenshot(path=pictures / f"kept-light-{size[0]}.png", full_page=True)
    one.page.get_by_label("Forget <b>Access</b>").click()
    one.sees("Forgotten.")
    one.sees_no("<b>Access</b>")


def test_logging_in_is_for_everybody(visit: Callable[..., Visitor], server: Serving) -> None:
    one = visit(server, size=NARROW)
    one.open("/login?once=x")
    one.fits()
    one.is_accessible()


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/approvals",
            "/approvals/xss-1/2",
            "/approvals/xss-4/1",
            "/approvals/review?id=xss-1/2",
            "/incidents",
            "/incidents/xss-2/1",
        ),
        *("/sagas", "/sagas/xss-1?step=2", "/sagas/xss-2?step=2", "/sagas/xss-3", "/sagas/xss-3?plan=all", "/workers"),
        "/sagas?q=%3Cscript%3Edocument.title%3D%27owned%27%3C%2Fscript%3E",
        "/sagas?definition=%22%3E%3Cimg+src%3Dx+onerror%3Dalert(1)%3E",
        "/actions/%3Cimg%20src=x%20onerror=alert(1)%3E",
        "/policy?facts=%3C%2Ftextarea%3E%3Cscript%3Edocument.title%3D%27owned%27%3C%2Fscript%3E",
        "/locks?resource=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E",
        "/%3Cimg%20src=x%20onerror=alert(1)%3E",
        "/login?next=javascript:alert(1)&once=%22%3E%3Cimg+src%3Dx+onerror%3Dalert(1)%3E",
    ],
)
def test_text_of_others_stays_text(path: str, visit: Callable[..., Visitor], server: Serving) -> None:
    one = visit(server, "person:anna", "view", "decide", "admin")
    dialogs: list[str] = []

    def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    one.page.on("dialog", note)
    one.open(path)
    assert "owned" not in one.page.title() or "<script>" in one.page.title()
    assert dialogs == []
    assert one.page.locator("img[onerror], main script, b:text-is('bold'), i:text-is('kim')").count() == 0


def test_the_policy_of_a_page_lets_nothing_else_run(visit: Callable[..., Visitor], server: Serving) -> None:
    one = visit(server, "person:anna")
    one.open("/")
    one.expects_trouble = True
    outcome = one.page.evaluate(
        """async () => {
            const script = document.createElement("script");
            script.textContent = "window.ran = 1";
            document.body.append(script);
            const styled = document.createElement("p");
            styled.setAttribute("style", "position: fixed");
            document.body.append(styled);
            let fetched = "fetched";
            try { await fetch("http://127.0.0.1:9/"); } catch { fetched = "refused"; }
            return [window.ran ?? "refused", getComputedStyle(styled).position, fetched];
        }"""
    )
    assert outcome == ["refused", "static", "refused"]
    assert any("Content Security Policy" in said for said in one.troubles)


def test_times_are_in_the_zone_of_who_reads_with_utc_at_hand(visit: Callable[..., Visitor], server: Serving) -> None:
    one = visit(server, "person:anna")
    one.open("/sagas/back-1")
    one.sees("Times are in Europe/Lisbon")
    first = one.page.locator("time").first
    assert (first.get_attribute("title") or "").endswith(" UTC")
    expect(first).not_to_contain_text("UTC")
    one.press("Show UTC")  # by keyboard and by touch too, where nothing can be pointed at
    expect(first).to_contain_text("UTC")
    one.open("/incidents/broken-1/1")
    one.sees("Times are in UTC")
    expect(one.page.locator(".lead time")).to_contain_text("UTC")
    one.press("Show Europe/Lisbon")
    expect(one.page.locator(".lead time")).not_to_contain_text("UTC")
    plain = visit(server, "person:anna", scripts=False)
    plain.open("/sagas/back-1")
    plain.sees("Times are in UTC")


def test_a_row_of_a_list_is_read_in_one_column_on_a_phone(visit: Callable[..., Visitor], server: Serving) -> None:
    one = visit(server, "person:anna", size=NARROW)
    one.open("/incidents")
    cell = one.page.locator("td[data-head='What happened']").first
    box, why = cell.bounding_box(), cell.locator(".faint").bounding_box()
    assert box is not None
    assert why is not None
    assert why["width"] > box["width"] * 0.9, "what it said stands beside what happened, and not below it"


def test_a_page_is_walked_by_the_keyboard_alone(visit: Callable[..., Visitor], server: Serving) -> None:
    one = visit(server, "person:anna")
    one.open("/sagas/back-1")
    one.page.keyboard.press("Tab")
    assert one.page.evaluate("document.activeElement.textContent") == "Skip to the page"
    one.page.keyboard.press("Enter")
    assert one.page.evaluate("document.activeElement.id") == "main"
    for _ in range(60):
        one.page.keyboard.press("Tab")
        if "lane" in one.page.evaluate("document.activeElement.getAttribute('class') || ''"):
            break
    one.page.keyboard.press("Enter")
    one.sees("Step 1: shop.reserve")
