"""How every page is made: its template, its words, and the headers that keep a browser from doing anything else.

Text that agents and authors wrote is escaped by the templates, and made visible by the filter `seen`: what would hide
or move its neighbours stands as its escape, as on a terminal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import MutableHeaders
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope as AsgiScope, Send

from amends.core.words.values import SECRET_MARK, Json, canonical
from amends.text import counted, headline, lines_of, span, spelled, spelled_args, times, visible

STATIC: Final = Path(__file__).parent / "static"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


_TIME: Final = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z")


class Guarded:
    """Puts the headers on every answer; a page is never kept by anybody."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, sent)


def page(name: str, status: int = 200, **context: Any) -> HTMLResponse:  # noqa: ANN401 - whatever the template shows
    return HTMLResponse(_templates.get_template(name).render(context), status)


# -- words ------------------------------------------------------------------------------------------------------------


def when(milliseconds: int | None) -> Markup:
    """A time in UTC, which the page shows in its reader's zone where it may run a script."""
    if milliseconds is None:
        return Markup("–")
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return Markup("never")
    text = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(f"{at:%Y-%m-%dT%H:%M:%S.%fZ}", text, text)


def with_times(text: str) -> Markup:
    """A text with the times in it as the page shows times: in its reader's zone."""
    found, since = Markup(""), 0
    for each in _TIME.finditer(text):
        try:
            at = datetime.fromisoformat(each[0])
        except ValueError:
            continue
        found, since = found + text[since : each.start()] + when(round(at.timestamp() * 1000)), each.end()
    return found + text[since:]


def hour_of(milliseconds: int) -> str:
    """The hour and minute of a time, in UTC."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, tz=UTC):%H:%M}"


def as_words(name: str) -> str:
    return str(name).replace("_", " ")


def seen(value: object, longest: int | None = None) -> str:
    return visible(str(value), longest)


def rows_of(value: Json) -> list[tuple[str, str, bool]]:
    """An object's fields as a form shows them: name, value, and whether that takes several lines. Nothing is cut."""
    if not isinstance(value, dict):
        return [("", *shown_value(value))]
    return [(visible(name), *shown_value(item)) for name, item in value.items()]


def shown_value(value: Json) -> tuple[str, bool]:
    """A value as text, and whether that takes several lines."""
    if isinstance(value, str):
        lines = [visible(line) for line in lines_of(value)]
        return ("\n".join(lines), True) if len(lines) > 1 else (visible(value), False)
    lines = list(_json_lines(value, "", ""))
    return "\n".join(lines), len(lines) > 1


def _json_lines(value: Json, indent: str, lead: str) -> list[str]:
    match value:
        case dict() if SECRET_MARK in value:
            return [f"{indent}{lead}secret"]
        case dict() if value:
            inner = [_json_lines(item, f"{indent}  ", f"{visible(canonical(name))}: ") for name, item in value.items()]
            return [f"{indent}{lead}{{", *_joined(inner), f"{indent}}}"]
        case list() if value:
            inner = [_json_lines(item, f"{indent}  ", "") for item in value]
            return [f"{indent}{lead}[", *_joined(inner), f"{indent}]"]
        case _:
            return [f"{indent}{lead}{visible(canonical(value))}"]


def _joined(parts: list[list[str]]) -> list[str]:
    for part in parts[:-1]:
        part[-1] += ","
    return [line for part in parts for line in part]


def diff_rows(diff: str) -> list[tuple[str, str]]:
    """A diff's lines, each with its kind: added, removed, place or same."""
    kinds = {"+": "added", "-": "removed", "@": "place"}
    found: list[tuple[str, str]] = []
    for line in lines_of(diff):
        sign = line[: 2 if line.startswith("|") else 1]
        found.append((kinds.get(sign[-1:], "same"), "\t".join(map(visible, line.split("\t")))))
    return found


def _versions() -> dict[str, str]:
    """The address of each static file, which changes when it does."""
    return {
        file.name: f"/static/{file.name}?v={hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
        for file in STATIC.iterdir()
        if file.is_file()
    }


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("amends.http.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    known = cast("dict[str, Any]", made.globals)
    known |= {"static": _versions(), "counted": counted}
    filters: dict[str, Any] = {
        "when": when,
        "span": span,
        "seen": seen,
        "words": as_words,
        "args": spelled_args,
        "value": spelled,
        "headline": headline,
        "times": times,
        "rows": rows_of,
        "diff": diff_rows,
        "clock": hour_of,
        "timed": with_times,
    }
    made.filters.update(cast("Any", filters))
    return made


_templates: Final = _environment()
