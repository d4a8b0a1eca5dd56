"""Commands to copy: what goes on with a saga, with the module that it needs, and what looks at its work in review.

A module is named as the journal remembers it, where the configuration has it not. A name out of a journal is shown and
never imported: whoever could write the journal could have any code run.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from typing import Final

from amends.addresses import is_server, shown
from amends.cli import config
from amends.cli.show.output import Output
from amends.core.events import SagaStarted, declared_in
from amends.core.words.values import BUILT_IN, Json, SagaId
from amends.evidence.story.commands import file_input
from amends.journal.port.journal import Journal
from amends.text import FILES_MARK, visible

PLACEHOLDER: Final = "MODULE"


def command(journal: str, *words: str) -> str:
    """A command about this journal, to be shown and copied: an id that somebody chose cannot make it another one.

    A connection string is shown without user and password: they are the reader's own, or AMENDS_JOURNAL has them.
    """
    named = () if journal == config.journal() else ("--journal", shown(journal))
    if words[:1] == ("resume",) and is_server(journal):  # it gives its journal to nobody, and work to whoever asks
        words = ("work", *words[1:])
    return shlex.join(("amends", *words, *named))


async def read_begun(journal: Journal, saga: str) -> SagaStarted | None:
    """The beginning of a saga; None where there is no such saga, or that was removed."""
    async for entry in journal.read(SagaId(saga)):
        return entry.event if not entry.is_removed and isinstance(entry.event, SagaStarted) else None
    return None


def modules_for(begun: SagaStarted | None) -> tuple[str, ...]:
    """Words that a command which takes up this saga has to name: none, its module, or a word that stands for it."""
    if begun is not None and (file_input(begun.input) is not None or begun.definition.startswith(BUILT_IN)):
        return ()
    module, known = declared_in(begun), config.modules()
    if module:
        return () if module in known else (module,)
    return () if known else (PLACEHOLDER,)


def options_for(begun: SagaStarted | None) -> tuple[str, ...]:
    """Words of `modules_for`, as options."""
    return tuple(word for module in modules_for(begun) for word in ("--module", module))


def unconfigured(modules: Iterable[str]) -> tuple[str, ...]:
    """The modules that a command was given, as the next one has to be: nothing where the configuration has them."""
    given, known = tuple(modules), config.modules()
    return () if set(given) <= set(known) else given


# -- work that waits in review ---------------------------------------------------------------------------------------


async def tell_review(out: Output, journal: Journal, saga: str, address: str) -> None:
    """Say which changesets a saga has left in review."""
    if not await has_files(journal, SagaId(saga)):
        return
    from amends.runtime.files.reviewing import left_in_review  # changesets and all: not for those who have none

    for each in await left_in_review(journal, SagaId(saga)):
        found, at = each.changeset, tree_options(each.tree.root, each.tree.state)
        out.record("changeset", found.data())
        files = "1 file" if found.files == 1 else f"{found.files} files"
        lines = f"+{found.totals.added_lines} -{found.totals.removed_lines}"
        out.say(f"  changeset {visible(found.id)} waits in review ({files}, {lines}): nothing of it is in the tree yet")
        out.say(f"    {visible(command(address, 'changeset', 'diff', found.id, *at))}")
        out.say(f"    {visible(command(address, 'changeset', 'land', found.id, *at))}")


async def has_files(journal: Journal, saga: SagaId) -> bool:
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
