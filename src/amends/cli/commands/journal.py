"""`amends journal`: make a journal in a database."""

from __future__ import annotations

import click

from amends.addresses import is_database, shown
from amends.cli.groups import Nouns, show_help
from amends.cli.options import with_journal
from amends.cli.show.output import Output
from amends.errors import InputError


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def journal(context: click.Context) -> None:
    """Make a journal in PostgreSQL, or bring it forward."""
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
