"""`amends evidence`: show, record, export, verify, checkpoint, key, rotate, forget, verifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from amends.cli.ids import with_optional_saga, with_saga, with_sagas
from amends.cli.options import Nouns, author, common, confirm, show_help, with_author, with_journal

if TYPE_CHECKING:
    from amends.cli.output import Output

_ENDS: Final = """\b
Exit codes of verify:
  0  everything is covered by a signature
  7  nothing is wrong, but some entries are not signed yet
  8  altered, missing, gone without a record, damaged, or not signed by the key
  9  the bundle cannot be read
"""

_key = click.option("--key", metavar="KEY|@FILE", help="The public key that you were given: itself, or a file of it.")
_checkpoint = click.option(
    "--checkpoint",
    metavar="NOTE|@FILE",
    help="A checkpoint that you kept: itself, a file of it, or a file of tree heads.",
)


@click.group(cls=Nouns, invoke_without_command=True, epilog=_ENDS)
@click.pass_context
def evidence(context: click.Context) -> None:
    """Show what happened, so that others can check it."""
    show_help(context)


@evidence.command()
@with_saga
@with_journal
@click.pass_context
def show(context: click.Context, *, saga_id: str, journal: str, as_json: bool) -> None:
    """Show one saga: the same as `amends saga show`."""
    from amends.cli.saga import show as show_saga

    context.invoke(show_saga, saga_id=saga_id, journal=journal, as_json=as_json)


@evidence.command()
@with_saga
@with_journal
def record(*, saga_id: str, journal: str, as_json: bool) -> None:
    """Print one saga's record: what failed, which rule spoke, what was taken back."""
    import asyncio
    import json

    from amends.cli import proof
    from amends.cli.output import Output

    found = asyncio.run(proof.record_of(journal, saga_id))
    out = Output(as_json=as_json)
    out.record("record", found)
    out.say(json.dumps(found, indent=2))


@evidence.command()
@with_sagas
@click.option("-o", "--output", "target", metavar="FILE", required=True, help="Where to; - for stdout.")
@_checkpoint
@with_journal
def export(*, saga_ids: tuple[str, ...], target: str, checkpoint: str | None, journal: str, as_json: bool) -> None:
    """Write a bundle that anybody can verify: of these sagas, or of the whole journal.

    With --checkpoint the bundle is made so that its reader can hold it against that checkpoint. The whole journal can
    always be held against one.
    """
    import asyncio

    from amends.cli import proof
    from amends.cli.output import Output
    from amends.evidence.heads import held_notes
    from amends.evidence.texts import counted

    out = Output(as_json=as_json)
    note = None if checkpoint is None else held_notes(proof.checkpoint_of(checkpoint))[-1]
    lines = asyncio.run(proof.write_bundle(journal, saga_ids or None, target, note))
    if target != "-":
        out.record("exported", {"file": target, "lines": lines})
        out.say(f"{target}: {counted(lines, 'line')}")


@evidence.command()
@click.argument("bundle", metavar="[BUNDLE]", required=False)
@_key
@_checkpoint
@click.option(
    "--removed-unrecorded",
    "may_be_gone",
    is_flag=True,
    help="Take what is gone for removed, where no entry says so: for what was removed before removals were on record.",
)
@click.option(
    "--recompute",
    "judges_again",
    is_flag=True,
    help="Judge each verdict again, by the policies and with the drills that are in the evidence.",
)
@with_journal
def verify(
    *,
    bundle: str | None,
    key: str | None,
    checkpoint: str | None,
    may_be_gone: bool,
    judges_again: bool,
    journal: str,
    as_json: bool,
) -> int:
    """Check a bundle offline, or, where none is given, the journal itself.

    For a bundle --key is needed: whoever made the bundle could have put any key in it. For a journal, without --key,
    the key counts that it says it began with; that shows damage, and not that somebody has replaced all of it. The exit
    code is 0 if all of it is as it was signed, 7 if not all is signed yet, 8 if it is not as it was signed, 9 if it
    cannot be read. With --recompute it is 8 too if a verdict is not what its policy says, or a drill was not as old as
    the gate was told; what the evidence does not have is counted as unknown.
    """
    import asyncio

    from amends.cli import proof
    from amends.cli.output import Output

    out = Output(as_json=as_json)
    pinned = None if key is None else proof.text_of(key, "--key")
    note = None if checkpoint is None else proof.checkpoint_of(checkpoint)
    if bundle is not None:
        code = proof.tell_bundle(out, bundle, pinned, note, may_be_gone=may_be_gone)
    else:
        code = asyncio.run(proof.tell_journal(out, journal, pinned, note, may_be_gone=may_be_gone))
    if not judges_again or code not in {0, proof.UNATTESTED}:
        return code
    from amends.cli.rejudged import tell_bundle, tell_journal

    is_held = tell_journal(out, journal) if bundle is None else tell_bundle(out, bundle)
    return code if is_held else proof.FAILED


@evidence.command()
@click.option("--new", "is_new", is_flag=True, help="Sign what came since, first; that needs the journal's key.")
@with_journal
def checkpoint(*, is_new: bool, journal: str, as_json: bool) -> None:
    """Print the newest checkpoint. Keep it elsewhere: what it covers can then not be rewritten unseen."""
    import asyncio

    from amends.cli import proof
    from amends.cli.output import Output

    out = Output(as_json=as_json)
    found = asyncio.run(proof.newest_checkpoint(journal, is_new=is_new))
    out.record("checkpoint", found._asdict())
    out.say(found.note.rstrip("\n"))


