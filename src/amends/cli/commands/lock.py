"""`amends lock`: who holds what, and who stands in line for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import click

from amends.cli.groups import Nouns, show_help
from amends.cli.journal import opened_to_read
from amends.cli.options import with_journal
from amends.cli.show.output import Output
from amends.cli.show.tables import Table
from amends.cli.show.timeline import LOCK_HEADS, LOCK_SPARE, lock_cells
from amends.core.words.values import SagaId
from amends.journal.port.locks import LockQuery
from amends.operate.fields import lock_fields


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def lock(context: click.Context) -> None:
    """See who keeps a resource to itself, and who waits for it."""
    show_help(context)


@lock.command("list")
@click.option("--resource", metavar="NAME", help="Only the line of this one.")
@click.option("--saga", metavar="ID", help="Only what this saga holds and waits for.")
@with_journal
def list_locks(*, resource: str | None, saga: str | None, journal: str, as_json: bool) -> None:
    """List the lines of all resources, in the order of asking: who holds them, and who is the next."""
    out = Output(as_json=as_json)
    query = LockQuery(resource=resource, saga=None if saga is None else SagaId(saga), limit=500)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            page = await opened.locks(query)
            table = Table(out, LOCK_HEADS, spare=LOCK_SPARE)
            if not page.rows:
                out.say("nothing is held")
            while True:
                for row in page.rows:
                    out.record("lock", lock_fields(row))
                table.say([lock_cells(row) for row in page.rows])
                if page.cursor is None or out.is_gone:
                    break
                page = await opened.locks(replace(query, after=page.cursor))

    asyncio.run(whole())
