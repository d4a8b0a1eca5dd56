"""`amends approval`: list, show, grant, refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amends.cli import configured
from amends.cli.ids import with_approval
from amends.cli.options import Nouns, author, command, show_help, with_author, with_journal

if TYPE_CHECKING:
    from amends.cli.output import Output
    from amends.runtime.approvals import Asking


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def approval(context: click.Context) -> None:
    """Answer what people are asked before it is done."""
    show_help(context)


@approval.command("list")
@click.option("--all", "is_all", is_flag=True, help="Those too that are answered, used or void.")
@with_journal
def list_approvals(*, is_all: bool, journal: str, as_json: bool) -> None:
    """List what people are asked, oldest first."""
    import asyncio
    from dataclasses import replace

    from amends.cli import looks
    from amends.cli.output import Output
    from amends.cli.session import opened_to_read
    from amends.cli.tables import Table
    from amends.clock import SystemClock
    from amends.journal.protocol import PersonQuery

    out, query, now = Output(as_json=as_json), PersonQuery(open_only=not is_all, limit=500), SystemClock().now()

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            page = await opened.approvals(query)
            nothing = "no approvals" if is_all else "no open approvals"
            table = Table(out, looks.APPROVAL_HEADS, spare=looks.APPROVAL_SPARE)
            if not page.rows:
                out.say(nothing)
            while True:
                for row in page.rows:
                    out.record("approval", looks.approval_fields(row))
                table.say([looks.approval_cells(row, now) for row in page.rows])
                if page.cursor is None or out.is_gone:
                    break
                page = await opened.approvals(replace(query, after=page.cursor))

    asyncio.run(whole())


@approval.command()
@with_approval
@with_journal
def show(*, approval_id: str, journal: str, as_json: bool) -> None:
    """Show everything that a person should know before they answer.

    What will happen, with its arguments in full; what would take it back; which rule asks, and why; who asks, who has
    agreed and who is lacking; what has happened so far. Text that the agent or the action's author wrote is named as
    theirs.
    """
    from amends.cli import asked
    from amends.cli.output import Output
    from amends.clock import SystemClock

    out, found = Output(as_json=as_json), _found(approval_id, journal)
    out.record("approval", asked.fields(found))
    asked.tell(out, found, SystemClock().now(), journal)


@approval.command()
@with_approval
@click.option("--why", default="", help="The reason, as it goes on record.")
@click.option("--digest", metavar="DIGEST", help="What was shown, by its digest; refused if it has changed since.")
@click.option("--yes", is_flag=True, help="Grant what is asked now, without looking.")
@with_author
@with_journal
def grant(
    *, approval_id: str, why: str, digest: str | None, yes: bool, by: str | None, journal: str, as_json: bool
) -> int:
    """Agree to what is asked, as it is shown.

    On a terminal it is shown first, and confirmed. Elsewhere give --digest, which says what was seen, or --yes, which
    takes whatever is asked by now. Who has agreed already cannot grant it, nor, outside development, who asked for it,
    owns it, or acts for them. The exit code is 0 once enough people have agreed, and 6 as long as more are needed.
    """
    from amends.cli import asked
    from amends.cli.output import Output, has_person
    from amends.cli.session import DONE, NOT_OVER
    from amends.errors import InputError

    out, who, confirmed = Output(as_json=as_json), author(by), yes or digest is not None
    found = _found(approval_id, journal)
    if not confirmed and (as_json or not has_person()):
        raise InputError("nobody is there to confirm it; give the --digest that `amends approval show` shows, or --yes")
    if not confirmed and not _confirm(out, found, who, journal):
        out.say("nothing is granted")
        return NOT_OVER
    answered = _answer(found, who, why, journal, digest=digest or found.digest)
    out.record("approval", asked.fields(answered))
    asked.tell_granted(out, answered, who, _resume(found, journal))
    return NOT_OVER if asked.is_open(answered) else DONE


@approval.command()
@with_approval
@click.option("--why", required=True, help="The reason; it goes on record, and the agent is told.")
@with_author
@with_journal
def refuse(*, approval_id: str, why: str, by: str | None, journal: str, as_json: bool) -> None:
    """Say no: the step is denied, and nothing of it is done.

    One refusal is enough, however many people are asked. What was done before it is rolled back, unless the saga goes
    on without the step.
    """
    from amends.cli import asked
    from amends.cli.output import Output
    from amends.errors import InputError
    from amends.evidence.timeline import visible

    out, who = Output(as_json=as_json), author(by)
    if not why.strip():
        raise InputError("--why is empty; say why not, for whoever asked")
    answered = _answer(_found(approval_id, journal), who, why, journal)
    out.record("approval", asked.fields(answered))
    out.say(f"approval {visible(approval_id)} ", ("refused", "bold red"), f" by {visible(who)}: {visible(why)}")


def _found(approval_id: str, journal: str) -> Asking:
    import asyncio

    from amends.cli.session import opened_to_read, read_asking

    async def whole() -> Asking:
        async with opened_to_read(journal) as opened:
            return await read_asking(opened, approval_id)

    return asyncio.run(whole())


def _resume(found: Asking, journal: str) -> str:
    """The command that goes on with its saga."""
    import asyncio

    from amends.cli.hints import modules_for, read_begun
    from amends.cli.session import opened_to_read

    async def whole() -> str:
        async with opened_to_read(journal) as opened:
            return command(journal, "resume", *modules_for(await read_begun(opened, found.saga)))

    return asyncio.run(whole())


def _answer(found: Asking, who: str, why: str, journal: str, *, digest: str | None = None) -> Asking:
    """Granted where a digest says what, else refused."""
    from amends.bootstrap import Coordinator
    from amends.cli.session import finish

    async def whole() -> Asking:
        async with Coordinator.open(journal, settings=configured.settings()) as coordinator:
            if digest is None:
                return await coordinator.refuse(found.id, by=who, why=why)
            return await coordinator.grant(found.id, by=who, why=why, digest=digest)

    return finish(whole())


def _confirm(out: Output, found: Asking, who: str, journal: str) -> bool:
    from amends.cli import asked
    from amends.clock import SystemClock
    from amends.errors import RefusedError
    from amends.evidence.timeline import visible

    if not asked.is_open(found):
        raise RefusedError(f"approval {found.id} is {found.status}: nobody is asked any more")
    asked.tell(out, found, SystemClock().now(), journal)
    out.say()
    return click.confirm(f"grant this as {visible(who)}?")
