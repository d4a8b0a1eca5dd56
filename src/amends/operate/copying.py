"""Copying a whole journal to another store: marked at both ends, checked before it counts, sealed where it came from.

The marks are set in an order that leaves no moment with two journals that can be written, or with one that is half
there; see journal.port.transfer. Wherever a copy is interrupted, the same command goes on, or `abandon` undoes it.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from amends.addresses import journal_file, key_place, open_journal, shown, transfer
from amends.clock import SystemClock
from amends.errors import InputError, JournalDamagedError, RefusedError
from amends.evidence.sign.keys import beside, chosen_by
from amends.journal.port.transfer import (
    ARRIVING,
    COMPLETE,
    COPYING,
    MOVED,
    TABLES,
    CopyMark,
    Transfer,
    chunks,
)
from amends.journal.tree import Tree, leaf
from amends.operate.reading import require_journal
from amends.text import counted

ROWS: Final = 1_000
_TRIES: Final = 20


class CopiedJournal(NamedTuple):
    """`key`: where the key that signs is for the copy, as far as can be seen from here."""

    sagas: int
    entries: int
    key: str


async def copy(source: str, target: str, *, group: str | None = None) -> CopiedJournal:
    """Copy it, or go on with a copy that was interrupted. Raises RefusedError where somebody works on the source."""
    _require_different(source, target)
    require_journal(source)
    with closing(transfer(source, group=group)) as ours, closing(transfer(target, group=group)) as theirs:
        if not _is_as_good_as_done(source, target, ours, theirs):
            _require_possible(source, target, ours, theirs)
            await _freeze(source, target, ours, theirs, group)
            _copy_all(ours, theirs)
            _require_equal(ours, theirs)
            theirs.set_mark(CopyMark(COMPLETE, place(source)))
        ours.freeze(CopyMark(MOVED, place(target)))
        theirs.set_mark(None)
        sagas, entries = (sum(1 for _ in theirs.rows(table)) for table in ("saga", "entry"))
    return CopiedJournal(sagas, entries, _hand_key_on(source, target))


def abandon(source: str, target: str, *, group: str | None = None) -> None:
    """Throw a copy away that is not complete. Raises RefusedError for one that is, or that was never begun."""
    require_journal(source)
    with closing(transfer(source, group=group)) as ours, closing(transfer(target, group=group)) as theirs:
        before, there = ours.mark(), theirs.mark()
        if before is not None and before.how == MOVED:
            raise RefusedError(f"{shown(source)} was moved to {before.place} for good; copy it back from there")
        is_begun = there is not None and there.place == place(source)
        if not is_begun and (before is None or before.place != place(target)):
            raise RefusedError(f"no copy of {shown(source)} to {shown(target)} is under way")
        if is_begun:
            theirs.clear()
            theirs.set_mark(None)
        ours.thaw()


def place(address: str) -> str:
    """Name a journal as the marks of a copy do."""
    path = journal_file(address)
    return shown(address) if path is None else str(path.absolute())


def _require_different(source: str, target: str) -> None:
    if place(source) == place(target):
        raise InputError("a journal cannot be copied to where it is; name another place")


def _is_as_good_as_done(source: str, target: str, ours: Transfer, theirs: Transfer) -> bool:
    """Whether all of it is there, and only the marks are not as they should be."""
    there = theirs.mark()
    return there == CopyMark(COMPLETE, place(source)) and ours.mark() in {
        CopyMark(COPYING, place(target)),
        CopyMark(MOVED, place(target)),
    }


def _require_possible(source: str, target: str, ours: Transfer, theirs: Transfer) -> None:
    before, there = ours.mark(), theirs.mark()
    if before == CopyMark(MOVED, place(target)) and there is None:
        _hand_key_on(source, target)
        raise RefusedError(f"{shown(source)} was moved there already, and all of it is there: open {place(target)}")
    if before is not None and before != CopyMark(COPYING, place(target)):
        what = "was moved" if before.how == MOVED else "is being copied"
        raise RefusedError(f"{shown(source)} {what} to {before.place}, and not to {shown(target)}")
    if there is not None and there.how in {MOVED, COPYING}:
        raise RefusedError(f"{shown(target)} is sealed: it was moved to {there.place} itself; name an empty place")
    if there is not None and there.place != place(source):
        raise RefusedError(f"{shown(target)} is the target or the source of another copy: {there.how} {there.place}")
    if there is None and not theirs.is_empty():
        raise RefusedError(f"{shown(target)} holds sagas already; a journal is copied to an empty place")


async def _freeze(source: str, target: str, ours: Transfer, theirs: Transfer, group: str | None) -> None:
    """Have nobody write to the source; everything in it is signed as far as can be, and has its position."""
    theirs.set_mark(CopyMark(ARRIVING, place(source)))
    if ours.mark() is None:
        journal = await open_journal(source, SystemClock(), journal_group=group)
        try:
            living = [one.name for one in await journal.workers() if not one.is_gone]
            if living:
                theirs.set_mark(None)
                raise RefusedError(
                    f"{counted(len(living), 'worker')} of {shown(source)} still live ({living[0]}): end them first, "
                    "see amends worker list"
                )
            await journal.seal()
        finally:
            await journal.close()
    for _ in range(_TRIES):
        ours.freeze(CopyMark(COPYING, place(target)))
        journal = await open_journal(source, SystemClock(), journal_group=group, signs=False)
        try:
            if not (await journal.unnumbered()).entries:
                return
            ours.thaw()
            await journal.seal()
        finally:
            await journal.close()
    raise RefusedError(f"{shown(source)} is written to all the time; end whoever does")


def _copy_all(ours: Transfer, theirs: Transfer) -> None:
    theirs.clear()
    for table in TABLES:
        for rows in chunks(ours.rows(table), ROWS):
            theirs.add(table, rows)


def _require_equal(ours: Transfer, theirs: Transfer) -> None:
    """The copy's entries, one by one, make the source's tree."""
    ((size, kept),) = ours.rows("tree")
    tree = Tree()
    for position, _, _, _, _, _, hashed in theirs.rows("entry"):
        if position != tree.size + 1:
            raise JournalDamagedError(f"the copy lacks the entry at position {tree.size + 1}; copy it again")
        tree.add(leaf(hashed))
    if (tree.size, tree.spelled()) != (size, kept) or [tuple(row) for row in theirs.rows("tree")] != [(size, kept)]:
        raise JournalDamagedError(
            "the copy's entries are not those that the source's tree stands for; see what is "
            "wrong with it: amends evidence verify"
        )


def _hand_key_on(source: str, target: str) -> str:
    """The key that nobody chose lies beside a file, or is this user's for a database: the copy gets it as well."""
    chosen = chosen_by(os.environ)
    if chosen:
        return chosen
    was, will = key_place(source), key_place(target)
    if was is None or will is None or not beside(was).exists():
        return ""
    with suppress(OSError):
        _copied_key(beside(was), beside(will))
    return str(beside(will)) if beside(will).exists() else str(beside(was))


def _copied_key(was: Path, will: Path) -> None:
    will.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(will, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, was.read_bytes())
        os.fsync(file)
    finally:
        os.close(file)
