"""A report of an incident, for somebody who was not there: it says all of it, proves it, and cannot be made to lie."""

import asyncio
import json
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from amends import Coordinator
from amends.core.words.values import Json
from tests.cli.shell import Shell

SAGAS = """
from amends import Done, Fatal, Retries, Secret, Work, action, saga

EVIL = "<script>alert(1)</script> | **bold** \\x1b[2J\\u202e [a](javascript:b)\\n# a heading\\n| a | row |"


@action("shelf.fill", compensation_retries=Retries(attempts=1))
def fill(what: str, password: Secret) -> str:
    return what


@fill.compensation
def empty(done: Done) -> None:
    raise RuntimeError(EVIL)


@action("mail.send")
def send(to: str) -> None:
    raise Fatal("the post is closed", happened=False)


@send.compensation
def unsend(done: Done) -> None: ...


@saga("shelf.inner")
async def inner(s: Work, what: str) -> None:
    await s.do(fill, what, Secret("hunter2"))


@saga("shelf.tidy")
async def tidy(s: Work, what: str = "books") -> None:
    await s.do(fill, what, Secret("hunter2"))
    await s.do(send, "ann")


@saga("shelf.outer")
async def outer(s: Work) -> None:
    await s.call(inner, "books")
    await s.do(send, "ann")
"""
ASKS = "{id: ask, when: {topic: shelf.fill, phase: forward}, decision: require_human}"


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "shelf.py").write_text(SAGAS)
    return shell


def report(amends: Shell, incident: str) -> dict[str, Any]:
    (found,) = amends.here("incident", "report", incident, "--json").records
    return found


