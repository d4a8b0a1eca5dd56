"""`amends pause` and `amends unpause`: hold dispatch back in every process on a journal, and let it go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import click

from amends.cli.completing import complete_saga
from amends.cli.groups import Nouns
from amends.cli.ids import with_whole
from amends.cli.journal import coordinator_at, opened_to_read
from amends.cli.options import author, with_author, with_journal
from amends.cli.session import DONE, NOT_OVER
from amends.cli.show.output import Output
from amends.cli.signing import proved, with_signature
from amends.clock import SystemClock
from amends.errors import InputError
from amends.operate.reading import require_journal
from amends.runtime.coordinator.control import scope_of
from amends.runtime.drive.pauses import Pauses
from amends.runtime.drive.roster import Proof
from amends.text import moment, visible

F = TypeVar("F", bound=Callable[..., Any])


def _clauses(command: F) -> F:
    options = (
        click.option("--topic", metavar="TOPIC", default="", help="Only this topic; a glob, as in payments.*."),
        click.option("--definition", metavar="NAME", default="", help="Only sagas made from this definition."),
        click.option("--tenant", metavar="NAME", default="", help="Only sagas with this label `tenant`."),
        click.option("--saga", "saga_id", metavar="ID", shell_complete=complete_saga, help="Only this saga."),
    )
    command = with_whole(command, "saga_id")
    for option in reversed(options):
        command = option(command)
    return command


@click.group(cls=Nouns, invoke_without_command=True)
@_clauses
@click.option("--why", metavar="TEXT", help="What is wrong, for whoever finds it.")
@click.option("--rollbacks", is_flag=True, help="Stop rollbacks too; else they go on.")
@click.option("--drain", metavar="SECONDS", type=float, help="Then wait so long until nothing of it is in flight.")
@with_author
@with_journal
@click.pass_context
def pause(context: click.Context, /, *, journal: str, as_json: bool, by: str | None, **given: Any) -> int | None:  # noqa: ANN401 - the options above
    """Dispatch nothing more, in any process on this journal.

    Without a clause nothing at all is dispatched; several clauses have to fit all. It holds elsewhere within about a
    second. What is in flight finishes; sagas that would go on are paused, and lose nothing. The exit code is 6 where
    something is still in flight when the time of --drain is over.
    """
    if context.invoked_subcommand is not None:
        return None

    who, why = author(by, journal), given["why"]
    if not why:
        raise InputError("a pause needs a reason: say with --why what is wrong")
    out = Output(as_json=as_json)

    async def whole() -> tuple[int, list[str]]:
        async with coordinator_at(journal) as coordinator:
            number = await coordinator.pause(
                topic=given["topic"],
                definition=given["definition"],
                tenant=given["tenant"],
                saga=given["saga_id"],
                why=why,
                by=who,
                rollbacks="stop" if given["rollbacks"] else "go_on",
            )
            flying = [] if given["drain"] is None else await coordinator.drain(within=given["drain"])
            return number, flying

    require_journal(journal)
    number, flying = asyncio.run(whole())
    out.record("pause", {"number": number, "in_flight": flying})
    out.say(f"pause {number} holds" if number else f"saga {visible(given['saga_id'])} is paused")
    for flight in flying:
        out.say(f"still in flight: {visible(flight)}")
    return NOT_OVER if flying else DONE


@pause.command("list")
@with_journal
def list_pauses(*, journal: str, as_json: bool) -> None:
    """List what is paused, oldest first; sagas that are paused: `amends saga list --status paused`."""
    out = Output(as_json=as_json)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            pauses = Pauses(opened, SystemClock(), 0.0)
            await pauses.refresh()
            for one in pauses.active.values():
                out.record("pause", asdict(one))
                also = ", rollbacks too" if one.rollbacks else ""
                since = f"since {moment(one.at)} by {visible(one.by)}"
                out.say(f"{one.number}  {visible(scope_of(one))}{also}  {since}: {visible(one.why, 80)}")
            if not pauses.active:
                out.say("nothing is paused")

    asyncio.run(whole())


@click.command()
@_clauses
@click.option("--all", "everything", is_flag=True, help="End every pause, whatever it is about.")
@click.option("--why", metavar="TEXT", default="", help="The reason, as it goes on record.")
@with_author
@with_signature
@with_journal
def unpause(*, journal: str, as_json: bool, by: str | None, **given: Any) -> None:  # noqa: ANN401 - the options above
    """End the pause of exactly this kind, and have its sagas go on.

    For a person; of one saga, outside development, who has not asked for it themselves. The processes that drive them
    go on by themselves; what no process drives is gone on with by `amends resume` or `amends work`.
    """
    who = author(by, journal)
    out = Output(as_json=as_json)

    async def whole() -> int:
        async with coordinator_at(journal) as coordinator:

            async def ended(proof: Proof | None) -> int:
                return await coordinator.unpause(
                    topic=given["topic"],
                    definition=given["definition"],
                    tenant=given["tenant"],
                    saga=given["saga_id"],
                    everything=given["everything"],
                    why=given["why"],
                    by=who,
                    proof=proof,
                )

            return await proved(ended, coordinator.roster, who=who, ssh_key=given["ssh_key"])

    require_journal(journal)
    released = asyncio.run(whole())
    out.record("unpause", {"released": released})
    out.say(f"unpaused; sagas that go on: {released}")