@evidence.command()
@with_journal
def key(*, journal: str, as_json: bool) -> None:
    """Print the journal's public key. Give it to whoever is to verify, by a way that they trust."""
    import asyncio

    from amends.cli import proof
    from amends.cli.output import Output

    out = Output(as_json=as_json)
    *before, newest = asyncio.run(proof.keys_of(journal))
    for signer in (*before, newest):
        out.record("key", {"key": signer.key, "at": signer.at, "is_newest": signer is newest})
    out.say(newest.key)


@evidence.command()
@click.option("--to", "target", metavar="FILE", help="Where to keep the new key.  [default: the old one's place]")
@click.option("--lost", is_flag=True, help="The old key is lost: go on without its signature.")
@with_journal
def rotate(*, target: str | None, lost: bool, journal: str, as_json: bool) -> None:
    """Change the key that signs. Both keys sign the change, so that whoever trusts the old one can trust the new one.

    With --lost only the new one does: whoever trusted the old key has to be told the new one.
    """
    import asyncio

    from amends.cli import proof
    from amends.cli.output import Output

    out = Output(as_json=as_json)
    signer = asyncio.run(proof.change_keys(journal, target, is_lost=lost))
    out.record("key", {"key": signer.key, "at": signer.at, "is_newest": True})
    out.say(signer.key)


@evidence.command()
@click.option(
    "--ended-before",
    "when",
    metavar="WHEN",
    help="A date (2026-03-31, in UTC), a time with its zone (2026-03-31T12:00+02:00), or an age: 90d, 12h.",
)
@click.option(
    "--already-gone",
    is_flag=True,
    help="Remove nothing: vouch for what an older version of amends removed, before removals were on record.",
)
@click.option("--why", metavar="TEXT", required=True, help="Who asks for it, and what for; it goes on record.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_author
@with_journal
def forget(
    *, when: str | None, already_gone: bool, why: str, yes: bool, by: str | None, journal: str, as_json: bool
) -> None:
    """Remove for good what sagas held that ended before a time.

    Arguments, results, errors and names of rules go; numbers, times, kinds and hashes of all entries stay, and so does
    everything that they prove. A saga that was forgotten can no longer be taken back. It is a person's decision, and
    each saga gets a signed entry that says whose and why. What somebody asked for themselves is left to another person,
    but in development.
    """
    import asyncio

    from amends.cli import proof
    from amends.cli.output import Output
    from amends.evidence.texts import counted

    if (when is None) == (not already_gone):
        raise click.UsageError("give either --ended-before or --already-gone")
    who, out = author(by), Output(as_json=as_json)
    if when is None:
        _vouch(out, journal, who, why, yes=yes)
        return
    ended_before = proof.moment_of(when)
    confirm(f"Remove what sagas held that ended before {proof.spelled_moment(ended_before)}?", yes=yes)
    done = asyncio.run(proof.forget(journal, ended_before, who, why))
    found = {"ended_before": ended_before, "entries": done.entries, "sagas": done.sagas, "refused": done.refused}
    out.record("forgotten", {**found, "by": who})
    out.say(f"removed what {counted(done.entries, 'entry', 'entries')} held")
    if done.refused:
        sagas = counted(done.refused, "saga")
        out.say(f"left alone: {sagas} that {who} asked for; another person may remove what was held")


def _vouch(out: Output, journal: str, who: str, why: str, *, yes: bool) -> None:
    import asyncio

    from amends.cli import proof
    from amends.evidence.texts import counted

    confirm("Vouch for every saga whose content is gone, and of which no entry says who removed it?", yes=yes)
    done = asyncio.run(proof.vouch(journal, who, why))
    out.record("vouched", {"sagas": done.sagas, "entries": done.entries, "by": who})
    entries = counted(done.entries, "entry", "entries")
    out.say(f"{who} vouches for what {entries} of {counted(done.sagas, 'saga')} held")


@evidence.command()
@common
def verifier(*, as_json: bool) -> None:
    """Print a program that verifies bundles, and needs nothing but Python.

    amends evidence verifier > verify.py; python verify.py BUNDLE --key KEY
    """
    from amends.evidence.printed import verifier_source

    if as_json:
        from amends.cli.output import Output

        Output(as_json=True).record("verifier", {"source": verifier_source()})
    else:
        click.echo(verifier_source(), nl=False)


@evidence.command()
@with_optional_saga
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="N", help="Leave out the journal's first N.")
@click.option("--source", default="/amends", show_default=True, help="What the events name as their source.")
@click.option("--follow", is_flag=True, help="Go on as entries come, until interrupted.")
@with_journal
def events(*, saga_id: str | None, after: int, source: str, follow: bool, journal: str, as_json: bool) -> None:  # noqa: ARG001 - it is JSON either way
    """Print every fact as a CloudEvent 1.0, a line of JSON each: of one saga, or of the whole journal.

    `amendsposition` is where the journal has it: give the last one that you have seen to --after.
    """
    from amends.cli import session, stream

    session.finish(stream.write_events(journal, saga_id, after=after, source=source, follow=follow))
