"""`amends incident`: list, show, report, assign, comment, retry, resolve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amends.cli import configured
from amends.cli.ids import with_incident
from amends.cli.options import Nouns, author, show_help, with_author, with_journal, with_modules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from amends.bootstrap import Coordinator
    from amends.cli.output import Output
    from amends.core.saga import Saga
    from amends.journal.protocol import IncidentRow, Journal


@click.group(cls=Nouns, invoke_without_command=True)
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
    from amends.cli.tables import Table
    from amends.journal.protocol import PersonQuery

    out, query = Output(as_json=as_json), PersonQuery(open_only=not is_all, limit=500)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            page = await opened.incidents(query)
            nothing = "no incidents" if is_all else "no open incidents"
            table = Table(out, looks.INCIDENT_HEADS, spare=looks.INCIDENT_SPARE)
            if not page.rows:
                out.say(nothing)
            while True:
                for row in page.rows if as_json else ():
                    closed = row.status != "open"
                    entries = [entry async for entry in opened.read(row.saga)] if closed else ()
                    out.record("incident", looks.incident_fields(row, entries))
                table.say([looks.incident_cells(row) for row in page.rows])
                if page.cursor is None or out.is_gone:
                    break
                page = await opened.incidents(replace(query, after=page.cursor))

    asyncio.run(whole())


@incident.command()
@with_incident
@with_journal
def show(*, incident_id: str, journal: str, as_json: bool) -> None:
    """Show one incident: what happened, what may stand, what was tried, and what a person can do."""
    import asyncio
    from dataclasses import asdict

    from amends.cli import looks, stuck
    from amends.cli.output import Output
    from amends.cli.session import history, opened_to_read

    out = Output(as_json=as_json)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            row = await _found(opened, incident_id)
            saga, entries = await history(opened, row.saga)
        out.record("incident", looks.incident_fields(row, entries))
        for at, event in stuck.comments(row, entries):
            out.record("comment", {**asdict(event), "incident": row.id, "at": at})
        stuck.tell(out, row, saga, entries, journal)

    asyncio.run(whole())


@incident.command()
@with_incident
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "html", "json"]),
    help="How it is written.  [default: by the file's name, else markdown]",
)
@click.option("-o", "--output", "target", metavar="FILE", default="-", help="Where it goes.  [default: stdout]")
@with_journal
def report(*, incident_id: str, form: str | None, target: str, journal: str, as_json: bool) -> None:
    """Write a report of one incident to hand on.

    What happened, what stands in the world, what was tried, who asked, approved and decided, what they were shown,
    which rule spoke, how it was closed, and the hashes by which a third party verifies it. HTML is one file, with
    nothing to fetch. With --json it is one line, and --format json is the same with line breaks.
    """
    import asyncio

    from amends.cli import reported
    from amends.cli.output import Output
    from amends.cli.session import opened_to_read
    from amends.core.values import Json
    from amends.runtime.reporting import incident_report

    address = "" if journal == configured.journal() else journal

    async def whole() -> dict[str, Json]:
        async with opened_to_read(journal) as opened:
            return await incident_report(opened, incident_id, address=address)

    reported.write(Output(as_json=as_json), asyncio.run(whole()), form, target)


async def _found(journal: Journal, incident_id: str) -> IncidentRow:
    from amends.runtime.reporting import find_incident

    return await find_incident(journal, incident_id)


@incident.command()
@with_incident
@click.option("--owner", metavar="WHO", required=True, help="Who sees to it, as person:<name>.")
@with_author
@with_journal
def assign(*, incident_id: str, owner: str, by: str | None, journal: str, as_json: bool) -> None:
    """Say who sees to an incident."""
    from amends.evidence.timeline import visible
    from amends.runtime.checked import checked_actor

    who, owner = author(by), checked_actor(owner)

    async def asked(coordinator: Coordinator) -> None:
        await coordinator.assign_incident(incident_id, owner=owner, by=who)

    _note(asked, incident_id, journal, f"incident {visible(incident_id)} given to {visible(owner)}", as_json=as_json)


@incident.command()
@with_incident
@click.option("--text", required=True, help="The remark, as it goes on record.")
@with_author
@with_journal
def comment(*, incident_id: str, text: str, by: str | None, journal: str, as_json: bool) -> None:
    """Put a remark on record, for whoever looks at an incident next."""
    from amends.evidence.timeline import visible

    who = author(by)

    async def asked(coordinator: Coordinator) -> None:
        await coordinator.comment_incident(incident_id, text=text, by=who)

    _note(asked, incident_id, journal, f"incident {visible(incident_id)} has the remark", as_json=as_json)


def _note(
    asked: Callable[[Coordinator], Awaitable[None]], incident_id: str, journal: str, said: str, *, as_json: bool
) -> None:
    """Have something put on an incident's record; its saga stays where it is."""
    from amends.bootstrap import Coordinator
    from amends.cli import looks, session
    from amends.cli.output import Output

    async def whole() -> IncidentRow:
        async with Coordinator.open(journal, settings=configured.settings()) as coordinator:
            await _found(coordinator.journal, incident_id)
            await asked(coordinator)
            return await _found(coordinator.journal, incident_id)

    session.require_journal(journal)
    out, row = Output(as_json=as_json), session.finish(whole())
    out.record("incident", looks.incident_fields(row))
    out.say(said)


