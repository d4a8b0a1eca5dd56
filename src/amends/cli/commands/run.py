"""`amends run`, `amends resume` and `amends work`: drive sagas here."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import click

from amends.addresses import is_database, is_server, shown
from amends.bootstrap import Coordinator
from amends.cli import config, session
from amends.cli.commands.plan import PlannedRun, show_plan
from amends.cli.inputs import read_duration, read_input, read_labels, read_limits, read_policy
from amends.cli.journal import opened_to_read
from amends.cli.modules import find_saga, is_file, load_modules
from amends.cli.options import with_input, with_journal, with_lease, with_modules, with_policy
from amends.cli.session import Stands, drive, exit_code, followed, standing, tell_ended
from amends.cli.show.hints import command, modules_for, read_begun, unconfigured
from amends.cli.show.output import Output, hint
from amends.cli.signing import with_root
from amends.clock import SystemClock
from amends.core.events import SagaCompleted, SagaHalted, SagaMitigated, SagaRolledBack, declared_in
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import InputError
from amends.journal.port.journal import Entry, Journal, SagaQuery, SagaRow
from amends.operate.reading import load, require_journal
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Limits
from amends.runtime.declare.names import checked_actor, checked_labels
from amends.runtime.engine.handle import Ended, ended
from amends.runtime.settings import Bounds, Settings
from amends.text import visible


@click.command()
@click.argument("target", metavar="MODULE:SAGA|FILE")
@with_input
@click.option(
    "--id", "saga_id", metavar="ID", help="The saga's id; the same id twice is one saga.  [default: a new one]"
)
@click.option(
    "--env",
    default=config.env,
    envvar="AMENDS_ENV",
    show_default="development",
    show_envvar=True,
    help="Where it runs, as the gate is told.",
)
@click.option("--actor", metavar="WHO", help="On whose behalf it runs.  [default: person:<login name>]")
@click.option(
    "--label", "labels", metavar="NAME=VALUE", multiple=True, help="A note on it; may be given several times."
)
@with_policy
@click.option(
    "--rollback", metavar="TIME", help="How long a whole rollback may take, such as 30s or 15m.  [default: 15m]"
)
@click.option(
    "--attempts", type=click.IntRange(1, 1000), metavar="N", help="Try no step more often, whatever its action says."
)
@click.option("--compensation-attempts", type=click.IntRange(1, 1000), metavar="N", help="The same for compensations.")
@click.option(
    "--limit",
    "limits",
    metavar="NAME=AMOUNT",
    multiple=True,
    help="What it may use up: failures, retries, seconds, steps, tokens, usd, spin; may be given several times.",
)
@with_lease
@with_root
@click.option("--wait", is_flag=True, help="Wait for the people who are asked, however long they take.")
@click.option("--plan", is_flag=True, help="Run nothing: say which steps it would take, and how each is judged.")
@with_journal
def run(  # noqa: PLR0913 - an option is a parameter
    *,
    target: str,
    document: str | None,
    input_as: str | None,
    saga_id: str | None,
    env: str | None,
    actor: str | None,
    labels: tuple[str, ...],
    policy: str | None,
    wait: bool,
    plan: bool,
    journal: str,
    as_json: bool,
    **bounds: Any,  # noqa: ANN401 - as `_bounds` takes them
) -> int:
    """Run a saga to its end, and show what happens as it happens.

    MODULE is looked for in the working directory too, last; SAGA is the name of a saga in it. FILE is a saga in
    YAML, whose steps are commands. The exit code says how it ended: 0 completed, 3 rolled back, 4 incident, 5 denied,
    6 not over yet. Where people are asked, this ends with 6 unless told to --wait; once they have answered,
    `amends resume` goes on.

    With --plan nothing is run and nothing written: the steps of a list, a graph or a file are shown in their order,
    with how the policy in force judges each, what needs people, and what could not be taken back. A function decides
    its steps as it runs; of it, what is known is shown. The exit code is 0.
    """
    out, begun = Output(as_json=as_json), list[str]()
    modules = [] if is_file(target) else [target.partition(":")[0]]

    async def whole() -> Stands:
        async with Coordinator.open(
            journal, policy=policy, env=env, environments=config.environments(), settings=settings
        ) as coordinator:
            handle = await coordinator.start_bound(
                definition, named, id=saga_id, actor=actor, labels=read_labels(labels), **asked
            )
            begun.append(handle.id)
            out.say("saga ", (visible(handle.id), "bold"))
            try:
                work = handle if wait else handle.halt()
                return await standing(coordinator, await followed(coordinator, handle.id, work, out))
            except asyncio.CancelledError:
                hint("stopping as soon as what runs has ended; Ctrl-C again stops at once")
                raise

    with out.kept_clean():
        definition = find_saga(target, show=out.show_output)
        named = definition.bind_document(read_input(document, input_as))
        settings, asked = _bounds(definition, **bounds)
        _check(actor, policy)
        if plan:
            return _show_plan(out, definition, named, actor, env, labels, asked["limits"], policy, journal)
        try:
            ended, waits_for = drive(whole())
        except KeyboardInterrupt:
            return _interrupted(begun, journal, modules)
    tell_ended(out, ended, waits_for, journal=journal, modules=modules)
    return exit_code(ended)


def _check(actor: str | None, policy: str | None) -> None:
    """Refuse what is wrong with these before a journal is made."""
    checked_actor(actor)
    if policy is not None:
        read_policy(policy)


def _show_plan(
    out: Output,
    definition: SagaDefinition,
    named: Mapping[str, Any],
    actor: str | None,
    env: str | None,
    labels: tuple[str, ...],
    limits: Limits | None,
    policy: str | None,
    journal: str,
) -> int:
    """Say what a run would do; the exit code."""
    asked = PlannedRun(
        definition=definition,
        named=named,
        actor=checked_actor(actor),
        env=env,
        labels=checked_labels(read_labels(labels)),
        limits=limits,
        policy=policy,
    )
    return show_plan(out, asked, journal)


def _bounds(
    definition: SagaDefinition,
    *,
    rollback: str | None,
    attempts: int | None,
    compensation_attempts: int | None,
    limits: tuple[str, ...],
    lease: str | None,
) -> tuple[Settings, dict[str, Any]]:
    """The settings of a process that runs this one saga, and what that starts with; what the line says comes first."""
    own = definition.options
    settings = config.settings(lease_s=read_duration(lease, "--lease") or own.lease_s)
    bounds = Bounds(read_duration(rollback, "--rollback"), attempts, compensation_attempts)
    return settings, {"bounds": bounds, "limits": read_limits(limits, own.limits)}


@click.command()
@with_modules
@with_policy
@with_lease
@with_root
@with_journal
def resume(*, modules: tuple[str, ...], policy: str | None, lease: str | None, journal: str, as_json: bool) -> int:
    """Go on with the sagas that were left unfinished.

    The MODULEs are imported first: a saga is taken up where one of them declares it and no process drives it. A saga
    that was run from a YAML file needs none: the journal has the file as it was when the saga began. One that waits
    for people is taken up once they have answered, or their time is over. The exit code is 0 if none of the resumed
    sagas needs a person, 4 if one is an incident, else 6 if one waits for an approval, or if sagas are left that none
    of the MODULEs declares.
    """
    out = Output(as_json=as_json)

    async def whole() -> tuple[list[session.Stands], int]:
        async with Coordinator.open(journal, policy=policy, settings=settings) as coordinator:
            await session.remember(coordinator.journal, show=out.show_output)
            resumed = await session.resume_all(coordinator, out)
            unknown = await tell_left(coordinator, resumed, journal, out)
            return [await session.standing(coordinator, ended) for ended in resumed], unknown

    with out.kept_clean():
        settings = config.settings(lease_s=read_duration(lease, "--lease"))
        require_journal(journal)
        load_modules(modules)
        if policy is not None:
            read_policy(policy)
        stands, unknown = session.drive(whole())
    for each, waits_for in stands:
        session.tell_ended(out, each, waits_for, journal=journal, modules=modules)
    if unknown:
        sagas = "1 saga is" if unknown == 1 else f"{unknown} sagas are"
        out.say("nothing resumed; " * (not stands) + f"{sagas} left that no module named here declares")
    elif not stands:
        out.say("nothing to resume")
    codes = {*(session.exit_code(ended) for ended, _ in stands), session.NOT_OVER if unknown else session.DONE}
    return next((code for code in (session.INCIDENT, session.NOT_OVER) if code in codes), session.DONE)


def _interrupted(begun: list[str], journal: str, modules: list[str]) -> int:
    """Ctrl-C: the coordinator has drained; say where that leaves the saga."""

    async def found() -> SagaRow | None:
        async with opened_to_read(journal) as opened:
            return await opened.saga(SagaId(begun[0]))

    row = asyncio.run(found()) if begun and journal != ":memory:" else None
    if row is None:
        hint("interrupted; nothing is on record")
    elif row.status.ended:
        hint(f"interrupted; saga {row.id} is {row.status} all the same")
    else:
        again = shlex.join(["amends", "resume", *unconfigured(modules), "--journal", shown(journal)])
        hint(f"interrupted; saga {row.id} is unfinished; go on with: {again}")
    return 130


_LOOK_S: Final = 5.0
"""So often the journal is looked through for sagas from files that are not known here yet."""


@click.command()
@with_modules
@with_lease
@with_root
@with_journal
def work(*, modules: tuple[str, ...], lease: str | None, journal: str, as_json: bool) -> None:
    """Drive sagas as they become due, until told to stop.

    A saga is taken up where one of the modules declares it, or it was run from a YAML file, and no process drives it:
    at once what was left unfinished, and later what becomes due, such as one whose approval somebody has granted.
    Through a server it makes the calls that sagas wait for, and goes on with those whose process has gone.
    Ctrl-C or SIGTERM end it: running attempts may finish for a while, and the rest is left to whoever comes next.
    """
    out = Output(as_json=as_json)
    if is_server(journal):
        if lease is not None:
            raise InputError("--lease: the server has the sagas, and this process only makes their calls; leave it out")
        with out.kept_clean():
            load_modules(modules)
            session.drive(_work_for(journal))
        return
    over: asyncio.Queue[SagaId] = asyncio.Queue()

    def note(entry: Entry) -> None:
        if isinstance(entry.event, SagaCompleted | SagaRolledBack | SagaMitigated | SagaHalted):
            over.put_nowait(entry.saga)

    async def tell(coordinator: Coordinator) -> None:
        while True:
            state = await load(coordinator.journal, await over.get())
            session.tell_ended(out, ended(state))

    async def keep_remembering(coordinator: Coordinator) -> None:
        while True:
            await SystemClock().sleep(_LOOK_S)
            await session.remember(coordinator.journal, show=out.show_output)

    async def whole() -> None:
        async with Coordinator.open(journal, settings=settings) as coordinator:
            coordinator.observe(note)
            await session.remember(coordinator.journal, show=out.show_output)
            beside = [asyncio.ensure_future(work) for work in (tell(coordinator), keep_remembering(coordinator))]
            hint(f"driving what is due in {visible(shown(journal))}; Ctrl-C stops")
            await _tell_of_others(coordinator.journal, journal)
            try:
                await coordinator.work()
            finally:
                for each in beside:
                    each.cancel()

    settings = config.settings(lease_s=read_duration(lease, "--lease"))
    require_journal(journal)
    with out.kept_clean():
        load_modules(modules)
        session.drive(whole())


async def _work_for(url: str) -> None:
    """Be a worker of a server, until told to stop; what runs then may end, and is reported."""
    async with Coordinator.connect(url) as coordinator:
        hint(f"making the calls that {visible(url)} asks for; Ctrl-C stops")
        working = asyncio.ensure_future(coordinator.work())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await working


async def _tell_of_others(opened: Journal, journal: str) -> None:
    """Say that a second worker on one file is for safety: its disk is shared, and not doubled."""
    if is_database(journal):
        return
    others = [row for row in await opened.workers() if not row.is_gone and row.pid not in {0, os.getpid()}]
    if others:
        pids = ", ".join(str(row.pid) for row in others[:_NAMED])
        hint(
            f"{len(others)} more on this file (process {pids}): that is for safety, not for speed; "
            "one process does as much as several"
        )


_GOING: Final = (SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.ROLLING_BACK)
_NAMED: Final = 20


async def tell_left(coordinator: Coordinator, resumed: Iterable[Ended], journal: str, out: Output) -> int:
    """Name what was not taken up; how many of them are not known here, and would be due as far as can be seen."""
    known, told = coordinator.registry.resumable_names(), {ended.id for ended in resumed}
    unknown, more = 0, 0
    async for row, is_driven in _going(coordinator.journal):
        if row.id in told:
            continue
        is_unknown = not is_driven and not row.open_approvals and f"{row.definition}/{row.version}" not in known
        unknown += is_unknown
        told.add(row.id)
        if len(told) > _NAMED:
            more += 1
        elif is_unknown:
            await _tell_unknown(coordinator.journal, row, journal, out)
        else:
            await _tell_waiting(coordinator, row, journal)
    if more:
        hint(f"and {more} more: {visible(command(journal, 'saga', 'list', '--all'))}")
    return unknown


async def _going(journal: Journal) -> AsyncIterator[tuple[SagaRow, bool]]:
    query = SagaQuery(statuses=_GOING, limit=200)
    while True:
        page = await journal.sagas(query)
        drivers = await journal.drivers([row.id for row in page.rows])
        for row in page.rows:
            driver = drivers.get(row.id)
            yield row, driver is not None and not driver.is_gone
        if page.cursor is None:
            return
        query = replace(query, before=page.cursor)


async def _tell_unknown(journal: Journal, row: SagaRow, address: str, out: Output) -> None:
    begun = await read_begun(journal, row.id)
    module = declared_in(begun)
    out.record("left", {"saga": row.id, "definition": row.definition, "status": row.status, "module": module or None})
    again = command(address, "resume", *(modules_for(begun) or ((module,) if module else ())))
    hint(f"{_name(row)} is left {row.status}: no module named here declares it; go on with: {visible(again)}")


async def _tell_waiting(coordinator: Coordinator, row: SagaRow, address: str) -> None:
    if row.status is not SagaStatus.WAITING:
        hint(f"{_name(row)} is left {row.status}: another process drives it")
    elif not row.open_approvals:
        hint(f"{_name(row)} waits: {visible(command(address, 'saga', 'show', row.id))}")
    for approval in await coordinator.approvals(saga=row.id) if row.open_approvals else ():
        hint(f"{_name(row)} waits for people: {visible(command(address, 'approval', 'show', approval.id))}")


def _name(row: SagaRow) -> str:
    return f"saga {visible(row.id)} ({visible(row.definition)})"
