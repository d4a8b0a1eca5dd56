"""`amends journal`: make a journal in a database, copy one to another place, back one up and bring it back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from amends.addresses import is_database, shown
from amends.cli import config
from amends.cli.groups import Nouns, show_help
from amends.cli.options import common, with_journal
from amends.cli.session import NOT_OVER
from amends.cli.show.output import Output, hint
from amends.errors import InputError
from amends.text import counted, moment, visible

if TYPE_CHECKING:
    from amends.operate.backup import Backup


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def journal(context: click.Context) -> None:
    """Back a journal up and bring it back; make one in PostgreSQL, or copy one to another place."""
    show_help(context)


@journal.command()
@click.argument("file", metavar="FILE")
@with_journal
def backup(*, file: str, journal: str, as_json: bool) -> None:
    """Make a backup in FILE, as the journal is at one moment, while it is worked on.

    Every entry of it and every signature are looked over before it counts. The key that signs is not in it: keep that
    apart. Keep the tree head that is shown somewhere else, too: a restore is held against it.
    """
    from amends.operate.backup import back_up

    made = asyncio.run(back_up(journal, file, group=config.journal_group()))
    out = Output(as_json=as_json)
    out.record("backup", made._asdict())
    out.say(f"{visible(made.file)}: {counted(made.entries, 'entry', 'entries')}, {_until(made)}")
    if made.tree_head:
        out.say(made.tree_head.rstrip("\n"))


@journal.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--tree-head", metavar="NOTE|@FILE", help="A tree head that you kept: itself, a file of it, or of several."
)
@click.option("--position", type=click.IntRange(0), default=0, metavar="N", help="The last position that was seen.")
@click.option("--may-miss", is_flag=True, help="Restore it although entries are missing that were acknowledged.")
@with_journal
def restore(*, file: str, tree_head: str | None, position: int, may_miss: bool, journal: str, as_json: bool) -> int:
    """Bring a backup back to where no journal is, and say what of it is missing.

    A restored journal is the past: what was done since stands in the world, and not in it. Say how far the lost one had
    come, as far as you know: --tree-head that you kept, or --position, the id of the last event that was seen. Nothing
    is restored where entries are missing that were acknowledged by then, unless they --may-miss. Before anything is
    resumed, compare with the providers. The exit code is 0 where nothing is known to be missing, else 6.
    """
    from amends.operate.backup import restore as brought_back
    from amends.operate.proof import tree_head_of

    head = None if tree_head is None else tree_head_of(tree_head)
    found, missing = asyncio.run(
        brought_back(file, journal, tree_head=head, position=position, may_miss=may_miss, group=config.journal_group())
    )
    out = Output(as_json=as_json)
    out.record("restored", {**found._asdict(), "missing": missing})
    out.say(f"{visible(found.file)}: {counted(found.entries, 'entry', 'entries')}, {_until(found)}")
    if missing:
        out.say((f"{counted(missing, 'entry', 'entries')} after those are missing", "bold red"))
    out.say(f"{counted(found.under_way, 'saga')} of it under way: compare them with the providers before amends resume")
    hint(f"the key that signs belongs beside it: {visible(found.file)}.key")
    return NOT_OVER if missing else 0


def _until(found: Backup) -> str:
    return "and no entry in it" if found.until_at is None else f"the last of {moment(found.until_at)}"


@journal.command()
@with_journal
def migrate(*, journal: str, as_json: bool) -> None:
    """Make the journal's tables in a database of PostgreSQL, or bring them to what this version needs.

    For the owner of the database, before the first worker and after each upgrade; workers need fewer rights. Forward
    only: each step is a transaction, and there is none that leads back, so make a backup first. A file needs none of
    this: it is brought forward when it is opened.
    """
    if not is_database(journal):
        raise InputError("a file is made and brought forward when it is opened; --journal postgresql://… needs this")
    from amends.addresses import migrate_database

    before, after = migrate_database(journal)
    out = Output(as_json=as_json)
    out.record("migrated", {"journal": shown(journal), "from": before, "to": after})
    if before == after:
        out.say(f"{shown(journal)} has format {after} already")
    else:
        out.say(
            f"{shown(journal)}: from format {before} to {after}" if before else f"made a journal in {shown(journal)}"
        )


@journal.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--abandon", is_flag=True, help="Throw an interrupted copy away: FROM is written to again, TO is empty.")
@common
def copy(*, source: str, target: str, abandon: bool, as_json: bool) -> None:
    """Copy a whole journal, from a file to PostgreSQL or back: entries byte for byte, and all that belongs to them.

    Nobody may drive on FROM meanwhile: end its workers first. While it is copied, and for good once the copy is
    complete, FROM refuses every write, so that there are never two journals of one name; it can still be read. TO has
    to be empty, and is refused to everybody until it is complete. A copy that was interrupted goes on with the same
    command, or is thrown away with --abandon.
    """
    from amends.operate.copying import abandon as thrown_away, copy as copied

    out, group = Output(as_json=as_json), config.journal_group()
    if abandon:
        thrown_away(source, target, group=group)
        out.record("abandoned", {"from": shown(source), "to": shown(target)})
        out.say(f"{shown(source)} goes on where it is, and {shown(target)} is empty")
        return
    done = asyncio.run(copied(source, target, group=group))
    out.record("copied", {"from": shown(source), "to": shown(target), **done._asdict()})
    out.say(f"{done.entries} entries of {counted(done.sagas, 'saga')} went from {shown(source)} to {shown(target)}")
    out.say(f"{shown(source)} is sealed: it can be read, and nothing is written to it any more")
    out.say(f"its key has to be where workers find it: {done.key}" if done.key else "it has no key of its own")
