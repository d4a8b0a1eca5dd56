"""Work that waits in review, at the command line: a word of it, and the commands to look at it and land it."""

from __future__ import annotations

import os
from typing import Final

from amends.cli.options import command
from amends.cli.output import Output
from amends.core.values import Json, SagaId
from amends.evidence.texts import FILES_MARK, visible
from amends.journal.protocol import Journal

_NEWEST: Final = 200
"""Sagas of a journal that are asked for the trees they work on."""


async def tell_review(out: Output, journal: Journal, saga: str, address: str) -> None:
    """Say which changesets a saga has left in review."""
    if not await _has_files(journal, SagaId(saga)):
        return
    from amends.runtime.files.reviewing import left_in_review

    for each in await left_in_review(journal, SagaId(saga)):
        found, at = each.changeset, tree_options(each.tree.root, each.tree.state)
        out.record("changeset", found.data())
        files = "1 file" if found.files == 1 else f"{found.files} files"
        lines = f"+{found.totals.added_lines} -{found.totals.removed_lines}"
        out.say(f"  changeset {visible(found.id)} waits in review ({files}, {lines}): nothing of it is in the tree yet")
        out.say(f"    {visible(command(address, 'changeset', 'diff', found.id, *at))}")
        out.say(f"    {visible(command(address, 'changeset', 'land', found.id, *at))}")


async def _has_files(journal: Journal, saga: SagaId) -> bool:
    """Whether any step works on files; what knows more of them is not imported for those who have none."""
    async for entry in journal.read(saga):
        args: Json = None if entry.is_removed else getattr(entry.event, "args", None)
        files = args.get("files") if isinstance(args, dict) else None
        if isinstance(files, dict) and FILES_MARK in files:
            return True
    return False


def tree_options(root: str, state: str | None) -> tuple[str, ...]:
    """The options that name a tree from here; none for the working directory."""
    here = os.path.realpath(".")
    real = os.path.realpath(root)
    near = os.path.relpath(real, here) if real.startswith(f"{here}{os.sep}") else real
    named = () if real == here else ("--root", near)
    return (*named, *(() if state is None else ("--state", state)))


def other_trees(address: str) -> list[tuple[str, str | None]]:
    """The trees that the journal's newest sagas work on, but for the working directory; none without a journal."""
    import asyncio

    from amends.bootstrap import journal_file
    from amends.cli.session import opened_to_read
    from amends.runtime.files.reviewing import Tree, trees_of

    async def asked() -> tuple[Tree, ...]:
        async with opened_to_read(address) as opened:
            return await trees_of(opened, _NEWEST)

    path = journal_file(address)
    trees = asyncio.run(asked()) if path is not None and path.exists() else ()
    return [(each.root, each.state) for each in trees if tree_options(each.root, each.state)]
