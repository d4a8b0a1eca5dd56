"""`amends saga`: look at sagas, send them what they wait for, take them back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final, cast

import click

from amends.cli import session
from amends.cli.completing import complete_saga
from amends.cli.groups import Nouns, show_help
from amends.cli.ids import find_whole, with_saga, with_saga_to_find, with_sagas
from amends.cli.journal import coordinator_at, look, looked_at, opened_to_read
from amends.cli.options import author, hint_renamed, renamed, require_named, with_author, with_journal, with_modules
from amends.cli.session import Follower
from amends.cli.show.hints import command, has_files, modules_for, read_begun
from amends.cli.show.output import Output, Part, hint
from amends.cli.show.tables import Table
from amends.cli.show.timeline import SAGA_HEADS, SAGA_SPARE, head_lines, rate_waited_for, saga_cells
from amends.cli.signing import proved, with_signature
from amends.clock import SystemClock
from amends.core.state.saga import Saga
from amends.core.transitions import SagaStatus
from amends.core.words.values import OWN, Json, SagaId
from amends.errors import InputError
from amends.journal.port.journal import Journal, LeaseHolder, PersonQuery, SagaQuery, SagaRow
from amends.operate.fields import driven, is_left, saga_fields
from amends.operate.reading import load, require_journal, unknown
from amends.text import clock_time, visible

if TYPE_CHECKING:  # to look at a saga, nothing is imported that drives one
    from amends.bootstrap import Coordinator
    from amends.runtime.coordinator.upgrade import Unresumable
    from amends.runtime.engine.handle import Ended

SHOWN_WHOLE: Final = 2_000
SHOWN: Final = 500
"""So many entries are shown of a saga that has more than that."""


@click.command("raise-limit")
@with_saga
@with_modules
@click.option("--tokens", type=int, metavar="N", help="Allow so many tokens in all.")
@click.option("--usd", metavar="AMOUNT", help="Allow so many dollars in all.")
@click.option("--seconds", type=float, metavar="S", help="Allow so much time since the saga began.")
@click.option("--steps", type=int, metavar="N", help="Allow so many steps in all.")
@click.option("--failures", type=int, metavar="N", help="Allow so many failed attempts in all.")
@click.option("--retries", type=int, metavar="N", help="Allow so many retries in all.")
@click.option("--spin", type=int, metavar="N", help="Allow so many near-identical steps in a row.")
@click.option("--why", default="", help="The reason, as it goes on record.")
@with_author
@with_signature
@with_journal
def raise_limit(  # noqa: PLR0913 - one for each limit
    *,
    saga_id: str,
    modules: tuple[str, ...],
    tokens: int | None,
    usd: str | None,
    seconds: float | None,
    steps: int | None,
    failures: int | None,
    retries: int | None,
    spin: int | None,
    why: str,
    by: str | None,
    ssh_key: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """Set a saga's limits higher. One that had stopped at its limit goes on.

    Without any amount, as much again is allowed of the limit that it has reached. The exit code is that of a run.
    """
    who = author(by, journal)

    async def asked(coordinator: Coordinator, state: Saga) -> Ended:
        session.require_known(state, coordinator.registry, forward=True)
        return await proved(
            lambda proof: coordinator.raise_limit(
                saga_id,
                tokens=tokens,
                usd=usd,
                seconds=seconds,
                steps=steps,
                failures=failures,
                retries=retries,
                spin=spin,
                why=why,
                by=who,
                proof=proof,
            ),
            coordinator.roster,
            who=who,
            ssh_key=ssh_key,
        )

    return session.settle(asked, saga_id, modules=modules, address=journal, as_json=as_json)


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def saga(context: click.Context) -> None:
    """Look at sagas, or take one back."""
    show_help(context)


saga.add_command(raise_limit)


@saga.command("list")
@click.option(
    "--status",
    "statuses",
    metavar="STATUS",
    multiple=True,
    help="running, waiting, rolling_back, completed, rolled_back, mitigated, incident or paused; may be given several "
    "times.",
)
@click.option("--definition", metavar="NAME", help="Only sagas made from this definition.")
@click.option("--topic", metavar="TOPIC", help="Only sagas with a step of this topic.")
@click.option("--env", metavar="ENV", help="Only sagas of this environment.")
@click.option("--parent", metavar="SAGA", shell_complete=complete_saga, help="Only the children of this saga.")
@click.option(
    "--label",
    "labels",
    metavar="NAME=VALUE",
    multiple=True,
    help="Only sagas with this label; given several times: with all of them.",
)
@click.option("--from", "since", metavar="TIME", help="Only sagas that started then or later: 7d, 2026-03-31.")
@click.option("--until", metavar="TIME", help="Only sagas that started before that.")
@click.option("--ended-from", metavar="TIME", help="Only sagas that ended then or later.")
@click.option("--ended-until", metavar="TIME", help="Only sagas that ended before that.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@click.option("--page", metavar="TOKEN", help="Go on where the list before this one ended, as it said.")
@click.option("--all", "is_all", is_flag=True, help="All of them, and those too in which amends keeps its own records.")
@with_journal
def list_sagas(  # noqa: PLR0913 - one for each option
    *,
    statuses: tuple[str, ...],
    definition: str | None,
    topic: str | None,
    env: str | None,
    parent: str | None,
    labels: tuple[str, ...],
    since: str | None,
    until: str | None,
    ended_from: str | None,
    ended_until: str | None,
    limit: int,
    page: str | None,
    is_all: bool,
    journal: str,
    as_json: bool,
) -> None:
    """List sagas, newest first.

    A saga that should be going, and that no living process drives, is shown as `driver gone`.
    """
    wanted = tuple(map(_status, statuses)) or None
    query = SagaQuery(
        statuses=wanted,
        without=() if is_all or definition is not None else OWN,
        definition=definition,
        topic=topic,
        env=env,
        parent=None if parent is None else SagaId(parent),
        labels=tuple(map(_label, labels)),
        started_from=_moment(since, "--from"),
        started_until=_moment(until, "--until"),
        ended_from=_moment(ended_from, "--ended-from"),
        ended_until=_moment(ended_until, "--ended-until"),
        before=page,
        limit=500 if is_all else limit,
    )
    out = Output(as_json=as_json)

    async def cells(opened: Journal, row: SagaRow, driver: LeaseHolder | None) -> tuple[Part, ...]:
        begun = await read_begun(opened, row.id) if is_left(row, driver) else None
        resume, throttle = command(journal, "resume", *modules_for(begun)), await rate_waited_for(opened, row)
        return saga_cells(row, driver, resume, throttle)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            found = await opened.sagas(query)
            table = Table(out, SAGA_HEADS, spare=SAGA_SPARE)
            if not found.rows:
                out.say("no sagas")
            while True:
                rows = await driven(opened, found.rows)
                for row, driver in rows:
                    out.record("saga", saga_fields(row, driver))
                table.say([await cells(opened, row, driver) for row, driver in rows])
                if found.cursor is None or not is_all or out.is_gone:
                    break
                found = await opened.sagas(replace(query, before=found.cursor))
            if found.cursor is not None and not out.is_gone:
                hint(f"there are more than {limit}; see them with --page {found.cursor}, --all or a higher --limit")

    session.finish(whole())


def _label(given: str) -> tuple[str, str]:
    name, is_given, value = given.partition("=")
    if not name or not is_given:
        raise InputError(f"--label {given!r} is no label with its value; write --label tenant=acme")
    return name, value


def _moment(given: str | None, option: str) -> int | None:
    if given is None:
        return None
    from amends.cli.inputs import read_moment

    return read_moment(given, option, SystemClock().now())


def _status(name: str) -> SagaStatus:
    try:
        return SagaStatus(name)
    except ValueError:
        raise InputError(f"{name!r} is not a status; they are {', '.join(SagaStatus)}") from None


@saga.command()
@with_saga_to_find
@click.option("--last", metavar="N", type=click.IntRange(min=1), help="Only the newest N entries.")
@click.option("--from", "first", metavar="NUMBER", type=click.IntRange(min=1), help="Only entries from this one on.")
@with_journal
def show(*, saga_id: str, last: int | None, first: int | None, journal: str, as_json: bool) -> None:
    """Show one saga: where it stands, who drives it and until when, and everything that happened.

    Of one with thousands of entries the newest are shown, unless --from says otherwise; with --json, all of them.
    """
    if last is not None and first is not None:
        raise click.UsageError("give either --last or --from")
    out = Output(as_json=as_json)

    async def whole() -> SagaId | None:
        async with looked_at(journal) as opened:
            found = await opened.saga(await find_whole(opened, saga_id))
            if found is None:
                raise await unknown(opened, saga_id)
            ((row, driver),) = await driven(opened, (found,))
            begun = await read_begun(opened, row.id)
            out.record("saga", saga_fields(row, driver))
            for fact in head_lines(row, driver, command(journal, "resume", *modules_for(begun))):
                out.say(*fact)
            out.say()
            after = _before_page(row, last, first, as_json=as_json)
            if after and first is None:
                rest = command(journal, "saga", "show", row.id, "--from", "1")
                out.say((f"the newest {row.entries - after:,} of {row.entries:,} entries; all of them: {rest}", "dim"))
            await Follower(opened, row.id, out, after=after, is_page=True).catch_up()
            if row.status is SagaStatus.WAITING:
                from amends.runtime.engine.handle import ended

                stands, now = ended(await load(opened, row.id)), SystemClock().now()
                if stands.due_at is not None:
                    out.say()
                    out.say(visible(f"{stands.why}; it may go on at {clock_time(stands.due_at, now)}"))
                for name in stands.waits_for:
                    out.say()
                    out.say(f"waits for {visible(name)}: {visible(command(journal, 'saga', 'signal', row.id, name))}")
            needs = [("incident", one.id) for one in (await opened.incidents(PersonQuery(saga=row.id))).rows]
            waits = [("approval", one.id) for one in (await opened.approvals(PersonQuery(saga=row.id))).rows]
            if needs or waits:
                out.say()
            for what, name in (*needs, *waits):
                why = "needs a person" if what == "incident" else "waits for people"
                out.say(f"{why}: {visible(command(journal, what, 'show', name))}")
            return row.id if row.status is SagaStatus.COMPLETED and await has_files(opened, row.id) else None

    reviewed = look(whole())
    if reviewed is not None:
        session.finish(session.show_review(out, reviewed, journal))


def _before_page(row: SagaRow, last: int | None, first: int | None, *, as_json: bool) -> int:
    """After which entry to begin."""
    if first is not None:
        return first - 1
    most = last or (row.entries if as_json or row.entries <= SHOWN_WHOLE else SHOWN)
    return max(0, row.entries - most)


@saga.command()
@with_sagas
@click.option("--once", is_flag=True, help="Show how things stand now, and end.")
@with_journal
def watch(*, saga_ids: tuple[str, ...], once: bool, journal: str, as_json: bool) -> None:
    """Watch sagas as they go: which steps went forward, which go back.

    Whatever is going is shown, with who drives it, or only the sagas that are named, until these have ended. This only
    reads. With --json, each new entry is a line, and each change of driver.
    """
    from amends.cli.show.live import watch_sagas  # and rich, to draw with: not for who asks for JSON elsewhere

    out = Output(as_json=as_json)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            await watch_sagas(opened, saga_ids, out, once=once)

    session.finish(whole())


@saga.command("retry", hidden=True)
@with_saga
@with_modules
@with_author
@with_journal
@renamed("saga retry", "incident retry")
def retry(*, saga_id: str, modules: tuple[str, ...], by: str | None, journal: str, as_json: bool) -> int:
    """Try again what a saga's incident stopped at: `amends incident retry`, which takes a saga's id too."""
    who = author(by, journal)

    async def asked(coordinator: Coordinator, state: Saga) -> Ended:
        incident = session.open_incident(state)
        session.require_known(state, coordinator.registry, forward=state.rollback is None)
        return await coordinator.retry_incident(incident, by=who)

    return session.settle(asked, saga_id, modules=modules, address=journal, as_json=as_json)


@saga.command()
@with_saga
@with_modules
@click.option("--why", default="cancelled", show_default=True, help="The reason, as it goes on record.")
@click.option("--mitigate", is_flag=True, help="Also past its pivot: mitigate what cannot be taken back.")
@click.option("--plan", is_flag=True, help="Change nothing: say what would be taken back, and what cannot be.")
@with_author
@with_signature
@with_journal
def cancel(
    *,
    saga_id: str,
    modules: tuple[str, ...],
    why: str,
    mitigate: bool,
    plan: bool,
    by: str | None,
    ssh_key: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """Take a saga back, even one that has completed.

    It cannot be taken back over a pivot, the first irreversible step that took effect; with --mitigate, for a person,
    what is declared as mitigation is done about each such step, in its turn, and the saga ends as mitigated. A child
    goes back with its parent, and not alone, unless it has stopped at an incident. A part of a saga is taken back by
    `amends saga rollback`. The exit code is 0 once it is rolled back or mitigated, 4 if that needs a person, 6 if
    another process is at it; with --plan, 0 if nothing stands in the way, else 4.
    """
    if plan:
        return show_plan(saga_id, modules=modules, mitigate=mitigate, journal=journal, as_json=as_json)
    who = author(by, journal)

    async def asked(coordinator: Coordinator, state: Saga) -> Ended:
        await session.require_free(coordinator.journal, state)
        session.require_known(state, coordinator.registry, forward=False)
        return await proved(
            lambda proof: coordinator.cancel(saga_id, why=why, by=who, mitigate=mitigate, proof=proof),
            coordinator.roster,
            who=who,
            ssh_key=ssh_key,
        )

    return session.settle(asked, saga_id, modules=modules, address=journal, as_json=as_json)


@saga.command()
@with_saga
@click.argument("name", metavar="NAME")
@click.option(
    "--payload", metavar="JSON", help="What the saga is given: JSON, @FILE of it, or - for stdin.  [default: null]"
)
@click.option("--early", is_flag=True, help="Keep it, should the saga not wait for it yet.")
@with_author
@with_journal
def signal(
    *, saga_id: str, name: str, payload: str | None, early: bool, by: str | None, journal: str, as_json: bool
) -> None:
    """Send a saga what it waits for.

    The process that drives it goes on within about a second; one that nobody drives is gone on with by `amends resume`
    or `amends work`. A signal that the saga does not wait for is refused, unless it is sent --early.
    """
    from amends.cli.inputs import read_document

    who, value = author(by, journal), cast("Json", read_document(payload, option="--payload"))
    out = Output(as_json=as_json)

    async def whole() -> None:
        async with coordinator_at(journal) as coordinator:
            await coordinator.signal(saga_id, name, value, by=who, early=early)

    require_journal(journal)
    session.finish(whole())
    out.record("signal", {"saga": saga_id, "name": name, "by": who})
    out.say(f"saga {visible(saga_id)} has been sent {visible(name)}")


@saga.command()
@with_modules
@click.option("--completed", is_flag=True, help="Also those that have completed, and could still be cancelled.")
@with_journal
def check(*, modules: tuple[str, ...], completed: bool, journal: str, as_json: bool) -> int:
    """Say which unfinished sagas the modules could not go on with.

    For a deploy: run it with the new code before it is let loose on the journal. A saga is named whose definition, in
    its version, is not declared, or whose actions are missing or promise something else by now, with the step and what
    to do. The exit code is 1 if there is one.
    """
    from amends.cli.modules import load_modules
    from amends.runtime.coordinator.upgrade import unresumable
    from amends.runtime.declare.registry import PROCESS

    require_named(modules)
    out = Output(as_json=as_json)

    async def whole() -> list[Unresumable]:
        async with opened_to_read(journal) as opened:
            await session.remember(opened)
            return [one async for one in unresumable(opened, PROCESS, completed=completed)]

    with out.kept_clean():
        load_modules(modules)
        found = session.finish(whole())
    for one in found:
        out.record("unresumable", asdict(one))
        out.say((visible(one.saga), "bold"), f" {visible(one.definition)}/{one.version}, {one.status}")
        for obstacle in one.obstacles:
            more = f" and {obstacle.steps - 1} more" if obstacle.steps > 1 else ""
            where = "" if obstacle.step is None else f"step {visible(obstacle.step)}{more}: "
            out.say(f"  {where}{visible(obstacle.what)}")
            out.say(f"  → {visible(obstacle.do)}")
    if not found:
        out.say("every saga that is unfinished can be gone on with")
    return 1 if found else 0


@saga.command()
@with_saga
@click.option("--why", metavar="TEXT", required=True, help="Who asks for it, and what for.")
@click.option("--lift", is_flag=True, help="Let it be pruned again.")
@with_author
@with_journal
def retain(*, saga_id: str, why: str, lift: bool, by: str | None, journal: str, as_json: bool) -> None:
    """Keep what a saga held, however old it is: `amends prune` leaves it alone."""
    _retain(saga_id, why=why, lift=lift, who=author(by, journal), journal=journal, out=Output(as_json=as_json))


@saga.command("hold", hidden=True)
@with_saga
@click.option("--why", metavar="TEXT", required=True)
@click.option("--lift", is_flag=True)
@with_author
@with_journal
@renamed("saga hold", "saga retain")
def _hold(*, saga_id: str, why: str, lift: bool, by: str | None, journal: str, as_json: bool) -> None:
    """Keep what a saga held, under the name that this had until 0.1."""
    _retain(saga_id, why=why, lift=lift, who=author(by, journal), journal=journal, out=Output(as_json=as_json))


def _retain(saga_id: str, *, why: str, lift: bool, who: str, journal: str, out: Output) -> None:

    async def whole() -> None:
        async with coordinator_at(journal) as coordinator:
            if lift:
                await coordinator.lift(saga_id, why=why, by=who)
            else:
                await coordinator.retain(saga_id, why=why, by=who)

    require_journal(journal)
    session.finish(whole())
    out.record("hold", {"saga": saga_id, "is_held": not lift, "by": who})
    out.say(f"saga {visible(saga_id)} is {'not retained any more' if lift else 'retained'}")


@saga.command()
@with_saga
@with_modules
@click.option("--to", metavar="NAME", help="Back to this checkpoint.")
@click.option("--last", metavar="N", type=click.IntRange(min=1), help="Back by its last steps that stand, so many.")
@click.option("--plan", is_flag=True, help="Change nothing: say what would be taken back, and what cannot be.")
@click.option("--mitigate", is_flag=True, hidden=True)  # of all of it: as `cancel` has it
@click.option("--why", default="rolled back", show_default=True, help="The reason, as it goes on record.")
@with_author
@with_signature
@with_journal
def rollback(  # noqa: PLR0913 - one for each option
    *,
    saga_id: str,
    modules: tuple[str, ...],
    to: str | None,
    last: int | None,
    plan: bool,
    mitigate: bool,
    why: str,
    by: str | None,
    ssh_key: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """Take a part of a saga back, and have it go on from there.

    Give --to or --last; all of a saga is taken back by `amends saga cancel`. The exit code is 0 once the saga has
    ended, completed or rolled back, 4 if it needs a person, 6 if another process is at it; with --plan, 0 if nothing
    stands in the way, else 4.
    """
    if mitigate and (to is not None or last is not None):
        raise click.UsageError("--mitigate takes all of a saga back; leave out --to and --last")
    partly = to is not None or last is not None
    who = author(by, journal)

    async def asked(coordinator: Coordinator, state: Saga) -> Ended:
        await session.require_free(coordinator.journal, state, partly=partly)
        session.require_known(state, coordinator.registry, forward=partly)
        return await proved(
            lambda proof: coordinator.rollback(
                saga_id, to=to, last=last, why=why, by=who, mitigate=mitigate, proof=proof
            ),
            coordinator.roster,
            who=who,
            ssh_key=ssh_key,
        )

    if plan:
        code = show_plan(
            saga_id, modules=modules, to=to, last=last, mitigate=mitigate, journal=journal, as_json=as_json
        )
    else:
        code = session.settle(asked, saga_id, modules=modules, address=journal, as_json=as_json)
    if not partly:
        hint_renamed("saga rollback ID", "saga cancel ID")
    return code


_FIELDS: Final = ("order", "step", "topic", "undoes", "certain", "why_not", "mitigates")


def show_plan(
    saga: str,
    *,
    modules: Iterable[str],
    to: str | None = None,
    last: int | None = None,
    mitigate: bool,
    journal: str,
    as_json: bool,
) -> int:
    """The exit code: 0 where nothing stands in the way, 4 where something does."""
    from amends.cli.modules import load_modules
    from amends.runtime.coordinator.preview import planned
    from amends.runtime.declare.registry import PROCESS
    from amends.runtime.drive.kinship import counted_on, unmitigated_below

    out = Output(as_json=as_json)

    async def whole() -> int:
        async with opened_to_read(journal) as opened:
            await session.remember(opened, saga=saga)
            state = await load(opened, SagaId(saga))
            counted = "" if state.begun is None else await counted_on(opened, state.id, state.begun)
            below = await unmitigated_below(opened, state) if mitigate else ()
            plan = planned(state, PROCESS, to=to, last=last, counted_on=counted, mitigate=mitigate, unmitigated=below)
        for step in plan.steps:
            out.record("planned", {name: getattr(step, name) for name in _FIELDS})
        for line in str(plan).split("\n"):
            order, dot, rest = line.partition(". ") if line.startswith("  ") else ("", "", line)
            out.say_beside((f"{order}{dot}",), visible(rest))
        return 0 if plan.is_clean else 4

    with out.kept_clean():
        load_modules(modules)
    return session.finish(whole())
