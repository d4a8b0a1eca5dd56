"""`amends prune`: remove what old sagas held, keep what proves that they were."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

import click

from amends.bootstrap import Coordinator
from amends.cli import config, session
from amends.cli.inputs import read_moment
from amends.cli.options import author, confirm, renamed, with_author, with_journal
from amends.cli.show.output import Output
from amends.cli.signing import proved, with_signature
from amends.clock import SystemClock
from amends.operate import proof
from amends.operate.reading import require_journal
from amends.runtime.coordinator.retention import Pruned
from amends.text import counted

_SYSTEM: Final = "system:local"

_ended_before = click.option(
    "--ended-before",
    "when",
    metavar="WHEN",
    help="A date (2026-03-31, in UTC), a time with its zone (2026-03-31T12:00+02:00), or an age: 90d, 12h.",
)
_already_gone = click.option(
    "--already-gone",
    is_flag=True,
    help="Remove nothing: vouch for what an older version of amends removed, before removals were on record.",
)


@click.command()
@click.option("--older-than", metavar="AGE", help="Sagas that ended longer ago than this: 90d, 12h.")
@_ended_before
@_already_gone
@click.option(
    "--keep-label",
    "keep",
    metavar="LABEL",
    multiple=True,
    help="Leave sagas with this label alone: a name, or name=value; may be given several times.",
)
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="At most so many sagas.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@click.option(
    "--by",
    metavar="WHO",
    help="In whose name; not an agent's.  [default: system:local; with --already-gone, person:<login name>]",
)
@click.option("--why", metavar="TEXT", default="", help="What for.  [default: how old they are]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_signature
@with_journal
def prune(  # noqa: PLR0913 - one for each option
    *,
    older_than: str | None,
    when: str | None,
    already_gone: bool,
    keep: tuple[str, ...],
    limit: int,
    dry_run: bool,
    by: str | None,
    why: str,
    yes: bool,
    ssh_key: str | None,
    journal: str,
    as_json: bool,
) -> None:
    """Remove for good what sagas held that ended long ago.

    Arguments, results, errors and labels go; numbers, times, kinds and hashes of all entries stay, and so does
    everything that they prove. Sagas that are unfinished, have something open, are retained (`amends saga retain`) or
    labelled `hold` are left alone, and so are drills that were not withdrawn. A saga and all that it called go as one:
    as long as one of them has to stay, all of them do. A saga that was pruned can no longer be taken back, and has a
    signed entry that says who pruned it and why. What a person asked for themselves is left to another person, but in
    development. On a terminal this asks first; elsewhere, give --yes.
    """
    if (older_than is not None) + (when is not None) + already_gone != 1:
        raise click.UsageError("give either --older-than, --ended-before or --already-gone")
    out = Output(as_json=as_json)
    if already_gone:
        if keep or dry_run:
            raise click.UsageError("--already-gone removes nothing; leave out --keep-label and --dry-run")
        _vouch(out, journal, author(by), why, yes=yes, ssh_key=ssh_key)
        return
    who = _SYSTEM if by is None else by
    if when is None:
        age: str | datetime = older_than or ""
        ended = f"ended more than {older_than} ago"
    else:
        moment = read_moment(when, "--ended-before", SystemClock().now())
        age = datetime.fromtimestamp(moment / 1000, tz=UTC)
        ended = f"ended before {proof.spelled_moment(moment)}"

    async def whole(*, dry: bool) -> Pruned:
        async with Coordinator.open(journal, settings=config.settings()) as coordinator:
            if dry:
                return await coordinator.prune(age, keep=keep, limit=limit, dry_run=True, by=who, why=why)
            return await proved(
                lambda sign: coordinator.prune(age, keep=keep, limit=limit, by=who, why=why, proof=sign),
                coordinator.roster,
                who=who,
                ssh_key=ssh_key,
            )

    require_journal(journal)
    done = asyncio.run(whole(dry=dry_run or not yes))
    if not dry_run and not yes:
        if done.left:
            sagas = counted(min(done.left, limit), "saga")
            confirm(f"Remove for good what {sagas} held that {ended}?", yes=False)
        done = asyncio.run(whole(dry=False))
    _tell_pruned(out, done, who, is_dry=dry_run)


def _tell_pruned(out: Output, done: Pruned, who: str, *, is_dry: bool) -> None:
    counts = {"sagas": done.sagas, "entries": done.entries, "left": done.left, "refused": done.refused}
    out.record("pruned", {**counts, "families": done.families})
    if is_dry:
        out.say(f"sagas that would be pruned: {done.left}")
    else:
        also = f", {counted(done.families, 'family', 'families')} among them" if done.families else ""
        entries = counted(done.entries, "entry", "entries")
        out.say(f"pruned {counted(done.sagas, 'saga')}{also}, {entries}; left for the next time: {done.left}")
    if done.refused:
        out.say(
            f"left alone: {counted(done.refused, 'saga')} that {who} asked for; another person may prune what is left"
        )


def _vouch(out: Output, journal: str, who: str, why: str, *, yes: bool, ssh_key: str | None) -> None:
    confirm("Vouch for every saga whose content is gone, and of which no entry says who removed it?", yes=yes)
    place, root = proof.SharedJournal(journal, config.journal_group()), config.root()
    done = session.finish(
        proved(
            lambda sign: proof.vouch(place, who, why, proof=sign, root=root),
            lambda: proof.roster_of(place, root),
            who=who,
            ssh_key=ssh_key,
        )
    )
    out.record("vouched", {"sagas": done.sagas, "entries": done.entries, "by": who})
    entries = counted(done.entries, "entry", "entries")
    out.say(f"{who} vouches for what {entries} of {counted(done.sagas, 'saga')} held")


@click.command(hidden=True)
@_ended_before
@_already_gone
@click.option("--why", metavar="TEXT", required=True, help="Who asks for it, and what for; it goes on record.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_author
@with_signature
@with_journal
@renamed("evidence forget", "prune")
def forget(
    *,
    when: str | None,
    already_gone: bool,
    why: str,
    yes: bool,
    by: str | None,
    ssh_key: str | None,
    journal: str,
    as_json: bool,
) -> None:
    """Remove for good what sagas held that ended before a time: `amends prune`, as a person's decision."""
    if (when is None) == (not already_gone):
        raise click.UsageError("give either --ended-before or --already-gone")
    who, out = author(by), Output(as_json=as_json)
    if when is None:
        _vouch(out, journal, who, why, yes=yes, ssh_key=ssh_key)
        return
    ended_before = read_moment(when, "--ended-before", SystemClock().now())
    confirm(f"Remove what sagas held that ended before {proof.spelled_moment(ended_before)}?", yes=yes)
    place, root = proof.SharedJournal(journal, config.journal_group()), config.root()
    done = session.finish(
        proved(
            lambda sign: proof.forget(place, ended_before, who, why, proof=sign, root=root),
            lambda: proof.roster_of(place, root),
            who=who,
            ssh_key=ssh_key,
        )
    )
    found = {"ended_before": ended_before, "entries": done.entries, "sagas": done.sagas, "refused": done.refused}
    out.record("forgotten", {**found, "by": who})
    out.say(f"removed what {counted(done.entries, 'entry', 'entries')} held")
    if done.refused:
        sagas = counted(done.refused, "saga")
        out.say(f"left alone: {sagas} that {who} asked for; another person may remove what was held")
