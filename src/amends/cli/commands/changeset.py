"""`amends changeset`: look at file work that has not landed, and decide about it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Sized
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from amends.addresses import is_there, shown
from amends.bootstrap import Coordinator
from amends.changeset import (
    Changeset,
    Conflicted,
    Landed,
    Life,
    Summary,
    draft_digest,
    late_writes,
    library,
    list_changesets,
    pruning,
    require_conflict,
)
from amends.changeset.model.paths import unspell
from amends.changeset.views.probe import confinement_trouble
from amends.cli import config
from amends.cli.commands.conflicts import (
    Resolution,
    conflicts_seen,
    in_conflict,
    resolve_in_its_name,
    say_conflicts,
    say_resolved,
    tell_saga,
)
from amends.cli.groups import Nouns, show_help
from amends.cli.journal import opened_to_read
from amends.cli.options import author, common, with_author, with_journal
from amends.cli.session import ROLLED_BACK, Stands, drive, exit_code, standing, tell_ended
from amends.cli.show.hints import command, tree_options
from amends.cli.show.output import Output
from amends.cli.show.tables import Table
from amends.cli.show.timeline import diff_lines, with_tabs
from amends.clock import SystemClock
from amends.errors import ChangesetError, RefusedError
from amends.journal.port.journal import SagaRow
from amends.runtime.files.by_hand import is_free, owner_of, refuse_dropping
from amends.runtime.files.reviewing import WorkingTree, trees_of
from amends.runtime.files.verifying import secrets_of_owner
from amends.secrets import Secret, scrub
from amends.text import counted, lines_of, moment, visible

_NEWEST: Final = 200
"""Sagas of a journal that are asked for the trees they work on."""

F = TypeVar("F", bound=Callable[..., Any])

CONFLICT: Final = 4
_HEADS: Final = (("ID", 37), ("LIFE", 8), ("STEPS", 5), ("FILES", 5), ("OPENED", 19), ("NAME", 0))

_root = click.option(
    "--root",
    metavar="PATH",
    default=".",
    envvar="AMENDS_TREE",
    show_default=True,
    show_envvar=True,
    help="The tree that the changeset is of.",
)
_state = click.option(
    "--state",
    metavar="PATH",
    envvar="AMENDS_STATE",
    show_envvar=True,
    help="Its state directory, where it is not beside the tree.",
)
_id = click.argument("changeset_id", metavar="ID")


_orphan = click.option(
    "--orphan", is_flag=True, help="It was a saga's whose journal is gone for good: do it by hand, on no record."
)


def with_tree(command: F) -> F:
    return _root(_state(common(command)))


def with_owner(command: F) -> F:
    """For what changes one: a saga's changeset is changed through the saga, which a journal has."""
    return _orphan(_root(_state(with_journal(command))))


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def changeset(context: click.Context) -> None:
    """Look at file work that has not landed, and decide about it."""
    show_help(context)


@changeset.command("list")
@click.option("--all", "is_all", is_flag=True, help="Those too that are over.")
@_root
@_state
@with_journal
@click.pass_context
def list_all(
    context: click.Context, *, is_all: bool, root: str, state: str | None, journal: str, as_json: bool
) -> None:
    """List the changesets of a tree, oldest first.

    Where no tree is named, those of the trees that the newest sagas of the journal work on are listed too.
    """
    out, is_named = Output(as_json=as_json), state is not None
    is_named = is_named or context.get_parameter_source("root") is not ParameterSource.DEFAULT
    count = _list_tree(out, root, state, is_all=is_all)
    for other, kept_at in () if is_named else _other_trees(journal):
        try:
            count += _list_tree(out, other, kept_at, is_all=is_all, is_named=False)
        except (ChangesetError, OSError):
            continue  # a tree that is gone, or somebody else's: whoever names it is told
    if not count:
        out.say("no changesets" if is_all else "no open changesets")


