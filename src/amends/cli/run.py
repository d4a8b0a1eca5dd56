"""`amends run` and `amends resume`: drive sagas here, and wait for their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from amends.cli import configured
from amends.cli.options import with_input, with_journal, with_lease, with_modules, with_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amends.cli.output import Output
    from amends.runtime.definition import SagaDefinition
    from amends.runtime.limits import Limits
    from amends.runtime.settings import Settings


@click.command()
@click.argument("target", metavar="MODULE:SAGA|FILE")
@with_input
@click.option(
    "--id", "saga_id", metavar="ID", help="The saga's id; the same id twice is one saga.  [default: a new one]"
)
@click.option(
    "--env",
    default=configured.env,
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
    import asyncio

    from amends.bootstrap import Coordinator
    from amends.cli.inputs import read_input, read_labels
    from amends.cli.modules import find_saga, is_file
    from amends.cli.output import Output, hint
    from amends.cli.session import Stands, drive, exit_code, followed, standing, tell_ended
    from amends.evidence.timeline import visible

    out, begun = Output(as_json=as_json), list[str]()
    modules = [] if is_file(target) else [target.partition(":")[0]]

    async def whole() -> Stands:
        async with Coordinator.open(
            journal, policy=policy, env=env, environments=configured.environments(), settings=settings
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
    """What is wrong with these is said before a journal is made."""
    from amends.cli.inputs import read_policy
    from amends.runtime.checked import checked_actor

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
    from amends.cli import dry_run
    from amends.cli.inputs import read_labels
    from amends.runtime.checked import checked_actor, checked_labels

    asked = dry_run.Asked(
        definition=definition,
        named=named,
        actor=checked_actor(actor),
        env=env,
        labels=checked_labels(read_labels(labels)),
        limits=limits,
        policy=policy,
    )
    return dry_run.show_plan(out, asked, journal)


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
    from amends.cli.inputs import read_duration, read_limits
    from amends.runtime.options import Bounds

    own = definition.options
    settings = configured.settings(lease_s=read_duration(lease, "--lease") or own.lease_s)
    bounds = Bounds(read_duration(rollback, "--rollback"), attempts, compensation_attempts)
    return settings, {"bounds": bounds, "limits": read_limits(limits, own.limits)}


@click.command()
@with_modules
@with_policy
@with_lease
@with_journal
def resume(*, modules: tuple[str, ...], policy: str | None, lease: str | None, journal: str, as_json: bool) -> int:
    """Go on with the sagas that were left unfinished.

    The MODULEs are imported first: a saga is taken up where one of them declares it and no process drives it. A saga
    that was run from a YAML file needs none: the journal has the file as it was when the saga began. One that waits
    for people is taken up once they have answered, or their time is over. The exit code is 0 if none of the resumed
    sagas needs a person, 4 if one is an incident, else 6 if one waits for an approval, or if sagas are left that none
    of the MODULEs declares.
    """
    from amends.bootstrap import Coordinator
    from amends.cli import session
    from amends.cli.inputs import read_duration, read_policy
    from amends.cli.left import tell_left
    from amends.cli.modules import load
    from amends.cli.output import Output
    from amends.sagafile import remember

    out = Output(as_json=as_json)

    async def whole() -> tuple[list[session.Stands], int]:
        async with Coordinator.open(journal, policy=policy, settings=settings) as coordinator:
            await remember(coordinator.journal, show=out.show_output)
            resumed = await session.resumed(coordinator, out)
            unknown = await tell_left(coordinator, resumed, journal, out)
            return [await session.standing(coordinator, ended) for ended in resumed], unknown

    with out.kept_clean():
        settings = configured.settings(lease_s=read_duration(lease, "--lease"))
        session.require_journal(journal)
        load(modules)
        if policy is not None:
            read_policy(policy)
        stands, unknown = session.drive(whole())
    for ended, waits_for in stands:
        session.tell_ended(out, ended, waits_for, journal=journal, modules=modules)
    if unknown:
        sagas = "1 saga is" if unknown == 1 else f"{unknown} sagas are"
        out.say("nothing resumed; " * (not stands) + f"{sagas} left that no module named here declares")
    elif not stands:
        out.say("nothing to resume")
    codes = {*(session.exit_code(ended) for ended, _ in stands), session.NOT_OVER if unknown else session.DONE}
    return next((code for code in (session.INCIDENT, session.NOT_OVER) if code in codes), session.DONE)


def _interrupted(begun: list[str], journal: str, modules: list[str]) -> int:
    """Ctrl-C: the coordinator has drained; say where that leaves the saga."""
    import asyncio
    import shlex

    from amends.cli.hints import unconfigured
    from amends.cli.output import hint
    from amends.cli.session import opened_to_read
    from amends.core.values import SagaId
    from amends.journal.protocol import SagaRow

    async def found() -> SagaRow | None:
        async with opened_to_read(journal) as opened:
            return await opened.saga(SagaId(begun[0]))

    row = asyncio.run(found()) if begun and journal != ":memory:" else None
    if row is None:
        hint("interrupted; nothing is on record")
    elif row.status.ended:
        hint(f"interrupted; saga {row.id} is {row.status} all the same")
    else:
        again = shlex.join(["amends", "resume", *unconfigured(modules), "--journal", journal])
        hint(f"interrupted; saga {row.id} is unfinished; go on with: {again}")
    return 130