class Seen(HTMLParser):
    """What a browser makes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_report_says_what_happened_what_stands_and_who_decided(amends: Shell) -> None:
    policy = amends.policy(ASKS)
    given = ("--actor", "agent:desk", "--label", "owner=person:olga", "--env", "production")
    assert amends("run", "shelf:tidy", "--id", "t-1", "--policy", policy, *given).code == 6
    words = ("--yes", "--by", "person:ann", "--why", "it is due")
    assert amends("approval", "grant", "t-1/1", *words).code == 0
    assert amends("resume", "shelf").code == 4
    found = report(amends, "t-1/1")
    assert found["summary"].startswith("Saga t-1 (shelf.tidy), which agent:desk ran in production, stopped at step 1 ")
    assert found["summary"].endswith("1 of its effects stand in the world, or may. It is open; person:olga sees to it.")
    (stands,) = found["stands"]
    assert (stands["topic"], stands["says"], stands["stopped_here"]) == ("shelf.fill", "may stand", True)
    people = found["people"]
    assert (people["actor"], people["owner"], people["approvers"]) == ("agent:desk", "person:olga", ["person:ann"])
    (asked,) = found["approvals"]
    assert (asked["rule"], asked["shown"]["args"]["what"]) == ("ask", "books")
    first = asked["answers"][0]
    assert (first["what"], first["by"], first["why"]) == ("approved", "person:ann", "it is due")
    assert [(one["phase"], one["decision"], one["rule"]) for one in found["judged"]][:2] == [
        ("forward", "require_human", "ask"),
        ("compensation", "allow", "default"),
    ]
    assert (found["resolution"], found["removed"]) == (None, None)
    closing = ("--reason", "emptied by hand", "--proof", "ticket 7", "--by", "person:kim", "--module", "shelf")
    assert amends("incident", "comment", "t-1/1", "--text", "on my way", "--by", "person:kim").code == 0
    assert amends("incident", "resolve", "t-1/1", *closing).code == 0
    found = report(amends, "t-1/1")
    closed = found["resolution"]
    assert (closed["how"], closed["by"], closed["reason"]) == ("resolved", "person:kim", "emptied by hand")
    assert (closed["proof"], found["comments"][0]["text"]) == ("ticket 7", "on my way")
    assert found["stands"][0]["says"] == "was seen to by hand"
    assert "Nothing of it stands in the world. person:kim resolved it on 20" in found["summary"]


def test_nothing_in_a_report_is_taken_for_markup_and_no_secret_is_in_it(amends: Shell) -> None:
    assert amends("run", "shelf:tidy", "--id", "t-2").code == 4
    page = amends("incident", "report", "t-2/1", "--format", "html").out
    seen = Seen()
    seen.feed(page)
    assert {"script", "a", "img", "link", "iframe"}.isdisjoint(seen.tags)
    assert not [name for name in seen.attributes if name.startswith("on") or name in {"href", "src", "style"}]
    assert "<script>alert(1)</script>" in seen.text, "it is shown as it was said"
    text = amends("incident", "report", "t-2/1").out
    assert "\n# a heading" not in text
    assert "\n| a | row |" not in text
    assert r"\<script\>alert(1)\</script\> \| \*\*bold\*\*" in text
    for whole in (page, text, json.dumps(report(amends, "t-2/1"))):
        assert "\x1b" not in whole
        assert "\u202e" not in whole
        assert "hunter2" not in whole
        assert "sha256:" not in whole, "nor what a guess could be tried against"


def test_a_third_party_verifies_it_by_the_commands_that_stand_in_it(amends: Shell) -> None:
    assert amends("run", "shelf:tidy", "--id", "t-3", "--journal", "other.db").code == 4
    (found,) = amends("incident", "report", "t-3/1", "--journal", "other.db", "--json").records
    export, verifier, verify = found["evidence"]["verify"]
    assert export == "amends evidence export t-3 -o bundle.jsonl --journal other.db"
    assert amends(*shlex.split(export)[1:]).code == 0
    assert verifier == "amends evidence verifier > verify.py"
    (amends.place / "verify.py").write_text(amends("evidence", "verifier").out)
    program, *words = shlex.split(verify)
    assert (program, amends.python(*words).code) == ("python3", 0)
    bundle = (amends.place / "bundle.jsonl").read_text()
    head = found["evidence"]["tree_head"]
    assert (head["covers"], head["root"] in bundle) == (True, True)
    assert [one["entry"] for one in found["evidence"]["hashes"]] == [*range(1, found["evidence"]["entries"] + 1)]


def test_a_report_is_written_to_a_file_whole_and_for_its_owner(amends: Shell) -> None:
    amends.incident()
    assert amends.here("incident", "report", "tidy/1", "-o", "r.html").out == "r.html: " + amends.here(
        "incident", "report", "tidy/1", "-o", "again.html"
    ).out.removeprefix("again.html: ")
    file = amends.place / "r.html"
    assert (file.read_text()[:15], file.stat().st_mode & 0o777) == ("<!doctype html>", 0o600)
    assert amends.here("incident", "report", "tidy/1", "-o", "r.json").code == 0
    assert json.loads((amends.place / "r.json").read_text())["incident"]["id"] == "tidy/1"
    assert "cannot be written" in amends.here("incident", "report", "tidy/1", "-o", "no/r.md").complaint
    assert "did you mean tidy/1?" in amends.here("incident", "report", "tidy/9").complaint
    assert "did you mean tidy/1?" in amends.here("incident", "report", "tidy").complaint


def test_a_family_is_named_and_the_report_of_a_child_names_its_parent(amends: Shell) -> None:
    assert amends("run", "shelf:outer", "--id", "o-1").code == 4
    found = report(amends, "o-1/1")
    (child,) = found["family"]
    assert (child["definition"], child["parent"], child["status"]) == ("shelf.inner", "o-1", "incident")
    assert report(amends, f"{child['id']}/1")["saga"]["parent"] == "o-1"


def test_after_pruning_the_report_says_what_is_gone_and_what_is_left(amends: Shell) -> None:
    incident = amends.incident()
    closing = ("--reason", "unjammed", "--by", "person:kim", "--module", "shop")
    assert amends.here("incident", "resolve", incident, *closing).code == 0
    assert "pruned 1 saga," in amends("prune", "--older-than", "0s", "--yes", "--why", "a year is over").out
    found = report(amends, incident)
    assert "What its entries held was removed since" in found["summary"]
    assert found["removed"]["by"][0]["why"] == "a year is over"
    assert (found["stands"], len(found["evidence"]["hashes"])) == ([], found["evidence"]["entries"])
    text = amends("incident", "report", incident).out
    assert "## What is gone" in text
    assert "a year is over" in text


def test_the_same_report_is_had_from_python(amends: Shell) -> None:
    incident = amends.incident()

    async def asked() -> dict[str, Json]:
        async with Coordinator.open(str(amends.place / "amends.db")) as coordinator:
            return await coordinator.incident_report(incident)

    found = asyncio.run(asked())
    assert {"type": "report", **found} == report(amends, incident)
