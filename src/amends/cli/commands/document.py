"""`amends document`: the documents that sagas share, as they are and as they were. It only reads."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Final

import click

from amends.cli.groups import Nouns, show_help
from amends.cli.journal import opened_to_read
from amends.cli.options import with_journal
from amends.cli.show.output import Output, Part
from amends.cli.show.tables import Table
from amends.cli.show.timeline import cells
from amends.errors import InputError
from amends.journal.port.documents import Document
from amends.text import moment, spelled, visible

_HEADS: Final = (("NAME", 28), ("VERSION", 7), ("CHANGED", 19), ("BY", 31), ("BODY", 0))
_VERSIONS: Final = (("VERSION", 7), ("STATE", 11), ("CHANGED", 19), ("BY", 31), ("BODY", 0))
_SPARE: Final = ("BY", "CHANGED")

_name = click.argument("name", metavar="NAME")


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def document(context: click.Context) -> None:
    """Read the documents of a journal, and who changed them."""
    show_help(context)


@document.command("list")
@click.argument("prefix", metavar="[PREFIX]", default="")
@with_journal
def list_documents(*, prefix: str, journal: str, as_json: bool) -> None:
    """List documents by name: all, or those whose names begin with PREFIX.

    Shown is the newest version that is final: none that a saga under way may still take back.
    """
    out = Output(as_json=as_json)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            table, cursor, found = Table(out, _HEADS, spare=_SPARE), None, 0
            while not out.is_gone:
                page = await opened.documents(prefix, after=cursor)
                for row in page.rows:
                    out.record("document", _fields(row))
                table.say([_row(row, row.name, str(row.version)) for row in page.rows])
                found, cursor = found + len(page.rows), page.cursor
                if cursor is None:
                    break
            if not found:
                out.say("no documents" if not prefix else "no document has a name that begins so")

    asyncio.run(whole())


@document.command()
@_name
@click.option("--version", type=click.IntRange(min=1), metavar="N", help="As it was in this version.")
@with_journal
def show(*, name: str, version: int | None, journal: str, as_json: bool) -> None:
    """Print a document: its newest final version, or the one asked for.

    On stdout is its JSON and nothing else; with --json, one line that says also who changed it, when and in which saga.
    """
    out = Output(as_json=as_json)

    async def whole() -> Document | None:
        async with opened_to_read(journal) as opened:
            return await opened.document(name, version=version)

    found = asyncio.run(whole())
    if found is None or (found.deleted and version is None):
        what = f"document {name}" if version is None else f"version {version} of document {name}"
        known = f"`amends document history {name}` shows its versions" if found or version else _LISTED
        raise InputError(f"there is no {what}; {known}")
    out.record("document", _fields(found))
    for line in json.dumps(found.body, indent=2, sort_keys=True).split("\n"):
        out.say(line)


_LISTED: Final = "`amends document list` shows those that there are"


@document.command()
@_name
@with_journal
def history(*, name: str, journal: str, as_json: bool) -> None:
    """List the versions of a document that are kept, oldest first.

    `under way`: the saga that wrote it has not ended, and may still take it back; others do not see it yet.
    """
    out = Output(as_json=as_json)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            table, cursor = Table(out, _VERSIONS, spare=_SPARE), None
            while not out.is_gone:
                page = await opened.versions(name, after=cursor)
                if cursor is None and not page.rows:
                    raise InputError(f"there is no document {name}; {_LISTED}")
                for row in page.rows:
                    out.record("version", _fields(row))
                table.say([_row(row, str(row.version), _state(row)) for row in page.rows])
                cursor = page.cursor
                if cursor is None:
                    break

    asyncio.run(whole())


def _state(row: Document) -> str:
    if not row.final:
        return "under way"
    return "deleted" if row.deleted else "final"


def _row(row: Document, first: str, second: str) -> tuple[Part, ...]:
    by = f"saga {row.saga}" if row.saga else row.by
    body = "" if row.deleted else spelled(row.body, 80)
    return cells((visible(first), second, moment(row.at), visible(by), body), {2: "dim"})


def _fields(row: Document) -> dict[str, object]:
    return asdict(row)
