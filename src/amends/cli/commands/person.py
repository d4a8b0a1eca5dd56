"""`amends person`: whose keys prove which names, on this journal."""

from __future__ import annotations

import asyncio

import click

from amends.bootstrap import Coordinator
from amends.cli import config
from amends.cli.groups import Nouns, show_help
from amends.cli.options import author, with_author, with_journal
from amends.cli.session import finish
from amends.cli.show.output import Output
from amends.cli.signing import proved, read_public, with_root
from amends.core.state.deciders import normal
from amends.errors import UnknownError
from amends.evidence.proof.roster import EnrolledKey, Roster
from amends.runtime.declare.names import checked_actor
from amends.text import counted, moment, visible

_sign_with = click.option(
    "--sign-with",
    metavar="FILE",
    help="Sign the change with this key, which is enrolled already.  [default: one of yours in the SSH agent]",
)
_name = click.argument("name", metavar="NAME")


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def person(context: click.Context) -> None:
    """Enrol people with the keys that prove their names."""
    show_help(context)


@person.command()
@_name
@click.option("--ssh-key", metavar="FILE", required=True, help="Their public key, as in ~/.ssh/id_ed25519.pub.")
@click.option("--recovery", is_flag=True, help="A key that is kept elsewhere, and changes the roster alone.")
@click.option("--why", default="", help="The reason, as it goes on record.")
@_sign_with
@with_author
@with_root
@with_journal
def enrol(
    *,
    name: str,
    ssh_key: str,
    recovery: bool,
    why: str,
    sign_with: str | None,
    by: str | None,
    journal: str,
    as_json: bool,
) -> None:
    """Have a key prove a person's name.

    The first one is enrolled by whoever makes the journal. Its hash is the root: pin it, as root in amends.toml or with
    --root, and a journal that somebody has made anew is refused. Each later change is signed by a key that is enrolled.
    Ed25519 and ECDSA P-256 keys are taken, and those of either kind that hardware holds.
    """
    line, who = read_public(ssh_key), author(by)

    async def whole() -> Roster:
        async with Coordinator.open(journal, settings=config.settings()) as coordinator:
            return await proved(
                lambda proof: coordinator.enrol(name, line, by=who, why=why, recovery=recovery, proof=proof),
                coordinator.roster,
                who=who,
                ssh_key=sign_with,
            )

    roster = finish(whole())
    added = next(one for one in roster.keys.values() if one.key.line == line)
    out = Output(as_json=as_json)
    out.record("key", _fields(added, roster))
    out.say(f"{visible(added.person)} is enrolled: {added.key.fingerprint}")
    if len(roster.keys) == 1:
        out.say(f"the root of this journal: {roster.root}")
        out.say("  pin it, in amends.toml, where nobody else can write:")
        out.say(f'  root = "{roster.root}"')


@person.command("list")
@click.option("--all", "is_all", is_flag=True, help="Keys too that were revoked.")
@with_root
@with_journal
def list_people(*, is_all: bool, journal: str, as_json: bool) -> None:
    """List the keys that prove names."""
    roster, out = _roster(journal), Output(as_json=as_json)
    keys = list(roster.keys.values()) if is_all else roster.living()
    if not keys:
        out.say("nobody is enrolled, and names are believed")
    for one in keys:
        out.record("key", _fields(one, roster))
        _tell(out, one)


@person.command()
@click.argument("name", metavar="[NAME]", required=False)
@with_root
@with_journal
def show(*, name: str | None, journal: str, as_json: bool) -> None:
    """Show the root of the roster, and all keys that a person has had."""
    roster, out = _roster(journal), Output(as_json=as_json)
    named = None if name is None else checked_actor(name if ":" in name else f"person:{name}")
    keys = [one for one in roster.keys.values() if named is None or normal(one.person) == normal(named)]
    if named is not None and not keys:
        raise UnknownError(f"{named} is not enrolled; amends person list says who is")
    out.record("roster", {"root": roster.root, "entries": roster.number, "hash": roster.hash})
    out.say(f"root {roster.root or 'none: nobody is enrolled'}")
    for one in keys:
        out.record("key", _fields(one, roster))
        _tell(out, one)
    for trouble in roster.troubles:
        out.say(visible(trouble))


@person.command()
@_name
@click.option("--key", metavar="SHA256:…", default="", help="Which key, by its fingerprint.  [default: the only one]")
@click.option("--why", required=True, help="The reason, as it goes on record.")
@_sign_with
@with_author
@with_root
@with_journal
def revoke(
    *, name: str, key: str, why: str, sign_with: str | None, by: str | None, journal: str, as_json: bool
) -> None:
    """Have a key prove nothing more. What it has proved until now stands."""
    who = author(by)

    async def whole() -> Roster:
        async with Coordinator.open(journal, settings=config.settings()) as coordinator:
            return await proved(
                lambda proof: coordinator.revoke(name, key=key, why=why, by=who, proof=proof),
                coordinator.roster,
                who=who,
                ssh_key=sign_with,
            )

    roster = finish(whole())
    gone = max((one for one in roster.keys.values() if one.revoked is not None), key=lambda one: one.revoked or 0)
    out = Output(as_json=as_json)
    out.record("key", _fields(gone, roster))
    left = counted(len(roster.living()), "key")
    out.say(f"{visible(gone.person)} has the key {gone.key.fingerprint} no more; {left} left")


def _roster(journal: str) -> Roster:
    async def whole() -> Roster:
        async with Coordinator.open(journal, settings=config.settings()) as coordinator:
            return await coordinator.roster()

    return asyncio.run(whole())


def _fields(one: EnrolledKey, roster: Roster) -> dict[str, object]:
    return {
        "person": one.person,
        "fingerprint": one.key.fingerprint,
        "kind": one.key.kind,
        "key": one.key.line,
        "recovery": one.recovery,
        "entry": one.number,
        "at": one.at,
        "by": one.by,
        "revoked": one.revoked,
        "root": roster.root,
    }


def _tell(out: Output, one: EnrolledKey) -> None:
    more = " (recovery)" if one.recovery else ""
    gone = "" if one.revoked is None else f", revoked: {visible(one.revoked_why)}"
    out.say(f"{visible(one.person)}{more}  {one.key.kind}  {one.key.fingerprint}  since {moment(one.at)}{gone}")
