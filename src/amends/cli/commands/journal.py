"""`amends journal`: make a journal in a database, and copy one to another place."""

from __future__ import annotations

import asyncio

import click

from amends.addresses import is_database, shown
from amends.cli import config
from amends.cli.groups import Nouns, show_help
from amends.cli.options import common, with_journal
from amends.cli.show.output import Output
from amends.errors import InputError
from amends.text import counted


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def journal(context: click.Context) -> None:
    """Make a journal in PostgreSQL, bring it forward, or copy one to another place."""
    show_help(context)


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
