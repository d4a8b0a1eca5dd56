"""Links from notices to the console's pages, and the message that Slack shows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from amends.clock import SystemClock
from amends.errors import InputError
from amends.notify import Webhook
from amends.notify.command import Command
from amends.notify.file import NoticeFile
from amends.notify.links import link_of, slack_message
from amends.notify.notice import Notice
from amends.notify.target import Delivered, Target
from tests.runtime.notices.receiver import SECRET, receiving

CONSOLE = "https://amends.example.com"
ASKED = Notice(
    id="amends_7_ab",
    type="approval.requested",
    at=1_700_000_000_007,
    about="o/a b/2",
    data={"saga": "o", "actor": "agent:shop", "topic": "shop.charge", "rule": "money", "why": "<!channel> *now* `x` &"},
)


def tell(target: Target) -> None:
    assert asyncio.run(target.deliver(ASKED, SystemClock().now())) == Delivered()


@pytest.mark.parametrize(
    ("type_", "about", "link"),
    [
        ("approval.requested", "o-1/2", "/approvals/o-1/2"),
        ("approval.granted", "o-1/a b", "/approvals/o-1/a%20b"),
        ("incident.opened", "o-1/1", "/incidents/o-1/1"),
        ("drill.missed", "shop:order", "/actions"),
        ("tree.head", "7 entries", "/evidence"),
    ],
)
def test_each_notice_leads_to_its_page(type_: str, about: str, link: str) -> None:
    assert link_of(Notice(id="x", type=type_, at=0, about=about, data={}), CONSOLE) == CONSOLE + link


def test_every_target_says_the_link_where_it_knows_the_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMENDS_WEBHOOK_SECRET", SECRET)
    with receiving() as receiver:
        tell(Webhook(receiver.url, console=f"{CONSOLE}/"))
    tell(NoticeFile(tmp_path / "told.jsonl", console=CONSOLE))
    tell(Command(["tee", str(tmp_path / "told.json")], console=CONSOLE))
    tell(NoticeFile(tmp_path / "plain.jsonl"))
    said = [
        receiver.came[0].verified(),
        *(json.loads((tmp_path / f"told.{end}").read_text()) for end in ("json", "jsonl")),
    ]
    assert [one["data"]["url"] for one in said] == [f"{CONSOLE}/approvals/o/a%20b/2"] * 3
    assert "url" not in json.loads((tmp_path / "plain.jsonl").read_text())["data"]


def test_slack_is_sent_its_own_message_with_a_button_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AMENDS_WEBHOOK_SECRET", raising=False)
    with receiving() as receiver:
        hook = Webhook(receiver.url, slack=True, console=CONSOLE)
        hook.check()
        tell(hook)
    (came,) = receiver.came
    section, actions = came.said["blocks"]
    (button,) = actions["elements"]
    assert (button["url"], button["text"]["text"]) == (f"{CONSOLE}/approvals/o/a%20b/2", "Look, then decide")
    assert "`shop.charge`" in section["text"]["text"]
    assert "webhook-signature" not in came.headers


def test_text_of_others_mentions_nobody_in_slack() -> None:
    text = json.loads(slack_message(ASKED, CONSOLE))["blocks"][0]["text"]["text"]
    assert "<!channel>" not in text
    assert "&lt;!channel&gt; \u2217now\u2217 'x' &amp;" in text
    named = Notice(id="x", type="incident.opened", at=0, about="<!channel>/1", data={"topic": "a"})
    said = json.loads(slack_message(named, ""))["text"]
    assert said == "A saga needs a person: a (&lt;!channel&gt;/1)", "what is shown where blocks are not"
    long = Notice(id="x", type="incident.opened", at=0, about="s/1", data={"why": "x" * 9_000})
    assert len(json.loads(slack_message(long, ""))["blocks"][0]["text"]["text"]) <= 3_000


@pytest.mark.parametrize("address", ["amends.example.com", "ftp://x", "https://x/?a=1", "https://x/#a", "https:///x"])
def test_what_is_no_address_of_a_console_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(InputError, match="is not the address of a console"):
        NoticeFile(tmp_path / "x", console=address)
