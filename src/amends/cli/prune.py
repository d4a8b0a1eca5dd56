"""`amends prune`: remove what old sagas held, keep what proves that they were."""

from __future__ import annotations

from typing import Final

import click

from amends.cli import configured
from amends.cli.options import confirm, with_journal

_SYSTEM: Final = "system:local"


@click.command()
@click.option("--older-than", metavar="AGE", required=True, help="Sagas that ended longer ago than this: 90d, 12h.")
@click.option(
    "--keep-label",
    "keep",
    metavar="LABEL",
    multiple=True,
    help="Leave sagas with this label alone: a name, or name=value; may be given several times.",
)
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="At most so many sagas.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@click.option("--by", metavar="WHO", default=_SYSTEM, show_default=True, help="In whose name; not an agent's.")
@click.option("--why", metavar="TEXT", default="", help="What for.  [default: how old they are]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_journal
def prune(
    *,
    older_than: str,
    keep: tuple[str, ...],
    limit: int,
    dry_run: bool,
    by: str,
    why: str,
    yes: bool,
    journal: str,
    as_json: bool,
) -> None:
    """Remove for good what sagas held that ended long ago.

    Arguments, results, errors and labels go; numbers, times, kinds and hashes of all entries stay, and so does
    everything that they prove. Sagas that are unfinished, have something open, are held (`amends saga hold`) or have a
    label `hold` are left alone, and so are drills that were not withdrawn. A saga and all that it called go as one: as
    long as one of them has to stay, all of them do. A saga that was pruned can no longer be taken back, and has a
    signed entry that says who pruned it and why. On a terminal this asks first; elsewhere, give --yes.
    """
    import asyncio

    from amends.bootstrap import Coordinator
    from amends.cli.output import Output
    from amends.cli.session import require_journal
    from amends.evidence.texts import counted
    from amends.runtime.retention import Pruned

    out = Output(as_json=as_json)

    async def whole(*, dry: bool) -> Pruned:
        async with Coordinator.open(journal, settings=configured.settings()) as coordinator:
            return await coordinator.prune(older_than, keep=keep, limit=limit, dry_run=dry, by=by, why=why)

    require_journal(journal)
    done = asyncio.run(whole(dry=dry_run or not yes))
    if not dry_run and not yes:
        if done.left:
            sagas = counted(min(done.left, limit), "saga")
            confirm(f"Remove for good what {sagas} held that ended more than {older_than} ago?", yes=False)
        done = asyncio.run(whole(dry=False))
    counts = {"sagas": done.sagas, "entries": done.entries, "left": done.left, "refused": done.refused}
    out.record("pruned", {**counts, "families": done.families})
    if dry_run:
        out.say(f"sagas that would be pruned: {done.left}")
    else:
        also = f", {counted(done.families, 'family', 'families')} among them" if done.families else ""
        entries = counted(done.entries, "entry", "entries")
        out.say(f"pruned {counted(done.sagas, 'saga')}{also}, {entries}; left for the next time: {done.left}")
    if done.refused:
        out.say(
            f"left alone: {counted(done.refused, 'saga')} that {by} asked for; another person may prune what is left"
        )
