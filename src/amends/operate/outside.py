"""Surroundings of a journal, as findings: its place, its log, file rights, the settings that it is found by."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from amends.addresses import copy_mark, has_another_key, is_database, journal_file, sharing_group, shown
from amends.changeset.views.probe import confinement_trouble
from amends.clock import SystemClock
from amends.errors import InputError
from amends.evidence.sign.keys import beside
from amends.journal.port.transfer import refused
from amends.operate.findings import Checkup, HealthFinding
from amends.ownership import KEY, fault, journal_faults, user

LEAST_ROOM: Final = 256 * 1024 * 1024
LARGEST_LOG: Final = 80 * 1024 * 1024
"""Above what the log keeps for itself when all of it is in its place, which is 64 MiB."""


def place(address: str, how: str) -> Iterator[HealthFinding]:
    path = journal_file(address)
    if is_database(address):
        yield HealthFinding(name="journal", state="ok", found=f"{shown(address)}, {how}")
        return
    if path is None:
        yield HealthFinding(
            name="journal", state="look", found=f"in memory, {how}", do="give --journal the path of a file"
        )
        return
    if not path.exists():
        what = f"there is no {path}, {how}"
        yield HealthFinding(
            name="journal", state="look", found=what, do="the first `amends run` makes it; or give --journal"
        )
        return
    size = sum(each.stat().st_size for each in files(path))
    yield HealthFinding(name="journal", state="ok", found=f"{path}, {how}; {size / 1e6:.1f} MB")
    yield from _log(path)
    free = shutil.disk_usage(path.parent).free
    room = f"{free / 1e9:.1f} GB free"
    if free < LEAST_ROOM:
        do = "make room: a full disk stops all dispatch until there is some"
        yield HealthFinding(name="disk", state="wrong", found=room, do=do)
    else:
        yield HealthFinding(name="disk", state="ok", found=room)


def _log(path: Path) -> Iterator[HealthFinding]:
    """The log beside the file, where it is larger than it gets while nobody holds it back."""
    log = Path(f"{path}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > LARGEST_LOG:
        what = f"{log} has {size / 1e6:.0f} MB: somebody has been reading the journal in one go for long"
        do = "end that program's transaction (a shell, a backup, a viewer): the log shrinks after the next writes"
        yield HealthFinding(name="log", state="look", found=what, do=do)


def files(path: Path) -> list[Path]:
    return [each for each in (path, Path(f"{path}-wal"), Path(f"{path}.key")) if each.exists()]


def configuration(asked: Checkup) -> Iterator[HealthFinding]:
    """The file that commands go by, where it is not believed: then they refuse, and this looks on without it."""
    if asked.refused:
        do = "until then every command refuses it; this one goes on as if it were not there"
        yield HealthFinding(name="settings", state="wrong", found=asked.refused, do=do)
    try:
        sharing_group(asked.group)
    except InputError as exc:
        yield HealthFinding(name="settings", state="wrong", found=str(exc), do="name another group, or none")


def shared(group: str | None) -> int | None:
    """The group that shares the journal; one that is not there, or that we are not in, shares nothing here."""
    try:
        return sharing_group(group)
    except InputError:
        return None


def rights(path: Path, group: int | None) -> Iterator[HealthFinding]:
    """Whose the journal, its directory and its key are, and who else could change them."""
    kept = beside(path)
    faults = [*journal_faults(path, group=group)]
    own = fault(kept, KEY, group=group)
    is_anothers = has_another_key(path, None, group)
    faults += [own] if own is not None and own not in faults and not is_anothers else []
    wrong = {each.path for each in faults}
    for file in files(path):
        if str(file.absolute()) not in wrong and not (is_anothers and file.absolute() == kept):
            yield HealthFinding(name="rights", state="ok", found=f"{file} ({file.stat().st_mode & 0o7777:o})")
    if is_anothers:
        what = f"{kept} is the key of {user(kept.lstat().st_uid)}; what is written here is signed by them"
        yield HealthFinding(name="rights", state="look", found=what, do="have them run amends now and then, or work")
    for each in faults:
        yield HealthFinding(name="rights", state="wrong", found=each.what, do=each.do.removeprefix("run: "))


def confining() -> HealthFinding:
    """Whether commands on files can be confined here."""
    trouble = confinement_trouble(SystemClock())
    if not trouble:
        what = "commands on files run confined: no writing outside, no capabilities, no journal, no key"
        return HealthFinding(name="confine", state="ok", found=what)
    do = "allow user namespaces and mounts to whoever runs amends; until then each record says `not confined`"
    return HealthFinding(name="confine", state="look", found=f"commands cannot be confined here: {trouble}", do=do)


async def moved(address: str) -> AsyncIterator[HealthFinding]:
    """Whether sagas go on here, or where the journal was moved to."""
    mark = None if journal_file(address) is None and not is_database(address) else copy_mark(address)
    if mark is not None:
        what, _, do = refused(mark).partition("; ")
        yield HealthFinding(name="moved", state="look", found=what, do=do)
