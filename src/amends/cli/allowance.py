"""`amends saga raise-limit`: let a saga use up more than it was allowed, and go on."""

from __future__ import annotations

import click

from amends.cli.ids import with_saga
from amends.cli.options import author, with_author, with_journal, with_modules


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
    journal: str,
    as_json: bool,
) -> int:
    """Set a saga's limits higher. One that had stopped at its limit goes on.

    Without any amount, as much again is allowed of the limit that it has reached. The exit code is that of a run.
    """
    from amends.bootstrap import Coordinator
    from amends.cli import session
    from amends.core.saga import Saga
    from amends.runtime.handle import Ended

    who = author(by)

    async def asked(coordinator: Coordinator, state: Saga) -> Ended:
        session.require_known(state, coordinator.registry, forward=True)
        return await coordinator.raise_limit(
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
        )

    return session.settle(asked, saga_id, modules=modules, address=journal, as_json=as_json)
