"""Somebody before a real browser. They go by what is to be seen: words of links, buttons and labels.

Nothing that they load may come from another host, run against the page's policy, or throw: `leave` holds the browser
to that.
"""

import json
import sys
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request, expect

from tests.server.person import token_of
from tests.server.serving import Serving

CHROMIUM = "/usr/bin/chromium"
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 15_000
WIDE, NARROW = (1440, 900), (390, 844)
AXE = Path(sys.prefix) / "node" / "node_modules" / "axe-core" / "axe.min.js"
Scheme = Literal["light", "dark"]


class Visitor:
    def __init__(
        self,
        browser: Browser,
        server: Serving,
        *,
        size: tuple[int, int] = WIDE,
        scheme: Scheme = "light",
        scripts: bool = True,
        host: str = "127.0.0.1",
    ) -> None:
        self.server = server
        self.url = server.url.replace("127.0.0.1", host)
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            reduced_motion="reduce",
            java_script_enabled=scripts,
            timezone_id="Europe/Lisbon",
            base_url=self.url,
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.elsewhere: list[str] = []
        self.troubles: list[str] = []
        self.expects_trouble = False
        self.may_go_elsewhere = False
        """Whether pages of others are visited too, which may do as they like."""
        self.context.on("request", self._note_request)
        self.page.on("console", self._note_said)
        self.page.on("pageerror", self._note_error)

    def _note_request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc and not request.url.startswith(("data:", "blob:")):
            self.elsewhere.append(request.url)

    def _note_said(self, message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.troubles.append(message.text)

    def _note_error(self, error: Error) -> None:
        self.troubles.append(str(error))

    def log_in(self, name: str, *scopes: str) -> None:
        self.page.goto("/login")
        self.page.get_by_label("Your token").fill(token_of(self.server, name, *scopes))
        self.press("Log in with the token")

    def open(self, path: str) -> int:
        """Go there; the answer's status."""
        answer = self.page.goto(path)
        assert answer is not None
        return answer.status

    def follow(self, words: str, *, exact: bool = True) -> None:
        self.page.get_by_role("link", name=words, exact=exact).first.click()

    def press(self, words: str) -> None:
        self.page.get_by_role("button", name=words, exact=True).first.click()

    def unfold(self, words: str) -> None:
        self.page.locator("summary", has_text=words).first.click()

    def fill(self, label: str, text: str) -> None:
        self.page.get_by_label(label).first.fill(text)

    def sees(self, words: str) -> None:
        """Wait until these words are to be seen."""
        expect(self.page.get_by_text(words).locator("visible=true").first).to_be_visible(timeout=PATIENCE_MS)

    def sees_no(self, words: str) -> None:
        expect(self.page.get_by_text(words).locator("visible=true")).to_have_count(0)

    def is_at(self, path: str) -> None:
        expect(self.page).to_have_url(f"{self.url}{path}")

    def fits(self) -> None:
        """Find that the page is no wider than the window, once its style is there."""
        self.page.wait_for_load_state("load")
        wide, window = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window, f"{self.page.url} is {wide} pixels wide in a window of {window}"

    def is_accessible(self) -> None:
        """Find nothing that axe calls a violation of WCAG 2.2 AA."""
        if not self.page.evaluate("typeof axe !== 'undefined'"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        wanted = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
        found: dict[str, Any] = self.page.evaluate("options => axe.run(document, options)", {"runOnly": wanted})
        told = [
            f"{one['id']}: {one['help']}: {node['html'][:160]} {node['any'][0]['message'] if node['any'] else ''}"
            for one in found["violations"]
            for node in one["nodes"]
        ]
        assert not told, f"{self.page.url}\n" + "\n".join(told)

    def leave(self) -> None:
        self.context.close()
        assert self.may_go_elsewhere or not self.elsewhere, f"asked of other hosts: {json.dumps(self.elsewhere)}"
        assert self.expects_trouble or self.may_go_elsewhere or not self.troubles, self.troubles
