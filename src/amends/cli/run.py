"""`amends run` and `amends resume`: drive sagas here, and wait for their end."""

from __future__ import annotations

import click

from amends.cli.options import with_journal


@click.command()
@click.argument("target", metavar="MODULE:SAGA")
@click.option("--input", "document", metavar="JSON|@FILE|-", help="The saga's input: JSON, a file of it, or stdin.")
@click.option(
    "--id", "saga_id", metavar="ID", help="The saga's id; the same id twice is one saga.  [default: a new one]"
)
@click.option("--env", default="development", show_default=True, help="Where it runs, as the gate is told.")
@click.option("--actor", default="system:local", show_default=True, help="On whose behalf it runs.")
@click.option(
    "--label", "labels", metavar="NAME=VALUE", multiple=True, help="A note on it; may be given several times."
)
@with_journal
def run(
    *,
    target: str,
    document: str | None,
    saga_id: str | None,
    env: str,
    actor: str,
    labels: tuple[str, ...],
    journal: str,
    as_json: bool,
) -> int:
    """Run a saga to its end, and show what happens as it happens.

    MODULE is imported with the working directory on the path; SAGA is the name of a saga in it. The exit code says how
    it ended: 0 completed, 3 rolled back, 4 incident, 5 denied, 6 not over yet.
    """
    import asyncio

    from amends.bootstrap import Coordinator
    from amends.cli.inputs import read_document, read_labels
    from amends.cli.modules import find_saga
    from amends.cli.output import Output, hint
    from amends.cli.session import exit_code, finish, followed, tell_ended
    from amends.evidence.timeline import visible
    from amends.runtime.handle import Ended

    out, begun = Output(as_json=as_json), list[str]()

    async def whole() -> Ended:
        async with Coordinator.open(journal, env=env) as coordinator:
            handle = await coordinator.start_bound(
                definition, named, id=saga_id, actor=actor, labels=read_labels(labels)
            )
            begun.append(handle.id)
            out.say("saga ", (visible(handle.id), "bold"))
            try:
                return await followed(coordinator, handle.id, handle, out)
            except asyncio.CancelledError:
                hint("stopping as soon as what runs has ended; Ctrl-C again stops at once")
                raise

    with out.kept_clean():
        definition = find_saga(target)
        named = definition.bind_document(read_document(document))
        try:
            ended = finish(whole())
        except KeyboardInterrupt:
            return _interrupted(begun, journal, target.partition(":")[0])
    tell_ended(out, ended)
    return exit_code(ended)


@click.command()
@click.argument("modules", metavar="MODULE…", nargs=-1, required=True)
@with_journal
def resume(*, modules: tuple[str, ...], journal: str, as_json: bool) -> int:
    """Go on with the sagas that were left unfinished.

    The MODULEs are imported first: a saga is taken up where one of them declares it and no process drives it. The exit
    code is 0 if none of the resumed sagas needs a person, and 4 if one does.
    """
    from amends.bootstrap import Coordinator
    from amends.cli import session
    from amends.cli.modules import load
    from amends.cli.output import Output
    from amends.runtime.handle import Ended

    out = Output(as_json=as_json)

    async def whole() -> list[Ended]:
        async with Coordinator.open(journal) as coordinator:
            all_ended = await coordinator.resume()
            await session.tell_left(coordinator)
            return all_ended

    with out.kept_clean():
        session.require_journal(journal)
        load(modules)
        all_ended = session.finish(whole())
    for ended in all_ended:
        session.tell_ended(out, ended)
    if not all_ended:
        out.say("nothing to resume")
    needed = any(session.exit_code(ended) == session.INCIDENT for ended in all_ended)
    return session.INCIDENT if needed else session.DONE


def _interrupted(begun: list[str], journal: str, module: str) -> int:
    """Ctrl-C: the coordinator has drained; say where that leaves the saga."""
    import asyncio

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
        hint(f"interrupted; saga {row.id} is unfinished; go on with: amends resume {module} --journal {journal}")
    return 130
