"""The journal at an address: where it is, who shares it and who signs it. Nothing that drives sagas is imported."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amends.clock import Clock
from amends.errors import EvidenceKeyError, InputError, JournalAccessError
from amends.journal.port.journal import Journal
from amends.private import claimed
from amends.secrets import DigestKey

if TYPE_CHECKING:
    from amends.evidence.sign.notary import KeyNotary

JOURNAL_GROUP: Final = "AMENDS_JOURNAL_GROUP"
_SQLITE: Final = b"SQLite format 3\0"


async def open_journal(
    address: str,
    clock: Clock,
    *,
    evidence_key: str | None = None,
    journal_group: str | None = None,
    signs: bool = True,
    checked: bool = True,
    inline: bool = False,
) -> Journal:
    """The journal at an address: a path, `sqlite:///relative`, `sqlite:////absolute`, or `:memory:`.

    Whoever only looks does not sign, and needs no key. Only the store that is used is imported.
    `inline`: a file is read where it is asked, without threads, and nothing of it needs a loop to be awaited.
    """
    path = journal_file(address)
    group = sharing_group(journal_group)
    signs = signs and not has_another_key(path, evidence_key, group)
    notary = evidence_notary(path, evidence_key, group=group) if signs else None
    if path is None:
        from amends.journal.memory import MemoryJournal

        return MemoryJournal(clock, notary=notary)
    from amends.journal.sqlite import SqliteJournal

    is_new_here = os.fsencode(path.absolute()) not in claimed()
    try:
        return await SqliteJournal.open(path, clock, notary=notary, checked=checked, group=group, inline=inline)
    except JournalAccessError:
        if is_new_here and _is_of_another_kind(path):  # else closing it would drop the locks that SQLite has on it here
            raise JournalAccessError(f"{path} is no journal, and no database at all; name another file") from None
        raise


def _is_of_another_kind(path: Path) -> bool:
    """Whether a file that was refused is somebody's text or program, and not a journal to be mended."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
    except OSError:
        return False
    return bool(head) and head != _SQLITE


def sharing_group(name: str | None) -> int | None:
    """The group that shares a journal: by this name, else by AMENDS_JOURNAL_GROUP. Raises InputError for one that this
    machine does not have, or that this process is not in.
    """
    from amends.ownership import group_number

    wanted = name or os.environ.get(JOURNAL_GROUP)
    if not wanted:
        return None
    number = group_number(wanted)
    if os.geteuid() != 0 and number not in {os.getegid(), *os.getgroups()}:
        raise InputError(
            f"journal_group: this process is not in group {wanted}, which shares the journal; "
            f"run: sudo usermod -aG {shlex.quote(wanted)} $(id -un), and log in again"
        )
    return number


def has_another_key(journal: Path | None, evidence_key: str | None, group: int | None) -> bool:
    """Whether a group shares the journal, and another one of them has its key: then nobody signs here."""
    from amends.evidence.sign.keys import is_another_members

    return group is not None and journal is not None and is_another_members(journal, evidence_key, os.environ)


def evidence_notary(journal: Path | None, evidence_key: str | None = None, *, group: int | None = None) -> KeyNotary:
    """The signer of the journal at this path."""
    from amends.evidence.sign.keys import key_source
    from amends.evidence.sign.notary import KeyNotary

    return KeyNotary(key_source(journal, evidence_key, os.environ, group=group))


def digest_key(address: str, evidence_key: str | None = None, *, journal_group: str | None = None) -> DigestKey | None:
    """The key that digests of secrets are made with in the journal at an address; None where its key is not to be had.

    It follows from the key that signs, which lies outside the journal.
    """
    try:
        group = sharing_group(journal_group)
        notary = evidence_notary(journal_file(address), evidence_key, group=group)
        return DigestKey.of(notary.derived("digests of secrets"))
    except EvidenceKeyError:
        return None


def journal_file(address: str) -> Path | None:
    """The file that an address names; None for `:memory:`. Raises InputError for a kind that amends does not know."""
    if address == ":memory:":
        return None
    scheme, found, rest = address.partition("://")
    if found and scheme != "sqlite":
        raise InputError(f"{scheme}:// is no journal that amends knows; give a file's path, sqlite:///path or :memory:")
    return Path(rest.removeprefix("/") if found else address)
