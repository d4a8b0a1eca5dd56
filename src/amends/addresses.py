"""The journal at an address: where it is, who shares it and who signs it. Nothing that drives sagas is imported."""

from __future__ import annotations

import os
import shlex
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from amends.clock import Clock
from amends.errors import EvidenceKeyError, InputError, JournalAccessError
from amends.journal.port.journal import Journal
from amends.journal.port.transfer import CopyMark, Transfer
from amends.private import claimed
from amends.secrets import DigestKey

if TYPE_CHECKING:
    from amends.evidence.sign.notary import KeyNotary

URL: Final = "AMENDS_URL"
TOKEN: Final = "AMENDS_TOKEN"  # noqa: S105 - where one is looked for
JOURNAL_GROUP: Final = "AMENDS_JOURNAL_GROUP"
_DATABASES: Final = frozenset({"postgresql", "postgres"})
_SERVERS: Final = frozenset({"http", "https", "unix"})
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
    """The journal at an address: a path, `sqlite:///relative`, `sqlite:////absolute`, `postgresql://…` or `:memory:`.

    Whoever only looks does not sign, and needs no key. Only the store that is used is imported.
    `inline`: it is read where it is asked, without threads, and nothing of it needs a loop to be awaited.
    """
    path = journal_file(address)
    if is_database(address):
        return await _open_database(address, clock, evidence_key, signs=signs, checked=checked, inline=inline)
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


async def _open_database(
    address: str, clock: Clock, evidence_key: str | None, *, signs: bool, checked: bool, inline: bool
) -> Journal:
    postgres = _postgres()
    place = key_place(address) if signs else None
    notary = None
    if place is not None:
        notary = evidence_notary(place, evidence_key)
        if not _has_chosen_key(evidence_key):
            _make_folder(place.parent)
    journal: Journal = await postgres.PostgresJournal.open(
        address, clock, notary=notary, checked=checked, may_differ=not _has_chosen_key(evidence_key), inline=inline
    )
    return journal


def _postgres() -> ModuleType:
    """The store in PostgreSQL, which not everybody has installed."""
    from importlib import import_module

    try:
        import_module("amends.journal.postgres.address")
        return import_module("amends.journal.postgres")
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != "psycopg":
            raise
        raise InputError(
            "a journal in PostgreSQL needs psycopg, which is not installed here: pip install 'amends[postgres]'"
        ) from None


def migrate_database(address: str) -> tuple[int, int]:
    """Make the tables of a journal in a database, or bring them forward: from which format to which."""
    found: tuple[int, int] = _postgres().database.migrate(_postgres().address.PostgresAddress(address))
    return found


def transfer(address: str, *, group: str | None = None) -> Transfer:
    """The journal at an address as the source or the target of a copy."""
    if is_database(address):
        from importlib import import_module

        _postgres()
        found: Transfer = import_module("amends.journal.postgres.transfer").PostgresTransfer(address)
        return found
    path = journal_file(address)
    if path is None:
        raise InputError("a journal in memory is gone with its process, and cannot be copied")
    from amends.journal.sqlite.transfer import SqliteTransfer

    return SqliteTransfer(path, sharing_group(group))


def copy_mark(address: str) -> CopyMark | None:
    """How far a journal's copy to another place is, and which; None where there is none. Reads only."""
    path = journal_file(address)
    if path is None:
        store = _postgres()
        with closing(store.database.connected(store.address.PostgresAddress(address), is_target=True)) as found:
            mark: CopyMark | None = store.database.mark_of(found)
        return mark
    from amends.journal.sqlite.database import mark_of
    from amends.journal.sqlite.file import open_to_read

    database = open_to_read(path, busy_timeout_s=5.0, vfs=None)
    try:
        return mark_of(database)
    finally:
        database.close()


def copy_file(source: Path, target: Path) -> None:
    """Copy a journal's file, while others may write to it, to where nothing is. Raises JournalAccessError."""
    from amends.journal.sqlite.backup import copy_file as copied

    copied(source, target)


def is_database(address: str) -> bool:
    """Whether the journal at an address is in PostgreSQL, and no file."""
    return address.partition("://")[0] in _DATABASES and "://" in address


def is_server(address: str) -> bool:
    """Whether an address is that of a server, which has a journal: `https://…`, or `unix:///path` of its socket."""
    return address.partition("://")[0] in _SERVERS and "://" in address


def is_kept(address: str) -> bool:
    """Whether the journal at an address outlives this process."""
    return is_database(address) or is_server(address) or journal_file(address) is not None


def is_there(address: str) -> bool:
    """Whether there is something to look at: a file that exists, or a database, which is asked when it is opened."""
    if is_server(address):
        return True
    path = journal_file(address)
    return is_database(address) or (path is not None and path.exists())


def shown(address: str) -> str:
    """An address as it may be shown and logged: of a connection string, hosts and database alone."""
    return str(_postgres().address.PostgresAddress(address)) if is_database(address) else address


def key_place(address: str) -> Path | None:
    """The path beside which the key of the journal at an address lies, where nobody chose another; None for one in
    memory. A database has none beside it: its key is a file of this user's, named after hosts and database.
    """
    if not is_database(address):
        return journal_file(address)
    state = os.environ.get("XDG_STATE_HOME")
    folder = Path(state) if state else Path("~/.local/state").expanduser()
    return folder / "amends" / f"postgresql-{_postgres().address.PostgresAddress(address).digest}"


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise EvidenceKeyError(
            f"the key that signs would lie in {folder}, which cannot be made ({exc.strerror}); "
            "say where it is: AMENDS_EVIDENCE_KEY_FILE"
        ) from None


def _has_chosen_key(evidence_key: str | None) -> bool:
    from amends.evidence.sign.keys import chosen_by

    return bool(evidence_key or chosen_by(os.environ))


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
        notary = evidence_notary(key_place(address), evidence_key, group=group)
        return DigestKey.of(notary.derived("digests of secrets"))
    except EvidenceKeyError:
        return None


def journal_file(address: str) -> Path | None:
    """The file that an address names; None for `:memory:` and for a database. Raises InputError for a kind that amends
    does not know.
    """
    if address == ":memory:" or is_database(address):
        return None
    if is_server(address):
        raise InputError(
            f"{address} is a server, and this takes the journal itself: run it where the server runs, with --journal "
            "PATH; a program of yours goes through Coordinator.connect(url)"
        )
    scheme, found, rest = address.partition("://")
    if not found and (address.partition(":")[0] in _DATABASES or "password=" in address):
        raise InputError(
            "the journal's address is neither a file nor a database; one in PostgreSQL is written "
            "postgresql://user@host/database (it is not shown here, because it may hold a password)"
        )
    if found and scheme != "sqlite":
        raise InputError(
            f"{scheme}:// is no journal that amends knows; give a file's path, sqlite:///path, :memory:, or "
            "postgresql://user@host/database"
        )
    return Path(rest.removeprefix("/") if found else address)