def _list_tree(out: Output, root: str, state: str | None, *, is_all: bool, is_named: bool = True) -> int:
    """How many were listed."""
    over = {Life.LANDED, Life.MERGED, Life.DROPPED, Life.PRUNED}
    found = [each for each in list_changesets(root, state=state) if is_all or each.life not in over]
    conflicts = {each.id: conflicts_seen(root, each.id, state) for each in found}
    at = tree_options(root, state)
    if found and not is_named:
        out.say((f"of the tree {visible(root)}: {visible(shlex.join(at))}", "dim"))
    for each in found:
        out.record("changeset", {**each.data(), "conflicts": len(conflicts[each.id])})
    if found:
        Table(out, _HEADS, spare=("OPENED",)).say(list(map(_cells, found)))
    for each in found:
        if conflicts[each.id]:
            shown = visible(shlex.join(("amends", "changeset", "show", each.id, *at)))
            out.say((f"{each.id} is in conflict with the tree: {shown}", "yellow"))
    return len(found)


def _cells(each: Summary) -> tuple[str, ...]:
    return (each.id, each.life, str(len(each.steps)), str(each.files), moment(each.opened_at), visible(each.name))


@changeset.command()
@_id
@with_tree
def show(*, changeset_id: str, root: str, state: str | None, as_json: bool) -> None:
    """Show one changeset: its life, its steps, and what each changed."""
    out, found = Output(as_json=as_json), library.show(root, changeset_id, state=state)
    conflicts = conflicts_seen(root, changeset_id, state)
    out.record("changeset", {**found.data(), "conflicts": [each.data() for each in conflicts]})
    out.say(("changeset   ", "dim"), (visible(found.id), "bold"))
    if found.name:
        out.say(("name        ", "dim"), visible(found.name))
    out.say(("life        ", "dim"), found.life)
    out.say(("opened      ", "dim"), moment(found.opened_at))
    if found.saga:
        out.say(("saga        ", "dim"), visible(found.saga))
    if found.branch_of is not None:
        out.say(("branch of   ", "dim"), visible(found.branch_of))
    if found.landing is not None:
        out.say(("landing     ", "dim"), found.landing)
    for each in found.roots:
        out.say(("tree        ", "dim"), visible(each))
    for step in found.steps:
        lines = f"+{step.totals.added_lines} -{step.totals.removed_lines}"
        what = "dropped" if step.is_dropped else f"{_count(step.totals.files)}  {lines}"
        out.say((f"step {step.number:<7}", "dim"), f"{visible(step.name)}  {what}")
        for path in step.moved:
            out.say("            ", (f"changed by someone else meanwhile: {visible(path)}", "yellow"))
    say_conflicts(out, changeset_id, conflicts, root, state)


def _count(files: int) -> str:
    return counted(files, "file")


@changeset.command()
@_id
@click.option("--step", type=int, metavar="N", help="Of one step alone.")
@_root
@_state
@with_journal
def diff(*, changeset_id: str, step: int | None, root: str, state: str | None, journal: str, as_json: bool) -> None:
    """Print a unified diff of what it would change.

    The secrets that its saga's steps were given are left out, where the journal has the saga and the environment their
    values.
    """
    out, text = Output(as_json=as_json), library.diff(root, changeset_id, step=step, state=state)
    text = _untold(text, changeset_id, root, state, journal)
    out.record("diff", {"changeset": changeset_id, "step": step, "diff": text})
    for line in diff_lines(text):
        out.say(line)


