"""Links from notices to the page of the console that is about them, and the message that Slack shows. Pure.

A link only leads to a page: whoever follows it logs in there, and decides there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import quote, urlsplit

from amends.core.words.values import Json, canonical
from amends.errors import InputError
from amends.notify.notice import Notice

_TITLES: Final[Mapping[str, str]] = {
    "approval.requested": "A person is asked to agree",
    "approval.granted": "Granted",
    "approval.refused": "Refused",
    "approval.expired": "Nobody answered in time",
    "approval.voided": "What was asked does not count any more",
    "incident.opened": "A saga needs a person",
    "incident.retried": "An incident is tried again",
    "incident.resolved": "An incident was resolved",
    "drill.missed": "A drill was missed",
    "tree.head": "A new tree head",
}
_BUTTONS: Final[Mapping[str, str]] = {
    "approval.requested": "Look, then decide",
    "incident.opened": "See what stands",
}
_LONGEST: Final = 2_900
"""Slack takes 3,000 characters of a section."""


def checked_console(address: str) -> str:
    """The address of a console, without a slash at its end; '' stays. Raises InputError."""
    if not address:
        return ""
    parts = urlsplit(address)
    if parts.scheme not in {"https", "http"} or not parts.netloc or parts.query or parts.fragment:
        raise InputError(f"{address} is not the address of a console, such as https://amends.example.com")
    return address.rstrip("/")


def link_of(notice: Notice, console: str) -> str:
    """The page about a notice."""
    kind = notice.type.partition(".")[0]
    if kind in {"approval", "incident"}:
        return f"{console}/{kind}s/{quote(notice.about, safe='/')}"
    return f"{console}/actions" if kind == "drill" else f"{console}/evidence"


def linked(notice: Notice, console: str) -> Notice:
    """A notice with the link to its page, as `url`; as it is where no console is known."""
    return replace(notice, data={**notice.data, "url": link_of(notice, console)}) if console else notice


def slack_message(notice: Notice, console: str) -> bytes:
    """The JSON that Slack, and whoever takes its messages, shows: what it is about, and a button to the page."""
    data = notice.data
    title = _TITLES.get(notice.type, notice.type)
    what = str(data.get("topic") or data.get("drilled") or notice.about)
    facts = [f"*{name}:* {_mrkdwn(str(data[key]))}" for name, key in _FACTS if data.get(key)]
    text = "\n".join([f"*{_mrkdwn(title)}*: `{_mrkdwn(what)}`", *facts])[:_LONGEST]
    blocks: list[Json] = [{"type": "section", "text": {"type": "mrkdwn", "text": text}}]
    if console:
        label = _BUTTONS.get(notice.type, "Look at it")
        button: Json = {
            "type": "button",
            "text": {"type": "plain_text", "text": label},
            "url": link_of(notice, console),
        }
        blocks.append({"type": "actions", "elements": [button]})
    instead = _mrkdwn(f"{title}: {what} ({notice.about})")
    return canonical({"text": instead, "blocks": blocks}).encode()


_FACTS: Final = (
    ("Saga", "saga"),
    ("Definition", "definition"),
    ("Asked for by", "actor"),
    ("Rule", "rule"),
    ("Kind", "kind"),
    ("By", "by"),
    ("Why", "why"),
)


def _mrkdwn(text: str) -> str:
    """A text of somebody's, in which Slack finds no link, mention or mark of its own."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("`", "'").replace("*", "\u2217").replace("\n", " ")
