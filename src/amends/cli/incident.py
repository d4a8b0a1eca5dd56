"""`amends incident`: list, show, retry, resolve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amends.cli.options import author, show_help, with_author, with_journal, with_modules

if TYPE_CHECKING:
    from amends.cli.output import Output
    from amends.core.saga import Saga
    from amends.journal.protocol import IncidentRow, Journal


@click.group(invoke_without_command=True)
@click.pass_context
def incident(context: click.Context) -> None:
    """See to what needs a person."""
    show_help(context)


@incident.command("list")
@click.option("--all", "is_all", is_flag=True, help="Those too that are closed.")
@with_journal
def list_incidents(*, is_all: bool, journal: str, as_json: bool) -> None:
    """List what needs a person, oldest first."""
    import asyncio
    from dataclasses import replace

    from amends.cli import looks
    from amends.cli.output import Output
    from amends.cli.session import opened_to_read
    from amends.journal.protocol import PersonQuery

    out, query = Output(as_json=as_json), PersonQuery(open_only=not is_all, limit=500)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            page = await opened.incidents(query)
            nothing = "no incidents" if is_all else "no open incidents"
            out.say(*(looks.heading(looks.INCIDENT_HEADS) if page.rows else [nothing]))
            while True:
                for row in page.rows:
                    out.record("incident", looks.incident_fields(row))
                    out.say(*looks.incident_cells(row))
                if page.cursor is None or out.is_gone:
                    break
                page = await opened.incidents(replace(query, after=page.cursor))

    asyncio.run(whole())


@incident.command()
@click.argument("incident_id", metavar="ID")
@with_journal
def show(*, incident_id: str, journal: str, as_json: bool) -> None:
    """Show one incident: what stopped, what is left, and what a person can do."""
    import asyncio

    from amends.cli import looks
    from amends.cli.output import Output
    from amends.cli.session import load, opened_to_read

    out = Output(as_json=as_json)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            row = await _found(opened, incident_id)
            out.record("incident", looks.incident_fields(row))
            _tell(out, row, await load(opened, row.saga))

    asyncio.run(whole())


async def _found(journal: Journal, incident_id: str) -> IncidentRow:
    from amends.core.values import SagaId
    from amends.errors import UnknownIncidentError
    from amends.journal.protocol import PersonQuery

    saga = SagaId(incident_id.rpartition("/")[0])
    page = await journal.incidents(PersonQuery(open_only=False, saga=saga, limit=1000))
    for row in page.rows:
        if row.id == incident_id:
            return row
    raise UnknownIncidentError(
        f"no incident has the id {incident_id}; `amends incident list --all` shows those there are"
    )


def _tell(out: Output, row: IncidentRow, saga: Saga) -> None:
    from amends.cli.looks import moment
    from amends.evidence.timeline import spelled_args, visible

    closed = "" if row.closed_at is None else f", closed {moment(row.closed_at)}"
    numbers = {step: number for number, step in enumerate(saga.steps, start=1)}
    out.say(("incident    ", "dim"), (visible(row.id), "bold"))
    out.say(("saga        ", "dim"), f"{visible(row.definition)}, {saga.status}")
    out.say(("status      ", "dim"), (row.status, "bold red" if row.status == "open" else ""))
    out.say(("opened      ", "dim"), moment(row.opened_at) + closed)
    out.say(("kind        ", "dim"), row.kind.replace("_", " "))
    out.say(("why         ", "dim"), (visible(row.why, 1000), "red"))
    for step_id in row.left:
        step = saga.steps[step_id]
        mark = "stopped at  " if step_id == row.step else "left        "
        args = spelled_args(step.args)
        out.say((mark, "dim"), f"step {numbers[step_id]}  {visible(step.topic)}  {args}  ", (step.status, "yellow"))
    if row.status == "open":
        out.say()
        out.say("try again:         ", (f"amends incident retry {visible(row.id)} --module MODULE", "cyan"))
        out.say(
            "vouch for it:      ", (f"amends incident resolve {visible(row.id)} --reason TEXT --module MODULE", "cyan")
        )
        out.say("the whole story:   ", (f"amends saga show {visible(row.saga)}", "cyan"))


@incident.command()
@click.argument("incident_id", metavar="ID")
@with_modules(required=True)
@with_author
@with_journal
def retry(*, incident_id: str, modules: tuple[str, ...], by: str | None, journal: str, as_json: bool) -> int:
    """Try again what an incident stopped at.

    The exit code is 0 once the saga has ended, 4 if it needs a person again, 6 if another process goes on with it.
    """
    from amends.bootstrap import Coordinator
    from amends.cli import session
    from amends.runtime.handle import Ended

    async def asked(coordinator: Coordinator, saga: Saga) -> Ended:
        session.require_known(saga, coordinator.registry, forward=saga.rollback is None)
        return await coordinator.retry_incident(incident_id, by=author(by))

    return session.settle(asked, _saga_of(incident_id), modules=modules, address=journal, as_json=as_json)


@incident.command()
@click.argument("incident_id", metavar="ID")
@click.option("--reason", required=True, help="What was done by hand, as it goes on record.")
@with_modules(required=False)
@with_author
@with_journal
def resolve(
    *, incident_id: str, reason: str, modules: tuple[str, ...], by: str | None, journal: str, as_json: bool
) -> int:
    """Vouch for what an incident stopped at: it was seen to by hand, and the saga goes on without it.

    Where other steps are left to be taken back, the modules that declare them have to be named. The exit code is 0 once
    the saga has ended, 4 if it needs a person again, 6 if another process goes on with it.
    """
    from amends.bootstrap import Coordinator
    from amends.cli import session
    from amends.core.events import IncidentKind
    from amends.runtime.handle import Ended

    async def asked(coordinator: Coordinator, saga: Saga) -> Ended:
        row = await _found(coordinator.journal, incident_id)
        ends = row.kind in {IncidentKind.PAST_PIVOT, IncidentKind.DIVERGED} and saga.rollback is None
        if row.status == "open" and not ends:
            session.require_known(saga, coordinator.registry, forward=saga.rollback is None, but=row.step)
        return await coordinator.resolve_incident(incident_id, reason=reason, by=author(by))

    return session.settle(asked, _saga_of(incident_id), modules=modules, address=journal, as_json=as_json)


def _saga_of(incident_id: str) -> str:
    from amends.errors import UnknownIncidentError

    saga, slash, number = incident_id.rpartition("/")
    if not slash or not number.isdecimal():
        raise UnknownIncidentError(
            f"{incident_id!r} is not an incident's id; they look like 01k…/1: see amends incident list"
        )
    return saga
