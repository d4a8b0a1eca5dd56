"""Backups of a journal: made while it is written to, and looked over when they are made and when they are brought back.

A restored journal is the past. So whoever brings one back says what they know of the one that is lost: a tree head that
was kept elsewhere, or the position of an entry that was seen. What was acknowledged by then and is not in the backup is
named, and nothing is restored unless they say that it may be missing.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from amends.addresses import copy_file, is_database, journal_file
from amends.core.transitions import SagaStatus
from amends.errors import InputError, JournalAccessError, JournalDamagedError, RefusedError
from amends.evidence.sign.note import held_notes, read_checkpoint, read_note
from amends.evidence.verify.examine import Conclusion
from amends.evidence.verify.verify import verify_journal
from amends.journal.port.journal import Journal, SagaQuery
from amends.operate.reading import opened_to_read, require_journal
from amends.text import counted

_GOING: Final = (SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.ROLLING_BACK, SagaStatus.PAUSED)
_PAGE: Final = 500


class Backup(NamedTuple):
    """A whole journal in a file: how many entries, until when, and how many sagas of it are under way.

    `tree_head` is the newest that is signed; empty where none is.
    """

    file: str
    entries: int
    until_at: int | None
    under_way: int
    tree_head: str


async def back_up(address: str, target: str, *, group: str | None = None) -> Backup:
    """Make a backup of a journal that may be written to meanwhile. Raises JournalDamagedError where it is no good."""
    source = _file(address)
    require_journal(address)
    place = Path(target)
    copy_file(source, place)
    with ExitStack() as unless_it_is_good:
        unless_it_is_good.callback(place.unlink, missing_ok=True)
        made = await _looked_over(place, group)
        unless_it_is_good.pop_all()
    return made


async def restore(
    backup: str,
    address: str,
    *,
    tree_head: str | None = None,
    position: int = 0,
    may_miss: bool = False,
    group: str | None = None,
) -> tuple[Backup, int]:
    """Bring a backup back to where no journal is; with how many acknowledged entries are missing.

    `tree_head`: one, or several, that were kept. `position`: of an entry that somebody has seen. Raises RefusedError
    where entries are missing that were acknowledged, unless they may.
    """
    place = _file(address)
    require_journal(backup)
    if place.exists():
        raise JournalAccessError(
            f"{address} is there; a backup is brought back to where no journal is, so move it away"
        )
    found = await _looked_over(Path(backup), group, tree_head)
    known = max([position, *_sizes(tree_head)])
    missing = max(0, known - found.entries)
    if missing and not may_miss:
        raise RefusedError(
            f"{counted(missing, 'entry', 'entries')} that {'was' if missing == 1 else 'were'} acknowledged "
            f"{'is' if missing == 1 else 'are'} not in {backup}: it ends at {found.entries}, and {known} was reached; "
            "look for a newer backup, or restore it all the same with --may-miss, and compare with the providers"
        )
    copy_file(Path(backup), place)
    return found._replace(file=str(place)), missing


def _file(address: str) -> Path:
    if is_database(address):
        raise InputError(
            "a journal in PostgreSQL is backed up by PostgreSQL, while it runs: pg_basebackup with its log, or pg_dump"
        )
    path = journal_file(address)
    if path is None:
        raise InputError("a journal in memory is gone with its process; give --journal the path of a file")
    return path


async def _looked_over(place: Path, group: str | None, tree_head: str | None = None) -> Backup:
    """Every entry and every signature of it; nothing is missing or altered. Raises JournalDamagedError."""
    async with opened_to_read(str(place), group=group) as journal:
        size = (await journal.tree()).size
        sizes = {one: note for one, note in _sizes(tree_head).items() if one <= size}
        report = await verify_journal(journal, checkpoint=sizes[max(sizes)] if sizes else None)
        if report.conclusion is Conclusion.FAILED:
            raise JournalDamagedError(
                f"{place} is not whole: {'; '.join((*report.troubles, *report.findings)[:3])}; take another one"
            )
        head = await journal.tree_head()
        last = [logged.entry.at async for logged in journal.log(after=size - 1)] if size else []
        return Backup(
            file=str(place),
            entries=size,
            until_at=last[-1] if last else None,
            under_way=await _under_way(journal),
            tree_head="" if head is None else head.note,
        )


def _sizes(tree_head: str | None) -> dict[int, str]:
    """How many entries each of the tree heads covers that somebody kept."""
    held = () if tree_head is None else held_notes(tree_head)
    return {read_checkpoint(read_note(one)).size: one for one in held}


async def _under_way(journal: Journal) -> int:
    count, cursor = 0, None
    while True:
        page = await journal.sagas(SagaQuery(statuses=_GOING, before=cursor, limit=_PAGE))
        count, cursor = count + len(page.rows), page.cursor
        if cursor is None:
            return count
