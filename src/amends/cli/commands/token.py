"""`amends token`: the tokens that a server knows its callers by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import click

from amends.addresses import is_server
from amends.bootstrap import Coordinator
from amends.cli import config
from amends.cli.groups import Nouns, show_help
from amends.cli.journal import served
from amends.cli.options import author, with_author, with_journal
from amends.cli.session import finish
from amends.cli.show.output import Output, hint
from amends.clock import SystemClock
from amends.errors import InputError
from amends.operate.tokens import SCOPES, NewToken, Token, Tokens, token_fields
from amends.source.marked import duration_s
from amends.text import moment, visible


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def token(context: click.Context) -> None:
    """Make, list and revoke the tokens that a server knows callers by."""
    show_help(context)


@token.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--scope", "scopes", type=click.Choice(SCOPES), multiple=True, required=True, help="What it may; several times."
)
@click.option("--definition", "definitions", metavar="GLOB", multiple=True, help="What it may run.  [default: *]")
@click.option("--expires", metavar="TIME", default="30d", show_default=True, help="How long it is good.")
@with_author
@with_journal
def create(
    *,
    name: str,
    scopes: tuple[str, ...],
    definitions: tuple[str, ...],
    expires: str,
    by: str | None,
    journal: str,
    as_json: bool,
) -> None:
    """Make a token for NAME, such as agent:shop or person:anna, and show its secret, which is kept nowhere.

    Whoever shows the secret to the server is NAME. run: start and drive sagas of these definitions; decide: answer
    what people are asked; view: read everything; admin: policies, pauses, people and tokens.
    """
    lasts_s = duration_s(expires)
    if lasts_s is None:
        raise InputError(f"--expires {expires} is no time of at most 366d; say 12h or 30d")
    who = author(by, journal)
    asked = {"name": name, "scopes": list(scopes), "definitions": list(definitions) or None, "expires": expires}

    async def whole() -> NewToken:
        if is_server(journal):
            fields = served(journal).send("/tokens", asked)
            return NewToken(_token(fields), str(fields["secret"]))
        async with Coordinator.open(journal, settings=config.settings()) as coordinator:
            return await Tokens(coordinator.journal, SystemClock()).create(
                name, scopes=scopes, definitions=definitions, lasts_s=lasts_s, by=who
            )

    made = finish(whole())
    out = Output(as_json=as_json)
    out.record("token", {**token_fields(made.token), "secret": made.secret})
    out.say(made.secret)
    until = moment(made.token.expires_at)
    hint(f"shown once: {visible(made.token.name)} may {', '.join(made.token.scopes)} until {until}")


@token.command("list")
@click.option("--all", "is_all", is_flag=True, help="Tokens too that were revoked or have expired.")
@with_journal
def list_tokens(*, is_all: bool, journal: str, as_json: bool) -> None:
    """List the tokens of a journal: for whom, what they may, until when, and who made them."""
    now = SystemClock().now()

    async def whole() -> tuple[Token, ...]:
        if is_server(journal):
            return tuple(map(_token, served(journal).fetch("/tokens", every="true")["items"]))
        async with Coordinator.open(journal, settings=config.settings()) as coordinator:
            tokens = Tokens(coordinator.journal, SystemClock())
            await tokens.refresh()
            return tokens.all()

    found = [one for one in finish(whole()) if is_all or one.is_good(now)]
    out = Output(as_json=as_json)
    if not found:
        out.say("there is no token")
    for one in found:
        out.record("token", token_fields(one))
        runs = f" of {', '.join(map(visible, one.definitions))}" if "run" in one.scopes else ""
        gone = f", revoked by {visible(one.revoked_by)}" if one.revoked_by else ""
        until = moment(one.expires_at)
        out.say(f"{one.id}  {visible(one.name)}  {', '.join(one.scopes)}{runs}  until {until}{gone}")


@token.command()
@click.argument("name", metavar="NAME|ID")
@click.option("--why", required=True, help="The reason, as it goes on record.")
@with_author
@with_journal
def revoke(*, name: str, why: str, by: str | None, journal: str, as_json: bool) -> None:
    """Have every token of NAME, or the one of ID, be good for nothing more."""
    who = author(by, journal)

    async def whole() -> tuple[Token, ...]:
        if is_server(journal):
            return tuple(
                map(_token, served(journal).send(f"/tokens/{quote(name, safe='')}/revoke", {"why": why})["items"])
            )
        async with Coordinator.open(journal, settings=config.settings()) as coordinator:
            return await Tokens(coordinator.journal, SystemClock()).revoke(name, by=who, why=why)

    out = Output(as_json=as_json)
    for one in finish(whole()):
        out.record("token", token_fields(one))
        out.say(f"token {one.id} of {visible(one.name)} is good for nothing any more")


def _token(fields: Mapping[str, Any]) -> Token:
    """A token as a server tells of it: its id is all that it says of the digest."""
    return Token(
        name=fields["name"],
        digest=fields["id"],
        scopes=tuple(fields["scopes"]),
        definitions=tuple(fields["definitions"]),
        by=fields["by"],
        made_at=fields["made_at"],
        expires_at=fields["expires_at"],
        revoked_by=fields["revoked_by"],
    )
