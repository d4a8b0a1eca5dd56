"""`amends work`: drive sagas here as they become due, until told to stop."""

from __future__ import annotations

from typing import Final

import click

from amends.cli.options import with_journal, with_lease, with_modules

_LOOK_S: Final = 5.0
"""So often the journal is looked through for sagas from files that are not known here yet."""


@click.command()
@with_modules
@with_lease
@with_journal
def work(*, modules: tuple[str, ...], lease: str | None, journal: str, as_json: bool) -> None:
    """Drive sagas as they become due, until told to stop.

    A saga is taken up where one of the modules declares it, or it was run from a YAML file, and no process drives it:
    at once what was left unfinished, and later what becomes due, such as one whose approval somebody has granted.
    Ctrl-C or SIGTERM end it: running attempts may finish for a while, and the rest is left to whoever comes next.
    """
    import asyncio

    from amends.bootstrap import Coordinator
    from amends.cli import configured, session
    from amends.cli.inputs import read_duration
    from amends.cli.modules import load
    from amends.cli.output import Output, hint
    from amends.clock import SystemClock
    from amends.core.events import SagaCompleted, SagaHalted, SagaMitigated, SagaRolledBack
    from amends.core.values import SagaId
    from amends.evidence.timeline import visible
    from amends.journal.protocol import Entry
    from amends.runtime.handle import ended
    from amends.sagafile import remember

    out = Output(as_json=as_json)
    over: asyncio.Queue[SagaId] = asyncio.Queue()

    def note(entry: Entry) -> None:
        if isinstance(entry.event, SagaCompleted | SagaRolledBack | SagaMitigated | SagaHalted):
            over.put_nowait(entry.saga)

    async def tell(coordinator: Coordinator) -> None:
        while True:
            state = await session.load(coordinator.journal, await over.get())
            session.tell_ended(out, ended(state))

    async def keep_remembering(coordinator: Coordinator) -> None:
        while True:
            await SystemClock().sleep(_LOOK_S)
            await remember(coordinator.journal, show=out.show_output)

    async def whole() -> None:
        async with Coordinator.open(journal, settings=settings) as coordinator:
            coordinator.observe(note)
            await remember(coordinator.journal, show=out.show_output)
            beside = [asyncio.ensure_future(work) for work in (tell(coordinator), keep_remembering(coordinator))]
            hint(f"driving what is due in {visible(journal)}; Ctrl-C stops")
            try:
                await coordinator.work()
            finally:
                for each in beside:
                    each.cancel()

    settings = configured.settings(lease_s=read_duration(lease, "--lease"))
    session.require_journal(journal)
    with out.kept_clean():
        load(modules)
        session.drive(whole())