@changeset.command()
@_id
@click.option("--verify", metavar="COMMAND", help="Run this over the result first; it has to end with 0.")
@click.option(
    "--wait", "wait_s", type=float, metavar="SECONDS", help="How long to stand in line.  [default: as needed]"
)
@with_author
@with_owner
def land(
    *,
    changeset_id: str,
    verify: str | None,
    wait_s: float | None,
    by: str | None,
    orphan: bool,
    root: str,
    state: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """Bring all of it into the tree, or nothing.

    One that a saga has left in review is landed by a saga of its own: judged by the policy, on record, and taken back
    when it is cancelled, or the saga whose work it is. Where that one is not over, it is refused.
    The exit code is 0 once it has landed, 4 if others changed the same or the command that verifies it said no, 5 if
    it is denied, and 6 if people are asked first.
    """
    out, found = Output(as_json=as_json), library.show(root, changeset_id, state=state)
    command = None if verify is None else shlex.split(verify)
    owner = _owner(journal, found, orphan=orphan)
    if owner is None or owner.pruned:
        code = _land_by_hand(out, _opened(found, root, state), command, wait_s)
    else:
        code = _land_in_its_name(out, found, author(by), command, wait_s, root=root, state=state, journal=journal)
    if code == CONFLICT:
        say_conflicts(out, changeset_id, conflicts_seen(root, changeset_id, state), root, state)
    return code


def _untold(text: str, changeset_id: str, root: str, state: str | None, journal: str) -> str:
    """A diff without the secrets that were given to those who made it."""

    async def known() -> tuple[Secret, ...]:
        async with opened_to_read(journal) as opened:
            row = await owner_of(opened, library.show(root, changeset_id, state=state))
            return () if row is None else await secrets_of_owner(opened, row.id)

    return scrub(text, asyncio.run(known()) if is_there(journal) else ())


def _owner(journal: str, found: Summary, *, orphan: bool) -> SagaRow | None:
    """The saga whose work it is. Raises RefusedError where it has one, and the journal does not have that."""

    async def asked() -> SagaRow | None:
        async with opened_to_read(journal) as opened:
            return await owner_of(opened, found)

    row = asyncio.run(asked()) if is_there(journal) else None
    if row is None and found.saga and not orphan:
        raise RefusedError(
            f"changeset {found.id} belongs to saga {found.saga}, which is not in the journal {shown(journal)}: name "
            "its journal with --journal or AMENDS_JOURNAL; if that is gone for good, --orphan does it by hand"
        )
    return row


def _land_in_its_name(
    out: Output,
    found: Summary,
    by: str,
    verify: list[str] | None,
    wait_s: float | None,
    *,
    root: str,
    state: str | None,
    journal: str,
) -> int:
    async def whole() -> Stands:
        async with Coordinator.open(journal, settings=config.settings()) as coordinator:
            handle = await coordinator.land(root, found.id, by=by, verify=verify or (), wait_s=wait_s, state=state)
            return await standing(coordinator, await handle.halt())

    with out.kept_clean():
        ended, waits_for = drive(whole())
    result = cast("dict[str, Any]", ended.result or {})
    if result.get("landed"):
        out.record("landed", {**result, "changeset": found.id, "saga": ended.id})
        _say_landed(out, result["applied"], result["merged"])
        out.say(f"  on record as saga {visible(ended.id)}; {visible(command(journal, 'saga', 'cancel', ended.id))}")
        return 0
    if result:
        out.record("conflicted", result["report"])
        _say_lines(out, result["text"])
        return CONFLICT
    tell_ended(out, ended, waits_for, journal=journal)
    return CONFLICT if exit_code(ended) == ROLLED_BACK else exit_code(ended)


@changeset.command()
@click.argument("path", metavar="PATH")
@click.option("--ours", "take", flag_value="ours", help="Take what the changeset has made.")
@click.option("--theirs", "take", flag_value="theirs", help="Take what is in the tree.")
@click.option("--merged", "take", flag_value="merged", help="Take the draft, as somebody has edited it.")
@click.option("--changeset", "changeset_id", metavar="ID", help="Where PATH is in conflict in several.")
@with_author
@with_owner
def resolve(
    *,
    path: str,
    take: str | None,
    changeset_id: str | None,
    by: str | None,
    orphan: bool,
    root: str,
    state: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """Resolve a conflict of a changeset with the tree; then it can land.

    PATH is seen from the tree. Its draft has both sides with marks around them: edit these away, and take it with
    --merged; `changeset show` says where it is. It is a step of the changeset. Of one that a saga has left in review
    it is done by a saga of its own, judged and on record, and a saga that waits for it is told. The exit code is 0 once
    it is resolved, or told, 5 if it is denied, and 6 if people are asked first.
    """
    out = Output(as_json=as_json)
    if take is None:
        raise click.UsageError("say how: --ours, --theirs or --merged")
    found = library.show(root, changeset_id or in_conflict(path, root, state), state=state)
    meant = require_conflict(root, found.id, path, take, state=state)
    draft = draft_digest(root, found.id, path, state=state) if take == "merged" else ""
    owner = _owner(journal, found, orphan=orphan)
    if owner is None or owner.pruned:
        with _opened(found, root, state) as opened:
            opened.resolve(meant, take, draft=draft)
        return say_resolved(out, found.id, path, take, root, state)
    said = Resolution(changeset=found.id, path=meant, take=take, draft=draft, by=author(by))
    if not owner.status.ended and tell_saga(out, said, owner, journal):
        return 0
    code = resolve_in_its_name(out, said, root=root, state=state, journal=journal)
    return code or say_resolved(out, found.id, path, take, root, state)


def _say_landed(out: Output, applied: Sized, merged: Sized) -> None:
    more = f", {len(merged)} merged" if merged else ""
    out.say(f"landed: {len(applied)} paths{more}")


def _land_by_hand(out: Output, changeset: Changeset, verify: list[str] | None, wait_s: float | None) -> int:
    with changeset as opened:
        ended = opened.land(verify=verify, wait_s=wait_s)
    if isinstance(ended, Landed):
        out.record("landed", ended.data())
        _say_landed(out, ended.applied, ended.merged)
        return 0
    if isinstance(ended, Conflicted):
        out.record("conflicted", ended.data())
        _say_lines(out, ended.text())
        return CONFLICT
    out.record("unverified", ended.data())
    _say_lines(out, ended.ran.stdout + ended.ran.stderr)
    out.say((f"not landed: the command ended with {ended.ran.returncode}", "red"))
    return CONFLICT


def _say_lines(out: Output, text: str) -> None:
    for line in lines_of(text):
        out.say(with_tabs(line))


def _opened(found: Summary, root: str, state: str | None) -> Changeset:
    """One that exists, with all its trees. Those of several have their state directories side by side."""
    if len(found.roots) == 1:
        return Changeset.open(root, id=found.id, state=state, saga=found.saga)
    beside = None if state is None else Path(state).absolute().parent
    return Changeset.open(*map(unspell, found.roots), id=found.id, state=beside, saga=found.saga)


def _opened_to_drop(
    changeset_id: str, root: str, state: str | None, journal: str, *, orphan: bool, whole: bool
) -> Changeset:
    """Raises RefusedError for one whose saga may still count on it, and can be taken back instead."""
    found = library.show(root, changeset_id, state=state)
    owner = _owner(journal, found, orphan=orphan)
    if owner is not None and not is_free(owner):
        raise refuse_dropping(changeset_id, owner, whole=whole)
    return _opened(found, root, state)


@changeset.command()
@_id
@click.option("--step", type=int, metavar="N", help="One step alone, also from under later ones.")
@with_owner
def drop(
    *,
    changeset_id: str,
    step: int | None,
    orphan: bool,
    root: str,
    state: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """Give a changeset up, or one step of it. A changeset stays for a while, and can be shown.

    A saga's is refused: `amends saga cancel` takes its work back. The exit code is 4 if later steps changed what the
    step had made; nothing is dropped then.
    """
    out = Output(as_json=as_json)
    with _opened_to_drop(changeset_id, root, state, journal, orphan=orphan, whole=step is None) as opened:
        if step is None:
            opened.drop()
            out.record("dropped", {"changeset": changeset_id})
            out.say(f"dropped: {changeset_id}")
            return 0
        ended = opened.drop_step(step)
    if isinstance(ended, Conflicted):
        out.record("conflicted", ended.data())
        _say_lines(out, ended.text())
        return CONFLICT
    out.record("dropped", ended.data())
    out.say(f"dropped step {ended.number}  {visible(ended.name)}")
    return 0


@changeset.command()
@_id
@click.option("--to", type=int, metavar="N", required=True, help="The step that stays the newest; 0: none stays.")
@with_owner
def rewind(
    *, changeset_id: str, to: int, orphan: bool, root: str, state: str | None, journal: str, as_json: bool
) -> None:
    """Drop the newest steps of a changeset, one after the other.

    A saga's is refused: `amends saga rollback` takes its steps back.
    """
    out = Output(as_json=as_json)
    with _opened_to_drop(changeset_id, root, state, journal, orphan=orphan, whole=False) as opened:
        for each in opened.rewind(to):
            out.record("dropped", each.data())
            out.say(f"dropped step {each.number}  {visible(each.name)}")


@changeset.command()
@_id
@with_tree
def keep(*, changeset_id: str, root: str, state: str | None, as_json: bool) -> None:
    """Let a changeset that is over stay for good."""
    out, kept = Output(as_json=as_json), library.keep(root, changeset_id, state=state)
    out.record("changeset", kept.data())
    out.say(f"kept: {changeset_id}")


@changeset.command()
@click.option("--older", "days", type=float, default=7.0, show_default=True, metavar="DAYS", help="Over for this long.")
@click.option("--late", is_flag=True, help="Remove also what was written late: see `changeset late`.")
@with_tree
def prune(*, days: float, late: bool, root: str, state: str | None, as_json: bool) -> None:
    """Remove the contents of changesets that have been over for long."""
    out = Output(as_json=as_json)
    pruned = pruning.prune(root, older_s=days * 24 * 3600, late=late, state=state)
    for each in pruned:
        out.record("pruned", {"changeset": each})
        out.say(f"pruned: {each}")
    if not pruned:
        out.say("nothing to prune")


@changeset.command()
@with_tree
def queue(*, root: str, state: str | None, as_json: bool) -> None:
    """Show who lands, and who waits for it."""
    out, tickets = Output(as_json=as_json), library.queue(root, state=state)
    for place, each in enumerate(tickets):
        out.record("ticket", each.data())
        out.say(f"{'lands' if place == 0 else 'waits':<6}", f"{each.changeset}  {visible(each.name)}  pid {each.pid}")
    if not tickets:
        out.say("nobody lands")


@changeset.command()
@with_tree
def late(*, root: str, state: str | None, as_json: bool) -> None:
    """Show what was written to files that a landing had replaced already.

    Whoever had a file open before it was replaced, and writes to it afterwards, does not write into the tree any more.
    What they wrote is kept, and this says where.
    """
    out, found = Output(as_json=as_json), late_writes(root, state=state)
    for each in found:
        out.record("late", each.data())
        out.say((visible(each.path), "bold"), f"  replaced by {visible(each.name) or each.changeset} {moment(each.at)}")
        out.say(f"  kept in {visible(each.kept)}")
    if not found:
        out.say("nothing was written late")


@changeset.command()
@with_tree
def doctor(*, root: str, state: str | None, as_json: bool) -> None:
    """Say which providers of a view work here, and why the others do not."""
    out = Output(as_json=as_json)
    for each in library.doctor(root, state=state):
        out.record("provider", {"provider": each.provider, "usable": each.usable, "why": each.why})
        out.say((f"{each.provider:<9}", "bold"), ("works  " if each.usable else "not    "), each.why)
    trouble = confinement_trouble(SystemClock())
    out.record("confinement", {"usable": not trouble, "why": trouble})
    why = trouble or "commands run confined, unless told not to"
    out.say(("confine  ", "bold"), "not    " if trouble else "works  ", why)


def _other_trees(address: str) -> list[tuple[str, str | None]]:
    """The trees that the journal's newest sagas work on, but for the working directory; none without a journal."""

    async def asked() -> tuple[WorkingTree, ...]:
        async with opened_to_read(address) as opened:
            return await trees_of(opened, _NEWEST)

    trees = asyncio.run(asked()) if is_there(address) else ()
    return [(each.root, each.state) for each in trees if tree_options(each.root, each.state)]
