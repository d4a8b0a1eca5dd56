"""`amends evidence`: records and bundles of a journal, their check, its keys and tree heads."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Final

import click

from amends.cli import config, session
from amends.cli.commands.prune import forget
from amends.cli.commands.saga import show as show_saga
from amends.cli.groups import Nouns, show_help
from amends.cli.ids import with_optional_saga, with_saga, with_sagas
from amends.cli.journal import opened_to_read
from amends.cli.options import OnceNamed, common, renamed, require_no_server, with_journal
from amends.cli.show.evidence import FAILED, UNATTESTED, UNREADABLE, tell_recomputed, tell_report
from amends.cli.show.output import Output, hint
from amends.cli.signing import with_root
from amends.clock import SystemClock
from amends.errors import EvidenceError
from amends.evidence.bundle import read_bundle, verifier_source
from amends.evidence.sign.keys import KEY_FILE
from amends.evidence.sign.note import held_notes
from amends.operate import proof
from amends.telemetry.cloudevents import cloud_event
from amends.text import counted, visible

_ENDS: Final = """\b
Exit codes of verify:
  0  everything is covered by a signature
  7  nothing is wrong, but some entries are not signed yet
  8  altered, missing, gone without a record, damaged, or not signed by the key
  9  the bundle cannot be read
"""

_key = click.option("--key", metavar="KEY|@FILE", help="The public key that you were given: itself, or a file of it.")
_tree_head = click.option(
    "--tree-head",
    "--checkpoint",
    "tree_head",
    cls=OnceNamed,
    metavar="NOTE|@FILE",
    help="A tree head that you kept: itself, a file of it, or a file of several.",
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
    context.invoke(show_saga, saga_id=saga_id, journal=journal, as_json=as_json)


@evidence.command()
@with_saga
@with_journal
def record(*, saga_id: str, journal: str, as_json: bool) -> None:
    """Print one saga's record: what failed, which rule spoke, what was taken back."""
    found = asyncio.run(proof.record_of(_place(journal), saga_id))
    out = Output(as_json=as_json)
    out.record("record", found)
    out.say(json.dumps(found, indent=2))


@evidence.command()
@with_sagas
@click.option("-o", "--output", "target", metavar="FILE", required=True, help="Where to; - for stdout.")
@_tree_head
@with_journal
def export(*, saga_ids: tuple[str, ...], target: str, tree_head: str | None, journal: str, as_json: bool) -> None:
    """Write a bundle that anybody can verify: of these sagas, or of the whole journal.

    With --tree-head the bundle is made so that its reader can hold it against that one. The whole journal can
    always be held against one.
    """
    out = Output(as_json=as_json)
    note = None if tree_head is None else held_notes(proof.tree_head_of(tree_head))[-1]
    lines = asyncio.run(proof.write_bundle(_place(journal), saga_ids or None, target, note))
    if target != "-":
        out.record("exported", {"file": target, "lines": lines})
        out.say(f"{target}: {counted(lines, 'line')}")
    _tell_left_out(journal)


def _tell_left_out(journal: str) -> None:
    """Say how far the positions in the log are behind, where they are."""
    behind = asyncio.run(proof.left_out(_place(journal)))
    if behind:
        what = counted(behind, "entry", "entries")
        hint(f"{what} without a position in the log yet: in their sagas' chains, and in no bundle and no tree head")


