"""`amends worker`: who drives sagas on a journal."""

from __future__ import annotations

import asyncio
from typing import Final

import click

from amends.cli.groups import Nouns, show_help
from amends.cli.journal import opened_to_read
from amends.cli.options import with_journal
from amends.cli.show.output import Output
from amends.cli.show.tables import Table
from amends.clock import SystemClock
from amends.evidence.story.timeline import span
from amends.journal.port.leases import WorkerRow
from amends.text import moment

_HEADS: Final = (("worker", 33), ("host", 20), ("pid", 8), ("sagas", 6), ("since", 24), ("lease", 0))


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def worker(context: click.Context) -> None:
    """See who drives sagas on a journal."""
    show_help(context)


@worker.command("list")
@with_journal
def list_workers(*, journal: str, as_json: bool) -> None:
    """List the processes that drive sagas: who, where, how many, since when, and for how long they are believed.

    One that is gone is listed until somebody takes over what it had.
    """
    out = Output(as_json=as_json)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            rows = await opened.workers()
        if not rows:
            out.say("no worker is known")
        for row in rows:
            out.record("worker", row._asdict())
        now = SystemClock().now()
        Table(out, _HEADS, spare=("since",)).say([_cells(row, now) for row in rows])

    asyncio.run(whole())


def _cells(row: WorkerRow, now: int) -> tuple[str, ...]:
    since = moment(row.since_at) if row.since_at else ""
    lease = "gone" if row.is_gone else f"{span(max(0, row.until_at - now))} left"
    return row.name, row.host, str(row.pid or ""), str(row.sagas), since, lease
