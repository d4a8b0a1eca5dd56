"""`amends session`: look at open sagas, which agents drive from outside, and end one that nobody comes back to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from amends.cli import session as driving
from amends.cli.commands.saga import cancel
from amends.cli.groups import Nouns, show_help
from amends.cli.ids import find_whole, with_saga, with_saga_to_find
from amends.cli.journal import look, looked_at, opened_to_read
from amends.cli.options import with_journal, with_modules
from amends.cli.show.hints import command
from amends.cli.show.output import Output, Part, hint
from amends.cli.show.tables import Table
from amends.cli.show.timeline import SAGA_HEADS, SAGA_SPARE, cells, head_lines, saga_cells
from amends.core.state.saga import Saga
from amends.core.transitions import SagaStatus
from amends.core.words.values import SESSION, Json
from amends.errors import InputError, RefusedError
from amends.journal.port.journal import PersonQuery, SagaQuery
from amends.operate.fields import driven, saga_fields
from amends.operate.reading import load, unknown
from amends.text import span, visible

if TYPE_CHECKING:  # to look at one, nothing is imported that drives it
    from amends.bootstrap import Coordinator
    from amends.runtime.engine.handle import Ended

_UNFINISHED: Final = tuple(
    status
    for status in SagaStatus
    if status not in {SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK, SagaStatus.MITIGATED}
)
_HEADS: Final = (("STEP", 5), ("CALL", 14), ("TOPIC", 20), ("STATUS", 12), ("", 0))
_LONGEST: Final = 120


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def session(context: click.Context) -> None:
    """Look at open sagas, which agents drive from outside, or end one."""
    show_help(context)


@session.command("list")
@click.option("--name", metavar="NAME", help="Only sessions of this name.")
@click.option("--all", "is_all", is_flag=True, help="Those too that have ended.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@click.option("--page", metavar="TOKEN", help="Go on where the list before this one ended, as it said.")
@with_journal
def list_sessions(*, name: str | None, is_all: bool, limit: int, page: str | None, journal: str, as_json: bool) -> None:
    """List the sessions that have not ended, newest first."""
    out = Output(as_json=as_json)
    query = SagaQuery(
        statuses=None if is_all else _UNFINISHED,
        definition=name,
        labels=((SESSION, "open"),),
        before=page,
        limit=limit,
    )

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            found = await opened.sagas(query)
            if not found.rows:
                out.say("no sessions" if is_all else "no open sessions")
            rows, resume = await driven(opened, found.rows), command(journal, "resume")
            for row, driver in rows:
                out.record("session", saga_fields(row, driver))
            Table(out, SAGA_HEADS, spare=SAGA_SPARE).say([saga_cells(row, driver, resume) for row, driver in rows])
            if found.cursor is not None:
                hint(f"there are more than {limit}; see them with --page {found.cursor} or a higher --limit")

    driving.finish(whole())


@session.command()
@with_saga_to_find
@with_journal
def show(*, saga_id: str, journal: str, as_json: bool) -> None:
    """Show a session: its steps, under the agent's own ids of its calls, and how each stands.

    `amends saga show` has everything that happened.
    """
    out = Output(as_json=as_json)

    async def whole() -> None:
        async with looked_at(journal) as opened:
            found = await opened.saga(await find_whole(opened, saga_id))
            if found is None:
                raise await unknown(opened, saga_id)
            state = await load(opened, found.id)
            idle = _session_of(state)
            ((row, driver),) = await driven(opened, (found,))
            out.record("session", {**saga_fields(row, driver), **idle})
            for fact in head_lines(row, driver, command(journal, "resume")):
                out.say(*fact)
            out.say("left alone  ", _left_alone(idle))
            out.say()
            told = [_fields(state, step) for step in state.steps]
            for fields in told:
                out.record("step", fields)
            Table(out, _HEADS).say([_cells(fields) for fields in told])
            waits = [("approval", one.id) for one in (await opened.approvals(PersonQuery(saga=row.id))).rows]
            waits += [("incident", one.id) for one in (await opened.incidents(PersonQuery(saga=row.id))).rows]
            for what, name in waits:
                out.say(visible(command(journal, what, "show", name)))

    look(whole())


def _session_of(state: Saga) -> dict[str, Json]:
    """How it was opened. Raises InputError for a saga that is no session."""
    begun = state.begun
    if begun is None or not isinstance(begun.session, dict):
        raise InputError(f"saga {state.id} is no session: it has a function of its own; see amends saga show")
    return dict(begun.session)


def _left_alone(idle: dict[str, Json]) -> str:
    seconds = float(str(idle.get("idle_s", 0)))
    then = {"call": "a person is told", "rollback": "all is taken back"}.get(str(idle.get("on_idle")), "")
    return f"for {span(round(seconds * 1000))}: {then}" if then else "for ever"


def _fields(state: Saga, step: str) -> dict[str, Json]:
    known = next(one for name, one in state.steps.items() if name == step)
    return {
        "step": known.id,
        "call": known.call,
        "topic": known.topic,
        "status": str(known.status),
        "result": known.result if known.status == "succeeded" else None,
        "error": known.error,
    }


def _cells(fields: dict[str, Json]) -> tuple[Part, ...]:
    from json import dumps

    told = fields["error"] or ("" if fields["result"] is None else dumps(fields["result"]))
    names = (str(fields[name]) for name in ("step", "call", "topic", "status"))
    return cells((*map(visible, names), visible(str(told), _LONGEST)), {})


@session.command()
@with_saga
@with_modules
@click.option("--result", metavar="JSON", help="Its result: JSON, @FILE of it, or - for stdin.  [default: null]")
@with_journal
def complete(*, saga_id: str, modules: tuple[str, ...], result: str | None, journal: str, as_json: bool) -> int:
    """End a session whose work is done, in place of its agent.

    What is in doubt is settled first, and what was held until now is released. One that another process has open is
    refused. The exit code is 0 once it is complete.
    """
    from amends.cli.inputs import read_document

    given = read_document(result, option="--result")

    async def asked(coordinator: Coordinator, state: Saga) -> Ended:
        _session_of(state)
        if state.begun is None or state.status.ended:
            raise RefusedError(f"session {state.id} has ended: it is {state.status}")
        driving.require_known(state, coordinator.registry, forward=False, settles=True)
        async with coordinator.session(state.begun.definition, id=saga_id) as s:
            ended: Ended = await s.complete(given)
        return ended

    return driving.settle(asked, saga_id, modules=modules, address=journal, as_json=as_json)


session.add_command(cancel)
