"""`amends engine`: engines of others that drive the sagas of a journal."""

from __future__ import annotations

import asyncio
from typing import Final

import click

from amends.cli.groups import Nouns, show_help
from amends.cli.journal import opened_to_read
from amends.cli.options import with_journal
from amends.cli.show.output import Output
from amends.clock import SystemClock
from amends.errors import InputError

_LET_GO_S: Final = 0.3
"""Temporal's SDK has threads of its own, which let go of an answer a moment after it was given. Python may not have
ended by then: the process would be aborted.
"""


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def engine(context: click.Context) -> None:
    """Tell Restate or Temporal what is to be driven."""
    show_help(context)


@engine.command()
@click.option("--restate", metavar="URL", help="Restate's ingress, as http://HOST:8080.")
@click.option("--temporal", metavar="HOST:PORT", help="Temporal's front end, as HOST:7233.")
@click.option("--namespace", metavar="NAME", default="default", show_default=True, help="Temporal's namespace.")
@click.option(
    "--name",
    metavar="NAME",
    default="amends",
    show_default=True,
    help="What the workers call it: Restate's virtual object, or Temporal's task queue.",
)
@with_journal
def sync(*, restate: str | None, temporal: str | None, namespace: str, name: str, journal: str, as_json: bool) -> None:
    """Tell an engine of every unfinished saga on a journal: one that is new, was lost, or comes from a backup.

    What it knows already it hears a second time, which changes nothing. Sagas that wait for people alone are told of
    once these have answered. RESTATE_AUTH_TOKEN and TEMPORAL_API_KEY are for servers that ask for one.
    """
    if (restate is None) == (temporal is None):
        raise InputError("name the engine: --restate URL or --temporal HOST:PORT")
    out = Output(as_json=as_json)
    work = (
        _restate(journal, restate, name) if restate is not None else _temporal(journal, temporal or "", namespace, name)
    )
    told = asyncio.run(work)
    out.say(f"told the engine of {told} saga{'' if told == 1 else 's'}")
    out.record("engine", {"told": told})


async def _restate(journal: str, url: str, name: str) -> int:
    try:
        from amends.adapters.restate import Ingress
    except ImportError as exc:
        raise _missing("restate", exc) from None
    from amends.adapters.engine import sync as tell

    ingress = Ingress(url, name=name)
    try:
        async with opened_to_read(journal) as opened:
            return await tell(opened, ingress.wake)
    finally:
        await ingress.close()


async def _temporal(journal: str, address: str, namespace: str, name: str) -> int:
    try:
        from amends.adapters.temporal import front_end
    except ImportError as exc:
        raise _missing("temporal", exc) from None
    from amends.adapters.engine import sync as tell

    try:
        wake = await front_end(address, namespace=namespace, task_queue=name)
        async with opened_to_read(journal) as opened:
            return await tell(opened, wake)
    finally:
        await SystemClock().sleep(_LET_GO_S)


def _missing(extra: str, exc: ImportError) -> InputError:
    return InputError(f"this takes an extra that is not installed here ({exc}): pip install 'amends[{extra}]'")
