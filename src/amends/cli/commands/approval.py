"""`amends approval`: what people are asked, and their answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import click

from amends.cli.groups import Nouns, show_help
from amends.cli.ids import with_approval, with_approvals
from amends.cli.journal import coordinator_at, opened_to_read
from amends.cli.options import author, with_author, with_journal
from amends.cli.session import DONE, NOT_OVER, finish
from amends.cli.show.approval import is_open, tell_approval, tell_granted
from amends.cli.show.hints import command, modules_for, read_begun
from amends.cli.show.output import Output, has_person
from amends.cli.show.tables import Table
from amends.cli.show.timeline import APPROVAL_HEADS, APPROVAL_SPARE, approval_cells
from amends.cli.signing import proved, with_signature
from amends.clock import SystemClock
from amends.errors import InputError, RefusedError
from amends.journal.port.journal import PersonQuery
from amends.operate.fields import approval_fields, asking_fields
from amends.operate.reading import read_asking
from amends.runtime.coordinator.people import Approval
from amends.runtime.drive.roster import Proof
from amends.text import visible


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
    out, query, now = Output(as_json=as_json), PersonQuery(open_only=not is_all, limit=500), SystemClock().now()

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            page = await opened.approvals(query)
            nothing = "no approvals" if is_all else "no open approvals"
            table = Table(out, APPROVAL_HEADS, spare=APPROVAL_SPARE)
            if not page.rows:
                out.say(nothing)
            while True:
                for row in page.rows:
                    out.record("approval", approval_fields(row))
                table.say([approval_cells(row, now) for row in page.rows])
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
    out, found = Output(as_json=as_json), _found(approval_id, journal)
    out.record("approval", asking_fields(found))
    tell_approval(out, found, SystemClock().now(), journal)


@approval.command()
@with_approvals
@click.option("--why", default="", help="The reason, as it goes on record.")
@click.option(
    "--digest",
    "digests",
    metavar="DIGEST",
    multiple=True,
    help="What was shown, by its digest; refused if it has changed since. Of several, once for each, in their order.",
)
@click.option("--yes", is_flag=True, help="Grant what is asked now, without looking.")
@with_author
@with_signature
@with_journal
def grant(
    *,
    approval_ids: tuple[str, ...],
    why: str,
    digests: tuple[str, ...],
    yes: bool,
    by: str | None,
    ssh_key: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """Agree to what is asked, as it is shown.

    On a terminal it is shown first, and confirmed. Elsewhere give --digest, which says what was seen, or --yes, which
    takes whatever is asked by now. Where names are proved, --ssh-key signs it, or a key of yours in the SSH agent does,
    and the text that is signed is shown. Several are granted together, with one signature; where one of them cannot be,
    none is. Who has agreed already cannot grant it, nor, outside development, who asked for it, owns it, or acts for
    them. The exit code is 0 once enough people have agreed, and 6 as long as more are needed.
    """
    out, who, confirmed = Output(as_json=as_json), author(by, journal), yes or bool(digests)
    found = [_found(each, journal) for each in dict.fromkeys(approval_ids)]
    if digests and len(digests) != len(found):
        raise InputError(f"{len(found)} approvals and {len(digests)} digests: give one for each, in the same order")
    if not confirmed and (as_json or not has_person()):
        raise InputError("nobody is there to confirm it; give the --digest that `amends approval show` shows, or --yes")
    if not confirmed and not _confirm(out, found, who, journal):
        out.say("nothing is granted")
        return NOT_OVER
    seen = digests or tuple(each.digest for each in found)
    answered = _answer(found, who, why, journal, digests=seen, ssh_key=ssh_key)
    for each in answered:
        out.record("approval", asking_fields(each))
        tell_granted(out, each, who, _resume(each, journal))
    return NOT_OVER if any(map(is_open, answered)) else DONE


@approval.command()
@with_approvals
@click.option("--why", required=True, help="The reason; it goes on record, and the agent is told.")
@with_author
@with_signature
@with_journal
def refuse(
    *, approval_ids: tuple[str, ...], why: str, by: str | None, ssh_key: str | None, journal: str, as_json: bool
) -> None:
    """Say no: the step is denied, and nothing of it is done.

    One refusal is enough, however many people are asked. What was done before it is rolled back, unless the saga goes
    on without the step. Several are refused together, for one reason and with one signature.
    """
    out, who = Output(as_json=as_json), author(by, journal)
    if not why.strip():
        raise InputError("--why is empty; say why not, for whoever asked")
    found = [_found(each, journal) for each in dict.fromkeys(approval_ids)]
    for each in _answer(found, who, why, journal, ssh_key=ssh_key):
        out.record("approval", asking_fields(each))
        out.say(f"approval {visible(each.id)} ", ("refused", "bold red"), f" by {visible(who)}: {visible(why)}")


def _found(approval_id: str, journal: str) -> Approval:
    async def whole() -> Approval:
        async with opened_to_read(journal) as opened:
            return await read_asking(opened, approval_id)

    return asyncio.run(whole())


def _resume(found: Approval, journal: str) -> str:
    """The command that goes on with its saga."""

    async def whole() -> str:
        async with opened_to_read(journal) as opened:
            return command(journal, "resume", *modules_for(await read_begun(opened, found.saga)))

    return asyncio.run(whole())


def _answer(
    found: list[Approval], who: str, why: str, journal: str, *, digests: tuple[str, ...] = (), ssh_key: str | None
) -> tuple[Approval, ...]:
    """Granted where digests say what, else refused."""
    (first, *others), ids = found, [each.id for each in found]

    async def whole() -> tuple[Approval, ...]:
        async with coordinator_at(journal) as coordinator:

            async def answered(proof: Proof | None) -> tuple[Approval, ...]:
                if digests and others:
                    return await coordinator.grant_all(
                        dict(zip(ids, digests, strict=True)), by=who, why=why, proof=proof
                    )
                if digests:
                    return (await coordinator.grant(first.id, by=who, why=why, digest=digests[0], proof=proof),)
                if others:
                    return await coordinator.refuse_all(ids, by=who, why=why, proof=proof)
                return (await coordinator.refuse(first.id, by=who, why=why, proof=proof),)

            return await proved(answered, coordinator.roster, who=who, ssh_key=ssh_key)

    return finish(whole())


def _confirm(out: Output, found: list[Approval], who: str, journal: str) -> bool:
    for each in found:
        if not is_open(each):
            raise RefusedError(f"approval {each.id} is {each.status}: nobody is asked any more")
        tell_approval(out, each, SystemClock().now(), journal)
        out.say()
    return click.confirm(f"grant {'this' if len(found) == 1 else f'these {len(found)}'} as {visible(who)}?")
