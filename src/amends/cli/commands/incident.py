"""`amends incident`: look at what needs a person, and decide about it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import click

from amends.addresses import shown
from amends.bootstrap import Coordinator
from amends.cli import config, session
from amends.cli.groups import Nouns, show_help
from amends.cli.ids import with_incident
from amends.cli.journal import coordinator_at, opened_to_read
from amends.cli.options import author, with_author, with_journal, with_modules
from amends.cli.show.incident import doubled, tell_doubled, tell_incident
from amends.cli.show.output import Output, has_person
from amends.cli.show.tables import Table
from amends.cli.show.timeline import INCIDENT_HEADS, INCIDENT_SPARE, incident_cells
from amends.cli.signing import proved, with_signature
from amends.core.events import IncidentKind
from amends.core.state.saga import Saga
from amends.core.words.values import Json, SagaId
from amends.errors import UnknownIncidentError
from amends.evidence.pages import html, markdown
from amends.journal.port.journal import IncidentRow, Journal, PersonQuery
from amends.operate.fields import comments, incident_fields
from amends.operate.proof import whole_file
from amends.operate.reading import history, require_journal
from amends.runtime.coordinator.report import find_incident, incident_report
from amends.runtime.declare.names import checked_actor
from amends.runtime.engine.handle import Ended
from amends.text import visible


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
    out, query = Output(as_json=as_json), PersonQuery(open_only=not is_all, limit=500)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            page = await opened.incidents(query)
            nothing = "no incidents" if is_all else "no open incidents"
            table = Table(out, INCIDENT_HEADS, spare=INCIDENT_SPARE)
            if not page.rows:
                out.say(nothing)
            while True:
                for row in page.rows if as_json else ():
                    closed = row.status != "open"
                    entries = [entry async for entry in opened.read(row.saga)] if closed else ()
                    out.record("incident", incident_fields(row, entries))
                table.say([incident_cells(row) for row in page.rows])
                if page.cursor is None or out.is_gone:
                    break
                page = await opened.incidents(replace(query, after=page.cursor))

    asyncio.run(whole())


@incident.command()
@with_incident
@with_journal
def show(*, incident_id: str, journal: str, as_json: bool) -> None:
    """Show one incident: what happened, what may stand, what was tried, and what a person can do."""
    out = Output(as_json=as_json)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            row = await _found(opened, incident_id)
            saga, entries = await history(opened, row.saga)
        out.record("incident", incident_fields(row, entries))
        for at, event in comments(row, entries):
            out.record("comment", {**asdict(event), "incident": row.id, "at": at})
        tell_incident(out, row, saga, entries, journal)

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
    address = "" if journal == config.journal() else journal

    async def whole() -> dict[str, Json]:
        async with opened_to_read(journal) as opened:
            return await incident_report(opened, incident_id, address=shown(address))

    write(Output(as_json=as_json), asyncio.run(whole()), form, target)


async def _found(journal: Journal, incident_id: str) -> IncidentRow:
    return await find_incident(journal, incident_id)


@incident.command()
@with_incident
@click.option("--owner", metavar="WHO", required=True, help="Who sees to it, as person:<name>.")
@with_author
@with_journal
def assign(*, incident_id: str, owner: str, by: str | None, journal: str, as_json: bool) -> None:
    """Say who sees to an incident."""
    who, owner = author(by, journal), checked_actor(owner)

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
    who = author(by, journal)

    async def asked(coordinator: Coordinator) -> None:
        await coordinator.comment_incident(incident_id, text=text, by=who)

    _note(asked, incident_id, journal, f"incident {visible(incident_id)} has the remark", as_json=as_json)


def _note(
    asked: Callable[[Coordinator], Awaitable[None]], incident_id: str, journal: str, said: str, *, as_json: bool
) -> None:
    """Have something put on an incident's record; its saga stays where it is."""

    async def whole() -> IncidentRow:
        async with coordinator_at(journal) as coordinator:
            await _found(coordinator.journal, incident_id)
            await asked(coordinator)
            return await _found(coordinator.journal, incident_id)

    require_journal(journal)
    out, row = Output(as_json=as_json), session.finish(whole())
    out.record("incident", incident_fields(row))
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
@with_signature
@with_journal
def retry(
    *,
    incident_id: str,
    let_run: bool,
    mitigate: bool,
    repeat: bool,
    modules: tuple[str, ...],
    by: str | None,
    ssh_key: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """Try again what an incident stopped at.

    ID is an incident's, or a saga's, which stands for its newest open incident. For a person who, outside development,
    neither asked for the saga nor owns it. With --let-run they take on themselves what the gate refused. With
    --mitigate the saga goes back instead, as with `amends saga cancel --mitigate`. Where nobody knows whether a step
    was done, it is not idempotent and has no probe, trying again may do it twice: on a terminal that is shown and
    confirmed, elsewhere it takes --repeat. The exit code is 0 once the saga has ended, whether completed or rolled
    back, 4 if it needs a person again, 6 if another process goes on with it.
    """
    who, incident_id = author(by, journal), _incident_of(incident_id, journal)
    if not repeat and not mitigate and not as_json and has_person():
        out = Output(as_json=as_json)
        answer = _asked_to_repeat(out, incident_id, journal)
        if answer is False:
            out.say("nothing is tried again")
            return session.INCIDENT
        repeat = answer is True

    async def asked(coordinator: Coordinator, saga: Saga) -> Ended:
        session.require_known(saga, coordinator.registry, forward=saga.rollback is None and not mitigate)
        return await proved(
            lambda signed: coordinator.retry_incident(
                incident_id, by=who, let_run=let_run, mitigate=mitigate, repeat=repeat, proof=signed
            ),
            coordinator.roster,
            who=who,
            ssh_key=ssh_key,
        )

    return session.settle(asked, _saga_of(incident_id), modules=modules, address=journal, as_json=as_json)


def _incident_of(given: str, journal: str) -> str:
    """An incident's id; where it is a saga's, that of its newest open incident."""
    if "/" in given:
        return given

    async def whole() -> Saga:
        async with opened_to_read(journal) as opened:
            return (await history(opened, SagaId(given)))[0]

    saga = asyncio.run(whole())
    return session.open_incident(saga) if saga.head else given


def _asked_to_repeat(out: Output, incident_id: str, journal: str) -> bool | None:
    """The answer of a person who is shown which step may be done twice; None where none would be."""

    async def whole() -> tuple[IncidentRow, Saga]:
        async with opened_to_read(journal) as opened:
            row = await _found(opened, incident_id)
            return row, (await history(opened, row.saga))[0]

    row, saga = asyncio.run(whole())
    step = doubled(row, saga)
    if step is None:
        return None
    tell_doubled(out, row, saga, step, journal)
    return click.confirm("do it once more?")


@incident.command()
@with_incident
@click.option("--reason", required=True, help="What was done by hand, as it goes on record.")
@click.option("--proof", default="", help="Where others can see that it was: a ticket, a receipt, an entry elsewhere.")
@with_modules
@with_author
@with_signature
@with_journal
def resolve(
    *,
    incident_id: str,
    reason: str,
    proof: str,
    modules: tuple[str, ...],
    by: str | None,
    ssh_key: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """Vouch for what an incident stopped at: it was seen to by hand, and the saga goes on without it.

    Where other steps are left to be taken back, the modules that declare them have to be named. The exit code is 0 once
    the saga has ended, completed or rolled back, 4 if it needs a person again, 6 if another process goes on with it.
    """
    who = author(by, journal)

    async def asked(coordinator: Coordinator, saga: Saga) -> Ended:
        row = await _found(coordinator.journal, incident_id)
        ends = row.kind is IncidentKind.PAST_PIVOT or (row.kind is IncidentKind.DIVERGED and saga.rollback is None)
        if row.status == "open" and not ends:
            session.require_known(saga, coordinator.registry, forward=saga.rollback is None, but=row.step)
        return await proved(
            lambda signed: coordinator.resolve_incident(incident_id, reason=reason, by=who, proof=proof, signed=signed),
            coordinator.roster,
            who=who,
            ssh_key=ssh_key,
        )

    return session.settle(asked, _saga_of(incident_id), modules=modules, address=journal, as_json=as_json)


def _saga_of(incident_id: str) -> str:
    saga, slash, number = incident_id.rpartition("/")
    if not slash or not number.isdecimal():
        raise UnknownIncidentError(
            f"{incident_id!r} is not an incident's id; they look like 01k…/1: see amends incident list"
        )
    return saga


_FORMS: Final[Mapping[str, Callable[[Mapping[str, Json]], str]]] = {
    "markdown": markdown,
    "html": html,
    "json": lambda report: json.dumps(report, indent=2) + "\n",
}
_ENDINGS: Final = {".html": "html", ".htm": "html", ".json": "json"}


def write(out: Output, report: Mapping[str, Json], form: str | None, target: str) -> None:
    """Write it whole, for its owner alone, or not at all; what is written to stdout is shown there."""
    if out.as_json and target == "-":
        out.record("report", report)
        return
    text = _FORMS[form or _ENDINGS.get(Path(target).suffix, "markdown")](report)
    if target == "-":
        click.echo(text, nl=False)
        return
    with whole_file(target) as file, open(file, "w", encoding="utf-8", closefd=False) as stream:
        stream.write(text)
    out.record("written", {"file": target, "characters": len(text)})
    out.say(f"{visible(target)}: {text.count(chr(10))} lines")
