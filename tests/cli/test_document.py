"""`amends document`: what is there, what was, and who changed it."""

import asyncio
from pathlib import Path

from amends import Coordinator
from tests.cli.shell import Shell


def given(place: Path) -> None:
    async def write() -> None:
        async with Coordinator.open(str(place / "amends.db")) as coordinator:
            await coordinator.documents.put("prices/lamp", {"cents": 4200}, by="person:ann")
            await coordinator.documents.put("prices/lamp", {"cents": 4300}, by="person:bob")
            await coordinator.documents.put("note", "x")
            await coordinator.documents.delete("note")

    asyncio.run(write())


def test_documents_are_listed_by_name_as_they_are(amends: Shell) -> None:
    given(amends.place)
    head, row = amends.here("document", "list").out.splitlines()
    assert head.split() == ["NAME", "VERSION", "CHANGED", "BY", "BODY"]
    assert row.split()[:2] == ["prices/lamp", "2"]
    assert row.endswith('{"cents": 4300}')
    assert amends.here("document", "list", "no").out == "no document has a name that begins so\n"
    (record,) = amends.here("document", "list", "prices/", "--json").records
    assert (record["type"], record["body"], record["final"]) == ("document", {"cents": 4300}, True)


def test_one_is_printed_as_json_and_nothing_else(amends: Shell) -> None:
    given(amends.place)
    assert amends.here("document", "show", "prices/lamp").out == '{\n  "cents": 4300\n}\n'
    (record,) = amends.here("document", "show", "prices/lamp", "--version", "1", "--json").records
    assert (record["body"], record["by"]) == ({"cents": 4200}, "person:ann")


def test_what_is_not_there_is_told_with_where_to_look(amends: Shell) -> None:
    given(amends.place)
    for words, said in (
        (("show", "nope"), "there is no document nope; `amends document list` shows those that there are"),
        (("show", "note"), "there is no document note; `amends document history note` shows its versions"),
        (("history", "nope"), "there is no document nope; `amends document list` shows those that there are"),
    ):
        asked = amends.here("document", *words)
        assert (asked.code, asked.complaint) == (2, said)


def test_its_history_has_every_version_with_its_author(amends: Shell) -> None:
    given(amends.place)
    versions = amends.here("document", "history", "prices/lamp", "--json").records
    assert [(each["version"], each["by"]) for each in versions] == [(1, "person:ann"), (2, "person:bob")]
    last = amends.here("document", "history", "note").out.splitlines()[-1]
    assert last.split()[:2] == ["2", "deleted"]