@evidence.command()
@click.argument("bundle", metavar="[BUNDLE]", required=False)
@_key
@_tree_head
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
@with_root
@with_journal
def verify(
    *,
    bundle: str | None,
    key: str | None,
    tree_head: str | None,
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
    the gate was told; what the evidence does not have is counted as unknown. Signed decisions are always judged; with
    --root each decision since that root has to be signed.
    """
    out = Output(as_json=as_json)
    pinned = None if key is None else proof.text_of(key, "--key")
    note = None if tree_head is None else proof.tree_head_of(tree_head)
    if bundle is None:
        require_no_server("evidence verify", journal)
    if bundle is not None:
        code = _verify_bundle(out, bundle, pinned, note, may_be_gone=may_be_gone)
    else:
        report = asyncio.run(
            proof.checked_journal(_place(journal), pinned, note, may_be_gone=may_be_gone, root=config.root())
        )
        if pinned is None:
            hint("the journal was held against the key that it names itself; give the one that you know with --key")
        _tell_left_out(journal)
        code = tell_report(out, report, is_journal=True)
    if not judges_again or code not in {0, UNATTESTED}:
        return code
    if bundle is None:
        read = asyncio.run(proof.read_journal(_place(journal)))
    else:
        with Path(bundle).open("rb") as file:
            read = read_bundle(file)
    return code if tell_recomputed(out, read) else FAILED


def _verify_bundle(out: Output, bundle: str, key: str | None, tree_head: str | None, *, may_be_gone: bool) -> int:
    try:
        report = proof.checked_bundle(bundle, key, tree_head, may_be_gone=may_be_gone, root=config.root())
    except EvidenceError as exc:
        hint(visible(f"{bundle}: {exc}"))
        return UNREADABLE
    return tell_report(out, report)


def _place(journal: str) -> proof.SharedJournal:
    return proof.SharedJournal(journal, config.journal_group())


@evidence.command()
@click.option("--new", "is_new", is_flag=True, help="Sign what came since, first; that needs the journal's key.")
@with_journal
def tree_head(*, is_new: bool, journal: str, as_json: bool) -> None:
    """Print the newest tree head. Keep it elsewhere: what it covers can then not be rewritten unseen."""
    _tell_tree_head(Output(as_json=as_json), journal, is_new=is_new)


@evidence.command("checkpoint", hidden=True)
@click.option("--new", "is_new", is_flag=True)
@with_journal
@renamed("evidence checkpoint", "evidence tree-head")
def _checkpoint(*, is_new: bool, journal: str, as_json: bool) -> None:
    """Print the newest tree head, under the name that this had until 0.1."""
    _tell_tree_head(Output(as_json=as_json), journal, is_new=is_new)


def _tell_tree_head(out: Output, journal: str, *, is_new: bool) -> None:
    found = asyncio.run(proof.newest_tree_head(_place(journal), is_new=is_new))
    out.record("checkpoint", found._asdict())
    out.say(found.note.rstrip("\n"))


@evidence.command()
@with_journal
def key(*, journal: str, as_json: bool) -> None:
    """Print the journal's public key. Give it to whoever is to verify, by a way that they trust."""
    out = Output(as_json=as_json)
    *before, newest = asyncio.run(proof.keys_of(_place(journal)))
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
    out = Output(as_json=as_json)
    signer = asyncio.run(proof.change_keys(_place(journal), target, is_lost=lost))
    if target is not None:
        hint(f"from now on, whoever writes to this journal needs {KEY_FILE}={visible(target)}")
    out.record("key", {"key": signer.key, "at": signer.at, "is_newest": True})
    out.say(signer.key)


evidence.add_command(forget)


@evidence.command()
@common
def verifier(*, as_json: bool) -> None:
    """Print a program that verifies bundles, and needs nothing but Python.

    amends evidence verifier > verify.py; python verify.py BUNDLE --key KEY
    """
    if as_json:
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
    session.finish(write_events(journal, saga_id, after=after, source=source, follow=follow))


_POLL_S: Final = 0.5


async def write_events(address: str, saga: str | None, *, after: int, source: str, follow: bool) -> None:
    """Write what is past this position, a line each; then, if asked to, what comes."""
    async with opened_to_read(address) as journal:
        while True:
            async for position, entry in journal.log(after=after):
                after = position
                if saga is None or entry.saga == saga:
                    event = cloud_event(entry, source=source) | {"amendsposition": position}
                    click.echo(json.dumps(event))
            if not follow:
                break
            await SystemClock().sleep(_POLL_S)
