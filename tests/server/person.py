"""Somebody with a browser that runs no script: they follow links, fill in forms, and press buttons by their words."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from tests.server.serving import Serving


@dataclass
class Button:
    words: str
    label: str
    name: str
    value: str


@dataclass
class HtmlForm:
    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    choices: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    names: list[str] = field(default_factory=list[str])
    buttons: list[Button] = field(default_factory=list[Button])


class _Forms(HTMLParser):
    """The forms of a page. Nothing of one that is hidden from a reader but hidden fields is ever sent."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[HtmlForm] = []
        self._form: HtmlForm | None = None
        self._button: Button | None = None
        self._area = ""
        self._select = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = HtmlForm(found.get("action", ""), found.get("method", "get"))
            self.forms.append(self._form)
        form = self._form
        if form is None:
            return
        name, value = found.get("name", ""), found.get("value", "")
        if tag == "input" and found.get("type") in {"checkbox", "radio"}:
            form.choices.append((name, value or "on"))
            if "checked" in found:
                form.fields.append((name, value or "on"))
        elif tag == "input":
            form.fields.append((name, value))
            form.names.append(name)
        elif tag == "textarea":
            self._area = name
            form.fields.append((name, ""))
            form.names.append(name)
        elif tag == "select":
            self._select = name
            form.names.append(name)
        elif tag == "option" and ("selected" in found or all(each != self._select for each, _ in form.fields)):
            form.fields = [each for each in form.fields if each[0] != self._select]  # a browser chooses the first one
            form.fields.append((self._select, value))
        elif tag == "button":
            self._button = Button("", found.get("aria-label", ""), name, value)
            form.buttons.append(self._button)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "button":
            self._button = None
        elif tag == "textarea":
            self._area = ""

    def handle_data(self, data: str) -> None:
        if self._button is not None:
            self._button.words = " ".join(f"{self._button.words} {data}".split())
        elif self._area and self._form is not None:
            name, said = self._form.fields[-1]
            self._form.fields[-1] = (name, said + data)


_TOKENS: dict[tuple[str, ...], str] = {}
"""Made once for each name in a test's process: a command takes longer than a page."""


def token_of(server: Serving, name: str, *scopes: str) -> str:
    """A token of this name with these scopes: to look and to decide where none are said."""
    may = scopes or ("view", "decide")
    asked = (str(server.journal), name, *may)
    if asked not in _TOKENS:
        _TOKENS[asked] = server.new_token(name, *may)
    return _TOKENS[asked]


class Person:
    """One browser. `page` is the text that it shows, `at` where, `status` how the server answered."""

    def __init__(self, server: Serving) -> None:
        self._url = server.url
        self.cookies: dict[str, str] = {}
        self._answer: httpx2.Response | None = None

    @classmethod
    def with_token(cls, server: Serving, name: str, *scopes: str) -> "Person":
        one = cls(server)
        one.open("/login")
        one.press("Log in with the token", secret=token_of(server, name, *scopes))
        return one

    @property
    def page(self) -> str:
        assert self._answer is not None
        return self._answer.text

    @property
    def words(self) -> str:
        """The page's text, without its tags."""
        body = re.sub(r"<(style|script)\b.*?</\1>", "", self.page, flags=re.DOTALL)
        text = re.sub(r"<[^>]+>", "", re.sub(r"</(p|h1|h2|h3|li|tr|td|dd|dt|pre|div)>", " ", body))
        for name, character in {"&lt;": "<", "&gt;": ">", "&#34;": '"', "&#39;": "'", "&amp;": "&"}.items():
            text = text.replace(name, character)
        return " ".join(text.split())

    @property
    def status(self) -> int:
        assert self._answer is not None
        return self._answer.status_code

    @property
    def headers(self) -> httpx2.Headers:
        assert self._answer is not None
        return self._answer.headers

    @property
    def at(self) -> str:
        assert self._answer is not None
        parts = urlsplit(str(self._answer.url))
        return parts.path + (f"?{parts.query}" if parts.query else "")

    def _ask(self, method: str, path: str, **more: Any) -> None:
        with httpx2.Client(
            base_url=self._url, cookies=self.cookies, follow_redirects=True, timeout=20, trust_env=False
        ) as client:
            self._answer = client.request(method, path, **more)
            self.cookies = dict(client.cookies)

    def open(self, path: str, headers: dict[str, str] | None = None) -> None:
        self._ask("GET", path, headers=headers or {})

    def send(self, path: str, headers: dict[str, str] | None = None, **fields: str) -> None:
        """A form that no page of ours has."""
        self._ask("POST", path, data=fields, headers=headers or {})

    def follow(self, words: str) -> None:
        """Follow the link with these words."""
        for found in re.finditer(r'<a\b[^>]*href="([^"]*)"[^>]*>(.*?)</a>', self.page, re.DOTALL):
            if words == " ".join(re.sub(r"<[^>]+>", "", found[2]).split()):
                self.open(urljoin(self.at, found[1].replace("&amp;", "&")))
                return
        raise AssertionError(f"no link says {words!r} at {self.at}: {self.words}")

    def press(self, words: str, *, chosen: tuple[str, ...] = (), **fields: str) -> None:
        """Fill in the form that has the button with these words, and press it. `chosen`: values of boxes to tick."""
        for form in _Forms(self.page).forms:
            for button in form.buttons:
                if button.words == words:
                    self._submit(form, button, chosen, fields)
                    return
        raise AssertionError(f"no button says {words!r} at {self.at} ({self.status}): {self.words}")

    def press_labelled(self, label: str) -> None:
        """Press the button whose label ends so: one of many with the same words."""
        for form in _Forms(self.page).forms:
            for button in form.buttons:
                if button.label.endswith(label):
                    self._submit(form, button, (), {})
                    return
        raise AssertionError(f"no button is labelled {label!r} at {self.at}")

    def press_nothing_of(self, words: str) -> None:
        """Find that no button says this."""
        said = [button.words for form in _Forms(self.page).forms for button in form.buttons]
        assert words not in said, said

    def _submit(self, form: HtmlForm, button: Button, chosen: tuple[str, ...], fields: dict[str, str]) -> None:
        unknown = set(fields) - set(form.names)
        assert not unknown, f"the form at {self.at} has no fields {sorted(unknown)}"
        sent = [(name, fields.pop(name, value)) for name, value in form.fields]
        sent += list(fields.items())
        sent += [(name, value) for name, value in form.choices if value in chosen]
        sent += [(button.name, button.value)] if button.name else []
        body = {name: [value for each, value in sent if each == name] for name, _ in sent}
        target = urljoin(self.at, form.action) if form.action else self.at
        if form.method == "post":
            self._ask("POST", target, data=body, headers={"referer": self._url + self.at})
        else:
            self._ask("GET", urlsplit(target).path, params=body)