@incident.command()
@with_incident
@click.option("--let-run", is_flag=True, help="Let the compensation run that the gate refused, in your own name.")
@click.option(
    "--mitigate", is_flag=True, help="Take the saga back, past its pivot: mitigate what cannot be taken back."
)
@click.option(
    "--repeat", is_flag=True, help="Do a step once more of which an attempt was lost, though it may happen twice."
)
@with_modules
@with_author
@with_journal
def retry(
    *,
    incident_id: str,
    let_run: bool,
    mitigate: bool,
    repeat: bool,
    modules: tuple[str, ...],
    by: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """Try again what an incident stopped at.

    For a person who, outside development, neither asked for the saga nor owns it. With --let-run they take on
    themselves what the gate refused. With --mitigate the saga goes back instead, as with `amends saga cancel
    --mitigate`. Where nobody knows whether a step was done, it is not idempotent and has no probe, trying again may do
    it twice: on a terminal that is shown and confirmed, elsewhere it takes --repeat. The exit code is 0 once the saga
    has ended, whether completed or rolled back, 4 if it needs a person again, 6 if another process goes on with it.
    """
    from amends.cli import session
    from amends.cli.output import Output, has_person
    from amends.runtime.handle import Ended

    who = author(by)
    if not repeat and not mitigate and not as_json and has_person():
        out = Output(as_json=as_json)
        answer = _asked_to_repeat(out, incident_id, journal)
        if answer is False:
            out.say("nothing is tried again")
            return session.INCIDENT
        repeat = answer is True

    async def asked(coordinator: Coordinator, saga: Saga) -> Ended:
        session.require_known(saga, coordinator.registry, forward=saga.rollback is None and not mitigate)
        return await coordinator.retry_incident(incident_id, by=who, let_run=let_run, mitigate=mitigate, repeat=repeat)

    return session.settle(asked, _saga_of(incident_id), modules=modules, address=journal, as_json=as_json)


def _asked_to_repeat(out: Output, incident_id: str, journal: str) -> bool | None:
    """What a person answers who is shown which step may be done twice; None where none would be."""
    import asyncio

    from amends.cli import stuck
    from amends.cli.session import history, opened_to_read

    async def whole() -> tuple[IncidentRow, Saga]:
        async with opened_to_read(journal) as opened:
            row = await _found(opened, incident_id)
            return row, (await history(opened, row.saga))[0]

    row, saga = asyncio.run(whole())
    step = stuck.doubled(row, saga)
    if step is None:
        return None
    stuck.tell_doubled(out, row, saga, step, journal)
    return click.confirm("do it once more?")


@incident.command()
@with_incident
@click.option("--reason", required=True, help="What was done by hand, as it goes on record.")
@click.option("--proof", default="", help="Where others can see that it was: a ticket, a receipt, an entry elsewhere.")
@with_modules
@with_author
@with_journal
def resolve(
    *, incident_id: str, reason: str, proof: str, modules: tuple[str, ...], by: str | None, journal: str, as_json: bool
) -> int:
    """Vouch for what an incident stopped at: it was seen to by hand, and the saga goes on without it.

    Where other steps are left to be taken back, the modules that declare them have to be named. The exit code is 0 once
    the saga has ended, completed or rolled back, 4 if it needs a person again, 6 if another process goes on with it.
    """
    from amends.cli import session
    from amends.core.events import IncidentKind
    from amends.runtime.handle import Ended

    who = author(by)

    async def asked(coordinator: Coordinator, saga: Saga) -> Ended:
        row = await _found(coordinator.journal, incident_id)
        ends = row.kind is IncidentKind.PAST_PIVOT or (row.kind is IncidentKind.DIVERGED and saga.rollback is None)
        if row.status == "open" and not ends:
            session.require_known(saga, coordinator.registry, forward=saga.rollback is None, but=row.step)
        return await coordinator.resolve_incident(incident_id, reason=reason, by=who, proof=proof)

    return session.settle(asked, _saga_of(incident_id), modules=modules, address=journal, as_json=as_json)


def _saga_of(incident_id: str) -> str:
    from amends.errors import UnknownIncidentError

    saga, slash, number = incident_id.rpartition("/")
    if not slash or not number.isdecimal():
        raise UnknownIncidentError(
            f"{incident_id!r} is not an incident's id; they look like 01k…/1: see amends incident list"
        )
    return saga
